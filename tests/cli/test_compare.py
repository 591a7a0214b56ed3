"""``epsilometer compare``: the same numbers as the estimators, a table, JSON and a figure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import epsilometer as em
from epsilometer.baselines.catalogue import FROM_COUNTS, FROM_SCORES
from epsilometer.cli.main import run
from epsilometer.comparison.estimators import PROVEN, compare
from tests.cli.shell import Shell

WHOLE_CURVES = ("Epsilometer, curve model", "Epsilometer, curve model, strength 1")

COUNTS = (
    "challenge_base,false_positives,trials_h0,false_negatives,trials_h1\n"
    "one,10,100,12,100\ntwo,6,100,25,100\n"
)


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    rng = np.random.default_rng(2)
    lines = [f"{rng.normal(1.5 * (i % 2)):.5f},{i % 2}" for i in range(300)]
    path = tmp_path / "scores.csv"
    path.write_text("score,member\n" + "\n".join(lines) + "\n")
    return path


def test_rows_are_the_estimators_own(counts: Path, shell: Shell) -> None:
    found = shell.json("compare", counts, "--delta", "0.001")
    rows = {row["estimator"]: row for row in found["rows"]}
    assert list(rows) == ["Epsilometer, binomial", PROVEN, *(e.label for e in FROM_COUNTS)]
    read = em.AttackCounts.read(counts)
    posterior = em.estimate(read, em.CountModel(delta=0.001))
    ours = rows["Epsilometer, binomial"]
    expected = posterior.credible_interval("epsilon", 0.9)
    np.testing.assert_allclose([ours["lower"], ours["upper"]], expected)
    for estimator in FROM_COUNTS:
        row = rows[estimator.label]
        # Two bases share the error; both ends together may err in twice the significance.
        low, _ = estimator.interval(read, 0.001, 0.05)
        _, high = estimator.interval(read, 0.001, 0.1)
        assert row["lower"] == pytest.approx(low.max())
        assert row["lower"] == pytest.approx(em.baselines.best_base(estimator, read, 0.001, 0.05))
        if np.isfinite(high.max()):
            assert row["upper"] == pytest.approx(high.max())
        else:
            assert row["upper"] is None
        pooled = estimator.lower(em.baselines.pooled(read), 0.001, 0.05)
        assert row["pooled_lower"] == pytest.approx(pooled[0])


def test_rows_of_scores(scores: Path, shell: Shell) -> None:
    found = shell.json("compare", scores, "--delta", "1e-5", "--significance", "0.1")
    assert [row["estimator"] for row in found["rows"]] == [
        *WHOLE_CURVES,
        PROVEN,
        *(e.label for e in FROM_SCORES),
    ]
    by_label = {row["estimator"]: row for row in found["rows"]}
    data = np.loadtxt(scores, delimiter=",", skiprows=1)
    auditor = em.baselines.CanaryScoreAuditor(data[data[:, 1] == 1, 0], data[data[:, 1] == 0, 0])
    assert by_label["one-run scan"]["lower"] == pytest.approx(auditor.epsilon_one_run(0.1, 1e-5))
    assert by_label["ROC scan, Clopper-Pearson"]["lower"] == pytest.approx(
        auditor.epsilon_lower(em.baselines.ClopperPearson(), 0.1, 1e-5)
    )
    assert all(row["upper"] is None for row in found["rows"][len(WHOLE_CURVES) :])


def test_the_whole_curve_comes_first_for_scores(scores: Path, shell: Shell) -> None:
    options = ["--delta", "1e-5", "--significance", "0.1"]
    found = shell.json("compare", scores, *options)["rows"][: len(WHOLE_CURVES)]
    models = [
        em.CurveModel(delta=1e-5),
        em.CurveModel(delta=1e-5, strength=em.families.FixedStrength()),
    ]
    for row, model in zip(found, models, strict=True):
        # The same file by the other parser.
        posterior = em.estimate(em.Scores.read(scores), model)
        expected = posterior.credible_interval("epsilon", 0.8)
        assert [row["lower"], row["upper"]] == pytest.approx(expected, rel=1e-12)
        assert row["kind"] == "credible interval"
        assert row["about"] == "the algorithm's epsilon"
    assert "attacks of any strength" in found[0]["assumes"]
    assert "the best possible" in found[1]["assumes"]
    # What the attack may have missed is above what it found.
    assert found[0]["upper"] > found[1]["upper"]


def test_what_is_extrapolated_or_suspected_is_said(scores: Path, shell: Shell) -> None:
    """With 150 canaries a side, epsilon at 1e-5 is the family's word, and at 0.2 is not."""
    for delta, said in (("1e-5", True), ("0.2", False)):
        text = " ".join(shell.said("compare", scores, "--delta", delta).split())
        assert ("N = 150 models of the largest base: no score is there" in text) == said
        # With a prior chance of no leak at all this one may reach down to 0.
        assert "Credible intervals never reach" not in text
        assert "is their sign reversed?" not in text
    first, *lines = scores.read_text().splitlines()
    scores.write_text("\n".join([first, *(f"-{line}".replace("--", "") for line in lines)]))
    text = " ".join(shell.said("compare", scores, "--delta", "1e-3").split())
    assert "is their sign reversed?" in text


