"""Data held in Python: data frames, dicts of columns, arrays and pairs, as the objects they stand for.

Data frames of pandas and polars are read by their methods, so neither library is needed.  Frames and
dicts become the text of a CSV file, and are read and checked as one.
"""

from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from epsilometer import _files
from epsilometer.attacks.losses import Losses
from epsilometer.attacks.pool_losses import PoolLosses
from epsilometer.baselines.scores import CanaryScoreAuditor
from epsilometer.errors import InputError
from epsilometer.inputs import sources
from epsilometer.inputs.source import NO_OPTIONS, LossOptions, Source
from epsilometer.judgement.judging import result_of
from epsilometer.judgement.result import Result
from epsilometer.measurement.canaries import Canaries
from epsilometer.measurement.engine import Measurement
from epsilometer.measurement.plan import Plan
from epsilometer.measurement.population import Population
from epsilometer.measurement.store import SqliteStore
from epsilometer.model.counts import AttackCounts
from epsilometer.model.pool_scores import PoolScores
from epsilometer.model.scores import Scores

#: Keys of a dict of two sides, without the point first; and whether they are canaries of one run.
PAIRS = {("without", "with_point"): False, ("others", "members"): True}

#: Columns whose numbers need not be whole.
NUMBERS = ("score", "loss", "target_alpha")

ACCEPTED = (
    "the path of a file, a store or a result folder; a data frame or a dict with the columns of such a "
    "file (score, member; loss, member; challenge_base, hypothesis, replicate, loss; false_positives, "
    "trials_h0, false_negatives, trials_h1); a dict of arrays `without` and `with_point`, or `members` "
    "and `others`; a pair of arrays (without, with_point); em.Scores, em.Losses, em.PoolLosses, "
    "em.rows.PoolScores, em.AttackCounts, em.baselines.CanaryScoreAuditor; what em.measure(...) "
    "returns; a posterior or a result"
)


def refusal(given: object) -> InputError:
    """What is accepted instead, and which call makes it."""
    makes = ""
    if isinstance(given, Canaries):
        makes = " Score the canaries first: canaries.scores(losses)."
    elif isinstance(given, Plan):
        makes = " Train its models first: em.measure(plan)."
    elif isinstance(given, Population) or hasattr(given, "train"):
        makes = " Train and attack models first: em.audit(algorithm, population, delta=...)."
    elif isinstance(given, np.ndarray | list):
        makes = " One array does not say which scores are of members: give two."
    return InputError(f"expected {ACCEPTED}; got {type(given).__name__}.{makes}")


def columns_of(given: Any) -> dict[str, list[Any]]:
    """The columns of a data frame or a dict, as plain values."""
    names = given if isinstance(given, Mapping) else given.columns
    columns = {str(name): _plain(str(name), given[name]) for name in names}
    sizes = {name: len(values) for name, values in columns.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise InputError(f"expected equally many rows in every column, got {listed}.")
    return columns


def _plain(name: str, values: Any) -> list[Any]:
    if isinstance(values, str) or not (hasattr(values, "tolist") or isinstance(values, Iterable)):
        raise InputError(f"expected a column of values in {name}, got {_files.shown(values)}.")
    listed = values.tolist() if hasattr(values, "tolist") else list(values)
    if name in ("score", "loss") and any(isinstance(value, bool | np.bool_) for value in listed):
        raise InputError(
            f"expected numbers as {name}, got truth values: decisions are counts (em.AttackCounts), and "
            "membership itself is no score."
        )
    return [_cell(name, value) for value in listed]


def _cell(name: str, value: Any) -> Any:
    """A value as a file has it: 0 and 1 for truth values, whole numbers without a fraction."""
    plain = value.item() if isinstance(value, np.generic) else value
    whole = isinstance(plain, float) and plain.is_integer() and name not in NUMBERS
    return int(plain) if whole or isinstance(plain, bool) else plain


def scores_of_sides(without: Any, with_point: Any, *, canaries: bool = False) -> Scores:
    """Scores without and with the point: arrays of one base, or one array per base."""
    sides = [_bases(without), _bases(with_point)]
    if not canaries:
        return Scores(without=sides[0], with_point=sides[1])
    if len(sides[0]) != 1 or len(sides[1]) != 1:
        raise InputError("expected one array of members and one of others.")
    return Scores.of_canaries(sides[1][0], sides[0][0])


def _bases(side: Any) -> list[Any]:
    """One array per base."""
    values = side.to_numpy() if hasattr(side, "to_numpy") else side
    try:
        several = np.ndim(values) == 2 or any(np.ndim(base) for base in values)
    except (TypeError, ValueError):  # a number; bases with different numbers of models
        several = isinstance(values, Iterable)
    return list(values) if several else [values]


def source_of(given: Any, options: LossOptions = NO_OPTIONS) -> Source:
    """The one reader of data given in Python or named in the shell; see `ACCEPTED`."""
    if isinstance(given, Source):
        return given
    if isinstance(given, str | PathLike):
        return sources.read(Path(given), options)
    if isinstance(given, Result):
        return sources.of_result(given)
    if hasattr(given, "provenance") and hasattr(given, "credible_interval"):
        return sources.of_result(result_of(given))
    scores = _scores_of(given)
    if scores is not None:
        return sources.of_scores(scores, "scores", options)
    return _of_data(given, options)


def _scores_of(given: Any) -> Scores | None:
    """Scores in one of their forms: objects of the package, and two sides of arrays."""
    if isinstance(given, Scores | PoolScores):
        return given.by_point() if isinstance(given, PoolScores) else given
    if isinstance(given, CanaryScoreAuditor):
        return Scores.of_canaries(*given.in_order)
    if isinstance(given, Mapping):
        for keys, canaries in PAIRS.items():
            if set(keys) <= set(given):
                extra = [str(key) for key in given if key not in keys]
                if extra:
                    raise InputError(
                        f"expected {keys[0]} and {keys[1]} alone, got also {extra[0]}."
                    )
                return scores_of_sides(*(given[key] for key in keys), canaries=canaries)
    if not isinstance(given, tuple | list) or len(given) != 2:
        return None
    if isinstance(given[0], Canaries):
        return given[0].scores(given[1])
    sides = all(isinstance(side, Iterable) and not isinstance(side, str) for side in given)
    return scores_of_sides(*given) if sides else None


def _of_data(given: Any, options: LossOptions) -> Source:
    """The source of measurements, counts, and tables."""
    if isinstance(given, SqliteStore):
        return sources.read(given.path, options)
    if isinstance(given, Measurement):
        return sources.of_measurement(given, options)
    if isinstance(given, Losses | PoolLosses):
        return sources.of_losses(given, "losses", options)
    if isinstance(given, AttackCounts):
        return Source(label="counts", counts=given)
    # Data frames of pandas and polars have columns, by name.
    if isinstance(given, Mapping) or (hasattr(given, "columns") and hasattr(given, "__getitem__")):
        columns = columns_of(given)
        text = _files.csv_text(list(columns), zip(*columns.values(), strict=True))
        name = "data" if isinstance(given, Mapping) else "data frame"
        return sources.read_text(text, name, options)
    raise refusal(given)
