"""The configuration of an audit: a TOML file, validated whole before anything is trained."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from epsilometer import _files
from epsilometer._arrays import OnMessage
from epsilometer._display import Displayed
from epsilometer.attacks.rules import ATTACKS, Attack, LikelihoodRatio
from epsilometer.attacks.statistics import Statistic
from epsilometer.auditing import claims
from epsilometer.auditing.claims import Claim
from epsilometer.auditing.designs import design_of, plan_of
from epsilometer.auditing.execution import Execution
from epsilometer.auditing.tables import (
    AlgorithmTable,
    AttackTable,
    AuditFile,
    EstimateTable,
    worded,
)
from epsilometer.errors import InputError
from epsilometer.inputs import loading
from epsilometer.inputs.recorded import CURVE
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
    curve_model_of,
    model_of,
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
    """An audit with everything it names loaded and checked."""

    plan: Plan
    store: Any
    """A path, a store, or None to hold losses in memory."""
    attack: Attack
    statistic: Statistic
    target_alpha: float
    model: CountModel | None
    """The count model; None for canaries and pools, which it does not know."""
    curve: CurveModel | None
    """The curve model; None if it was declined."""
    deltas: tuple[float, ...]
    level: float
    claim: Claim | None
    doubts: tuple[str, ...] = ()
    """Why a claim was left aside or is uncertain, a sentence each."""
    execution: Execution = field(default_factory=Execution)

    @property
    def delta(self) -> float:
        """The delta of the models: the first."""
        return self.deltas[0]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the configuration."""
        share = getattr(self.plan.design, "share", 1.0)
        size = self.plan.dataset_size
        records = round(size * share) if size else self.plan.bases[0].size(0, 0)
        if self.delta < 1 / records:
            return self.doubts
        return (
            *self.doubts,
            f"delta = {self.delta:g} is not below 1/{records}, one over the number of records: training "
            "that publishes a record as it is can keep such a promise, so a small epsilon means little.",
        )

    def with_training_claim(self, on_message: OnMessage = _files.warn) -> AuditConfig:
        """The same with the claim of an algorithm that accounts for its training, such as Opacus.

        Trains the first model of each hypothesis to see it (of canaries the first run), unless something
        is claimed already.  ``on_message`` is called before that.
        """
        if self.claim is not None:
            return self
        claim, doubts = claims.by_training(self.plan, self.deltas, on_message)
        return replace(self, claim=claim, doubts=(*self.doubts, *doubts))

    def claiming(self, claim: Any, source: str = "option") -> AuditConfig:
        """The same with a claim that somebody states; see `claims.stated_claim`."""
        return replace(self, claim=claims.claim_of(claim, self.deltas, source), doubts=())

    def with_own_claim(self) -> AuditConfig:
        """The same with what the algorithm promises without any training."""
        claim, doubts = claims.of_algorithm(self.plan, self.deltas)
        return replace(self, claim=claim, doubts=doubts)

    def with_model(self, model: Any, deltas: tuple[float, ...]) -> AuditConfig:
        """The same with a model that somebody made, and its delta; other values change nothing."""
        if isinstance(model, CurveModel):
            return replace(self, curve=model, deltas=deltas or (model.delta,))
        if isinstance(model, CountModel):
            return replace(self, model=model, curve=None, deltas=deltas or (model.delta,))
        return self


def assembled(
    plan: Plan,
    *,
    estimate: EstimateTable,
    statistic: Statistic,
    attack: AttackTable | None = None,
    store: Any = None,
    execution: Execution | None = None,
) -> AuditConfig:
    """The audit of a plan, however it was described: here files and Python calls meet."""
    design, attack = plan.design, attack or AttackTable()
    if estimate.model != CURVE and not counted(design):
        raise InputError("expected the curve model for canaries and pools, got the count model.")
    strength: Any = estimate.strength  # a number or None, as its validator says
    priors = {"strength": strength, "epsilon_prior_scale": estimate.epsilon_prior_scale}
    count = None
    if counted(design):
        separate = isinstance(design, ShadowModels)
        likelihood = estimate.likelihood or (INDEPENDENT if separate else CORRELATED)
        count = model_of(estimate.delta, likelihood=likelihood, **priors)
    return AuditConfig(
        plan=plan,
        store=store,
        attack=ATTACKS.get(attack.method or "", LikelihoodRatio()),
        statistic=statistic,
        target_alpha=attack.target_alpha,
        model=count,
        curve=_curve_model(estimate, plan, priors) if estimate.model == CURVE else None,
        deltas=(estimate.delta,),
        level=estimate.level,
        claim=None,
        execution=execution or Execution(),
    )


def counted(design: Design) -> bool:
    """Whether the count model knows a design: neither canaries, nor points that share models."""
    return not design.canaries and bool(design.models(1))


