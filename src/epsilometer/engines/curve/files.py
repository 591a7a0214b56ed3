"""Read posteriors of the curve model from NetCDF files; `tree.py` defines the contents."""

from dataclasses import replace
from itertools import pairwise, repeat
from typing import Any

import numpy as np

from epsilometer._arrays import IntArray
from epsilometer.engines.curve.engine import ENGINE, CurveSettings
from epsilometer.engines.curve.posterior import CurvePosterior
from epsilometer.engines.curve.solve import CurveAccuracy, solve
from epsilometer.engines.curve.tables import REFERENCE, Table
from epsilometer.engines.curve.tree import ARRIVALS, FLAGS, MODEL_NUMBERS, PAIRS, PLANNED
from epsilometer.errors import InputError
from epsilometer.model.base_scores import BaseScores
from epsilometer.model.families import (
    FAMILY_KINDS,
    OLDER_FAMILY_NAMES,
    Gaussian,
    Laplace,
    RandomizedResponse,
    TwoVariances,
)
from epsilometer.model.mixing import MIXINGS, FreeMixing
from epsilometer.model.models import CurveModel
from epsilometer.model.planned_order import PlannedOrder
from epsilometer.model.priors import PRIORS
from epsilometer.model.scores import Scores
from epsilometer.model.shapes import Cells
from epsilometer.model.strengths import STRENGTHS
from epsilometer.posteriors import trees
from epsilometer.posteriors.provenance import Provenance
from epsilometer.posteriors.reader import Reader

#: Classes that a field of the model may have in a file.
KINDS: trees.Kinds = {
    "epsilon": PRIORS,
    "families": FAMILY_KINDS | OLDER_FAMILY_NAMES,
    "family": FAMILY_KINDS | OLDER_FAMILY_NAMES,
    "mixing": MIXINGS,
    "strength": STRENGTHS,
}

#: Most edges of cells that a file may have.
MOST_EDGES = 4096

#: Prior weights of families in files of version 0.4 and earlier, which do not state them.
OLDER_WEIGHTS: dict[type, float] = {
    Gaussian: 5.0,
    TwoVariances: 5.0,
    Laplace: 7.0,
    RandomizedResponse: 8.0,
}

#: Mixing rates of that time.
OLDER_RATES = (0.03, 0.1, 0.2, 0.4, 0.7)

#: Fields of strengths in files of version 0.2 and earlier.
OLDER_FIELDS = {"alike": "best_possible"}


def restore(reader: Reader) -> CurvePosterior:
    """Restore the posterior from a file; it gives the same results as before."""
    values = reader.json("model")
    values["strength"] = {OLDER_FIELDS.get(key, key): v for key, v in values["strength"].items()}
    older = "weights" not in values  # files of version 0.4 and earlier
    if older and values["mixing"]["name"] == FreeMixing.__name__:
        values["mixing"] = {"rates": OLDER_RATES} | values["mixing"]
    model = trees.model_of(CurveModel, {"weights": None} | values, KINDS)
    if older:
        weights = tuple(OLDER_WEIGHTS.get(type(family), 1.0) for family in model.families)
        model = model if model.mixing.sampled else replace(model, weights=weights)
    accuracy = CurveAccuracy(**reader.json("accuracy"))
    # Older files call the engine "profile".
    provenance = replace(Provenance.from_json(reader.text("provenance")), engine=ENGINE)
    known: dict[str, Any] = dict(provenance.settings)
    settings = CurveSettings(tolerance=known["tolerance"], most_levels=known["most_levels"])
    scores = _scores(reader).with_flaws(reader.flaws)
    tables = _with_references(
        [
            _table(reader, number, described, len(scores))
            for number, described in enumerate(reader.json("tables"))
        ]
    )
    if not tables or not 1 <= accuracy.levels <= settings.most_levels:
        raise InputError(
            "expected tables of likelihoods, and refinement steps within the settings."
        )
    return CurvePosterior(
        scores=scores,
        model=model,
        provenance=provenance,
        engine=settings,
        solution=solve(
            model,
            tables,
            settings.resolution(
                accuracy.levels, len(scores), accuracy.region, _known_cells(model, accuracy)
            ),
        ),
        tables=tables,
        accuracy=accuracy,
    )


