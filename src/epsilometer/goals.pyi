"""Goals, designs, scenarios and the answer of `plan`."""

from epsilometer.planning.designs import ManyModels as ManyModels
from epsilometer.planning.designs import OneRunCanaries as OneRunCanaries
from epsilometer.planning.designs import PoolModels as PoolModels
from epsilometer.planning.goals import AssumedCurve as AssumedCurve
from epsilometer.planning.goals import AssumedScenario as AssumedScenario
from epsilometer.planning.goals import DecidedClaim as DecidedClaim
from epsilometer.planning.goals import IntervalWidth as IntervalWidth
from epsilometer.planning.goals import PilotScenario as PilotScenario
from epsilometer.planning.goals import ProvenEpsilon as ProvenEpsilon
from epsilometer.planning.plan import AuditPlan as AuditPlan
from epsilometer.planning.plan import PlannedDesign as PlannedDesign

__all__: list[str]
