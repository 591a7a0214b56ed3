"""What is proven, shown, estimated and claimed: on one axis, as exceedance, and under other priors."""

from typing import Any

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer._text import estimate_text, pair_text, percent, probability_text
from epsilometer.checks.sensitivity import AlternativePrior
from epsilometer.judgement.count_result import CountResult
from epsilometer.judgement.curve_result import CurveResult
from epsilometer.judgement.result import Result
from epsilometer.judgement.units import Units, units_of
from epsilometer.model.scores import Scores
from epsilometer.proofs.proof import Proof, rounded_down
from epsilometer.report.figures import style
from epsilometer.report.figures.chart import Chart
from epsilometer.report.figures.marks import Axis, Band, Line, Mark, Note, Plot, Points, Reference

#: Points of a density or a curve, besides some at its own quantiles.
POINTS = 240

#: A claim beyond this multiple of the other values is not drawn.
FARTHEST_CLAIM = 4.0

#: Height of the density, in rows.
DENSITY_ROWS = 1.9


def answer_chart(result: Result) -> Chart:
    """Proven bound, intervals and claim on one axis, below the posterior density of epsilon.

    The curve model has a row for what the worst base has shown.
    """
    units = units_of(result.data) if isinstance(result.data, Scores) else None
    posterior, level, claim = result.posterior, result.level, result.claims.get(result.delta)
    proven = 0.0 if result.proof is None else result.proof.at_least
    rows = [] if units is None else [("shown", units.shown, "green")]
    rows.append(("epsilon", "estimated", "blue"))
    open_ended = getattr(posterior, "saturated", False)
    farthest = result.shown[1] if isinstance(result, CurveResult) else 0.0
    if open_ended:
        farthest = 1.4 * posterior.most_shown
    else:
        farthest = max(farthest, float(posterior.quantile("epsilon", 0.99)))
    end = 1.15 * max(farthest, proven) or 1.0
    drawn = claim is not None and claim < FARTHEST_CLAIM * end
    marks: list[Mark] = []
    for place, (parameter, name, colour) in enumerate(rows, start=1):
        low, high = posterior.credible_interval(parameter, level)
        if isinstance(result, CurveResult) and parameter == "shown":
            low, high = result.shown
            # An interval as narrow as what can be shown at all is its lower end.
            said = pair_text(low, high) if high - low > 0.01 else f"at least {low:.2f}"
            at = low
            middle = min(max(posterior.median("shown"), low), high)
            look: dict[str, Any] = {"bar": 3, "rows": [[name, said]], "hover": "{0}\n{1}"}
            marks.append(Points([middle], [place], colour, x_ends=([low], [high]), **look))
        elif open_ended:
            at = max(low, proven)
            said = pair_text(at, high)
            marks += _arrow(at, place, colour, end, name)
        else:
            at = posterior.median(parameter)
            said = estimate_text(at, low, high)
            marks.append(style.interval_row(place, posterior, parameter, level, colour, name))
        marks.append(Note(said, place, at))
    if claim is not None and drawn:
        end = max(end, 1.15 * claim)
        line: dict[str, Any] = {"colour": "orange", "width": 1.6, "dash": "solid"}
        marks.append(Reference(x=claim, label=f"claim {claim:.4g}", **line))
    floor = len(rows) + 0.65
    marks += _proven(result.proof, end)
    names = ["proven", *(name for _, name, _ in rows)]
    if not open_ended:
        marks += _density(result, floor, end)
        names.append("posterior")
    words = ["proven", "estimated"] if units is None else ["proven", "shown", "estimated"]
    words += [] if claim is None else ["claimed"]
    lines = len(rows) + (1 if open_ended else 3)
    plot = Plot(
        Axis(f"epsilon at delta = {posterior.model.delta:g}", (0, end)),
        Axis("", (-0.55, floor + 0.1 + (0.0 if open_ended else DENSITY_ROWS)), names=names),
        marks,
        legend=False,
        page_height=62 * lines,
    )
    title = f"Epsilon: {', '.join(words[:-1])} and {words[-1]}"
    caption = _caption(result, units, claim_is_drawn=drawn)
    return Chart(title=title, caption=caption, plots=[plot], size=(7.2, 0.62 * lines + 1.0))


