"""Input of attack comparisons: a store, the configuration of an audit, or a file of losses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from epsilometer._arrays import IntArray
from epsilometer.attacks.losses import Losses
from epsilometer.attacks.pool_attacks import most_leaking
from epsilometer.attacks.pool_losses import PoolLosses
from epsilometer.attacks.result import AttackResult
from epsilometer.attacks.rules import ATTACKS, LikelihoodRatio
from epsilometer.attacks.statistics import STATISTICS
from epsilometer.auditing.config import read_audit
from epsilometer.errors import InputError
from epsilometer.inputs.loss_files import choose_variant, read_losses
from epsilometer.inputs.sources import DEFAULT_STATISTIC
from epsilometer.measurement.store import SqliteStore
from epsilometer.model.scores import Scores

JUDGED, RANDOM, LEAKIEST = "judged", "random", "leakiest in the first stage"
"""Sets of points."""

OWN = f"{LikelihoodRatio().name}, {DEFAULT_STATISTIC}"
"""Default attack on losses of many models."""


@dataclass(frozen=True, kw_only=True)
class Attacked:
    """Losses, the design that measured them, and the delta and claim of the audit."""

    label: str
    losses: Any
    design: Any
    delta: float | None = None
    claim: float | None = None
    own: str = OWN
    """The audit's own attack on many models."""
    store: Path | None = None
    """Where the losses of a configuration are."""

    @property
    def pool(self) -> bool:
        """Whether points share models."""
        return isinstance(self.losses, PoolLosses)

    def point_sets(self) -> dict[str, IntArray]:
        """Sets of points of a pool: the evaluated ones, random ones and the leakiest ones."""
        judged = self.design.judged_points(self.losses)
        count = len(judged)
        sets = {JUDGED: judged}
        # The pool is in random order after the selected points.
        behind = np.arange(count, min(2 * count, self.losses.challenges))
        if len(behind) == count:
            sets[RANDOM] = behind
        first = self.design.first_models(self.losses)
        if len(first) >= 4 and not self.design.pilot:
            sets[LEAKIEST] = most_leaking(self.losses, models=first, count=count)
        return sets

    def model_attacks(self) -> dict[str, tuple[AttackResult, Scores]]:
        """Attacks on many models by name: every rule on every statistic, with its scores."""
        assert isinstance(self.losses, Losses)
        attacks = {}
        for statistic in STATISTICS.values():
            if self.losses.loss.min() < statistic.least_loss:
                continue  # no cross-entropy, so no log odds
            scores = self.design.scores(self.losses, statistic, skip=True)
            for name, rule in ATTACKS.items():
                attacked = self.design.attack(self.losses, rule, statistic=statistic)
                attacks[f"{name}, {statistic.name}"] = (attacked, scores)
        return attacks


def read_attacked(path: Path, *, variant: str | None = None) -> Attacked:
    """Losses of a store, of the store of a configuration, or of a file."""
    if path.suffix.lower() != ".toml":
        file_losses, design = read_losses(path, variant)
        return _checked(Attacked(label=path.name, losses=file_losses, design=design))
    settings = read_audit(path)
    if not settings.store.is_file():
        raise InputError(
            f"{path.name}: its store {settings.store.name} does not exist yet: run the audit first."
        )
    plan = settings.plan
    with SqliteStore(settings.store, read_only=True) as store:
        # Measured losses remain valid if the code has changed.
        store.check(plan, accept_changed_code=True)
        sizes = store.sizes()
        losses: Any = store.measured(sizes, choose_variant(sizes.variants, variant))
    claim = None if settings.claim is None else settings.claim.epsilon
    if claim is not None and not math.isfinite(claim):
        claim = None  # nothing is promised, so there is no gap to it
    return _checked(
        Attacked(
            label=f"{settings.store.name} of {path.name}",
            losses=plan.with_records(losses),
            design=plan.design,
            own=f"{settings.attack.name}, {settings.statistic.name}",
            store=settings.store,
            delta=settings.delta,
            claim=claim,
        )
    )


def _checked(found: Attacked) -> Attacked:
    if getattr(found.losses, "one_run", False):
        raise InputError(
            f"{found.label}: canaries of one run have one score each; attacks are compared on pools or "
            "on many models."
        )
    return found
