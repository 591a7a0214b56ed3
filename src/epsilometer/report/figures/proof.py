"""The capital that was won against a claim, pair by pair."""

import math

from epsilometer._text import capital
from epsilometer.judgement.result import Result
from epsilometer.proofs.proof import rounded_down
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import Axis, Line, Plot, Points, Reference


def proof_chart(result: Result) -> Chart | None:
    """The capital after every pair; None where pairs have no order."""
    proof = result.proof
    evidence = None if proof is None else proof.evidence
    if proof is None or evidence is None or not len(evidence.path):
        return None
    pairs, powers = evidence.plotted
    best, log_capital = evidence.counted
    against = "the claim" if proof.claim is not None else "the proven bound"
    refuted = -math.log10(proof.error)
    caption = (
        f"The capital of someone who started with 1 and bet against epsilon = "
        f"{rounded_down(evidence.epsilon, 3)}, {against}. If it is true, the capital ever reaches "
        f"{1 / proof.error:g} with probability at most {proof.error:g}. {capital(evidence.sentence)}."
    )
    if evidence.ordered:
        caption += f" The largest capital counts, after pair {best:,} of the plan."
    hover = "after {x:.0f} pairs\n10 to the power of {y:.2f}"
    top = 1.1 * max(refuted, float(powers.max()))
    plot = Plot(
        Axis("pairs of models, base by base", (0, len(evidence.path))),
        Axis("capital, as a power of 10", (min(-0.5, float(powers.min())), top)),
        [
            Line([0, *pairs], [0, *powers], "purple", "capital", hover=hover),
            Points([best], [log_capital / math.log(10)], "purple"),
            Reference(y=refuted, colour="orange", label="refuted"),
        ],
        legend=False,
    )
    title = "Where the proof comes from"
    return Chart(title=title, caption=caption, plots=[plot], size=(7.2, 3.4))
