"""Which distance finds the records that leak: as a table, and on request as JSON.

    python benchmarks/outlier_ranking.py --json benchmarks/outlier_ranking.json

Networks are trained on random digits and asked about all of them.  How much a record leaks is how well
its loss tells models that were trained on it from the others: the area under the ROC curve.  Rankings by
distance see no model; each is judged by the leak of the records it puts first.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

import epsilometer as em
from benchmark_report import Report, Row
from epsilometer._arrays import FloatArray
from epsilometer.measurement.challenges import outlier_scores
from epsilometer.training.network import network

DATASET, FIRST = 300, (10, 20, 50)


def leaks(population: em.Population, models: int) -> FloatArray:
    """The area under the ROC curve of every record's loss."""
    algorithm = network(hidden=64, epochs=100, batch_size=20, learning_rate=0.05)
    every = population.take(np.arange(len(population)))
    loss = np.empty((models, len(population)))
    member = np.zeros(loss.shape, dtype=bool)
    for number in range(models):
        rng = np.random.default_rng([5, number])
        records = rng.choice(len(population), DATASET, replace=False)
        member[number, records] = True
        loss[number] = algorithm.losses(algorithm.train(population.take(records), rng), every)
    inside = member.sum(axis=0)
    ranks = np.where(member, rankdata(-loss, axis=0), 0.0).sum(axis=0)
    area = (ranks - inside * (inside + 1) / 2) / (inside * (models - inside))
    return np.asarray(area)


def nearest(rows: FloatArray, allowed: FloatArray, neighbours: int = 10) -> FloatArray:
    """Mean distance to the nearest of those that are allowed."""
    squares = np.sum(rows**2, axis=1)
    distance = np.sqrt(np.maximum(squares[:, None] + squares - 2 * rows @ rows.T, 0))
    np.fill_diagonal(distance, np.inf)
    found = np.sort(np.where(allowed, distance, np.inf), axis=1)[:, :neighbours]
    return np.asarray(found.mean(axis=1))


def rankings(population: em.Population) -> dict[str, FloatArray]:
    """Scores by which records can be ranked."""
    assert population.labels is not None
    rows = population.features
    width, spread = np.ptp(rows, axis=0), rows.std(axis=0)
    ranged = rows / np.where(width > 0, width, 1)
    standard = rows / np.where(spread > 0, spread, 1)
    same = population.labels[:, None] == population.labels
    return {
        "to all, standardised": nearest(standard, np.ones_like(same)),
        "to all": nearest(ranged, np.ones_like(same)),
        "to its label": nearest(ranged, same),
        "a / b": nearest(ranged, same) / nearest(ranged, ~same),
        "a^2 / b, standardised": nearest(standard, same) ** 2 / nearest(standard, ~same),
        "a^2 / b (Outliers)": outlier_scores(population, neighbours=10),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Which distance finds the records that leak.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the table here")
    parser.add_argument("--models", type=int, default=1500, help="networks to train")
    arguments = parser.parse_args()
    report = Report()
    population = em.datasets.load_population("digits")
    area = leaks(population, arguments.models)
    best = {"all records": np.zeros(len(area)), "the most leaking": area}
    rows: list[Row] = []
    for name, scores in {**best, **rankings(population)}.items():
        order = np.argsort(-scores, kind="stable")
        row: Row = {"ranked by distance": name}
        for first in FIRST:
            chosen = order if name == "all records" else order[:first]
            row[f"first {first}"] = float(area[chosen].mean())
        rows.append(row)
    report.table("ranking", "Mean area under the ROC curve of the first records", rows)
    report.finish(arguments.json, models=arguments.models, dataset_size=DATASET)


if __name__ == "__main__":
    main()
