"""Posteriors as NetCDF files, and back; what is in them is in `trees.py`.

A file holds numbers, text and JSON only.  It is read as untrusted: nothing in it is run, every part is
checked, and a digest of all of it tells a damaged file from a sound one.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.errors import EpsilometerError, InputError
from epsilometer.inference.grid_posterior import Accuracy, Cells, GridPosterior
from epsilometer.inference.nuisance import POINT, NuisanceBox, NuisanceGrid
from epsilometer.inference.panels import PanelDensity
from epsilometer.inference.posterior import Posterior
from epsilometer.inference.provenance import Provenance
from epsilometer.inference.spread_grid import SpreadGrid
from epsilometer.inference.trees import (
    FORMAT,
    FORMAT_VERSION,
    LATER_TEXTS,
    STORED_DRAWS,
    STORED_NAME,
    TEXTS,
    digest,
    grid_to_datatree,
    samples_to_datatree,
)
from epsilometer.inference.updating import Batch
from epsilometer.model import dependence, likelihoods, priors
from epsilometer.model.counts import COLUMNS, AttackCounts
from epsilometer.model.joint import AuditModel

if TYPE_CHECKING:
    from epsilometer.inference.sample_posterior import SamplePosterior

__all__ = ["STORED_DRAWS", "grid_to_datatree", "load", "samples_to_datatree", "save"]

Array = NDArray[Any]

LARGEST_ARRAY = 2**31
"""Bytes of the largest array that is read: a small file may declare any size."""

_PRIORS = {
    cls.__name__: cls
    for cls in (
        priors.HalfNormal,
        priors.Exponential,
        priors.LogNormal,
        priors.Uniform,
        priors.Beta,
        priors.Fixed,
    )
}
_LIKELIHOODS = {
    cls.__name__: cls for cls in (likelihoods.IndependentBinomial, likelihoods.CorrelatedNormal)
}
_SCATTERS = {cls.__name__: cls for cls in (dependence.NormalScatter, dependence.UniformScatter)}
_DEPENDENCES = {
    cls.__name__: cls
    for cls in (
        dependence.IndependentRows,
        dependence.ScatteredMembers,
        dependence.PooledGroups,
    )
}
_DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, RuntimeError)


def save(posterior: Posterior, path: str | PathLike[str]) -> None:
    """Write a posterior to a NetCDF file.  The file appears whole or not at all.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    target = Path(path)
    tree = posterior.to_datatree()
    encoding = {
        group.path: {
            str(name): {"zlib": True, "complevel": 4, "_FillValue": None}
            for name, variable in group.data_vars.items()
            if variable.size
        }
        for group in tree.subtree
        if group.data_vars
    }
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".posterior-", suffix=".nc")
    os.close(handle)
    try:
        tree.to_netcdf(temporary, engine="h5netcdf", encoding=encoding)
        mask = os.umask(0)
        os.umask(mask)
        Path(temporary).chmod(0o666 & ~mask)
        os.replace(temporary, target)
    finally:
        Path(temporary).unlink(missing_ok=True)


