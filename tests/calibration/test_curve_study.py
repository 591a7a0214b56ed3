"""The study of the whole-curve model: drawn as specified, reproducible, its control detected."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil  # type: ignore[import-untyped]
import pytest

from epsilometer.calibration import plan as plans
from epsilometer.calibration import study as module
from epsilometer.calibration.attacks import draw_bases
from epsilometer.calibration.curve import (
    WHOLE_CURVE,
    CurveTally,
    judge_curves,
    probability_under_plain_prior,
)
from epsilometer.calibration.mechanisms import (
    GaussianMechanism,
    LaplaceMechanism,
    Mechanism,
    Null,
    RandomisedResponse,
    SubsampledGaussian,
)
from epsilometer.calibration.plan import (
    CONTROL,
    CountsCell,
    CurveCell,
    StudyPlan,
    curve_plan,
    full_plan,
    quick_curve_plan,
)
from epsilometer.calibration.study import THREADS, jobs_of, run_job, run_study
from epsilometer.calibration.table import (
    BoundRow,
    CurveRow,
    Section,
    bound_rows,
    chance_of,
    curve_rows,
    from_csv,
    model_rows,
    to_csv,
)
from epsilometer.cli.main import run
from epsilometer.engines.curve.engine import CurveSettings
from epsilometer.errors import InputError
from epsilometer.model.curve_model import CurveModel
from epsilometer.model.families import FAMILIES
from epsilometer.model.mixtures import FreeMixing, KnownMixing, Mixing, NoMixing
from epsilometer.model.scores import Scores
from epsilometer.model.strengths import FixedStrength, FreeStrengths
from epsilometer.report.figures.calibration import draw_curve_calibration

SMALL = StudyPlan(
    cells=(
        CurveCell(mechanism=Null(), bases=2, models=10, runs=11),
        CurveCell(
            mechanism=GaussianMechanism(1.0), strengths=(1.0, 1.0), bases=2, models=20, runs=2
        ),
        CurveCell(mechanism=SubsampledGaussian(2.0, 0.2), bases=1, models=30, mixing=0.2, runs=3),
        CurveCell(mechanism=LaplaceMechanism(1.0), power=0.5, bases=1, models=20, runs=2),
        CurveCell(mechanism=LaplaceMechanism(1.0), bases=2, models=20, family="gaussian", runs=2),
    )
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study") / "study.jsonl"
    run_study(SMALL, path)
    return path


def row(**values: Any) -> CurveRow:
    """A row of 200 runs without problems, except for the given values."""
    given: dict[str, Any] = {
        "mechanism": "Laplace", "setting": "pure_epsilon=1", "power": 1.0, "strengths": "",
        "bases": 5, "models": 100, "mixing": "free", "family": "average", "true_epsilon": 1.0,
        "above": 10, "below": 10, "plain_above": 20, "plain_below": 5, "mean_low": 0.9,
        "mean_median": 1.1, "mean_high": 2.0,
    } | values  # fmt: skip
    return CurveRow(**given, runs=200, covers=200 - given["above"] - given["below"])


# --- what is drawn ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mechanism", "power", "below"),
    [
        (Null(), 1.0, 0.5),
        (GaussianMechanism(1.0), 1.0, 1 - 0.15866),
        (GaussianMechanism(1.0), 0.5, 0.5 * (1 - 0.15866) + 0.25),
        (LaplaceMechanism(2.0), 0.5, 0.5 * (1 - 0.5 * np.exp(-2.0)) + 0.25),
        (RandomisedResponse(1.0), 0.5, 0.5),
        (SubsampledGaussian(1.0, 0.2), 1.0, 0.2 * (1 - 0.15866) + 0.8 * 0.5),
    ],
)
def test_scores_are_those_of_the_mechanism(
    mechanism: Mechanism, power: float, below: float
) -> None:
    """With the point, the share above 0, closed form; without it a half.  Five standard errors."""
    rng, models = np.random.default_rng(1), 40_000
    scores = draw_bases(mechanism, power=power, strengths=None, bases=2, models=models, rng=rng)
    assert scores.trials_h0.tolist() == scores.trials_h1.tolist() == [models] * 2
    threshold, without = 0.0, 0.5
    if isinstance(mechanism, RandomisedResponse):
        lie = 1 / (1 + math.e)
        threshold, without = 0.5, lie
        below = power * (1 - lie) + (1 - power) * lie
    for base in scores.bases:
        shares = [float(np.mean(each > threshold)) for each in base.by_hypothesis]
        assert shares == pytest.approx([without, below], abs=5 * 0.5 / np.sqrt(models))


def test_strengths_scale_the_shift_base_by_base() -> None:
    """Mean shifts are mu s_i: for Beta(5, 2), mean 5/7 and variance 10 / (49 x 8)."""
    rng = np.random.default_rng(2)
    scores = draw_bases(
        GaussianMechanism(1.5), power=1.0, strengths=(5.0, 2.0), bases=400, models=400, rng=rng
    )
    shift = np.array([x[1].mean() - x[0].mean() for x in (b.by_hypothesis for b in scores.bases)])
    noise = 2 / 400
    assert shift.mean() == pytest.approx(1.5 * 5 / 7, abs=5 * shift.std() / 20)
    assert shift.var() - noise == pytest.approx(1.5**2 * 10 / (49 * 8), rel=0.4)
    with pytest.raises(InputError, match="expected a Gaussian mechanism with strengths"):
        draw_bases(
            LaplaceMechanism(1.0), power=1.0, strengths=(1.0, 1.0), bases=1, models=9, rng=rng
        )


# --- how it is run ----------------------------------------------------------------------------


def test_processes_give_the_same_results(finished: Path, tmp_path: Path) -> None:
    alone = run_study(SMALL, finished)
    before = dict(os.environ)
    assert run_study(SMALL, tmp_path / "s.jsonl", workers=2) == alone
    assert dict(os.environ) == before


def test_workers_have_one_thread_each() -> None:
    before = {name: os.environ.get(name) for name in THREADS}
    with module._one_thread_each():
        script = "import os, sys; print([os.environ[name] for name in sys.argv[1:]])"
        run = [sys.executable, "-S", "-c", script, *THREADS]
        said = subprocess.run(run, capture_output=True, text=True, check=True).stdout
        assert said.strip() == str(["1"] * len(THREADS))
    assert {name: os.environ.get(name) for name in THREADS} == before


def test_an_interrupted_study_continues(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run_study(SMALL, finished)
    lines = finished.read_text().splitlines(keepends=True)
    path = tmp_path / "cut.jsonl"
    path.write_text("".join(lines[:4]) + lines[4][:30])  # interrupted while writing
    ran: list[str] = []

    def noted(plan: StudyPlan, job: module.StudyJob) -> object:
        ran.append(job.key)
        return run_job(plan, job)

    monkeypatch.setattr(module, "run_job", noted)
    assert run_study(SMALL, path) == whole
    assert len(ran) == len(jobs_of(SMALL)) - 3
    ran.clear()
    assert run_study(SMALL, path) == whole
    assert ran == []


SCRIPT = """
import sys
from pathlib import Path
from epsilometer.calibration.study import run_study
from tests.calibration.test_curve_study import SMALL
if __name__ == "__main__":
    run_study(SMALL, Path(sys.argv[1]), workers=2)
