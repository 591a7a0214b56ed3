"""The first screen: at most 25 lines, the answer in sentences that explain their words, what next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import epsilometer as em
from epsilometer._text import in_shell_words
from epsilometer.judgement.claims import NoPromise
from epsilometer.judgement.origin import Origin
from epsilometer.judgement.question import Question
from epsilometer.judgement.result import Result
from epsilometer.proofs.proof import rounded_down
from epsilometer.report.text.summary import result_text
from tests.report.count_results import counts, exact, gather, sampled
from tests.report.curve_results import SETTINGS, SIMPLE, bare, full, judged, many
from tests.report.test_shared_models import pool

SENTENCES = tuple(
    f"Warning {number} of an attack that found something odd about the challenge points, which takes "
    "more than two lines to tell, so that it has to be cut somewhere on the first screen, and is whole "
    "with all the details only."
    for number in range(12)
)


def warned(result: Result) -> Result:
    return replace(result, origin=Origin(warnings=SENTENCES))


@cache
def one_run() -> Result:
    rng = np.random.default_rng(1)
    canaries = em.Scores.of_canaries(rng.normal(size=60), 1 + rng.normal(size=60))
    return judged(SETTINGS.estimate(canaries, SIMPLE), question=Question(claim=1.0))


def of_pool(claim: float | None = 1.0) -> Result:
    return judged(SETTINGS.estimate(pool().by_point(), SIMPLE), question=Question(claim=claim))


def flawed() -> Result:
    scores = bare().scores.with_flaws(
        ["The scores are lower with the point: is their sign reversed?"]
    )
    posterior = replace(bare().posterior, scores=scores)
    return judged(posterior, question=Question(claim=1.0))


def contradicted() -> Result:
    return gather(sampled(centre=0.5, scale=0.01), claim=5.0, compare=False)


def long_reasons() -> Result:
    """A verdict with more reasons than have room."""
    result = replace(bare(), question=Question(claim=50.0))
    verdict = result.verdict
    assert verdict is not None
    reasons = tuple(f"{sentence[:-1]}, which is a reason" for sentence in SENTENCES)
    # A cached value of a frozen dataclass is put in as it would put it in itself.
    vars(result)["verdict"] = replace(verdict, reasons=reasons)
    return warned_later(result)


def warned_later(result: Result) -> Result:
    vars(result)["warnings"] = SENTENCES
    return result


NOTHING = Question(claim=NoPromise("the accountant of the training states infinity"))

RESULTS: dict[str, Callable[[], Result]] = {
    "curve, no claim": bare,
    "curve, FAIL": lambda: replace(bare(), question=Question(claim=0.5)),
    "curve, INCONCLUSIVE": lambda: replace(bare(), question=Question(claim=3.0)),
    "curve, no promise": lambda: replace(bare(), question=NOTHING),
    "curve, everything": full,
    "curve, everything, warnings": lambda: warned(full()),
    "curve, many deltas": lambda: replace(
        bare(), question=Question(claim=1.0, deltas=tuple(np.geomspace(1e-8, 0.1, 20)))
    ),
    "curve, 15 bases": lambda: many(15),
    "one run": one_run,
    "pool": of_pool,
    "flawed": flawed,
    "long reasons": long_reasons,
    "counts, no claim": lambda: gather(exact(), compare=False),
    "counts, FAIL (proven)": lambda: gather(exact(), claim=0.2, compare=False),
    "counts, INCONCLUSIVE": lambda: gather(exact(), claim=2.0, compare=False),
    "counts, deltas": lambda: gather(
        exact(), claim=2.0, deltas=(1e-6, 1e-3, 0.01, 0.1), compare=False
    ),
    "counts, warnings": lambda: warned(gather(exact(), claim=2.0, compare=False)),
    "counts, odd": lambda: gather(exact(counts([5] * 6, [0] * 6, 50)), claim=1.0, compare=False),
    "chains that never moved": lambda: gather(sampled(scale=0.0), claim=1.5, compare=False),
    "contradicted": contradicted,
}


@cache
def made(name: str) -> Result:
    return RESULTS[name]()


@cache
def screen(name: str) -> str:
    return result_text(made(name))


@pytest.mark.parametrize("name", RESULTS)
def test_a_screen_and_its_details(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fits, the verdict is first and the next step last; the details have everything."""
    monkeypatch.setenv("COLUMNS", "80")
    result, text = made(name), screen(name)
    # A line that tells what was written, and a blank one, may follow.
    assert len(text.splitlines()) <= 23
    assert max(map(len, text.splitlines())) <= 80
    if result.verdict is not None:
        assert text.startswith(f"{result.verdict.label}: ")
    start = text.index("Proven: ")
    words = ["Shown: ", "Estimated: "] if result.kind == "curve" else ["Estimated: ", "Attack str"]
    for word in words:
        assert f"\n{word}" in text[start:]
    last = " ".join(text[text.index("\nNext: ") :].split())
    assert last == f"Next: {in_shell_words(result.next_step)}"
    assert ("\nWarnings:\n" in text) is bool(result.warnings)
    said = " ".join(result_text(result, details=True).split())
    for sentence in result.warnings:  # lines break at hyphens too
        assert "".join(in_shell_words(sentence).split()) in said.replace(" ", "")
    assert result.verdict is None or result.verdict.meaning in said
    if result.proof is not None:
        most = rounded_down(result.proof.most_provable)
        what = "canaries" if name == "one run" else "models"
        assert f"(of at most {most} with this many {what}) at delta = " in said
    assert "--details" not in said
    assert "Assumed:" in said
    assert ("Epsilon over delta from" in said) is (result.over_delta is not None)
    assert ("For comparison, the count model" in said) is name.startswith("curve, everything")
    monkeypatch.setenv("COLUMNS", "60")
    narrow = result_text(result).splitlines()
    assert max(map(len, narrow)) <= 60
    assert len(narrow) <= 33


def test_warnings_that_do_not_fit_are_counted() -> None:
    text = screen("counts, warnings")
    shown = text.count("- Warning ")
    assert 1 <= shown < len(SENTENCES)
    assert f"- and {len(made('counts, warnings').warnings) - shown} more: --details" in text
    assert "..." in text


def test_nothing_promised_is_told_first_and_why() -> None:
    text = " ".join(screen("curve, no promise").split())
    assert text.startswith("NO PROMISE: the training promises nothing: ")
    assert "the accountant of the training states infinity." in " ".join(
        screen("curve, no promise").splitlines()[:2]
    )


def test_an_estimate_that_the_data_refute_is_no_number() -> None:
    result, text = made("contradicted"), screen("contradicted")
    assert result.contradiction is not None
    assert f"{result.posterior.median('epsilon'):.2f} (" not in text
    assert "Estimated: not reliably" in text
    assert "Do not quote it: see the warnings." in " ".join(screen("flawed").split())
    assert "Do not quote it" not in screen("curve, no claim")
    # Control.
    other = made("counts, no claim")
    assert f"{other.posterior.median('epsilon'):.2f} (" in screen("counts, no claim")


def test_the_table_over_delta_is_there_if_it_fits() -> None:
    assert "P(above)" in screen("counts, deltas")
    assert "P(above)" not in screen("curve, many deltas")
    assert "P(above)" not in screen("curve, everything, warnings")