def load(path: str | PathLike[str]) -> Posterior:
    """Restore a posterior from a file written by :func:`save`; it answers as it did before.

    Raises
    ------
    InputError
        If the file cannot be read, is of another kind or version, or is damaged.
    """
    import h5py  # type: ignore[import-untyped]

    source = Path(path)
    try:
        with source.open("rb") as file:
            signature = file.read(8)
    except OSError as error:
        raise InputError(f"{source}: cannot be read ({error.strerror}).") from None
    if signature != b"\x89HDF\r\n\x1a\n":
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
    """Plain numbers and text out of an open HDF5 file; everything else is refused."""

    def __init__(self, file: Any, h5py: Any) -> None:
        self._file = file
        self._h5py = h5py
        if self.text("format") != FORMAT:
            raise InputError("expected a NetCDF file written by epsilometer.")
        version = self.whole("format_version")
        if version != FORMAT_VERSION:
            raise InputError(f"expected format version {FORMAT_VERSION}, got {version}.")
        self.arrays: dict[str, Array] = {}
        for group in ("posterior", "observed_data", "grid"):
            if group in file:
                for name in self._members(group):
                    self.arrays[f"{group}/{name}"] = self._array(f"{group}/{name}")
        attributes = {
            name: self.text(name) for name in (*TEXTS, *LATER_TEXTS) if name in file.attrs
        }
        if digest(self.arrays, attributes) != self.text("digest"):
            raise InputError("the file is damaged (its digest does not match).")

    def text(self, name: str) -> str:
        value = self._file.attrs.get(name)
        return value if isinstance(value, str) else ""

    def whole(self, name: str, item: str = "/") -> int:
        value = np.asarray(self._file[item].attrs.get(name, -1)).ravel()
        return int(value[0]) if value.size == 1 and value.dtype.kind in "iu" else -1

    def json(self, name: str) -> Any:
        return json.loads(self.text(name))

    def _members(self, group: str) -> list[str]:
        self._own(group)
        # Dimensions without coordinates and the counters of chain and draw are no data.
        scales = {"posterior/chain", "posterior/draw"}
        return [
            name
            for name, item in self._file[group].items()
            if f"{group}/{name}" not in scales
            and not (isinstance(item, self._h5py.Dataset) and _is_bare_dimension(item))
        ]

    def _own(self, name: str) -> None:
        """Refuse what points out of this file."""
        if not isinstance(self._file.get(name, getlink=True), self._h5py.HardLink):
            raise InputError(f"expected {name} inside the file.")

    def _array(self, name: str) -> Array:
        self._own(name)
        item = self._file[name]
        if not isinstance(item, self._h5py.Dataset) or item.external or item.is_virtual:
            raise InputError(f"expected plain numbers in {name}.")
        if item.size * item.dtype.itemsize > LARGEST_ARRAY:
            raise InputError(f"expected less than {LARGEST_ARRAY} bytes in {name}.")
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

    def floats(self, name: str, *, ndim: int) -> NDArray[np.float64]:
        array = self.get(name, ndim=ndim)
        if array.dtype != np.float64 or not np.all(np.isfinite(array)):
            raise InputError(f"expected finite numbers in {name}.")
        return array

    def names(self, column: str) -> list[str]:
        """A column of labels, as it was before it was made fit for a file."""
        found = [str(name) for name in self.get(f"observed_data/{column}", ndim=1)]
        if self.whole("names_are_json", f"observed_data/{column}") == 1:
            found = [str(json.loads(name)) for name in found]
        return found


def _is_bare_dimension(item: Any) -> bool:
    label = item.attrs.get("NAME", b"")
    return isinstance(label, bytes) and label.startswith(b"This is a netCDF dimension but not")


def _restore(reader: _Reader) -> Posterior:
    columns = [reader.get(f"observed_data/{column}", ndim=1) for column in COLUMNS]
    counts = AttackCounts(
        false_positives=columns[0],
        trials_h0=columns[1],
        false_negatives=columns[2],
        trials_h1=columns[3],
        names=reader.names("challenge_base"),
        groups=reader.names("group") if "observed_data/group" in reader.arrays else None,
    )
    data = reader.json("model")
    model = AuditModel(
        delta=data["delta"],
        epsilon=_choice(data["epsilon"], _PRIORS),
        strength=_choice(data["strength"], _PRIORS),
        likelihood=_choice(data["likelihood"], _LIKELIHOODS),
        # Files from before there were groups do not name it, and have none.
        **({"dependence": _dependence(data["dependence"])} if "dependence" in data else {}),
    )
    provenance = Provenance.from_json(reader.text("provenance"))
    make = _restore_samples if reader.text("diagnostics") else _restore_grid
    posterior = make(reader, counts, model, provenance)
    # Files from before there were updates hold one batch.
    if not reader.text("batches"):
        return posterior
    return posterior.with_batches(tuple(Batch.from_dict(item) for item in reader.json("batches")))


def _dependence(data: Any) -> Any:
    values = dict(data)
    for name, known in (("scatter", _SCATTERS), ("spread", _PRIORS)):
        if name in values:
            values[name] = _choice(values[name], known)
    return _choice(values, _DEPENDENCES)


def _choice(data: Any, known: Mapping[str, Callable[..., Any]]) -> Any:
    values = dict(data)
    name = values.pop("name")
    if name not in known:
        raise InputError(f"expected one of {', '.join(known)}, got {name!r}.")
    return known[name](**values)


