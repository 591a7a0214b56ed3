"""The network: training and loss compared with slow implementations, PyTorch and mpmath."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import log_softmax

from epsilometer.errors import InputError
from epsilometer.measurement.population import Dataset, Point
from epsilometer.training import network_kernels
from epsilometer.training.network import (
    FixedInitialisation,
    Network,
    NetworkModel,
    RandomInitialisation,
    network,
)

Doubles = NDArray[np.float64]

INPUTS, CLASSES = 21, 3
#: A feature that is 0 in all records.
NEVER = 4


def made_up(records: int, *, density: float = 0.4, largest: float = 1.0) -> Dataset:
    """Numbers from 0 to a maximum, of which about this share is non-zero."""
    rng = np.random.default_rng(7)
    features = largest * rng.random((records, INPUTS))
    features *= rng.random((records, INPUTS)) < density
    features[:, NEVER] = 0.0
    return Dataset(
        features=features.astype(np.float32), labels=rng.integers(0, CLASSES, size=records)
    )


def small(**settings: Any) -> Network:
    """Ten epochs with steps large enough to move away from the initial weights."""
    usual = {"hidden": 11, "classes": CLASSES, "epochs": 10, "batch_size": 5, "learning_rate": 0.05}
    return Network(**(usual | settings))


def stream(number: int = 0) -> np.random.Generator:
    return np.random.default_rng([3, number])


def distance(one: Any, other: Any) -> float:
    """The largest difference between corresponding weights; NaN if any is NaN."""
    return float(max(np.abs(a - b).max() for a, b in zip(one, other, strict=True)))


# --- slow twins -----------------------------------------------------------------------------------


def start(settings: Network, inputs: int, rng: np.random.Generator) -> list[Doubles]:
    """The weights before training, single-precision values in double precision."""
    hidden, classes = settings.hidden, settings.classes
    if isinstance(settings.initialisation, FixedInitialisation):
        rng = np.random.default_rng(settings.initialisation.seed)
    below = rng.uniform(-1, 1, (inputs, hidden)) * math.sqrt(6 / (inputs + hidden))
    above = rng.uniform(-1, 1, (classes, hidden)) * math.sqrt(6 / (classes + hidden))
    return [
        below.astype(np.float32).astype(np.float64),
        np.zeros(hidden),
        above.astype(np.float32).astype(np.float64),
        np.zeros(classes),
    ]


def twin(
    settings: Network, dataset: Dataset, rng: np.random.Generator, *, wrong: str = ""
) -> list[Doubles]:
    """Train record by record in double precision; ``wrong`` omits one thing."""
    assert dataset.labels is not None
    rows = dataset.features.astype(np.float64)
    weights = start(settings, rows.shape[1], rng)
    speeds = [np.zeros_like(part) for part in weights]
    momentum = 0.0 if wrong == "no momentum" else settings.momentum
    order = np.arange(len(rows))
    for _ in range(settings.epochs):
        shuffled = rng.permutation(len(rows))
        if wrong != "no shuffling":
            order = shuffled
        for first in range(0, len(rows), settings.batch_size):
            batch = order[first : first + settings.batch_size]
            slopes = [np.zeros_like(part) for part in weights]
            for record in batch:
                into = rows[record] @ weights[0] + weights[1]
                units = np.where(into > 0, into, 0)
                error = np.exp(log_softmax(weights[2] @ units + weights[3]))
                error[dataset.labels[record]] -= 1
                back = weights[2].T @ error
                if wrong != "no mask":
                    back[into <= 0] = 0
                slopes[0] += np.outer(rows[record], back)
                slopes[1] += back
                slopes[2] += np.outer(error, units)
                slopes[3] += error
            for part, speed, slope in zip(weights, speeds, slopes, strict=True):
                mean = slope if wrong == "summed" else slope / len(batch)
                speed[...] = momentum * speed - settings.learning_rate * mean
                part[...] += speed
    return weights


def by_torch(settings: Network, dataset: Dataset, rng: np.random.Generator) -> list[Doubles]:
    """The same initial weights and batches, trained by PyTorch in double precision."""
    import torch

    assert dataset.labels is not None
    below, _, above, _ = start(settings, dataset.features.shape[1], rng)
    layers: Any = torch.nn.Sequential(
        torch.nn.Linear(*below.shape), torch.nn.ReLU(), torch.nn.Linear(*above.shape[::-1])
    ).double()
    with torch.no_grad():
        layers[0].weight.copy_(torch.from_numpy(below.T))
        layers[2].weight.copy_(torch.from_numpy(above))
        layers[0].bias.zero_()
        layers[2].bias.zero_()
    descent: Any = torch.optim.SGD(
        layers.parameters(), lr=settings.learning_rate, momentum=settings.momentum
    )
    rows = torch.from_numpy(dataset.features.astype(np.float64))
    labels = torch.from_numpy(dataset.labels)
    for _ in range(settings.epochs):
        for batch in torch.split(torch.from_numpy(rng.permutation(len(rows))), settings.batch_size):
            descent.zero_grad()
            torch.nn.functional.cross_entropy(layers(rows[batch]), labels[batch]).backward()
            descent.step()
    below, hidden_biases, above, output_biases = (
        part.detach().numpy() for part in layers.parameters()
    )
    return [below.T, hidden_biases, above, output_biases]


def test_a_unit_at_0_has_no_gradient() -> None:
    # A record of zeros: every unit is exactly at its kink.
    data = Dataset(features=np.zeros((1, INPUTS)), labels=np.array([1]))
    trained = small().train(data, stream())
    assert not trained.hidden_biases.any()
    assert trained.output_biases.all()


# --- training -------------------------------------------------------------------------------------

#: Single-precision numbers near 1 are accurate to 6e-8.  The cases take up to 230 steps; a step
#: rounds weights and velocities once each, in either direction, and later steps amplify this
#: slightly: 230 times 6e-8 would be 1.4e-5 if all errors had one sign.  The largest observed
#: distance is 2e-6: no unit switched.
ROUNDING = 1e-5

CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "batches divide": ({"records": 20}, {}),
    "a smaller batch at the end": ({"records": 23}, {}),
    "one record at the end": ({"records": 21}, {}),
    "batches of one": ({"records": 23}, {"batch_size": 1}),
    "all at once": ({"records": 23}, {"batch_size": 23}),
    "batch larger than the data": ({"records": 7}, {"batch_size": 100}),
    "batch larger than any memory": ({"records": 7}, {"batch_size": 10**15}),
    "one record": ({"records": 1}, {}),
    "no momentum": ({"records": 23}, {"momentum": 0.0}),
    "few zeros": ({"records": 23, "density": 1.0}, {"batch_size": 20}),
    "nearly all zeros": ({"records": 23, "density": 0.03}, {}),
    "nothing but zeros": ({"records": 23, "density": 0.0}, {}),
    "scores whose exp has no number": (
        {"records": 23, "largest": 400.0},
        {"learning_rate": 1e-6, "epochs": 40},
    ),
    "one unit": ({"records": 23}, {"hidden": 1}),
    "many units": ({"records": 23}, {"hidden": 67}),
    "classes without records": ({"records": 23}, {"classes": 12}),
    "fixed start": ({"records": 23}, {"initialisation": FixedInitialisation(seed=8)}),
}


@pytest.mark.parametrize("case", CASES)
def test_training_is_that_of_the_twin(case: str) -> None:
    data, settings = made_up(**CASES[case][0]), small(**CASES[case][1])
    model = settings.train(data, stream())
    assert all(part.dtype == np.float32 for part in model)
    assert distance(model, twin(settings, data, stream())) < ROUNDING
    # Training had an effect far larger than the check allows.
    before = start(settings, INPUTS, stream())
    assert distance(model, before) > 1000 * ROUNDING
    np.testing.assert_array_equal(model.hidden_weights[NEVER], before[0][NEVER])


@pytest.mark.parametrize("wrong", ["no momentum", "summed", "no mask", "no shuffling"])
def test_a_sabotaged_twin_is_found_out(wrong: str) -> None:
    settings, data = small(), made_up(23)
    sabotaged = twin(settings, data, stream(), wrong=wrong)
    assert distance(settings.train(data, stream()), sabotaged) > 100 * ROUNDING


@pytest.mark.parametrize("case", ["a smaller batch at the end", "no momentum", "few zeros"])
def test_training_is_that_of_pytorch(case: str) -> None:
    data, settings = made_up(**CASES[case][0]), small(**CASES[case][1], epochs=4)
    reference = by_torch(settings, data, stream())
    assert distance(settings.train(data, stream()), reference) < ROUNDING
    assert distance(settings.train(data, stream(1)), reference) > 100 * ROUNDING


def bits(model: NetworkModel) -> list[bytes]:
    return [part.tobytes() for part in model]


def test_how_numbers_are_stored_does_not_matter() -> None:
    settings, data = small(), made_up(23)
    assert data.labels is not None
    model = settings.train(data, stream())
    features, labels = data.features, data.labels
    frozen = features.copy()
    frozen.flags.writeable = False
    for other in (
        Dataset(features=features.astype(np.float64), labels=labels.astype(np.uint8)),
        Dataset(features=np.asfortranarray(features), labels=labels[::-1].copy()[::-1]),
        Dataset(features=features.reshape(23, 7, 3), labels=labels.astype(">i4")),
        Dataset(features=frozen, labels=labels),
    ):
        assert bits(settings.train(other, stream())) == bits(model)


def test_threads_train_the_models_that_one_would() -> None:
    settings, data = small(epochs=100, hidden=64), made_up(23)

    def train(number: int) -> list[bytes]:
        return bits(settings.train(data, stream(number)))

    one_by_one = [train(number) for number in range(8)]
    with ThreadPoolExecutor(max_workers=2) as pool:
        assert list(pool.map(train, range(8))) == one_by_one
    assert len({model[0] for model in one_by_one}) == 8


def test_the_kernel_lets_other_threads_run() -> None:
    kernel: Any = network_kernels.train_sparse
    assert kernel.targetoptions["nogil"] is True


@pytest.mark.parametrize("learning_rate", [1e20, 1e37, 1e39])
def test_a_training_that_diverges_is_seen_to(learning_rate: float) -> None:
    data = made_up(23)
    assert data.labels is not None
    settings = small(learning_rate=learning_rate)
    model = settings.train(data, stream())
    for row, label in zip(data.features, data.labels, strict=True):
        assert not math.isfinite(settings.loss(model, Point(features=row, label=label)))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_one_number_that_is_none_spoils_the_model(value: float) -> None:
    data, settings = made_up(23), small()
    data.features[2, 3] = value
    model = settings.train(data, stream())
    assert math.isnan(settings.loss(model, Point(features=made_up(23).features[0], label=0)))


# --- where it starts ------------------------------------------------------------------------------


def starts(initialisation: Any) -> list[NetworkModel]:
    """Two models that keep their initial weights: steps of 1e-30 are lost in rounding."""
    settings = small(initialisation=initialisation, learning_rate=1e-30)
    return [settings.train(made_up(23), stream(number)) for number in (0, 1)]


def test_fixed_models_start_alike_and_random_ones_do_not() -> None:
    one, other = starts(FixedInitialisation(seed=5))
    another, _ = starts(FixedInitialisation(seed=6))
    mine, yours = starts(RandomInitialisation())
    for part in ("hidden_weights", "output_weights"):
        assert getattr(one, part).tolist() == getattr(other, part).tolist()
        for a, b in ((one, another), (mine, yours), (one, mine)):
            # Both are initialised within the same bounds, so a few weights may be close.
            assert (getattr(a, part) != getattr(b, part)).all()
    # Fixed initial weights do not fix the order of records.
    settings = small(initialisation=FixedInitialisation())
    first, second = (settings.train(made_up(23), stream(number)) for number in (0, 1))
    assert bits(first) != bits(second)


def misfit(values: NDArray[Any], bound: float) -> float:
    """How far numbers are from uniform within a bound: the largest of three measures.

    Mean and mean square in standard errors divided by 5, and the maximum in units of the bound.
    """
    share = values.astype(np.float64) / bound
    # A uniform number in [-1, 1] has variance 1/3; its square 4/45.
    mean = abs(share.mean()) / math.sqrt(1 / 3 / share.size) / 5
    square = abs((share**2).mean() - 1 / 3) / math.sqrt(4 / 45 / share.size) / 5
    # Rounding to single precision may exceed the bound by 6e-8 of it.
    return float(max(mean, square, np.abs(share).max() / (1 + 6e-8)))


def test_weights_start_within_the_bounds_of_glorot() -> None:
    model = Network(hidden=50, classes=900).initial(700, stream())
    assert model.hidden_weights.shape == (700, 50)
    assert model.output_weights.shape == (900, 50)
    for weights, before, after in ((model[0], 700, 50), (model[2], 50, 900)):
        assert misfit(weights, math.sqrt(6 / (before + after))) <= 1
        for wrong in (6 / before, 3 / (before + after), 6.3 / (before + after)):
            assert misfit(weights, math.sqrt(wrong)) > 1
    assert not model.hidden_biases.any()
    assert not model.output_biases.any()


# --- loss -----------------------------------------------------------------------------------------


def exact_loss(model: NetworkModel, features: NDArray[Any], label: int) -> Any:
    """Cross-entropy with 60 digits from the exact stored numbers."""
    with mpmath.workdps(60):
        below, biases, above, last = (part.astype(np.float64).tolist() for part in model)
        units = [
            max(mpmath.mpf(0), mpmath.fsum([b, *(mpmath.mpf(x) * row[j] for x, row in pairs)]))
            for pairs in [list(zip(features.astype(np.float64).tolist(), below, strict=True))]
            for j, b in enumerate(biases)
        ]
        scores = [
            mpmath.fsum([b, *(mpmath.mpf(w) * u for w, u in zip(row, units, strict=True))])
            for row, b in zip(above, last, strict=True)
        ]
        others = [mpmath.exp(s - scores[label]) for c, s in enumerate(scores) if c != label]
        return mpmath.log1p(mpmath.fsum(others))


def test_losses_of_trained_models() -> None:
    data, settings = made_up(23), small()
    model = settings.train(data, stream())
    for row in data.features[:4]:
        for label in range(CLASSES):
            found = settings.loss(model, Point(features=row, label=label))
            assert type(found) is float
            # Scores near 1 are accurate to some 1e-16, and so is the loss.
            assert found == pytest.approx(float(exact_loss(model, row, label)), rel=1e-13)


def with_scores(scores: list[float]) -> tuple[Network, NetworkModel]:
    """A network with these scores for any record: everything comes from the last biases."""
    settings = Network(hidden=2, classes=len(scores))
    model = settings.initial(3, stream())
    model.hidden_biases[:] = -100.0  # all units are inactive
    model.output_biases[:] = scores
    return settings, model


@pytest.mark.parametrize(
    "scores",
    [
        [0.0, 0.0, 0.0],
        [30.0, 0.0, -2.0],
        [40.0, 0.0, 1.0],
        [0.0, 700.0, 1.0],
        [-350.0, 350.0, 350.0],
        [1e4, -1e4, 0.0],
        [3e38, -3e38, 1.0],
        [1e-30, 0.0, 0.0],
    ],
    ids=str,
)
def test_losses_have_neither_floor_nor_ceiling(scores: list[float]) -> None:
    settings, model = with_scores(scores)
    features = np.array([0.5, 0.0, 1.0])
    for label in range(3):
        found = settings.loss(model, Point(features=features, label=label))
        exact = exact_loss(model, features, label)
        assert math.isfinite(found)
        # exp of a number of up to 745 that is accurate to 1e-16 of it, and the smallest number.
        assert found == pytest.approx(float(exact), rel=2e-13, abs=5e-324)
        assert (found > 0) == (exact > 5e-324)


def test_scores_beyond_every_bound() -> None:
    settings, model = with_scores([math.inf, 0.0])
    point = Point(features=np.zeros(3), label=1)
    assert settings.loss(model, point) == math.inf
    model.output_biases[0] = math.nan
    assert math.isnan(settings.loss(model, point))


# --- parameters -----------------------------------------------------------------------------------


def test_parameters_there_and_back() -> None:
    settings, data = small(), made_up(23)
    model = settings.train(data, stream())
    kept = bits(model)
    vector = settings.parameters(model)
    assert vector.dtype == np.float32
    assert vector.shape == (INPUTS * 11 + 11 + CLASSES * 11 + CLASSES,)
    assert bits(settings.with_parameters(model, vector)) == kept
    assert bits(settings.with_parameters(model, vector.astype(np.float64))) == kept
    # Weights in the order of a model's fields.
    counted = settings.with_parameters(model, np.arange(vector.size))
    assert [part.ravel()[0] for part in counted] == [0, INPUTS * 11, INPUTS * 11 + 11, 275]
    assert [part.shape for part in counted] == [part.shape for part in model]
    assert bits(model) == kept


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (None, "needs integer labels"),
        (["a", "b", "c"], "needs integer labels"),
        ([0.0, 1.0, 2.0], "needs integer labels"),
        ([True, False, True], "needs integer labels"),
        ([0, 1, 3], r"from 0 to 2 as labels \(classes=3\), got 3"),
        ([0, -1, 2], r"from 0 to 2 as labels \(classes=3\), got -1"),
        ([0, 1], r"got shape \(2,\)"),
        ([0, 1, 2, 0], r"got shape \(4,\)"),
        ([[0], [1], [2]], r"got shape \(3, 1\)"),
    ],
    ids=str,
)
def test_labels_that_cannot_be_learnt(labels: Any, words: str) -> None:
    given = None if labels is None else np.array(labels)
    with pytest.raises(InputError, match=words):
        small().train(Dataset(features=np.eye(3), labels=given), stream())


def test_no_records() -> None:
    data = Dataset(features=np.zeros((0, 4)), labels=np.zeros(0, dtype=np.int64))
    with pytest.raises(InputError, match="number of records"):
        small().train(data, stream())


@pytest.mark.parametrize("label", [None, "1", 1.5, -1, 3])
def test_points_of_no_class(label: Any) -> None:
    settings = small()
    model = settings.initial(4, stream())
    with pytest.raises(InputError, match=r"needs integer labels|from 0 to 2 as labels"):
        settings.loss(model, Point(features=np.zeros(4), label=label))
    for fine in (0, np.int64(1), np.uint8(2)):
        assert math.isfinite(settings.loss(model, Point(features=np.zeros(4), label=fine)))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"hidden": 0}, "hidden >= 1"),
        ({"classes": 2.5}, "classes to be a whole number"),
        ({"epochs": -3}, "epochs >= 1"),
        ({"batch_size": 0}, "batch_size >= 1"),
        ({"learning_rate": 0.0}, "learning_rate > 0"),
        ({"momentum": 1.0}, "0 <= momentum < 1"),
        ({"initialisation": "fixed"}, r"RandomInitialisation\(\) or FixedInitialisation"),
        ({"initialisation": FixedInitialisation}, r"RandomInitialisation\(\) or Fixed"),
    ],
    ids=str,
)
def test_settings_out_of_range(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Network(**settings)
    with pytest.raises(InputError, match="seed"):
        FixedInitialisation(seed=-1)


# --- from plain values ----------------------------------------------------------------------------


def test_a_network_from_plain_values() -> None:
    paper = {"hidden": 128, "classes": 10, "epochs": 200, "batch_size": 100, "momentum": 0.9}
    assert network() == Network() == Network(**paper, learning_rate=0.01)  # type: ignore[arg-type]
    fixed = Network(initialisation=FixedInitialisation(seed=0), hidden=3)
    assert network(initialisation="fixed", hidden=3) == fixed != network(hidden=3)
    with pytest.raises(InputError, match="initialisation to be one of random, fixed"):
        network(initialisation="zeros")
