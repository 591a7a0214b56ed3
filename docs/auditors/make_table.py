"""Compare auditing methods on the same ideal canaries: the numbers of auditors.md.

Every setting has a known epsilon and is drawn repeatedly; every method uses the same scores.

    python docs/auditors/make_table.py --workers 2     # run missing draws, write results and page
    python docs/auditors/make_table.py --page          # write the page from results.json, run nothing

Finished draws are stored in results.jsonl next to this file, which is removed at the end; an interrupted
run can be resumed.  All draws take about 40 minutes on one core.
Each draw has its own random stream, so the results do not depend on the number of workers.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import logsumexp, ndtr
from scipy.stats import binom

import epsilometer as em
from epsilometer._workers import begin_worker
from epsilometer.calibration.mechanisms import GaussianMechanism, Mechanism, SubsampledGaussian
from epsilometer.model.gaussian_mechanism import epsilon_of_gaussian

HERE = Path(__file__).resolve().parent
PAGE, RESULTS, STORE = HERE.parent / "auditors.md", HERE / "results.json", HERE / "results.jsonl"
DELTA, ERROR = 1e-5, 0.05
SEED = 20260101
DIGITS = 4

Floats = NDArray[np.float64]
Pair = tuple[Floats, Floats]

# --- white-box DP-SGD, as an ideal auditor sees it ---------------------------------------------

SIGMA, RATE, STEPS = 3.0, 1 / 11, 2200
"""Noise multiplier, sampling rate, steps."""


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


@dataclass(frozen=True, kw_only=True)
class Quoted:
    """A number that a paper reports for this setting."""

    value: float
    what: str
    paper: str


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Number of canaries (half included), their scores, the true epsilon and published numbers."""

    name: str
    canaries: int
    draws: int
    stream: int
    """Settings with the same stream have the same noise."""
    draw: Callable[[int, np.random.Generator], Pair]
    truth: Callable[[], float]
    sampling_rate: float | None = None
    quoted: tuple[Quoted, ...] = ()

    @property
    def key(self) -> str:
        """Name and size."""
        return f"{self.name}, {self.canaries:,}"

    def scores(self, number: int) -> Pair:
        """The scores of one draw: members and non-members."""
        sequence = np.random.SeedSequence(SEED, spawn_key=(self.stream, number))
        return self.draw(self.canaries, np.random.default_rng(sequence))


def ideal(canaries: int, rng: np.random.Generator, *, mechanism: Mechanism) -> Pair:
    """Scores of the best attack on a mechanism with known epsilon."""
    member = np.arange(canaries) < canaries // 2
    scores = mechanism.scores(member, rng)
    return scores[member], scores[~member]


def of_mechanism(
    name: str,
    mechanism: Mechanism,
    *,
    canaries: int,
    draws: int,
    stream: int,
    rate: float | None = None,
    quoted: tuple[Quoted, ...] = (),
) -> Setting:
    """A setting of a mechanism with known epsilon."""
    return Setting(
        name=name,
        canaries=canaries,
        draws=draws,
        stream=stream,
        draw=partial(ideal, mechanism=mechanism),
        truth=partial(mechanism.epsilon, DELTA),
        sampling_rate=rate,
        quoted=quoted,
    )


MAHLOUJIFAR, AGRAWAL = "Mahloujifar et al. (2024)", "Agrawal et al. (2026)"
WHITE_BOX = (
    Quoted(value=5.79, what="normal fit", paper=AGRAWAL),
    Quoted(value=1.86, what="Steinke", paper=AGRAWAL),
)
DRAWS, FEW = 20, 3
SAMPLED = SubsampledGaussian(2.0, 0.2)
SETTINGS = (
    *(
        of_mechanism(
            f"Gaussian, μ = {mu:g}",
            GaussianMechanism(mu),
            canaries=size,
            draws=DRAWS,
            stream=place,
        )
        for place, (mu, size) in enumerate([(1.0, 1000), (1.0, 10_000), (2.0, 1000), (2.0, 10_000)])
    ),
    *(
        of_mechanism(
            "subsampled Gaussian, μ = 2, rate 0.2",
            SAMPLED,
            canaries=size,
            draws=DRAWS,
            stream=4 + place,
            rate=0.2,
        )
        for place, size in enumerate([1000, 10_000])
    ),
    Setting(
        name="DP-SGD, likelihood ratio",
        canaries=5000,
        draws=DRAWS,
        stream=6,
        draw=partial(dp_sgd, ratio=True),
        truth=accountant_epsilon,
        quoted=WHITE_BOX,
    ),
    Setting(
        name="DP-SGD, sum",
        canaries=5000,
        draws=DRAWS,
        stream=6,
        draw=partial(dp_sgd, ratio=False),
        truth=sum_epsilon,
        quoted=WHITE_BOX,
    ),
    *(
        of_mechanism(
            f"Gaussian, μ = {mu:g}",
            GaussianMechanism(mu),
            canaries=100_000,
            draws=FEW,
            stream=7 + place,
            quoted=(Quoted(value=figure, what="Gaussian f-DP", paper=MAHLOUJIFAR),),
        )
        for place, (mu, figure) in enumerate([(2.0, 8.16), (1.0, 3.61), (0.5, 1.59)])
    ),
)