def _curve_model(table: EstimateTable, plan: Plan, priors: dict[str, Any]) -> CurveModel:
    model = curve_model_of(table.delta, family=table.family, mixing=table.mixing, **priors)
    design, chosen = plan.design, {"family", "mixing"} & table.model_fields_set
    if chosen or not isinstance(design, OneRun) or not design.in_gradients:
        return model
    # The algorithm defines the kind of gradient canaries.
    algorithm: Any = plan.algorithm
    known: CurveModel = algorithm.canary_model(table.delta)
    return replace(
        known,
        epsilon=known.epsilon if table.epsilon_prior_scale is None else model.epsilon,
        strength=model.strength if "strength" in table.model_fields_set else known.strength,
    )


def read_audit(
    path: str | PathLike[str] | None = None,
    *,
    folder: Path | None = None,
    tables: Mapping[str, Mapping[str, Any]] | None = None,
    store: Any = None,
) -> AuditConfig:
    """Read and validate a configuration; errors name their place.

    Parameters
    ----------
    path
        A TOML file; the code that it names is imported.  None: the audit that ships.
    folder
        Where relative paths and modules start; default: the folder of the file, of the audit that ships
        the current one.
    tables
        Values that go before those of the file, by table, such as ``{"estimate": {"claim": 2.0}}``;
        ``delta`` may be several.
    store
        Replaces the store that the file names; relative to ``folder``.
    """
    if path is None:
        path, folder = DEFAULT, folder or Path.cwd()
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
    given = {table: dict(values) for table, values in (tables or {}).items() if values}
    deltas = _deltas(given.get("estimate", {}))
    try:
        for table, values in given.items():
            if isinstance(data.get(table, {}), dict):
                data[table] = {**data.get(table, {}), **values}
        file = AuditFile.model_validate(data)
    except ValidationError as error:
        wrong = "; ".join(worded(detail) for detail in error.errors(include_url=False))
        raise InputError(f"{name}: {wrong}{'' if wrong.endswith('?') else '.'}") from None
    home = folder or path.absolute().parent
    if store is None or isinstance(store, str | PathLike):
        store = home / (file.audit.store if store is None else store)
    try:
        config = _loaded(file, home)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    config = replace(config, deltas=deltas or config.deltas, store=store)
    if file.estimate.claim is not None:
        claimed = given.get("estimate", {}).get("claim") is not None
        return config.claiming(file.estimate.claim, "option" if claimed else "configuration")
    try:
        return config.with_own_claim()
    except InputError as error:
        raise InputError(f"{name}: [algorithm] {error}") from None


def _deltas(table: dict[str, Any]) -> tuple[float, ...]:
    """Several deltas, of which the models have the first; empty for one or none."""
    given = table.get("delta")
    if given is None or isinstance(given, int | float):
        return ()
    deltas = tuple(map(float, given))
    table["delta"] = deltas[0] if deltas else None
    return deltas


def _loaded(file: AuditFile, folder: Path) -> AuditConfig:
    from epsilometer.datasets import named

    check_name(file.execution.executor)
    statistic = loading.statistic_of(
        file.attack.statistic, folder=folder, place="[attack] statistic"
    )
    table = file.population
    try:
        population = named.load_population(table.source, folder=folder)
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
        plan = plan_of(file.audit, design, population, algorithm, folder)
    except InputError as error:
        text = str(error)
        raise InputError(text if text.startswith("[") else f"[audit] {text}") from None
    except loading.RAISED as error:
        # Custom functions for canaries and challenge points run while the plan is made.
        text = f"{type(error).__name__}: {error}"
        key = "canary_kind" if design.canaries else "challenge"
        raise InputError(f"[audit] {key}: {getattr(file.audit, key)} failed ({text}).") from None
    how = file.execution
    return assembled(
        plan,
        estimate=file.estimate,
        attack=file.attack,
        statistic=statistic,
        execution=Execution(executor=how.executor, workers=how.workers, retries=how.retries),
    )


def _algorithm(table: AlgorithmTable, folder: Path) -> Any:
    place = "[algorithm] object"
    algorithm = loading.load_object(
        SHIPPED.get(table.object, table.object), folder=folder, place=place
    )
    if not hasattr(algorithm, "train") or isinstance(algorithm, type):
        if not callable(algorithm):
            raise InputError(
                f"{place}: expected an algorithm or what makes one, got {algorithm!r}."
            )
        failure = f"{place}: cannot be made with {', '.join(table.options) or 'no options'}"
        algorithm = loading.run_user_code(failure, algorithm, **table.options)
    elif table.options:
        raise InputError(
            f"[algorithm] options: {table.object} is made already; options are for a class or a "
            "function that makes one."
        )
    algorithms.check(algorithm, name=place)
    noise = table.output_perturbation
    if noise is None:
        return algorithm
    from epsilometer.training.output_perturbation import NoiseLevels, OutputPerturbation

    if isinstance(noise, list):
        return NoiseLevels(algorithm=algorithm, scales=tuple(noise))
    return OutputPerturbation(algorithm=algorithm, scale=noise)
