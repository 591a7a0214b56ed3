"""Other assumptions, batches and bases entered twice, as a report shows them."""

from __future__ import annotations

import pytest

import epsilometer as em
from epsilometer.judgement.count_result import CountResult
from epsilometer.report.page.sections import render
from epsilometer.report.text.rows import models_table
from epsilometer.report.text.values import page_values
from tests.drawn import error_counts
from tests.report.count_results import gather, sampled


def counts(x: list[int], y: list[int], names: list[str]) -> em.AttackCounts:
    return error_counts(x, y, 100, names=names)


@pytest.fixture(scope="module")
def evidence() -> CountResult:
    first = em.estimate(counts([10, 30], [20, 30], ["a", "b"]), em.CountModel(delta=0.01))
    return gather(first.update(counts([12], [25], ["a"])))


def test_the_page_has_the_tables_and_the_warning(evidence: CountResult) -> None:
    page = render(evidence, []).replace("\xa0", " ")
    assert "Would other models fit better?" in page
    assert "<td>binomial, strength 0.9</td>" in page
    assert "The most influential base is b: without it the 90 % interval" in page
    assert page_values(evidence)["model_comparison"]["assumptions"][0]["used"]
    assert any("base a occurs in more than one row" in text for text in evidence.warnings)


def test_no_line_of_the_text_is_too_long(evidence: CountResult) -> None:
    assert evidence.models is not None
    table = models_table(evidence.models, 0.9)
    assert max(map(len, table.lines())) <= 80
    # Labels of groups are long: they are then wrapped.
    rows = [(f"{label}, uniform scatter", *numbers) for label, *numbers in table.rows]
    lines = em.rows.Table(columns=table.columns, rows=rows).lines()
    assert max(map(len, lines)) <= 80
    assert "scatter" in " ".join(lines)


def test_very_many_different_counts_are_not_compared() -> None:
    many = error_counts([10 + row for row in range(1001)], [300] * 1001, 2000, 1000)
    assert gather(sampled(many)).models is None
