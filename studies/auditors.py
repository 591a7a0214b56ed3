"""Auditing methods on the same ideal canaries.

Every setting has a known epsilon and is drawn repeatedly; every method uses the same scores.  Forty
minutes on one core.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import logsumexp, ndtr
from scipy.stats import binom

import epsilometer as em
from epsilometer.model.gaussian_mechanism import epsilon_of_gaussian
from studies.mechanisms import GaussianMechanism, Mechanism, SubsampledGaussian
from studies.runner import Cell, Plan, Tallies
from studies.tables import Row, Tables, markdown

DRAWS = "draws.csv"
DELTA, SEED, DIGITS = 1e-5, 20260101, 4

Floats = NDArray[np.float64]
Pair = tuple[Floats, Floats]

# --- white-box DP-SGD, as an ideal auditor sees it ---------------------------------------------

#: Noise multiplier, sampling rate, steps.
SIGMA, RATE, STEPS = 3.0, 1 / 11, 2200


def dp_sgd(canaries: int, rng: np.random.Generator, *, ratio: bool) -> Pair:
    """Scores of canaries whose gradients are orthogonal to all others: members first.

    Step t shows Bernoulli(q) of a member, 0 of another canary, plus sigma N(0, 1).  The score is the
    log likelihood ratio of all steps, or their sum.
    """
    found = np.empty(canaries)
    half, chunk = canaries // 2, 250
    for first in range(0, canaries, chunk):
        member = np.arange(first, min(first + chunk, canaries)) < half
        shape = (len(member), STEPS)
        used = (rng.random(shape) < RATE) & member[:, None]
        seen = used + SIGMA * rng.standard_normal(shape)
        if ratio:
            seen = np.log1p(RATE * np.expm1(seen / SIGMA**2 - 1 / (2 * SIGMA**2)))
        found[first : first + len(member)] = seen.sum(axis=1)
    return found[:half], found[half:]


def accountant_epsilon() -> float:
    """Epsilon of the whole training from dp_accounting, to 1e-4: true for the likelihood ratio."""
    from dp_accounting.pld import privacy_loss_distribution

    step = privacy_loss_distribution.from_gaussian_mechanism(
        SIGMA, sampling_prob=RATE, value_discretization_interval=1e-4, use_connect_dots=True
    )
    return float(step.self_compose(STEPS).get_epsilon_for_delta(DELTA))


def sum_epsilon() -> float:
    """Epsilon of the sum of all steps: N(K, T sigma^2) with K from Binomial(T, q), against K = 0.

    The likelihood ratio rises with the sum, so both hockey-stick divergences are differences of tails.
    """
    times = np.arange(STEPS + 1)
    weight, noise = binom.logpmf(times, STEPS, RATE), SIGMA * math.sqrt(STEPS)

    def log_ratio(x: float) -> float:
        return float(logsumexp(weight + (times * x - times**2 / 2) / noise**2))

    def delta(epsilon: float, side: int) -> float:
        cut = brentq(lambda x: log_ratio(x) - side * epsilon, -60 * noise, 60 * noise)
        without = ndtr(-side * cut / noise)
        with_point = float(np.exp(weight) @ ndtr(-side * (cut - times) / noise))
        both = (with_point, without) if side > 0 else (without, with_point)
        return float(both[0] - math.exp(epsilon) * both[1])

    return max(
        float(brentq(lambda e: delta(e, side) - DELTA, 0.1, 30.0))  # noqa: B023 - used at once
        for side in (1, -1)
    )


# --- settings ---------------------------------------------------------------------------------

#: With the sampling rate that is given to the Gaussian model.
MECHANISMS: dict[str, tuple[Mechanism, float | None]] = {
    "Gaussian, μ = 0.5": (GaussianMechanism(0.5), None),
    "Gaussian, μ = 1": (GaussianMechanism(1.0), None),
    "Gaussian, μ = 2": (GaussianMechanism(2.0), None),
    "subsampled Gaussian, μ = 2, rate 0.2": (SubsampledGaussian(2.0, 0.2), 0.2),
}

RATIO, SUM = "DP-SGD, likelihood ratio", "DP-SGD, sum"
MAHLOUJIFAR, AGRAWAL = "Mahloujifar et al. (2024)", "Agrawal et al. (2026)"
WHITE_BOX = {"normal fit": (5.79, AGRAWAL), "Steinke": (1.86, AGRAWAL)}
#: Numbers that papers report for a setting: by method, the value and the paper.
QUOTED: dict[tuple[str, int], dict[str, tuple[float, str]]] = {
    (RATIO, 5000): WHITE_BOX,
    (SUM, 5000): WHITE_BOX,
    ("Gaussian, μ = 2", 100_000): {"Gaussian f-DP": (8.16, MAHLOUJIFAR)},
    ("Gaussian, μ = 1", 100_000): {"Gaussian f-DP": (3.61, MAHLOUJIFAR)},
    ("Gaussian, μ = 0.5", 100_000): {"Gaussian f-DP": (1.59, MAHLOUJIFAR)},
}


@dataclass(frozen=True, kw_only=True)
class AuditorsCell(Cell):
    """A setting with so many canaries, half of them included.

    Settings with the same ``stream`` have the same noise.
    """

    setting_name: str
    canaries: int
    stream: int

    chunk: ClassVar[int] = 1

    def truth(self) -> float:
        """Epsilon of what is attacked."""
        if self.setting_name in MECHANISMS:
            return MECHANISMS[self.setting_name][0].epsilon(DELTA)
        return accountant_epsilon() if self.setting_name == RATIO else sum_epsilon()

    def rng(self, seed: int, part: str, first: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(SEED, spawn_key=(self.stream, first)))

    def draw(self, rng: np.random.Generator) -> Pair:
        """Scores of members and of non-members."""
        if self.setting_name not in MECHANISMS:
            return dp_sgd(self.canaries, rng, ratio=self.setting_name == RATIO)
        member = np.arange(self.canaries) < self.canaries // 2
        scores = MECHANISMS[self.setting_name][0].scores(member, rng)
        return scores[member], scores[~member]

    def judge(self, part: str, significance: float, runs: int, rng: np.random.Generator) -> Tallies:
        rate = MECHANISMS.get(self.setting_name, (None, None))[1]
        drawn = [audit(*self.draw(rng), rate, significance) for _ in range(runs)]
        return {"draws": {"found": drawn}}

    def rows(self, tallies: Tallies) -> Iterator[tuple[str, dict[str, Any]]]:
        place = {"setting": self.setting_name, "canaries": self.canaries}
        place |= {"truth": round(self.truth(), DIGITS)}
        for number, found in enumerate(tallies["draws"]["found"]):
            yield DRAWS, place | {"draw": number} | found


CELLS = tuple(
    AuditorsCell(setting_name=name, canaries=canaries, stream=stream, runs=runs)
    for name, canaries, stream, runs in (
        ("Gaussian, μ = 1", 1000, 0, 20),
        ("Gaussian, μ = 1", 10_000, 1, 20),
        ("Gaussian, μ = 2", 1000, 2, 20),
        ("Gaussian, μ = 2", 10_000, 3, 20),
        ("subsampled Gaussian, μ = 2, rate 0.2", 1000, 4, 20),
        ("subsampled Gaussian, μ = 2, rate 0.2", 10_000, 5, 20),
        (RATIO, 5000, 6, 20),
        (SUM, 5000, 6, 20),
        ("Gaussian, μ = 2", 100_000, 7, 3),
        ("Gaussian, μ = 1", 100_000, 8, 3),
        ("Gaussian, μ = 0.5", 100_000, 9, 3),
    )
)


def plan(*, quick: bool = False) -> Plan:
    """All settings; quickly, two of the smallest."""
    return Plan(cells=tuple(CELLS[place] for place in (0, 4)) if quick else CELLS)


# --- auditors ---------------------------------------------------------------------------------


def models(rate: float | None) -> dict[str, em.CurveModel]:
    """Models of our posterior, weakest assumptions first."""
    strong = em.families.FixedStrength()
    told = em.families.NoMixing() if rate is None else em.families.KnownMixing(rate=rate)
    # Three textbook families with their weights of version 0.4; the default averages over more.
    textbook: dict[str, Any] = {
        "families": (
            em.families.Gaussian(),
            em.families.Laplace(),
            em.families.RandomizedResponse(),
        ),
        "weights": (5.0, 7.0, 8.0),
        "epsilon": em.priors.HalfNormal(),
    }
    free = em.families.FreeStrengths()
    return {
        "three families": em.CurveModel(delta=DELTA, strength=free, **textbook),
        "strength 1": em.CurveModel(delta=DELTA, strength=strong, **textbook),
        "Gaussian": em.CurveModel(
            delta=DELTA, strength=strong, families=(em.families.Gaussian(),), mixing=told
        ),
    }


def normal_fit(members: Floats, others: Floats, *, one_variance: bool) -> float:
    """Epsilon of two normals with the means and variances of the scores (Andrew et al. 2023)."""
    shift = max(float(members.mean() - others.mean()), 0.0)
    narrow, wide = sorted((float(members.std(ddof=1)), float(others.std(ddof=1))))
    if one_variance or shift == 0:
        return float(epsilon_of_gaussian(shift / math.hypot(narrow, wide) * math.sqrt(2), DELTA))
    # In units of the narrower law; which of the two is whose does not matter to epsilon.
    leak = shift / narrow
    curves = em.families.TwoVariances(spread=(wide / narrow - 1) / leak)
    return float(curves.epsilon(leak, DELTA))


def best_guesses(members: Floats, others: Floats, error: float) -> float:
    """The Gaussian f-DP bound at the best number of guesses for these scores, uncorrected."""
    scores = np.concatenate([members, others])
    member = np.arange(len(scores)) < len(members)
    far = scores - np.median(scores)
    order = np.argsort(-np.abs(far))
    right = np.cumsum((far > 0)[order] == member[order])
    guesses = np.unique(np.geomspace(10, len(scores), 60).astype(int))
    bounds = em.baselines.epsilon_one_run_fdp(
        len(scores), guesses, right[guesses - 1], DELTA, error, family=em.baselines.GaussianDP()
    )
    return float(bounds.max())


ENDS = ("low", "median", "high")
POINTS = ("normal fit", "one variance", "best guesses")
BOUNDS = ("proof", "conditional", "f-DP", "Steinke", "Gaussian f-DP", "Gaussian rates")


def audit(members: Floats, others: Floats, rate: float | None, error: float) -> dict[str, float]:
    """Result of every method on the same scores; 5, 50 and 95 % quantiles of posteriors."""
    scores = em.Scores.of_canaries(members, others).assuming_independent_noise()
    proof: Any = em.prove(scores, delta=DELTA, error=error)
    auditor = em.baselines.CanaryScoreAuditor(members, others)
    found: dict[str, float] = {}
    for name, model in models(rate).items():
        posterior = em.estimate(scores, model)
        ends = posterior.quantile("epsilon", [0.05, 0.5, 0.95])
        for end, value in zip(ENDS, ends, strict=True):
            found[f"{name} {end}"] = round(float(value), DIGITS)
    gaussian = em.baselines.GaussianDP()
    numbers = {
        "normal fit": normal_fit(members, others, one_variance=False),
        "one variance": normal_fit(members, others, one_variance=True),
        "best guesses": best_guesses(members, others, error),
        "proof": proof.at_least,
        "conditional": proof.conditional.at_least,
        "withheld": proof.conditional.withheld is not None,
        "f-DP": auditor.epsilon_one_run_fdp(error, DELTA, one_sided=False),
        "Steinke": auditor.epsilon_one_run(error, DELTA, one_sided=False),
        "Gaussian f-DP": auditor.epsilon_one_run_fdp(
            error, DELTA, one_sided=False, family=gaussian
        ),
        "Gaussian rates": auditor.epsilon_lower(em.baselines.GaussianRates(), error, DELTA),
    }
    return found | {name: round(float(value), DIGITS) for name, value in numbers.items()}


# --- the page ---------------------------------------------------------------------------------


def column(rows: Sequence[Row], name: str) -> Floats:
    """The numbers of one method."""
    return np.array([vars(row)[name] for row in rows])


def _posterior(rows: Sequence[Row], name: str) -> str:
    low, median, high = (column(rows, f"{name} {end}") for end in ENDS)
    means = " ".join(f"{ends.mean():.2f}" for ends in (low, median, high))
    holds = int(((low <= rows[0].truth) & (rows[0].truth <= high)).sum())
    between = f"median {median.min():.2f} to {median.max():.2f}"
    return f"{means}<br>{between}<br>covers ε in {holds} of {len(rows)}"


def _number(rows: Sequence[Row], name: str) -> str:
    values, beyond = column(rows, name), ""
    if name == "conditional" and column(rows, "withheld").any():
        values = values[column(rows, "withheld") == 0]
        beyond = f"<br>withheld in {len(rows) - len(values)} of {len(rows)}"
    above = int((values > rows[0].truth).sum())
    beyond += f"<br>above ε in {above} of {len(rows)}" if above else ""
    return f"{values.mean():.2f}<br>{values.min():.2f} to {values.max():.2f}{beyond}"


def _quoted(row: Row, names: Sequence[str]) -> str:
    own = QUOTED.get((row.setting, row.canaries), {})
    told = [f"*{own[name][0]:.2f}* {name}, {own[name][1]}" for name in names if name in own]
    return "<br>".join(told) or "-"


def by_setting(rows: Sequence[Row]) -> list[list[Row]]:
    """The draws of each setting."""
    settings: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        settings.setdefault((row.setting, row.canaries), []).append(row)
    return list(settings.values())


def blocks(tables: Tables, significance: float) -> dict[str, str]:
    """Tables of the page, by mark."""
    ours, points, bounds = [], [], []
    for rows in by_setting(tables[DRAWS]):
        row = rows[0]
        first = [row.setting, f"{row.canaries:,}", f"{row.truth:.2f}"]
        ours.append([*first, *(_posterior(rows, name) for name in models(None))])
        points.append([*first, *(_number(rows, name) for name in POINTS)])
        points[-1].append(_quoted(row, ("normal fit",)))
        bounds.append([*first, *(_number(rows, name) for name in BOUNDS)])
        bounds[-1].append(_quoted(row, ("Steinke", "Gaussian f-DP")))
    header = ["scores", "canaries", "true ε"]
    fits = ["normal fit", "with one variance", "Gaussian f-DP, uncorrected", "*quoted*"]
    proven = [
        "`em.prove`",
        "if the noise is independent",
        "f-DP",
        "Steinke",
        "Gaussian f-DP",
        "Gaussian rates",
        "*quoted*",
    ]
    return {
        "posteriors": markdown(
            [*header, "three families", "strength 1", "Gaussian curve fixed, strength 1"], ours
        ),
        "points": markdown([*header, *fits], points),
        "bounds": markdown([*header, *proven], bounds),
    }
