"""Unmodified training loops with Opacus's PrivacyEngine; its accountant provides the claim."""

import copy
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from epsilometer.errors import InputError
from epsilometer.measurement.population import Dataset, Point
from epsilometer.training import pytorch
from epsilometer.training.accounting import Steps, accounted_epsilon, epsilon_by, quiet
from epsilometer.training.canary_sampling import fixed_batches
from epsilometer.training.pytorch import Module, PyTorch

#: Attributes that Opacus leaves on parameters.
MARKS = ("grad_sample", "summed_grad", "_forward_counter", "_current_grad_sample", "_norm_sample")


@dataclass(frozen=True, kw_only=True)
class Accounted:
    """What an Opacus accountant recorded during training, and the resulting epsilon.

    Attributes
    ----------
    accountant
        Its class: Opacus's Rényi, PRV or Gaussian-DP accountant, or a custom one.
    steps
        Noise multiplier, sampling rate and number of steps with these.
    caveats
        Reasons to distrust the epsilon, one sentence each.
    """

    accountant: type
    steps: tuple[Steps, ...]
    caveats: tuple[str, ...] = field(default=(), compare=False)

    @property
    def mechanism(self) -> str:
        """Opacus's name for the accountant, such as prv."""
        return str(self.accountant.mechanism())  # type: ignore[attr-defined]

    def claimed_epsilon(self, delta: float) -> float:
        """Epsilon when one record is added or removed; infinite without noise and at delta = 0."""
        if self.mechanism == "prv":
            return accounted_epsilon(self.steps, delta)
        return epsilon_by(self.accountant, self.steps, delta)


@dataclass(frozen=True, kw_only=True)
class Opacus(PyTorch):
    """Train with your own loop that uses Opacus's ``PrivacyEngine``.

    The loop needs no changes except that it returns the engine: ``make_private`` or
    ``make_private_with_epsilon``, any accountant, any optimizer.  Global generators are seeded as in
    :class:`PyTorch`.  The resulting model is the plain module, without Opacus's wrapper and hooks.

    An audit without a stated claim tests the epsilon of the engine's accountant, which
    ``claim_by_training`` obtains by training a model.  It holds for adding or removing one record.

    Parameters
    ----------
    module
        A class or function without arguments that returns a ``torch.nn.Module``.
    fit
        ``fit(module, dataset)`` trains the module and returns the ``PrivacyEngine``, or a tuple with it.
        If another module than the given one is trained (``ModuleValidator.fix`` creates one), the tuple
        must contain it too: ``(module, engine)``, wrapped or not.
    loss
        ``loss(module, point)``, a finite number for one record.  Default: cross-entropy, as in
        :class:`PyTorch`.
    engine
        If ``fit`` returns your own object: the name of the attribute that holds the engine, such as
        ``"privacy_engine"`` or ``"trainer.privacy_engine"``.

    Raises
    ------
    InputError
        During training: if no engine is returned, its accountant has no steps, the given module was not
        trained and no other was returned, or Opacus cannot train the module (batch normalisation).

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
    >>> claim = algorithm.claim_by_training(data, np.random.default_rng(1))
    >>> claim.steps
    ((2.0, 0.25, 4),)
    >>> round(claim.claimed_epsilon(1e-2), 2)
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
                f"expected engine to be the name of an attribute of fit's return value, got {engine!r}."
            )
        object.__setattr__(self, "engine", engine)

    def train(self, dataset: Dataset, rng: np.random.Generator) -> Module:
        return self._trained(dataset, rng)[0]

    def claim_by_training(self, dataset: Dataset, rng: np.random.Generator) -> Accounted:
        """Train a model and return the claim of the engine's accountant."""
        return self._trained(dataset, rng)[1]

    def _trained(self, dataset: Dataset, rng: np.random.Generator) -> tuple[Module, Accounted]:
        validators = pytorch.loaded("opacus.validators.errors")
        with pytorch.seeded(rng), quiet(), _watched_steps() as taken:
            module = pytorch.new_module(self.module).train()
            untouched = copy.deepcopy(module)  # Opacus leaves hooks on the modules it trains
            try:
                result = self.fit(module, dataset)
            except validators.UnsupportedModuleError as error:
                raise InputError(_unsupported(module, error)) from None
        returned, engine = self._parse_result(result)
        parameters = set(map(id, (module if returned is None else returned).parameters()))
        steps = [step for step in taken if parameters & step.parameters]
        if not steps:
            raise InputError(
                "expected fit to train the given module, or to return (module, engine) with the module "
                f"that it trained, got {len(taken)} optimizer steps, none of them on it."
            )
        if returned is None:
            returned = untouched
            try:
                returned.load_state_dict(module.state_dict())
            except RuntimeError:
                raise InputError(
                    "expected fit to keep the structure of the module, or to return (module, engine), "
                    f"got a {type(module).__name__} with other parts."
                ) from None
        history = engine.accountant.history
        counted = tuple((float(noise), float(rate), int(number)) for noise, rate, number in history)
        caveats = tuple(_caveats(engine, counted, steps))
        claim = Accounted(accountant=type(engine.accountant), steps=counted, caveats=caveats)
        return pytorch.in_evaluation_mode(returned), claim

    def _parse_result(self, result: Any) -> tuple[Module | None, Any]:
        """The returned module (None if the given one was trained) and the engine."""
        if self.engine is not None:
            try:
                result = operator.attrgetter(self.engine)(result)
            except AttributeError:
                raise InputError(
                    f"expected fit to return an object with {self.engine}, "
                    f"got {type(result).__name__}."
                ) from None
        parts = result if isinstance(result, tuple | list) else (result,)
        engines = [part for part in parts if hasattr(getattr(part, "accountant", None), "history")]
        if len(engines) != 1:
            got = f"{len(engines)} engines" if engines else f"{type(result).__name__} without one"
            raise InputError(
                "expected fit to return the PrivacyEngine that it trained with, or "
                f"(module, engine), got {got}."
            )
        if not engines[0].accountant.history:
            raise InputError(
                "expected fit to return the PrivacyEngine that it trained with, got one whose "
                "accountant has no steps."
            )
        modules = [part for part in parts if isinstance(part, pytorch.loaded().nn.Module)]
        return (_unwrapped(modules[0]) if modules else None), engines[0]


