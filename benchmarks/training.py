"""Models a second and core: the compiled network, PyTorch, and matrix products alone.

    python benchmarks/training.py --json training.json

All train the same network (784-128-10, descent with momentum, batches of 100, 200 epochs) on the same
1,000 images of MNIST, from the same first weights through the same batches, each on one thread.  They
take turns in one process, so that whatever else the machine does meets all of them; ratios are medians
of ratios within a turn.  A time is that of one model from its data to its weights, without warm-up,
as the processor counts it for this process: a busy machine slows all ways a little, but not by the time
that it gives to others.

PyTorch trains a model at a time from tensors that are there already, with its own optimiser in the
usual and in the fused form.  The matrix products are the five that a batch needs, forward and
backward, written into arrays that are there already, and nothing else: no training by dense products
in NumPy can take less.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from benchmark_report import Report, Row
from epsilometer.datasets.named import load_population
from epsilometer.measurement.population import Dataset, Point
from epsilometer.training.network import Network, NetworkModel

RECORDS, SEED = 1000, 5
EPOCHS, QUICK_EPOCHS, ROUNDS = 200, 20, 5

SPARSE, TORCH, FUSED, PRODUCTS = (
    "compiled, non-zero pixels",
    "PyTorch",
    "PyTorch, fused steps",
    "matrix products alone",
)

#: Mean losses may differ by this share: rounding grows through thousands of steps, mistakes by
#: more.
SAME = 0.02


def stream() -> np.random.Generator:
    return np.random.default_rng(SEED)


# --- three trainings and a bound -------------------------------------------------------------------


def by_torch(network: Network, dataset: Dataset, *, fused: bool) -> Callable[[], NetworkModel]:
    """Training by PyTorch; what can be made ready for all models is."""
    import torch

    torch.set_num_threads(1)
    assert dataset.labels is not None
    features = torch.from_numpy(dataset.features)
    labels = torch.from_numpy(dataset.labels)

    def train() -> NetworkModel:
        rng = stream()
        start = network.initial(features.shape[1], rng)
        layers: Any = torch.nn.Sequential(
            torch.nn.Linear(features.shape[1], network.hidden),
            torch.nn.ReLU(),
            torch.nn.Linear(network.hidden, network.classes),
        )
        first, last = layers[0], layers[2]
        with torch.no_grad():
            first.weight.copy_(torch.from_numpy(start.hidden_weights.T))
            first.bias.zero_()
            last.weight.copy_(torch.from_numpy(start.output_weights))
            last.bias.zero_()
        descent: Any = torch.optim.SGD(
            layers.parameters(), lr=network.learning_rate, momentum=network.momentum, fused=fused
        )
        entropy: Any = torch.nn.functional.cross_entropy
        for _ in range(network.epochs):
            order: Any = torch.from_numpy(rng.permutation(len(features)))
            for batch in order.split(network.batch_size):
                descent.zero_grad()
                entropy(layers(features[batch]), labels[batch]).backward()
                descent.step()
        weights = [
            part.detach().numpy() for part in (first.weight.T, first.bias, last.weight, last.bias)
        ]
        return NetworkModel(*weights)

    return train


def by_products(network: Network, dataset: Dataset) -> Callable[[], None]:
    """The matrix products of as many batches, whole ones."""
    batch, inputs = network.batch_size, dataset.features.shape[1]
    hidden, classes = network.hidden, network.classes
    rng = stream()

    def numbers(*shape: int) -> Any:
        return rng.standard_normal(shape, dtype=np.float32)

    rows, below, above = numbers(batch, inputs), numbers(inputs, hidden), numbers(classes, hidden)
    units, scores, back = numbers(batch, hidden), numbers(batch, classes), numbers(batch, hidden)
    below_slope, above_slope = numbers(inputs, hidden), numbers(classes, hidden)
    into, out, errors = numbers(batch, hidden), numbers(batch, classes), numbers(batch, hidden)
    steps = network.epochs * (len(dataset) // batch)

    def multiply() -> None:
        for _ in range(steps):
            np.matmul(rows, below, out=into)
            np.matmul(units, above.T, out=out)
            np.matmul(scores, above, out=errors)
            np.matmul(scores.T, units, out=above_slope)
            np.matmul(rows.T, back, out=below_slope)

    return multiply


def mean_loss(network: Network, model: NetworkModel, dataset: Dataset) -> float:
    assert dataset.labels is not None
    return statistics.fmean(
        network.loss(model, Point(features=row, label=label))
        for row, label in zip(dataset.features, dataset.labels, strict=True)
    )


# --- in turn --------------------------------------------------------------------------------------


def ways(epochs: int, dataset: Dataset) -> dict[str, Callable[[], NetworkModel | None]]:
    """Every way to train one model."""
    network = Network(epochs=epochs)
    return {
        SPARSE: lambda: network.train(dataset, stream()),
        TORCH: by_torch(network, dataset, fused=False),
        FUSED: by_torch(network, dataset, fused=True),
        PRODUCTS: by_products(network, dataset),
    }


def side_by_side(dataset: Dataset, epochs: int, rounds: int) -> list[Row]:
    """A row a way; seconds are scaled to all epochs where fewer are timed."""
    for warm_up in ways(1, dataset).values():
        warm_up()
    network, timed = Network(epochs=epochs), ways(epochs, dataset)
    seconds: dict[str, list[float]] = {way: [] for way in timed}
    losses: dict[str, float] = {}
    for _ in range(rounds):
        for way, train in timed.items():
            began = time.process_time()
            model = train()
            seconds[way].append((time.process_time() - began) * EPOCHS / epochs)
            if model is not None and way not in losses:
                losses[way] = mean_loss(network, model, dataset)
    for way, loss in losses.items():
        if abs(loss / losses[TORCH] - 1) > SAME:
            raise SystemExit(f"{way}: mean loss {loss:.4g}, PyTorch has {losses[TORCH]:.4g}")

    def times_as_fast(way: str, other: str) -> float:
        return statistics.median(
            there / here for here, there in zip(seconds[way], seconds[other], strict=True)
        )

    return [
        {
            "way": way,
            "median s": statistics.median(taken),
            "best s": min(taken),
            "models/s/core": 1 / statistics.median(taken),
            "x PyTorch": times_as_fast(way, TORCH),
            "x fused": times_as_fast(way, FUSED),
            "x products": times_as_fast(way, PRODUCTS),
            "mean loss": losses.get(way, ""),
        }
        for way, taken in seconds.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Models a second and core.")
    parser.add_argument(
        "--json", "--output", type=Path, metavar="FILE", help="also write the table here"
    )
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help="how often all take turns (default %(default)s)"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"time {QUICK_EPOCHS} epochs, not {EPOCHS}, and scale",
    )
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error("--rounds must be at least 1")

    report = Report()
    print(f"torch {version('torch')}")
    dataset = load_population("reproduction/experiment/mnist.npz").take(np.arange(RECORDS))
    density = float(np.count_nonzero(dataset.features) / dataset.features.size)
    epochs = QUICK_EPOCHS if arguments.quick else EPOCHS
    with threadpool_limits(limits=1):
        rows = side_by_side(dataset, epochs, arguments.rounds)
    title = (
        f"One model, {EPOCHS} epochs of {RECORDS} records, {density:.1%} of pixels not 0, 1 thread"
    )
    if arguments.quick:
        title += f"; scaled from {QUICK_EPOCHS} epochs"
    report.table("training", title, rows)
    report.finish(
        arguments.json,
        torch=version("torch"),
        density=density,
        epochs_timed=epochs,
        rounds=arguments.rounds,
    )


if __name__ == "__main__":
    main()
