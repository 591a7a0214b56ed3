"""Output perturbation: normal noise on the parameters of trained models, at one or several scales."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from epsilometer import _validate
from epsilometer.errors import InputError
from epsilometer.measurement import algorithm as algorithms
from epsilometer.measurement.population import Array, Dataset, Point


@dataclass(frozen=True, kw_only=True)
class _Wrapper:
    """What both wrappers delegate to the wrapped algorithm.

    This includes its claim: noise on a released model is post-processing, which preserves any guarantee.
    That the noise may improve the guarantee is not taken into account.
    """

    algorithm: algorithms.Algorithm

    def train(self, dataset: Dataset, rng: np.random.Generator) -> Any:
        return self.train_many([dataset], [rng])[0]

    def train_many(
        self, datasets: Sequence[Dataset], rngs: Sequence[np.random.Generator]
    ) -> Sequence[Any]:
        """The models before adding noise."""
        if isinstance(self.algorithm, algorithms.TrainsMany) and len(datasets) > 1:
            return self.algorithm.train_many(datasets, rngs)
        return [
            self.algorithm.train(dataset, rng) for dataset, rng in zip(datasets, rngs, strict=True)
        ]

    def loss(self, model: Any, point: Point) -> float:
        return self.algorithm.loss(model, point)

    def parameters(self, model: Any) -> Array:
        return self.algorithm.parameters(model)  # type: ignore[attr-defined, no-any-return]

    def with_parameters(self, model: Any, parameters: Array) -> Any:
        return self.algorithm.with_parameters(model, parameters)  # type: ignore[attr-defined]

    def claimed_epsilon(self, delta: float) -> float:
        """The claim of the wrapped algorithm; infinite if it makes none."""
        inside = self.algorithm
        return inside.claimed_epsilon(delta) if isinstance(inside, algorithms.Claims) else math.inf

    @property
    def accounts(self) -> bool:
        """Whether the wrapped algorithm accounts for its training."""
        inside = self.algorithm
        return isinstance(inside, algorithms.ClaimsByTraining) and inside.accounts

    def claim_by_training(
        self, dataset: Dataset, rng: np.random.Generator
    ) -> algorithms.TrainingClaim:
        """The claim of a model of the wrapped algorithm."""
        return self.algorithm.claim_by_training(dataset, rng)  # type: ignore[attr-defined, no-any-return]

    def _perturbed(self, model: Any, scale: float, rng: np.random.Generator) -> Any:
        parameters = np.asarray(self.parameters(model))
        noise = scale * rng.standard_normal(parameters.shape)
        return self.with_parameters(model, (parameters + noise).astype(parameters.dtype))

    @property
    def batch_size(self) -> int:
        """The batch size of the wrapped algorithm."""
        return algorithms.batch_size_of(self.algorithm)

    def __post_init__(self) -> None:
        algorithms.check(self.algorithm, name="the algorithm to perturb")
        if not isinstance(self.algorithm, algorithms.HasParameters):
            raise InputError(
                "expected an algorithm that exposes its parameters (methods parameters and "
                f"with_parameters), got {type(self.algorithm).__name__}."
            )
        reason = getattr(self.algorithm, "no_parameters", "")
        if reason:
            raise InputError(str(reason))
        if isinstance(self.algorithm, algorithms.Releases):
            raise InputError("expected an algorithm with a single variant, got one with several.")


@dataclass(frozen=True, kw_only=True)
class OutputPerturbation(_Wrapper):
    """Train with another algorithm, then add normal noise to every parameter.

    Parameters
    ----------
    algorithm
        Any algorithm that exposes its parameters.
    scale
        Standard deviation of the noise; >= 0.
    """

    scale: float

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.non_negative("scale", self.scale)

    def train_many(
        self, datasets: Sequence[Dataset], rngs: Sequence[np.random.Generator]
    ) -> Sequence[Any]:
        models = super().train_many(datasets, rngs)
        return [
            self._perturbed(model, self.scale, rng) for model, rng in zip(models, rngs, strict=True)
        ]


@dataclass(frozen=True, kw_only=True)
class NoiseLevels(_Wrapper):
    """Several scales of output perturbation that share the trained models.

    Each model is trained once and released once per scale, with separate noise.  The losses at different
    scales come from the same models, so estimates from them are not independent; results state this.

    Parameters
    ----------
    algorithm
        Any algorithm that exposes its parameters.
    scales
        Distinct standard deviations, >= 0.

    Examples
    --------
    >>> from epsilometer.training.clipped_mean import ClippedMean
    >>> levels = NoiseLevels(algorithm=ClippedMean(noise=0.0, records=100), scales=(0.01, 0.05))
    >>> levels.variants
    ('0.01', '0.05')
    """

    scales: tuple[float, ...]
    may_grow: ClassVar[tuple[str, ...]] = ("scales",)

    def __post_init__(self) -> None:
        super().__post_init__()
        scales = tuple(_validate.non_negative("scale", scale) for scale in self.scales)
        if not scales or len(set(scales)) != len(scales):
            raise InputError(f"expected distinct noise scales, got scales={self.scales!r}.")
        object.__setattr__(self, "scales", scales)

    @property
    def variants(self) -> tuple[str, ...]:
        return tuple(repr(scale) for scale in self.scales)

    def release(self, model: Any, variant: str, rng: np.random.Generator) -> Any:
        return self._perturbed(model, self.scales[self.variants.index(variant)], rng)