def test_text_fits_a_terminal_and_says_what_is_assumed(
    counts: Path, scores: Path, shell: Shell
) -> None:
    for file, delta in ((counts, "0"), (scores, "0"), (counts, "0.01")):
        text = shell.said("compare", file, "--delta", delta)
        assert max(map(len, text.splitlines())) <= 80
        assert "assumes" in text
        assert ("n/a" in text) == (delta == "0")


def test_figures(counts: Path, scores: Path, tmp_path: Path) -> None:
    starts = {"png": b"\x89PNG", "svg": b"<?xml"}
    for file, form in ((counts, "png"), (scores, "svg")):
        target = tmp_path / f"{file.stem}.{form}"
        assert run(["compare", str(file), "--delta", "1e-3", "--figure", str(target)]) == 0
        assert target.read_bytes().startswith(starts[form])


def test_figure_shows_the_rows(counts: Path) -> None:
    found = compare(em.AttackCounts.read(counts), delta=0.0)
    axes = found.plot().axes[0]
    applying = [row for row in found.rows if row.applies]
    assert [label.get_text() for label in axes.get_yticklabels()] == [r.label for r in applying]
    drawn = {float(x) for line in axes.lines for x in np.atleast_1d(line.get_xdata())}
    for row in applying:
        assert row.low in drawn
        assert row.label == PROVEN or (row.pooled is not None and row.pooled[0] in drawn)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "expected --delta D"),
        (["--delta", "1"], "expected 0 <= delta < 1"),
        (["--delta", "0.1", "--significance", "0.5"], "expected significance < 0.5"),
        (["--delta", "0.1", "--figure", "x.gif"], "--figure that ends in .png"),
    ],
)
def test_options_that_are_wrong(
    options: list[str], message: str, counts: Path, shell: Shell
) -> None:
    assert message in shell.refused("compare", counts, *options)


@pytest.mark.parametrize(
    ("rows", "remark"),
    [
        ("a,90,100,90,100\n", "In 1 of 1 bases the attack was wrong more often than guessing"),
        ("a,9,100,9,50\nb,9,100,9,100\n", "Counts were not pooled: bases differ in the ratio"),
        ("a,50,100,500,1000\n", "expected canaries included by a fair coin each"),
        ("a,9,100,9,100\n", "Counts of cross-fed models depend on each other"),
    ],
)
def test_what_is_suspected_of_counts_is_said(
    rows: str, remark: str, tmp_path: Path, shell: Shell
) -> None:
    path = tmp_path / "counts.csv"
    path.write_text(COUNTS.split("\n", maxsplit=1)[0] + "\n" + rows)
    text = shell.said("compare", path, "--delta", "1e-3")
    assert remark in " ".join(text.split())
    assert ("pooled: least" in text) == (rows.count("\n") > 1 and "not pooled" not in remark)
