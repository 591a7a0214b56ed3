"""Privacy as an assertion: the verdicts, what they raise or warn, and a real pytest."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

import epsilometer as em
from epsilometer import testing
from epsilometer.api import judge
from epsilometer.engines import estimate as estimating
from epsilometer.engines.exact.engine import ExactSettings, estimate_exact
from epsilometer.errors import InputError, NotConvergedError
from epsilometer.judgement.verdict import Grounds, Outcome, Thresholds, Verdict
from epsilometer.proofs.proof import rounded_down
from epsilometer.testing import InconclusiveWarning, assert_private

#: Rates of .04 and .25 at delta 1e-3: epsilon is about 3 at least.
LEAKY = em.AttackCounts(false_positives=[40], trials_h0=1000, false_negatives=[250], trials_h1=1000)

MODEL = em.CountModel(delta=1e-3)

#: Claims of epsilon that these counts let pass, refute and leave open.
PASS, FAIL, OPEN = 12.0, 1.0, 3.5

#: A claim that the posterior lies above, and that is not refuted.
JUDGED = 2.6

GATES = ["proven", "conditional", "fail", "inconclusive"]


KNOWN: dict[str, em.engines.CountPosterior] = {}
CALCULATE = estimating.estimate


@pytest.fixture(autouse=True)
def remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same counts and model are estimated once."""

    def remember(counts: em.AttackCounts, model: em.CountModel, *_: Any, **__: Any) -> Any:
        key = f"{counts.to_csv()} {model!r}"
        if key not in KNOWN:
            KNOWN[key] = CALCULATE(counts, model)
        return KNOWN[key]

    monkeypatch.setattr(estimating, "estimate", remember)


def above(claim: float, model: em.CountModel = MODEL) -> float:
    return em.estimate(LEAKY, model).probability_above("epsilon", claim)


def test_the_claims_are_what_they_are_called() -> None:
    assert above(PASS) < 0.01
    assert above(FAIL) > 0.99
    assert above(JUDGED) > 0.99
    assert 0.1 < above(OPEN) < 0.9
    assert FAIL < em.prove(LEAKY, delta=1e-3).at_least < JUDGED


# --- the three verdicts -----------------------------------------------------------------------


def test_pass_returns_the_verdict() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Nothing could refute a claim that large.
        warnings.filterwarnings("ignore", message=".*[Nn]ot even perfect attacks")
        verdict = assert_private(LEAKY, epsilon=PASS, delta=1e-3, fail_on="inconclusive")
    assert isinstance(verdict, Verdict)
    assert verdict == judge(em.estimate(LEAKY, MODEL), claim=PASS)
    assert (verdict.outcome, verdict.grounds) == (Outcome.PASS, Grounds.JUDGED)


def test_fail_raises_and_names_the_claim() -> None:
    with pytest.raises(AssertionError) as caught:
        assert_private(LEAKY, epsilon=FAIL, delta=1e-3, fail_on="proven")
    said = str(caught.value)
    proven = rounded_down(em.prove(LEAKY, delta=1e-3).at_least)
    assert said.startswith(
        f"FAIL (proven): the attacks prove that epsilon is at least {proven} at delta = 0.001, "
        "with a probability of error of at most 5 %. "
    )
    assert "The claim: epsilon at most 1 at delta = 0.001" in said
    # Nothing but an assertion: neither an error of input nor of the engine.
    assert type(caught.value) is AssertionError


@pytest.mark.parametrize("fail_on", ["fail", "inconclusive"])
def test_a_judgement_raises_too_and_says_what_it_is(fail_on: Any) -> None:
    with pytest.raises(AssertionError) as caught:
        assert_private(LEAKY, epsilon=JUDGED, delta=1e-3, fail_on=fail_on)
    said = str(caught.value)
    assert said.startswith("FAIL (judged): the posterior lies above the claim, and no check ")
    assert "no proof refutes the claim" in said
    assert "epsilon at most 2.6 at delta = 0.001; exceeded with probability 0.9" in said
    assert type(caught.value) is AssertionError


def test_a_judgement_is_let_through_where_only_proofs_count() -> None:
    with pytest.warns(InconclusiveWarning, match=r"^FAIL \(judged\): ") as caught:
        verdict = assert_private(LEAKY, epsilon=JUDGED, delta=1e-3, fail_on="proven")
    assert len(caught) == 1
    assert verdict == judge(em.estimate(LEAKY, MODEL), claim=JUDGED)
    assert (verdict.outcome, verdict.grounds) == (Outcome.FAIL, Grounds.JUDGED)


