"""Every entry point that gives a verdict or a bound gives the same one.

Entry points x {count, curve} x {one delta, several} x {independent, shared models, pool, one run,
cross-fed counts}: outcome, grounds, reasons and the proven bound are those of the one judgement.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epsilometer as em
from epsilometer.cli.main import run
from epsilometer.judgement.judging import result_of
from epsilometer.judgement.question import Question
from epsilometer.judgement.verdict import FAIL_ON
from epsilometer.testing import assert_private
from tests.drawn import error_counts

DELTAS = (1e-2, 2e-2)
CLAIM = 0.9


def scores(shift: float = 1.6, bases: int = 3, size: int = 60) -> em.Scores:
    rng = np.random.default_rng(7)
    return em.Scores(
        without=[rng.normal(size=size) for _ in range(bases)],
        with_point=[rng.normal(size=size) + shift for _ in range(bases)],
    )


def pool_scores() -> em.Scores:
    """Five points that share 40 models, each included by its own fair coin."""
    rng = np.random.default_rng(3)
    included = rng.random((5, 40)) < 0.5
    values = rng.normal(size=included.shape) + 0.8 * included
    models = np.arange(40)
    return em.Scores(
        without=[row[~coins] for row, coins in zip(values, included, strict=True)],
        with_point=[row[coins] for row, coins in zip(values, included, strict=True)],
        models=[(models[~coins], models[coins]) for coins in included],
        fair_coins=True,
    )


def canaries() -> em.Scores:
    rng = np.random.default_rng(5)
    return em.Scores.of_canaries(rng.normal(size=100) + 1.6, rng.normal(size=100))


def counts(design: str | None = None) -> em.AttackCounts:
    measured = None
    if design is not None:
        measured = em.rows.MeasuredBy(design=design, target_alpha=0.1, statistic="logit")
    return error_counts([8, 9, 7], [34, 30, 36], 80, measured=measured)


@dataclass(frozen=True)
class Case:
    """Data for a model, and whether models of different bases were trained independently."""

    data: em.Scores | em.AttackCounts
    independent: bool = True


#: Canaries of one run have no counts of separate decisions.
CASES = {
    ("curve", "independent"): Case(scores()),
    ("curve", "shared models"): Case(scores(), independent=False),
    ("curve", "pool"): Case(pool_scores()),
    ("curve", "one run"): Case(canaries()),
    ("curve", "cross-fed counts"): Case(counts("cross-fed")),
    ("count", "independent"): Case(counts()),
    ("count", "shared models"): Case(counts(), independent=False),
    ("count", "pool"): Case(counts("pool")),
    ("count", "cross-fed counts"): Case(counts("cross-fed")),
}


def model_of(kind: str, data: object) -> em.CurveModel | em.CountModel:
    if kind == "curve":
        family = (em.families.Gaussian(),)
        return em.CurveModel(delta=DELTAS[0], families=family, mixing=em.families.NoMixing())
    assert isinstance(data, em.AttackCounts)
    if data.measured is not None and not data.measured.pool:
        return em.CountModel(delta=DELTAS[0], likelihood=em.likelihoods.CorrelatedCells())
    return em.CountModel(delta=DELTAS[0])


#: The options of the shell that name the same model.
WORDS = {
    "curve": ["--model", "curve", "--family", "gaussian", "--mixing", "none"],
    "count": ["--model", "count", "--likelihood"],
}


@cache
def posterior_of(kind: str, how: str) -> Any:
    data = CASES[kind, how].data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", em.EpsilometerWarning)
        return em.estimate(data, model_of(kind, data))


#: Outcome, grounds, reasons and proven bound.
Judged = tuple[str, str, list[str], float | None]


def of_verdict(verdict: em.Verdict | None, proof: em.Proof | None) -> Judged:
    assert verdict is not None
    at_least = None if proof is None else proof.at_least
    return str(verdict.outcome), str(verdict.grounds), list(verdict.reasons), at_least


def of_data(data: dict[str, Any]) -> Judged:
    verdict, proof = data["verdict"], data["proof"]
    at_least = None if proof is None else proof["at_least"]
    return verdict["outcome"], verdict["grounds"], verdict["reasons"], at_least


def shell(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    capsys.readouterr()
    code = run([*map(str, arguments), "--json"])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    found: dict[str, Any] = json.loads(printed.out)
    return found


# All kinds of data at one delta; with several, whether bases share models is what went lost.
PLACES: list[tuple[str, str, tuple[float, ...]]] = [(*key, DELTAS[:1]) for key in CASES]
PLACES += [(*key, DELTAS) for key in CASES if key[1] in ("independent", "shared models")]


@pytest.mark.filterwarnings("ignore::epsilometer.errors.EpsilometerWarning")
@pytest.mark.parametrize(("kind", "how", "deltas"), PLACES)
def test_every_entry_point_agrees(
    kind: str,
    how: str,
    deltas: tuple[float, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    case, posterior = CASES[kind, how], posterior_of(kind, how)
    several = deltas if len(deltas) > 1 else ()
    asked: dict[str, Any] = {"deltas": several, "independent": case.independent}
    result = result_of(posterior, Question(claim=CLAIM, **asked))
    expected = of_verdict(result.verdict, result.proof)
    proven = expected[3]

    # Python: judge, write_report, prove, to_dict.
    verdict = em.judge(posterior, CLAIM, **asked)
    assert of_verdict(verdict, result.proof) == expected
    if not several and how == "independent":  # a page takes as long as everything else here
        page = tmp_path / "page.html"
        assert em.write_report(posterior, page, claim=CLAIM, **asked) == verdict
        assert verdict.label in page.read_text(encoding="utf-8")
    assert of_data(result.to_dict()) == expected
    if proven is None:
        with pytest.raises(em.InputError):
            em.prove(case.data, delta=DELTAS[0], independent=case.independent)
    else:
        proof = em.prove(case.data, delta=DELTAS[0], claim=CLAIM, independent=case.independent)
        assert proof.at_least == proven
    assert_agrees(case, kind, several, expected)

    # The shell: estimate, its folder, report, prove, compare.
    if how in ("pool", "one run") and kind == "curve":
        file = tmp_path / "posterior.nc"  # as audits write it: scores of a pool have no plain file
        posterior.save(file)
    else:
        file = tmp_path / "data.csv"
        case.data.write(file)
    shared = [] if case.independent else ["--shared-models"]
    at = ",".join(f"{delta:g}" for delta in deltas)
    options = ["--delta", at, "--claim", CLAIM, *WORDS[kind]]
    if kind == "count":
        options.append(posterior.model.likelihood.name)
    options += shared
    folder = tmp_path / "folder"
    printed = shell(capsys, "estimate", file, *options, "--output", folder)
    assert of_data(printed) == expected
    assert of_data(json.loads((folder / "summary.json").read_text())) == expected
    # A folder knows its deltas and its claim; one command states them again.
    again = ["--delta", at, "--claim", CLAIM] if several else []
    assert of_data(shell(capsys, "estimate", folder, *again)) == expected
    assert of_data(shell(capsys, "report", folder)) == expected
    assert em.judge(folder, CLAIM) == verdict
    if proven is not None:
        bound = shell(capsys, "prove", folder, "--claim", CLAIM)
        assert bound["at_least"] == proven
    if proven is not None and not several:
        rows = shell(capsys, "compare", folder, "--delta", DELTAS[0])["rows"]
        assert {row["lower"] for row in rows if row["estimator"].startswith("proven")} == {proven}


def assert_agrees(case: Case, kind: str, several: tuple[float, ...], expected: Judged) -> None:
    """``assert_private`` fails, warns or passes as the verdict says; it has one delta."""
    if several:
        return
    outcome, grounds, reasons, _ = expected
    arguments: dict[str, Any] = {
        "epsilon": CLAIM,
        "model": model_of(kind, case.data),
        "independent": case.independent,
        "fail_on": "inconclusive",
    }
    if outcome == "PASS":
        assert str(assert_private(case.data, **arguments).outcome) == "PASS"
        return
    with pytest.raises(AssertionError) as caught:
        assert_private(case.data, **arguments)
    label = outcome if outcome == "INCONCLUSIVE" else f"{outcome} ({grounds})"
    text = str(caught.value)
    assert text.startswith(f"{label}: ")
    assert all(reason.lower() in text.lower() for reason in reasons)


@pytest.mark.filterwarnings("ignore::epsilometer.errors.EpsilometerWarning")
def test_the_table_has_different_answers() -> None:
    """Control: sharing, pools and cross-feeding do change the answer."""
    judged = {}
    for (kind, how), case in CASES.items():
        question = Question(claim=CLAIM, independent=case.independent)
        result = result_of(posterior_of(kind, how), question)
        judged[kind, how] = of_verdict(result.verdict, result.proof)
    proven = {key: row[3] for key, row in judged.items()}
    for kind in ("curve", "count"):
        assert proven[kind, "shared models"] < proven[kind, "independent"]  # type: ignore[operator]
        assert proven[kind, "cross-fed counts"] is None
        assert judged[kind, "pool"][1] != "judged"
    assert len({row[:2] for row in judged.values()}) > 1


# --- faults of earlier versions ---------------------------------------------------------------


@pytest.mark.parametrize(("deltas", "claim"), [((), 0.2), (DELTAS, 20.0)])
def test_counts_of_a_pool_are_never_judged(deltas: tuple[float, ...], claim: float) -> None:
    verdict = em.judge(posterior_of("count", "pool"), claim, deltas=deltas)
    assert verdict.label == "INCONCLUSIVE"
    assert any("share models" in reason for reason in verdict.reasons)


@pytest.mark.parametrize("deltas", [(), DELTAS])
def test_such_counts_of_separate_models_are_judged(deltas: tuple[float, ...]) -> None:
    """Control: it is the pool that forbids a judgement."""
    labels = {}
    for design in ("pool", None):
        measured = None if design is None else em.rows.MeasuredBy(design=design)
        data = error_counts([10, 30], [20, 30], 100, 80, measured=measured)
        posterior = em.estimate(data, em.CountModel(delta=DELTAS[0]))
        labels[design] = em.judge(posterior, 14.0, deltas=deltas).label
    assert labels == {"pool": "INCONCLUSIVE", None: "PASS (judged)"}


def test_an_infinite_claim_promises_nothing(tmp_path: Path) -> None:
    posterior = posterior_of("curve", "independent")
    verdict = em.judge(posterior, float("inf"), deltas=DELTAS)
    assert (verdict.label, str(verdict.grounds)) == ("NO PROMISE", "stated")
    assert all(verdict.stops(gate) for gate in FAIL_ON)
    result = result_of(posterior, Question(claim=float("inf"), deltas=DELTAS))
    assert result.to_dict()["verdict"]["outcome"] == "NO PROMISE"
    assert result.next_step
    result.report(tmp_path / "page.html")
    assert "NO PROMISE" in (tmp_path / "page.html").read_text(encoding="utf-8")
    with pytest.raises(AssertionError, match="NO PROMISE"):
        assert_private(scores(), epsilon=float("inf"), delta=1e-2, fail_on="proven")


def test_a_folder_that_promises_nothing_is_read_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    claim = em.judgement.NoPromise("its accountant states an infinite epsilon")
    question = Question(claim=claim, claim_source="algorithm")
    result_of(posterior_of("curve", "independent"), question).write(tmp_path)
    for command, fail_on in (("report", "never"), ("estimate", "inconclusive")):
        assert run([command, str(tmp_path), "--fail-on", fail_on]) == 3
        assert capsys.readouterr().out.startswith(
            "NO PROMISE: the training promises nothing: its accountant states an infinite"
        )
    for fail_on in ("never", "proven"):
        assert run(["prove", str(tmp_path), "--fail-on", fail_on]) == 3
        assert "NO PROMISE" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::epsilometer.errors.EpsilometerWarning")
def test_a_claimed_curve_is_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder keeps its deltas and the claim at each; a delta of one's own asks about that one."""
    posterior = posterior_of("curve", "independent")
    claim = em.judgement.ClaimedCurve(deltas=DELTAS, epsilons=[2.0, 1.0])
    result = result_of(posterior, Question(claim=claim, deltas=(1e-3, *DELTAS)))
    result.write(tmp_path)
    assert result.verdict is not None
    assert len(result.verdict.by_delta) == 2
    read = em.judge(tmp_path, em.judgement.ClaimedCurve(deltas=DELTAS, epsilons=[2.0, 1.0]))
    assert read == result.verdict
    assert of_data(shell(capsys, "report", tmp_path)) == of_verdict(result.verdict, result.proof)
    alone = shell(capsys, "estimate", tmp_path, "--delta", DELTAS[0])
    assert "over_delta" not in alone
    assert alone["claim"]["epsilon"] == 2.0
