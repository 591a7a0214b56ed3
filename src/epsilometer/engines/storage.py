"""Read posteriors from NetCDF files; `trees.py` and `curve/files.py` define the contents."""

from __future__ import annotations

import math
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from epsilometer import _files
from epsilometer.engines.curve import files
from epsilometer.engines.exact.engine import ExactSettings
from epsilometer.engines.exact.groups import SpreadGrid
from epsilometer.engines.exact.nuisance import CorrelationGrid, NoNuisance, NuisanceGrid
from epsilometer.engines.exact.posterior import Cells, GridAccuracy, GridPosterior
from epsilometer.errors import EpsilometerError, InputError
from epsilometer.model.count_tables import COLUMNS, MeasuredBy
from epsilometer.model.counts import AttackCounts
from epsilometer.model.dependence import DEPENDENCES, SCATTERS
from epsilometer.model.likelihoods import LIKELIHOODS
from epsilometer.model.models import CountModel
from epsilometer.model.priors import PRIORS
from epsilometer.posteriors import trees
from epsilometer.posteriors.panels import PanelDensity
from epsilometer.posteriors.provenance import Provenance
from epsilometer.posteriors.reader import Reader

if TYPE_CHECKING:
    from epsilometer.engines.mcmc.driver import McmcSettings
    from epsilometer.engines.mcmc.posterior import SamplePosterior

#: Classes that a field of the model may have in a file.
KINDS: trees.Kinds = {
    "epsilon": PRIORS,
    "strength": PRIORS,
    "likelihood": LIKELIHOODS,
    "dependence": DEPENDENCES,
    "scatter": {kind.__name__: kind for kind in SCATTERS.values()},
    "spread": PRIORS,
}

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
            return _restore(Reader(file, h5py))
    except EpsilometerError as error:
        raise InputError(f"{source}: {error}") from None
    except _DAMAGE as error:
        short = " ".join(str(error).split())[:120]
        raise InputError(f"{source}: the file is damaged ({short}).") from None


def _restore(reader: Reader) -> Any:
    if reader.text("tables"):
        return files.restore(reader)
    columns = {column: reader.get(f"observed_data/{column}", ndim=1) for column in COLUMNS}
    counts = AttackCounts(
        **columns,
        names=reader.names("challenge_base"),
        groups=reader.names("group") if "observed_data/group" in reader.arrays else None,
        # Older files do not say how counts were measured.
        measured=MeasuredBy(**reader.json("measured")) if reader.text("measured") else None,
    ).with_flaws(reader.flaws)
    # Older files have no groups and name no dependence.
    data = {"dependence": {"name": "ScatteredMembers"}} | reader.json("model")
    model = trees.model_of(CountModel, data, KINDS)
    provenance = Provenance.from_json(reader.text("provenance"))
    make = _restore_samples if reader.text("diagnostics") else _restore_grid
    return make(reader, counts, model, provenance)


def _restore_grid(
    reader: Reader, counts: AttackCounts, model: CountModel, provenance: Provenance
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
    accuracy = GridAccuracy(**reader.json("accuracy"))
    most_levels: Any = provenance.settings.get("most_levels", ExactSettings.most_levels)
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


def _restore_nuisance(reader: Reader) -> NuisanceGrid:
    """The nuisance grid that the file's arrays belong to."""
    names = [name for name in reader.arrays if name.startswith("grid/nuisance_")]
    arrays = {name.removeprefix("grid/"): reader.floats(name, ndim=1) for name in names}
    if "nuisance_spread" in arrays:
        breaks = np.zeros(0)
        if "grid/spread_breaks" in reader.arrays:
            breaks = reader.floats("grid/spread_breaks", ndim=1)
        return SpreadGrid.restored(arrays, breaks)
    return CorrelationGrid.restored(arrays) if arrays else NoNuisance()


def _density(reader: Reader, parameter: str) -> PanelDensity:
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
    reader: Reader, counts: AttackCounts, model: CountModel, provenance: Provenance
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
    from epsilometer.engines.mcmc import driver as mcmc

    known: dict[str, Any] = dict(provenance.settings)
    kinds: trees.Kinds = {
        "auxiliaries": trees.by_name(mcmc.UniformAuxiliaries, mcmc.InformedAuxiliaries),
        "proposal": trees.by_name(mcmc.FixedRandomWalk, mcmc.TunedRandomWalk),
    }
    for name in ("sampler", "num_sweeps"):  # of groups, in older files
        known.pop(name, None)
    if isinstance(known.get("auxiliaries"), str):
        known["auxiliaries"] = {"name": known["auxiliaries"]}
    if provenance.seed is not None:
        known["seed"] = provenance.seed
    return mcmc.McmcSettings(**trees.objects_of(known, kinds))
