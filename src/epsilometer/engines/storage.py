"""Read posteriors from NetCDF files; `trees.py` defines and writes the format.

A file holds only numbers, text and JSON.  It is untrusted: nothing in it is executed, every part is
checked, and a digest of the contents detects damage.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsilometer import _files
from epsilometer._arrays import FloatArray
from epsilometer.engines.curve import files
from epsilometer.engines.curve.posterior import CurvePosterior
from epsilometer.engines.exact.draws import Cells
from epsilometer.engines.exact.engine import ExactSettings
from epsilometer.engines.exact.nuisance import CorrelationGrid, NoNuisance, NuisanceGrid
from epsilometer.engines.exact.posterior import Accuracy, GridPosterior
from epsilometer.engines.exact.spread_grid import SpreadGrid
from epsilometer.errors import EpsilometerError, InputError
from epsilometer.model.count_model import CountModel
from epsilometer.model.count_tables import COLUMNS
from epsilometer.model.counts import AttackCounts
from epsilometer.model.dependence import DEPENDENCES, SCATTERS
from epsilometer.model.likelihoods import LIKELIHOODS
from epsilometer.model.measured import MeasuredBy
from epsilometer.model.priors import PRIORS
from epsilometer.posteriors import trees
from epsilometer.posteriors.panels import PanelDensity
from epsilometer.posteriors.posterior import CountPosterior
from epsilometer.posteriors.provenance import Provenance

if TYPE_CHECKING:
    from epsilometer.engines.mcmc.driver import McmcSettings
    from epsilometer.engines.mcmc.posterior import SamplePosterior

Array = NDArray[Any]

LARGEST_STORED_ARRAY = 2**31
"""Bytes of the largest array to read: a small file may declare any size."""

_DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, RuntimeError)


def load(path: str | PathLike[str]) -> Any:
    """Load a posterior from a file written by ``posterior.save``; it gives the same results as before.

    Returns a :class:`~epsilometer.CountPosterior` or a :class:`~epsilometer.CurvePosterior`.

    Raises
    ------
    InputError
        If the file cannot be read, is of another kind or version, or is damaged.
    """
    import h5py  # type: ignore[import-untyped]

    source = Path(path)
    if _files.read_bytes(source, 8) != b"\x89HDF\r\n\x1a\n":
        raise InputError(f"{source}: expected a NetCDF file written by epsilometer.")
    try:
        with h5py.File(source, "r") as file:
            return _restore(_Reader(file, h5py))
    except EpsilometerError as error:
        raise InputError(f"{source}: {error}") from None
    except _DAMAGE as error:
        short = " ".join(str(error).split())[:120]
        raise InputError(f"{source}: the file is damaged ({short}).") from None


class _Reader:
    """Reads plain numbers and text from an open HDF5 file and refuses everything else."""

    def __init__(self, file: Any, h5py: Any) -> None:
        self._file = file
        self._h5py = h5py
        if self.text("format") != trees.FORMAT:
            raise InputError("expected a NetCDF file written by epsilometer.")
        version = self.integer("format_version")
        if version != trees.FORMAT_VERSION:
            raise InputError(f"expected format version {trees.FORMAT_VERSION}, got {version}.")
        self.arrays: dict[str, Array] = {}
        for group in ("posterior", "observed_data", "grid"):
            if group in file:
                for name in self._members(group):
                    self.arrays[f"{group}/{name}"] = self._array(f"{group}/{name}")
        attributes = {
            name: self.text(name)
            for name in (*trees.TEXTS, *trees.LATER_TEXTS)
            if name in file.attrs
        }
        if trees.digest(self.arrays, attributes) != self.text("digest"):
            raise InputError("the file is damaged (its digest does not match).")

    def text(self, name: str) -> str:
        value = self._file.attrs.get(name)
        return value if isinstance(value, str) else ""

    def integer(self, name: str, item: str = "/") -> int:
        value = np.asarray(self._file[item].attrs.get(name, -1)).ravel()
        return int(value[0]) if value.size == 1 and value.dtype.kind in "iu" else -1

    def json(self, name: str) -> Any:
        return json.loads(self.text(name))

    def _members(self, group: str) -> list[str]:
        self._own(group)
        # Dimensions without coordinates and the chain and draw counters are not data.
        scales = {"posterior/chain", "posterior/draw"}
        return [
            name
            for name, item in self._file[group].items()
            if f"{group}/{name}" not in scales
            and not (isinstance(item, self._h5py.Dataset) and _is_bare_dimension(item))
        ]

    def _own(self, name: str) -> None:
        """Refuse links that point outside this file."""
        if not isinstance(self._file.get(name, getlink=True), self._h5py.HardLink):
            raise InputError(f"expected {name} inside the file.")

    def _array(self, name: str) -> Array:
        self._own(name)
        item = self._file[name]
        if not isinstance(item, self._h5py.Dataset) or item.external or item.is_virtual:
            raise InputError(f"expected plain numbers in {name}.")
        if item.size * item.dtype.itemsize > LARGEST_STORED_ARRAY:
            raise InputError(f"expected less than {LARGEST_STORED_ARRAY} bytes in {name}.")
        if self._h5py.check_string_dtype(item.dtype):
            return np.array(item.asstr()[()], dtype=object)
        if item.dtype.kind not in "fiu":
            raise InputError(f"expected plain numbers in {name}.")
        return np.asarray(item[()])

    def get(self, name: str, *, ndim: int) -> Array:
        array = self.arrays.get(name)
        if array is None or array.ndim != ndim:
            raise InputError(f"expected {name} with {ndim} dimensions.")
        return array

    def floats(self, name: str, *, ndim: int) -> FloatArray:
        array = self.get(name, ndim=ndim)
        if array.dtype != np.float64 or not np.all(np.isfinite(array)):
            raise InputError(f"expected finite numbers in {name}.")
        return array

    def names(self, column: str) -> list[str]:
        """A column of labels, decoded from the form stored in the file."""
        names = [str(name) for name in self.get(f"observed_data/{column}", ndim=1)]
        if self.integer("names_are_json", f"observed_data/{column}") == 1:
            names = [str(json.loads(name)) for name in names]
        return names


def _is_bare_dimension(item: Any) -> bool:
    label = item.attrs.get("NAME", b"")
    return isinstance(label, bytes) and label.startswith(b"This is a netCDF dimension but not")


def _restore(reader: _Reader) -> CountPosterior | CurvePosterior:
    if reader.text("tables"):
        return files.restore(reader)
    columns = {column: reader.get(f"observed_data/{column}", ndim=1) for column in COLUMNS}
    counts = AttackCounts(
        **columns,
        names=reader.names("challenge_base"),
        groups=reader.names("group") if "observed_data/group" in reader.arrays else None,
        # Older files do not say how counts were measured.
        measured=MeasuredBy(**reader.json("measured")) if reader.text("measured") else None,
    ).with_flaws(files.flaws_of(reader))
    # Older files have no groups and name no dependence.
    data = {"dependence": {"name": "ScatteredMembers"}} | reader.json("model")
    model = CountModel(**{part.name: _choice(data, part.name) for part in fields(CountModel)})
    provenance = Provenance.from_json(reader.text("provenance"))
    make = _restore_samples if reader.text("diagnostics") else _restore_grid
    return make(reader, counts, model, provenance)


CHOICES: dict[str, Mapping[str, Callable[..., Any]]] = {
    "epsilon": PRIORS,
    "strength": PRIORS,
    "likelihood": LIKELIHOODS,
    "dependence": DEPENDENCES,
    "scatter": {kind.__name__: kind for kind in SCATTERS.values()},
    "spread": PRIORS,
}


def _choice(data: Mapping[str, Any], field: str) -> Any:
    """A field's value: a number, or an object of one of the known classes."""
    if field not in CHOICES:
        return data[field]
    inner, known = dict(data[field]), CHOICES[field]
    name = inner.pop("name")
    if name not in known:
        raise InputError(f"expected one of {', '.join(known)}, got {name!r}.")
    return known[name](**{part: _choice(inner, part) for part in inner})


