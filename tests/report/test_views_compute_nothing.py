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
import epsilometer.display.results  # bodies of classes run when they are imported
from epsilometer.judgement.judging import result_of
from epsilometer.judgement.result import Result
from epsilometer.report.figures.charts import charts_of
from epsilometer.report.gates import finding_of, github_commands, job_summary, junit_xml
from epsilometer.report.page.sections import render
from epsilometer.report.text.summary import result_text
from tests.report.count_results import exact, gather
from tests.report.curve_results import SIMPLE, canaries, full, judged, posterior

SOURCE = Path(epsilometer.__file__).parent

#: Modules that estimate, prove, solve, check or measure.
COMPUTING = (
    *("engines/*/engine.py", "engines/mcmc/*", "engines/estimate.py"),
    *(f"engines/curve/{name}.py" for name in ("chain", "pieces", "tables", "solve")),
    *(
        f"engines/exact/{name}.py"
        for name in ("surface", "integrate", "flux", "mass_tables", "planar", "delta_sweep")
    ),
    *("proofs/*", "baselines/*", "checks/*", "measurement/*"),
)

#: Functions of these modules that read a value of a finished check, proof or solution, or word it.
READ = {
    "checks/comparison.py": (
        *("AlternativeModel.comparable", "AlternativeModel.interpretation"),
        *("AlternativeModel.log_evidence", "ModelComparison.best", "ModelComparison.sentences"),
        "interpret_bayes_factor",
    ),
    "checks/predictive.py": (
        *("CheckedStatistic.surprising", "PredictiveCheck.surprising", "PredictiveCheck.fits"),
    ),
    "checks/roc_curves.py": (
        *("RocCheck.odd", "RocCheck.fits", "RocCheck.statistics"),
        "RocCheck.surprising",
    ),
    "checks/sensitivity.py": tuple(
        f"AlternativePrior.{name}" for name in ("credible_interval", "epsilon", "model")
    ),
    "engines/curve/solve.py": (  # the posterior's marginals, on the first query of each
        *("Solution.edges_of", "Solution.distribution_weights", "Solution.rows_of"),
        *("Solution.strength_rows", "Solution.weights", "_strength_rows"),
        *("Solution.bases", "Solution.grid"),
    ),
    "proofs/evidence.py": (
        *(
            "Evidence.counted",
            "Evidence.described",
            "Evidence.plotted",
            "Evidence.sentence",
            "_most",
        ),
    ),
    "proofs/proof.py": (
        *("ConditionalProof.described", "ConditionalProof.finding"),
        *("Proof.described", "Proof.hopeless", "Proof.source", "rounded_down"),
    ),
}

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
        "canaries": lambda: judged(posterior(canaries(1.5, 1000), SIMPLE)),
    }
    made = makers[kind]()
    assert made.kind == ("curve" if kind == "canaries" else kind)
    return made.concluded()


def _text(result: Result) -> object:
    return [result_text(result, details=details) for details in (False, True)]


def _json(result: Result) -> object:
    return json.dumps(result.to_dict(), allow_nan=False)


def _page(result: Result) -> object:
    return render(result, charts_of(result))


def _figures(result: Result) -> object:
    return [chart.draw() for chart in charts_of(result)]


def _notebook(result: Result) -> object:
    return repr(result), result._repr_html_(), repr(result.summary()), result.plot()


def _gates(result: Result) -> object:
    found = finding_of(result)
    lines = github_commands([found], source=None, fail_on="fail")
    told = {"source": "a", "fail_on": "fail"}
    return lines, junit_xml([found], **told), job_summary([found], **told)


VIEWS = (_text, _json, _page, _figures, _notebook, _gates)


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.__name__.strip("_"))
@pytest.mark.parametrize("kind", ["count", "curve", "canaries"])
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
