"""Options shared by several commands, each declared once, and groups of options as one object.

A command takes a group as a parameter, and :func:`flat` passes its options to typer one by one.  In
typer an option takes the place of the default, so code that constructs a group must give every value.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Any, ClassVar, get_type_hints

import typer
from typer.core import TyperCommand

import epsilometer as em
from epsilometer import _files, _validate
from epsilometer.errors import InputError

ENGINES = ("exact", "mcmc", "published")
#: Probability of the credible intervals by default, as in Python.
DEFAULT_LEVEL = 0.9


def option(metavar: str | None, text: str, *names: str, default: Any = None) -> Any:
    """A typer option; the shell completes the choices in ``metavar`` (``exact|mcmc``)."""
    choices = choices_in(metavar)

    def starting(incomplete: str) -> list[str]:
        return [choice for choice in choices if choice.startswith(incomplete)]

    completion = starting if choices else None
    return typer.Option(default, *names, metavar=metavar, help=text, autocompletion=completion)


def argument(metavar: str, text: str, *, default: Any = ...) -> Any:
    """A typer argument; required if it has no default."""
    return typer.Argument(default, metavar=metavar, help=text)


def flag(text: str, name: str) -> Any:
    """An option without a value."""
    return option(None, text, name, default=False)


def choices_in(metavar: str | None) -> list[str]:
    """The fixed words among the alternatives of a metavar: not placeholders such as ``Q`` or ``D``.

    Examples
    --------
    >>> choices_in("free|none|Q"), choices_in("loss|logit|module:function"), choices_in("DIR")
    (['free', 'none'], ['loss', 'logit'], [])
    """
    words = (metavar or "").split("|")
    return [word for word in words if word == word.lower() and ":" not in word and word]


AS_JSON = flag("Print one JSON object instead of text.", "--json")
CLAIM = option(
    "E",
    "Judge the claim that epsilon is at most E. Default: the claim of the configuration or result.",
)
DELTAS = option(
    "D",
    "The delta of (epsilon, delta)-DP, in [0, 1); it has no default. Several, D,D,... or a grid "
    "LOW:HIGH:COUNT, are judged together; estimates are those of the first.",
)
DELTA = option("D", "The delta of (epsilon, delta)-DP, in [0, 1); it has no default.")
LEVEL = option(
    "L",
    "Probability of the credible intervals. Default: that of the configuration or result, or "
    f"{DEFAULT_LEVEL:g}.",
)
INDEPENDENT_NOISE = flag(
    "Canaries: say also what is proven if their noise is independent and normal.",
    "--assume-independent-noise",
)
SEED = option("N", "Random seed.", default=1)
SIGNIFICANCE = option("A", "Error probability of a bound, or of each end.", default=0.05)
STORE_VARIANT = option("V", "Stores: the variant whose losses are read.", "--variant")
CHANGED_CODE = flag(
    "Continue with a store although the algorithm's source code has changed.",
    "--accept-changed-code",
)
ATTACK_METHOD = option(
    "NAME",
    "The attack: likelihood-ratio (default), pooled-variance, offline, threshold; on a pool lira "
    "(default), lira-offline, rmia, rmia-offline, quantile, population, loss, logit.",
)
SHADOWS = option(
    "M",
    "Every challenge has M separate shadow models under each hypothesis. Default: models are "
    "cross-fed.",
)


@dataclass(frozen=True, kw_only=True)
class ScoreOptions:
    """How losses are turned into scores."""

    panel: ClassVar[str] = "Reading losses"

    statistic: str | None = option(
        "loss|logit|module:function",
        "Losses: the statistic of the attack. Default: that of the result's audit, or logit, which "
        "needs cross-entropy losses.",
    )
    variant: str | None = STORE_VARIANT
    failures: str | None = option(
        "lowest|worst|dropped",
        "Losses: the score of failed models, fixed beforehand. lowest: the same without and with the "
        "point; worst: highest without it, lowest with it; dropped: none, only if failures cannot "
        "depend on the data. Default: that of the result's audit, or lowest.",
    )


@dataclass(frozen=True, kw_only=True)
class FileLossOptions(ScoreOptions):
    """How losses are turned into scores and counts."""

    target_alpha: float | None = option(
        "A",
        "Losses with --model count: count errors at this false-positive rate. Default: that of the "
        "result's audit, or 0.1.",
    )


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The model, its assumptions, and the engine of the count model."""

    panel: ClassVar[str] = "Assumptions"
    #: Options that one of the two models has.
    only: ClassVar[dict[str, tuple[str, ...]]] = {
        "curve": ("family", "mixing"),
        "count": ("likelihood", "dependence", "engine"),
    }

    model: str | None = option(
        "curve|count",
        "curve: the whole trade-off curve from all scores (default for scores and losses); count: the "
        "model of counts, as published.",
    )
    family: str | None = option(
        "average|gaussian|laplace|response|...", "Family of trade-off curves. Default: average."
    )
    mixing: str | None = option(
        "free|none|Q",
        "Whether only some models may depend on the point; Q is the known probability that the "
        "algorithm uses a record at all (not the batch rate of many steps). Default: free.",
    )
    strength: str | None = option(
        "free|S", "Estimate the attack strength (default), or fix it at S in [0, 1]."
    )
    epsilon_prior_scale: float | None = option(
        "V", "Standard deviation of epsilon's half-normal prior. Default: 10^0.5."
    )
    likelihood: str | None = option(
        "binomial|correlated|correlated-published",
        "Likelihood of counts. Default: correlated for counts of cross-fed models, else binomial.",
    )
    dependence: str | None = option(
        "scattered|pooled|independent",
        "Counts with groups: members scatter around their average (default), their counts are added "
        "(faster), or groups are ignored.",
    )
    engine: str | None = option(
        "exact|mcmc|published",
        "Counts: quadrature (default), Markov chains, or the sampler of the paper's authors.",
    )

    def kind(self, default: str) -> str:
        """The chosen model, or the default; options of the other one are refused."""
        chosen = default if self.model is None else _validate.one_of("model", self.model, self.only)
        other = "count" if chosen == "curve" else "curve"
        for name in self.only[other]:
            if getattr(self, name) not in (None, ENGINES[0]):
                raise InputError(f"--{name} is for --model {other}; this is the {chosen} model.")
        return chosen

    @property
    def words(self) -> dict[str, Any]:
        """The given assumptions, as `models.model_of` has them; None for a free strength."""
        words = given(self)
        words = {name: words[name] for name in words if name not in ("model", "engine")}
        if self.strength is not None:
            words["strength"] = None
            if self.strength != "free":
                shown = _files.shown(self.strength)
                refusal = f"expected --strength free or a number in [0, 1], got {shown}."
                words["strength"] = number(self.strength, refusal)
        return words

    def made(self, kind: str, delta: float, *data: Any) -> Any:
        """The model with these assumptions; counts determine the default likelihood."""
        from epsilometer.model.models import curve_model_of, likelihood_for, model_of

        words = self.words
        if kind == "curve":
            return curve_model_of(delta, **words)
        return model_of(delta, **words | {"likelihood": self.likelihood or likelihood_for(*data)})

    @property
    def engine_name(self) -> str | None:
        """The engine as posteriors name it."""
        if self.engine is None:
            return None
        return "mcmc" if _validate.one_of("engine", self.engine, ENGINES) != "exact" else "exact"

    def settings(self, start: Any = None) -> em.engines.McmcSettings | None:
        """Settings of the chains, None for quadrature; a posterior ``start`` keeps its own engine."""
        if start is not None:
            return start.engine if start.provenance.engine == "mcmc" else None
        return chains_of(self.engine) if self.engine_name == "mcmc" else None


