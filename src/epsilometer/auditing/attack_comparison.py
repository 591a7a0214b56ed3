"""Attack comparisons of a store, of the configuration of an audit, or of a file of losses."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from epsilometer._arrays import IntArray
from epsilometer._files import printable
from epsilometer._text import counted
from epsilometer.attacks.pool_attacks import POOL_ATTACKS, most_leaking
from epsilometer.attacks.pool_losses import PoolLosses
from epsilometer.attacks.rules import ATTACKS, LikelihoodRatio
from epsilometer.attacks.statistics import FAILURES, STATISTICS
from epsilometer.auditing.config import read_audit
from epsilometer.comparison.attacks import (
    JUDGED,
    AttackComparison,
    Judge,
    compare_model_attacks,
    compare_pool_attacks,
)
from epsilometer.errors import InputError
from epsilometer.inputs.sources import DEFAULT_STATISTIC, choose_variant, read_losses
from epsilometer.measurement.store import SqliteStore

#: Sets of points beside the judged ones.
RANDOM, LEAKIEST = "random", "leakiest in the first stage"

#: Default attack on losses of many models.
OWN = f"{LikelihoodRatio().name}, {DEFAULT_STATISTIC}"


@dataclass(frozen=True, kw_only=True)
class Attacked:
    """Losses, the design that measured them, and the delta and claim of the audit."""

    label: str
    losses: Any
    design: Any
    #: The audit's own attack on many models.
    own: str = OWN
    #: Models that failed: the remaining ones are a selection.
    failed: int = 0
    #: Their scores.
    failures: str = FAILURES[0]
    delta: float | None = None
    claim: float | None = None

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

    def compared(self, judge: Judge, claim: float | None) -> AttackComparison:
        """Every attack on these losses."""
        claim = self.claim if claim is None else claim
        judge = replace(judge, own=self.own, claim=claim, source=printable(self.label))
        losses, design = self.losses, self.design
        if isinstance(losses, PoolLosses):
            teachers, points = design.first_models(losses), self.point_sets()
            source = (
                f"{judge.source}: {losses.models:,} models, {counted(losses.challenges, 'point')}; "
                f"{losses.models - len(teachers):,} models judge {counted(len(points[JUDGED]), 'point')}"
            )
            judge = replace(judge, own=design.attack_method.name, source=source)
            given: Any = {"teachers": teachers, "points": points, "judge": judge}
            return compare_pool_attacks(losses, POOL_ATTACKS, **given)
        attacks = {}
        for statistic in STATISTICS.values():
            if np.nanmin(losses.loss) < statistic.least_loss:
                continue  # no cross-entropy, so no log odds
            scores = design.scores(losses, statistic, skip=True, failures=self.failures)
            for name, rule in ATTACKS.items():
                attacked = design.attack(losses, rule, statistic=statistic)
                attacks[f"{name}, {statistic.name}"] = (attacked, scores)
        return compare_model_attacks(attacks, judge)


def read_attacked(path: Path, *, variant: str | None = None) -> Attacked:
    """Losses of a store, of the store of a configuration, or of a file."""
    if path.suffix.lower() == ".toml":
        found = _of_configuration(path, variant)
    else:
        losses, design, failed = read_losses(path, variant)
        found = Attacked(label=path.name, losses=losses, design=design, failed=failed or 0)
    if getattr(found.losses, "one_run", False):
        raise InputError(
            f"{found.label}: canaries of one run have one score each; attacks are compared on pools or "
            "on many models."
        )
    return found


def _of_configuration(path: Path, variant: str | None) -> Attacked:
    settings = read_audit(path)
    plan, file = settings.plan, settings.store
    if not file.is_file():
        raise InputError(
            f"{path.name}: its store {file.name} does not exist yet: run the audit first."
        )
    with SqliteStore(file, read_only=True) as store:
        # Measured losses remain valid if the code has changed.
        store.check(plan, accept_changed_code=True)
        sizes = store.sizes()
        losses: Any = store.measured(sizes, choose_variant(sizes.variants, variant))
        failed = len(store.failures(sizes))
    claim = None if settings.claim is None else settings.claim.epsilon
    return Attacked(
        label=f"{file.name} of {path.name}",
        losses=plan.with_records(losses),
        design=plan.design,
        own=f"{settings.attack.name}, {settings.statistic.name}",
        failed=failed,
        failures=settings.failures,
        delta=settings.delta,
        # Where nothing is promised there is no gap to it.
        claim=claim if claim is not None and math.isfinite(claim) else None,
    )
