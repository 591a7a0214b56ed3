"""Counts know where they come from, and one folder has one verdict whoever is asked."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epsilometer as em
from epsilometer.baselines.catalogue import FROM_SCORES, best_scores
from epsilometer.cli.main import run
from epsilometer.testing import InconclusiveWarning, assert_private
from tests.cli.small_audit import AUDIT
from tests.cli.test_estimate import in_shell

HEADER = "false_positives,trials_h0,false_negatives,trials_h1"
ROWS = ("10,100,20,100", "30,100,30,100")
FAIL, OPEN, PASS = "0.2", "1.5", "30"
"""Claims that the audits below refute, leave open, and let pass."""


def asked(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    """The JSON that a command prints."""
    capsys.readouterr()
    assert run([*map(str, arguments), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line with which a command refuses."""
    capsys.readouterr()
    assert run([*map(str, arguments)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


def write_counts(path: Path, design: str | None, rows: tuple[str, ...] = ROWS) -> Path:
    columns, cell = ("", "") if design is None else (",design", f",{design}")
    path.write_text("\n".join([HEADER + columns, *(row + cell for row in rows)]) + "\n")
    return path


def likelihood(found: dict[str, Any]) -> str:
    return "correlated" if "within_correlation" in found else "binomial"


@pytest.fixture(scope="module")
def losses(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three bases of 2 x 35 models, on scales of their own."""
    rng = np.random.default_rng(7)
    bases, models = 3, 35
    member = np.tile(np.repeat([0, 1], models), bases)
    place = np.repeat([0.0, 3.0, -3.0], 2 * models)
    logits = rng.standard_normal(len(member)) + 1.5 * member + place
    path = tmp_path_factory.mktemp("losses") / "losses.csv"
    em.Losses(
        challenge_base=np.repeat(["one", "two", "three"], 2 * models),
        hypothesis=member,
        replicate=np.tile(np.arange(models), 2 * bases),
        loss=np.log1p(np.exp(-logits)),
    ).write(path)
    return path


@pytest.fixture(scope="module", params=["profile", "published", "shadows"])
def result(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `audit --output` leaves: of either model, and with shadows of their own."""
    folder = tmp_path_factory.mktemp(request.param)
    text = AUDIT.replace('likelihood = "binomial"\n', "")
    if request.param == "profile":
        text = text.replace('model = "count"', 'family = "gaussian"\nmixing = "none"')
    if request.param == "shadows":
        text = text.replace("replicates = 20", "replicates = 12\nshadows = 3")
    (folder / "audit.toml").write_text(text)
    target = folder / "result"
    assert run(["audit", str(folder / "audit.toml"), "--claim", OPEN, "--output", str(target)]) == 0
    return target


# --- the likelihood ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("design", "expected"),
    [("cross-fed", "correlated"), ("independent", "binomial"), (None, "binomial")],
)
@pytest.mark.parametrize("command", ["estimate", "compare"])
def test_counts_get_the_likelihood_that_their_design_wants(
    design: str | None, expected: str, command: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    path = write_counts(tmp_path / "counts.csv", design)
    found = asked(capsys, command, path, "--delta", 0.01)
    if command == "compare":
        assert found["rows"][0]["estimator"] == f"Epsilometer, {expected}"
    else:
        assert likelihood(found) == expected
        said = " ".join(found["assumptions"]["sentences"])
        assert ("the counts were measured" in said) == (design is not None)
        # What is said goes before.
        other = {"correlated": "binomial", "binomial": "correlated"}[expected]
        found = asked(capsys, command, path, "--delta", 0.01, "--likelihood", other)
        assert likelihood(found) == other


def test_the_columns_decide_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = asked(capsys, "estimate", write_counts(tmp_path / "a.csv", "cross-fed"), "--delta", 0.01)
    plain = write_counts(tmp_path / "b.csv", None)
    asked_for = asked(capsys, "estimate", plain, "--delta", 0.01, "--likelihood", "correlated")
    assert told["epsilon"] == asked_for["epsilon"]
    assert told["epsilon"] != asked(capsys, "estimate", plain, "--delta", 0.01)["epsilon"]


def test_the_reason_is_on_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_counts(tmp_path / "counts.csv", "cross-fed")
    assert run(["estimate", str(path), "--delta", "0.01", "--details"]) == 0
    out = capsys.readouterr().out
    assert "the counts were measured by cross-feeding" in out.replace("\n  ", " ")
    assert "Decisions on one challenge base are correlated" in out.replace("\n  ", " ")
    assert max(map(len, out.splitlines())) <= 80
    assert run(["compare", str(path), "--delta", "0.01"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "These are counts of cross-fed models, which depend on each other; rows" in out
    # Control: not where every challenge had models of its own.
    write_counts(path, "independent")
    assert run(["compare", str(path), "--delta", "0.01"]) == 0
    assert "depend on each other" not in " ".join(capsys.readouterr().out.split())


def test_losses_counted_on_the_way_are_cross_fed_too(
    losses: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = tmp_path / "counts.csv"
    assert run(["attack", str(losses), "--statistic", "logit", "--output", str(counts)]) == 0
    assert em.AttackCounts.read(counts).measured == em.rows.MeasuredBy(
        design="cross-fed", target_alpha=0.1, statistic="logit"
    )
    by_file = asked(capsys, "estimate", counts, "--delta", 0.01)
    at_once = asked(capsys, "estimate", losses, "--delta", 0.01, "--model", "count")
    assert likelihood(by_file) == likelihood(at_once) == "correlated"
    assert by_file["epsilon"] == at_once["epsilon"]


def test_through_a_pipe(losses: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["attack", str(losses), "--json"]) == 0
    text = capsys.readouterr().out
    done = in_shell("estimate", "-", "--delta", "0.01", "--json", stdin=text)
    assert likelihood(json.loads(done.stdout)) == "correlated"


def test_shadows_of_their_own_are_independent(
    losses: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = tmp_path / "counts.json"
    assert run(["attack", str(losses), "--shadows", "2", "--output", str(counts)]) == 0
    measured = em.AttackCounts.read(counts).measured
    assert measured is not None
    assert measured.design == "independent"
    assert likelihood(asked(capsys, "estimate", counts, "--delta", 0.01)) == "binomial"


def test_contradictions_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cross = write_counts(tmp_path / "cross.csv", "cross-fed")
    own = write_counts(tmp_path / "own.csv", "independent")
    error = refused(capsys, "estimate", cross, own, "--delta", 0.01)
    assert "got cross-fed and independent: choose the likelihood" in error
    both = ["estimate", str(cross), str(own), "--delta", "0.01", "--likelihood", "correlated"]
    assert run([*both, "--json"]) == 0
    mixed = tmp_path / "mixed.csv"
    mixed.write_text(f"{HEADER},design\n{ROWS[0]},cross-fed\n{ROWS[1]},independent\n")
    for command in ("estimate", "compare"):
        error = refused(capsys, command, mixed, "--delta", 0.01)
        assert "mixed.csv row 3: expected the same design" in error
    hostile = tmp_path / "hostile.csv"
    hostile.write_text(f'{HEADER},design,statistic\n{ROWS[0]},cross-fed,"a\x1b[2J\nb"\n')
    error = refused(capsys, "estimate", hostile, "--delta", 0.01)
    assert "expected a name of printable characters" in error
    assert "\x1b" not in error


# --- one folder, one verdict ------------------------------------------------------------------


def judged(given: Any, claim: float, **model: Any) -> Any:
    """The verdict of `assert_private`, a FAIL too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconclusiveWarning)
        return assert_private(given, epsilon=claim, **model)


def test_everybody_agrees_on_a_folder(result: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = asked(capsys, "report", result)
    assert report["claim"]["epsilon"] == float(OPEN)
    assert report["verdict"]["outcome"] == "INCONCLUSIVE"
    estimate = asked(capsys, "estimate", result)
    for part in ("claim", "verdict", "epsilon", "delta", "assumptions"):
        assert estimate[part] == report[part]
    for given in ({}, {"delta": 0.1}):
        verdict = judged(result, float(OPEN), **given)
        assert verdict.probability_above == report["claim"]["probability_above"]
        assert str(verdict.outcome) == report["verdict"]["outcome"]
        assert str(verdict.grounds) == report["verdict"]["grounds"]
        assert list(verdict.reasons) == report["verdict"]["reasons"]
    first = asked(capsys, "compare", result)["rows"][0]
    assert [first["lower"], first["upper"]] == report["epsilon"]["interval"]
    # Whatever the model, what is proven is proven from the scores of all models.
    scores = em.attacks.scores_of(em.Losses.read(result / "losses.csv"), em.attacks.Loss())
    proven = em.prove(scores, delta=0.1)
    outcomes = []
    for claim in (FAIL, PASS):
        found = asked(capsys, "report", result, "--claim", claim)
        outcome = found["verdict"]["outcome"]
        again = asked(capsys, "estimate", result, "--claim", claim)
        for part in ("verdict", "proof", "bounds", "contradiction"):
            assert found[part] == again[part]
        if outcome == "FAIL":
            label = f"{outcome} ({found['verdict']['grounds']}): "
            with pytest.raises(AssertionError, match=f"^{re.escape(label)}"):
                judged(result, float(claim))
        else:
            verdict = judged(result, float(claim))
            assert str(verdict.outcome) == outcome
            assert list(verdict.reasons) == found["verdict"]["reasons"]
        outcomes.append((outcome, found["verdict"]["grounds"]))
        assert found["proof"]["any_time"] is proven.any_time is True
        assert found["proof"]["at_least"] == proven.at_least
    # Shadows of their own are many more models, which refute the smaller claim.
    of_shadows = result.parent.name.startswith("shadows")
    assert proven.refutes(float(FAIL)) is of_shadows
    # They also prove more than the posterior of the few that were counted allows for: no PASS then.
    assert (found["contradiction"] is not None) is of_shadows
    larger = ("INCONCLUSIVE", "open") if of_shadows else ("PASS", "judged")
    assert outcomes == [("FAIL", "proven" if of_shadows else "judged"), larger]


def test_the_counts_of_a_folder_lead_to_the_same_likelihood(
    result: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Control: the file beside the posterior, read without the folder."""
    posterior = asked(capsys, "estimate", result, "--model", "count")
    counts = asked(capsys, "estimate", result / "counts.csv", "--delta", 0.1)
    assert posterior["epsilon"]["median"] == pytest.approx(counts["epsilon"]["median"], rel=1e-12)
    expected = "binomial" if result.parent.name.startswith("shadows") else "correlated"
    assert likelihood(posterior) == likelihood(counts) == expected


def test_options_say_otherwise(result: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = asked(capsys, "estimate", result)
    wide = asked(capsys, "estimate", result, "--epsilon-prior-scale", 9)
    assert wide["epsilon"] != own["epsilon"]
    assert wide["claim"]["epsilon"] == float(OPEN)
    # The claim was made at one delta, and is held against no other.
    elsewhere = asked(capsys, "estimate", result, "--delta", 0.05)
    assert elsewhere["delta"] == 0.05
    assert "claim" not in elsewhere
    own_model = em.load(result / "posterior.nc").model
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconclusiveWarning)
        there = assert_private(result, epsilon=float(OPEN), delta=0.05)
    said = asked(capsys, "estimate", result, "--delta", 0.05, "--claim", OPEN)
    assert said["claim"]["probability_above"] == there.probability_above
    assert own_model.delta == 0.1


def test_losses_of_a_folder_are_looked_at_as_they_were(
    result: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Losses of this audit can be negative: the default, logit, would refuse them."""
    rate = asked(capsys, "estimate", result, "--model", "count", "--target-alpha", 0.3)
    losses = em.Losses.read(result / "losses.csv")
    expected = em.rows.cross_feed(losses, statistic=em.attacks.Loss()).counts(0.3)
    assert rate["num_challenge_bases"] == len(expected)
    said = " ".join(rate["assumptions"]["sentences"])
    assert (
        "by cross-feeding: models served as each other's shadow models (statistic loss, target"
        in said
    )
    whole = asked(capsys, "estimate", result, "--model", "curve", "--family", "gaussian")
    assert whole["model"] == "curve"
    assert "at least 0 for statistic logit" in refused(
        capsys, "estimate", result, "--statistic", "logit"
    )


def test_a_result_keeps_its_claim_while_it_grows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (write_counts(tmp_path / name, None) for name in ("first.csv", "second.csv"))
    folder = tmp_path / "result"
    asked(capsys, "estimate", first, "--delta", 0.01, "--claim", 2, "--output", folder)
    grown = asked(capsys, "estimate", folder, second)
    assert grown["claim"]["epsilon"] == 2
    assert grown["verdict"]["outcome"]
    assert asked(capsys, "estimate", folder, second, "--claim", 3)["claim"]["epsilon"] == 3
    assert run(["estimate", str(folder), str(second), "--fail-on", "inconclusive"]) in (0, 3)
    # Control: a posterior alone claims nothing.
    alone = asked(capsys, "estimate", folder / "posterior.nc", second)
    assert "claim" not in alone


def test_cross_fed_counts_for_a_result_that_takes_them_as_independent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = write_counts(tmp_path / "first.csv", None)
    folder = tmp_path / "result"
    asked(capsys, "estimate", first, "--delta", 0.01, "--output", folder)
    for design, warned in (("cross-fed", True), ("independent", False)):
        second = write_counts(tmp_path / "second.csv", design)
        assert run(["estimate", str(folder), str(second)]) == 0
        err = capsys.readouterr().err
        assert ("counts of cross-fed models" in err) == warned


# --- compare ----------------------------------------------------------------------------------


def test_several_bases_pay_for_the_best_of_them(
    losses: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    read = em.Losses.read(losses)
    scores = em.attacks.scores_of(read)
    scores.write(tmp_path / "scores.csv")
    bases = [em.baselines.CanaryScoreAuditor(*base.by_hypothesis[::-1]) for base in scores.bases]
    together = em.baselines.CanaryScoreAuditor(
        *(np.concatenate([base.by_hypothesis[which] for base in scores.bases]) for which in (1, 0))
    )
    for path in (losses, tmp_path / "scores.csv"):
        found = asked(capsys, "compare", path, "--delta", 0.01)
        rows = {row["estimator"]: row for row in found["rows"]}
        model = em.CurveModel(delta=0.01)
        low, high = em.estimate(scores, model).credible_interval("epsilon", 0.9)
        assert [rows["Epsilometer, curve model"][end] for end in ("lower", "upper")] == [low, high]
        for estimator in FROM_SCORES:
            row = rows[estimator.label]
            if estimator.one_run:
                assert "canaries of one training run" in row["does_not_apply"]
                continue
            if "Split" not in estimator.label:  # whose halves depend on the order of rows
                assert row["lower"] == pytest.approx(best_scores(estimator, bases, 0.01, 0.05))
        scan = next(each for each in FROM_SCORES if each.label == "ROC scan, Clopper-Pearson")
        paid, free = (max(scan.lower(b, 0.01, share) for b in bases) for share in (0.05 / 3, 0.05))
        assert rows[scan.label]["lower"] == pytest.approx(paid)
        assert 0 < paid < free
        # Control: raw scores on scales of their own would say less, pooled.
        assert scan.lower(together, 0.01, 0.05) < paid


def test_one_run_bounds_are_for_canaries(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(2)
    values = [(rng.normal(1.5 * (i % 2)), i % 2) for i in range(200)]
    canaries, models = tmp_path / "canaries.csv", tmp_path / "models.csv"
    canaries.write_text("score,member\n" + "".join(f"{s},{m}\n" for s, m in values))
    models.write_text(
        "challenge_base,hypothesis,score\n" + "".join(f"a,{m},{s}\n" for s, m in values)
    )
    for path, applies in ((canaries, True), (models, False)):
        rows = asked(capsys, "compare", path, "--delta", 0.01)["rows"]
        one_run = [row for row in rows if row["estimator"].startswith("one-run")]
        assert len(one_run) == 4
        assert all(("does_not_apply" not in row) == applies for row in one_run)
    # In a result too.
    folder = tmp_path / "result"
    quick = ["--family", "gaussian", "--mixing", "none"]
    asked(capsys, "estimate", canaries, "--delta", 0.01, *quick, "--output", folder)
    rows = asked(capsys, "compare", folder)["rows"]
    assert not any("does_not_apply" in row for row in rows)


def test_infinite_scores_are_only_the_highest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{value},{member}" for value, member in zip(range(60), [0, 1] * 30, strict=True)]
    finite, infinite = tmp_path / "finite.csv", tmp_path / "infinite.csv"
    finite.write_text("score,member\n" + "\n".join(rows))
    infinite.write_text("score,member\n" + "\n".join([*rows[:-1], "inf,1"]))
    found = [asked(capsys, "compare", path, "--delta", 0.01)["rows"] for path in (finite, infinite)]
    assert found[0] == found[1]


def test_compare_wants_a_delta_of_what_has_none(
    losses: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "expected --delta" in refused(capsys, "compare", losses)
    assert "--statistic" in refused(
        capsys, "compare", losses, "--delta", 0.01, "--statistic", "best"
    )


# --- in Python --------------------------------------------------------------------------------


def test_assert_private_takes_everything(
    losses: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del capsys
    read = em.Losses.read(losses)
    read.write(tmp_path / "losses.parquet")
    em.attacks.scores_of(read).write(tmp_path / "scores.csv")
    given: tuple[Any, ...] = (
        read, em.attacks.scores_of(read), losses, tmp_path / "losses.parquet", tmp_path / "scores.csv",
    )  # fmt: skip
    found = [judged(each, 50.0, delta=0.01) for each in given]
    assert all(verdict == found[0] for verdict in found)
    counts = em.rows.cross_feed(read, statistic=em.attacks.Logit()).counts(0.1)
    counts.write(tmp_path / "counts.csv")
    model = em.CountModel(delta=0.01)
    of_file = judged(tmp_path / "counts.csv", 3.0, delta=0.01)
    assert of_file == judged(counts, 3.0, delta=0.01)
    # Cross-fed counts are not taken to be independent; a model that says so goes before.
    assert of_file.probability_above != judged(counts, 3.0, model=model).probability_above
    plain = em.AttackCounts.parse(
        "\n".join(line.rsplit(",", 3)[0] for line in counts.to_csv().splitlines()), name="plain"
    )
    assert plain.measured is None
    assert judged(plain, 3.0, delta=0.01) == judged(plain, 3.0, model=model)
    # Losses for the published model are counted at one rate.
    assert judged(read, 3.0, model=model) == judged(counts, 3.0, model=model)