def chains_of(engine: str | None) -> em.engines.McmcSettings:
    """The settings of a sampler."""
    settings = em.engines.McmcSettings
    return settings.published() if engine == "published" else settings()


@dataclass(frozen=True, kw_only=True)
class ClaimOptions:
    """The claim that is judged, and the level of intervals."""

    panel: ClassVar[str] = "Claim and verdict"

    claim: float | None = CLAIM
    claim_curve: Path | None = option(
        "CSV", "Several deltas: judge the curve of an accountant (columns delta, epsilon)."
    )
    level: float | None = LEVEL

    def check(self, deltas: tuple[float, ...]) -> None:
        """Refuse invalid claims before any work is done."""
        if self.level is not None:
            _validate.level(self.level)
        if self.claim is not None:
            check_claim(self.claim)
        if self.claim_curve is None:
            return
        if len(deltas) < 2:
            refuse_deltas("--claim-curve", "several deltas", deltas)
        if self.claim is not None:
            raise InputError("expected --claim or --claim-curve, got both.")

    def stated(self, deltas: tuple[float, ...]) -> Any:
        """The claim of the options: a number, a curve over delta, or None."""
        if self.claim_curve is None:
            return self.claim
        curve = em.judgement.ClaimedCurve.read_csv(self.claim_curve)
        if all(curve(delta) == float("inf") for delta in deltas):
            raise InputError(f"{self.claim_curve}: nothing is claimed at any of the deltas.")
        return curve


