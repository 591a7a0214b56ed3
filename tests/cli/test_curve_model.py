"""``estimate``, ``audit`` and ``report`` with the whole-curve model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import epsilometer as em
from epsilometer.cli.main import run
from tests.cli.shell import Shell
from tests.cli.small_audit import AUDIT
from tests.drawn import losses_of

#: One family, so that a run takes a fraction of a second.
QUICK = ["--family", "gaussian", "--mixing", "none"]


def write_canaries(path: Path, labels: list[int]) -> Path:
    rows = "".join(f"{-rank},{label}\n" for rank, label in enumerate(labels))
    path.write_text(f"score,member\n{rows}")
    return path


@pytest.fixture
def losses(tmp_path: Path) -> Path:
    """Three bases of 2 x 40 models; one leaks, one leaks much, one does not."""
    rng = np.random.default_rng(5)
    logits = rng.standard_normal((3, 2, 40))
    logits[:, 1] += np.array([[1.0], [0.0], [3.0]])
    path = tmp_path / "losses.csv"
    losses_of(("one", "none", "much"), np.log1p(np.exp(-logits))).write(path)
    return path


def test_the_answer_in_json(losses: Path, shell: Shell) -> None:
    # With a family that is told there is always an upper limit.
    found = shell.json("estimate", losses, "--delta", 1e-5, "--family", "gaussian")
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


def test_what_is_said_in_words(losses: Path, shell: Shell) -> None:
    out = shell.said("estimate", losses, "--delta", "1e-5", "--claim", "1")
    scores = em.attacks.scores_of(em.Losses.read(losses))
    verdict = em.judge(em.estimate(scores, em.CurveModel(delta=1e-5)), claim=1.0)
    assert verdict.outcome is em.judgement.Outcome.FAIL
    assert " ".join(out.split()).startswith(f"{verdict.label}: {'; '.join(verdict.reasons)}. ")
    assert len(out.splitlines()) <= 25
    for words in ("\nProven: ", "\nShown: ", "\nEstimated: ", "\nNext: "):
        assert words in out
    out = shell.said("estimate", losses, "--delta", "1e-5", "--claim", "1", "--details")
    for words in ("shown (worst base)", "estimated (algorithm)", "extrapolated", "worst first:"):
        assert words in out
    assert max(map(len, out.splitlines())) <= 80


def test_several_deltas_are_one_curve(losses: Path, tmp_path: Path, shell: Shell) -> None:
    claim = tmp_path / "claim.csv"
    claim.write_text("delta,epsilon\n1e-6,50\n1e-3,0.5\n")
    options = ["--delta", "1e-5,1e-3,1e-1", "--claim-curve", claim, *QUICK]
    whole = shell.json("estimate", losses, *options, "--output", tmp_path / "out")
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


def test_new_scores_go_on_from_a_posterior(losses: Path, tmp_path: Path, shell: Shell) -> None:
    folder = tmp_path / "result"
    shell.json("estimate", losses, "--delta", 1e-5, *QUICK, "--output", folder)
    more = write_canaries(tmp_path / "more.csv", [1, 1, 0, 1, 0, 0] * 5)
    found = shell.json("estimate", folder, more)
    whole = shell.json("estimate", losses, more, "--delta", 1e-5, *QUICK)
    assert found["epsilon"] == whole["epsilon"]
    assert "contradicts" in shell.refused("estimate", folder, more, "--mixing", "0.5")


def test_scores_that_contradict_the_answer_are_told(tmp_path: Path, shell: Shell) -> None:
    """A reversed sign, and a family without an epsilon."""
    lower, higher = np.random.default_rng(2).standard_normal((2, 3, 60))
    higher += 1.5
    path = tmp_path / "scores.csv"
    em.Scores(without=list(higher), with_point=list(lower)).write(path)
    out, err = shell("estimate", path, "--delta", "1e-3", "--claim", "2", "--json")
    assert "is their sign reversed?" in err
    assert "Scores like these are unlikely" in err
    assert any("is their sign reversed?" in text for text in json.loads(out)["warnings"])
    assert json.loads(out)["verdict"]["outcome"] == "INCONCLUSIVE"
    # The right way round nothing is said.
    em.Scores(without=list(lower), with_point=list(higher)).write(path)
    assert "warning" not in shell("estimate", path, "--delta", "1e-3")[1]
    out, err = shell("estimate", path, "--delta", "0", "--details")
    assert (
        "Left out: gaussian, two-variances, two-variances-reversed, thin-tails: no epsilon"
        in err.replace("\n", " ")
    )
    assert "one of the families laplace, response" in out.replace("\n  ", " ")


def test_the_same_scores_twice_are_refused(losses: Path, tmp_path: Path, shell: Shell) -> None:
    assert "got the same scores twice" in shell.refused(
        "estimate", losses, losses, "--delta", "1e-5"
    )
    folder = tmp_path / "result"
    shell.json("estimate", losses, "--delta", 1e-5, *QUICK, "--output", folder)
    assert "got the same scores twice" in shell.refused("estimate", folder, losses)


BAD = {
    "columns": ("a,b\n1,2\n", [], "expected the columns of scores (challenge_base, hypothesis"),
    "check": ("", ["--check-model"], "--check-model is for --model count"),
    "NaN scores": ("score,member\n1,0\nnan,1\n", [], "expected numbers as scores, got nan"),
    "one model a side": ("score,member\n1,0\n2,1\n", [], "expected several models per side"),
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
def test_bad_input_is_one_line(case: str, tmp_path: Path, shell: Shell) -> None:
    text, options, expected = BAD[case]
    path = tmp_path / "scores.csv"
    path.write_text(text or "score,member\n3,1\n2,0\n1,1\n0,0\n")
    output = tmp_path / "out"
    delta = [] if "--delta" in options else ["--delta", "1e-5"]
    err = shell.refused("estimate", path, *delta, *options, "--output", output)
    assert expected in err
    assert not output.exists()


def test_an_audit_answers_with_the_whole_curve(tmp_path: Path, shell: Shell) -> None:
    config = tmp_path / "audit.toml"
    config.write_text(AUDIT.replace('model = "count"', 'family = "gaussian"\nmixing = "none"'))
    folder = tmp_path / "out"
    found = shell.json("audit", config, "--output", folder, "--claim", 1)
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
    report = shell.json("report", folder, "--claim", 100)
    assert report["verdict"]["outcome"] == "PASS"
    assert report["count_model"]["epsilon"] == found["count_model"]["epsilon"]
    assert "For comparison, the count model" in shell.said("report", folder, "--details")
