"""Canaries that are gradients: an audit of DP-SGD from inside, in the training run itself."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import BoolArray, FloatArray, IndexArray
from epsilometer.errors import InputError
from epsilometer.measurement.canaries import flip
from epsilometer.model.profile import ProfileModel
from epsilometer.model.scores import Scores
from epsilometer.training import torch_modules
from epsilometer.training.accounting import Steps, accounted_epsilon, canary_model
from epsilometer.training.canary_scores import NoisyCoordinates

RAW_NORM = 10.0
"""Length of a canary's gradient before it is clipped, over the clipping norm, unless given."""

LARGEST_BATCH = 64 * 2**20
"""Bytes of gradients that are put together for one call of the optimizer's clipping."""

TOO_FAR = 6.0
"""Standard deviations between rates from which they are not one: a false alarm in 500 million."""

CERTAIN = -20.0
"""Log probability of equal batches below which they are no chance."""

REFUSED = (
    "DPOptimizerFastGradientClipping",
    "DistributedDPOptimizer",
    "DPPerLayerOptimizer",
    "AdaClipDPOptimizer",
)
"""Optimizers of Opacus that clip otherwise than record by record, or on several machines."""


class GradientCanaries:
    """Canaries in a training loop with Opacus: each a gradient along a coordinate of its own.

    Half of them, by fair coins, are in.  In every step those that are in take part like records do, each
    with the sampling probability, and their gradients go through the optimizer's own clipping and
    noise.  They are longer than the clipping norm, so a correct optimizer makes them as long as that:
    the worst records there can be.  Each is scored by its coordinate of the noisy sums, from which what
    the records add there is taken off: an accountant's claim is about somebody who sees every noisy sum,
    and it holds as well if he knows all other records and which of them took part.

    Training is not what it would be without them: a model trained with canaries is for the audit alone.

    Memory: at most `LARGEST_BATCH` bytes of gradients at a time (one gradient, if that is larger), and
    a few numbers for each canary.  If a step's records and canaries fit in there together they are one
    batch for the optimizer, so that clipping of batches shows; else canaries follow in parts.

    Use :meth:`attach`.

    Attributes
    ----------
    included
        The coins: whether each canary is in.
    sampling_rate
        Probability with which one that is in takes part in a step, by the loader's own words.
    steps
        Steps so far, of noise and descent; a large batch in several parts is one.
    """

    def __init__(
        self,
        optimizer: Any,
        *,
        included: BoolArray,
        sampling_rate: float,
        draws: Iterator[BoolArray],
        rng: np.random.Generator,
        raw_norm: float = RAW_NORM,
        known_records: bool = True,
        records: int | None = None,
        accountant: Any = None,
    ) -> None:
        _check_optimizer(optimizer)
        self.included: BoolArray = np.array(included, dtype=bool)
        self.included.flags.writeable = False
        self.sampling_rate = sampling_rate
        self._optimizer, self._draws, self._records = optimizer, draws, records
        self._raw_norm = _validate.positive("raw_norm", raw_norm)
        self._known_records, self._accountant = known_records, accountant
        self._parts: list[Any] = list(optimizer.params)
        self._place(_coordinates(self._parts, len(self.included), rng))
        self._sums = NoisyCoordinates(len(self.included))
        self._done: list[Steps] = []
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
        raw_norm: float = RAW_NORM,
        known_records: bool = True,
        accountant: Any = None,
    ) -> GradientCanaries:
        """Put canaries into a loop; what follows of it stays as it is.

        Parameters
        ----------
        optimizer, data_loader
            As ``privacy_engine.make_private`` returned them.  Canaries are sampled by the code of the
            loader's sampler, so that one which samples too often is exposed.
        count
            Canaries; at most the number of trained parameters.
        rng
            Coins, coordinates and who takes part come from it; nothing else does.
        sampling_rate
            For loaders with a Poisson sampler of their own: the probability with which a record takes
            part in a step, in (0, 1].  Read from Opacus's sampler otherwise.
        raw_norm
            Length of canaries before clipping, over the clipping norm; > 0, and above 1 forgotten
            clipping shows.
        known_records
            Whether what records add to the coordinates, clipped as it should be, is taken off before
            canaries are scored.  Without it scores come from the noisy sums alone, and are the weaker
            the more the gradients of records stand out of the noise.
        accountant
            ``privacy_engine.accountant``, whose epsilon :meth:`claimed_epsilon` then is.

        Raises
        ------
        InputError
            If the loader does not sample each record by a coin of its own in every step (Poisson), or
            the optimizer clips layer by layer, adaptively, without gradients of single records
            ("ghost") or on several machines.
        """
        count = _validate.whole_number("count", count, least=2)
        _check_optimizer(optimizer)
        if getattr(accountant, "history", None):
            raise InputError(
                "expected canaries to be attached before the first step, got an accountant that has "
                "steps already: its claim is about these too."
            )
        included = flip(count, rng)
        sampler = None
        if sampling_rate is None:
            sampler = _poisson_sampler(data_loader)
            rate = _rate(sampler.sample_rate)
            draws = _draws_of(sampler, count, rng)
        else:
            rate = _rate(sampling_rate)
            draws = _draws_at(rate, count, rng)
        return cls(
            optimizer,
            included=included,
            sampling_rate=rate,
            draws=draws,
            rng=rng,
            raw_norm=raw_norm,
            known_records=known_records,
            records=_records_of(data_loader, sampler),
            accountant=accountant,
        )

    def __repr__(self) -> str:
        inside = int(self.included.sum())
        return (
            f"GradientCanaries({len(self.included):,}, {inside:,} included, {self.steps:,} steps)"
        )

    def detach(self) -> None:
        """Take the canaries out: the optimizer is as it was, the scores stay."""
        made = self._optimizer
        made.clip_and_accumulate, made.add_noise = self._clip, self._add_noise
        vars(made).pop("gradient_canaries", None)

    # --- what came out ----------------------------------------------------------------------------

    @property
    def steps(self) -> int:
        return self._sums.steps

    def each_score(self) -> FloatArray:
        """A score of each canary, higher looks more like a member; see `canary_scores.py`."""
        if not self.steps:
            raise InputError("expected steps of training after attach, got none.")
        return self._sums.scores(self.sampling_rate)

    def scores(self) -> Scores:
        """Scores of canaries that are in and of those that are not, as of one training run.

        Raises
        ------
        InputError
            If records took part in steps at another rate than canaries, so that these say nothing of
            them.
        """
        found = self.each_score()
        self._check_rates()
        return Scores.of_canaries(found[self.included], found[~self.included])

    def model(self, delta: float) -> ProfileModel:
        """What to assume of the scores; see :meth:`epsilometer.DpSgd.canary_model`."""
        return canary_model(self._done, delta)

    def claimed_epsilon(self, delta: float) -> float:
        """The promised epsilon at a delta: the accountant's, if there is one, else that of the steps.

        Without ``accountant`` it is what Opacus promises for the optimizer's noise multiplier and the
        loader's rate: then somebody who tells the accountant something else is not found out.
        """
        if any(noise == 0 for noise, _, _ in self._done):
            return math.inf
        if self._accountant is not None:
            return float(self._accountant.get_epsilon(delta))
        return accounted_epsilon(self._done, delta)

    def _check_rates(self) -> None:
        """Compare how often records took part with how often canaries did."""
        if self._records is None:
            return
        sizes = np.array(self._sizes, dtype=float)
        chances = [self._records * self.steps, int(self.included.sum()) * self.steps]
        if min(chances) == 0:
            return
        taken = [float(sizes.sum()), float(self._taken)]
        both = sum(taken) / sum(chances)
        rates = [part / whole for part, whole in zip(taken, chances, strict=True)]
        error = math.sqrt(both * (1 - both) * sum(1 / whole for whole in chances))
        if abs(rates[0] - rates[1]) > TOO_FAR * error:
            raise InputError(
                f"expected records to take part at the rate of canaries, got {rates[0]:.4g} of records "
                f"and {rates[1]:.4g} of canaries in a step; give attach the loop's own sampling_rate."
            )
        variance = self._records * both * (1 - both)
        # No size is likelier than the middle one.
        alike = (len(sizes) - 1) * math.log(
            min(1.0, 1 / math.sqrt(2 * math.pi * max(variance, 0.2)))
        )
        if len(set(sizes.tolist())) == 1 and alike < CERTAIN:
            raise InputError(
                "expected every record to be sampled by a coin of its own in every step (Poisson), got "
                f"{len(sizes)} batches of {sizes[0]:g} records each; use make_private with "
                "poisson_sampling=True, and set no seed in the loop."
            )
        # Standard deviation of the variance of binomial counts.
        spread = math.sqrt((2 + 1 / max(variance, 1e-9)) / self.steps)
        if variance > 0 and 1 - float(sizes.var()) / variance > TOO_FAR * spread:
            raise InputError(
                "expected every record to be sampled by a coin of its own in every step (Poisson), got "
                f"batches of {sizes.min():g} to {sizes.max():g} records; use make_private with "
                "poisson_sampling=True, and set no seed in the loop."
            )

    # --- in the loop ------------------------------------------------------------------------------

    def _place(self, coordinates: IndexArray) -> None:
        """Find the parameter of each coordinate, and the place in it."""
        torch = torch_modules.loaded()
        sizes = [part.numel() for part in self._parts]
        ends = np.cumsum(sizes)
        self._part = np.searchsorted(ends, coordinates, side="right")
        self._offset = coordinates - (ends - sizes)[self._part]
        self._readers = []
        for number, part in enumerate(self._parts):
            own = np.flatnonzero(self._part == number)
            self._readers.append((own, torch.tensor(self._offset[own], device=part.device)))
        self._row_bytes = sum(part.numel() * part.element_size() for part in self._parts)

    def _clipped(self) -> None:
        """In place of the optimizer's clipping: the same, and once in every step the canaries too."""
        gradients = self._gradients()
        self._size += len(gradients[0])
        if self._known_records:
            self._add_records(gradients)
        del gradients
        if not self._waiting:
            self._clip()
            return
        self._waiting = False
        chosen = np.flatnonzero(next(self._draws) & self.included)
        self._taken += len(chosen)
        most = max(1, LARGEST_BATCH // self._row_bytes)
        if self._size + len(chosen) <= most:
            self._clip_together(chosen)
            return
        self._clip()
        for first in range(0, len(chosen), most):
            self._clip_alone(chosen[first : first + most])

    def _add_records(self, gradients: list[Any]) -> None:
        """What records of a batch add to the coordinates if each is clipped, by Opacus's formula."""
        torch = torch_modules.loaded()
        rows = [
            _as_rows(gradient, part) for gradient, part in zip(gradients, self._parts, strict=True)
        ]
        lengths = [each.norm(2, dim=1) for each in rows]
        whole = torch.stack(lengths, dim=1).norm(2, dim=1)
        factors = (self._optimizer.max_grad_norm / (whole + 1e-6)).clamp(max=1.0)
        for each, (own, offset) in zip(rows, self._readers, strict=True):
            added = (factors.to(each.dtype) @ each)[offset]
            self._of_records[own] += added.detach().double().cpu().numpy()

    def _clip_together(self, chosen: IndexArray) -> None:
        """Records and canaries as one batch."""
        own = self._gradients()
        held = [part.grad_sample for part in self._parts]
        self._call_with(self._rows(chosen, own))
        for part, before in zip(self._parts, held, strict=True):
            used, part.grad_sample = part.grad_sample, before
            # Opacus marks gradients that were used, to see whether somebody forgets zero_grad.
            if hasattr(used, "_processed"):
                for each in before if isinstance(before, list) else [before]:
                    each._processed = True

    def _clip_alone(self, chosen: IndexArray) -> None:
        """Canaries as a batch of their own, added to the sum, also if the optimizer would replace it."""
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
        """Gradients of this batch's records for each parameter; those of one backward pass."""
        found = []
        for part in self._parts:
            gradient = part.grad_sample
            if isinstance(gradient, list):
                if len(gradient) != 1:
                    raise InputError(
                        f"expected one backward pass for each step, got {len(gradient)}; call "
                        "optimizer.step() and zero_grad() after each, large batches by "
                        "BatchMemoryManager."
                    )
                gradient = gradient[0]
            if gradient is None:
                raise InputError("expected a backward pass before optimizer.step(), got none.")
            found.append(gradient)
        return found

    def _rows(self, chosen: IndexArray, before: list[Any]) -> list[Any]:
        """Gradients of single records, and after them those of canaries; zero but for one coordinate."""
        torch = torch_modules.loaded()
        length = self._raw_norm * float(self._optimizer.max_grad_norm)
        found = []
        for number, (part, gradient) in enumerate(zip(self._parts, before, strict=True)):
            rows = gradient.new_zeros((len(gradient) + len(chosen), *part.shape))
            rows[: len(gradient)] = gradient
            own = np.flatnonzero(self._part[chosen] == number)
            where = torch.tensor(len(gradient) + own, device=part.device)
            offset = torch.tensor(self._offset[chosen[own]], device=part.device)
            _as_rows(rows, part)[where, offset] = length
            found.append(rows)
        return found

    def _noisy(self) -> None:
        """In place of the optimizer's noise: the same, and then the coordinates are read."""
        if self._waiting:
            raise InputError(
                "expected the optimizer to clip before it adds noise, got noise alone."
            )
        self._add_noise()
        noise, norm = float(self._optimizer.noise_multiplier), float(self._optimizer.max_grad_norm)
        x = np.empty(len(self.included))
        for part, (own, offset) in zip(self._parts, self._readers, strict=True):
            x[own] = part.grad.detach().reshape(-1)[offset].double().cpu().numpy()
        x = (x - self._of_records) / norm
        self._sums.add(x, noise_multiplier=noise, sampling_rate=self.sampling_rate)
        self._sizes.append(self._size)
        self._count(noise)
        self._size, self._waiting = 0, True
        self._of_records[:] = 0.0

    def _count(self, noise: float) -> None:
        """One step more with this noise, as accountants keep it."""
        if self._done and self._done[-1][:2] == (noise, self.sampling_rate):
            noise, rate, before = self._done.pop()
            self._done.append((noise, rate, before + 1))
        else:
            self._done.append((noise, self.sampling_rate, 1))


def _as_rows(gradient: Any, part: Any) -> Any:
    """Gradients of a parameter, a row for each record; also if there are none."""
    return gradient.reshape(len(gradient), part.numel())


def _check_optimizer(optimizer: Any) -> None:
    optimizers = torch_modules.loaded("opacus.optimizers")
    name = type(optimizer).__name__
    if not isinstance(optimizer, optimizers.DPOptimizer):
        raise InputError(f"expected the optimizer that make_private returned, got {name}.")
    if any(kind.__name__ in REFUSED for kind in type(optimizer).__mro__):
        raise InputError(
            "expected an optimizer that clips each record's whole gradient on one machine, got "
            f'{name}; use make_private with clipping="flat" and grad_sample_mode="hooks".'
        )
    if hasattr(optimizer, "gradient_canaries"):
        raise InputError(
            "expected an optimizer without canaries, got one that has some; detach them."
        )


def _coordinates(parts: list[Any], count: int, rng: np.random.Generator) -> IndexArray:
    """A coordinate for each canary, no two alike."""
    size = sum(part.numel() for part in parts)
    if count > size:
        raise InputError(
            f"expected at most as many canaries as trained parameters, {size}, got {count}."
        )
    return rng.choice(size, count, replace=False)


def _rate(value: object) -> float:
    rate = _validate.positive("sampling_rate", value)
    if rate > 1:
        raise InputError(f"expected 0 < sampling_rate <= 1, got sampling_rate={rate}.")
    return rate


def _poisson_sampler(data_loader: Any) -> Any:
    samplers = torch_modules.loaded("opacus.utils.uniform_sampler")
    managers = torch_modules.loaded("opacus.utils.batch_memory_manager")
    sampler = getattr(data_loader, "batch_sampler", None)
    if isinstance(sampler, managers.BatchSplittingSampler):
        sampler = sampler.sampler
    if not isinstance(sampler, samplers.UniformWithReplacementSampler):
        raise InputError(
            "expected a loader that samples by Poisson, as make_private with poisson_sampling=True "
            f"returns it, got {type(sampler).__name__}; for a Poisson sampler of your own give "
            "sampling_rate."
        )
    return sampler


def _records_of(data_loader: Any, sampler: Any) -> int | None:
    """How many records are sampled from; None if nobody knows, or empty batches are filled up."""
    if getattr(getattr(data_loader, "collate_fn", None), "rand_on_empty", False):
        return None
    if sampler is not None:
        return int(sampler.num_samples)
    dataset: Any = getattr(data_loader, "dataset", None)
    return len(dataset) if hasattr(dataset, "__len__") else None


def _draws_at(rate: float, count: int, rng: np.random.Generator) -> Iterator[BoolArray]:
    while True:
        yield rng.random(count) < rate


def _draws_of(sampler: Any, count: int, rng: np.random.Generator) -> Iterator[BoolArray]:
    """Who takes part in each step, by a copy of the sampler with random numbers of its own."""
    torch = torch_modules.loaded()
    twin = copy.copy(sampler)
    twin.num_samples = count
    twin.generator = torch.Generator().manual_seed(int(rng.integers(2**63)))
    while True:
        for chosen in twin:
            found = np.zeros(count, dtype=bool)
            found[np.asarray(chosen, dtype=np.intp)] = True
            yield found