def check_claim(claim: float) -> None:
    """Refuse a claim that is no number from 0; infinity is one, and promises nothing."""
    if claim != float("inf"):
        _validate.non_negative("claim", claim)


def given(group: Any) -> dict[str, Any]:
    """The given options of a group, by name."""
    return {name: value for name, value in vars(group).items() if value is not None}


class Panelled(TyperCommand):
    """A command whose help lists its options by panel."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and options, those without a panel first."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            kind = "Options" if parameter.param_type_name == "option" else "Arguments"
            if record is not None:
                panel = getattr(parameter, "rich_help_panel", None) or kind
                panels.setdefault(panel, []).append(record)
        for title in sorted(panels, key=lambda panel: panel not in ("Arguments", "Options")):
            with formatter.section(title):
                formatter.write_dl(panels[title])


def flat(command: Callable[..., int]) -> Callable[..., int]:
    """The command with each parameter that is a group replaced by the options of the group."""
    kinds = get_type_hints(command)
    groups: dict[str, Any] = {}
    shown: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        kind = kinds[name]
        alone = parameter.replace(annotation=kind, kind=parameter.KEYWORD_ONLY)
        if not is_dataclass(kind):
            shown.append(alone)
            continue
        groups[name] = kind
        inner = get_type_hints(kind)
        for part in fields(kind):
            chosen: Any = copy(part.default)
            chosen.rich_help_panel = getattr(kind, "panel", None)
            shown.append(alone.replace(name=part.name, default=chosen, annotation=inner[part.name]))

    @wraps(command)
    def called(**values: Any) -> int:
        made = {
            name: kind(**{part.name: values.pop(part.name) for part in fields(kind)})
            for name, kind in groups.items()
        }
        return command(**values, **made)

    del called.__wrapped__
    called.__signature__ = inspect.Signature(shown, return_annotation=int)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return called


# --- deltas -----------------------------------------------------------------------------------

#: Most deltas of a curve; more are finer than a plot or table can show.
MOST_DELTAS = 1000


def need_delta(delta: float | None, result: em.Result | None = None) -> float:
    """The delta, or that of the result; without one nothing continues."""
    if delta is None and result is not None:
        delta = result.delta
    if delta is None:
        raise InputError(
            "expected --delta D with 0 <= D < 1: this privacy parameter has no default."
        )
    return delta


def refuse_deltas(option: str, needed: str, deltas: tuple[float, ...]) -> None:
    """Refuse an option that cannot be combined with this number of deltas."""
    raise InputError(f"{option} needs {needed}, got {len(deltas)} in --delta.")


def parse_deltas(text: str) -> tuple[float, ...]:
    """The deltas in the order given; a grid is evenly spaced in the logarithm, both ends included."""
    refusal = f"expected --delta D, D,D,... or LOW:HIGH:COUNT, got {_files.shown(text)}."
    if ":" in text:
        return _grid(text, refusal)
    deltas = tuple(_validate.delta(number(part, refusal)) for part in text.split(","))
    twice = [value for value in deltas if deltas.count(value) > 1]
    if twice:
        raise InputError(f"expected distinct deltas, got {twice[0]:g} twice in --delta.")
    if len(deltas) > MOST_DELTAS:
        raise InputError(f"expected at most {MOST_DELTAS} deltas, got {len(deltas)}.")
    return deltas


def _grid(text: str, refusal: str) -> tuple[float, ...]:
    import numpy as np

    parts = text.split(":")
    if len(parts) != 3 or not parts[2].strip().isdecimal():
        raise InputError(refusal)
    low, high = (_validate.delta(number(part, refusal)) for part in parts[:2])
    # Nine digits are more than enough to be refused, and never too many to be read.
    count = _validate.whole_number("COUNT", int(parts[2][:9]), least=2, most=MOST_DELTAS)
    if not 0 < low < high:
        raise InputError(f"expected 0 < LOW < HIGH in --delta LOW:HIGH:COUNT, got {text.strip()}.")
    # To twelve digits, so that 1e-6:1e-2:5 contains 1e-5 and not a value with a rounding error.
    inner = (float(f"{value:.12g}") for value in np.geomspace(low, high, count)[1:-1])
    return (low, *inner, high)


def number(text: str, refusal: str) -> float:
    """Parse a number; ``refusal`` is the error message."""
    try:
        return float(text)
    except ValueError:
        raise InputError(refusal) from None
