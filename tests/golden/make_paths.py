"""Write `paths.json`: what the exact engine says of every case of `path_cases.py`.

    python -m tests.golden.make_paths "commit 484c4cf"

The text says which code ran; nobody edits the file.  Each posterior is estimated twice, at the
default tolerance and at a tighter one; the tight numbers are kept, and nothing is written unless the two
agree to what the test allows (``gaps``).  Takes about four minutes on one core.

Tables, each by case: quantiles and mean of each parameter; log evidence and the stated error; epsilon
without each row (5, 50 and 95 %); 90 % intervals by factor of the prior's scale; quantiles of epsilon by
delta; log evidence by label; shift of the median and log predictive probability of rows entering one by
one (in the file of 2026-11-17 also, between the two, their information about epsilon).

Two confirmations share nothing with that engine: the oracle of tests/engines/stated_error_oracle.py
gave every binomial number of epsilon at a free or fixed strength to 6e-6 (evidence to 5e-6), and
Markov chains those of groups whose members scatter to their standard errors, about .005.
"""

from __future__ import annotations

import json
import platform
import re
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
from epsilometer.engines.exact.posterior import prior_share
from tests.golden.path_cases import (
    CASES,
    COMPARED,
    CURVES,
    DELTAS,
    LEFT_OUT,
    RESCALED,
    UPDATED,
    Case,
)

PROBABILITIES = (0.05, 0.25, 0.5, 0.75, 0.95)

#: Of the kept numbers.  Correlated counts do not reach 2e-4 everywhere within the levels of
#: resolution; ``evidences`` has what was reached.
TIGHT = {"binomial": 1e-5, "sharp": 1e-5, "correlated": 2e-4, "groups": 1e-3}

#: The default tolerances, beyond which default and tight must not differ.
GAP = {"binomial": 1e-3, "sharp": 1e-3, "correlated": 1e-2, "groups": 1e-2}

Numbers = tuple[float, ...]


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
    """Shift of the median and log predictive probability of each of the first rows."""
    case, found = CASES[name], dict[str, Numbers]()
    start = prior_median(case)
    evidence = 0.0
    for row in range(min(len(case.counts), 3)):
        posterior = estimate(case.counts.take(range(row + 1)), case.model, settings(name))
        median = posterior.median("epsilon")
        found[f"batch {row}"] = (median - start, posterior.log_evidence - evidence)
        start, evidence = median, posterior.log_evidence
    return found


def prior_median(case: Case) -> float:
    """The prior median of epsilon, given that it is where the likelihood is used."""
    share = prior_share(case.model, case.counts.take([0]))
    return float(case.model.epsilon.upper_quantile(0.5 * share))


def written(tables: Mapping[str, Any]) -> str:
    """Tables as JSON, a line for each list of numbers, to eight digits."""

    def rounded(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: rounded(inner) for key, inner in value.items()}
        return [float(f"{number:.8g}") for number in value] if isinstance(value, tuple) else value

    text = json.dumps(rounded(tables), indent=2)
    return re.sub(r"\[[^][]*\]", lambda found: " ".join(found[0].split()), text) + "\n"


def main() -> None:
    """Compute everything and write it."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    packages = ", ".join(f"{name} {metadata.version(name)}" for name in ("numpy", "scipy"))
    tables = {
        "made": {
            "date": date.today().isoformat(),
            "source": sys.argv[1],
            "versions": f"Python {platform.python_version()}, {packages}",
            "tolerances": TIGHT,
            "probabilities": PROBABILITIES,
            "gaps": {path: float(f"{gap:.0e}") for path, gap in default_gaps().items()},
        },
        "posteriors": {name: summary(tight(name)) for name in CASES},
        "evidences": {
            name: {
                "log_evidence": (tight(name).log_evidence,),
                "error": (tight(name).accuracy.error,),
            }
            for name in CASES
        },
        "left_out": {name: left_out(name) for name in LEFT_OUT},
        "rescaled": {name: rescaled(name) for name in RESCALED},
        "curves": {name: curve(name) for name in CURVES},
        "compared": {name: compared(name) for name in COMPARED},
        "updated": {name: updated(name) for name in UPDATED},
    }
    Path(__file__).with_name("paths.json").write_text(written(tables))


if __name__ == "__main__":
    main()
