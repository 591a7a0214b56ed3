"""Where a proof comes from adds up to the proof, and names the bases that leak."""

from __future__ import annotations

import numpy as np
import pytest

import epsilometer as em
from epsilometer.model.planned_order import PlannedOrder
from epsilometer.proofs.claim_tests import claim_test_of
from epsilometer.proofs.evidence import Evidence
from epsilometer.proofs.proof import Proof
from epsilometer.report.figures.proof import proof_chart
from epsilometer.report.text.rows import evidence_table

LEAKING, PAIRS = ("b", "d"), 80


def scores(*, planned: bool = False, bases: int = 14) -> em.Scores:
    """Bases of which the second and the fourth leak."""
    rng = np.random.default_rng(3)
    names = [chr(ord("a") + n) for n in range(bases)]
    found = em.Scores(
        without=[rng.laplace(size=PAIRS) for _ in names],
        with_point=[rng.laplace(size=PAIRS) + 4 * (name in LEAKING) for name in names],
        names=names,
    )
    order = PlannedOrder.of([[bases, PAIRS]], np.arange(bases))
    return found.in_planned_order(order) if planned else found


def proof(data: em.Scores, claim: float | None = None) -> Proof:
    return em.prove(data, delta=1e-5, claim=claim)


def evidence(found: Proof) -> Evidence:
    assert found.evidence is not None
    return found.evidence


@pytest.mark.parametrize("planned", [False, True])
def test_the_capital_that_counts_is_the_e_value(planned: bool) -> None:
    data = scores(planned=planned)
    found = evidence(proof(data, 1.0))
    pairs, log_capital = found.counted
    e_value = claim_test_of(data).log_e_value(1.0, 1e-5, 0.05)
    assert log_capital == pytest.approx(e_value)
    assert found.path[pairs - 1] == pytest.approx(e_value)
    assert found.ordered == planned
    assert (pairs == len(found.path)) != planned


def test_capital_of_bases_and_the_cost_of_learning_make_the_whole() -> None:
    found = evidence(proof(scores(), 1.0))
    won = dict(found.bases)
    cost = found.counted[1] - sum(won.values())
    assert cost < 0  # a divergence between bettors' shares before and after
    assert [name for name, _ in found.bases[:2]] == sorted(LEAKING, key=lambda name: -won[name])
    table = evidence_table(found)
    factor = {str(row[0]): float(str(row[1]).rpartition(" ")[2]) for row in table.rows[:13]}
    total = factor.pop("together")
    assert np.prod([*factor.values()]) == pytest.approx(total, rel=0.05)  # three digits each
    assert "4 other bases" in factor


def test_of_a_planned_order_only_pairs_before_the_largest_capital_count() -> None:
    found = evidence(proof(scores(planned=True), 1.0))
    won = dict(found.bases)
    assert sum(won.values()) == pytest.approx(found.counted[1])
    last = chr(ord("a") + (found.counted[0] - 1) // PAIRS)
    assert max(LEAKING) <= last < "n"
    assert all(won[name] == 0 for name in won if name > last)


def test_the_figure_reaches_the_line_at_the_proven_bound() -> None:
    data = scores(planned=True)
    found = evidence(proof(data))
    pairs, powers = found.plotted
    assert found.counted[0] in pairs
    assert powers.max() == pytest.approx(np.log10(20), abs=0.01)
    # The last pairs are drawn too, where the capital is smaller.
    assert powers[-1] < powers.max()
    drawn = proof_chart(_Shown(proof(data)))  # type: ignore[arg-type]
    assert drawn is not None
    assert f"after pair {found.counted[0]:,} of the plan" in drawn.caption


class _Shown:
    """What the figure reads of a result."""

    def __init__(self, found: Proof) -> None:
        self.proof = found


def test_a_claim_that_is_not_refuted_is_not_said_to_be() -> None:
    data = scores()
    bound = proof(data)
    refuted, open_claim = proof(data, bound.at_least - 0.01), proof(data, bound.at_least + 0.3)
    assert bound.source.startswith("where it comes from: most of it from base")
    assert refuted.source.startswith("where it comes from: most of it from base")
    assert open_claim.source.startswith("against the claim: ")
    assert open_claim.source.endswith("this does not refute it")


def test_without_a_leak_no_base_speaks_against_a_claim() -> None:
    found = proof(scores().take([0]), 2.0)
    assert "no base speaks against it" in found.source
