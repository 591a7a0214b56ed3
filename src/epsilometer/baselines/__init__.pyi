"""Estimators of other people, from counts and from scores."""

from epsilometer.baselines.estimator import best_base as best_base
from epsilometer.baselines.estimator import pooled as pooled
from epsilometer.baselines.intervals import AdjustedLog as AdjustedLog
from epsilometer.baselines.intervals import Bailey as Bailey
from epsilometer.baselines.intervals import ClopperPearson as ClopperPearson
from epsilometer.baselines.intervals import GaussianRates as GaussianRates
from epsilometer.baselines.intervals import InverseSinh as InverseSinh
from epsilometer.baselines.intervals import Jeffreys as Jeffreys
from epsilometer.baselines.intervals import Katz as Katz
from epsilometer.baselines.joint_beta import JointBeta as JointBeta
from epsilometer.baselines.one_run import ApproximateDP as ApproximateDP
from epsilometer.baselines.one_run import GaussianDP as GaussianDP
from epsilometer.baselines.one_run import OneRunBound as OneRunBound
from epsilometer.baselines.one_run import OneRunFdpBound as OneRunFdpBound
from epsilometer.baselines.one_run import epsilon_one_run as epsilon_one_run
from epsilometer.baselines.one_run import epsilon_one_run_fdp as epsilon_one_run_fdp
from epsilometer.baselines.one_run import one_run_p_value as one_run_p_value
from epsilometer.baselines.scores import Bonferroni as Bonferroni
from epsilometer.baselines.scores import CanaryScoreAuditor as CanaryScoreAuditor
from epsilometer.baselines.scores import Explicit as Explicit
from epsilometer.baselines.scores import Ranks as Ranks
from epsilometer.baselines.scores import Split as Split

__all__: list[str]
