"""Compare planned and realised interval widths of audits with known epsilon.

Each of 100 audits has a fresh pilot, a plan from it (more bases on top of the pilot), and the audit with
the recommended design.  Its width is compared with the planned median and the planned 10 to 90 %
range.  Data come from the model itself, or from a known mechanism that does not follow it.

    python docs/planning/study.py --workers 2

Finished audits are stored in study.jsonl next to this file, which is removed at the end; an interrupted
run can be resumed, and --finished writes the results so far.  An audit takes five to ten seconds on one
core and has its own random stream, so the results do not depend on the number of workers.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import epsilometer as em
from epsilometer import _files
from epsilometer._workers import begin_worker
from epsilometer.calibration.attacks import draw_counts
from epsilometer.calibration.mechanisms import LaplaceMechanism
from epsilometer.model.region import sample_rings
from epsilometer.planning.goals import IntervalWidth
from epsilometer.planning.plan import plan_audit
from epsilometer.planning.scenarios import PilotScenario

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "how-to" / "planning.md"
AUDITS = 100
SIMULATIONS = 24
NEAR = 0.2
SEED = 20260101
MODEL = em.CountModel(delta=0.001)

Draw = Callable[[int, int, np.random.Generator], em.AttackCounts]


@dataclass(frozen=True, kw_only=True)
class Case:
    """The true distribution, the size of the pilot and the wanted width."""

    name: str
    draw: Draw
    pilot_bases: int
    challenges: int
    width: float
    most_bases: int = 120


def own_law(bases: int, challenges: int, rng: np.random.Generator) -> em.AttackCounts:
    """The model itself at epsilon 2 and strength 0.5."""
    alpha, beta = sample_rings(2.0, MODEL.delta, 0.5, size=(bases,), rng=rng)
    return _counts(rng.binomial(challenges, alpha), rng.binomial(challenges, beta), challenges)


def laplace(bases: int, challenges: int, rng: np.random.Generator) -> em.AttackCounts:
    """Laplace noise, epsilon 2, the best attack at false-positive rates drawn at random."""
    x, y = draw_counts(
        LaplaceMechanism(2.0), None, power=1.0, trials=challenges, shape=(1, bases), rng=rng
    )
    return _counts(x[0], y[0], challenges)


def _counts(x: Any, y: Any, challenges: int) -> em.AttackCounts:
    return em.AttackCounts(
        false_positives=x, trials_h0=challenges, false_negatives=y, trials_h1=challenges
    )


CASES = (
    Case(name="own law, pilot of 20", draw=own_law, pilot_bases=20, challenges=200, width=0.55),
    Case(name="Laplace, pilot of 20", draw=laplace, pilot_bases=20, challenges=200, width=0.55),
)


def one(place: int, number: int) -> dict[str, Any]:
    """A pilot, a plan and the audit."""
    case = CASES[place]
    rng = np.random.default_rng(np.random.SeedSequence(SEED, spawn_key=(place, number)))
    pilot = case.draw(case.pilot_bases, case.challenges, rng)
    posterior = em.estimate(pilot, MODEL)
    low, high = posterior.credible_interval("epsilon")
    found: dict[str, Any] = {"case": case.name, "audit": number, "pilot_width": high - low}
    if high - low <= case.width:
        return found | {"bases": None, "enough": True}
    plan = plan_audit(
        MODEL,
        PilotScenario(posterior=posterior, extend=True),
        IntervalWidth(at_most=case.width),
        most_bases=case.most_bases,
        simulations=SIMULATIONS,
        seed=number,
        alternatives=False,
    )
    chosen = plan.recommended
    if chosen is None:
        return found | {"bases": None, "enough": False}
    new = case.draw(chosen.bases - case.pilot_bases, case.challenges, rng)
    both = _counts(
        np.concatenate([pilot.false_positives, new.false_positives]),
        np.concatenate([pilot.false_negatives, new.false_negatives]),
        case.challenges,
    )
    low, high = em.estimate(both, MODEL).credible_interval("epsilon")
    return found | {
        "bases": chosen.bases,
        "planned": chosen.median_width,
        "planned_low": chosen.low_width,
        "planned_high": chosen.high_width,
        "planned_probability": chosen.probability,
        "width": high - low,
    }


def summary(case: Case, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How often audits matched their plan."""
    done = [row for row in rows if row["bases"] is not None]
    ratio = np.array([row["width"] / row["planned"] for row in done])
    inside = [row["planned_low"] <= row["width"] <= row["planned_high"] for row in done]
    return {
        "case": case.name,
        "wanted_width": case.width,
        "pilot_bases": case.pilot_bases,
        "challenges": case.challenges,
        "audits": len(rows),
        "pilot_was_enough": sum(row.get("enough", False) for row in rows),
        "not_reachable": sum(row.get("enough") is False for row in rows),
        "carried_out": len(done),
        "within_20_percent": int(np.sum(np.abs(ratio - 1) <= NEAR)),
        "within_planned_10_to_90": int(np.sum(inside)),
        "reached_the_wanted_width": sum(row["width"] <= case.width for row in done),
        "mean_planned_probability": float(np.mean([row["planned_probability"] for row in done])),
        "median_bases": float(np.median([row["bases"] for row in done])),
        "ratio_5_50_95": np.quantile(ratio, [0.05, 0.5, 0.95]).tolist(),
    }


