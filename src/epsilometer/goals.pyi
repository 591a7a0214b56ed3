"""Goals, scenarios and answers of `plan`."""

from epsilometer.planning.canary_simulation import AssumedCurve as AssumedCurve
from epsilometer.planning.goals import CrossFedModels as CrossFedModels
from epsilometer.planning.goals import DecidedClaim as DecidedClaim
from epsilometer.planning.goals import IntervalWidth as IntervalWidth
from epsilometer.planning.goals import SeparateShadows as SeparateShadows
from epsilometer.planning.one_run import OneRunCanaries as OneRunCanaries
from epsilometer.planning.one_run import OneRunPlan as OneRunPlan
from epsilometer.planning.one_run import PlannedCanaries as PlannedCanaries
from epsilometer.planning.one_run import ProofSize as ProofSize
from epsilometer.planning.plan import AuditPlan as AuditPlan
from epsilometer.planning.plan import PlannedDesign as PlannedDesign
from epsilometer.planning.scenarios import AssumedScenario as AssumedScenario
from epsilometer.planning.scenarios import PilotScenario as PilotScenario

__all__: list[str]