def _scores(reader: Reader) -> Scores:
    value = reader.get("observed_data/score", ndim=1)
    zeros, ones, size, grouped = (
        reader.get(f"observed_data/{name}", ndim=1) for name in ("zeros", "ones", "size", "grouped")
    )
    names = reader.names("challenge_base")
    sound = len(value) == len(zeros) == len(ones) == int(size.sum()) and (size > 0).all()
    if not sound or len(size) != len(names) or (zeros + ones < 1).any() or (zeros < 0).any():
        raise InputError("expected scores of every base in observed_data.")
    ends = np.cumsum(size)[:-1]
    parts = [np.split(column, ends) for column in (value, zeros, ones)]
    sizes = [int(tally.sum()) for tally in parts[1]], [int(tally.sum()) for tally in parts[2]]
    arrivals = _sides(reader, ARRIVALS, sizes)
    for each, *tallies in zip(arrivals or (), *parts[1:], strict=arrivals is not None):
        for places, tally in zip(each, tallies, strict=True):
            if not np.array_equal(np.sort(places), np.repeat(np.arange(len(tally)), tally)):
                raise InputError("expected the indices of the models' scores in observed_data.")
    bases = [
        BaseScores(value=a, zeros=b, ones=c, grouped=bool(d), arrival=e)
        for a, b, c, d, e in zip(*parts, grouped, arrivals or repeat(None, len(size)), strict=True)
    ]
    flags = {
        flag: bool(reader.get(f"observed_data/{flag}", ndim=0))
        for flag in FLAGS
        if f"observed_data/{flag}" in reader.arrays
    }
    scores = Scores.of_bases(bases, names, models=_sides(reader, MODEL_NUMBERS, sizes), **flags)
    if f"observed_data/{PLANNED[0]}" in reader.arrays:
        scores = scores.in_planned_order(_planned_order(reader, len(scores)))
    paired = f"observed_data/{PAIRS[0]}" in reader.arrays
    return scores.with_pairs(_pairs(reader, scores)) if paired else scores


def _planned_order(reader: Reader, bases: int) -> PlannedOrder | None:
    """The order of pairs that was fixed before they were trained."""
    *sizes, numbers = (reader.get(f"observed_data/{name}", ndim=1) for name in PLANNED)
    try:
        if len(numbers) != bases:
            raise ValueError
        return PlannedOrder.of(np.stack(sizes, axis=1), numbers)
    except ValueError:
        raise InputError("expected planned numbers of bases and pairs in observed_data.") from None


def _pairs(reader: Reader, scores: Scores) -> list[tuple[int, int] | None]:
    """Numbers of complete and of begun pairs of each base, None if unknown."""
    whole, begun = (reader.get(f"observed_data/{name}", ndim=1) for name in PAIRS)
    most = np.minimum(scores.trials_h0, scores.trials_h1)
    sound = len(whole) == len(begun) == len(scores) and whole.dtype.kind == begun.dtype.kind == "i"
    if not sound or (whole < -1).any() or (whole > np.minimum(most, begun)).any():
        raise InputError("expected numbers of complete and begun pairs in observed_data.")
    return [None if n < 0 else (int(n), int(m)) for n, m in zip(whole, begun, strict=True)]


def _sides(
    reader: Reader, names: tuple[str, str], sizes: tuple[list[int], list[int]]
) -> list[tuple[IntArray, IntArray]] | None:
    """A number for each model of each base, by hypothesis; None if the file does not have them."""
    if not all(f"observed_data/{name}" in reader.arrays for name in names):
        return None
    sides = []
    for name, each in zip(names, sizes, strict=True):
        numbers = reader.get(f"observed_data/{name}", ndim=1)
        if len(numbers) != sum(each) or numbers.dtype.kind not in "iu":
            raise InputError(f"expected the number of every model in {name}.")
        sides.append(np.split(numbers, np.cumsum(each)[:-1]))
    return list(zip(*sides, strict=True))


def _table(reader: Reader, number: int, described: dict[str, Any], bases: int) -> Table:
    leaks = reader.floats(f"grid/leaks_{number}", ndim=1)
    logs = reader.floats(f"grid/logs_{number}", ndim=2)
    if logs.shape != (bases, len(leaks)) or len(leaks) < 3 or np.any(np.diff(leaks) <= 0):
        raise InputError(f"expected increasing leaks in leaks_{number}, and likelihoods at each.")
    return Table(leaks=leaks, logs=logs, **trees.objects_of(described, KINDS))


def _with_references(tables: list[Table]) -> tuple[Table, ...]:
    """Tables of differences, with the table that they differ from."""
    references = {table.rate: table for table in tables if table.family == REFERENCE}
    if any(table.last and table.rate not in references for table in tables):
        raise InputError("expected a table of the Gaussian family beside tables of differences.")
    return tuple(
        replace(table, reference=references[table.rate]) if table.last else table
        for table in tables
    )


def _known_cells(model: CurveModel, accuracy: CurveAccuracy) -> Cells:
    """The cells of shapes, few enough and in order."""
    names = {group.name for group in model.families if group.edges}
    for name, edges in accuracy.cells.items():
        increasing = all(low < high for low, high in pairwise(edges))
        if name not in names or not 1 < len(edges) <= MOST_EDGES or not increasing:
            raise InputError("expected increasing edges of the cells of a shape of the model.")
    return accuracy.cells
