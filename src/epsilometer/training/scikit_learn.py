"""Any scikit-learn classifier, regressor or pipeline, as an algorithm to audit."""

import copy
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from epsilometer import _extras
from epsilometer.errors import InputError
from epsilometer.measurement.population import Array, Dataset, Point

#: Lower limit of a probability, as in scikit-learn's log_loss: a loss of 36.04, not infinity.
SMALLEST_PROBABILITY = 2.0**-52

#: Seeds below this work for every estimator, including those that use signed 32-bit numbers.
_SEEDS = 2**31


@dataclass(frozen=True, kw_only=True)
class ScikitLearn:
    """Fit a copy of a scikit-learn estimator for every model.

    All parameters named ``random_state``, including those of nested estimators and splitters, are set
    from the model's stream and override your values.  Custom code inside an estimator must use no other
    source of randomness.

    The loss of a classifier is the cross-entropy of the label, the negative log of its
    ``predict_proba``. Probabilities are at least `SMALLEST_PROBABILITY`, also for a label that was not
    in the training data. The loss of a regressor is the squared error.

    The parameters that wrappers perturb are ``coef_`` and ``intercept_`` of a linear model.  Pipelines
    are not supported there: their other steps also learn from the data and would be released without
    noise.

    Parameters
    ----------
    estimator
        A classifier with ``predict_proba``, or a regressor.  It is cloned, not fitted.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> algorithm = ScikitLearn(estimator=LogisticRegression(C=100.0))
    >>> data = Dataset(features=np.eye(2), labels=np.array(["no", "yes"]))
    >>> model = algorithm.train(data, np.random.default_rng(1))
    >>> algorithm.loss(model, Point(features=np.eye(2)[1], label="yes")) < 0.1
    True
    """

    estimator: Any

    def __post_init__(self) -> None:
        base = _loaded()
        if isinstance(self.estimator, type) or not hasattr(self.estimator, "get_params"):
            raise InputError(f"expected a scikit-learn estimator, got {self.estimator!r}.")
        # A clone, so that fitting or changing the original has no effect.
        estimator = base.clone(self.estimator)
        _set_streams(estimator, None)
        name = type(estimator).__name__
        if not base.is_classifier(estimator) and not base.is_regressor(estimator):
            raise InputError(f"expected a classifier or a regressor, got a {name}.")
        if base.is_classifier(estimator) and not hasattr(estimator, "predict_proba"):
            raise InputError(
                f"expected a classifier with predict_proba, which the loss needs, got a {name} "
                "with these settings; wrap it in CalibratedClassifierCV."
            )
        object.__setattr__(self, "estimator", estimator)

    def train(self, dataset: Dataset, rng: np.random.Generator) -> Any:
        if dataset.labels is None:
            raise InputError("scikit-learn needs labels, but this population has none.")
        model = _loaded().clone(self.estimator)
        _set_streams(model, rng)
        return model.fit(_rows(dataset.features), dataset.labels)

    def loss(self, model: Any, point: Point) -> float:
        row = _rows(np.asarray(point.features)[None])
        if not _loaded().is_classifier(model):
            return float((float(model.predict(row)[0]) - float(point.label)) ** 2)
        probabilities = np.asarray(model.predict_proba(row)[0], dtype=np.float64)
        label = np.asarray(model.classes_ == point.label)
        probability = float(probabilities[label].sum())
        if probability <= 0.5:
            return -math.log(max(probability, SMALLEST_PROBABILITY))
        # Summing the other probabilities is more accurate than 1 minus this one.
        return -math.log1p(-float(probabilities[~label].sum()))

    @property
    def no_parameters(self) -> str:
        """Why the models have no parameters to perturb; empty if they do."""
        kind = type(self.estimator)
        theirs = kind.__module__.startswith("sklearn.")
        linear = any(parent.__module__.startswith(_LINEAR) for parent in kind.__mro__)
        return _no_coefficients(kind) if theirs and not linear else ""

    def parameters(self, model: Any) -> Array:
        """Coefficients, followed by intercepts if they were fitted."""
        return np.concatenate([part.ravel() for part in _parts(model).values()])

    def with_parameters(self, model: Any, parameters: Array) -> Any:
        changed = copy.deepcopy(model)
        parts = _parts(model)
        ends = np.cumsum([part.size for part in parts.values()])
        pieces = np.split(np.array(parameters), ends[:-1])
        for (name, part), piece in zip(parts.items(), pieces, strict=True):
            # An intercept may be a scalar.
            setattr(changed, name, piece.astype(part.dtype).reshape(part.shape)[()])
        return changed


#: Module prefix of the base classes of scikit-learn's linear models.
_LINEAR = "sklearn.linear_model"


def _parts(model: Any) -> dict[str, Array]:
    names = ("coef_", "intercept_") if getattr(model, "fit_intercept", True) else ("coef_",)
    if not all(hasattr(model, name) for name in names):
        raise InputError(_no_coefficients(type(model)))
    return {name: np.asarray(getattr(model, name)) for name in names}


def _no_coefficients(kind: type) -> str:
    return (
        "expected a linear model, whose parameters are coef_ and intercept_, "
        f"got a {kind.__name__}."
    )


def _set_streams(estimator: Any, rng: np.random.Generator | None) -> None:
    """Set every ``random_state``, in the order of names: to a seed, or to None without a stream."""

    def seed() -> int | None:
        return None if rng is None else int(rng.integers(_SEEDS))

    parameters = estimator.get_params(deep=True)
    for name in sorted(parameters):
        value = parameters[name]
        if name.rpartition("__")[2] == "random_state":
            estimator.set_params(**{name: seed()})
        elif "random_state" in getattr(value, "__dict__", {}) and not hasattr(value, "get_params"):
            value.random_state = seed()  # a splitter, such as KFold


def _rows(features: Array) -> Array:
    return np.asarray(features).reshape(len(features), -1)


def _loaded() -> Any:
    return _extras.load("sklearn.base", "ScikitLearn needs scikit-learn", "sklearn")