def _proven(proof: Proof | None, end: float) -> list[Mark]:
    """An arrow from the bound upwards, and how far it could have been; a note if there is none."""
    of = "" if proof is None else f", of at most {rounded_down(proof.most_provable)}"
    if proof is None or not proof.at_least > 0:
        return [Note(f"nothing proven{of}", 0, 0.0)]
    bound, said = proof.at_least, f"at least {rounded_down(proof.at_least)}{of}"
    return [*_arrow(bound, 0, "purple", end, "proven", said), Note(said, 0, bound)]


def _arrow(low: float, row: int, colour: str, end: float, name: str, said: str = "") -> list[Mark]:
    """From a lower end upwards, without an end."""
    hover = f"{name}: epsilon is {said or f'at least {low:.4g}'}"
    return [
        Line([low, 0.985 * end], [row, row], colour, width=2.4),
        Points([low], [row], colour, name, symbol="end", size=9, hover=hover),
        Points([0.985 * end], [row], colour, symbol="arrow", size=6),
    ]


def _density(result: Result, floor: float, end: float) -> list[Mark]:
    """The posterior density above the rows, its interval darker; a spike is cut."""
    posterior = result.posterior
    low, high = posterior.credible_interval("epsilon", result.level)
    spread = posterior.quantile("epsilon", np.linspace(0.005, 0.995, POINTS))
    x = np.unique(np.concatenate([np.linspace(0, end, POINTS), spread, [low, high]]))
    x = x[(x >= 0) & (x <= end)]
    density = np.nan_to_num(posterior.density("epsilon", x), nan=0.0, posinf=0.0)
    tallest = style.end_of_densities(float(density.max()), high - low)
    if not tallest > 0:
        return []
    height: FloatArray = floor + DENSITY_ROWS * np.minimum(density / tallest, 1.0)
    inside, floors = (x >= low) & (x <= high), np.full(len(x), floor)
    above = [[probability_text(posterior.probability_above("epsilon", e))] for e in x.tolist()]
    label = f"{percent(result.level)} interval"
    hover = "epsilon {x:.3g}\nexceeded with probability {0}"
    return [
        Band(x, floors, height, "blue", "posterior", opacity=0.15),
        Band(x[inside], floors[inside], height[inside], "blue", label, opacity=0.3),
        Line(x, height, "blue", "posterior density", width=1.4, rows=above, hover=hover),
    ]


def _caption(result: Result, units: Units | None, *, claim_is_drawn: bool) -> str:
    level, error = percent(result.level), percent(result.question.error)
    text = (
        f"Proven: the attacks refute every smaller epsilon, with an error rate of at most {error} and "
        "without assuming the model; 'of at most' is what perfect attacks on as many would prove. "
    )
    if units is not None:
        text += f"{units.about_shown} "
    if getattr(result.posterior, "saturated", False):
        text += "Estimated: epsilon of the algorithm; these data set no upper limit."
    else:
        text += (
            f"Estimated: epsilon of the algorithm, median and {level} interval, with its posterior "
            "density above."
        )
    no_leak = style.no_leak_text(result.posterior)
    if no_leak:
        text += f" The density excludes the probability {no_leak} of no leak at all."
    if result.contradiction is not None:
        text += " The same data refute this estimate: do not quote it."
    claim = result.claims.get(result.delta)
    if claim is not None:
        text += " Orange: the claim." if claim_is_drawn else (
            f" The claim of {claim:.4g} is to the right of the plot."
        )  # fmt: skip
    return text


