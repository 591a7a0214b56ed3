"""Any PyTorch module with any training loop, as an algorithm to audit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from epsilometer.errors import InputError
from epsilometer.measurement.algorithm import loss_as_number
from epsilometer.measurement.population import Array, Dataset, Point, points_of
from epsilometer.training import torch_modules
from epsilometer.training.torch_modules import Module, ModuleAlgorithm


@dataclass(frozen=True, kw_only=True)
class PyTorch(ModuleAlgorithm):
    """Train your own module with your own training loop.

    ``fit`` may use the global generators of PyTorch, NumPy and `random` as training code usually does:
    they are seeded from the model's stream before the module is created, and restored afterwards.  Do
    not seed them in your code.  Because of this, the executor ``threads`` trains one model at a time;
    use ``processes`` to train in parallel.

    For ``processes``, define functions at the top level of an importable module.

    Parameters
    ----------
    module
        A class or function without arguments that returns a ``torch.nn.Module``.
    fit
        ``fit(module, dataset)`` trains the module in place.  The dataset holds NumPy arrays,
        ``dataset.features`` and ``dataset.labels``.
    loss
        ``loss(module, point)``, a finite number for one record.  Default: cross-entropy, for which the
        module takes features with its parameters' dtype, one row per record, and returns one score per
        class.

    Examples
    --------
    >>> from functools import partial
    >>> import torch
    >>> def fit(module, dataset):
    ...     features = torch.tensor(dataset.features, dtype=torch.float32)
    ...     descent = torch.optim.SGD(module.parameters(), lr=1.0)
    ...     for _ in range(100):
    ...         descent.zero_grad()
    ...         scores = module(features)
    ...         torch.nn.functional.cross_entropy(scores, torch.tensor(dataset.labels)).backward()
    ...         descent.step()
    >>> algorithm = PyTorch(module=partial(torch.nn.Linear, 2, 2), fit=fit)
    >>> data = Dataset(features=np.eye(2), labels=np.array([0, 1]))
    >>> model = algorithm.train(data, np.random.default_rng(1))
    >>> algorithm.loss(model, Point(features=np.eye(2)[1], label=1)) < 0.1
    True
    """

    module: Callable[[], Any]
    fit: Callable[[Any, Dataset], Any]
    loss_function: Callable[[Any, Point], float] | None

    def __init__(
        self,
        *,
        module: Callable[[], Any],
        fit: Callable[[Any, Dataset], Any],
        loss: Callable[[Any, Point], float] | None = None,
    ) -> None:
        torch_modules.check_installed()
        torch_modules.check_factory(module)
        for name, function in (("fit", fit), ("loss", loss)):
            if not callable(function) and (name, function) != ("loss", None):
                raise InputError(f"expected {name} to be a function, got {name}={function!r}.")
        for name, value in {"module": module, "fit": fit, "loss_function": loss}.items():
            object.__setattr__(self, name, value)

    def train(self, dataset: Dataset, rng: np.random.Generator) -> Module:
        with torch_modules.seeded(rng):
            module = torch_modules.new_module(self.module)
            returned = self.fit(module.train(), dataset)
        if returned is not None and returned is not module:
            raise InputError(
                "expected fit to train the given module in place and to return nothing, "
                f"got a {type(returned).__name__} back."
            )
        return torch_modules.in_evaluation_mode(module)

    def loss(self, model: Module, point: Point) -> float:
        """The loss of one record, in evaluation mode."""
        if self.loss_function is None:
            return super().loss(model, point)
        with torch_modules.seeded(np.random.default_rng(0)):
            return loss_as_number(self.loss_function(model.eval(), point), "loss(module, point)")

    def losses(self, model: Module, points: Dataset) -> Array:
        """Losses of many records; computed together if the loss is cross-entropy."""
        if self.loss_function is None:
            return super().losses(model, points)
        return np.array([self.loss(model, point) for point in points_of(points)])
