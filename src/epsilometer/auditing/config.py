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
from epsilometer._warnings import tell
from epsilometer.attacks.rules import ATTACKS, Attack, LikelihoodRatio
from epsilometer.attacks.statistics import Statistic
from epsilometer.auditing import claims
from epsilometer.auditing.claims import Claim
from epsilometer.auditing.designs import design_of, placed, plan_of
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
from epsilometer.judgement.objections import beyond_reach
from epsilometer.judgement.question import Question
from epsilometer.measurement import algorithm as algorithms
from epsilometer.measurement.designs import Design, ShadowModels
from epsilometer.measurement.engine import Measurement, measure
from epsilometer.measurement.executors import check_name
from epsilometer.measurement.first_models import WARNING
from epsilometer.measurement.one_run import OneRun
from epsilometer.measurement.plan import Plan
from epsilometer.measurement.store import MemoryStore
from epsilometer.model.models import (
    CORRELATED,
    INDEPENDENT,
    CountModel,
    CurveModel,
    curve_model_of,
    model_of,
)

#: Algorithms that have a name.
SHIPPED = {
    "clipped-mean": "epsilometer.training.clipped_mean:ClippedMean",
    "network": "epsilometer.training.network:network",
}

#: Endings of files that have data, not a configuration.
DATA = (".csv", ".db", ".json", ".npz", ".parquet")

#: The audit that ships.
DEFAULT = Path(__file__).with_name("default_audit.toml")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AuditConfig(Displayed):
    """An audit with everything it names loaded and checked."""

    plan: Plan
    #: A path, a store, or None to hold losses in memory.
    store: Any = None
    attack: Attack
    statistic: Statistic
    #: The score of failed models, see `attacks/statistics.py`.
    failures: str
    target_alpha: float
    #: The count model; None for canaries and pools, which it does not know.
    model: CountModel | None
    #: The curve model; None if it was declined.
    curve: CurveModel | None
    deltas: tuple[float, ...]
    level: float
    claim: Claim | None = None
    #: Why a claim was left aside or is uncertain, a sentence each.
    doubts: tuple[str, ...] = ()
    #: Who trains, and what is said meanwhile: arguments of `measure`.
    how: Mapping[str, Any] = field(default_factory=dict)

    @property
    def delta(self) -> float:
        """The delta of the models: the first."""
        return self.deltas[0]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the configuration."""
        share = getattr(self.plan.design, "share", 1.0)
        size, first = self.plan.dataset_size, self.plan.bases[0]
        records = round(size * share) if size else len(first.train_on(self.plan.all_records, 0))
        large = (
            f"delta = {self.delta:g} is not below 1/{records}, one over the number of records: training "
            "that publishes a record as it is can keep such a promise, so a small epsilon means little."
        )
        return self.doubts if self.delta < 1 / records else (*self.doubts, large)

    def say(self, line: str) -> None:
        """A line of progress, or a warning."""
        on_message = self.how.get("on_message")
        if line.startswith(WARNING):
            tell([line.removeprefix(WARNING)])
        elif on_message is not None:
            on_message(line)

    def asked(self, question: Question) -> Question:
        """A question about the deltas and the claim of this audit."""
        claim, deltas = self.claim, self.deltas if len(self.deltas) > 1 else ()
        stated, source = (None, None) if claim is None else (claim.stated, claim.source)
        return replace(question, deltas=deltas, claim=stated, claim_source=source)

    def beyond_reach(self, question: Question) -> list[str]:
        """A warning if an audit of this size could not refute the claim, whatever the attacks find."""
        asked, plan = self.asked(question), self.plan
        perfect = plan.design.perfect_scores(len(plan.bases), plan.dataset_size)
        found = beyond_reach(perfect, asked.claims(self.delta), asked)
        return [] if found is None else [found]

    def measure(self, plan: Plan) -> Measurement:
        """Train the models of a plan that the store does not have."""
        return measure(plan, self.store, **{**self.how, "on_message": self.say})

    def executed(self, **how: Any) -> AuditConfig:
        """The same with other arguments of `measure`, where they are not None."""
        given = {name: value for name, value in how.items() if value is not None}
        if isinstance(given.get("executor"), str):
            check_name(given["executor"])
        return replace(self, how={**self.how, **given})

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
    plan: Plan, *, estimate: EstimateTable, attack: AttackTable, statistic: Statistic, failures: str
) -> AuditConfig:
    """The audit of a plan, however it was described: here files and Python calls meet."""
    design = plan.design
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
        attack=ATTACKS.get(attack.method or "", LikelihoodRatio()),
        statistic=statistic,
        failures=failures,
        target_alpha=attack.target_alpha,
        model=count,
        curve=_curve_model(estimate, plan, priors) if estimate.model == CURVE else None,
        deltas=(estimate.delta,),
        level=estimate.level,
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
    given = {table: dict(values) for table, values in (tables or {}).items() if values}
    deltas = _deltas(given.get("estimate", {}))
    try:
        data = tomllib.loads(text)
        for table, values in given.items():
            if isinstance(data.get(table, {}), dict):
                data[table] = {**data.get(table, {}), **values}
        file = AuditFile.model_validate(data)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{name}: not valid TOML ({error}).") from None
    except ValidationError as error:
        wrong = "; ".join(worded(detail) for detail in error.errors(include_url=False))
        raise InputError(f"{name}: {wrong}{'' if wrong.endswith('?') else '.'}") from None
    home = folder or path.absolute().parent
    if store is None or isinstance(store, str | PathLike):
        store = home / (file.audit.store if store is None else store)
    with placed(f"{name}: "):
        config = _loaded(file, home)
    config = replace(config, deltas=deltas or config.deltas, store=store)
    if file.estimate.claim is not None:
        claimed = given.get("estimate", {}).get("claim") is not None
        return config.claiming(file.estimate.claim, "option" if claimed else "configuration")
    with placed(f"{name}: [algorithm] "):
        return config.with_own_claim()


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
    with placed("[population] source: "):
        population = named.load_population(table.source, folder=folder)
    if table.shape is not None:
        with placed("[population] "):
            population = population.shaped(table.shape)
    algorithm = _algorithm(file.algorithm, folder)
    design = design_of(file, algorithm, statistic, folder)
    with placed("[audit] "):
        try:
            plan = plan_of(file.audit, design, population, algorithm, folder)
        except InputError:
            raise
        except loading.RAISED as error:
            # Custom functions for canaries and challenge points run while the plan is made.
            text = f"{type(error).__name__}: {error}"
            key = "canary_kind" if design.canaries else "challenge"
            raise InputError(f"{key}: {getattr(file.audit, key)} failed ({text}).") from None
    tables: dict[str, Any] = {"estimate": file.estimate, "attack": file.attack}
    config = assembled(plan, statistic=statistic, failures=file.audit.failures, **tables)
    return config.executed(**file.execution.model_dump())


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


def chosen_store(given: Any) -> Any:
    """The store to use instead of the configuration's, None to use that one; ``none`` keeps nothing."""
    if given == "none":
        return MemoryStore()
    return Path(given).absolute() if isinstance(given, str) else given
