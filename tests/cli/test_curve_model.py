"""``estimate``, ``audit`` and ``report`` with the whole-curve model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri

import epsilometer as em
from epsilometer.cli.main import run
from epsilometer.testing import InconclusiveWarning, assert_private
from tests.cli.small_audit import AUDIT

QUICK = ["--family", "gaussian", "--mixing", "none"]
"""One family, so that a run takes a fraction of a second."""


def even_scores(size: int, shift: float = 0.0) -> np.ndarray:
    """Scores on the quantiles of a normal distribution: no seed is needed."""
    return shift + np.asarray(ndtri((np.arange(size) + 0.5) / size))


def labels_of(without: np.ndarray, with_point: np.ndarray) -> list[int]:
    """Labels from the highest score down, ties member first."""
    rows = [(-value, 0) for value in with_point] + [(-value, 1) for value in without]
    return [1 - other for _, other in sorted(rows)]


# Reference numbers of a prototype of this model: labels, and 5 / 50 / 95 % points of epsilon with the
# Gaussian family, strength 1 and the half-normal prior, good to .02.
REFERENCE = {
    "P1": (
        labels_of(even_scores(50), even_scores(50, 1.0)),
        {1e-5: (2.406, 3.975, 5.662), 1e-3: (1.772, 2.988, 4.335)},
    ),
    "P2": (
        labels_of(even_scores(40), even_scores(80, 0.7)),
        {1e-5: (1.321, 2.706, 4.211), 1e-3: (0.938, 1.971, 3.137)},
    ),
    "P3": ([1] * 20 + [0] * 20, {1e-5: (6.28, 9.53, 13.08), 1e-3: (5.82, 8.86, 12.28)}),
    "P4": ([1, 0] * 30, {1e-5: (0.079, 0.786, 2.223), 1e-3: (0.054, 0.551, 1.614)}),
}


def write_canaries(path: Path, labels: list[int]) -> Path:
    rows = "".join(f"{-rank},{label}\n" for rank, label in enumerate(labels))
    path.write_text(f"score,member\n{rows}")
    return path


def asked(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    """The JSON that a command prints."""
    assert run([*map(str, arguments), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.fixture
def losses(tmp_path: Path) -> Path:
    """Three bases of 2 x 40 models; one leaks, one leaks much, one does not."""
    rng = np.random.default_rng(5)
    bases, models = 3, 40
    member = np.tile(np.repeat([0, 1], models), bases)
    strength = np.repeat([1.0, 0.0, 3.0], 2 * models)
    logits = rng.standard_normal(len(member)) + strength * member
    path = tmp_path / "losses.csv"
    em.Losses(
        challenge_base=np.repeat(["one", "none", "much"], 2 * models),
        hypothesis=member,
        replicate=np.tile(np.arange(models), 2 * bases),
        loss=np.log1p(np.exp(-logits)),
    ).write(path)
    return path


@pytest.mark.parametrize("name", REFERENCE)
def test_reference_numbers_from_the_shell(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels, wanted = REFERENCE[name]
    path = write_canaries(tmp_path / "scores.csv", labels)
    for delta, (low, median, high) in wanted.items():
        found = asked(capsys, "estimate", path, "--delta", delta, *QUICK, "--strength", 1)
        answer = [found["epsilon"]["interval"][0], found["epsilon"]["median"]]
        answer.append(found["epsilon"]["interval"][1])
        assert answer == pytest.approx([low, median, high], abs=0.02)
        assert found["converged"]


def test_the_answer_in_json(losses: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(capsys, "estimate", losses, "--delta", 1e-5)
    assert {"family", "mixing", "interpretation", "probability"} <= set(found["families"][0])
    assert sum(row["probability"] for row in found["families"]) == pytest.approx(1)
    assert [base["challenge_base"] for base in found["bases"]] == ["much", "one", "none"]
    low, high = found["bases"][0]["epsilon"]["interval"]
    assert low < found["bases"][0]["epsilon"]["median"] < high
    assert 0 < found["extrapolated_below_delta"] < 1
    # The algorithm leaks at least what its worst base does.
    assert found["shown"]["median"] <= found["epsilon"]["median"] + 0.01
    for name in ("engine", "seconds", "delta", "accuracy", "assumptions", "versions"):
        assert name in found


def test_every_source_of_the_same_scores_answers_alike(
    losses: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    read = em.Losses.read(losses)
    read.write(tmp_path / "losses.parquet")
    em.attacks.scores_of(read).write(tmp_path / "scores.csv")
    folder = tmp_path / "result"
    first = asked(capsys, "estimate", losses, "--delta", 1e-5, *QUICK, "--output", folder)
    assert (folder / "leaks.csv").read_text().startswith("challenge_base,auc,median,low,high")
    for source in (tmp_path / "losses.parquet", tmp_path / "scores.csv", folder):
        found = asked(capsys, "estimate", source, "--delta", 1e-5, *QUICK)
        assert found["epsilon"] == first["epsilon"]
    (folder / "losses.csv").write_text(losses.read_text())
    found = asked(capsys, "estimate", folder, "--delta", 1e-5, *QUICK)
    assert found["epsilon"] == first["epsilon"]


def test_the_published_model_on_request(
    losses: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = tmp_path / "counts.csv"
    attack = ["attack", str(losses), "--statistic", "logit", "--target-alpha", "0.2"]
    assert run([*attack, "--output", str(counts)]) == 0
    capsys.readouterr()
    wanted = asked(capsys, "estimate", counts, "--delta", 1e-3)
    published = ["--model", "count", "--target-alpha", 0.2]
    found = asked(capsys, "estimate", losses, "--delta", 1e-3, *published)
    assert found["epsilon"] == wanted["epsilon"]
    assert "families" not in found
    # And counts can be read as one threshold of each curve.
    curve = asked(capsys, "estimate", counts, "--delta", 1e-3, "--model", "curve", *QUICK)
    assert curve["model"] == "curve"


def test_what_is_said_in_words(losses: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["estimate", str(losses), "--delta", "1e-5", "--claim", "1"]) == 0
    out = capsys.readouterr().out
    scores = em.attacks.scores_of(em.Losses.read(losses))
    verdict = em.judge(em.estimate(scores, em.CurveModel(delta=1e-5)), claim=1.0)
    assert verdict.outcome is em.judgement.Outcome.FAIL
    assert " ".join(out.split()).startswith(f"{verdict.label}: {'; '.join(verdict.reasons)}. ")
    assert len(out.splitlines()) <= 25
    for words in ("\nProven: ", "\nShown: ", "\nEstimated: ", "\nNext: "):
        assert words in out
    assert run(["estimate", str(losses), "--delta", "1e-5", "--claim", "1", "--details"]) == 0
    out = capsys.readouterr().out
    for words in ("shown (worst base)", "estimated (algorithm)", "extrapolated", "worst first:"):
        assert words in out
    assert max(map(len, out.splitlines())) <= 80


def test_several_deltas_are_one_curve(
    losses: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    claim = tmp_path / "claim.csv"
    claim.write_text("delta,epsilon\n1e-6,50\n1e-3,0.5\n")
    options = ["--delta", "1e-5,1e-3,1e-1", "--claim-curve", claim, *QUICK]
    whole = asked(capsys, "estimate", losses, *options, "--output", tmp_path / "out")
    found = whole["over_delta"]
    for name in ("low", "median", "high", "joint_low", "joint_high"):
        values = [row[name] for row in found["curve"]]
        assert values == sorted(values, reverse=True)
    assert [row["extrapolated"] for row in found["curve"]] == sorted(
        (row["extrapolated"] for row in found["curve"]), reverse=True
    )
    assert whole["verdict"]["outcome"] == "FAIL"
    rows = [row["probability_above"] for row in found["curve"]]
    assert whole["claim"]["probability_above"] >= max(rows) - 1e-9
    assert (tmp_path / "out" / "curve.csv").exists()
    assert run(["estimate", str(losses), *map(str, options), "--fail-on", "fail"]) == 3


def test_new_scores_go_on_from_a_posterior(
    losses: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "result"
    asked(capsys, "estimate", losses, "--delta", 1e-5, *QUICK, "--output", folder)
    more = write_canaries(tmp_path / "more.csv", [1, 1, 0, 1, 0, 0] * 5)
    found = asked(capsys, "estimate", folder, more)
    whole = asked(capsys, "estimate", losses, more, "--delta", 1e-5, *QUICK)
    assert found["epsilon"] == whole["epsilon"]
    assert run(["estimate", str(folder), str(more), "--mixing", "0.5"]) == 2
    assert "contradicts" in capsys.readouterr().err


def test_scores_that_contradict_the_answer_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reversed sign, and a family without an epsilon: on the terminal, in JSON and in tests."""
    rng = np.random.default_rng(2)
    scores = em.Scores(
        without=[rng.standard_normal(60) for _ in range(3)],
        with_point=[rng.standard_normal(60) - 1.5 for _ in range(3)],
    )
    path = tmp_path / "reversed.csv"
    scores.write(path)
    assert run(["estimate", str(path), "--delta", "1e-3", "--claim", "2"]) == 0
    err = capsys.readouterr().err
    assert "is their sign reversed?" in err
    assert "Scores like these are unlikely" in err
    found = asked(capsys, "estimate", path, "--delta", 1e-3)
    assert any("is their sign reversed?" in text for text in found["warnings"])
    with pytest.warns(InconclusiveWarning) as caught:
        verdict = assert_private(scores, epsilon=2.0, delta=1e-3)
    assert (verdict.outcome, verdict.leaning) == (
        em.judgement.Outcome.INCONCLUSIVE,
        em.judgement.Outcome.PASS,
    )
    assert "is their sign reversed?" in verdict.meaning
    why, doubts = (str(each.message) for each in caught)
    assert why.startswith("INCONCLUSIVE: scores are lower for members than for non-members")
    assert doubts.startswith("INCONCLUSIVE, but: ")
    assert "is their sign reversed" in doubts
    # The right way round nothing is said.
    right = em.Scores(
        without=[base.by_hypothesis[1] for base in scores.bases],
        with_point=[base.by_hypothesis[0] for base in scores.bases],
    )
    right.write(path)
    assert run(["estimate", str(path), "--delta", "1e-3"]) == 0
    assert "warning" not in capsys.readouterr().err
    assert run(["estimate", str(path), "--delta", "0", "--details"]) == 0
    out, err = capsys.readouterr()
    assert "Left out: gaussian, which has no epsilon at delta = 0" in err.replace("\n", " ")
    assert "one of the families laplace, response" in out.replace("\n  ", " ")