def test_a_smaller_error_proves_less() -> None:
    claim = em.prove(LEAKY, delta=1e-3).at_least - 0.01
    assert em.prove(LEAKY, delta=1e-3, error=1e-3).at_least < claim
    with pytest.raises(AssertionError, match=r"^FAIL \(proven\): .* at most 5 %"):
        assert_private(LEAKY, epsilon=claim, delta=1e-3, fail_on="proven")
    with pytest.warns(InconclusiveWarning, match=r"^FAIL \(judged\): "):
        assert_private(LEAKY, epsilon=claim, delta=1e-3, fail_on="proven", error=1e-3)


def test_inconclusive_warns_and_returns() -> None:
    with pytest.warns(InconclusiveWarning) as caught:
        verdict = assert_private(LEAKY, epsilon=OPEN, delta=1e-3)
    assert verdict == judge(em.estimate(LEAKY, MODEL), claim=OPEN)
    assert (verdict.outcome, verdict.grounds) == (Outcome.INCONCLUSIVE, Grounds.OPEN)
    (warning,) = caught
    assert str(warning.message).startswith("INCONCLUSIVE: the posterior lies on both sides of ")
    assert "epsilon at most 3.5 at delta = 0.001; exceeded" in str(warning.message)
    assert issubclass(InconclusiveWarning, em.EpsilometerWarning)
    # The warning points at the caller's line, not into the package.
    assert warning.filename == __file__
    assert issubclass(InconclusiveWarning, UserWarning)


def test_inconclusive_can_be_refused() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(AssertionError, match=r"^INCONCLUSIVE: .* epsilon at most 3\.5 "):
            assert_private(LEAKY, epsilon=OPEN, delta=1e-3, fail_on="inconclusive")


def test_thresholds_move_the_verdict() -> None:
    others = em.checks.prior_sensitivity(em.estimate(LEAKY, MODEL))
    shares = [above(OPEN), *(other.epsilon.probability_above(OPEN) for other in others)]
    lenient = Thresholds(pass_at_most=max(shares) + 0.01, fail_at_least=0.99)
    assert assert_private(
        LEAKY, epsilon=OPEN, delta=1e-3, thresholds=lenient
    ).outcome is Outcome.PASS  # fmt: skip
    strict = Thresholds(pass_at_most=0.0, fail_at_least=min(shares) - 0.01)
    with pytest.raises(AssertionError, match=r"^FAIL \(judged\): "):
        assert_private(LEAKY, epsilon=OPEN, delta=1e-3, thresholds=strict)


# --- counts and models ------------------------------------------------------------------------


def test_counts_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "counts.csv"
    LEAKY.write(path)
    expected = assert_private(LEAKY, epsilon=PASS, delta=1e-3)
    assert assert_private(path, epsilon=PASS, delta=1e-3) == expected
    assert assert_private(str(path), epsilon=PASS, delta=1e-3) == expected
    with pytest.raises(InputError, match=r"absent\.csv: cannot be read"):
        assert_private(tmp_path / "absent.csv", epsilon=1.0, delta=1e-3)


def test_a_model_instead_of_delta() -> None:
    assert assert_private(LEAKY, epsilon=PASS, model=MODEL) == assert_private(
        LEAKY, epsilon=PASS, delta=1e-3
    )
    # The model's own prior, strength and likelihood are used.
    model = em.CountModel(
        delta=0.01,
        epsilon=em.priors.HalfNormal(scale=2.0),
        strength=em.priors.Fixed(value=0.5),
        likelihood=em.likelihoods.CorrelatedNormal(),
    )
    # Decisions that depend on each other prove nothing: it is a judgement.
    with pytest.raises(AssertionError, match=r"^FAIL \(judged\): .* at delta = 0\.01; "):
        assert_private(LEAKY, epsilon=FAIL, model=model)
    verdict = assert_private(LEAKY, epsilon=PASS, model=model)
    assert verdict == judge(em.estimate(LEAKY, model), claim=PASS)
    assert verdict.probability_above != assert_private(
        LEAKY, epsilon=PASS, delta=0.01
    ).probability_above  # fmt: skip


def test_either_delta_or_a_model() -> None:
    with pytest.raises(InputError, match="or a model, which has"):
        assert_private(LEAKY, epsilon=1.0, delta=1e-2, model=MODEL)
    with pytest.raises(InputError, match="expected `delta=` with 0 <= delta < 1, or a model"):
        assert_private(LEAKY, epsilon=1.0)


