"""Parts of data and plans: records, bases, canaries, challenge points, measurements."""

from epsilometer._table import Table as Table
from epsilometer.auditing.config import AuditConfig as AuditConfig
from epsilometer.auditing.config import read_audit as read_audit
from epsilometer.measurement.bases import ChallengeBase as ChallengeBase
from epsilometer.measurement.bases import Include as Include
from epsilometer.measurement.bases import Replace as Replace
from epsilometer.measurement.canary_kinds import CustomCanaries as CustomCanaries
from epsilometer.measurement.challenges import CustomPoints as CustomPoints
from epsilometer.measurement.challenges import Outliers as Outliers
from epsilometer.measurement.designs import cross_feed as cross_feed
from epsilometer.measurement.engine import Measurement as Measurement
from epsilometer.measurement.engine import TrainingCheck as TrainingCheck
from epsilometer.measurement.engine import check_training as check_training
from epsilometer.measurement.engine import claim_from_training as claim_from_training
from epsilometer.measurement.population import Dataset as Dataset
from epsilometer.measurement.population import Point as Point
from epsilometer.measurement.run import Progress as Progress
from epsilometer.model.count_tables import MeasuredBy as MeasuredBy
from epsilometer.model.pool_scores import PoolScores as PoolScores

__all__: list[str]