def exceedance_chart(result: Result) -> Chart:
    """P(epsilon > e) after and before the data, with the claim if there is one."""
    posterior, claim = result.posterior, result.claims.get(result.delta)
    spread = posterior.quantile("epsilon", np.linspace(0.0005, 0.9995, POINTS))
    # All probability may be at 0.
    end = 1.1 * float(spread[-1]) or 1.0
    # A very large claim would squeeze the curve into a corner.
    if claim is not None and claim < FARTHEST_CLAIM * end:
        end = max(end, 1.1 * claim)
    x = np.unique(np.concatenate([np.linspace(0, end, POINTS), spread])).tolist()
    after = [posterior.probability_above("epsilon", value) for value in x]
    before = [posterior.prior_probability_above(value) for value in x]
    low, high = result.question.thresholds.pass_at_most, result.question.thresholds.fail_at_least
    caption = (
        "Read the curve at any claimed epsilon: by the posterior alone, a claim where it is below "
        f"{low:g} passes, and one where it is above {high:g} fails."
    )
    hover = "P(epsilon > {x:.3f}) = {y:.4f}", "prior: P(epsilon > {x:.3f}) = {y:.4f}"
    marks: list[Mark] = [
        Line(x, after, "blue", "posterior", width=1.8, hover=hover[0]),
        Line(x, before, "grey", "prior", width=1.2, dash="dash", hover=hover[1]),
        Reference(y=low),
        Reference(y=high),
    ]
    if claim is not None:
        above = posterior.probability_above("epsilon", claim)
        prior = posterior.prior_probability_above(claim)
        caption += (
            f" Epsilon exceeds the claim of {claim:.4g} with probability {probability_text(above)}; "
            f"the prior probability was {probability_text(prior)}."
        )
        if claim > x[-1]:
            caption += " The claim is to the right of the plot."
        else:
            said = "claim {x:.4g}: exceeded with probability {y:.4f}"
            marks.append(Reference(x=claim, colour="orange", width=1.2, dash="solid"))
            marks.append(Points([claim], [above], "orange", f"claim {claim:.4g}", hover=said))
    no_leak = style.no_leak_text(posterior)
    if no_leak:
        caption += f" The curve starts below 1: with probability {no_leak} nothing leaks."
    up = Axis("probability of a larger epsilon", (-0.02, 1.02))
    plot = Plot(Axis("epsilon", (0, x[-1])), up, marks)
    title = "Probability that epsilon exceeds a value"
    return Chart(title=title, caption=caption, plots=[plot], size=(6.4, 4.2))


#: From the narrowest prior to the widest.
PRIOR_COLOURS = ("green", "blue", "orange")


def prior_chart(result: CountResult | CurveResult) -> Chart | None:
    """Posteriors and priors of epsilon for several scales of the prior, and the intervals."""
    if not result.other_priors:
        return None
    level, posterior = result.level, result.posterior
    own = AlternativePrior(factor=1.0, posterior=posterior)
    versions = sorted([own, *result.other_priors], key=lambda version: version.factor)
    # Without a leak epsilon is 0, which a density does not show.
    leaks = 1 - float(getattr(result.model, "no_leak", 0.0) or 0.0)
    reach = np.array([version.epsilon.quantile(np.array([0.002, 0.985])) for version in versions])
    # All probability may be at 0.
    low, high = float(reach[:, 0].min()), float(reach[:, 1].max()) or 1.0
    room = 0.08 * (high - low) or 1e-9
    x = np.linspace(max(low - room, 0.0), high + room, POINTS)
    says = "\nepsilon {x:.3f}, density {y:.4g}"
    thin: dict[str, Any] = {"width": 1.0, "dash": "dash", "listed": False}
    marks: list[Mark] = []
    intervals, peak = {}, 0.0
    for version, colour in zip(versions, PRIOR_COLOURS, strict=False):
        factor = version.factor
        after, prior = version.epsilon.density(x), version.model.epsilon
        ends = intervals[factor] = version.credible_interval(level)
        name = "as reported" if factor == 1 else f"prior scale x {factor:g}"
        label = f"{name}: {pair_text(*ends)}"
        before = leaks * np.exp(prior.log_density(x))
        marks += [
            Line(x, after, colour, label, hover=f"{label}, posterior{says}"),
            Line(x, before, colour, label, hover=f"{label}, prior{says}", **thin),
        ]
        peak = max(peak, float(after.max()))
    top = style.end_of_densities(peak, min(high - low for low, high in intervals.values()))
    reported = pair_text(*intervals.pop(1.0))
    moved = " and ".join(
        f"{pair_text(*ends)} with the scale x {factor:g}" for factor, ends in intervals.items()
    )
    no_leak = style.no_leak_text(posterior)
    hidden = f" Not drawn: probability {no_leak} of no leak, where epsilon is 0." if no_leak else ""
    return Chart(
        title="Sensitivity to the prior",
        caption=f"Solid: posteriors; dashed: their priors. The {percent(level)} interval is {reported}; "
        f"it would be {moved}. The more the interval moves with the prior, the less the data "
        f"determine it.{hidden}",
        plots=[Plot(Axis("epsilon", (x[0], x[-1])), Axis("density", (0, top)), marks)],
        size=(6.6, 4.2),
    )
