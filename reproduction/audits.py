"""The six audits of section 4.2: which models they come from, their losses, and how they are attacked.

A1 and A3 release what was trained from fixed initial weights, A2 and A4 from random ones; A3 and A4 add
normal noise to every weight.  The losses in ``experiment/`` were made by `train` from the two audit
files there.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import epsilometer as em

EXPERIMENT = Path(__file__).parent / "experiment"


@dataclass(frozen=True, kw_only=True)
class Source:
    """Source of one algorithm's losses: an audit file and one of its noise scales."""

    title: str
    config: str
    noise: str


SOURCES = {
    "A1": Source(title="A1, fixed initial weights", config="fixed", noise="0.0"),
    "A2": Source(title="A2, random initial weights", config="random", noise="0.0"),
    "A3": Source(title="A3, fixed, noise 0.1", config="fixed", noise="0.1"),
    "A4": Source(title="A4, random, noise 0.1", config="random", noise="0.1"),
    "A4-0.05": Source(title="A4, random, noise 0.05", config="random", noise="0.05"),
    "A4-0.01": Source(title="A4, random, noise 0.01", config="random", noise="0.01"),
}


@dataclass(frozen=True, kw_only=True)
class Audit:
    """One algorithm with the losses of its models."""

    title: str
    losses: em.Losses
    model: em.CountModel
    target_alpha: float

    def attacked(self, statistic: em.attacks.Statistic) -> em.attacks.AttackResult:
        """Every model attacked with all others of its base as shadow models."""
        return em.rows.cross_feed(self.losses, em.attacks.LikelihoodRatio(), statistic=statistic)

    def scored(self, statistic: em.attacks.Statistic) -> em.Scores:
        """The scores of all models, for the curve model."""
        return em.attacks.scores_of(self.losses, statistic)


def load_audits(folder: Path | None = None) -> dict[str, Audit]:
    """All six, with losses from a folder that `train` wrote (default: the ones in the tree)."""
    folder = EXPERIMENT / "losses" if folder is None else folder
    audits = {}
    for name, source in SOURCES.items():
        text = (EXPERIMENT / f"{source.config}.toml").read_text(encoding="utf-8")
        settings = tomllib.loads(text)
        audits[name] = Audit(
            title=source.title,
            losses=em.Losses.read(folder / f"{name}.parquet"),
            model=em.CountModel(
                delta=settings["estimate"]["delta"], likelihood=em.likelihoods.CorrelatedNormal()
            ),
            target_alpha=settings["attack"]["target_alpha"],
        )
    return audits


def train(folder: Path, *, say: Callable[[str], None]) -> None:
    """Train all 8,000 models and write their losses; if interrupted, it resumes.

    Also writes ``plan.json``: what was trained, by the hashes that the stores know it by.
    """
    folder.mkdir(parents=True, exist_ok=True)
    plans = {}
    for config in ("random", "fixed"):
        audit = em.rows.read_audit(EXPERIMENT / f"{config}.toml")
        say(f"training {config}: {audit.plan.sizes.models:,} models of 200 epochs")
        measurement = em.measure(
            audit.plan,
            folder / f"{config}.db",
            executor="threads",
            workers=os.cpu_count(),
            on_progress=_every(500, say),
        )
        for name, source in SOURCES.items():
            if source.config == config:
                measurement.losses[source.noise].write(folder / f"{name}.parquet")
        plans[config] = {
            "hash": audit.plan.content_hash,
            "identity": audit.plan.identity,
            "models": audit.plan.sizes.models,
            "failed": len(measurement.failures),
        }
    (folder / "plan.json").write_text(json.dumps(plans, indent=1) + "\n", encoding="utf-8")


def _every(models: int, say: Callable[[str], None]) -> Callable[[em.rows.Progress], None]:
    """Report progress every few models."""
    said = -1

    def show(now: em.rows.Progress) -> None:
        nonlocal said
        if now.done // models > said:
            said = now.done // models
            say(f"{now.done:,} of {now.total:,} models")

    return show
