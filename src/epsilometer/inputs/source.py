"""A source of data: counts, scores, losses and a result, as far as they are known."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from epsilometer.errors import InputError
from epsilometer.inputs.recorded import COUNT, CURVE

if TYPE_CHECKING:
    from epsilometer.attacks.result import AttackResult, ErrorCurves
    from epsilometer.judgement.result import Result
    from epsilometer.model.counts import AttackCounts
    from epsilometer.model.scores import Scores

#: Target false-positive rate at which the errors of losses are counted.
DEFAULT_RATE = 0.1


@dataclass(frozen=True, kw_only=True)
class LossOptions:
    """How losses become scores, and counts for the count model.

    ``failures`` is the score of failed models, see `attacks/statistics.py`; default: that of an audit,
    or the lowest.  Defaults are used for losses if nothing else is given.
    """

    statistic: str | None = None
    target_alpha: float | None = None
    variant: str | None = None
    default_statistic: str | None = None
    failures: str | None = None
    default_failures: str | None = None

    @property
    def given(self) -> str | None:
        """The first of these options that was given, if any."""
        names = ("statistic", "target_alpha", "variant", "failures")
        return next((name for name in names if getattr(self, name) is not None), None)


NO_OPTIONS = LossOptions()


@dataclass(frozen=True, kw_only=True)
class Source:
    """The data of one file, folder, store or object.

    Attributes
    ----------
    label
        The name of a file, the path of a folder, or the kind of object.
    counts, scores
        The data: one of the two or both.
    attack, target_alpha
        How the losses behind the scores are turned into counts: for a result, by the attack of its
        audit; None for a file of scores, and for a pool.
    result
        The result that was read or given, if it was one.
    reread
        Reads the losses in the folder of a result, if it has any.
    flaws
        Why the data cannot be relied on, a sentence each.
    """

    label: str
    counts: AttackCounts | None = None
    scores: Scores | None = None
    attack: Callable[[], AttackResult] | None = None
    target_alpha: float = DEFAULT_RATE
    result: Result | None = None
    reread: Callable[[], Source] | None = None
    flaws: tuple[str, ...] = ()

    @property
    def asked(self) -> dict[str, Any]:
        """The question of the result, as arguments of `Question`; empty without one."""
        return {} if self.result is None else dict(vars(self.result.question))

    def answer(self, kind: str) -> Result | None:
        """The result of one of the two models, if there is one."""
        if self.result is None or self.result.kind == kind:
            return self.result
        return getattr(self.result, "beside", None)

    @property
    def models(self) -> Scores | None:
        """Scores of every model, if known."""
        if self.scores is None and self.reread is not None:
            # A custom statistic is not run; the counts remain.
            with suppress(InputError):
                return self.reread().scores
        return self.scores

    @property
    def provable(self) -> Any:
        """The data that proofs are made from: scores of every model if known, otherwise counts."""
        return self.counts if self.models is None else self.models

    @property
    def kind(self) -> str:
        """The default model: that of the result, or the one that suits the data."""
        if self.result is not None:
            return self.result.kind
        return COUNT if self.scores is None else CURVE

    def data(self, kind: str) -> Any:
        """The data for a model of that kind."""
        if kind == COUNT:
            return self._counts()
        if self.scores is None and self.reread is not None:
            return self.reread().data(kind)
        return self.counts if self.scores is None else self.scores

    def _counts(self) -> AttackCounts:
        """Counts as given, or those of the attack at one target rate."""
        if self.counts is not None:
            return self.counts
        beside: Any = self.answer(COUNT)
        if self.attack is None and beside is not None:
            return beside.data  # type: ignore[no-any-return]
        if self.attack is None and self.reread is not None:
            return self.reread()._counts()
        if self.attack is None:
            raise InputError(
                f"{self.label}: the count model needs counts or losses, got scores; `model=curve` reads "
                "scores."
            )
        return self.attack().counts(self.target_alpha).with_flaws(self.flaws)

    @property
    def curves(self) -> ErrorCurves | None:
        """Error counts at all target rates, of the losses in a result's folder, if it has any."""
        # A custom statistic is not run.
        with suppress(InputError):
            again = None if self.reread is None else self.reread().attack
            return None if again is None else again().sweep()
        return None
