"""Posteriors as labelled trees: the contents of a file, and the digest that detects damage.

The layout is ArviZ's: a group ``posterior`` with draws, a group ``observed_data`` with the counts; a
posterior by quadrature adds the group ``grid``, from which it is restored.  `reader.py` and
`engines/storage.py` read files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, is_dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsilometer import _files
from epsilometer.errors import InputError
from epsilometer.model.count_tables import COLUMNS
from epsilometer.model.counts import AttackCounts
from epsilometer.posteriors.provenance import versions

if TYPE_CHECKING:
    import xarray

    from epsilometer.engines.exact.posterior import GridPosterior
    from epsilometer.engines.mcmc.posterior import SamplePosterior

Array = NDArray[Any]

#: Dimensions and values.
Labelled = tuple[tuple[str, ...], Array]

DRAWS = ("chain", "draw")

#: Classes by the name of a field and their own.
Kinds = Mapping[str, Mapping[str, Callable[..., Any]]]

FORMAT = "epsilometer posterior"
FORMAT_VERSION = 1

#: A posterior by quadrature stores draws for ArviZ, generated with a fixed seed.
STORED_DRAWS = 4000
STORED_DRAWS_SEED = 20170604

TEXTS = ("model", "provenance", "accuracy", "log_evidence", "diagnostics")
#: Texts that some files lack: included in the digest only if present.  Batches are no longer
#: written.
LATER_TEXTS = ("batches", "tables", "measured", "flaws")

#: The name in files of the density of r = rho / bound(tau).
STORED_NAME = {"_r": "cross_correlation_fraction"}


def grid_to_datatree(posterior: GridPosterior) -> xarray.DataTree:
    """A posterior by quadrature as a tree: draws, counts and the grid itself."""
    drawn = posterior.draws(STORED_DRAWS, rng=np.random.default_rng(STORED_DRAWS_SEED))
    grid: dict[str, Labelled] = {}
    for parameter, density in posterior.marginals.items():
        name = STORED_NAME.get(parameter, parameter)
        grid[f"{name}_breaks"] = ((f"{name}_break",), density.breaks)
        grid[f"{name}_density"] = ((f"{name}_panel", f"{name}_node"), density.values)
    cells = posterior.cells
    grid["row_epsilon"] = (("row",), cells.epsilon)
    for name in ("row", "strength", "mass"):
        grid[f"cell_{name}"] = (("cell",), getattr(cells, name))
    if cells.log_nuisance.size:
        grid["cell_log_nuisance"] = (("cell", "nuisance"), cells.log_nuisance)
    draws = {name: (DRAWS, values[None, :]) for name, values in drawn.items()}
    return assembled(
        posterior, draws, _observed(posterior.counts), grid=grid | posterior.nuisance.stored()
    )


def samples_to_datatree(posterior: SamplePosterior) -> xarray.DataTree:
    """A posterior by sampling as a tree: its chains, the counts, the diagnostics."""
    draws = {name: (DRAWS, values) for name, values in posterior.samples.items()}
    diagnostics = json.dumps(posterior.diagnostics.to_dict())
    return assembled(posterior, draws, _observed(posterior.counts), diagnostics=diagnostics)


def _observed(counts: AttackCounts) -> dict[str, tuple[Any, ...]]:
    columns: dict[str, tuple[Any, ...]] = {
        column: ("challenge_base", getattr(counts, column)) for column in COLUMNS
    }
    for column, labels in (("challenge_base", counts.names), ("group", counts.groups)):
        if labels:
            columns[column] = ("challenge_base", *stored_names(labels))
    return columns


def assembled(
    posterior: Any,
    draws: Mapping[str, Labelled],
    observed: Mapping[str, tuple[Any, ...]],
    *,
    grid: Mapping[str, Labelled] | None = None,
    **texts: str,
) -> xarray.DataTree:
    """Combine draws, data, the grid that a posterior is restored from, and texts into one tree.

    Its attributes include the digest of its contents.  Without a grid the draws are the posterior.
    """
    import xarray

    library = {
        "inference_library": "epsilometer",
        "inference_library_version": versions()["epsilometer"],
    }
    texts["model"] = json.dumps(values_of(posterior.model))
    texts["provenance"] = posterior.provenance.to_json()
    data = posterior.data
    if getattr(data, "measured", None) is not None:
        texts["measured"] = json.dumps(data.measured.columns())
    # Scores find some flaws by themselves; the others are stored.
    if flaws := getattr(data, "known_flaws", data.flaws):
        texts["flaws"] = json.dumps(flaws)
    if grid is not None:
        texts["accuracy"] = json.dumps(asdict(posterior.accuracy))
        texts["log_evidence"] = json.dumps(posterior.log_evidence)
    chains, count = next((part[1].shape[:2] for part in draws.values()), (1, STORED_DRAWS))
    groups = {
        "posterior": xarray.Dataset(
            dict(draws),
            coords={"chain": np.arange(chains), "draw": np.arange(count)},
            attrs=library | ({} if grid is None else {"draws_seed": STORED_DRAWS_SEED}),
        ),
        "observed_data": xarray.Dataset(dict(observed)),
    }
    if grid is not None:
        groups["grid"] = xarray.Dataset(dict(grid))
    root = xarray.Dataset(
        attrs={"format": FORMAT, "format_version": FORMAT_VERSION, **texts, **library}
    )
    tree = xarray.DataTree.from_dict({"/": root, **{f"/{k}": v for k, v in groups.items()}})
    arrays = {
        f"{group}/{name}": np.asarray(variable.values)
        for group, part in groups.items()
        for name, variable in part.variables.items()
        if str(name) in part.data_vars or str(name) == "challenge_base"
    }
    tree.attrs["digest"] = digest(arrays, {str(key): value for key, value in tree.attrs.items()})
    return tree


def stored_names(names: tuple[str, ...]) -> tuple[Array, dict[str, int]]:
    """Names as stored in a file, and their attributes.

    All are JSON if any contains what HDF5 text cannot hold.
    """
    text = "".join(names)
    escaped = "\0" in text or text.encode(errors="ignore").decode() != text
    stored = np.array([json.dumps(n) for n in names] if escaped else names, dtype=object)
    return stored, {"names_are_json": int(escaped)}


def write(tree: xarray.DataTree, path: str | PathLike[str]) -> None:
    """Write a tree to a NetCDF file, atomically.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    encoding = {
        group.path: {
            str(name): {"zlib": True, "complevel": 4, "_FillValue": None}
            for name, variable in group.data_vars.items()
            if variable.size
        }
        for group in tree.subtree
        if group.data_vars
    }

    def write_to(file: Path) -> None:
        file.touch()  # An unwritable path raises a clearer error here than in HDF5.
        tree.to_netcdf(file, engine="h5netcdf", encoding=encoding)

    _files.replace(Path(path), write_to)


