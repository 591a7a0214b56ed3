"""Studies of groups, planning and auditors: what their committed results show."""

from __future__ import annotations

import pytest

from studies import auditors, groups, planning, results
from studies.auditors import AuditorsCell, by_setting, column
from studies.tables import Row, chance_of


def test_groups_cover_and_independent_rows_do_not() -> None:
    rows = results.read("groups")[0][groups.GROUPS]
    assert [row.label for row in rows] == [cell.label for cell in groups.CELLS]
    for row in rows:
        for covered, rate in ((row.covered_epsilon, 0.9), (row.runs - row.covered_epsilon, 0.1)):
            assert chance_of(covered, row.runs, rate) > 1e-4, row.label
        for name in groups.PARAMETERS:
            assert getattr(row, f"uniformity_{name}") > 1e-4, row.label
    crowded = [row for row in rows if "pooled" in row.label or "crowd" in row.label]
    assert len(crowded) == 2
    for row in crowded:
        assert row.share("covered_if_independent") < row.share("covered_epsilon") - 0.2


def test_most_audits_were_as_wide_as_planned() -> None:
    rows = results.read("planning")[0][planning.AUDITS]
    own = planning.summary([row for row in rows if row.truth == "own law"])
    assert own.runs >= 15  # of 25
    assert own.near >= 0.8 * own.runs


@pytest.fixture(scope="module")
def drawn() -> list[Row]:
    return results.read("auditors")[0][auditors.DRAWS]


def test_every_setting_was_drawn_as_often_as_it_says(drawn: list[Row]) -> None:
    wanted = [(c.setting_name, c.canaries, k) for c in auditors.CELLS for k in range(c.runs)]
    assert [(row.setting, row.canaries, row.draw) for row in drawn] == wanted


def test_the_truths_of_the_table_are_those_of_accountants(drawn: list[Row]) -> None:
    truths = {(row.setting, row.canaries): row.truth for row in drawn}
    for cell in auditors.CELLS:
        assert truths[cell.setting_name, cell.canaries] == pytest.approx(cell.truth(), abs=1e-3)
    # Opacus states the upper end of an error of 0.01.
    from opacus.accountants import PRVAccountant

    accountant = PRVAccountant()
    accountant.history = [(auditors.SIGMA, auditors.RATE, auditors.STEPS)]
    own = truths[auditors.RATIO, 5000]
    assert own <= accountant.get_epsilon(auditors.DELTA) <= own + 0.02
    assert truths[auditors.SUM, 5000] < own


def test_one_draw_comes_out_again(drawn: list[Row]) -> None:
    # Sums in another order move the last digits; another draw moves the first.
    cell = auditors.CELLS[0]
    assert isinstance(cell, AuditorsCell)
    found = cell.judge("runs", 0.05, 1, cell.rng(1, "runs", 0))["draws"]["found"][0]
    first, other = vars(drawn[0]), vars(drawn[1])
    for name, value in found.items():
        assert value == pytest.approx(first[name], abs=2e-3), name
    for name in ("default median", "strength 1 median", "Gaussian median"):
        assert found[name] != pytest.approx(other[name], abs=2e-3), name


def test_bounds_of_the_table_hold_where_they_must(drawn: list[Row]) -> None:
    """Each errs with 5 %: at most 4 of 20, with a probability below 3 in 1,000 of more."""
    for name in ("proof", "f-DP", "Steinke"):
        for rows in by_setting(drawn):
            assert (column(rows, name) > rows[0].truth).sum() <= 4, (name, rows[0].setting)
