"""How gradient canaries are sampled: as the loop's loader samples records, which is then checked."""

import copy
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import BoolArray
from epsilometer.errors import InputError
from epsilometer.training import pytorch

#: Standard errors from which two rates are considered different: one false alarm in 500 million.
TOO_FAR = 6.0

#: Batches with a lower log probability under Poisson sampling are considered fixed.
EQUAL_BATCHES = math.log(1e-6)

#: Largest deviation of the mean batch size, in standard errors, for batches to count as complete.
COMPLETE_BATCHES = 5.0


def check_rates(batches: Sequence[int], records: int, *, taken: int, included: int) -> None:
    """Raise :class:`InputError` unless records and canaries were sampled alike, each independently.

    Parameters
    ----------
    batches
        Number of records in the batch of each step.
    records
        Number of records sampled from.
    taken
        How often canaries took part, over all steps.
    included
        Number of canaries that could take part.
    """
    steps, sizes = len(batches), np.array(batches, dtype=float)
    chances = [records * steps, included * steps]
    if min(chances) == 0:
        return
    parts = [float(sizes.sum()), float(taken)]
    both = sum(parts) / sum(chances)
    rates = [part / whole for part, whole in zip(parts, chances, strict=True)]
    error = math.sqrt(both * (1 - both) * sum(1 / whole for whole in chances))
    if abs(rates[0] - rates[1]) > TOO_FAR * error:
        raise InputError(
            f"expected records and canaries to take part at the same rate, got {rates[0]:.4g} of "
            f"records and {rates[1]:.4g} of canaries per step; pass the loop's sampling_rate to "
            "attach."
        )
    variance = records * both * (1 - both)
    # Standard deviation of the variance of binomial counts.
    spread = math.sqrt((2 + 1 / max(variance, 1e-9)) / steps)
    too_even = variance > 0 and 1 - float(sizes.var()) / variance > TOO_FAR * spread
    if too_even or fixed_batches(batches, records, both):
        raise InputError(
            "expected every record to be sampled independently in every step (Poisson), got "
            f"{len(sizes)} batches of {sizes.min():g} to {sizes.max():g} records; use make_private "
            "with poisson_sampling=True, and do not set a seed inside the loop."
        )


def fixed_batches(sizes: Sequence[int], records: int, rate: float) -> bool:
    """Whether batches are too regular for Poisson sampling: equal sizes, or equal sums per epoch.

    Parameters
    ----------
    sizes
        Number of records in the batch of each step.  Sizes far from the expected one are parts of
        batches, which are not tested.
    records
        Number of records in the dataset.
    rate
        Probability that a record takes part in a step; in (0, 1].
    """
    variance, steps = records * rate * (1 - rate), len(sizes)
    if steps < 2 or variance <= 0:
        return False
    if abs(np.mean(sizes) - records * rate) > 1 + COMPLETE_BATCHES * math.sqrt(variance / steps):
        return False
    length = round(1 / rate)
    for together in {1, length}:
        sums = [sum(sizes[at : at + together]) for at in range(0, steps, together)]
        sums = sums[: steps // together]
        # No sum is more likely than the mean.
        likeliest = min(1.0, 1 / math.sqrt(2 * math.pi * variance * together))
        if len(set(sums)) == 1 and (len(sums) - 1) * math.log(likeliest) < EQUAL_BATCHES:
            return True
    return False


def rate_of(value: object) -> float:
    """A sampling rate, in (0, 1]."""
    rate = _validate.positive("sampling_rate", value)
    if rate > 1:
        raise InputError(f"expected 0 < sampling_rate <= 1, got sampling_rate={rate}.")
    return rate


def poisson_sampler(data_loader: Any) -> Any:
    """The sampler of a loader, which must sample every record independently in every step."""
    samplers = pytorch.loaded("opacus.utils.uniform_sampler")
    managers = pytorch.loaded("opacus.utils.batch_memory_manager")
    sampler = getattr(data_loader, "batch_sampler", None)
    if isinstance(sampler, managers.BatchSplittingSampler):
        sampler = sampler.sampler
    if not isinstance(sampler, samplers.UniformWithReplacementSampler):
        raise InputError(
            "expected a loader with Poisson sampling, as returned by make_private with "
            f"poisson_sampling=True, got {type(sampler).__name__}; for a custom Poisson sampler pass "
            "sampling_rate."
        )
    return sampler


def records_of(data_loader: Any, sampler: Any) -> int | None:
    """Number of records sampled from; None if unknown, or if empty batches are filled."""
    if getattr(getattr(data_loader, "collate_fn", None), "rand_on_empty", False):
        return None
    if sampler is not None:
        return int(sampler.num_samples)
    dataset: Any = getattr(data_loader, "dataset", None)
    return len(dataset) if hasattr(dataset, "__len__") else None


def draws_of(
    sampler: Any, rate: float, count: int, rng: np.random.Generator
) -> Iterator[BoolArray]:
    """Which canaries take part in each step: by a copy of the sampler, or by the rate alone."""
    while sampler is None:
        yield rng.random(count) < rate
    torch = pytorch.loaded()
    twin = copy.copy(sampler)
    twin.num_samples = count
    twin.generator = torch.Generator().manual_seed(int(rng.integers(2**63)))
    while True:
        for chosen in twin:
            participants = np.zeros(count, dtype=bool)
            participants[np.asarray(chosen, dtype=np.intp)] = True
            yield participants
