"""Training loops with Opacus's PrivacyEngine, as they are written: its accountant makes the claim."""

from __future__ import annotations

import copy
import math
import operator
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from epsilometer import _validate
from epsilometer.errors import InputError
from epsilometer.measurement.population import Dataset, Point
from epsilometer.training import torch_modules
from epsilometer.training.accounting import Steps, accounted_epsilon
from epsilometer.training.pytorch import PyTorch
from epsilometer.training.torch_modules import Module

ALIKE = math.log(1e-6)
"""Batches that Poisson sampling would make with less than this log probability are said to be fixed."""

FAR = 5.0
"""Standard errors by which batches must not miss the expected size, to be taken for whole ones."""

EXPECTED_WARNINGS = (
    "Secure RNG turned off",
    "Full backward hook is firing",
    "GDP accounting is experimental",
    "Optimal order is the",
)
"""What Opacus and PyTorch say in every correct loop; a promise has its own words for what matters."""

MARKS = ("grad_sample", "summed_grad", "_forward_counter", "_current_grad_sample", "_norm_sample")
"""What Opacus leaves on parameters."""


@dataclass(frozen=True, kw_only=True)
class Accounted:
    """What an accountant of Opacus was told in a training, and the epsilon that it makes of it.

    Attributes
    ----------
    accountant
        The class: Opacus's by Rényi divergences, privacy losses or Gaussian DP, or one's own.
    steps
        Noise multiplier, sampling rate and number of steps that had these.
    doubts
        What speaks against the promise, a sentence each.
    """

    accountant: type
    steps: tuple[Steps, ...]
    doubts: tuple[str, ...] = field(default=(), compare=False)

    @property
    def mechanism(self) -> str:
        """Opacus's name of the accountant, such as prv."""
        return str(self.accountant.mechanism())  # type: ignore[attr-defined]

    def claimed_epsilon(self, delta: float) -> float:
        """Epsilon at a delta, for one record more or less; infinite without noise and at delta = 0."""
        delta = _validate.delta(delta)
        if delta == 0 or any(noise == 0 for noise, _, _ in self.steps):
            return math.inf
        if self.mechanism == "prv":
            return accounted_epsilon(self.steps, delta)
        with np.errstate(all="ignore"), _quiet():
            accountant = self.accountant()
            accountant.history = list(self.steps)
            try:
                found = float(accountant.get_epsilon(delta))
            except (ArithmeticError, RuntimeError, ValueError) as error:
                raise InputError(f"no epsilon is known at delta={delta}: {error}") from None
        return max(0.0, found)


