"""Write `paths.py`: what the exact engine says of every case of `path_cases.py`.

    python -m tests.golden.make_paths "commit 484c4cf" && ruff format tests/golden/paths.py

The text says which code ran.  Each posterior is estimated twice, at the default tolerance and at a
tighter one; the tight numbers are kept, and nothing is written unless the two agree to what the test
allows.  Takes about four minutes on one core.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable, Mapping
from datetime import date
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import epsilometer as em
from epsilometer.engines.estimate import estimate
from tests.golden.path_cases import (
    CASES,
    COMPARED,
    CURVES,
    DELTAS,
    LEFT_OUT,
    RESCALED,
    UPDATED,
)

PROBABILITIES = (0.05, 0.25, 0.5, 0.75, 0.95)

TIGHT = {"binomial": 1e-5, "sharp": 1e-5, "correlated": 2e-4, "groups": 1e-3}
"""Of the kept numbers.  Correlated counts do not reach 2e-4 everywhere within the levels of
resolution; `EVIDENCES` has what was reached."""

GAP = {"binomial": 1e-3, "sharp": 1e-3, "correlated": 1e-2, "groups": 1e-2}
"""The default tolerances, beyond which default and tight must not differ."""

Numbers = tuple[float, ...]

HEADING = '''"""What the exact engine said of `path_cases.py`.  Never edited to make a test pass.

Written by `make_paths.py` on {today} with {source} of this package,
{versions}.
Tolerances asked for: {tight}.
Quantiles at {probabilities}.
Largest differences of the default tolerance from these numbers, relative above 1:
{gaps}.

Two confirmations share nothing with that engine: the oracle of tests/inference/stated_error_oracle.py
gave every binomial number of epsilon at a free or fixed strength to 6e-6 (evidence to 5e-6), and
Markov chains those of groups whose members scatter to their standard errors, about .005.
"""

from __future__ import annotations
'''


@cache
def tight(name: str) -> Any:
    """The posterior of a case at the tight tolerance."""
    case = CASES[name]
    return estimate(case.counts, case.model, settings(name))


def settings(name: str) -> em.engines.ExactSettings:
    """Tight settings for a case."""
    return em.engines.ExactSettings(tolerance=TIGHT[CASES[name].path])


def summary(posterior: em.engines.CountPosterior) -> dict[str, Numbers]:
    """Quantiles and mean of every estimated parameter."""
    return {
        parameter: (
            *posterior.quantile(parameter, PROBABILITIES).tolist(),
            posterior.mean(parameter),
        )
        for parameter in posterior.parameters
    }


def difference(found: Iterable[float], expected: Iterable[float]) -> float:
    """The largest difference, relative where above 1."""
    a, b = np.array(list(found)), np.array(list(expected))
    return float(np.max(np.abs(a - b) / np.maximum(1.0, np.abs(b)), initial=0.0))


def default_gaps() -> dict[str, float]:
    """How far the default tolerance is from the tight one, at worst, by path."""
    worst = dict.fromkeys(GAP, 0.0)
    for name, case in CASES.items():
        found = summary(estimate(case.counts, case.model))
        for parameter, values in summary(tight(name)).items():
            worst[case.path] = max(worst[case.path], difference(found[parameter], values))
        if worst[case.path] > GAP[case.path]:
            raise SystemExit(f"{name}: default and tight tolerance differ by {worst[case.path]}.")
    return worst


def left_out(name: str) -> dict[str, Numbers]:
    """Ends and median without each base, held against estimating from the others."""
    posterior, case = tight(name), CASES[name]
    influence = em.checks.leave_one_out(posterior, level=0.9)
    low, median, high = influence.low, influence.median, influence.high
    for rows in case.counts.members:
        others = case.counts.take(sorted(set(range(len(case.counts))) - set(rows.tolist())))
        rest = estimate(others, case.model, settings(name)).quantile("epsilon", [0.05, 0.5, 0.95])
        for row in rows.tolist():
            if difference((low[row], median[row], high[row]), rest) > GAP[case.path]:
                raise SystemExit(f"{name}: without row {row} is not what the others give.")
    return {"low": tuple(low), "median": tuple(median), "high": tuple(high)}


def rescaled(name: str) -> dict[str, Numbers]:
    """90 % intervals by the factor of the prior's scale."""
    return {
        f"{other.factor:g}": other.credible_interval(0.9)
        for other in em.checks.prior_sensitivity(tight(name))
    }


