"""scikit-learn estimators: every random_state from the stream, losses by hand, identities."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest
import sklearn.base
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    RANSACRegressor,
    Ridge,
    SGDClassifier,
)
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import epsilometer as em
from epsilometer.errors import InputError
from epsilometer.measurement import algorithm as protocols
from epsilometer.training.scikit_learn import SMALLEST_PROBABILITY
from tests.training.samples import POPULATION, data, losses, stream

# --- every random_state ---------------------------------------------------------------------------

SPLIT = KFold(3, shuffle=True)


def trees(**settings: Any) -> RandomForestClassifier:
    return RandomForestClassifier(**({"n_estimators": 3, "max_depth": 2} | settings))


RANDOM: dict[str, Any] = {
    "forest": trees(),
    "its own stream": trees(random_state=np.random.RandomState(3)),
    "pipeline": make_pipeline(StandardScaler(), trees()),
    "estimator inside": BaggingClassifier(DecisionTreeClassifier(max_features=1), 3),
    "splitter inside a pipeline": make_pipeline(
        StandardScaler(), GridSearchCV(DecisionTreeClassifier(), {"max_depth": [1, 2, 3]}, cv=SPLIT)
    ),
}


@pytest.mark.parametrize("kind", RANDOM)
def test_the_stream_decides(kind: str) -> None:
    algorithm = em.ScikitLearn(estimator=RANDOM[kind])
    found = [losses(algorithm, algorithm.train(data(), stream(n % 5))) for n in range(6)]
    assert found[0] == found[5]
    assert len({tuple(row) for row in found}) > 1


def test_left_to_itself_an_estimator_does_not_repeat() -> None:
    # The control of the test above: copies without seeds differ.
    algorithm = em.ScikitLearn(estimator=trees(n_estimators=20))
    given = data()
    one, other = (
        sklearn.base.clone(algorithm.estimator).fit(given.features, given.labels) for _ in range(2)
    )
    assert losses(algorithm, one) != losses(algorithm, other)


def test_the_given_estimator_is_not_fitted_or_needed() -> None:
    given = make_pipeline(StandardScaler(), LogisticRegression(C=2.0))
    algorithm = em.ScikitLearn(estimator=given)
    found = losses(algorithm, algorithm.train(data(), stream()))
    assert not hasattr(given[-1], "coef_")
    given.set_params(logisticregression__C=0.001)
    assert losses(algorithm, algorithm.train(data(), stream())) == found


# --- losses ---------------------------------------------------------------------------------------


class Oracle(sklearn.base.ClassifierMixin, sklearn.base.BaseEstimator):  # type: ignore[misc]
    """Returns the given probabilities."""

    def __init__(self, probabilities: Any = (1.0, 0.0)) -> None:
        self.probabilities = probabilities

    def fit(self, features: Any, labels: Any) -> Oracle:
        del features
        self.classes_ = np.unique(labels)
        return self

    def predict_proba(self, features: Any) -> Any:
        return np.tile(self.probabilities, (len(features), 1))


def oracle_loss(probabilities: Any, label: Any, labels: Any = ("a", "b", "c")) -> float:
    algorithm = em.ScikitLearn(estimator=Oracle(probabilities))
    dataset = em.rows.Dataset(features=np.zeros((3, 2)), labels=np.array(labels))
    model = algorithm.train(dataset, stream())
    return algorithm.loss(model, em.rows.Point(features=np.zeros(2), label=np.array(label)[()]))


FLOOR = -math.log(SMALLEST_PROBABILITY)


@pytest.mark.parametrize(
    ("probabilities", "label", "expected"),
    [
        ((0.2, 0.3, 0.5), "b", -math.log(0.3)),
        ((0.2, 0.3, 0.5), "c", -math.log(0.5)),
        ((0.0, 0.3, 0.7), "a", FLOOR),
        ((1e-300, 0.3, 0.7), "a", FLOOR),
        ((0.2, 0.3, 0.5), "d", FLOOR),  # no record had this label
        ((1.0, 0.0, 0.0), "a", 0.0),
        ((1.0, 1e-20, 2e-20), "a", 3e-20),  # 1 is a rounding of 1 - 3e-20
    ],
)
def test_losses_of_classifiers(probabilities: Any, label: str, expected: float) -> None:
    assert oracle_loss(probabilities, label) == pytest.approx(expected, rel=1e-14, abs=0)


def test_losses_are_those_of_scikit_learn() -> None:
    algorithm = em.ScikitLearn(estimator=LogisticRegression())
    model = algorithm.train(data(), stream())
    assert log_loss([0], [[0.0, 1.0]], labels=[0, 1]) == pytest.approx(FLOOR, rel=1e-12)
    every = POPULATION.take(np.arange(40))
    expected = log_loss(every.labels, model.predict_proba(every.features))
    assert np.mean(losses(algorithm, model)) == pytest.approx(expected, rel=1e-12)


def test_losses_of_regressors() -> None:
    algorithm = em.ScikitLearn(estimator=LinearRegression())
    dataset = em.rows.Dataset(features=np.array([[0.0], [1.0]]), labels=np.array([1.0, 3.0]))
    model = algorithm.train(dataset, stream())
    # The line is 1 + 2 x.
    found = algorithm.loss(model, em.rows.Point(features=np.array([2.0]), label=np.float64(7.0)))
    assert found == pytest.approx(4.0, rel=1e-12)


def test_images_are_vectors() -> None:
    algorithm = em.ScikitLearn(estimator=LogisticRegression())
    flat = data()
    images = em.rows.Dataset(features=flat.features.reshape(-1, 2, 2), labels=flat.labels)
    model = algorithm.train(images, stream())
    image = em.rows.Point(features=flat.features[0].reshape(2, 2), label=flat.labels[0])  # type: ignore[index]
    vector = em.rows.Point(features=flat.features[0], label=image.label)
    expected = algorithm.loss(algorithm.train(flat, stream()), vector)
    assert algorithm.loss(model, image) == expected


# --- parameters -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "size"),
    [
        (LogisticRegression(), 3 * 4 + 3),
        (LogisticRegression(fit_intercept=False), 3 * 4),
        (Ridge(), 4 + 1),
        (LinearRegression(fit_intercept=False), 4),
    ],
    ids=["classes", "no intercepts", "one intercept", "none"],
)
def test_parameters_are_coefficients_and_intercepts(estimator: Any, size: int) -> None:
    algorithm = em.ScikitLearn(estimator=estimator)
    model = algorithm.train(data(), stream())
    parameters = algorithm.parameters(model)
    assert parameters.size == size
    np.testing.assert_array_equal(parameters[: model.coef_.size], model.coef_.ravel())
    zero = algorithm.with_parameters(model, np.zeros(size))
    assert type(zero.intercept_) is type(model.intercept_)
    assert np.shape(zero.coef_) == np.shape(model.coef_)
    expected = math.log(3) if sklearn.base.is_classifier(model) else 4.0
    loss = algorithm.loss(zero, em.rows.Point(features=np.ones(4), label=2))
    assert loss == pytest.approx(expected)


@pytest.mark.parametrize(
    "estimator",
    [trees(), RandomForestRegressor(), make_pipeline(StandardScaler(), LogisticRegression())],
    ids=lambda estimator: type(estimator).__name__,
)
def test_estimators_without_parameters_are_refused_before_training(estimator: Any) -> None:
    algorithm = em.ScikitLearn(estimator=estimator)
    words = f"expected a linear model, .* got a {type(estimator).__name__}"
    with pytest.raises(InputError, match=words):
        em.training.NoiseLevels(algorithm=algorithm, scales=(1.0,))


@pytest.mark.parametrize("estimator", [RANSACRegressor(), Oracle()], ids=["RANSAC", "own"])
def test_models_that_turn_out_to_have_no_parameters(estimator: Any) -> None:
    # This is known only after fitting.
    algorithm = em.ScikitLearn(estimator=estimator)
    assert algorithm.no_parameters == ""
    with pytest.raises(InputError, match="expected a linear model"):
        algorithm.parameters(algorithm.train(data(), stream()))


# --- identity -------------------------------------------------------------------------------------


def pipeline(columns: Any = slice(0, 2), scale: bool = True, **settings: Any) -> Pipeline:
    chosen = ColumnTransformer([("scaled", StandardScaler(with_mean=scale), columns)])
    return Pipeline([("columns", chosen), ("forest", trees(**settings))])


def halved(features: Any) -> Any:
    return features / 2


CHANGES: dict[str, tuple[Any, Any]] = {
    "parameter": (LogisticRegression(C=1.0), LogisticRegression(C=2.0)),
    "class": (LogisticRegression(), SGDClassifier(loss="log_loss")),
    "last step": (pipeline(), pipeline(max_depth=3)),
    "step inside a step": (pipeline(), pipeline(scale=False)),
    "columns": (pipeline(), pipeline(columns=slice(0, 3))),
    "estimator inside": (BaggingClassifier(trees()), BaggingClassifier(trees(max_depth=3))),
    "splitter": (
        GridSearchCV(trees(), {}, cv=KFold(3, shuffle=True)),
        GridSearchCV(trees(), {}, cv=KFold(4, shuffle=True)),
    ),
    "functions": (
        make_pipeline(FunctionTransformer(np.abs), LogisticRegression()),
        make_pipeline(FunctionTransformer(halved), LogisticRegression()),
    ),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_is_seen(kind: str) -> None:
    one, other = CHANGES[kind]
    described = protocols.identity(em.ScikitLearn(estimator=one))
    assert described == protocols.identity(em.ScikitLearn(estimator=sklearn.base.clone(one)))
    assert described != protocols.identity(em.ScikitLearn(estimator=other))


def test_settings_without_effect_are_not_in_the_identity() -> None:
    given = data()
    fitted = pipeline(random_state=4).fit(given.features, given.labels)
    described = protocols.identity(em.ScikitLearn(estimator=pipeline()))
    assert protocols.identity(em.ScikitLearn(estimator=fitted)) == described


def test_the_source_of_a_custom_estimator_is_in_the_identity() -> None:
    described = protocols.identity(em.ScikitLearn(estimator=make_pipeline(Oracle())))
    own = described["settings"]["estimator"]["settings"]["steps"][0][1]
    assert "tests/training/test_scikit_learn.py" in own[protocols.SOURCE]


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (3, "expected a scikit-learn estimator, got 3"),
        (LogisticRegression, "expected a scikit-learn estimator, got <class"),
        (StandardScaler(), "expected a classifier or a regressor, got a StandardScaler"),
        (LinearSVC(), "predict_proba, .* wrap it in Calibrated"),
        (make_pipeline(SGDClassifier()), "predict_proba, .* got a Pipeline"),
    ],
)
def test_unsupported_estimators(estimator: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        em.ScikitLearn(estimator=estimator)


def test_without_labels() -> None:
    algorithm = em.ScikitLearn(estimator=LogisticRegression())
    with pytest.raises(InputError, match="needs labels, but this population has none"):
        algorithm.train(em.rows.Dataset(features=np.zeros((3, 2))), stream())


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(InputError, match="needs scikit-learn: pip install 'scikit-learn"):
        em.ScikitLearn(estimator=LogisticRegression())
