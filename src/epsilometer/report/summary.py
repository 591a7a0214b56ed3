"""A posterior in a few numbers and sentences: for people, and as one plain JSON object."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from typing import Any

from epsilometer import _validate
from epsilometer.inference.grid_posterior import GridPosterior
from epsilometer.inference.posterior import Posterior
from epsilometer.inference.verdict import Thresholds, judge
from epsilometer.model.counts import AttackCounts
from epsilometer.model.dependence import IndependentRows, PooledGroups, UniformScatter
from epsilometer.model.joint import AuditModel
from epsilometer.model.likelihoods import CorrelatedNormal
from epsilometer.model.priors import Beta, Exponential, Fixed, HalfNormal, LogNormal, Uniform
from epsilometer.report.batch_table import batches_note, rows_of_batches

LABELS = {
    "epsilon": "epsilon",
    "strength": "attack strength",
    "within_correlation": "within correlation",
    "cross_correlation": "cross correlation",
    "spread": "spread in groups",
}
"""Parameters as people read them."""

WIDTH = 80


def summarise(
    posterior: Posterior,
    *,
    level: float = 0.9,
    claim: float | None = None,
    thresholds: Thresholds | None = None,
    accept_untrusted: bool = False,
) -> dict[str, Any]:
    """Everything worth quoting, as plain Python values ready for JSON; never NaN or infinity.

    Parameters
    ----------
    level
        Probability of the central credible intervals, in (0, 1).
    claim
        An epsilon somebody claims; adds the posterior probability that the true one is above it, and
        the verdict.
    thresholds
        Where the verdict takes sides.
    accept_untrusted
        Let the verdict take sides even if the engine did not reach its accuracy.
    """
    level = _validate.level(level)
    estimated = [
        name for name in LABELS if name in ("epsilon", "strength") or name in posterior.parameters
    ]
    result: dict[str, Any] = {name: _parameter(posterior, name, level) for name in estimated}
    provenance = posterior.provenance
    result |= {
        "num_challenge_bases": len(posterior.counts),
        "delta": posterior.model.delta,
        "engine": provenance.engine,
        "seconds": provenance.seconds,
        "converged": bool(posterior.trustworthy),
        "batches": [batch.to_dict() for batch in posterior.batches],
    }
    if isinstance(posterior, GridPosterior):
        accuracy = posterior.accuracy
        result["accuracy"] = {
            "error": accuracy.error,
            "tolerance": accuracy.tolerance,
            "met": bool(accuracy.met),
            "levels": accuracy.levels,
            "method": accuracy.method,
        }
        result["log_evidence"] = posterior.log_evidence
    else:
        result["diagnostics"] = posterior.diagnostics.to_dict()  # type: ignore[attr-defined]
    if claim is not None:
        verdict = judge(
            posterior, claim=claim, thresholds=thresholds, accept_untrusted=accept_untrusted
        )
        result["claim"] = {
            "epsilon": verdict.claim,
            "probability_above": verdict.probability_above,
            "prior_probability_above": verdict.prior_probability_above,
        }
        result["verdict"] = {
            "outcome": str(verdict.outcome),
            "meaning": verdict.meaning,
            "pass_at_most": verdict.thresholds.pass_at_most,
            "fail_at_least": verdict.thresholds.fail_at_least,
        }
    result["assumptions"] = {
        "delta": posterior.model.delta,
        "likelihood": _described(posterior.model.likelihood),
        **(
            {"dependence": _described(posterior.model.dependence)}
            if posterior.counts.dependent
            else {}
        ),
        "priors": {
            "epsilon": _described(posterior.model.epsilon),
            "strength": _described(posterior.model.strength),
        },
        "sentences": plain_assumptions(posterior.model, posterior.counts),
    }
    result["settings"] = dict(provenance.settings)
    result["seed"] = provenance.seed
    result["versions"] = dict(provenance.versions)
    return {name: plain(value) for name, value in result.items()}


def _parameter(posterior: Posterior, name: str, level: float) -> dict[str, Any]:
    return {
        "mean": posterior.mean(name),
        "median": posterior.median(name),
        "interval": list(posterior.credible_interval(name, level)),
        "level": level,
    }


def _described(value: Any) -> dict[str, Any]:
    """A frozen choice of the model by its name and fields."""
    described: dict[str, Any] = {"name": type(value).__name__}
    for part in fields(value):
        if part.init:
            inner = getattr(value, part.name)
            described[part.name] = _described(inner) if is_dataclass(inner) else inner
    return described


def plain(value: Any) -> Any:
    """The same value in types JSON knows; a number that is not finite becomes null."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is None or isinstance(value, bool | str | int):
        return value
    if hasattr(value, "item"):
        return plain(value.item())
    number = float(value)
    return number if math.isfinite(number) else None