def _restore_grid(
    reader: _Reader, counts: AttackCounts, model: AuditModel, provenance: Provenance
) -> GridPosterior:
    parameters = [*model.parameters_of(counts)]
    correlated = isinstance(model.likelihood, likelihoods.CorrelatedNormal)
    if correlated:
        parameters.append("_r")
    row = reader.get("grid/cell_row", ndim=1)
    epsilon = reader.floats("grid/row_epsilon", ndim=1)
    if row.dtype != np.int64 or len(row) == 0 or row.min() < 0 or row.max() >= len(epsilon):
        raise InputError("expected rows of the grid in cell_row.")
    nuisance: NuisanceGrid | SpreadGrid = POINT
    log_nuisance = np.zeros((len(row), 0))
    if "grid/nuisance_spread" in reader.arrays:
        spread = reader.floats("grid/nuisance_spread", ndim=1)
        nuisance = SpreadGrid(
            breaks=reader.floats("grid/spread_breaks", ndim=1)
            if "spread" in parameters
            else np.zeros(0),
            spread=spread,
            log_weight=reader.floats("grid/nuisance_log_weight", ndim=1),
        )
        log_nuisance = reader.get("grid/cell_log_nuisance", ndim=2)
        if log_nuisance.shape not in ((len(row), len(spread)), (len(row), 0)):
            raise InputError("expected cell_log_nuisance at every node of every cell.")
    if correlated:
        box = reader.floats("grid/nuisance_box", ndim=1)
        nuisance = NuisanceGrid(
            box=NuisanceBox(
                tau_low=float(box[0]),
                tau_high=float(box[1]),
                r_low=float(box[2]),
                r_high=float(box[3]),
            ),
            tau=reader.floats("grid/nuisance_tau", ndim=1),
            r=reader.floats("grid/nuisance_r", ndim=1),
            log_weight=reader.floats("grid/nuisance_log_weight", ndim=1),
        )
        # The log likelihood may be -inf at a node, so finiteness is not asked of it.
        log_nuisance = reader.get("grid/cell_log_nuisance", ndim=2)
        if log_nuisance.shape != (len(row), len(nuisance.tau) * len(nuisance.r)):
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
    return GridPosterior(
        counts=counts,
        model=model,
        provenance=provenance,
        marginals={name: _density(reader, name) for name in parameters},
        cells=cells,
        nuisance=nuisance,
        log_evidence=float(reader.json("log_evidence")),
        accuracy=Accuracy(**reader.json("accuracy")),
    )


def _density(reader: _Reader, parameter: str) -> PanelDensity:
    name = STORED_NAME.get(parameter, parameter)
    breaks = reader.floats(f"grid/{name}_breaks", ndim=1)
    values = reader.floats(f"grid/{name}_density", ndim=2)
    if len(breaks) != len(values) + 1 or np.any(np.diff(breaks) <= 0):
        raise InputError(f"expected increasing panels in {name}_breaks.")
    density = PanelDensity(breaks=breaks, values=values)
    # Normalising anew would move the last digit; what was stored is already normalised.
    object.__setattr__(density, "values", values)
    return density


def _restore_samples(
    reader: _Reader, counts: AttackCounts, model: AuditModel, provenance: Provenance
) -> SamplePosterior:
    from epsilometer.inference.diagnostics import Diagnostics, ParameterDiagnostics
    from epsilometer.inference.sample_posterior import SamplePosterior

    data = reader.json("diagnostics")
    figures = {
        str(name): ParameterDiagnostics(
            # JSON has no infinity: None stands for it.
            **{key: math.inf if value is None else float(value) for key, value in item.items()}
        )
        for name, item in data["parameters"].items()
    }
    samples = {
        name: reader.floats(f"posterior/{name}", ndim=2) for name in model.parameters_of(counts)
    }
    if len({values.shape for values in samples.values()}) > 1:
        raise InputError("expected equally many draws of every parameter.")
    return SamplePosterior(
        counts=counts,
        model=model,
        provenance=provenance,
        samples=samples,
        diagnostics=Diagnostics(parameters=figures, acceptance_rate=float(data["acceptance_rate"])),
    )