def with_table(page: str) -> str:
    """The page with the table of the committed results between its marks."""
    found = json.loads((HERE / "study.json").read_text(encoding="utf-8"))["summary"]
    lines = [
        "| truth | pilots | more was needed | within 20 % of planned | in the planned 10 to 90 % "
        "| reached the width | found / planned, 5, 50, 95 % |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for case in found:
        done = case["carried_out"]
        ratio = ", ".join(f"{value:.2f}" for value in case["ratio_5_50_95"])
        shares = [
            f"{case[name]} ({100 * case[name] / done:.0f} %)"
            for name in (
                "within_20_percent",
                "within_planned_10_to_90",
                "reached_the_wanted_width",
            )
        ]
        name = case["case"].split(",")[0]
        lines.append(f"| {name} | {case['audits']} | {done} | {' | '.join(shares)} | {ratio} |")
    begin = page.index("<!-- table -->\n") + len("<!-- table -->\n")
    table = "\n".join(lines) + "\n"
    return page[:begin] + table + page[page.index("<!-- end -->", begin) :]


def main() -> None:
    """Run the missing simulations, then write study.json."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--audits", type=int, default=AUDITS)
    parser.add_argument("--finished", action="store_true", help="run nothing, write results")
    parser.add_argument("--store", type=Path, default=HERE / "study.jsonl")
    parser.add_argument("--output", type=Path, default=HERE / "study.json")
    wanted = parser.parse_args()
    rows = {}
    if wanted.store.exists():
        for line in wanted.store.read_text(encoding="utf-8").split("\n")[:-1]:
            row = json.loads(line)
            rows[row["case"], row["audit"]] = row
    todo = [
        (place, number)
        for number in range(wanted.audits)
        for place, case in enumerate(CASES)
        if (case.name, number) not in rows
    ]
    if not wanted.finished:
        context = get_context("spawn")
        with ProcessPoolExecutor(wanted.workers, context, begin_worker) as pool:
            futures = [pool.submit(one, *job) for job in todo]
            with wanted.store.open("a", encoding="utf-8") as file:
                for future in as_completed(futures):
                    row = future.result()
                    rows[row["case"], row["audit"]] = row
                    file.write(json.dumps(row) + "\n")
                    file.flush()
    kept = [
        [rows[case.name, k] for k in range(wanted.audits) if (case.name, k) in rows]
        for case in CASES
    ]
    result = {
        "summary": [summary(case, mine) for case, mine in zip(CASES, kept, strict=True) if mine],
        "audits": [row for mine in kept for row in mine],
    }
    text = json.dumps(result, indent=1) + "\n"
    _files.replace(wanted.output, lambda path: path.write_text(text, encoding="utf-8"))
    if wanted.output == HERE / "study.json":
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    if not wanted.finished:
        wanted.store.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
