"""The configuration of an audit: a TOML file, validated whole before anything is trained."""

from __future__ import annotations

import math
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
from epsilometer.auditing.designs import TrainPilot, design_of, kind_of, plan_of
from epsilometer.auditing.execution import Execution
from epsilometer.auditing.tables import AlgorithmTable, AuditFile, EstimateTable, worded
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

    def claimed_at(self, delta: float) -> float:
        """The claim at another delta: that of the algorithm there, or the same epsilon."""
        if self.claim is None:
            return math.inf
        stated = self.claim.stated
        return float(stated(delta)) if callable(stated) else self.claim.epsilon

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


def read_audit(
    path: str | PathLike[str],
    *,
    folder: Path | None = None,
    tables: Mapping[str, Mapping[str, Any]] | None = None,
    store: Any = None,
    train_pilot: TrainPilot | None = None,
) -> AuditConfig:
    """Read and validate a configuration; errors name their place.

    Parameters
    ----------
    path
        A TOML file; the code that it names is imported.
    folder
        Where relative paths and modules start; default: the folder of the file.
    tables
        Values that go before those of the file, by table, such as ``{"estimate": {"claim": 2.0}}``;
        ``delta`` may be several.
    store
        Replaces the store that the file names; relative to ``folder``.
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
    given = {table: dict(values) for table, values in (tables or {}).items()}
    deltas = _deltas(given.get("estimate", {}))
    try:
        for table, values in given.items():
            if isinstance(data.get(table, {}), dict):
                data[table] = {**data.get(table, {}), **values}
        file = AuditFile.model_validate(data)
    except ValidationError as error:
        wrong = "; ".join(worded(detail) for detail in error.errors(include_url=False))
        raise InputError(f"{name}: {wrong}{'' if wrong.endswith('?') else '.'}") from None
    try:
        home = folder or path.absolute().parent
        kept = home / (file.audit.store if store is None or not _is_path(store) else store)
        config = _loaded(file, home, kept, train_pilot)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    claimed = given.get("estimate", {}).get("claim") is not None
    stated = file.estimate.claim
    config = replace(
        config,
        deltas=deltas or config.deltas,
        store=kept if store is None or _is_path(store) else store,
    )
    if stated is not None:
        return config.claiming(stated, "option" if claimed else "configuration")
    try:
        claim, doubts = claims.of_algorithm(config.plan, config.deltas)
    except InputError as error:
        raise InputError(f"{name}: [algorithm] {error}") from None
    return replace(config, claim=claim, doubts=doubts)


def _is_path(store: object) -> bool:
    return isinstance(store, str | PathLike)


def _deltas(table: dict[str, Any]) -> tuple[float, ...]:
    """Several deltas, of which the models have the first; empty for one or none."""
    given = table.get("delta")
    if given is None or isinstance(given, int | float):
        return ()
    deltas = tuple(map(float, given))
    table["delta"] = deltas[0] if deltas else None
    return deltas


def _loaded(
    file: AuditFile,
    folder: Path,
    store: Path,
    train_pilot: TrainPilot | None,
) -> AuditConfig:
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
        kind = kind_of(file, population, algorithm, folder, store, train_pilot)
        plan = plan_of(file.audit, design, population, algorithm, kind)
    except InputError as error:
        text = str(error)
        raise InputError(text if text.startswith("[") else f"[audit] {text}") from None
    except loading.RAISED as error:
        # Custom functions for canaries and challenge points run while the plan is made.
        text = f"{type(error).__name__}: {error}"
        key = "canary_kind" if design.canaries else "challenge"
        raise InputError(f"[audit] {key}: {getattr(file.audit, key)} failed ({text}).") from None
    how = file.execution
    return AuditConfig(
        plan=plan,
        store=store,
        attack=ATTACKS.get(file.attack.method or "", LikelihoodRatio()),
        statistic=statistic,
        target_alpha=file.attack.target_alpha,
        model=_count_model(file.estimate, design),
        curve=_curve_model(file.estimate, design, algorithm),
        deltas=(file.estimate.delta,),
        level=file.estimate.level,
        claim=None,
        execution=Execution(executor=how.executor, workers=how.workers, retries=how.retries),
    )


def counted(design: Design) -> bool:
    """Whether the count model knows a design: neither canaries, nor points that share models."""
    return not design.canaries and bool(design.models(1))


def likelihood_of(design: Design) -> str:
    """The likelihood of counts measured with a design."""
    return INDEPENDENT if isinstance(design, ShadowModels) else CORRELATED


def _count_model(table: EstimateTable, design: Design) -> CountModel | None:
    """The count model; none of canaries, nor of points that share models."""
    if not counted(design):
        return None
    strength: Any = table.strength  # a number or None, as its validator says
    return model_of(
        table.delta,
        likelihood=table.likelihood or likelihood_of(design),
        strength=strength,
        epsilon_prior_scale=table.epsilon_prior_scale,
    )


def _curve_model(table: EstimateTable, design: Design, algorithm: Any) -> CurveModel | None:
    """The curve model, if it was not declined."""
    if table.model != CURVE:
        return None
    strength: Any = table.strength
    chosen = {"family", "mixing"} & table.model_fields_set
    model = curve_model_of(
        table.delta,
        family=table.family,
        mixing=table.mixing,
        strength=strength,
        epsilon_prior_scale=table.epsilon_prior_scale,
    )
    if chosen or not isinstance(design, OneRun) or not design.in_gradients:
        return model
    # The algorithm defines the kind of gradient canaries.
    known: CurveModel = algorithm.canary_model(table.delta)
    return replace(
        known,
        epsilon=known.epsilon if table.epsilon_prior_scale is None else model.epsilon,
        strength=model.strength if "strength" in table.model_fields_set else known.strength,
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
