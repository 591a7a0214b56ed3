"""Facts about a result as pairs of label and text: model, origin, engine."""

from typing import Any

from epsilometer._text import probability_text
from epsilometer.engines.curve.posterior import CurvePosterior
from epsilometer.judgement.curve_result import CurveResult
from epsilometer.judgement.origin import Origin
from epsilometer.judgement.result import Result
from epsilometer.judgement.units import units_of
from epsilometer.model.families import FAMILIES
from epsilometer.posteriors.trees import values_of

Facts = list[tuple[str, str]]

#: Smallest probability of no leak that is mentioned.
NO_LEAK = 0.01


# --- for the terminal -------------------------------------------------------------------------------


def model_facts(result: Result) -> Facts:
    """What the numbers depend on, what was estimated from, and the engine."""
    facts: Facts = []
    if isinstance(result, CurveResult):
        facts = [
            ("family", family_fact(result)),
            ("strength", strength_fact(result)),
            ("extrapolated", extrapolation_fact(result)),
        ]
    return [
        *facts,
        (f"{units_of(result.data).whole_base}s", f"{len(result.data):,}"),
        ("delta", f"{result.delta:g}"),
        ("engine", result.posterior.engine_description),
        ("time", f"{result.posterior.provenance.seconds:.2f} s"),
    ]


# --- the curve model --------------------------------------------------------------------------------


def family_fact(result: CurveResult) -> str:
    """Posterior probability of each family of curves."""
    posterior = result.posterior
    names = [family.name for family in result.model.families]
    shares = {_in_words(name, posterior): posterior.family_probability(name) for name in names}
    best = max(shares, key=lambda name: shares[name])
    if len(names) == 1:
        text = f"{best} (fixed)"
    else:
        text = f"{best} with probability {probability_text(shares[best])}"
        rest = [
            f"{name} {probability_text(share)}"
            for name, share in shares.items()
            if name != best and share >= 1e-3
        ]
        text += f"; {', '.join(rest)}" if rest else ""
    mixed = sum(row.probability for row in posterior.families if row.mixing < 1)
    if result.model.mixing.name == "free":
        text += f"; with mixing {_at_least(mixed)}"
    nothing = posterior.solution.no_leak
    if nothing >= max(NO_LEAK, shares[best]):
        return f"no leak at all with probability {probability_text(nothing)}; otherwise {text}"
    if nothing >= NO_LEAK:
        text += f"; no leak at all {probability_text(nothing)}"
    return text


def _in_words(name: str, posterior: CurvePosterior) -> str:
    """A family, and the range of its shape."""
    shape = next((row.shape for row in posterior.families if row.family == name), None)
    family = FAMILIES.get(name)
    if shape is None or family is None:
        return name
    return f"{name} ({family.words.format(*shape)})"


def strength_fact(result: CurveResult) -> str:
    """How close the attacks came to the best possible ones."""
    fixed = result.model.strength.fixed_value
    if fixed is not None:
        return f"fixed at {fixed:g}"
    low, high = result.posterior.credible_interval("strength", result.level)
    units = units_of(result.scores)
    text = (
        f"{low:.2f} to {high:.2f} on average over {units.base}s; probability that every attack was the "
        f"best possible: {_at_least(result.posterior.full_strength_probability)}"
    )
    if len(result.scores) == 1:
        text += f". This comes from the prior: {units.one_cannot_tell}"
    return text


def _at_least(probability: float) -> str:
    """A probability; small values are only given as an upper limit."""
    return probability_text(probability) if probability >= 1e-4 else "below 0.0001"


def extrapolation_fact(result: CurveResult) -> str:
    """The delta below which only the family of curves determines epsilon."""
    posterior = result.posterior
    below, models = posterior.extrapolated_below_delta, round(1 / posterior.finest_rate)
    if not below > 0:
        return (
            "not at the median, which depends on rates that the scores can show; the upper end may "
            "depend on smaller ones, and then on the family"
        )
    where = "which includes this delta" if result.delta < below else "not at this delta"
    return (
        f"below delta = {below:.2g}, {where}: there epsilon depends on false-positive rates under "
        f"1 / {models:,}, which no {units_of(result.scores).base} can show, so the family determines it"
    )


