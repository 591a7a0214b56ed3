"""The built-in network on digits shifted by a pixel, with the same shifts as queries for LiRA."""

import numpy as np

import epsilometer as em
from epsilometer.training.network import Network

SHIFTS = ((1, 0), (-1, 0), (0, 1), (0, -1))


def shifted(features):
    """Images of 8 x 8 pixels, moved in each direction: (shifts, ..., 64)."""
    images = features.reshape(*features.shape[:-1], 8, 8)
    moved = [np.roll(images, shift, axis=(-2, -1)) for shift in SHIFTS]
    return np.stack(moved).reshape(len(SHIFTS), *features.shape)


class ShiftedDigits:
    """Trains on every record and its four shifts; attacks can use all five."""

    def __init__(self, **options):
        self.network = Network(**options)

    def train(self, dataset, rng):
        features = np.concatenate([dataset.features, *shifted(dataset.features)])
        labels = np.tile(dataset.labels, 1 + len(SHIFTS))
        return self.network.train(em.rows.Dataset(features=features, labels=labels), rng)

    def loss(self, model, point):
        return self.network.loss(model, point)

    def losses(self, model, points):
        """Losses of many records at once: faster, and optional."""
        return self.network.losses(model, points)

    def queries(self, point):
        """Additional queries for a point; must be deterministic."""
        return shifted(point.features)