@dataclass(frozen=True, kw_only=True)
class Opacus(PyTorch):
    """Train with a loop of one's own that uses Opacus's ``PrivacyEngine``.

    The loop stays as it is: ``make_private`` or ``make_private_with_epsilon``, any accountant, any
    optimizer.  In the end it returns the engine.  Global generators are seeded as by :class:`PyTorch`.
    The model that is kept is the plain module, without Opacus's wrapper and hooks.

    An audit without a stated claim is held against the epsilon of the engine's accountant, which
    ``claim_by_training`` reads off a model that it trains.  It is a promise for one record more or less.

    Parameters
    ----------
    module
        A class or function without arguments that makes a ``torch.nn.Module``.
    fit
        ``fit(module, dataset)`` trains the module and returns the ``PrivacyEngine``, or a tuple with it.
        If the module that is trained is not the one given (``ModuleValidator.fix`` makes another), the
        tuple has it too: ``(module, engine)``, wrapped or not.
    loss
        ``loss(module, point)``, a finite number for one record.  Cross-entropy unless given, as of
        :class:`PyTorch`.
    engine
        Where the engine is, if ``fit`` returns an object of its own: the name of its attribute, such
        as ``"privacy_engine"`` or ``"trainer.privacy_engine"``.

    Raises
    ------
    InputError
        While training: if no engine comes back, its accountant has no steps, the module given was not
        trained and no other came back, or Opacus cannot train the module (batch normalisation).

    Examples
    --------
    >>> from functools import partial
    >>> import torch
    >>> from opacus import PrivacyEngine
    >>> from torch.utils.data import DataLoader, TensorDataset
    >>> def fit(module, dataset):
    ...     features = torch.tensor(dataset.features, dtype=torch.float32)
    ...     loader = DataLoader(TensorDataset(features, torch.tensor(dataset.labels)), batch_size=5)
    ...     optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    ...     engine = PrivacyEngine()
    ...     module, optimizer, loader = engine.make_private(
    ...         module=module, optimizer=optimizer, data_loader=loader,
    ...         noise_multiplier=2.0, max_grad_norm=1.0,
    ...     )
    ...     for features, labels in loader:
    ...         optimizer.zero_grad()
    ...         torch.nn.functional.cross_entropy(module(features), labels).backward()
    ...         optimizer.step()
    ...     return engine
    >>> algorithm = Opacus(module=partial(torch.nn.Linear, 2, 2), fit=fit)
    >>> data = Dataset(features=np.eye(2)[[0, 1] * 10], labels=np.array([0, 1] * 10))
    >>> promise = algorithm.claim_by_training(data, np.random.default_rng(1))
    >>> promise.steps
    ((2.0, 0.25, 4),)
    >>> round(promise.claimed_epsilon(1e-2), 2)
    0.46
    """

    engine: str | None
    accounts: ClassVar[bool] = True

    def __init__(
        self,
        *,
        module: Callable[[], Any],
        fit: Callable[[Any, Dataset], Any],
        loss: Callable[[Any, Point], float] | None = None,
        engine: str | None = None,
    ) -> None:
        super().__init__(module=module, fit=fit, loss=loss)
        named = isinstance(engine, str) and all(map(str.isidentifier, engine.split(".")))
        if engine is not None and not named:
            raise InputError(
                f"expected engine to be the name of an attribute of what fit returns, got {engine!r}."
            )
        object.__setattr__(self, "engine", engine)

    def train(self, dataset: Dataset, rng: np.random.Generator) -> Module:
        return self._trained(dataset, rng)[0]

    def claim_by_training(self, dataset: Dataset, rng: np.random.Generator) -> Accounted:
        """Train a model, and tell what the engine's accountant promises of it."""
        return self._trained(dataset, rng)[1]

    def _trained(self, dataset: Dataset, rng: np.random.Generator) -> tuple[Module, Accounted]:
        validators = torch_modules.loaded("opacus.validators.errors")
        with torch_modules.seeded(rng), _quiet(), _watched_steps() as taken:
            module = torch_modules.made(self.module).train()
            untouched = copy.deepcopy(module)  # Opacus leaves hooks on what it trains
            try:
                answer = self.fit(module, dataset)
            except validators.UnsupportedModuleError as error:
                raise InputError(_unsupported(module, error)) from None
        returned, engine = self._found(answer)
        own = _steps_on(module if returned is None else returned, taken)
        if not own:
            raise InputError(
                "expected fit to train the module that it is given, or to return (module, engine) "
                f"with the one that it trained, got {len(taken)} steps and none of them on it."
            )
        if returned is None:
            _hand_over_state(module, untouched)
            returned = untouched
        return torch_modules.finished(returned), _accounted(engine, own)

    def _found(self, answer: Any) -> tuple[Module | None, Any]:
        """The module, if another than the given one may be meant, and the engine."""
        if self.engine is not None:
            try:
                answer = operator.attrgetter(self.engine)(answer)
            except AttributeError:
                raise InputError(
                    f"expected fit to return an object with {self.engine}, "
                    f"got {type(answer).__name__}."
                ) from None
        parts = answer if isinstance(answer, tuple | list) else (answer,)
        engines = [part for part in parts if hasattr(getattr(part, "accountant", None), "history")]
        if len(engines) != 1:
            got = f"{len(engines)} engines" if engines else f"{type(answer).__name__} without one"
            raise InputError(
                "expected fit to return the PrivacyEngine that it trained with, or "
                f"(module, engine), got {got}."
            )
        if not engines[0].accountant.history:
            raise InputError(
                "expected fit to return the PrivacyEngine that it trained with, got one whose "
                "accountant has no steps."
            )
        modules = [part for part in parts if isinstance(part, torch_modules.loaded().nn.Module)]
        return (_plain(modules[0]) if modules else None), engines[0]


# --- what was trained -----------------------------------------------------------------------------


class _Step(NamedTuple):
    """A step of an optimizer: the parameters that it has, and how many records were in its batch."""

    parameters: frozenset[int]
    size: int | None


@contextmanager
def _watched_steps() -> Iterator[list[_Step]]:
    """Every step that a PyTorch optimizer takes meanwhile; Opacus's own ones end in one of these."""
    optimizers = torch_modules.loaded("torch.optim.optimizer")
    taken: list[_Step] = []

    def record(optimizer: Any, *_: Any) -> None:
        if not hasattr(optimizer, "original_optimizer"):
            parts = [part for group in optimizer.param_groups for part in group["params"]]
            taken.append(_Step(frozenset(map(id, parts)), _batch_size(parts)))

    handle = optimizers.register_optimizer_step_post_hook(record)
    try:
        yield taken
    finally:
        handle.remove()


