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
from epsilometer.posteriors.provenance import versions

if TYPE_CHECKING:
    import xarray

    from epsilometer.engines.exact.posterior import GridPosterior
    from epsilometer.engines.mcmc.posterior import SamplePosterior
    from epsilometer.posteriors.posterior import CountPosterior

Array = NDArray[Any]

Kinds = Mapping[str, Mapping[str, Callable[..., Any]]]
"""Classes by the name of a field and their own."""

FORMAT = "epsilometer posterior"
FORMAT_VERSION = 1

STORED_DRAWS = 4000
STORED_DRAWS_SEED = 20170604
"""A posterior by quadrature stores draws for ArviZ, generated with a fixed seed."""

TEXTS = ("model", "provenance", "accuracy", "log_evidence", "diagnostics")
LATER_TEXTS = ("batches", "tables", "measured", "flaws")
"""Texts that some files lack: included in the digest only if present.  Batches are no longer written."""

STORED_NAME = {"_r": "cross_correlation_fraction"}
"""The name in files of the density of r = rho / bound(tau)."""


def grid_to_datatree(posterior: GridPosterior) -> xarray.DataTree:
    """A posterior by quadrature as a tree: draws, counts and the grid itself."""
    drawn = posterior.draws(STORED_DRAWS, rng=np.random.default_rng(STORED_DRAWS_SEED))
    grid: dict[str, tuple[tuple[str, ...], Array]] = {}
    for parameter, density in posterior.marginals.items():
        name = STORED_NAME.get(parameter, parameter)
        grid[f"{name}_breaks"] = ((f"{name}_break",), density.breaks)
        grid[f"{name}_density"] = ((f"{name}_panel", f"{name}_node"), density.values)
    cells = posterior.cells
    grid |= {
        "row_epsilon": (("row",), cells.epsilon),
        "cell_row": (("cell",), cells.row),
        "cell_strength": (("cell",), cells.strength),
        "cell_mass": (("cell",), cells.mass),
    }
    if cells.log_nuisance.size:
        grid["cell_log_nuisance"] = (("cell", "nuisance"), cells.log_nuisance)
    grid |= posterior.nuisance.stored()
    return _tree(
        posterior,
        {name: values[None, :] for name, values in drawn.items()},
        grid=grid,
        texts={
            "accuracy": json.dumps(asdict(posterior.accuracy)),
            "log_evidence": json.dumps(posterior.log_evidence),
        },
        draws_seed=STORED_DRAWS_SEED,
    )


def samples_to_datatree(posterior: SamplePosterior) -> xarray.DataTree:
    """A posterior by sampling as a tree: its chains, the counts, the diagnostics."""
    return _tree(
        posterior,
        posterior.samples,
        texts={"diagnostics": json.dumps(posterior.diagnostics.to_dict())},
    )


def _tree(
    posterior: CountPosterior,
    samples: Mapping[str, Array],
    *,
    texts: Mapping[str, str],
    grid: Mapping[str, tuple[tuple[str, ...], Array]] | None = None,
    **draw_attributes: int,
) -> xarray.DataTree:
    import xarray

    shape = next(iter(samples.values())).shape if samples else (1, STORED_DRAWS)
    draws = xarray.Dataset(
        {name: (("chain", "draw"), values) for name, values in samples.items()},
        coords={"chain": np.arange(shape[0]), "draw": np.arange(shape[1])},
        attrs=library() | draw_attributes,
    )
    counts = posterior.counts
    observed = xarray.Dataset(
        {column: ("challenge_base", getattr(counts, column)) for column in COLUMNS}
    )
    for column, labels in (("challenge_base", counts.names), ("group", counts.groups)):
        if labels:
            names, escaped = stored_names(labels)
            observed[column] = ("challenge_base", names, {"names_are_json": int(escaped)})
    groups = {"posterior": draws, "observed_data": observed}
    if grid is not None:
        groups["grid"] = xarray.Dataset(dict(grid))
    return assembled(
        groups,
        {
            "model": json.dumps(values_of(posterior.model)),
            "provenance": posterior.provenance.to_json(),
            **(
                {}
                if counts.measured is None
                else {"measured": json.dumps(counts.measured.columns())}
            ),
            **flaws_text(counts.flaws),
            **texts,
        },
    )


def flaws_text(flaws: tuple[str, ...]) -> dict[str, str]:
    """What is known against the data, as a text of the file; empty if nothing is."""
    return {"flaws": json.dumps(flaws)} if flaws else {}


def library() -> dict[str, str]:
    """Attributes required by ArviZ: the library that created the file."""
    return {
        "inference_library": "epsilometer",
        "inference_library_version": versions()["epsilometer"],
    }


def assembled(groups: Mapping[str, xarray.Dataset], texts: Mapping[str, str]) -> xarray.DataTree:
    """Combine groups and texts into one tree, with the digest of its contents."""
    import xarray

    root = xarray.Dataset(
        attrs={"format": FORMAT, "format_version": FORMAT_VERSION, **texts, **library()}
    )
    tree = xarray.DataTree.from_dict({"/": root, **{f"/{k}": v for k, v in groups.items()}})
    arrays = {
        f"{group}/{name}": np.asarray(variable.values)
        for group, data in groups.items()
        for name, variable in data.variables.items()
        if str(name) in data.data_vars or str(name) == "challenge_base"
    }
    tree.attrs["digest"] = digest(arrays, {str(key): value for key, value in tree.attrs.items()})
    return tree


def stored_names(names: tuple[str, ...]) -> tuple[Array, bool]:
    """Names as stored in a file; all as JSON if any contains what HDF5 text cannot hold."""
    text = "".join(names)
    escaped = "\0" in text or text.encode(errors="ignore").decode() != text
    return np.array([json.dumps(n) for n in names] if escaped else names, dtype=object), escaped


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