def digest(arrays: Mapping[str, Array], attributes: Mapping[str, object]) -> str:
    """SHA-256 over every array and text that a posterior is restored from."""
    running = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        running.update(f"{name} {array.shape}\n".encode())
        if array.dtype.kind == "O":
            running.update("\0".join(array.tolist()).encode())
        else:
            little = array.astype(array.dtype.newbyteorder("<"), copy=False)
            running.update(np.ascontiguousarray(little).tobytes())
    for name in (*TEXTS, *(name for name in LATER_TEXTS if name in attributes)):
        running.update(f"\n{name}={attributes.get(name, '')}".encode())
    return running.hexdigest()


def values_of(choice: Any) -> dict[str, Any]:
    """The fields of a frozen object as plain values, without flags that are not set.

    Nested objects include the name of their class.
    """
    values = {part.name: getattr(choice, part.name) for part in fields(choice) if part.init}
    return {name: plain(value) for name, value in values.items() if value is not False}


def plain(value: Any) -> Any:
    """An object as plain values with the name of its class; other values unchanged."""
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return {"name": type(value).__name__} | values_of(value) if is_dataclass(value) else value


def model_of(kind: type, values: Mapping[str, Any], kinds: Kinds) -> Any:
    """A model of the values of all its fields; only flags that are not set may be missing."""
    for part in fields(kind):
        if part.name not in values and part.default is not False:
            raise InputError(f"expected {part.name} in the model.")
    return kind(**objects_of(values, kinds))


def objects_of(values: Mapping[str, Any], kinds: Kinds) -> dict[str, Any]:
    """The inverse of :func:`values_of`: objects of the classes known for a field, and of no others."""
    return {name: _object(name, value, kinds) for name, value in values.items()}


def _object(field: str, value: Any, kinds: Kinds) -> Any:
    if field not in kinds:
        return value
    if isinstance(value, list):
        return tuple(_object(field, item, kinds) for item in value)
    inner, known = dict(value), kinds[field]
    name = inner.pop("name")
    if name not in known:
        raise InputError(f"expected one of {', '.join(known)}, got {name!r}.")
    return known[name](**objects_of(inner, kinds))


def by_name(*classes: type) -> dict[str, type]:
    """Classes by their names."""
    return {kind.__name__: kind for kind in classes}