"""


@pytest.mark.slow
def test_a_killed_study_leaves_no_process_and_continues(finished: Path, tmp_path: Path) -> None:
    path, script = tmp_path / "study.jsonl", tmp_path / "script.py"
    script.write_text(SCRIPT)
    places = [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))}
    begun = subprocess.Popen(
        [sys.executable, str(script), str(path)], env=environment, stderr=subprocess.DEVNULL
    )
    patience = time.monotonic() + 120
    while time.monotonic() < patience and not (path.exists() and path.read_text().count("\n") > 2):
        time.sleep(0.02)
    workers = psutil.Process(begun.pid).children(recursive=True)
    begun.kill()
    begun.wait(60)
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert not alive
    assert 2 <= path.read_text().count("\n") - 1 < len(jobs_of(SMALL))
    assert run_study(SMALL, path) == run_study(SMALL, finished)


def test_other_code_and_damage_are_refused(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = finished.read_text()
    path = tmp_path / "damaged.jsonl"
    path.write_text(text.replace(WHOLE_CURVE, "another"))
    with pytest.raises(InputError, match="expected a known estimator, got another"):
        curve_rows(SMALL, run_study(SMALL, path))
    path.write_text(text.replace("sum_median", "sum_mode"))
    with pytest.raises(InputError, match="expected a tally with"):
        curve_rows(SMALL, run_study(SMALL, path))
    path.write_text(text)
    monkeypatch.setattr(module, "code_digest", lambda: "another")
    with pytest.raises(InputError, match="created by another version of the estimators"):
        run_study(SMALL, path)


# --- what comes out ---------------------------------------------------------------------------


def test_tallies_add_up_and_classify_intervals() -> None:
    ends = np.array([[0.0, 0.5, 0.9], [1.5, 2.0, 3.0], [0.5, 1.0, 2.0], [1.0, 1.0, 1.0]])
    plain = np.array([0.5, 0.04, 0.96, 0.99])

    def tally(rows: slice) -> CurveTally:
        return CurveTally.of(ends[rows], plain[rows], truth=1.0, significance=0.05)

    whole = tally(slice(None))
    assert (whole.runs, whole.above, whole.below) == (4, 1, 1)
    assert (whole.plain_above, whole.plain_below) == (1, 2)
    assert (whole.sum_low, whole.sum_median, whole.sum_high) == (3.0, 4.5, 6.9)
    assert tally(slice(1)) + tally(slice(1, None)) == whole
    assert CurveTally.from_dict(json.loads(json.dumps(whole.as_dict()))) == whole
    # On the null an interval that starts at 0 contains the truth.
    null = CurveTally.of(
        np.array([[0.0, 0.1, 0.5], [0.01, 0.1, 0.5]]), np.zeros(2), truth=0.0, significance=0.05
    )
    assert (null.above, null.below) == (1, 0)


def test_rows_match_the_cells_and_round_trip(finished: Path) -> None:
    results = run_study(SMALL, finished)
    rows = curve_rows(SMALL, results)
    assert [each.runs for each in rows] == [11, 2, 3, 2, 2]
    assert [each.section for each in rows] == [
        Section.BEST, Section.STRENGTHS, Section.TOLD, Section.WEAKER, Section.CONTROL,
    ]  # fmt: skip
    assert [each.strengths for each in rows] == ["", "Beta(1, 1)", "", "", ""]
    assert [each.true_epsilon for each in rows] == pytest.approx(
        [0, 4.3772, 7.6204, 1, 1], abs=1e-4
    )
    for each in rows:
        assert each.covers + each.above + each.below == each.runs
        assert 0 <= each.mean_low <= each.mean_median <= each.mean_high
    assert from_csv(to_csv(rows, CurveRow), CurveRow, name="t.csv") == rows
    assert bound_rows(SMALL, results) == []
    assert model_rows(SMALL, results) == []


def test_which_failures_matter() -> None:
    assert row().mark(0.05) == ""
    # 20 and 26 of 200 at an error of 5 %: probabilities 2.7e-3 and 1.2e-5; 19 is consistent with chance.
    assert chance_of(20, 200, 0.05) == pytest.approx(2.7e-3, rel=0.05)
    assert [row(above=n).mark(0.05) for n in (17, 20, 27)] == ["", "!", "!!"]
    # Too many that miss, though few are above.
    assert [row(above=0, below=n).mark(0.05) for n in (28, 33, 42)] == ["", "!", "!!"]
    # Beyond what the prior expects the upper end is not checked, unless the rate is given.
    large = {"true_epsilon": 7.6, "above": 0, "below": 150}
    assert row(**large).mark(0.05) == ""
    assert row(**large, mixing="0.2").mark(0.05) == "!!"
    assert row(**(large | {"above": 40})).mark(0.05) == "!!"
    # Weaker attacks: nothing.
    assert row(power=0.5, above=100).mark(0.05) == ""


def test_the_control_is_called_out_and_its_honest_twin_is_not() -> None:
    """Assuming Gaussian noise for Laplace noise, the model is above the truth; with all families not."""
    found = {}
    for cell in (CONTROL, replace(CONTROL, family="average")):
        plan = StudyPlan(cells=(replace(cell, runs=6),))
        results = {job.key: run_job(plan, job) for job in jobs_of(plan)}
        (found[cell.family],) = curve_rows(plan, results)
    wrong, honest = found["gaussian"], found["average"]
    assert (wrong.section, wrong.mark(0.05)) == (Section.CONTROL, "!!")
    assert wrong.above == wrong.runs
    assert (honest.section, honest.mark(0.05)) == (Section.BEST, "")
    assert honest.mean_median == pytest.approx(1.0, abs=0.2)


@pytest.mark.parametrize(
    ("mixing", "assumed"), [("free", FreeMixing()), (0.2, KnownMixing(rate=0.2))]
)
def test_the_model_has_the_settings_of_the_cell(mixing: str | float, assumed: Mixing) -> None:
    mechanism = SubsampledGaussian(2.0, 0.2)
    cell = CurveCell(mechanism=mechanism, bases=2, models=40, mixing=mixing, runs=1)
    found = judge_curves(cell, 0.05, 1, np.random.default_rng(1))
    scores = draw_bases(
        mechanism, power=1.0, strengths=None, bases=2, models=40, rng=np.random.default_rng(1)
    )
    model = CurveModel(delta=1e-5, mixing=assumed)
    expected = (
        CurveSettings().estimate_quickly(scores, model).quantile("epsilon", [0.05, 0.5, 0.95])
    )
    sums = [found.sum_low, found.sum_median, found.sum_high]
    assert sums == pytest.approx(expected, abs=1e-6)


# --- the plain prior ------------------------------------------------------------------------------


def draws_of_two() -> Scores:
    rng = np.random.default_rng(8)
    return draw_bases(
        GaussianMechanism(0.7), power=1.0, strengths=None, bases=2, models=60, rng=rng
    )


def test_the_plain_prior_averages_families_by_evidence_alone() -> None:
    """Three estimates with one family each, weighted by their evidence: the oracle."""
    scores, value = draws_of_two(), 1.6
    told: dict[str, Any] = {"delta": 1e-5, "mixing": NoMixing(), "strength": FixedStrength()}
    single = [
        CurveSettings().estimate_quickly(scores, CurveModel(families=(each,), **told))
        for each in FAMILIES.values()
    ]
    evidence = np.exp([each.log_evidence for each in single])
    below = np.array([1 - each.probability_above("epsilon", value) for each in single])
    together = CurveSettings().estimate_quickly(scores, CurveModel(**told))
    found = probability_under_plain_prior(together.solution, value)
    # Grids have other steps for all families together than for each of them.
    assert found == pytest.approx(evidence @ below / evidence.sum(), abs=2e-3)
    # The model's own prior, which differs, does not pass.
    own = 1 - together.probability_above("epsilon", value)
    assert abs(own - found) > 0.02


def test_the_plain_prior_is_the_same_whatever_the_model_assumes() -> None:
    """With varying strengths: other priors of the model, the same result."""
    scores = draws_of_two()
    found = [
        probability_under_plain_prior(
            CurveSettings()
            .estimate_quickly(
                scores,
                CurveModel(
                    delta=1e-5, strength=FreeStrengths(best_possible=best_possible), no_leak=no_leak
                ),
            )
            .solution,
            1.3,
        )
        for best_possible, no_leak in ((0.8, 0.1), (0.2, 0.0), (0.05, 0.5))
    ]
    assert found == pytest.approx([found[0]] * 3, abs=1e-6)


def test_the_plan_has_its_documented_contents() -> None:
    cells = [cell for cell in curve_plan().cells if isinstance(cell, CurveCell)]
    assert len(cells) == len(curve_plan().cells) == 85
    assert {cell.runs for cell in cells} == {200}
    assert len({replace(cell) for cell in cells}) == len(cells)
    sizes = {(1, 100), (5, 100), (20, 100), (1, 1000)}
    plain = [
        c for c in cells if c.strengths is None and c.mixing == "free" and c.family == "average"
    ]
    for power, mechanisms in ((1.0, 9), (0.5, 8)):
        own = [cell for cell in plain if cell.power == power]
        assert len({cell.mechanism for cell in own}) == mechanisms
        assert len(own) == mechanisms * len(sizes)
        assert {(cell.bases, cell.models) for cell in own} == sizes
    told = [cell for cell in cells if cell.mixing != "free"]
    assert len(told) == 8
    assert all(getattr(cell.mechanism, "rate", None) == cell.mixing for cell in told)
    assert len([cell for cell in cells if cell.strengths]) == 8
    assert replace(cells[-1], runs=CONTROL.runs) == CONTROL
    digests = {plan.digest() for plan in (curve_plan(), quick_curve_plan(), full_plan(), SMALL)}
    assert len(digests) == 4


def test_the_old_study_is_unchanged() -> None:
    """Its plan and its random numbers, as in the published results."""
    assert full_plan().digest() == "09b6e9a639764d46"
    cell = full_plan().cells[7]
    assert isinstance(cell, CountsCell)
    plan = StudyPlan(cells=(replace(cell, posterior_runs=0),))
    rows = bound_rows(plan, {job.key: run_job(plan, job) for job in jobs_of(plan)})
    shipped = Path(__file__).resolve().parents[2] / "docs" / "calibration" / "bounds.csv"
    known = from_csv(shipped.read_text(), BoundRow, name="bounds.csv")
    assert len(rows) > 5
    assert all(row in known for row in rows)


def test_the_figure_has_a_mark_for_each_cell(finished: Path) -> None:
    rows = [*curve_rows(SMALL, run_study(SMALL, finished)), row(above=60)]
    above, covers, ends = draw_curve_calibration(rows, significance=0.05).axes
    for axes, name, most in ((above, "above", 20), (covers, "covers", 100)):
        dots = [line for line in axes.get_lines() if line.get_marker() in ("o", ">")]
        values = [float(np.asarray(dot.get_xdata()).item()) for dot in dots]
        shares = [100 * getattr(each, name) / each.runs for each in rows]
        assert values == pytest.approx([min(share, most) for share in shares])
        assert [dot.get_marker() == ">" for dot in dots] == [share > most for share in shares]
        filled = [dot.get_markerfacecolor() != "white" for dot in dots]
        assert filled == [bool(each.mark(0.05)) for each in rows]
        assert filled[-1]
    drawn = [np.asarray(line.get_xdata()).tolist() for line in ends.get_lines()]
    for each in rows:
        assert [each.mean_low, each.mean_high] in drawn
        assert [each.true_epsilon] * 2 in drawn


def test_the_command_leaves_its_plan_table_and_figure(
    finished: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(plans, "quick_curve_plan", lambda: SMALL)
    monkeypatch.chdir(tmp_path)
    target = tmp_path / "calibration-curve-quick"
    target.mkdir()
    (target / "study.jsonl").write_text(finished.read_text())  # as if it had been interrupted
    arguments = ["calibrate", "--study", "curve", "--quick", "--workers", "1"]
    assert run(arguments) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines()[:-1])) <= 80
    assert "Control, deliberately wrong:" in text
    assert "NOT SEEN" in text or "was seen" in text
    assert json.loads((target / "plan.json").read_text())["plan"] == SMALL.digest()
    rows = from_csv((target / "coverage.csv").read_text(), CurveRow, name="coverage.csv")
    assert len(rows) == len(SMALL.cells)
    assert (target / "calibration.png").read_bytes().startswith(b"\x89PNG")
    assert run([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["section"] for each in found["coverage"]] == [str(each.section) for each in rows]
    assert run(["calibrate", "--study", "other"]) == 2
    known = "count, curve, proofs, verdicts, one-run, pool"
    said = f"expected study to be one of {known}, got study='other'"
    assert said in capsys.readouterr().err