def curve(name: str) -> dict[str, Numbers]:
    """Quantiles by delta."""
    case = CASES[name]
    found = em.engines.estimate_curve(case.counts, case.model, DELTAS, settings(name))
    values = found.quantile(PROBABILITIES)
    return {f"{delta:g}": tuple(values[:, i]) for i, delta in enumerate(found.deltas)}


def compared(name: str) -> dict[str, Numbers]:
    """Log evidences by label, each from an estimate of its own at the tight tolerance."""
    found: dict[str, Numbers] = {}
    for each in em.checks.compare_models(tight(name)).assumptions:
        path = "correlated" if each.label.startswith("correlated") else "binomial"
        engine = em.engines.ExactSettings(tolerance=TIGHT[path])
        found[each.label] = (estimate(tight(name).counts, each.model, engine).log_evidence,)
    return found


def updated(name: str) -> dict[str, Numbers]:
    """Shift, information and log predictive of each row entering as a batch, after the first."""
    case = CASES[name]
    posterior: em.engines.CountPosterior = estimate(
        case.counts.take([0]), case.model, settings(name)
    )
    for row in range(1, min(len(case.counts), 3)):
        posterior = posterior.update(case.counts.take([row]))
    return {
        f"batch {i}": (batch.shift, batch.information, batch.log_predictive or 0.0)
        for i, batch in enumerate(posterior.batches)
    }


def written(name: str, about: str, table: Mapping[str, Mapping[str, Numbers]]) -> str:
    """A table as Python, numbers to eight digits."""
    lines = ["", f"{name}: dict[str, dict[str, tuple[float, ...]]] = {{"]
    for key, values in table.items():
        lines.append(f"    {key!r}: {{".replace("'", '"'))
        for part, numbers in values.items():
            text = ", ".join(f"{value:.8g}" for value in numbers)
            lines.append(f'        "{part}": ({text}{"," * (len(numbers) == 1)}),')
        lines.append("    },")
    return "\n".join([*lines, "}", f'"""{about}"""', ""])


def main() -> None:
    """Compute everything and write it."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    gaps = default_gaps()
    packages = ", ".join(f"{name} {metadata.version(name)}" for name in ("numpy", "scipy"))
    text = HEADING.format(
        today=date.today().isoformat(),
        source=sys.argv[1],
        versions=f"Python {platform.python_version()}, {packages}",
        tight=", ".join(f"{path} {value:g}" for path, value in TIGHT.items()),
        probabilities=", ".join(f"{p:g}" for p in PROBABILITIES),
        gaps=", ".join(f"{path} {value:.0e}" for path, value in gaps.items()),
    )
    posteriors = {name: summary(tight(name)) for name in CASES}
    evidence = {
        name: {
            "log_evidence": (tight(name).log_evidence,),
            "error": (tight(name).accuracy.error,),
        }
        for name in CASES
    }
    text += written("POSTERIORS", "Quantiles and mean of each parameter.", posteriors)
    text += written("EVIDENCES", "Log evidence, and the error that the engine stated.", evidence)
    for title, about, names, make in (
        ("LEFT_OUT", "Epsilon without each row, 5, 50 and 95 %.", LEFT_OUT, left_out),
        ("RESCALED", "90 % interval by factor of the prior's scale.", RESCALED, rescaled),
        ("CURVES", "Quantiles of epsilon by delta.", CURVES, curve),
        ("COMPARED", "Log evidence by label.", COMPARED, compared),
        ("UPDATED", "Shift, information and log predictive of batches.", UPDATED, updated),
    ):
        text += written(title, about, {name: make(name) for name in names})
    Path(__file__).with_name("paths.py").write_text(text)


if __name__ == "__main__":
    main()
