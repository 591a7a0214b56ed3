"""The shipped network on digits that are shifted by a pixel, and the same shifts as queries of LiRA."""

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
    """Trains on every record and its four shifts; an attack may ask about all five."""

    def __init__(self, **options):
        self.network = Network(**options)

    def train(self, dataset, rng):
        features = np.concatenate([dataset.features, *shifted(dataset.features)])
        labels = np.tile(dataset.labels, 1 + len(SHIFTS))
        return self.network.train(em.Dataset(features=features, labels=labels), rng)

    def loss(self, model, point):
        return self.network.loss(model, point)

    def losses(self, model, points):
        """Of many records at once: faster, and may be left out."""
        return self.network.losses(model, points)

    def queries(self, point):
        """What is asked beside the point itself; it must not be random."""
        return shifted(point.features)