def _restore_grid(
    reader: _Reader, counts: AttackCounts, model: CountModel, provenance: Provenance
) -> GridPosterior:
    row = reader.get("grid/cell_row", ndim=1)
    epsilon = reader.floats("grid/row_epsilon", ndim=1)
    if row.dtype != np.int64 or len(row) == 0 or row.min() < 0 or row.max() >= len(epsilon):
        raise InputError("expected rows of the grid in cell_row.")
    nuisance = _restore_nuisance(reader)
    log_nuisance = np.zeros((len(row), 0))
    if len(nuisance) > 1:
        # The log likelihood may be -inf at a node, so it need not be finite.
        log_nuisance = reader.get("grid/cell_log_nuisance", ndim=2)
        if log_nuisance.shape != (len(row), len(nuisance)):
            raise InputError("expected cell_log_nuisance at every node of every cell.")
    cells = Cells(
        epsilon=epsilon,
        row=row,
        strength=reader.floats("grid/cell_strength", ndim=1),
        mass=reader.floats("grid/cell_mass", ndim=1),
        log_nuisance=log_nuisance,
    )
    if not len(row) == len(cells.strength) == len(cells.mass):
        raise InputError("expected equally many cells in the grid's arrays.")
    # Some drawn quantities are stored under a different name.
    hidden = [
        name for name, other in trees.STORED_NAME.items() if f"grid/{other}_breaks" in reader.arrays
    ]
    accuracy = Accuracy(**reader.json("accuracy"))
    known: dict[str, Any] = dict(provenance.settings)
    most_levels = known.get("most_levels", ExactSettings.most_levels)
    return GridPosterior(
        counts=counts,
        model=model,
        provenance=provenance,
        engine=ExactSettings(tolerance=accuracy.tolerance, most_levels=most_levels),
        marginals={
            name: _density(reader, name) for name in [*model.parameters_of(counts), *hidden]
        },
        cells=cells,
        nuisance=nuisance,
        log_evidence=float(reader.json("log_evidence")),
        accuracy=accuracy,
    )


