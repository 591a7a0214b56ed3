"""Attacks on losses, statistics and operating points."""

from epsilometer.attacks.lira import Lira as Lira
from epsilometer.attacks.lira import LiraOffline as LiraOffline
from epsilometer.attacks.pool_attacks import PoolAttack as PoolAttack
from epsilometer.attacks.pool_attacks import cross_fitted_scores as cross_fitted_scores
from epsilometer.attacks.pool_attacks import held_out_scores as held_out_scores
from epsilometer.attacks.pool_attacks import most_leaking as most_leaking
from epsilometer.attacks.result import AttackResult as AttackResult
from epsilometer.attacks.result import OperatingPoint as OperatingPoint
from epsilometer.attacks.result import split_counts as split_counts
from epsilometer.attacks.rmia import Rmia as Rmia
from epsilometer.attacks.rmia import RmiaOffline as RmiaOffline
from epsilometer.attacks.rules import LikelihoodRatio as LikelihoodRatio
from epsilometer.attacks.rules import Offline as Offline
from epsilometer.attacks.rules import PooledVariance as PooledVariance
from epsilometer.attacks.rules import Threshold as Threshold
from epsilometer.attacks.single_loss import PoolLogOdds as PoolLogOdds
from epsilometer.attacks.single_loss import PoolLoss as PoolLoss
from epsilometer.attacks.single_loss import PopulationAttack as PopulationAttack
from epsilometer.attacks.statistics import CustomStatistic as CustomStatistic
from epsilometer.attacks.statistics import Logit as Logit
from epsilometer.attacks.statistics import Loss as Loss
from epsilometer.attacks.statistics import Statistic as Statistic
from epsilometer.attacks.statistics import scores_of as scores_of

__all__: list[str]
