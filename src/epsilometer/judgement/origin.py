"""Where the data of a result come from, and what single bases leak: plain records for views."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True, kw_only=True, eq=False)
class Origin:
    """How the data were produced, as far as known; empty for data supplied by a user.

    Attributes
    ----------
    plan
        What was audited: hash, population, adjacency, design, dataset_size, seed; the kind of challenge
        points unless they are random.
    attack
        The attack: target_alpha, statistic, attack, and any metadata of the attack itself.
    models, failures
        Numbers of models trained, reused and failed; the failures, each as plain values.
    warnings
        Warnings from the attack, and problems with the challenge points.
    curves
        Error counts over target rates: an ``ErrorCurves`` from `attacks`, opaque to the judgement.
    tables
        Data to write next to the result, by file name: anything with ``write(path)``.
    variant, siblings
        Which of several variants made from the same models, and the others.
    stopping
        Why an audit with early stopping ended, as plain values.
    """

    plan: Mapping[str, Any] = field(default_factory=dict)
    attack: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, int] = field(default_factory=dict)
    failures: tuple[Any, ...] = ()
    warnings: tuple[str, ...] = ()
    curves: Any = None
    tables: Mapping[str, Any] = field(default_factory=dict)
    variant: str | None = None
    siblings: tuple[str, ...] = ()
    stopping: Mapping[str, Any] = field(default_factory=dict)

    @property
    def target_alpha(self) -> float | None:
        """The false-positive rate that the attacks aimed at."""
        value = self.attack.get("target_alpha")
        return None if value is None else float(value)


class BaseLeak(NamedTuple):
    """What one base leaks: its own epsilon, at the level of the question."""

    name: str
    auc: float
    low: float
    median: float
    high: float
    models_h0: int
    models_h1: int
