"""Differentially private gradient descent (DP-SGD) with Opacus, and its accountant's claim."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import BoolArray, FloatArray
from epsilometer.errors import InputError
from epsilometer.measurement.canary_kinds import flip
from epsilometer.measurement.population import Dataset
from epsilometer.model.models import CurveModel
from epsilometer.model.scores import Scores
from epsilometer.training import accounting, pytorch
from epsilometer.training.gradient_canaries import RAW_NORM, GradientCanaries
from epsilometer.training.pytorch import Module, ModuleAlgorithm


@dataclass(frozen=True, kw_only=True)
class DpSgd(ModuleAlgorithm):
    """DP-SGD (Abadi et al. 2016): noisy steps along sums of per-record clipped gradients.

    In each step every record takes part with probability ``batch_size / records``.  The gradients of
    those records are clipped to ``max_grad_norm`` one by one and summed, normal noise of standard
    deviation ``noise_multiplier * max_grad_norm`` is added, and the step follows the sum divided by
    ``batch_size``.  A step in which no record takes part is pure noise.

    Rate and divisor use ``records``, a public number, never the actual number of records: that number
    differs between neighbours, and every step would differ with it.

    Gradients and noise come from Opacus, in single precision without its secure mode, so attacks on the
    rounding of noise are not ruled out.  The loss is cross-entropy.  A process trains one model at a
    time; use ``processes`` to train in parallel.

    Parameters
    ----------
    module
        A class or function without arguments that returns a ``torch.nn.Module`` with one output score
        per class.  Layers that mix records, such as batch normalisation, are refused.
    noise_multiplier
        Noise standard deviation divided by the clipping norm; >= 0.
    max_grad_norm
        Length to which a record's gradient is clipped; > 0.
    batch_size
        Expected number of records per step; a whole number in [1, records].
    steps
        Whole number >= 1; records / batch_size steps correspond to an epoch.
    learning_rate
        > 0.
    momentum
        In [0, 1).
    records
        The public size of the dataset.  Use that of either neighbour.
    gradient_canaries
        Number of canaries of :meth:`gradient_scores`, at most the number of trained parameters;
        ``train`` uses none and does not depend on it.
    known_records
        Whether canary scores may use the records; see :meth:`GradientCanaries.attach`.

    Examples
    --------
    >>> from functools import partial
    >>> import torch
    >>> algorithm = DpSgd(
    ...     module=partial(torch.nn.Linear, 64, 10), noise_multiplier=2.0, max_grad_norm=1.0,
    ...     batch_size=50, steps=10, learning_rate=0.5, records=200,
    ... )
    >>> round(algorithm.claimed_epsilon(1e-3), 2)
    1.27
    """

    module: Callable[[], Any]
    noise_multiplier: float
    max_grad_norm: float
    batch_size: int
    steps: int
    learning_rate: float
    momentum: float = 0.0
    records: int
    gradient_canaries: int = 0
    known_records: bool = True
    may_grow: ClassVar[tuple[str, ...]] = ("gradient_canaries", "known_records")

    def __post_init__(self) -> None:
        _validate.non_negative("noise_multiplier", self.noise_multiplier)
        _validate.positive("max_grad_norm", self.max_grad_norm)
        _validate.whole_number("records", self.records)
        _validate.whole_number("batch_size", self.batch_size, most=self.records)
        _validate.whole_number("steps", self.steps)
        _validate.positive("learning_rate", self.learning_rate)
        _validate.below_one("momentum", self.momentum)
        pytorch.check_factory(self.module)
        # Create a module and discard it, to refuse unsupported ones before any training.
        opacus = pytorch.loaded("opacus")
        with pytorch.seeded(np.random.default_rng(0)):
            module = pytorch.new_module(self.module)
        size = sum(part.numel() for part in pytorch.trainable_parameters(module))
        _validate.whole_number("gradient_canaries", self.gradient_canaries, least=0, most=size)
        if opacus.GradSampleModule.validate(module, strict=False):
            raise InputError(
                "DP-SGD cannot train a module with layers that mix records, such as batch "
                f"normalisation, got {type(module).__name__}."
            )

    @property
    def sampling_rate(self) -> float:
        """Probability that a record takes part in a step."""
        return self.batch_size / self.records

    def participants(self, count: int, rng: np.random.Generator) -> BoolArray:
        """Which of ``count`` records or canaries take part in a step."""
        return rng.random(count) < self.sampling_rate

    def train(self, dataset: Dataset, rng: np.random.Generator) -> Module:
        return self._trained(dataset, rng)[0]

    def _trained(
        self, dataset: Dataset, rng: np.random.Generator, watch: Callable[[Any], Any] | None = None
    ) -> tuple[Module, Any]:
        torch, opacus = pytorch.loaded(), pytorch.loaded("opacus")
        cross_entropy = torch.nn.functional.cross_entropy
        whole = pytorch.labels_of(dataset)
        with pytorch.seeded(rng):
            module = pytorch.new_module(self.module).train()
            untouched = copy.deepcopy(module)  # Opacus leaves attributes on the modules it trains
            features = pytorch.features_for(module, dataset.features)
            labels = torch.tensor(whole, device=features.device)
            # Summed, so that an empty batch has a loss of 0.
            watched = opacus.GradSampleModule(module, loss_reduction="sum")
            trained = pytorch.trainable_parameters(module)
            optimizer = self.optimizer(trained, int(rng.integers(2**63)))
            watching = None if watch is None else watch(optimizer)
            for _ in range(self.steps):
                chosen = torch.tensor(self.participants(len(dataset), rng))
                # Opacus reads gradients in hooks; PyTorch warns about hooks on inputs without gradients.
                scores = watched(features[chosen].requires_grad_())
                optimizer.zero_grad()
                cross_entropy(scores, labels[chosen], reduction="sum").backward()
                optimizer.step()
        untouched.load_state_dict(module.state_dict())
        return pytorch.in_evaluation_mode(untouched), watching

    def optimizer(self, parameters: list[Any], seed: int) -> Any:
        """The ``DPOptimizer`` that clips, adds noise from this seed, and steps.

        Override it for variants of the algorithm: the ``grad_sample`` of its parameters holds the
        gradients of the records that take part in a step.
        """
        torch = pytorch.loaded()
        optimizers = pytorch.loaded("opacus.optimizers")
        descent = torch.optim.SGD(parameters, lr=self.learning_rate, momentum=self.momentum)
        return optimizers.DPOptimizer(
            descent,
            noise_multiplier=self.noise_multiplier,
            max_grad_norm=self.max_grad_norm,
            expected_batch_size=self.batch_size,
            generator=torch.Generator(parameters[0].device).manual_seed(seed),
        )

    def claimed_epsilon(self, delta: float) -> float:
        """Epsilon at a delta by Opacus's PRV accountant, when one record is added or removed.

        Infinite without noise and at delta = 0; see `epsilometer.training.accounting`.
        """
        return accounting.accounted_epsilon(self._claimed_steps, delta)

    @property
    def _claimed_steps(self) -> list[accounting.Steps]:
        return [(self.noise_multiplier, self.sampling_rate, self.steps)]

    # --- canaries ---------------------------------------------------------------------------------

    def gradient_scores(
        self, dataset: Dataset, included: BoolArray, rng: np.random.Generator
    ) -> FloatArray:
        """Train with gradient canaries and return their scores; see :class:`GradientCanaries`.

        Canaries are sampled by :meth:`participants` and clipped by :meth:`optimizer`, like records.

        Parameters
        ----------
        included
            The coins: whether each of the ``gradient_canaries`` is included.

        Returns
        -------
        scores
            One per canary; higher scores suggest membership.
        """
        count = self.gradient_canaries
        coins = np.asarray(included)
        if count == 0 or coins.shape != (count,) or coins.dtype != np.bool_:
            raise InputError(
                "expected one coin (true or false) per gradient canary, and at least one canary, got "
                f"{coins.dtype} of shape {coins.shape}, gradient_canaries={count}."
            )
        canary_rng = np.random.default_rng(int(rng.integers(2**63)))
        attach = partial(
            GradientCanaries,
            included=coins,
            sampling_rate=self.sampling_rate,
            draw=lambda: self.participants(count, canary_rng),
            rng=canary_rng,
            known_records=self.known_records,
        )
        scores: FloatArray = self._trained(dataset, rng, attach)[1].each_score()
        return scores

    def audit_gradients(self, dataset: Dataset, rng: np.random.Generator) -> Scores:
        """Flip the coins, train once with canaries, and return their scores as a one-run audit."""
        if not self.gradient_canaries:
            raise InputError("expected gradient_canaries > 0, got gradient_canaries=0.")
        included = flip(self.gradient_canaries, rng)
        scores = self.gradient_scores(dataset, included, rng)
        return Scores.of_canaries(scores[included], scores[~included]).assuming_independent_noise()

    @property
    def canary_settings(self) -> dict[str, object]:
        """Settings that affect canary scores but not how models are trained."""
        return {"known_records": self.known_records, "raw_norm": RAW_NORM}

    def canary_model(self, delta: float) -> CurveModel:
        """The model for scores of gradient canaries; see `epsilometer.training.accounting`."""
        return accounting.canary_model(self._claimed_steps, delta)
