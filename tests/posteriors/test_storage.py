"""A loaded posterior must give the same results as the stored one; other files must be refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest
import xarray

import epsilometer as em
from epsilometer.engines.estimate import estimate
from epsilometer.engines.exact.posterior import GridPosterior
from epsilometer.engines.mcmc.diagnostics import diagnose
from epsilometer.engines.mcmc.posterior import SamplePosterior
from epsilometer.posteriors import trees
from epsilometer.posteriors.posterior import CountPosterior
from epsilometer.posteriors.provenance import Provenance


def counts(names: list[str] | None = None) -> em.AttackCounts:
    return em.AttackCounts(
        false_positives=[10, 30], trials_h0=100, false_negatives=[20, 30], trials_h1=80, names=names
    )


def grid(**model: Any) -> Any:
    return estimate(counts(), em.CountModel(delta=0.01, **model))


def sampled(**model: object) -> SamplePosterior:
    rng = np.random.default_rng(1)
    audit = em.CountModel(delta=0.01, **model)  # type: ignore[arg-type]
    samples = {name: rng.random((3, 50)) for name in audit.parameters_of(counts())}
    return SamplePosterior(
        counts=counts(),
        model=audit,
        provenance=Provenance(engine="mcmc", settings={"num_chains": 3}, seconds=1.5, seed=7),
        samples=samples,
        # One chain that never moved: its R-hat is infinite, which JSON cannot represent.
        diagnostics=diagnose(samples | {"stuck": np.ones((3, 50))}, acceptance_rate=0.25),
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: grid(epsilon=em.priors.Uniform(upper=9)),
        lambda: grid(epsilon=em.priors.LogNormal(median=2, log_scale=0.3)),
        lambda: sampled(
            epsilon=em.priors.Exponential(mean=3), likelihood=em.likelihoods.CorrelatedNormal()
        ),
    ],
)
def test_what_only_one_engine_states_is_restored(make: object, tmp_path: Path) -> None:
    """All other answers are in the contract of engines."""
    posterior: CountPosterior = make()  # type: ignore[operator]
    path = tmp_path / "posterior.nc"
    posterior.save(path)
    restored = em.load(path)
    assert restored.model == posterior.model
    assert restored.provenance == posterior.provenance
    if isinstance(posterior, GridPosterior):
        assert isinstance(restored, GridPosterior)
        assert restored.accuracy == posterior.accuracy
        assert restored.log_evidence == posterior.log_evidence
    else:
        assert isinstance(posterior, SamplePosterior)
        assert isinstance(restored, SamplePosterior)
        assert restored.diagnostics == posterior.diagnostics
    # Stored again, nothing changes.
    restored.save(tmp_path / "again.nc")
    assert em.load(tmp_path / "again.nc").mean("epsilon") == posterior.mean("epsilon")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["again.nc", "posterior.nc"]


@pytest.mark.parametrize(
    "names",
    [
        ["plain", "Größe 日本"],
        ["nul\0inside", "b"],
        ["\ud800 alone", ""],
        ['"', "a\nb\\"],
        ["", ""],
    ],
)
def test_any_text_may_name_a_base(names: list[str], tmp_path: Path) -> None:
    posterior = estimate(counts(names), em.CountModel(delta=0.01))
    posterior.save(tmp_path / "p.nc")
    assert em.load(tmp_path / "p.nc").counts.names == tuple(names)


def test_layout_is_the_one_arviz_knows(tmp_path: Path) -> None:
    posterior = grid()
    posterior.save(tmp_path / "p.nc")
    with xarray.open_datatree(tmp_path / "p.nc", engine="h5netcdf") as tree:
        draws = tree["posterior"]
        assert draws["epsilon"].dims == ("chain", "draw")
        assert draws["epsilon"].shape == (1, trees.STORED_DRAWS)
        assert tree["observed_data/challenge_base"].to_numpy().tolist() == ["0", "1"]
        assert tree["observed_data/false_positives"].to_numpy().tolist() == [10, 30]
        assert draws.attrs["inference_library"] == "epsilometer"
        assert json.loads(tree.attrs["model"])["epsilon"]["name"] == "HalfNormal"
        assert json.loads(tree.attrs["provenance"])["engine"] == "exact"
    chains = sampled().to_datatree()
    assert chains["posterior"]["epsilon"].shape == (3, 50)
    assert "grid" not in chains


def assert_refused(path: Path, *, match: str) -> None:
    with pytest.raises(em.InputError, match=match):
        em.load(path)


def test_files_of_another_kind_are_refused(tmp_path: Path) -> None:
    assert_refused(tmp_path / "none.nc", match="cannot be read")
    assert_refused(tmp_path, match="cannot be read")
    for content in (b"", b"CDF\x01", b"\x80\x04pickle", b"\x89HDF\r\n\x1a\n", b"a,b\n1,2\n"):
        (tmp_path / "x.nc").write_bytes(content)
        assert_refused(tmp_path / "x.nc", match=r"x\.nc: ")
    xarray.Dataset({"a": ("x", [1.0])}).to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    assert_refused(tmp_path / "other.nc", match="written by epsilometer")


def test_truncated_and_altered_files_are_refused(tmp_path: Path) -> None:
    grid().save(tmp_path / "p.nc")
    whole = (tmp_path / "p.nc").read_bytes()
    for share in (0.1, 0.5, 0.9, 0.999):
        (tmp_path / "cut.nc").write_bytes(whole[: int(len(whole) * share)])
        assert_refused(tmp_path / "cut.nc", match="damaged")
    for name in ("grid/cell_mass", "observed_data/false_positives", "grid/epsilon_density"):
        (tmp_path / "altered.nc").write_bytes(whole)
        with h5py.File(tmp_path / "altered.nc", "r+") as file:
            file[name][...] = file[name][()] + 1
        assert_refused(tmp_path / "altered.nc", match="digest")


def test_every_flipped_byte_is_noticed_or_harmless(tmp_path: Path) -> None:
    posterior = grid()
    posterior.save(tmp_path / "p.nc")
    whole = (tmp_path / "p.nc").read_bytes()
    rng = np.random.default_rng(3)
    for place in rng.integers(0, len(whole), 60):
        damaged = bytearray(whole)
        damaged[place] ^= 0xFF
        (tmp_path / "d.nc").write_bytes(damaged)
        try:
            restored = em.load(tmp_path / "d.nc")
        except em.InputError as error:
            assert "\n" not in str(error)  # noqa: PT017 - either outcome is right
        else:
            assert restored.median("epsilon") == posterior.median("epsilon")


@pytest.mark.parametrize(
    ("attribute", "value", "match"),
    [
        ("format_version", 2, "format version 1, got 2"),
        ("format", "something else", "written by epsilometer"),
        ("model", '{"delta": 0.02}', "digest"),
        ("digest", "", "digest"),
    ],
)
def test_unknown_attributes_are_refused(
    attribute: str, value: object, match: str, tmp_path: Path
) -> None:
    grid().save(tmp_path / "p.nc")
    with h5py.File(tmp_path / "p.nc", "r+") as file:
        file.attrs[attribute] = value
    assert_refused(tmp_path / "p.nc", match=match)


@pytest.mark.parametrize(
    "model",
    [
        '{"delta": 0.01}',
        "[]",
        "not JSON",
        '{"delta": 2, "epsilon": {"name": "HalfNormal"}, "strength": {"name": "Beta"}, '
        '"likelihood": {"name": "IndependentBinomial"}}',
        '{"delta": 0.01, "epsilon": {"name": "os.system"}, "strength": {"name": "Beta"}, '
        '"likelihood": {"name": "IndependentBinomial"}}',
        '{"delta": 0.01, "epsilon": {"name": "HalfNormal", "evil": 1}, '
        '"strength": {"name": "Beta"}, "likelihood": {"name": "IndependentBinomial"}}',
    ],
)
def test_a_forged_model_is_refused_even_with_a_right_digest(model: str, tmp_path: Path) -> None:
    path = tmp_path / "p.nc"
    tree = grid().to_datatree()
    tree.attrs["model"] = model
    arrays = {
        f"{group}/{name}": np.asarray(variable.values)
        for group in ("posterior", "observed_data", "grid")
        for name, variable in tree[group].dataset.data_vars.items()
    }
    names = tree["observed_data"]["challenge_base"].values
    arrays["observed_data/challenge_base"] = np.asarray(names, dtype=object)
    tree.attrs["digest"] = trees.digest(arrays, {str(k): v for k, v in tree.attrs.items()})
    tree.to_netcdf(path, engine="h5netcdf")
    with pytest.raises(em.InputError) as caught:
        em.load(path)
    assert "digest" not in str(caught.value)


def test_links_out_of_the_file_are_refused(tmp_path: Path) -> None:
    grid().save(tmp_path / "p.nc")
    (tmp_path / "other.nc").write_bytes((tmp_path / "p.nc").read_bytes())
    with h5py.File(tmp_path / "p.nc", "r+") as file:
        del file["observed_data/false_positives"]
        file["observed_data/false_positives"] = h5py.ExternalLink(
            "other.nc", "/observed_data/false_positives"
        )
    assert_refused(tmp_path / "p.nc", match="inside the file")


def test_saving_where_nothing_can_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        grid().save(tmp_path / "missing" / "p.nc")
    assert list(tmp_path.iterdir()) == []