def plain_assumptions(model: AuditModel, counts: AttackCounts) -> list[str]:
    """What the model takes for granted, one sentence each."""
    sentences = [
        f"Some epsilon holds for the algorithm at delta = {model.delta:g}; which one is estimated.",
        f"{_epsilon_sentence(model)}",
        f"{_strength_sentence(model)}",
    ]
    if isinstance(model.likelihood, CorrelatedNormal):
        scale = model.likelihood.within_correlation_scale
        sentences += [
            "Decisions on one challenge base are correlated: its two counts are jointly normal.",
            f"The within correlation has a normal prior, standard deviation {scale:g}, cut to what "
            "is possible; the cross correlation is uniform given it.",
        ]
    else:
        sentences.append("All decisions are independent: the counts are binomial.")
    dependence = model.dependence
    grouped = counts.dependent and not isinstance(dependence, IndependentRows)
    whose = "The average error rates of each group" if grouped else "Each attack's error rates"
    others = "groups" if grouped else "attacks"
    sentences.append(
        f"{whose} lie anywhere in the region that epsilon and the strength leave "
        f"them, equally likely, independently of the other {others}."
    )
    if grouped:
        sentences += _group_sentences(model)
    elif counts.dependent:
        sentences.append("Some attacks name a common group, which was ignored.")
    return sentences


def _group_sentences(model: AuditModel) -> list[str]:
    dependence = model.dependence
    assert not isinstance(dependence, IndependentRows)
    if isinstance(dependence, PooledGroups):
        first = (
            "The counts of a group are added up and taken to be normal, with the variance that "
            "members scattering around the average would give them."
        )
    else:
        kind = "uniformly" if isinstance(dependence.scatter, UniformScatter) else "normally"
        first = (
            f"The error rates of a group's members scatter {kind} around its average, cut to what "
            "epsilon and delta allow; a group of one is its own average."
        )
    prior = dependence.spread
    if isinstance(prior, Fixed):
        return [first, f"The spread of that scatter is held at {prior.value:g}."]
    end = float(prior.quantile(0.95))
    return [
        first,
        f"The spread of that scatter, a standard deviation, is estimated; before the data it is "
        f"below {end:.2g} with probability 0.95.",
    ]


def _epsilon_sentence(model: AuditModel) -> str:
    prior = model.epsilon
    if isinstance(prior, Fixed):
        return f"epsilon is held at {prior.value:g}."
    if isinstance(prior, HalfNormal):
        return f"Before the data, epsilon is half-normal with scale {prior.scale:.4g}."
    if isinstance(prior, Exponential):
        return f"Before the data, epsilon is exponential with mean {prior.mean:.4g}."
    if isinstance(prior, LogNormal):
        return (
            f"Before the data, epsilon is log-normal with median {prior.median:.4g} "
            f"and log scale {prior.log_scale:.4g}."
        )
    assert isinstance(prior, Uniform)
    return f"Before the data, epsilon is uniform between 0 and {prior.upper:.4g}."


def _strength_sentence(model: AuditModel) -> str:
    prior = model.strength
    if isinstance(prior, Fixed):
        return f"The attack strength is held at {prior.value:g}."
    assert isinstance(prior, Beta)
    if prior.a == prior.b == 1:
        return "Before the data, every attack strength from 0 to 1 is equally likely."
    return f"Before the data, the attack strength is Beta({prior.a:g}, {prior.b:g})."


def finding(summary: dict[str, Any]) -> str:
    """What was found, in one sentence; with a claim the verdict comes first."""
    epsilon = summary["epsilon"]
    low, high = epsilon["interval"]
    at = f"at delta = {summary['delta']:g}, epsilon"
    if summary["assumptions"]["priors"]["epsilon"]["name"] == "Fixed":
        found = f"is held at {epsilon['median']:g}"
    else:
        digits = max(_decimals(low, high) - 1, 2)
        found = (
            f"is {low:.{digits}f} to {high:.{digits}f} with probability {epsilon['level']:g} "
            f"(median {epsilon['median']:.{digits}f})"
        )
    if "claim" not in summary:
        return f"A{at[1:]} {found}."
    claim, verdict = summary["claim"], summary["verdict"]
    own = claim.get("source") == "algorithm"
    whose = "the {:g} that the algorithm itself claims" if own else "the claimed {:g}"
    return (
        f"{verdict['outcome']}: {verdict['meaning']}; {at} exceeds "
        f"{whose.format(claim['epsilon'])} with probability "
        f"{probability_text(claim['probability_above'])} "
        f"({probability_text(claim['prior_probability_above'])} before the data) and {found}."
    )