# --- auditors ---------------------------------------------------------------------------------


def models(rate: float | None) -> dict[str, em.CurveModel]:
    """Models of our posterior, weakest assumptions first."""
    strong = em.families.FixedStrength()
    told = em.families.NoMixing() if rate is None else em.families.KnownMixing(rate=rate)
    return {
        "default": em.CurveModel(delta=DELTA),
        "strength 1": em.CurveModel(delta=DELTA, strength=strong),
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


def best_guesses(members: Floats, others: Floats) -> float:
    """The Gaussian f-DP bound at the best number of guesses for these scores, uncorrected."""
    scores = np.concatenate([members, others])
    member = np.arange(len(scores)) < len(members)
    far = scores - np.median(scores)
    order = np.argsort(-np.abs(far))
    right = np.cumsum((far > 0)[order] == member[order])
    guesses = np.unique(np.geomspace(10, len(scores), 60).astype(int))
    bounds = em.baselines.epsilon_one_run_fdp(
        len(scores), guesses, right[guesses - 1], DELTA, ERROR, family=em.baselines.GaussianDP()
    )
    return float(bounds.max())


POINTS = ("normal fit", "one variance", "best guesses")
BOUNDS = ("proof", "f-DP", "Steinke", "Gaussian f-DP", "Gaussian rates")


def audit(members: Floats, others: Floats, rate: float | None) -> dict[str, Any]:
    """Result of every method on the same scores; 5, 50 and 95 % quantiles of posteriors."""
    scores = em.Scores.of_canaries(members, others)
    auditor = em.baselines.CanaryScoreAuditor(members, others)
    found: dict[str, Any] = {}
    for name, model in models(rate).items():
        posterior = em.estimate(scores, model)
        ends = posterior.quantile("epsilon", [0.05, 0.5, 0.95])
        found[name] = [round(float(end), DIGITS) for end in ends]
    gaussian = em.baselines.GaussianDP()
    numbers = {
        "normal fit": normal_fit(members, others, one_variance=False),
        "one variance": normal_fit(members, others, one_variance=True),
        "best guesses": best_guesses(members, others),
        "proof": em.prove(scores, delta=DELTA, error=ERROR).at_least,
        "f-DP": auditor.epsilon_one_run_fdp(ERROR, DELTA, one_sided=False),
        "Steinke": auditor.epsilon_one_run(ERROR, DELTA, one_sided=False),
        "Gaussian f-DP": auditor.epsilon_one_run_fdp(
            ERROR, DELTA, one_sided=False, family=gaussian
        ),
        "Gaussian rates": auditor.epsilon_lower(em.baselines.GaussianRates(), ERROR, DELTA),
    }
    return found | {name: round(float(value), DIGITS) for name, value in numbers.items()}


def one(place: int, number: int) -> dict[str, Any]:
    """One draw of a setting, audited."""
    setting = SETTINGS[place]
    found = audit(*setting.scores(number), setting.sampling_rate)
    return {"setting": setting.key, "draw": number, **found}


# --- the page ---------------------------------------------------------------------------------


def _posterior(rows: Sequence[dict[str, Any]], name: str, truth: float) -> str:
    ends = np.array([row[name] for row in rows])
    means = " ".join(f"{end:.2f}" for end in ends.mean(axis=0))
    low, high = ends[:, 1].min(), ends[:, 1].max()
    holds = int(((ends[:, 0] <= truth) & (truth <= ends[:, 2])).sum())
    return f"{means}<br>median {low:.2f} to {high:.2f}<br>covers ε in {holds} of {len(rows)}"


def _number(rows: Sequence[dict[str, Any]], name: str, truth: float) -> str:
    values = np.array([row[name] for row in rows])
    above = int((values > truth).sum())
    beyond = f"<br>above ε in {above} of {len(rows)}" if above else ""
    return f"{values.mean():.2f}<br>{values.min():.2f} to {values.max():.2f}{beyond}"


def _quoted(setting: Setting, names: Sequence[str]) -> str:
    own = [each for each in setting.quoted if each.what in names]
    return "<br>".join(f"*{each.value:.2f}* {each.what}, {each.paper}" for each in own) or "-"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def tables(found: dict[str, Any]) -> dict[str, str]:
    """Tables of the page, by mark."""
    ours, points, bounds = [], [], []
    for setting in SETTINGS:
        truth = found["truth"][setting.key]
        rows = [row for row in found["draws"] if row["setting"] == setting.key]
        first = [setting.name, f"{setting.canaries:,}", f"{truth:.2f}"]
        ours.append([*first, *(_posterior(rows, name, truth) for name in models(None))])
        points.append([*first, *(_number(rows, name, truth) for name in POINTS)])
        points[-1].append(_quoted(setting, ("normal fit",)))
        bounds.append([*first, *(_number(rows, name, truth) for name in BOUNDS)])
        bounds[-1].append(_quoted(setting, ("Steinke", "Gaussian f-DP")))
    first = ["scores", "canaries", "true ε"]
    gaussian = "Gaussian curve fixed, strength 1"
    quoted = "*quoted*"
    return {
        "posteriors": _table([*first, "default", "strength 1", gaussian], ours),
        "points": _table(
            [*first, "normal fit", "with one variance", "Gaussian f-DP, uncorrected", quoted],
            points,
        ),
        "bounds": _table(
            [*first, "`em.prove`", "f-DP", "Steinke", "Gaussian f-DP", "Gaussian rates", quoted],
            bounds,
        ),
    }


def with_tables(page: str) -> str:
    """The page with the tables of the committed results between its marks."""
    found = json.loads(RESULTS.read_text(encoding="utf-8"))
    for name, table in tables(found).items():
        begin = page.index(f"<!-- {name} -->\n") + len(f"<!-- {name} -->\n")
        page = f"{page[:begin]}{table}\n{page[page.index('<!-- end -->', begin) :]}"
    return page


def truths() -> dict[str, float]:
    """The true epsilon of every setting."""
    return {setting.key: round(setting.truth(), DIGITS) for setting in SETTINGS}


def main() -> None:
    """Run what is missing, then write results.json and the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--page", action="store_true", help="run nothing, write the page")
    wanted = parser.parse_args()
    if not wanted.page:
        _run(wanted.workers)
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def _run(workers: int) -> None:
    done = {}
    if STORE.exists():
        for line in STORE.read_text(encoding="utf-8").split("\n")[:-1]:
            row = json.loads(line)
            done[row["setting"], row["draw"]] = row
    wanted = [(place, k) for place, each in enumerate(SETTINGS) for k in range(each.draws)]
    with (
        ProcessPoolExecutor(workers, get_context("spawn"), begin_worker) as pool,
        STORE.open("a", encoding="utf-8") as file,
    ):
        todo = [job for job in wanted if (SETTINGS[job[0]].key, job[1]) not in done]
        todo.sort(key=lambda job: job[1])  # the same number of draws of each, if it is ended
        for future in as_completed([pool.submit(one, *job) for job in todo]):
            row = future.result()
            done[row["setting"], row["draw"]] = row
            file.write(json.dumps(row) + "\n")
            file.flush()
    _write([done[SETTINGS[place].key, k] for place, k in wanted])
    STORE.unlink()


def _write(draws: Sequence[dict[str, Any]]) -> None:
    """Results with a line for each draw."""
    lines = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in draws)
    head = {"delta": DELTA, "error": ERROR, "seed": SEED, "truth": truths()}
    start = json.dumps(head, indent=1, ensure_ascii=False)[:-2]
    RESULTS.write_text(f'{start},\n "draws": [\n  {lines}\n ]\n}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
