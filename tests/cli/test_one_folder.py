"""Counts know where they come from, and one folder has one verdict whoever is asked."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epsilometer as em
from epsilometer.baselines.catalogue import FROM_SCORES, best_scores
from epsilometer.cli.main import run
from epsilometer.model.planned_order import PlannedOrder
from epsilometer.testing import InconclusiveWarning, assert_private
from tests.cli.shell import Shell
from tests.cli.small_audit import AUDIT
from tests.drawn import losses_of

HEADER = "false_positives,trials_h0,false_negatives,trials_h1"
ROWS = ("10,100,20,100", "30,100,30,100")
#: Claims that the audits below refute, leave open, and let pass.
FAIL, OPEN, PASS = "0.2", "1.5", "30"


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
    shift = np.array([0.0, 3.0, -3.0])[:, None, None] + np.array([[0.0], [1.5]])
    logits = rng.standard_normal((3, 2, 35)) + shift
    path = tmp_path_factory.mktemp("losses") / "losses.csv"
    losses_of(("one", "two", "three"), np.log1p(np.exp(-logits))).write(path)
    return path


def audited(kind: str, folder: Path) -> Path:
    """What `audit --output` leaves: of either model, and with shadows of their own."""
    text = AUDIT.replace('likelihood = "binomial"\n', "")
    if kind == "curve":
        text = text.replace('model = "count"', 'family = "gaussian"\nmixing = "none"')
    if kind == "shadows":
        text = text.replace("replicates = 20", "replicates = 12\nshadows = 3")
    (folder / "audit.toml").write_text(text)
    target = folder / "result"
    assert run(["audit", str(folder / "audit.toml"), "--claim", OPEN, "--output", str(target)]) == 0
    return target


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The result of an audit by the count model."""
    return audited("count", tmp_path_factory.mktemp("count"))


# --- the likelihood ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("design", "expected"),
    [("cross-fed", "correlated"), ("independent", "binomial"), (None, "binomial")],
)
def test_counts_get_the_likelihood_that_their_design_wants(
    design: str | None, expected: str, tmp_path: Path, shell: Shell
) -> None:
    path = write_counts(tmp_path / "counts.csv", design)
    row = shell.json("compare", path, "--delta", 0.01)["rows"][0]
    assert row["estimator"] == f"Epsilometer, {expected}"
    found = shell.json("estimate", path, "--delta", 0.01)
    assert likelihood(found) == expected
    said = " ".join(found["assumptions"]["sentences"])
    assert ("the counts were measured" in said) == (design is not None)
    # What is said goes before.
    other = {"correlated": "binomial", "binomial": "correlated"}[expected]
    found = shell.json("estimate", path, "--delta", 0.01, "--likelihood", other)
    assert likelihood(found) == other


def test_the_reason_is_on_the_terminal(tmp_path: Path, shell: Shell) -> None:
    path = write_counts(tmp_path / "counts.csv", "cross-fed")
    out = shell.said("estimate", path, "--delta", "0.01", "--details")
    assert "the counts were measured by cross-feeding" in out.replace("\n  ", " ")
    assert "Decisions on one challenge base are correlated" in out.replace("\n  ", " ")
    assert max(map(len, out.splitlines())) <= 80
    out = " ".join(shell.said("compare", path, "--delta", "0.01").split())
    assert "These are counts of cross-fed models, which depend on each other; rows" in out
    # Control: not where every challenge had models of its own.
    write_counts(path, "independent")
    assert "depend on each other" not in " ".join(
        shell.said("compare", path, "--delta", "0.01").split()
    )


def test_losses_counted_on_the_way_are_cross_fed_too(
    losses: Path, tmp_path: Path, shell: Shell
) -> None:
    counts = tmp_path / "counts.csv"
    assert run(["attack", str(losses), "--statistic", "logit", "--output", str(counts)]) == 0
    assert em.AttackCounts.read(counts).measured == em.rows.MeasuredBy(
        design="cross-fed", target_alpha=0.1, statistic="logit"
    )
    by_file = shell.json("estimate", counts, "--delta", 0.01)
    at_once = shell.json("estimate", losses, "--delta", 0.01, "--model", "count")
    assert likelihood(by_file) == likelihood(at_once) == "correlated"
    assert by_file["epsilon"] == at_once["epsilon"]


def test_shadows_of_their_own_are_independent(losses: Path, tmp_path: Path, shell: Shell) -> None:
    counts = tmp_path / "counts.json"
    assert run(["attack", str(losses), "--shadows", "2", "--output", str(counts)]) == 0
    measured = em.AttackCounts.read(counts).measured
    assert measured is not None
    assert measured.design == "independent"
    assert likelihood(shell.json("estimate", counts, "--delta", 0.01)) == "binomial"


