"""Views of a concluded result compute nothing: no engine, proof or check runs while they are made."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import epsilometer
from epsilometer.judgement.judging import result_of
from epsilometer.judgement.result import Result
from epsilometer.report.gates.annotations import github_commands, job_summary
from epsilometer.report.gates.badge import badge_svg
from epsilometer.report.gates.findings import finding_of
from epsilometer.report.gates.junit import junit_xml
from epsilometer.report.gates.tracking import run_of
from epsilometer.report.text.summary import result_text
from epsilometer.report.views import views_of
from tests.report.count_results import exact, gather
from tests.report.curve_results import full

SOURCE = Path(epsilometer.__file__).parent

COMPUTING = (
    *("engines/*/engine.py", "engines/mcmc/*", "engines/estimate.py"),
    *(f"engines/curve/{name}.py" for name in ("chain", "pieces", "tables", "solve")),
    *(
        f"engines/exact/{name}.py"
        for name in ("surface", "integrate", "flux", "mass_tables", "planar", "delta_sweep")
    ),
    *("proofs/*", "baselines/*", "checks/*", "measurement/*"),
)
"""Modules that estimate, prove, solve, check or measure."""

READ = {
    "checks/comparison.py": (
        *("AlternativeModel.comparable", "AlternativeModel.interpretation", "to_rows"),
        *("AlternativeModel.log_evidence", "ModelComparison.best", "ModelComparison.sentences"),
        "interpret_bayes_factor",
    ),
    "checks/predictive.py": ("CheckedStatistic.surprising",),
    "checks/roc_curves.py": (
        *("AlternativeCurvePrior.credible_interval", "RocCheck.fits", "RocCheck.statistics"),
        "RocCheck.surprising",
    ),
    "checks/sensitivity.py": ("AlternativePrior.credible_interval",),
    "engines/curve/solve.py": (  # the posterior's marginals, on the first query of each
        *("Solution.edges_of", "Solution.distribution_weights", "Solution.rows_of"),
        *("Solution.strength_rows", "Solution.weights", "_strength_rows"),
    ),
    "proofs/proof.py": ("Proof.described", "Proof.hopeless", "rounded_down"),
}
"""Functions of these modules that read a value of a finished check, proof or solution, or word it."""

ALLOWED = {f"{place}:{name}" for place, names in READ.items() for name in names}


def entered(act: Callable[[], object]) -> set[str]:
    """The functions of computing modules that run while something is done, comprehensions aside."""
    seen: set[str] = set()

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        del argument
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(str(SOURCE)):
            return
        place = Path(code.co_filename).relative_to(SOURCE).as_posix()
        if any(fnmatch(place, pattern) for pattern in COMPUTING):
            seen.add(f"{place}:{code.co_qualname.partition('.<locals>')[0]}")

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        act()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {name for name in seen if "<module>" not in name} - ALLOWED


@cache
def concluded(kind: str) -> Result:
    makers: dict[str, Callable[[], Result]] = {
        "curve": full,
        "count": lambda: gather(exact(), claim=2.0, deltas=(1e-3, 0.01), compare=True),
    }
    made = makers[kind]()
    assert made.kind == kind
    return made.concluded()


def _text(result: Result) -> object:
    return [result_text(result, details=details) for details in (False, True)]


def _json(result: Result) -> object:
    return json.dumps(result.to_dict(), allow_nan=False)


def _page(result: Result) -> object:
    return views_of(result).page(result, views_of(result).charts(result))


def _figures(result: Result) -> object:
    return [chart.draw() for chart in views_of(result).charts(result)]


def _notebook(result: Result) -> object:
    return repr(result), result._repr_html_(), repr(result.summary()), result.plot()


def _gates(result: Result) -> object:
    found = finding_of(result)
    lines = github_commands([found], source=None, fail_on="fail")
    texts = junit_xml([found], source="a", fail_on="fail"), badge_svg(found)
    return lines, texts, job_summary([found], source="a", fail_on="fail"), run_of(found, source="a")


VIEWS = (_text, _json, _page, _figures, _notebook, _gates)


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.__name__.strip("_"))
@pytest.mark.parametrize("kind", ["count", "curve"])
def test_a_view_computes_nothing(kind: str, view: Callable[[Result], object]) -> None:
    result = concluded(kind)
    if view is _page:
        _ = result.what_if  # only the page needs it, so it is no part of the conclusion
    assert entered(lambda: view(result)) == set()


@pytest.mark.parametrize("kind", ["count", "curve"])
def test_a_result_that_is_not_concluded_would_be_noticed(kind: str) -> None:
    """Control."""
    known = concluded(kind)
    fresh = result_of(known.posterior, known.question)
    names = entered(lambda: _text(fresh))
    assert any(name.startswith("checks/") for name in names)
    assert any(name.startswith("proofs/") for name in names)