# --- training -------------------------------------------------------------------------------------


class _Step(NamedTuple):
    """A step of an optimizer: ids of its parameters, and the number of records in its batch."""

    parameters: frozenset[int]
    size: int | None


@contextmanager
def _watched_steps() -> Iterator[list[_Step]]:
    """Record every step of a PyTorch optimizer; Opacus's optimizers call one of these."""
    optimizers = pytorch.loaded("torch.optim.optimizer")
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
    """Number of records in a step; None if Opacus stores no per-record gradients."""
    for part in parts:
        gradients = getattr(part, "grad_sample", None)
        if isinstance(gradients, list):
            return sum(map(len, gradients))
        if gradients is not None:
            return len(gradients)
    return None


def _unwrapped(module: Module) -> Module:
    """A module without Opacus's wrapper, hooks and marks."""
    if hasattr(module, "to_standard_module"):
        module = module.to_standard_module()
    for handle in module.__dict__.pop("autograd_grad_sample_hooks", ()):
        handle.remove()
    for part in module.parameters():
        for mark in MARKS:
            vars(part).pop(mark, None)
    return module


def _unsupported(module: Module, error: Exception) -> str:
    reasons = error.args[0] if error.args and isinstance(error.args[0], list) else [error]
    text = " ".join(str(reasons[0]).split())
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return (
        f"Opacus cannot train {type(module).__name__}: {text}{more} Apply ModuleValidator.fix(...) in "
        "module."
    )


# --- the claim ------------------------------------------------------------------------------------


def _caveats(engine: Any, steps: Sequence[Steps], taken: Sequence[_Step]) -> Iterator[str]:
    """Reasons to distrust the accountant's epsilon."""
    counted = sum(number for _, _, number in steps)
    if counted != len(taken):
        yield (
            f"the accountant counted {counted} steps, but fit took {len(taken)} on the module: the "
            "claim covers only the steps that were counted."
        )
    sizes = [step.size for step in taken if step.size is not None]
    if len({rate for _, rate, _ in steps}) == 1 and getattr(engine, "dataset", None) is not None:
        if fixed_batches(sizes, len(engine.dataset), steps[0][1]):
            yield (
                "the accountant's epsilon assumes Poisson sampling, but batches have fixed sizes: "
                "train on the loader returned by make_private, with poisson_sampling=True."
            )
    if getattr(engine, "secure_mode", False):
        yield "secure_mode uses the system's random numbers: retrained models will differ."
    if engine.accountant.mechanism() == "gdp":
        yield "the accountant gdp is approximate and may report an epsilon below the true one."