def test_the_same_scores_twice_are_refused(
    losses: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["estimate", str(losses), str(losses), "--delta", "1e-5"]) == 2
    assert "got the same scores twice" in capsys.readouterr().err
    folder = tmp_path / "result"
    asked(capsys, "estimate", losses, "--delta", 1e-5, *QUICK, "--output", folder)
    assert run(["estimate", str(folder), str(losses)]) == 2
    assert "got the same scores twice" in capsys.readouterr().err


BAD = {
    "columns": ("a,b\n1,2\n", [], "expected the columns of scores (challenge_base, hypothesis"),
    "check": ("", ["--check-model"], "--check-model is for --model count"),
    "one hypothesis empty": ("score,member\n1,0\n2,0\n", [], "expected scores of models with"),
    "NaN scores": ("score,member\n1,0\nnan,1\n", [], "row 3: expected score to be a number"),
    "all ties": ("score,member\n1,0\n1,1\n1,0\n1,1\n", [], "got only ties"),
    "one model a side": ("score,member\n1,0\n2,1\n", [], "expected several models per side"),
    "labels": ("score,member\n1,0\n2,5\n", [], "row 3: expected member to be 0 or 1"),
    "hypotheses": ("challenge_base,hypothesis,score\na,2,1\n", [], "hypothesis to be 0 or 1"),
    "mixing": ("", ["--mixing", "1.5"], "expected mixing to be free, none or a rate in (0, 1]"),
    "no mixing": ("", ["--mixing", "0"], "expected mixing to be free, none or a rate in (0, 1]"),
    "family": ("", ["--family", "cauchy"], "expected family to be one of average, gaussian"),
    "strength": ("", ["--strength", "2"], "expected 0 <= strength <= 1"),
    "strength in words": ("", ["--strength", "much"], "expected --strength free or a number"),
    "model": ("", ["--model", "best"], "expected model to be one of curve, count"),
    "likelihood": ("", ["--likelihood", "binomial"], "--likelihood is for --model count"),
    "engine": ("", ["--engine", "mcmc"], "--engine is for --model count"),
    "statistic": ("", ["--statistic", "loss"], "--statistic is for losses"),
    "delta 0": ("", ["--delta", "0", "--family", "gaussian"], "has an epsilon at delta=0"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, options, expected = BAD[case]
    path = tmp_path / "scores.csv"
    path.write_text(text or "score,member\n3,1\n2,0\n1,1\n0,0\n")
    output = tmp_path / "out"
    delta = [] if "--delta" in options else ["--delta", "1e-5"]
    assert run(["estimate", str(path), *delta, *options, "--output", str(output)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert expected in err
    assert not output.exists()


def test_an_audit_answers_with_the_whole_curve(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "audit.toml"
    config.write_text(AUDIT.replace('model = "count"', 'family = "gaussian"\nmixing = "none"'))
    folder = tmp_path / "out"
    found = asked(capsys, "audit", config, "--output", folder, "--claim", 1)
    assert found["model"] == "curve"
    assert found["count_model"]["epsilon"]["interval"]
    assert {"posterior.nc", "count.nc", "leaks.csv", "losses.csv", "summary.json"} <= {
        path.name for path in folder.iterdir()
    }
    scores = em.attacks.scores_of(em.Losses.read(folder / "losses.csv"), em.attacks.Loss())
    model = em.CurveModel(
        delta=0.1, families=(em.families.Gaussian(),), mixing=em.families.NoMixing()
    )
    again = em.estimate(scores, model)
    assert found["epsilon"]["median"] == again.median("epsilon")
    # The folder can be judged again, with both answers, and planned from.
    report = asked(capsys, "report", folder, "--claim", 100)
    assert report["verdict"]["outcome"] == "PASS"
    assert report["count_model"]["epsilon"] == found["count_model"]["epsilon"]
    assert run(["report", str(folder), "--details"]) == 0
    assert "For comparison, the count model" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('model = "best"', "[estimate] model: expected"),
        ('family = "cauchy"', "[estimate] family: expected"),
        ("mixing = 2.0", "[estimate] mixing: expected free, none or a number in (0, 1]"),
        ("strength = 2", "[estimate] strength: expected free or a number in [0, 1]"),
    ],
)
def test_configurations_that_make_no_sense(
    line: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "audit.toml"
    config.write_text(AUDIT.replace('model = "count"', line))
    assert run(["audit", str(config)]) == 2
    assert expected in capsys.readouterr().err
