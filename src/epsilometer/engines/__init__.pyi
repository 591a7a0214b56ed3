"""Settings of the engines, and the posteriors and curves over delta that they make."""

from epsilometer.engines.curve.engine import CurveSettings as CurveSettings
from epsilometer.engines.curve.over_delta import JointDeltaCurve as JointDeltaCurve
from epsilometer.engines.curve.posterior import CurvePosterior as CurvePosterior
from epsilometer.engines.exact.delta_sweep import estimate_curve as estimate_curve
from epsilometer.engines.exact.engine import ExactSettings as ExactSettings
from epsilometer.engines.mcmc.driver import McmcSettings as McmcSettings
from epsilometer.posteriors.over_delta import DeltaCurve as DeltaCurve
from epsilometer.posteriors.posterior import CountPosterior as CountPosterior

__all__: list[str]