def test_contradictions_are_one_line(tmp_path: Path, shell: Shell) -> None:
    cross = write_counts(tmp_path / "cross.csv", "cross-fed")
    own = write_counts(tmp_path / "own.csv", "independent")
    error = shell.refused("estimate", cross, own, "--delta", 0.01)
    assert "got cross-fed and independent: choose the likelihood" in error
    both = ["estimate", str(cross), str(own), "--delta", "0.01", "--likelihood", "correlated"]
    assert run([*both, "--json"]) == 0
    mixed = tmp_path / "mixed.csv"
    mixed.write_text(f"{HEADER},design\n{ROWS[0]},cross-fed\n{ROWS[1]},independent\n")
    for command in ("estimate", "compare"):
        error = shell.refused(command, mixed, "--delta", 0.01)
        assert "mixed.csv row 3: expected the same design" in error
    hostile = tmp_path / "hostile.csv"
    hostile.write_text(f'{HEADER},design,statistic\n{ROWS[0]},cross-fed,"a\x1b[2J\nb"\n')
    error = shell.refused("estimate", hostile, "--delta", 0.01)
    assert "expected a name of printable characters" in error
    assert "\x1b" not in error


# --- one folder, one verdict ------------------------------------------------------------------


def judged(given: Any, claim: float, **model: Any) -> Any:
    """The verdict of `assert_private`, a FAIL too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconclusiveWarning)
        return assert_private(given, epsilon=claim, **model)


@pytest.mark.parametrize("kind", ["curve", "count", "shadows"])
def test_everybody_agrees_on_a_folder(
    kind: str, counted: Path, tmp_path: Path, shell: Shell
) -> None:
    result = counted if kind == "count" else audited(kind, tmp_path)
    report = shell.json("report", result)
    assert report["claim"]["epsilon"] == float(OPEN)
    assert report["verdict"]["outcome"] == "INCONCLUSIVE"
    estimate = shell.json("estimate", result)
    for part in ("claim", "verdict", "epsilon", "delta", "assumptions"):
        assert estimate[part] == report[part]
    verdict = judged(result, float(OPEN))
    assert verdict.probability_above == report["claim"]["probability_above"]
    assert str(verdict.grounds) == report["verdict"]["grounds"]
    assert list(verdict.reasons) == report["verdict"]["reasons"]
    first = shell.json("compare", result)["rows"][0]
    assert [first["lower"], first["upper"]] == report["epsilon"]["interval"]
    # Whatever the model, what is proven is proven from the scores of all models.
    losses = em.Losses.read(result / "losses.csv")
    order = PlannedOrder.of(
        [[len(losses.names), losses.replicate.max() + 1]], range(len(losses.names))
    )
    scores = em.attacks.scores_of(losses.in_planned_order(order), em.attacks.Loss())
    proven = em.prove(scores, delta=0.1)
    # Control: an order of pairs that is not known proves something else.
    unknown = em.attacks.scores_of(losses, em.attacks.Loss())
    assert em.prove(unknown, delta=0.1).at_least != proven.at_least
    outcomes = []
    for claim in (FAIL, PASS):
        found = shell.json("report", result, "--claim", claim)
        outcomes.append((found["verdict"]["outcome"], found["verdict"]["grounds"]))
        assert found["proof"]["any_time"] is proven.any_time is True
        assert found["proof"]["at_least"] == proven.at_least
    with pytest.raises(AssertionError, match=rf"^FAIL \({outcomes[0][1]}\): "):
        judged(result, float(FAIL))
    # Shadows of their own are many more models, which refute the smaller claim.
    of_shadows = kind == "shadows"
    assert proven.refutes(float(FAIL)) is of_shadows
    # They also prove more than the posterior of the few that were counted allows for: no PASS then.
    assert (found["contradiction"] is not None) is of_shadows
    larger = ("INCONCLUSIVE", "open") if of_shadows else ("PASS", "judged")
    assert outcomes == [("FAIL", "proven" if of_shadows else "judged"), larger]
    # Control: the counts beside the posterior, read without the folder.
    again = shell.json("estimate", result, "--model", "count")
    alone = shell.json("estimate", result / "counts.csv", "--delta", 0.1)
    assert again["epsilon"]["median"] == pytest.approx(alone["epsilon"]["median"], rel=1e-12)
    assert likelihood(again) == likelihood(alone) == ("binomial" if of_shadows else "correlated")


def test_options_say_otherwise(counted: Path, shell: Shell) -> None:
    own = json.loads((counted / "summary.json").read_text())
    wide = shell.json("estimate", counted, "--epsilon-prior-scale", 9)
    assert wide["epsilon"] != own["epsilon"]
    assert wide["claim"]["epsilon"] == float(OPEN)
    # The claim was made at one delta, and is held against no other.
    elsewhere = shell.json("estimate", counted, "--delta", 0.05)
    assert elsewhere["delta"] == 0.05
    assert "claim" not in elsewhere
    said = shell.json("estimate", counted, "--delta", 0.05, "--claim", OPEN)
    there = judged(counted, float(OPEN), delta=0.05)
    assert said["claim"]["probability_above"] == there.probability_above


def test_losses_of_a_folder_are_looked_at_as_they_were(counted: Path, shell: Shell) -> None:
    """Losses of this audit can be negative: the default, logit, would refuse them."""
    rate = shell.json("estimate", counted, "--model", "count", "--target-alpha", 0.3)
    losses = em.Losses.read(counted / "losses.csv")
    expected = em.rows.cross_feed(losses, statistic=em.attacks.Loss()).counts(0.3)
    assert rate["num_challenge_bases"] == len(expected)
    said = " ".join(rate["assumptions"]["sentences"])
    assert (
        "by cross-feeding: models served as each other's shadow models (statistic loss, target"
        in said
    )
    whole = shell.json("estimate", counted, "--model", "curve", "--family", "gaussian")
    assert whole["model"] == "curve"
    assert "for the statistic logit" in shell.refused("estimate", counted, "--statistic", "logit")


def test_a_result_keeps_its_claim_while_it_grows(tmp_path: Path, shell: Shell) -> None:
    first, second = (write_counts(tmp_path / name, None) for name in ("first.csv", "second.csv"))
    folder = tmp_path / "result"
    shell.json("estimate", first, "--delta", 0.01, "--claim", 2, "--output", folder)
    grown = shell.json("estimate", folder, second)
    assert grown["claim"]["epsilon"] == 2
    assert grown["verdict"]["outcome"]
    assert shell.json("estimate", folder, second, "--claim", 3)["claim"]["epsilon"] == 3
    assert run(["estimate", str(folder), str(second), "--fail-on", "inconclusive"]) in (0, 3)
    # Control: a posterior alone claims nothing.
    alone = shell.json("estimate", folder / "posterior.nc", second)
    assert "claim" not in alone


def test_cross_fed_counts_for_a_result_that_takes_them_as_independent(
    tmp_path: Path, shell: Shell
) -> None:
    first = write_counts(tmp_path / "first.csv", None)
    folder = tmp_path / "result"
    shell.json("estimate", first, "--delta", 0.01, "--output", folder)
    for design, warned in (("cross-fed", True), ("independent", False)):
        second = write_counts(tmp_path / "second.csv", design)
        err = shell("estimate", folder, second)[1]
        assert ("counts of cross-fed models" in err) == warned


# --- compare ----------------------------------------------------------------------------------


def test_several_bases_pay_for_the_best_of_them(losses: Path, tmp_path: Path, shell: Shell) -> None:
    read = em.Losses.read(losses)
    scores = em.attacks.scores_of(read)
    scores.write(tmp_path / "scores.csv")
    bases = [em.baselines.CanaryScoreAuditor(*base.by_hypothesis[::-1]) for base in scores.bases]
    together = em.baselines.CanaryScoreAuditor(
        *(np.concatenate([base.by_hypothesis[which] for base in scores.bases]) for which in (1, 0))
    )
    for path in (losses, tmp_path / "scores.csv"):
        found = shell.json("compare", path, "--delta", 0.01)
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


def test_infinite_scores_are_only_the_highest(tmp_path: Path, shell: Shell) -> None:
    rows = [f"{value},{member}" for value, member in zip(range(60), [0, 1] * 30, strict=True)]
    finite, infinite = tmp_path / "finite.csv", tmp_path / "infinite.csv"
    finite.write_text("score,member\n" + "\n".join(rows))
    infinite.write_text("score,member\n" + "\n".join([*rows[:-1], "inf,1"]))
    found = [shell.json("compare", path, "--delta", 0.01)["rows"] for path in (finite, infinite)]
    assert found[0] == found[1]


def test_compare_wants_a_delta_of_what_has_none(losses: Path, shell: Shell) -> None:
    assert "expected --delta" in shell.refused("compare", losses)
    assert "--statistic" in shell.refused("compare", losses, "--delta", 0.01, "--statistic", "best")


# --- in Python --------------------------------------------------------------------------------
