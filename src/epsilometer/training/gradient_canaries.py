"""Gradient canaries: a white-box audit of DP-SGD within the training run itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import groupby
from typing import Any

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import BoolArray, FloatArray, IndexArray
from epsilometer.errors import InputError
from epsilometer.measurement.canary_kinds import flip
from epsilometer.model.models import CurveModel
from epsilometer.model.scores import Scores
from epsilometer.training import canary_sampling, pytorch
from epsilometer.training.accounting import Steps, accounted_epsilon, canary_model
from epsilometer.training.canary_scores import NoisyCoordinates

#: Length of a canary's gradient before clipping, divided by the clipping norm.
RAW_NORM = 10.0

#: Largest size in bytes of the gradients that are passed to the optimizer's clipping at once.
LARGEST_BATCH = 64 * 2**20

#: Opacus optimizers that do not clip record by record, or that run on several machines.
REFUSED = (
    "DPOptimizerFastGradientClipping",
    "DistributedDPOptimizer",
    "DPPerLayerOptimizer",
    "AdaClipDPOptimizer",
)


class GradientCanaries:
    """Canaries in an Opacus training loop: each is a gradient along its own coordinate.

    Half of them, by fair coins, are included.  In every step the included canaries take part like
    records, each with the sampling probability, and their gradients pass through the optimizer's own
    clipping and noise.  They are longer than the clipping norm, so a correct optimizer clips them to
    that length: the worst possible records.  Each canary is scored by its coordinate of the noisy sums,
    after subtracting the contribution of the records: an accountant's claim covers an adversary who sees
    every noisy sum, knows all other records, and knows which of them took part.

    Canaries change the training: use a model trained with canaries for the audit only.

    Memory: at most `LARGEST_BATCH` bytes of gradients at a time (one gradient, if that is larger), and a
    few numbers per canary.  If a step's records and canaries fit together, they form one batch for the
    optimizer, so that batch-wise clipping is detected; otherwise canaries follow in parts.

    Create it with :meth:`attach`.

    Attributes
    ----------
    included
        The coins: whether each canary is included.
    sampling_rate
        Probability that an included canary takes part in a step, as stated by the loader.
    steps
        Number of noisy steps so far; a large batch in several parts counts once.
    """

    def __init__(
        self,
        optimizer: Any,
        *,
        included: BoolArray,
        sampling_rate: float,
        draw: Callable[[], BoolArray],
        rng: np.random.Generator,
        known_records: bool = True,
        records: int | None = None,
        accountant: Any = None,
    ) -> None:
        _check_optimizer(optimizer)
        self.included: BoolArray = np.array(included, dtype=bool)
        self.included.flags.writeable = False
        self.sampling_rate = sampling_rate
        self._optimizer, self._draw, self._records = optimizer, draw, records
        self._known_records, self._accountant = known_records, accountant
        self._parts: list[Any] = list(optimizer.params)
        self._place(rng)
        self._sums = NoisyCoordinates(len(self.included))
        self._noises: list[float] = []
        self._sizes: list[int] = []
        self._size, self._taken, self._waiting = 0, 0, True
        self._of_records: FloatArray = np.zeros(len(self.included))
        self._clip, self._add_noise = optimizer.clip_and_accumulate, optimizer.add_noise
        optimizer.clip_and_accumulate, optimizer.add_noise = self._clipped, self._noisy
        optimizer.gradient_canaries = self

    @classmethod
    def attach(
        cls,
        optimizer: Any,
        data_loader: Any,
        *,
        count: int = 5000,
        rng: np.random.Generator,
        sampling_rate: float | None = None,
        known_records: bool = True,
        accountant: Any = None,
    ) -> GradientCanaries:
        """Insert canaries into a training loop; the rest of the loop needs no change.

        Parameters
        ----------
        optimizer, data_loader
            As returned by ``privacy_engine.make_private``.  Canaries are sampled by the code of the
            loader's sampler, so a sampler that samples too often is detected.
        count
            Number of canaries; at most the number of trained parameters.
        rng
            Used for coins, coordinates and participation; for nothing else.
        sampling_rate
            For loaders with a custom Poisson sampler: the probability that a record takes part in a
            step, in (0, 1].  By default it is read from Opacus's sampler.
        known_records
            Whether the correctly clipped contribution of the records to the coordinates is subtracted
            before canaries are scored.  Without it scores use the noisy sums only, and become weaker the
            more the records' gradients exceed the noise.
        accountant
            ``privacy_engine.accountant``; :meth:`claimed_epsilon` is then its epsilon.

        Raises
        ------
        InputError
            If the loader does not sample each record independently in every step (Poisson), or the
            optimizer clips per layer, adaptively, without per-record gradients ("ghost"), or on several
            machines.
        """
        count = _validate.whole_number("count", count, least=2)
        if getattr(accountant, "history", None):
            raise InputError(
                "expected canaries to be attached before the first step, got an accountant that already "
                "has steps, which its claim includes."
            )
        included = flip(count, rng)
        sampler = canary_sampling.poisson_sampler(data_loader) if sampling_rate is None else None
        rate = canary_sampling.rate_of(sampling_rate if sampler is None else sampler.sample_rate)
        return cls(
            optimizer,
            included=included,
            sampling_rate=rate,
            draw=canary_sampling.draws_of(sampler, rate, count, rng).__next__,
            rng=rng,
            known_records=known_records,
            records=canary_sampling.records_of(data_loader, sampler),
            accountant=accountant,
        )

    # --- results ----------------------------------------------------------------------------------

    @property
    def steps(self) -> int:
        return self._sums.steps

    def each_score(self) -> FloatArray:
        """A score per canary, higher suggests membership; see `canary_scores.py`."""
        if not self.steps:
            raise InputError("expected training steps after attach, got none.")
        return self._sums.scores(self.sampling_rate)

    def scores(self) -> Scores:
        """Scores of included and excluded canaries, as a one-run audit.

        Raises
        ------
        InputError
            If records took part in steps at another rate than canaries, so that the canaries are not
            representative.
        """
        scores = self.each_score()
        if self._records is not None:
            inside = int(self.included.sum())
            canary_sampling.check_rates(
                self._sizes, self._records, taken=self._taken, included=inside
            )
        found = Scores.of_canaries(scores[self.included], scores[~self.included])
        return found.assuming_independent_noise()

    def model(self, delta: float) -> CurveModel:
        """The model for the scores; see :meth:`epsilometer.DpSgd.canary_model`."""
        return canary_model(self._done, delta)

    def claimed_epsilon(self, delta: float) -> float:
        """The claimed epsilon at a delta: the accountant's if given, otherwise that of the steps taken.

        Without ``accountant`` it is Opacus's epsilon for the optimizer's noise multiplier and the
        loader's rate, so a loop that reports something else to its accountant is not detected.
        """
        if any(noise == 0 for noise, _, _ in self._done):
            return math.inf
        if self._accountant is not None:
            return float(self._accountant.get_epsilon(delta))
        return accounted_epsilon(self._done, delta)

    @property
    def _done(self) -> list[Steps]:
        """The steps so far, in the format of accountants."""
        runs = [(noise, len(list(steps))) for noise, steps in groupby(self._noises)]
        return [(noise, self.sampling_rate, steps) for noise, steps in runs]

    # --- in the loop ------------------------------------------------------------------------------

    def _place(self, rng: np.random.Generator) -> None:
        """Choose a coordinate per canary: the parameter that holds it, and the offset in it.

        In increasing order, so that neighbouring canaries share what a layer shares; proofs that assume
        independent noise look for it.
        """
        torch = pytorch.loaded()
        sizes = [part.numel() for part in self._parts]
        count = _validate.whole_number("canaries", len(self.included), most=sum(sizes))
        coordinates = np.sort(rng.choice(sum(sizes), count, replace=False))
        ends = np.cumsum(sizes)
        self._part = np.searchsorted(ends, coordinates, side="right")
        self._offset = coordinates - (ends - sizes)[self._part]
        held = [np.flatnonzero(self._part == number) for number in range(len(sizes))]
        self._readers = [
            (canaries, torch.tensor(self._offset[canaries], device=part.device))
            for canaries, part in zip(held, self._parts, strict=True)
        ]
        self._row_bytes = sum(part.numel() * part.element_size() for part in self._parts)

    def _clipped(self) -> None:
        """Replaces the optimizer's clipping: calls it, and once per step adds the canaries."""
        gradients = self._gradients()
        self._size += len(gradients[0])
        if self._known_records:
            self._add_records(gradients)
        del gradients
        if not self._waiting:
            self._clip()
            return
        self._waiting = False
        chosen = np.flatnonzero(self._draw() & self.included)
        self._taken += len(chosen)
        most = max(1, LARGEST_BATCH // self._row_bytes)
        if self._size + len(chosen) <= most:
            self._clip_together(chosen)
            return
        self._clip()
        for first in range(0, len(chosen), most):
            self._clip_alone(chosen[first : first + most])

    def _add_records(self, gradients: list[Any]) -> None:
        """Add the records' contribution to the coordinates, clipped by Opacus's formula."""
        torch = pytorch.loaded()
        rows = [
            _as_rows(gradient, part) for gradient, part in zip(gradients, self._parts, strict=True)
        ]
        lengths = [matrix.norm(2, dim=1) for matrix in rows]
        whole = torch.stack(lengths, dim=1).norm(2, dim=1)
        factors = (self._optimizer.max_grad_norm / (whole + 1e-6)).clamp(max=1.0)
        for matrix, (canaries, offset) in zip(rows, self._readers, strict=True):
            added = (factors.to(matrix.dtype) @ matrix)[offset]
            self._of_records[canaries] += added.detach().double().cpu().numpy()

    def _clip_together(self, chosen: IndexArray) -> None:
        """Clip records and canaries as one batch."""
        gradients = self._gradients()
        held = [part.grad_sample for part in self._parts]
        self._call_with(self._rows(chosen, gradients))
        for part, before in zip(self._parts, held, strict=True):
            used, part.grad_sample = part.grad_sample, before
            # Opacus marks gradients as used, to detect a missing zero_grad.
            if hasattr(used, "_processed"):
                for gradient in before if isinstance(before, list) else [before]:
                    gradient._processed = True

    def _clip_alone(self, chosen: IndexArray) -> None:
        """Clip canaries as a separate batch and add it to the sum, even if the optimizer replaces it."""
        held = [(part.grad_sample, part.summed_grad) for part in self._parts]
        for part in self._parts:
            part.summed_grad = None
        self._call_with(self._rows(chosen, [gradient[:0] for gradient in self._gradients()]))
        for part, (gradient, before) in zip(self._parts, held, strict=True):
            part.grad_sample = gradient
            part.summed_grad = part.summed_grad + before

    def _call_with(self, gradients: list[Any]) -> None:
        for part, gradient in zip(self._parts, gradients, strict=True):
            part.grad_sample = gradient
        del gradients
        self._clip()

    def _gradients(self) -> list[Any]:
        """Per-record gradients of this batch for each parameter, from a single backward pass."""
        gradients = []
        for part in self._parts:
            gradient = part.grad_sample
            if isinstance(gradient, list):
                if len(gradient) != 1:
                    raise InputError(
                        f"expected one backward pass per step, got {len(gradient)}; call "
                        "optimizer.step() and zero_grad() after each, and use BatchMemoryManager for "
                        "large batches."
                    )
                gradient = gradient[0]
            if gradient is None:
                raise InputError("expected a backward pass before optimizer.step(), got none.")
            gradients.append(gradient)
        return gradients

    def _rows(self, chosen: IndexArray, before: list[Any]) -> list[Any]:
        """Per-record gradients followed by those of canaries, which have one non-zero coordinate."""
        torch = pytorch.loaded()
        length = RAW_NORM * float(self._optimizer.max_grad_norm)
        tensors = []
        for number, (part, gradient) in enumerate(zip(self._parts, before, strict=True)):
            rows = gradient.new_zeros((len(gradient) + len(chosen), *part.shape))
            rows[: len(gradient)] = gradient
            places = np.flatnonzero(self._part[chosen] == number)
            where = torch.tensor(len(gradient) + places, device=part.device)
            offset = torch.tensor(self._offset[chosen[places]], device=part.device)
            _as_rows(rows, part)[where, offset] = length
            tensors.append(rows)
        return tensors

    def _noisy(self) -> None:
        """Replaces the optimizer's noise: calls it, then reads the coordinates."""
        if self._waiting:
            raise InputError(
                "expected the optimizer to clip before it adds noise, got noise without clipping."
            )
        self._add_noise()
        noise, norm = float(self._optimizer.noise_multiplier), float(self._optimizer.max_grad_norm)
        x = np.empty(len(self.included))
        for part, (canaries, offset) in zip(self._parts, self._readers, strict=True):
            x[canaries] = part.grad.detach().reshape(-1)[offset].double().cpu().numpy()
        x = (x - self._of_records) / norm
        self._sums.add(x, noise_multiplier=noise, sampling_rate=self.sampling_rate)
        self._sizes.append(self._size)
        self._noises.append(noise)
        self._size, self._waiting = 0, True
        self._of_records[:] = 0.0


def _as_rows(gradient: Any, part: Any) -> Any:
    """Gradients of a parameter, one row per record; works for empty batches."""
    return gradient.reshape(len(gradient), part.numel())


def _check_optimizer(optimizer: Any) -> None:
    optimizers = pytorch.loaded("opacus.optimizers")
    name = type(optimizer).__name__
    if not isinstance(optimizer, optimizers.DPOptimizer):
        raise InputError(f"expected the optimizer returned by make_private, got {name}.")
    if any(kind.__name__ in REFUSED for kind in type(optimizer).__mro__):
        raise InputError(
            "expected an optimizer that clips each record's whole gradient on one machine, got "
            f'{name}; use make_private with clipping="flat" and grad_sample_mode="hooks".'
        )
    if hasattr(optimizer, "gradient_canaries"):
        raise InputError("expected an optimizer without canaries, got one that already has some.")