# --- for the terminal -------------------------------------------------------------------------


def summary_text(summary: dict[str, Any]) -> str:
    """The summary for reading, at most 80 columns wide, in plain ASCII; what was found comes first."""
    rows = rows_of_parameters(summary)
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [*_wrapped(finding(summary), first="", rest=""), ""]
    lines += ["  ".join(_aligned(row, widths)).rstrip() for row in rows]
    lines.append("")
    if len(summary["batches"]) > 1:
        table = rows_of_batches(summary)
        widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
        lines += ["  ".join(_aligned(row, widths, least=0)).rstrip() for row in table]
        lines += [*_wrapped(batches_note(summary), first="", rest=""), ""]
    bases = summary["num_challenge_bases"]
    facts = [
        ("challenge bases", f"{bases:,}"),
        ("delta", f"{summary['delta']:g}"),
        ("engine", engine_sentence(summary)),
        ("time", f"{summary['seconds']:.2f} s"),
    ]
    for label, text in facts:
        lines += _wrapped(text, first=f"{label:<17}", rest=" " * 17)
    lines += ["", "Assumed:"]
    for sentence in summary["assumptions"]["sentences"]:
        lines += _wrapped(sentence, first="- ", rest="  ")
    return "\n".join(lines) + "\n"


def rows_of_parameters(summary: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """A table of the parameters: label, median, interval, mean; the first row is the heading."""
    level = f"{100 * summary['epsilon']['level']:.10g} %"
    held = summary["assumptions"]["priors"]
    rows = [("", "median", f"{level} interval", "mean")]
    for name in (name for name in LABELS if name in summary):
        item = summary[name]
        if held.get(name, {}).get("name") == "Fixed":
            rows.append((LABELS[name], f"{item['median']:.6g}", "(fixed)", ""))
            continue
        low, high = item["interval"]
        digits = _decimals(low, high)
        rows.append(
            (
                LABELS[name],
                _number(item["median"], digits),
                f"{_number(low, digits)} to {_number(high, digits)}",
                _number(item["mean"], digits),
            )
        )
    return rows


def engine_sentence(summary: dict[str, Any]) -> str:
    """Which engine, and how far its answer can be trusted."""
    if "accuracy" in summary:
        accuracy = summary["accuracy"]
        error = accuracy["error"]
        shown = "unknown" if error is None else f"{error:.1e}"
        verdict = "met" if accuracy["met"] else "NOT MET"
        return (
            f"exact quadrature; estimated error {shown}, "
            f"tolerance {accuracy['tolerance']:.0e} {verdict}"
        )
    verdict = "converged" if summary["converged"] else "NOT CONVERGED"
    return f"MCMC; {verdict}; {diagnostics_phrase(summary['diagnostics'])}"


def diagnostics_phrase(diagnostics: dict[str, Any]) -> str:
    """The worst R-hat and effective sample sizes over the parameters, in words."""
    figures = diagnostics["parameters"].values()
    r_hats = [item["r_hat"] for item in figures]
    worst = "infinite" if None in r_hats else f"{max(r_hats):.4f}"
    bulk = min(item["bulk_effective_size"] for item in figures)
    tail = min(item["tail_effective_size"] for item in figures)
    return f"largest R-hat {worst}, fewest effective draws {bulk:.0f} (bulk) and {tail:.0f} (tail)"


def _aligned(row: tuple[str, ...], widths: list[int], *, least: int = 18) -> list[str]:
    first, *others = zip(row, widths, strict=True)
    return [first[0].ljust(max(first[1], least)), *(text.rjust(width) for text, width in others)]


def _decimals(low: float, high: float) -> int:
    """So many decimals that the width of the interval shows three digits."""
    width = high - low
    if not width > 0:
        return 6
    return min(max(2 - math.floor(math.log10(width)), 3), 12)


def _number(value: float, decimals: int) -> str:
    return f"{value:.4g}" if abs(value) >= 1e6 else f"{value:.{decimals}f}"


def probability_text(value: float) -> str:
    """A probability that is never rounded to certainty."""
    if value < 1e-4:
        return f"{value:.1e}" if value > 0 else "0 (to machine precision)"
    if value > 1 - 1e-4:
        return "above 0.9999"
    return f"{value:.4f}"


def _wrapped(text: str, *, first: str, rest: str) -> list[str]:
    import textwrap

    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=rest)
