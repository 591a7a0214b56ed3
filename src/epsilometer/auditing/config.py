"""The configuration of an audit: a TOML file, validated whole before anything is trained."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from epsilometer import _files
from epsilometer._display import Displayed
from epsilometer.attacks.rules import ATTACKS, Attack, LikelihoodRatio
from epsilometer.attacks.statistics import Statistic
from epsilometer.auditing import claims
from epsilometer.auditing.claims import Claim, Say
from epsilometer.auditing.designs import TrainPilot, design_of, kind_of, plan_of
from epsilometer.auditing.tables import AlgorithmTable, AuditFile, EstimateTable, worded
from epsilometer.errors import InputError
from epsilometer.inputs import loading
from epsilometer.measurement import algorithm as algorithms
from epsilometer.measurement.designs import Design, ShadowModels
from epsilometer.measurement.executors import check_name
from epsilometer.measurement.one_run import OneRun
from epsilometer.measurement.plan import Plan
from epsilometer.model.count_model import CountModel
from epsilometer.model.curve_model import CurveModel
from epsilometer.model.from_words import (
    CORRELATED,
    INDEPENDENT,
    model_of,
    profile_of,
)

SHIPPED = {
    "clipped-mean": "epsilometer.training.clipped_mean:ClippedMean",
    "network": "epsilometer.training.network:network",
}
"""Algorithms that have a name."""

DATA = (".csv", ".db", ".json", ".npz", ".parquet")
"""Endings of files that have data, not a configuration."""

DEFAULT = Path(__file__).with_name("default_audit.toml")
"""The audit that ships."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AuditConfig(Displayed, view="inputs.AUDIT"):
    """A configuration with everything it names loaded and checked."""

    file: AuditFile
    plan: Plan
    store: Path
    attack: Attack
    statistic: Statistic
    model: CountModel | None
    """The published model; None for canaries, which it does not know."""
    profile: CurveModel | None
    claim: Claim | None
    promise: algorithms.TrainingClaim | None = None
    """What trained models promise, where `with_training_claim` asked them."""

    @property
    def delta(self) -> float:
        """What epsilon is asked at."""
        return self.file.estimate.delta

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the configuration."""
        table = self.file.audit
        records = table.dataset_size or round((table.pool_size or 1) * table.share)
        if self.delta < 1 / records:
            return ()
        return (
            f"delta = {self.delta:g} is not below 1/{records}, one over the number of records: training "
            "that publishes a record as it is can keep such a promise, so a small epsilon means little.",
        )

    def claimed_at(self, delta: float) -> float:
        """The claim at another delta: that of the algorithm there, or the same epsilon."""
        if self.claim is None:
            return math.inf
        if self.claim.source == "algorithm":
            promises = self.promise or self.plan.algorithm
            assert isinstance(promises, algorithms.Claims)
            return claims.promised(promises, delta)
        return self.claim.epsilon

    def with_training_claim(self, on_message: Say = _files.warn) -> AuditConfig:
        """The same with the claim of an algorithm that accounts for its training, such as Opacus.

        Trains the first model of each hypothesis to see it (of canaries the first run), unless something
        is claimed already.  ``on_message`` is called before that, and with doubts about the claim.
        """
        if self.claim is not None:
            return self
        found = claims.by_training(self.plan, self.delta, on_message)
        return self if found is None else replace(self, claim=found[0], promise=found[1])

    def claiming(self, claim: Callable[[float], float]) -> AuditConfig:
        """The same with another claim, at the delta of the model; none where it is infinite."""
        epsilon = claim(self.delta)
        stated = Claim(epsilon, "option") if math.isfinite(epsilon) else None
        return replace(self, claim=stated)


def read_audit(
    path: str | PathLike[str],
    *,
    folder: Path | None = None,
    estimate: Mapping[str, Any] | None = None,
    store: Path | None = None,
    on_message: Say = _files.warn,
    train_pilot: TrainPilot | None = None,
) -> AuditConfig:
    """Read and validate a configuration; errors name their place.

    Parameters
    ----------
    path
        A TOML file; the code that it names is imported.
    folder
        Where relative paths and modules start; default: the folder of the file.
    estimate
        Values that go before those of the table ``[estimate]``, such as ``{"claim": 2.0}``.
    store
        Replaces the store that the file names; relative to ``folder``.
    on_message
        Called with a sentence before something is downloaded, and when an algorithm's claim is not used.
    train_pilot
        Is called where a pilot shall choose the challenge points and is not trained yet: it measures
        ``pilot.plan`` into ``pilot.store``.  Without it such a configuration is refused.
    """
    path = Path(path)
    name = path.name
    if path.suffix.lower() in DATA and path.is_file():
        raise InputError(
            f"{name} is data, not the configuration of an audit; use `epsilometer estimate "
            f"{path} --delta ...`."
        )
    text = _files.load(path)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{name}: not valid TOML ({error}).") from None
    try:
        if estimate and isinstance(data.get("estimate", {}), dict):
            data["estimate"] = {**data.get("estimate", {}), **estimate}
        file = AuditFile.model_validate(data)
        if store is not None:
            audit = file.audit.model_copy(update={"store": str(store)})
            file = file.model_copy(update={"audit": audit})
    except ValidationError as error:
        wrong = "; ".join(worded(detail) for detail in error.errors(include_url=False))
        raise InputError(f"{name}: {wrong}{'' if wrong.endswith('?') else '.'}") from None
    try:
        found = _loaded(file, folder or path.absolute().parent, on_message, train_pilot)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    if found.claim is not None and "claim" in (estimate or {}):
        return replace(found, claim=found.claim._replace(source="option"))
    return found


def _loaded(file: AuditFile, folder: Path, say: Say, train_pilot: TrainPilot | None) -> AuditConfig:
    from epsilometer.datasets import named

    check_name(file.execution.executor)
    statistic = loading.statistic_of(
        file.attack.statistic, folder=folder, place="[attack] statistic"
    )
    table = file.population
    try:
        population = named.load_population(
            table.source,
            folder=folder,
            path=None if table.path is None else Path(table.path),
            on_message=say,
        )
    except InputError as error:
        raise InputError(f"[population] source: {error}") from None
    if table.shape is not None:
        try:
            population = population.shaped(table.shape)
        except InputError as error:
            raise InputError(f"[population] {error}") from None
    algorithm = _algorithm(file.algorithm, folder)
    design = design_of(file, algorithm, statistic, folder)
    try:
        kind = kind_of(file, population, algorithm, folder, train_pilot)
        plan = plan_of(file.audit, design, population, algorithm, kind)
    except InputError as error:
        text = str(error)
        raise InputError(text if text.startswith("[") else f"[audit] {text}") from None
    except loading.RAISED as error:
        # Custom functions for canaries and challenge points run while the plan is made.
        text = f"{type(error).__name__}: {error}"
        key = "canary_kind" if design.canaries else "challenge"
        raise InputError(f"[audit] {key}: {getattr(file.audit, key)} failed ({text}).") from None
    return AuditConfig(
        file=file,
        plan=plan,
        store=folder / file.audit.store,
        attack=ATTACKS.get(file.attack.method or "", LikelihoodRatio()),
        statistic=statistic,
        model=_published(file.estimate, design),
        profile=_profile(file.estimate, design, algorithm),
        claim=claims.known(file.estimate.claim, plan, file.estimate.delta, say),
    )


def _published(table: EstimateTable, design: Design) -> CountModel | None:
    """The published model; none of canaries, nor of points that share models."""
    if design.canaries or not design.models(1):
        return None
    default = INDEPENDENT if isinstance(design, ShadowModels) else CORRELATED
    strength: Any = table.strength  # a number or None, as its validator says
    return model_of(
        table.delta,
        likelihood=table.likelihood or default,
        strength=strength,
        epsilon_prior_scale=table.epsilon_prior_scale,
    )


def _profile(table: EstimateTable, design: Design, algorithm: Any) -> CurveModel | None:
    """The whole-curve model, if it was not declined."""
    if table.model != "profile":
        return None
    strength: Any = table.strength
    chosen = {"family", "mixing"} & table.model_fields_set
    found = profile_of(
        table.delta,
        family=table.family,
        mixing=table.mixing,
        strength=strength,
        epsilon_prior_scale=table.epsilon_prior_scale,
    )
    if chosen or not isinstance(design, OneRun) or not design.in_gradients:
        return found
    # The algorithm defines the kind of gradient canaries.
    known: CurveModel = algorithm.canary_model(table.delta)
    return replace(
        known,
        epsilon=known.epsilon if table.epsilon_prior_scale is None else found.epsilon,
        strength=found.strength if "strength" in table.model_fields_set else known.strength,
    )


def _algorithm(table: AlgorithmTable, folder: Path) -> Any:
    place = "[algorithm] object"
    found = loading.load_object(SHIPPED.get(table.object, table.object), folder=folder, place=place)
    if not hasattr(found, "train") or isinstance(found, type):
        if not callable(found):
            raise InputError(f"{place}: expected an algorithm or what makes one, got {found!r}.")
        failure = f"{place}: cannot be made with {', '.join(table.options) or 'no options'}"
        found = loading.run_user_code(failure, found, **table.options)
    elif table.options:
        raise InputError(
            f"[algorithm] options: {table.object} is made already; options are for a class or a "
            "function that makes one."
        )
    algorithms.check(found, name=place)
    noise = table.output_perturbation
    if noise is None:
        return found
    from epsilometer.training.output_perturbation import NoiseLevels, OutputPerturbation

    if isinstance(noise, list):
        return NoiseLevels(algorithm=found, scales=tuple(noise))
    return OutputPerturbation(algorithm=found, scale=noise)