def _restore_nuisance(reader: _Reader) -> NuisanceGrid:
    """The nuisance grid that the file's arrays belong to."""
    names = [name for name in reader.arrays if name.startswith("grid/nuisance_")]
    arrays = {name.removeprefix("grid/"): reader.floats(name, ndim=1) for name in names}
    if "nuisance_spread" in arrays:
        breaks = np.zeros(0)
        if "grid/spread_breaks" in reader.arrays:
            breaks = reader.floats("grid/spread_breaks", ndim=1)
        return SpreadGrid.restored(arrays, breaks)
    return CorrelationGrid.restored(arrays) if arrays else NoNuisance()


def _density(reader: _Reader, parameter: str) -> PanelDensity:
    name = trees.STORED_NAME.get(parameter, parameter)
    breaks = reader.floats(f"grid/{name}_breaks", ndim=1)
    values = reader.floats(f"grid/{name}_density", ndim=2)
    if len(breaks) != len(values) + 1 or np.any(np.diff(breaks) <= 0):
        raise InputError(f"expected increasing panels in {name}_breaks.")
    density = PanelDensity(breaks=breaks, values=values)
    # The stored values are normalised already; doing it again would change the last digit.
    object.__setattr__(density, "values", values)
    return density


def _restore_samples(
    reader: _Reader, counts: AttackCounts, model: CountModel, provenance: Provenance
) -> SamplePosterior:
    from epsilometer.engines.mcmc.diagnostics import Diagnostics, ParameterDiagnostics
    from epsilometer.engines.mcmc.posterior import SamplePosterior

    data = reader.json("diagnostics")
    figures = {
        str(name): ParameterDiagnostics(
            # JSON has no infinity: None represents it.
            **{key: math.inf if value is None else float(value) for key, value in item.items()}
        )
        for name, item in data["parameters"].items()
    }
    samples = {
        name: reader.floats(f"posterior/{name}", ndim=2) for name in model.parameters_of(counts)
    }
    return SamplePosterior(
        counts=counts,
        model=model,
        provenance=provenance,
        engine=_mcmc_settings(provenance),
        samples=samples,
        diagnostics=Diagnostics(parameters=figures, acceptance_rate=float(data["acceptance_rate"])),
    )


def _mcmc_settings(provenance: Provenance) -> McmcSettings:
    """The settings of the chains, from their provenance."""
    from epsilometer.engines.mcmc import settings as mcmc
    from epsilometer.engines.mcmc.driver import McmcSettings

    known: dict[str, Any] = dict(provenance.settings)
    names = ("num_auxiliary", "num_sweeps", "num_iterations", "num_warmup", "num_chains")
    options: dict[str, Any] = {name: known[name] for name in names if name in known}
    if known.get("sampler") == "groups" and "num_sweeps" not in known:
        # Older files store the number of sweeps under another name.
        options["num_sweeps"] = options.get("num_auxiliary", McmcSettings().num_sweeps)
    if provenance.seed is not None:
        options["seed"] = provenance.seed
    kinds: dict[str, Any] = {
        kind.__name__: kind
        for kind in (
            mcmc.UniformAuxiliaries,
            mcmc.InformedAuxiliaries,
            mcmc.FixedRandomWalk,
            mcmc.TunedRandomWalk,
        )
    }
    for name in ("auxiliaries", "proposal"):
        if name in known:
            given = known[name]
            values = dict(given) if isinstance(given, dict) else {"name": given}
            kind = kinds.get(values.pop("name", None))
            if kind is None or set(values) - {part.name for part in fields(kind)}:
                raise InputError(f"expected known {name}, got {given!r}.")
            options[name] = kind(**values)
    return McmcSettings(**options)
