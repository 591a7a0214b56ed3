"""A plan of canaries as sentences, as a table, and as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, astuple, fields
from typing import Any

from epsilometer._files import csv_text
from epsilometer.planning.one_run import OneRunPlan, PlannedCanaries
from epsilometer.planning.wording import goal_words, number_words, reached_words, share_words
from epsilometer.proofs.proof import rounded_down

INTERFERE = (
    "Canaries of one run interfere with each other; the simulated ones do not. Keep them a small share "
    "of the training data."
)

MUCH_WIDER = 1.2
"""A width above this multiple of that with a known strength is mostly uncertainty of the strength."""


def recommendation(plan: OneRunPlan) -> str:
    """The recommended size, in one sentence."""
    goal = goal_words(plan)
    if plan.nothing_needed:
        return (
            f"Nothing needs to be measured: the prior alone gives {goal} (its "
            f"{100 * plan.level:g} % interval is {number_words(plan.prior_width)} wide)."
        )
    design = plan.recommended
    if design is None:
        largest = plan.designs[-1]
        return (
            f"No number of canaries up to {plan.design.sizes[-1]:,} reaches {goal} with probability "
            f"{plan.wanted_probability:g}: {largest.canaries:,} leave an interval "
            f"{number_words(largest.median_width)} wide."
        )
    runs = plan.design.runs
    where = "one training run" if runs == 1 else f"{runs} training runs"
    split = "" if runs == 1 else f", {design.canaries_per_run:,} in each"
    return (
        f"Take {design.canaries:,} canaries in {where}{split}, each included by a fair coin: they reach "
        f"{goal} in {share_words(design)}; the median width is "
        f"{number_words(design.median_width)} ({number_words(design.low_width)} to "
        f"{number_words(design.high_width)} in 80 % of such audits)."
    )


def help_sentences(plan: OneRunPlan) -> list[str]:
    """The assumptions, the share of canaries, the effect of a known strength, and the proof."""
    if plan.nothing_needed or not plan.designs:
        return []
    truth, shown = plan.scenario, plan.recommended or plan.designs[-1]
    sentences = [
        f"Assumed: ideal canaries of a {truth.family.name} trade-off curve with epsilon = "
        f"{truth.epsilon:g} at delta = {plan.model.delta:g}, attacked with strength "
        f"{truth.strength:g}. If canaries leak less, more are needed.",
        INTERFERE + _share(plan, shown),
    ]
    known = plan.known_strength_width
    if known is not None and shown.median_width > MUCH_WIDER * known:
        sentences.append(
            f"With a known strength, the interval of {shown.canaries:,} canaries would be "
            f"{number_words(known)} wide instead of {number_words(shown.median_width)}: canaries "
            "alone cannot tell a weak attack on a leaky algorithm from a strong attack on a private one."
        )
    return [*sentences, *_proof(plan, shown)]


def _share(plan: OneRunPlan, shown: PlannedCanaries) -> str:
    if shown.share_of_data is None:
        return ""
    return (
        f" Here about {shown.canaries_per_run // 2:,} of {shown.canaries_per_run:,} are in a run, "
        f"{50 * shown.share_of_data:.3g} % on top of {plan.design.dataset_size:,} records"
        f"{': more than there are' if shown.share_of_data > 2 else ''}."
    )


def _proof(plan: OneRunPlan, shown: PlannedCanaries) -> list[str]:
    sentences = [
        f"The one-run proof, which assumes no curve, is expected to prove that epsilon is at least "
        f"{rounded_down(shown.proven)} ({rounded_down(shown.low_proven)} to "
        f"{rounded_down(shown.high_proven)} in 80 % of audits), with error probability "
        f"{100 * plan.error:g} %."
    ]
    claim = plan.claim_goal
    if claim is None:
        return sentences
    best = max(plan.proofs, key=lambda proof: proof.proven)
    if plan.scenario.epsilon <= claim.claim:
        sentences.append("The claim is true under the assumed curve, so no proof will refute it.")
    elif plan.proof_size is not None:
        sentences.append(
            f"It refutes the claim of {claim.claim:g} with probability {plan.wanted_probability:g} with "
            f"about {plan.proof_size:,} canaries or more."
        )
    else:
        sentences.append(
            f"No number of canaries up to {plan.design.sizes[-1]:,} refutes the claim of "
            f"{claim.claim:g}: at most {rounded_down(best.proven)} is proven, with about "
            f"{best.canaries:,}. A FAIL would be judged, not proven."
        )
    return sentences


def table_rows(plan: OneRunPlan) -> list[tuple[str, ...]]:
    """Heading and rows of the sizes, the recommended one marked."""
    verdicts = plan.claim_goal is not None
    head = ("", "canaries", "per run", "width", "(10-90 %)", "reached", "proven")
    rows: list[tuple[str, ...]] = [
        (*head, *(("PASS", "FAIL", "refuted") if verdicts else ())),
    ]
    for design in plan.designs:
        shares = (design.pass_share, design.fail_share, design.refuted_share)
        rows.append(
            (
                "*" if design == plan.recommended else " ",
                f"{design.canaries:,}",
                f"{design.canaries_per_run:,}",
                number_words(design.median_width),
                f"{number_words(design.low_width)}-{number_words(design.high_width)}",
                reached_words(design),
                rounded_down(design.proven),
                *((f"{share:.2f}" for share in shares) if verdicts else ()),
            )
        )
    return rows


def described(plan: OneRunPlan) -> dict[str, Any]:
    """The plan as plain values."""
    return {
        "design": "one-run",
        "recommendation": recommendation(plan),
        "what_helps": help_sentences(plan),
        "nothing_needed": plan.nothing_needed,
        "wanted": {
            "width": None if plan.width_goal is None else plan.width_goal.at_most,
            "claim": None if plan.claim_goal is None else plan.claim_goal.claim,
            "probability": plan.wanted_probability,
            "level": plan.level,
        },
        "scenario": {"assumed": plan.scenario.described()},
        "model": {
            "delta": plan.model.delta,
            "families": [family.name for family in plan.model.families],
            "mixing": plan.model.mixing.name,
            "epsilon_prior": repr(plan.model.epsilon),
            "strength": plan.model.strength.fixed_value,
        },
        "runs": plan.design.runs,
        "dataset_size": plan.design.dataset_size,
        "most": plan.design.most,
        "recommended": None if plan.recommended is None else asdict(plan.recommended),
        "designs": [asdict(design) for design in plan.designs],
        "proof": {
            "error": plan.error,
            "sizes": [asdict(proof) for proof in plan.proofs],
            "refutes_from": plan.proof_size,
        },
        "width_if_strength_were_known": plan.known_strength_width,
        "prior_width": plan.prior_width,
        "seed": plan.seed,
    }


def designs_csv(designs: Sequence[PlannedCanaries]) -> str:
    """The table as CSV, with full precision."""
    rows = [["" if value is None else value for value in astuple(design)] for design in designs]
    return csv_text([field.name for field in fields(PlannedCanaries)], rows)
