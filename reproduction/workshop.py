"""What every figure needs: an engine, the losses and an output folder."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import epsilometer as em

from .audits import Audit, load_audits
from .drawing import curves_above_posteriors

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Quadrature, or the sampler with the settings of the paper's appendix.
ENGINES = ("exact", "published")

#: Families of curves that are also reported alone.
FAMILIES: dict[str, em.families.Gaussian | em.families.Laplace] = {
    "gaussian": em.families.Gaussian(),
    "laplace": em.families.Laplace(),
}

SEED = 1


class Workshop:
    """Compute posteriors once and cache them: several figures show the same six.

    Parameters
    ----------
    output
        A folder, made if it is not there.
    engine
        One of `ENGINES`.
    losses
        The folder with the losses of the six audits; default: the ones in the tree.
    sampler
        What chains are drawn with, for the figures that show chains.
    say
        Is told what is being done.
    """

    def __init__(
        self,
        output: Path,
        *,
        engine: str = "exact",
        losses: Path | None = None,
        sampler: em.engines.McmcSettings | None = None,
        say: Callable[[str], None] = print,
    ) -> None:
        self.output = output
        self.engine = engine
        self.say = say
        self._losses = losses
        self._sampler = sampler or em.engines.McmcSettings(seed=SEED)
        self._audits: dict[str, Audit] | None = None
        self._posteriors: dict[tuple[str, str, str], em.engines.CountPosterior] = {}
        self._curves: dict[tuple[str, str, str], em.engines.CurvePosterior] = {}
        output.mkdir(parents=True, exist_ok=True)

    @property
    def audits(self) -> dict[str, Audit]:
        """The six algorithms by name, with the losses of their models."""
        if self._audits is None:
            self._audits = load_audits(self._losses)
        return self._audits

    def config(self, script: str) -> dict[str, Any]:
        """The settings next to a script."""
        return tomllib.loads(Path(script).with_name("config.toml").read_text(encoding="utf-8"))

    def estimate(self, counts: em.AttackCounts, model: em.CountModel) -> em.engines.CountPosterior:
        """The posterior by the selected engine."""
        published = self.engine == "published"
        sampler = em.engines.McmcSettings.published(seed=SEED) if published else None
        posterior: em.engines.CountPosterior = em.estimate(counts, model, sampler)
        return posterior

    def posterior(
        self, name: str, *, statistic: em.attacks.Statistic | None = None
    ) -> em.engines.CountPosterior:
        """The posterior for one of the six algorithms."""
        audit = self.audits[name]
        statistic = statistic or em.attacks.Loss()
        key = (self.engine, name, statistic.name)
        if key not in self._posteriors:
            self.say(f"estimating epsilon of {audit.title} from its {statistic.name} statistic")
            counts = audit.attacked(statistic).counts(audit.target_alpha)
            self._posteriors[key] = self.estimate(counts, audit.model)
        return self._posteriors[key]

    def curve(
        self, name: str, *, statistic: em.attacks.Statistic, family: str = ""
    ) -> em.engines.CurvePosterior:
        """The posterior of the whole trade-off curve, from the scores of all models; always exact.

        Of all families with all mixtures, or of one of `FAMILIES` alone.
        """
        audit = self.audits[name]
        key = (name, statistic.name, family)
        if key not in self._curves:
            alone = f", {family} alone" if family else ""
            self.say(f"estimating the curve of {audit.title}{alone}")
            model = em.CurveModel(delta=audit.model.delta)
            if family:
                model = em.CurveModel(
                    delta=audit.model.delta,
                    families=(FAMILIES[family],),
                    mixing=em.families.NoMixing(),
                )
            self._curves[key] = em.estimate(audit.scored(statistic), model)
        return self._curves[key]

    def chains(self, name: str) -> em.engines.CountPosterior:
        """Draws of a Markov chain: of our sampler, or of the published one if selected."""
        if self.engine == "published":
            return self.posterior(name)
        audit = self.audits[name]
        key = ("sampler", name, "loss")
        if key not in self._posteriors:
            self.say(f"sampling the posterior of {audit.title}")
            counts = audit.attacked(em.attacks.Loss()).counts(audit.target_alpha)
            self._posteriors[key] = em.estimate(counts, audit.model, self._sampler)
        return self._posteriors[key]

    def save(self, figure: Figure, name: str) -> None:
        """Write a figure as PNG and PDF."""
        for kind in ("png", "pdf"):
            metadata = {"Software": None} if kind == "png" else {"CreationDate": None}
            figure.savefig(self.output / f"{name}.{kind}", dpi=200, metadata=metadata)
        self.say(f"made {self.output / name}.png and .pdf")

    def write(self, name: str, text: str) -> None:
        """Write a table or the numbers behind a figure."""
        (self.output / name).write_text(text, encoding="utf-8")
        self.say(f"made {self.output / name}")

    def write_numbers(self, name: str, numbers: Any) -> None:
        """Write the numbers behind a figure as JSON."""
        self.write(name, json.dumps(numbers, indent=1, allow_nan=False) + "\n")


def curves_and_posteriors(workshop: Workshop, name: str, algorithms: list[str]) -> None:
    """Make a figure with error curves above joint posteriors, and the numbers behind it."""
    panels, numbers = [], {}
    for algorithm in algorithms:
        audit, posterior = workshop.audits[algorithm], workshop.posterior(algorithm)
        result = audit.attacked(em.attacks.Loss())
        panels.append((audit.title, result, audit.target_alpha, posterior))
        counts = result.counts(audit.target_alpha)
        low, high = posterior.credible_interval("epsilon", 0.9)
        numbers[algorithm] = {
            "epsilon": [low, posterior.median("epsilon"), high],
            "mean_strength": posterior.mean("strength"),
            "false_positives": counts.false_positives.tolist(),
            "false_negatives": counts.false_negatives.tolist(),
        }
    workshop.save(curves_above_posteriors(panels), name)
    workshop.write_numbers(f"{name}.json", numbers)
