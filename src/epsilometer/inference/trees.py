"""Posteriors as labelled trees: what a file holds, and the digest that tells whether it is sound.

The layout is ArviZ's: a group ``posterior`` with draws, a group ``observed_data`` with the counts; a
posterior by quadrature adds the group ``grid``, from which it is restored.  Files are read in
`storage.py`.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.inference.provenance import versions
from epsilometer.model.count_tables import COLUMNS
from epsilometer.model.joint import AuditModel

if TYPE_CHECKING:
    import xarray

    from epsilometer.inference.grid_posterior import GridPosterior
    from epsilometer.inference.posterior import Posterior
    from epsilometer.inference.sample_posterior import SamplePosterior

Array = NDArray[Any]

FORMAT = "epsilometer posterior"
FORMAT_VERSION = 1

STORED_DRAWS = 4000
STORED_DRAWS_SEED = 20170604
"""A posterior by quadrature stores draws for ArviZ, always the same ones."""

TEXTS = ("model", "provenance", "accuracy", "log_evidence", "diagnostics")
LATER_TEXTS = ("batches",)
"""Texts that the first files did not have: in the digest only where they are."""

STORED_NAME = {"_r": "cross_correlation_fraction"}
"""The density of r = rho / bound(tau) has a public name in files."""


def grid_to_datatree(posterior: GridPosterior) -> xarray.DataTree:
    """A posterior by quadrature as a tree: draws, counts and the grid itself."""
    drawn = posterior.draws(STORED_DRAWS, rng=np.random.default_rng(STORED_DRAWS_SEED))
    grid: dict[str, tuple[tuple[str, ...], Array]] = {}
    for parameter, density in posterior.marginals.items():
        name = STORED_NAME.get(parameter, parameter)
        grid[f"{name}_breaks"] = ((f"{name}_break",), density.breaks)
        grid[f"{name}_density"] = ((f"{name}_panel", f"{name}_node"), density.values)
    cells, nuisance = posterior.cells, posterior.nuisance
    grid |= {
        "row_epsilon": (("row",), cells.epsilon),
        "cell_row": (("cell",), cells.row),
        "cell_strength": (("cell",), cells.strength),
        "cell_mass": (("cell",), cells.mass),
    }
    stored = nuisance.stored()
    if cells.log_nuisance.size:
        grid["cell_log_nuisance"] = (("cell", "nuisance"), cells.log_nuisance)
    grid |= stored
    return _tree(
        posterior,
        {name: values[None, :] for name, values in drawn.items()},
        grid=grid,
        texts={
            "accuracy": json.dumps(asdict(posterior.accuracy)),
            "log_evidence": json.dumps(posterior.log_evidence),
        },
        draw_attributes={"draws_seed": STORED_DRAWS_SEED},
    )


def samples_to_datatree(posterior: SamplePosterior) -> xarray.DataTree:
    """A posterior by sampling as a tree: its chains, the counts, the diagnostics."""
    return _tree(
        posterior,
        posterior.samples,
        grid=None,
        texts={"diagnostics": json.dumps(posterior.diagnostics.to_dict())},
        draw_attributes={},
    )


def _tree(
    posterior: Posterior,
    samples: Mapping[str, Array],
    *,
    grid: Mapping[str, tuple[tuple[str, ...], Array]] | None,
    texts: Mapping[str, str],
    draw_attributes: Mapping[str, int],
) -> xarray.DataTree:
    import xarray

    library = {"inference_library": "epsilometer"}
    library["inference_library_version"] = versions()["epsilometer"]
    shape = next(iter(samples.values())).shape if samples else (1, STORED_DRAWS)
    draws = xarray.Dataset(
        {name: (("chain", "draw"), values) for name, values in samples.items()},
        coords={"chain": np.arange(shape[0]), "draw": np.arange(shape[1])},
        attrs=library | dict(draw_attributes),
    )
    labels, escaped = _stored_names(posterior.counts.names)
    observed = xarray.Dataset(
        {column: ("challenge_base", getattr(posterior.counts, column)) for column in COLUMNS},
        coords={"challenge_base": np.array(labels, dtype=object)},
    )
    observed["challenge_base"].attrs["names_are_json"] = int(escaped)
    if posterior.counts.groups:
        stored, escaped = _stored_names(posterior.counts.groups)
        observed["group"] = ("challenge_base", np.array(stored, dtype=object))
        observed["group"].attrs["names_are_json"] = int(escaped)
    groups = {"posterior": draws, "observed_data": observed}
    if grid is not None:
        groups["grid"] = xarray.Dataset(dict(grid))
    root = xarray.Dataset(
        attrs={
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "model": json.dumps(_model_data(posterior.model)),
            "provenance": posterior.provenance.to_json(),
            "batches": json.dumps([batch.to_dict() for batch in posterior.batches]),
            **texts,
            **library,
        }
    )
    tree = xarray.DataTree.from_dict({"/": root, **{f"/{k}": v for k, v in groups.items()}})
    arrays = {
        f"{group}/{name}": np.asarray(variable.values)
        for group, data in groups.items()
        for name, variable in data.data_vars.items()
    }
    arrays["observed_data/challenge_base"] = np.array(labels, dtype=object)
    tree.attrs["digest"] = digest(arrays, {str(key): value for key, value in tree.attrs.items()})
    return tree


def _stored_names(names: tuple[str, ...]) -> tuple[list[str], bool]:
    """Names as they may stand in a file; all as JSON if one holds what HDF5 text cannot."""
    if any("\0" in name or not _encodable(name) for name in names):
        return [json.dumps(name) for name in names], True
    return list(names), False


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def write(tree: xarray.DataTree, path: str | PathLike[str]) -> None:
    """Write a tree to a NetCDF file.  The file appears whole or not at all.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    target = Path(path)
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
    for name in TEXTS:
        running.update(f"\n{name}={attributes.get(name, '')}".encode())
    for name in LATER_TEXTS:
        if name in attributes:
            running.update(f"\n{name}={attributes[name]}".encode())
    return running.hexdigest()


def _named(value: object) -> dict[str, object]:
    """A frozen choice as its name and fields."""
    data: dict[str, object] = {"name": type(value).__name__}
    for part in fields(value):  # type: ignore[arg-type]
        if part.init:
            inner = getattr(value, part.name)
            data[part.name] = _named(inner) if is_dataclass(inner) else inner
    return data


def _model_data(model: AuditModel) -> dict[str, object]:
    return {
        "delta": model.delta,
        "epsilon": _named(model.epsilon),
        "strength": _named(model.strength),
        "likelihood": _named(model.likelihood),
        "dependence": _named(model.dependence),
    }
