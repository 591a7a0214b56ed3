"""One judgement: question, claims, thresholds, verdicts."""

from epsilometer.judgement.claims import ClaimedCurve as ClaimedCurve
from epsilometer.judgement.claims import NoPromise as NoPromise
from epsilometer.judgement.origin import Origin as Origin
from epsilometer.judgement.question import Question as Question
from epsilometer.judgement.verdict import Grounds as Grounds
from epsilometer.judgement.verdict import Outcome as Outcome
from epsilometer.judgement.verdict import Thresholds as Thresholds

__all__: list[str]