@pytest.mark.parametrize("fail_on", GATES)
def test_an_infinite_epsilon_promises_nothing_and_fails(fail_on: Any) -> None:
    with pytest.raises(AssertionError, match=r"^NO PROMISE: the training promises nothing: "):
        assert_private(LEAKY, epsilon=float("inf"), delta=1e-3, fail_on=fail_on)


def test_delta_zero_is_a_delta() -> None:
    assert assert_private(LEAKY, epsilon=PASS, delta=0.0).outcome is Outcome.PASS


# --- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"fail_on": "never"},
            "one of proven, conditional, fail, inconclusive, got fail_on='never'",
        ),
        ({"fail_on": None}, "got fail_on=None"),
        ({"epsilon": -1.0}, "expected epsilon >= 0, got epsilon=-1"),
        ({"epsilon": float("nan")}, "expected a finite epsilon, got epsilon=nan"),
        ({"epsilon": "1"}, "expected epsilon to be a number"),
        ({"delta": 1.0}, "0 <= delta < 1, got delta=1"),
        ({"delta": -0.1}, "0 <= delta < 1, got delta=-0.1"),
        ({"delta": "0.1"}, "delta to be a number"),
        ({"error": 0.0}, "0 < error < 1, got error=0"),
        ({"error": 1.0}, "0 < error < 1, got error=1"),
    ],
)
def test_bad_arguments_are_refused_before_any_work(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], message: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("nothing should be estimated")

    monkeypatch.setattr(estimating, "estimate", refuse)
    arguments: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-3, **changes}
    with pytest.raises(InputError, match=re.escape(message)):
        assert_private(LEAKY, **arguments)


@pytest.mark.parametrize(
    ("claim", "fail_on"), [(PASS, "proven"), (JUDGED, "fail"), (OPEN, "inconclusive")]
)
def test_an_engine_that_missed_its_accuracy_gives_no_verdict(
    monkeypatch: pytest.MonkeyPatch, claim: float, fail_on: Any
) -> None:
    """Neither pass nor fail, whatever the numbers say: an error that is no AssertionError.

    A claim that is refuted needs no engine.
    """

    def careless(counts: em.AttackCounts, model: em.CountModel, *_: Any, **__: Any) -> Any:
        return estimate_exact(counts, model, ExactSettings(tolerance=1e-300, most_levels=2))

    monkeypatch.setattr(estimating, "estimate", careless)
    with pytest.raises(NotConvergedError, match=r"no verdict: .* NOT MET") as caught:
        assert_private(LEAKY, epsilon=claim, delta=1e-3, fail_on=fail_on)
    assert not isinstance(caught.value, AssertionError)
    with pytest.raises(AssertionError, match=r"^FAIL \(proven\): "):
        assert_private(LEAKY, epsilon=FAIL, delta=1e-3, fail_on=fail_on)


def test_public_names() -> None:
    assert testing.__all__ == ["InconclusiveWarning", "assert_private"]
    # Kept out of the package itself, for which it would be no word that one expects.
    assert not hasattr(em, "assert_private")


# --- a real pytest ----------------------------------------------------------------------------

SUITE = """
import epsilometer as em
from epsilometer.testing import assert_private

COUNTS = em.AttackCounts(
    false_positives=[40], trials_h0=1000, false_negatives=[250], trials_h1=1000
)


def test_refuted():
    assert_private(COUNTS, epsilon=1.0, delta=1e-3)  # the line that is shown


def test_open():
    assert_private(COUNTS, epsilon=3.5, delta=1e-3)


def test_fine():
    assert_private(COUNTS, epsilon=12.0, delta=1e-3)
"""


@pytest.mark.slow
def test_in_a_suite_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "test_privacy.py").write_text(SUITE, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_privacy.py"]
    run = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 1, run.stdout + run.stderr
    assert "1 failed, 2 passed, 1 warning" in run.stdout
    # The message, the caller's line, and nothing of our own code.
    assert (
        "FAIL (proven): the attacks prove that epsilon is at least 2.54 at delta = 0.001, with"
        in run.stdout
    )
    assert ">       assert_private(COUNTS, epsilon=1.0, delta=1e-3)  # the line that" in run.stdout
    assert "raise AssertionError(verdict_sentence(result))" not in run.stdout
    assert "_warnings.py" not in run.stdout
    assert "InconclusiveWarning: INCONCLUSIVE: the posterior lies on both sides" in run.stdout
    assert "test_privacy.py::test_open" in run.stdout
    # Control: without the test that is refuted the suite passes.
    passing = subprocess.run(
        [*command, "-k", "fine"], cwd=tmp_path, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert passing.returncode == 0, passing.stdout + passing.stderr
