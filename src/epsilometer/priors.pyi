"""Priors of epsilon, strengths and spreads."""

from epsilometer.model.priors import Beta as Beta
from epsilometer.model.priors import Exponential as Exponential
from epsilometer.model.priors import Fixed as Fixed
from epsilometer.model.priors import HalfCauchy as HalfCauchy
from epsilometer.model.priors import HalfNormal as HalfNormal
from epsilometer.model.priors import LogNormal as LogNormal
from epsilometer.model.priors import Uniform as Uniform

__all__: list[str]
