"""The study of the curve model: drawn as specified, judged as promised, its control detected."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from epsilometer.engines.curve.engine import CurveSettings
from epsilometer.errors import InputError
from epsilometer.model.mixing import FreeMixing, KnownMixing, Mixing
from epsilometer.model.models import CurveModel
from studies import curve, figures, results
from studies.curve import (
    CONTROL,
    COVERAGE,
    WHOLE_CURVE,
    CurveCell,
    Section,
    broken,
    section_of,
)
from studies.draws import draw_bases
from studies.mechanisms import (
    GaussianMechanism,
    LaplaceMechanism,
    Mechanism,
    Null,
    RandomisedResponse,
    SubsampledGaussian,
)
from studies.outside import CHOSEN_ON, SampledGaussianSteps, ShiftedNoise
from studies.runner import Plan, jobs_of, run_job, tables_of
from studies.tables import Row, chance_of

SMALL = Plan(
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


def rows_of(plan: Plan) -> list[Row]:
    return tables_of(plan, {job.key: run_job(plan, job) for job in jobs_of(plan)})[COVERAGE]


@pytest.fixture(scope="module")
def small() -> list[Row]:
    return rows_of(SMALL)


def row(**values: Any) -> Row:
    """A row of 200 runs without problems, except for the given values."""
    given: dict[str, Any] = {
        "mechanism": "Laplace", "setting": "pure_epsilon=1", "power": 1.0, "strengths": "",
        "bases": 5, "models": 100, "mixing": "free", "family": "average", "true_epsilon": 1.0,
        "above": 10, "below": 10, "no_limit": 1, "mean_low": 0.9,
        "mean_median": 1.1, "mean_high": 2.0, "runs": 200,
    } | values  # fmt: skip
    return Row(covers=given["runs"] - given["above"] - given["below"], **given)


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
    scores = draw_bases(mechanism, power=power, bases=2, models=models, rng=rng)
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
        GaussianMechanism(1.5), strengths=(5.0, 2.0), bases=400, models=400, rng=rng
    )
    shift = np.array([x[1].mean() - x[0].mean() for x in (b.by_hypothesis for b in scores.bases)])
    noise = 2 / 400
    assert shift.mean() == pytest.approx(1.5 * 5 / 7, abs=5 * shift.std() / 20)
    assert shift.var() - noise == pytest.approx(1.5**2 * 10 / (49 * 8), rel=0.4)
    with pytest.raises(InputError, match="expected a mechanism with a leak to weaken, got null"):
        draw_bases(Null(), strengths=(1.0, 1.0), bases=1, models=9, rng=rng)


def test_mechanisms_outside_have_the_epsilon_of_their_composition() -> None:
    """Known by hand: pure DP composes to the sum at delta 0; tables of the notes, to .01."""
    known = [1.494, 3.99, 1.499, 2.0, 2.0, 4.178, 17.09, 18.71]
    assert [each.epsilon(1e-5) for each in CHOSEN_ON] == pytest.approx(known, abs=0.006)
    assert ShiftedNoise("Laplace", 0.4, 3).epsilon(1e-12) == pytest.approx(1.2, abs=2e-3)
    # By Monte Carlo of the hockey stick, five standard errors; a longer composition must not pass.
    rng, delta_at = np.random.default_rng(4), 0.02
    for mechanism in (ShiftedNoise("Laplace", 0.4, 10), SampledGaussianSteps(1.0, 0.1, 30)):
        loss = mechanism.scores(np.ones(200_000, dtype=bool), rng)
        gain = np.maximum(-np.expm1(mechanism.epsilon(delta_at) - loss), 0.0)
        error = gain.std() / np.sqrt(len(gain))
        assert gain.mean() == pytest.approx(delta_at, abs=5 * error)
        longer = replace(mechanism, steps=2 * mechanism.steps).epsilon(delta_at)
        assert np.maximum(-np.expm1(longer - loss), 0.0).mean() < delta_at - 20 * error


@pytest.mark.parametrize(
    ("mixing", "assumed"), [("free", FreeMixing()), (0.2, KnownMixing(rate=0.2))]
)
def test_the_model_has_the_settings_of_the_cell(mixing: str | float, assumed: Mixing) -> None:
    mechanism = SubsampledGaussian(2.0, 0.2)
    cell = CurveCell(mechanism=mechanism, bases=2, models=40, mixing=mixing, runs=1)
    found = cell.judge("runs", 0.05, 1, np.random.default_rng(1))[WHOLE_CURVE]
    scores = draw_bases(mechanism, bases=2, models=40, rng=np.random.default_rng(1))
    posterior = CurveSettings().estimate_quickly(scores, CurveModel(delta=1e-5, mixing=assumed))
    expected = posterior.quantile("epsilon", [0.05, 0.5, 0.95])
    ends = [found[f"sum_{end}"] for end in ("low", "median", "high")]
    assert ends == pytest.approx(expected, abs=1e-6)


# --- what comes out ---------------------------------------------------------------------------


def test_rows_match_the_cells(small: list[Row]) -> None:
    assert [each.runs for each in small] == [11, 2, 3, 2, 2]
    assert [section_of(each) for each in small] == [
        Section.BEST, Section.STRENGTHS, Section.TOLD, Section.WEAKER, Section.CONTROL,
    ]  # fmt: skip
    assert [each.strengths for each in small] == ["", "Beta(1, 1)", "", "", ""]
    assert [each.true_epsilon for each in small] == pytest.approx(
        [0, 4.3772, 7.6204, 1, 1], abs=1e-4
    )
    for each in small:
        assert each.covers + each.above + each.below == each.runs
        assert 0 <= each.mean_low <= each.mean_median <= each.mean_high


def test_which_failures_matter() -> None:
    assert broken(row(), 0.05) == ""
    # 20 and 26 of 200 at an error of 5 %: probabilities 2.7e-3 and 1.2e-5; 19 is consistent with chance.
    assert chance_of(20, 200, 0.05) == pytest.approx(2.7e-3, rel=0.05)
    assert [broken(row(above=n), 0.05) for n in (17, 20, 27)] == ["", "!", "!!"]
    # Too many that miss, though few are above.
    assert [broken(row(above=0, below=n), 0.05) for n in (28, 33, 42)] == ["", "!", "!!"]
    # Beyond what the prior expects the upper end is not checked, unless the rate is given.
    large = {"true_epsilon": 7.6, "above": 0, "below": 150}
    assert broken(row(**large), 0.05) == ""
    assert broken(row(**large, mixing="0.2"), 0.05) == "!!"
    assert broken(row(**(large | {"above": 40})), 0.05) == "!!"
    # Weaker attacks: only those above.
    assert broken(row(power=0.5, above=0, below=150), 0.05) == ""
    assert broken(row(power=0.5, above=100), 0.05) == "!!"


def test_the_control_is_called_out_and_its_honest_twin_is_not() -> None:
    """Assuming Gaussian noise for Laplace noise, the model is above the truth; with all families not."""
    cells = (CONTROL, replace(CONTROL, family="average"))
    wrong, honest = rows_of(Plan(cells=tuple(replace(cell, runs=6) for cell in cells)))
    assert (section_of(wrong), broken(wrong, 0.05)) == (Section.CONTROL, "!!")
    assert wrong.above == wrong.runs
    assert (section_of(honest), broken(honest, 0.05)) == (Section.BEST, "")
    assert honest.mean_median == pytest.approx(1.0, abs=0.2)


# --- the figure and the page ----------------------------------------------------------------------


def test_the_figure_has_a_mark_for_each_cell(small: list[Row]) -> None:
    rows = [*small, row(above=60)]
    above, covers, ends = figures.draw_curves({COVERAGE: rows}, 0.05).axes
    for axes, name, largest in ((above, "above", 20), (covers, "covers", 100)):
        dots = [line for line in axes.get_lines() if line.get_marker() in ("o", ">")]
        values = [float(np.asarray(dot.get_xdata()).item()) for dot in dots]
        shares = [100 * each.share(name) for each in rows]
        assert values == pytest.approx([min(share, largest) for share in shares])
        assert [dot.get_marker() == ">" for dot in dots] == [share > largest for share in shares]
        filled = [dot.get_markerfacecolor() != "white" for dot in dots]
        assert filled == [bool(broken(each, 0.05)) for each in rows]
        assert filled[-1]
    drawn = [np.asarray(line.get_xdata()).tolist() for line in ends.get_lines()]
    for each in rows:
        assert [each.mean_low, each.mean_high] in drawn
        assert [each.true_epsilon] * 2 in drawn


def test_the_page_lists_every_violation() -> None:
    rows = results.read("curve")[0][COVERAGE]
    said = " ".join(curve.verdict_text(rows, 0.05).split())
    for each in rows:
        if section_of(each) is Section.CONTROL:
            assert broken(each, 0.05) == "!!"
        elif broken(each, 0.05) and section_of(each) is not Section.BEFORE:
            assert curve.place_of(each) in said.partition("**Not met**")[2]
    assert "is detected" in said


def test_statements_of_the_page_follow_from_the_table() -> None:
    """All fine, one violated level, a control that was not detected."""
    fine = [row(true_epsilon=1.0), row(power=0.5), row(strengths="Beta(1, 1)"), row(mixing=0.2)]
    control = row(family="gaussian")

    def blocks(*rows: Row) -> dict[str, str]:
        found = curve.blocks({COVERAGE: list(rows)}, 0.05)
        return {name: " ".join(text.split()) for name, text in found.items()}

    good = blocks(*fine, row(family="gaussian", above=200, below=0))
    assert "Both stated rates are met in all of them" in good["curve-verdict"]
    assert "is detected: above in 100.0 % of 200 runs" in good["curve-verdict"]
    assert "**" not in good["curve-short"]  # nowhere too often
    bad = blocks(row(mechanism="null", setting="", above=40, below=0), *fine, control)
    assert "**Not met** in 1: null, 5 bases of 100 (covers 80.0 %" in bad["curve-verdict"]
    assert "was NOT detected" in bad["curve-verdict"]
    assert (
        "| best attacks | null | 1.00 | 5 bases of 100 | 0.0 % | **20.0 %** |" in bad["curve-short"]
    )
    assert "| null **!!** |" in bad["curve-best"]


def test_the_count_model_is_shown_next_to_it() -> None:
    table = curve.blocks(*results.read("curve"))["curve-best"]
    # Marks of violated levels are not part of the name.
    lines = [line.replace(" **!!**", "").replace(" **!**", "") for line in table.splitlines()]
    shown = {tuple(line.split(" | ")[i] for i in (0, 2, 3)): line for line in lines[2:]}
    assert " %" in shown["| Gaussian (mu=1)", "5", "100"].split(" | ")[-1]
    assert shown["| Gaussian (mu=1)", "1", "1,000"].endswith("| - |")
    assert shown["| Gaussian (mu=0.5)", "5", "100"].endswith("| - |")