# --- provenance, for the page -----------------------------------------------------------------------


def provenance_facts(result: Result) -> Facts:
    """Model, origin and engine of the result."""
    return [*_of_model(result), *origin_facts(result.origin), *engine_facts(result.posterior)]


#: The choices of either model, and what they are called.
CHOICES = {
    "likelihood": "likelihood",
    "dependence": "dependence",
    "epsilon": "prior of epsilon",
    "mixing": "mixing",
    "strength": "attack strength",
}


def _of_model(result: Result) -> Facts:
    units, values = units_of(result.data), values_of(result.model)
    facts: Facts = [(f"{units.whole_base}s", f"{len(result.data):,}")]
    if isinstance(result, CurveResult):
        scores = result.scores
        sides = int(scores.trials_h0.sum()), int(scores.trials_h1.sum())
        text = f"{sides[0]:,} of {units.without}, {sides[1]:,} of {units.with_point}"
        families = ", ".join(choice_text(family) for family in values["families"])
        facts += [("scores", text), ("families", families)]
    elif not result.data.dependent:
        values.pop("dependence")
    facts.append(("delta", f"{result.delta:g}"))
    return facts + [
        (label, choice_text(values[name])) for name, label in CHOICES.items() if name in values
    ]


#: Properties of a plan, and what they are called.
PLANNED = {
    "population": "population",
    "adjacency": "adjacency",
    "dataset_size": "records per dataset",
    "design": "design",
    "challenge": "challenge points",
    "canaries": "canaries per run",
    "canary_kind": "canary kind",
    "compare_with": "losses compared with",
    "seed": "seed of the measurement",
    "hash": "hash of the plan",
}


def origin_facts(origin: Origin) -> Facts:
    """Origin of the counts or scores."""
    facts = [(label, str(origin.plan[key])) for key, label in PLANNED.items() if key in origin.plan]
    if origin.variant is not None:
        facts.append(("variant", f"{origin.variant} (derived from the same models as the others)"))
    attack = origin.attack
    if attack:
        words = {"attack": "{}", "statistic": "statistic {}"}
        parts = [text.format(attack[key]) for key, text in words.items() if key in attack]
        # Scores have no target rate.
        if origin.target_alpha is not None:
            parts.append(f"target false-positive rate {origin.target_alpha:g}")
        facts.append(("attack", ", ".join(parts)))
    if origin.models:
        text = ", ".join(f"{number:,} {word}" for word, number in origin.models.items())
        facts.append(("models", text))
    if origin.stopping:
        facts.append(("stopping", str(origin.stopping["sentence"])))
    return facts


def engine_facts(posterior: Any) -> Facts:
    """Engine, settings and versions."""
    provenance = posterior.provenance
    facts = [("engine", f"{posterior.engine_description}; {provenance.seconds:.2f} s")]
    if provenance.seed is not None:
        facts.append(("seed of the engine", str(provenance.seed)))
    facts.append(("settings", _settings(dict(provenance.settings))))
    versions = ", ".join(f"{name} {value}" for name, value in provenance.versions.items())
    return [*facts, ("versions", versions)]


def choice_text(described: dict[str, Any]) -> str:
    """An object with its values, such as ``HalfNormal(scale=3.162)``."""

    def shown(value: Any) -> str:
        if isinstance(value, dict):
            return choice_text(value)
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    name, *values = described.items()
    return f"{name[1]}({', '.join(f'{key}={shown(value)}' for key, value in values)})"


def _settings(settings: dict[str, Any]) -> str:
    shown = {
        name: value["name"] if isinstance(value, dict) and "name" in value else value
        for name, value in settings.items()
    }
    return ", ".join(f"{name}={value}" for name, value in shown.items()) or "none"
