"""Where probabilities are computed: leaks of the algorithm and of a base, dense where it matters.

Every table is described by peaks: the place and the width, in log leak, of the likelihood of all bases
together, of the posterior if all bases leak the same, and of the likelihood of each base.  Steps are a
fraction of the narrowest peak nearby and grow away from peaks, where likelihoods are averages over many
strengths, or hardly change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from epsilometer._arrays import FloatArray
from epsilometer.engines.curve.tables import Table

#: The smallest leak, in units of the largest; its cell contains all smaller ones.
SMALLEST_LEAK = 1e-7

#: Step of log leak at which peaks are searched.
SCAN_STEP = 0.02

#: Nats below the best beyond which peaks do not count.
NATS_BELOW_BEST = 25.0

#: Wider peaks are treated as this wide, so that steps are never longer than `LONGEST_STEP`.
WIDEST, LONGEST_STEP = 0.2, 0.3

#: Half of the width of a peak, in standard deviations, and the growth of steps beyond.
HALF_PEAK, GROWTH = 5.0, 0.15

#: Steps of a base's leak, in units of `Axis.step`: likelihoods are linear between them.
STEPS_OF_BASE = 0.7


#: Log prior density of log leaks.
LogPrior = Callable[[FloatArray], FloatArray]


class Peaks(NamedTuple):
    """Log leaks at which likelihoods are largest, and standard deviations there."""

    place: FloatArray
    width: FloatArray


class Axis(NamedTuple):
    """Log leaks of the algorithm (``rows``) and of a base (``columns``), largest first.

    Each has the edges of the cells around them, one more.
    """

    rows: FloatArray
    row_edges: FloatArray
    columns: FloatArray
    column_edges: FloatArray


def axis_for(
    tables: Iterable[Table], priors: Iterable[LogPrior], step: float, fixed: float = 1.0
) -> Axis:
    """An axis for these tables, and the prior density of log leak under each.

    Bases leak ``fixed`` times the algorithm's leak, or any part of it.
    """
    tops, common, single = [], [], []
    for table, log_prior in zip(tables, priors, strict=True):
        top = float(np.log(table.leaks[-1]))
        scan = top - SCAN_STEP * np.arange(0.0, int(-np.log(SMALLEST_LEAK) / SCAN_STEP))
        logs = table.at(np.exp(scan))
        together = np.interp(scan[::-1] + np.log(fixed), scan[::-1], logs.sum(axis=0)[::-1])[::-1]
        posterior = together + log_prior(scan)
        tops.append(top)
        common.append((float(posterior.max()), _peaks(scan, np.stack([together, posterior]))))
        single.append(_peaks(scan, logs))
    best = max(height for height, _ in common)
    likely = [height > best - NATS_BELOW_BEST for height, _ in common]
    of_all = _joined(peaks for (_, peaks), kept in zip(common, likely, strict=True) if kept)
    of_bases = _joined(peaks for peaks, kept in zip(single, likely, strict=True) if kept)
    first, last = max(tops), min(tops) + float(np.log(SMALLEST_LEAK))
    shift = float(np.log(fixed))
    rows = _marched(first, last, of_all, step)
    columns = _marched(first + shift, last + shift, of_bases, STEPS_OF_BASE * step)
    return Axis(rows, edges_around(rows), columns, edges_around(columns))


def _joined(parts: Iterable[Peaks]) -> Peaks:
    """Peaks of several tables, nearly equal ones once."""
    places, widths = (np.concatenate(column) for column in zip(*parts, strict=True))
    cell = np.round(places / widths), np.round(2 * np.log(widths))
    _, kept = np.unique(np.stack(cell), axis=1, return_index=True)
    return Peaks(places[kept], widths[kept])


def _peaks(scan: FloatArray, logs: FloatArray) -> Peaks:
    """The peak of each row; a parabola through its top has the width also of peaks between points."""
    best = np.clip(logs.argmax(axis=1), 1, len(scan) - 2)
    row = np.arange(len(logs))
    left, middle, right = logs[row, best - 1], logs[row, best], logs[row, best + 1]
    bend = np.maximum(2 * middle - left - right, SCAN_STEP**2 / WIDEST**2)
    shift = np.clip((right - left) / (2 * bend), -1.0, 1.0)
    return Peaks(scan[best] - SCAN_STEP * shift, SCAN_STEP / np.sqrt(bend))


def _marched(first: float, last: float, peaks: Peaks, step: float) -> FloatArray:
    """Places from first down to last, a step apart that suits the peaks around."""
    places = [first]
    while places[-1] > last:
        beyond = np.abs(places[-1] - peaks.place) - HALF_PEAK * peaks.width
        # A step is a small part of the distance to any peak, and cannot jump over it.
        wanted = step * float(np.min(peaks.width + GROWTH * np.maximum(beyond, 0.0)))
        places.append(places[-1] - min(wanted, LONGEST_STEP))
    return np.array(places)


def edges_around(places: FloatArray) -> FloatArray:
    """Edges of cells around places, half-way between them; one more."""
    middle = (places[1:] + places[:-1]) / 2
    return np.concatenate([[2 * places[0] - middle[0]], middle, [2 * places[-1] - middle[-1]]])