def _batch_size(parts: Sequence[Any]) -> int | None:
    """Records whose gradients a step has; None where Opacus keeps no gradients of single records."""
    for part in parts:
        gradients = getattr(part, "grad_sample", None)
        if isinstance(gradients, list):
            return sum(map(len, gradients))
        if gradients is not None:
            return len(gradients)
    return None


def _steps_on(module: Module, taken: Sequence[_Step]) -> list[_Step]:
    own = set(map(id, module.parameters()))
    return [step for step in taken if own & step.parameters]


def _plain(module: Module) -> Module:
    """A module without Opacus's wrapper, hooks and marks."""
    if hasattr(module, "to_standard_module"):
        module = module.to_standard_module()
    for handle in module.__dict__.pop("autograd_grad_sample_hooks", ()):
        handle.remove()
    for part in module.parameters():
        for mark in MARKS:
            vars(part).pop(mark, None)
    return module


def _hand_over_state(trained: Module, untouched: Module) -> None:
    try:
        untouched.load_state_dict(trained.state_dict())
    except RuntimeError:
        raise InputError(
            "expected fit to leave the parts of the module as they are, or to return "
            f"(module, engine), got a {type(trained).__name__} with others."
        ) from None


def _unsupported(module: Module, error: Exception) -> str:
    reasons = error.args[0] if error.args and isinstance(error.args[0], list) else [error]
    text = " ".join(str(reasons[0]).split())
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return (
        f"Opacus cannot train {type(module).__name__}: {text}{more} Make it from "
        "ModuleValidator.fix(...) in module."
    )


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        for begins in EXPECTED_WARNINGS:
            warnings.filterwarnings("ignore", begins, UserWarning)
        yield


# --- what is promised -----------------------------------------------------------------------------


def _accounted(engine: Any, taken: Sequence[_Step]) -> Accounted:
    accountant = engine.accountant
    steps = tuple((float(noise), float(rate), int(n)) for noise, rate, n in accountant.history)
    return Accounted(
        accountant=type(accountant), steps=steps, doubts=tuple(_doubts(engine, steps, taken))
    )


def _doubts(engine: Any, steps: Sequence[Steps], taken: Sequence[_Step]) -> Iterator[str]:
    """What speaks against the promise."""
    counted = sum(number for _, _, number in steps)
    if counted != len(taken):
        yield (
            f"the accountant counted {counted} steps, but fit took {len(taken)} on the module: the "
            "promise is about the steps that were counted."
        )
    sizes = [step.size for step in taken if step.size is not None]
    if len({rate for _, rate, _ in steps}) == 1 and getattr(engine, "dataset", None) is not None:
        if fixed_batches(sizes, len(engine.dataset), steps[0][1]):
            yield (
                "the accountant's epsilon presumes Poisson sampling, but batches have fixed sizes: "
                "train on the loader that make_private returns, with poisson_sampling=True."
            )
    if getattr(engine, "secure_mode", False):
        yield "secure_mode takes noise from the system: models differ when they are trained again."
    if engine.accountant.mechanism() == "gdp":
        yield "the accountant gdp approximates, and may promise an epsilon below the true one."


def fixed_batches(sizes: Sequence[int], records: int, rate: float) -> bool:
    """Whether batches are too regular for Poisson sampling: all alike, or alike in sum in each epoch.

    Parameters
    ----------
    sizes
        Records in the batch of each step.  Sizes far from the expected one are parts of batches, of
        which nothing is said.
    records
        In the data set.
    rate
        With which a record takes part in a step; in (0, 1].
    """
    variance, steps = records * rate * (1 - rate), len(sizes)
    if steps < 2 or variance <= 0:
        return False
    if abs(np.mean(sizes) - records * rate) > 1 + FAR * math.sqrt(variance / steps):
        return False
    length = round(1 / rate)
    for together in {1, length}:
        sums = [sum(sizes[at : at + together]) for at in range(0, steps, together)]
        sums = sums[: steps // together]
        # No number is likelier than the middle one.
        likeliest = min(1.0, 1 / math.sqrt(2 * math.pi * variance * together))
        if len(set(sums)) == 1 and (len(sums) - 1) * math.log(likeliest) < ALIKE:
            return True
    return False
