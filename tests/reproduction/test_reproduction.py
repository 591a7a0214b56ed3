"""Every figure and the table are made from the losses in the tree, by the public interface alone."""

from __future__ import annotations

import ast
import gzip
import hashlib
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epsilometer as em
from epsilometer.datasets.named import load_population
from reproduction.__main__ import NAMES, main
from tests.golden import reference

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted((ROOT / "reproduction").rglob("*.py"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The figures of made-up counts, by the exact engine."""
    output = tmp_path_factory.mktemp("made")
    assert main(["figure2", "figure3", "--output", str(output)]) == 0
    return output


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything but the figures of chains, by the exact engine."""
    output = tmp_path_factory.mktemp("whole")
    names = [name for name in NAMES if name not in ("figure6", "traces")]
    assert main([*names, "--output", str(output)]) == 0
    return output


def _numbers(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text(encoding="utf-8"))


def test_scripts_use_the_public_interface_only() -> None:
    assert len(SCRIPTS) > 10
    for path in SCRIPTS:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and not node.level:
                assert str(node.module).partition(".")[0] != "epsilometer", path
            if isinstance(node, ast.Import):
                assert all(not alias.name.startswith("epsilometer.") for alias in node.names), path
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "em"
            ):
                assert node.attr in dir(em), (path, node.attr)


def test_figure_2_has_the_reference_intervals(made: Path) -> None:
    numbers = _numbers(made, "figure2.json")
    found = {row["strength"]: row for row in numbers["by_strength"]}
    compared = 0
    for (trials, errors, strength), expected in reference.FIXED_STRENGTH.items():
        if (trials, errors) == (500, 200):
            row = found[strength]
            # The reference has four digits.
            np.testing.assert_allclose(
                [row["low"], row["median"], row["high"]], expected, atol=3e-4
            )
            compared += 1
    assert compared >= 5


def test_figure_3_has_the_reference_posterior_of_strong_attacks(made: Path) -> None:
    found = _numbers(made, "figure3.json")["strong"]
    # Values of a brute-force grid, good to 0.0005.
    np.testing.assert_allclose(found["epsilon"], [2.695, 2.926, 3.525], atol=2e-3)
    np.testing.assert_allclose(found["strength"], [0.568, 0.710, 0.795], atol=2e-3)


def _check_pictures(folder: Path, numbers: tuple[int, ...]) -> None:
    from matplotlib.image import imread

    for number in numbers:
        picture = imread(folder / f"figure{number}.png")
        assert min(picture.shape[:2]) > 400
        # Ink: neither blank nor a block.
        assert 0.02 < np.mean(picture[..., :3] < 0.9) < 0.6
        assert (folder / f"figure{number}.pdf").read_bytes().startswith(b"%PDF")


def test_figures_are_pictures(made: Path) -> None:
    _check_pictures(made, (2, 3))


@pytest.mark.slow
def test_all_figures_are_pictures(whole: Path) -> None:
    _check_pictures(whole, (2, 3, 4, 5))


@pytest.mark.slow
def test_randomness_and_noise_lower_epsilon(whole: Path) -> None:
    """The order of the paper's table, by medians, for both statistics."""
    for statistic in ("loss", "logit"):
        median = {
            row["algorithm"]: row["median"]
            for row in _numbers(whole, "table1.json")
            if row["statistic"] == statistic
        }
        assert median["A1"] > median["A3"]
        assert median["A2"] > median["A4-0.05"] > median["A4"]
        assert median["A4-0.01"] > median["A4-0.05"]


@pytest.mark.slow
def test_every_estimate_can_be_quoted(whole: Path) -> None:
    for name in ("table1.json", "table1-curves.json"):
        assert all(row["trustworthy"] for row in _numbers(whole, name))


@pytest.mark.slow
def test_one_base_holds_epsilon_up_where_the_count_model_sees_little(whole: Path) -> None:
    """What the README says of A3 and A4 with noise 0.1."""
    counted = {
        row["algorithm"]: row
        for row in _numbers(whole, "table1.json")
        if row["statistic"] == "logit"
    }
    curves = {row["algorithm"]: row for row in _numbers(whole, "table1-curves.json")}
    for name in ("A3", "A4"):
        row = curves[name]
        assert row["largest_auc"] > 0.8
        assert row["low"] > row["proved"]
        assert row["low"] > counted[name]["high"]
        # Attacks that are all alike cannot be: most bases look like guessing.
        assert row["probability_alike"] < 1e-6
    assert counted["A3"]["low"] < curves["A3"]["proved"]
    assert counted["A4"]["median"] < curves["A4"]["proved"]


@pytest.mark.slow
def test_noise_lowers_the_epsilon_of_the_curve_model_within_a_family(whole: Path) -> None:
    """More noise on the same models cannot leak more; between families the prior decides."""
    curves = {row["algorithm"]: row for row in _numbers(whole, "table1-curves.json")}
    for family in ("gaussian", "laplace"):
        found = [curves[name][f"{family}_median"] for name in ("A2", "A4-0.01", "A4-0.05", "A4")]
        assert found == sorted(found, reverse=True)
        assert curves["A1"][f"{family}_median"] > curves["A3"][f"{family}_median"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["A1", "A2"])
def test_the_prior_decides_between_families_where_attacks_separate_all_models(name: str) -> None:
    """What the README says: the default prior prefers Laplace curves, one of scale 30 Gaussian ones."""
    audits = import_module("reproduction.audits")
    scores = audits.load_audits()[name].scored(em.attacks.Logit())
    ahead = []
    for prior in (em.priors.HalfNormal(), em.priors.HalfNormal(scale=30.0)):
        models = [
            em.CurveModel(
                delta=1e-3, epsilon=prior, families=(family,), mixing=em.families.NoMixing()
            )
            for family in (em.families.Gaussian(), em.families.Laplace())
        ]
        gaussian, laplace = (em.estimate(scores, model).log_evidence for model in models)
        ahead.append(gaussian - laplace)
    assert ahead[0] < 0 < ahead[1]


@pytest.mark.slow
def test_what_a_base_has_shown_is_no_more_than_the_algorithm_leaks(whole: Path) -> None:
    for row in _numbers(whole, "table1-curves.json"):
        # Both are sums on grids, good to one part in a hundred.
        assert row["shown_low"] <= 1.01 * row["low"]
        assert row["shown_high"] <= 1.01 * row["high"]


@pytest.mark.slow
def test_the_written_comparison_has_the_table_that_is_made(whole: Path) -> None:
    text = (ROOT / "reproduction" / "README.md").read_text(encoding="utf-8")
    made = sorted(path.name for path in whole.glob("table1*.md"))
    assert made == ["table1-families.md", "table1-modes.md", "table1-worst.md", "table1.md"]
    for name in made:
        for line in (whole / name).read_text(encoding="utf-8").splitlines():
            assert line in text


def test_tables_of_the_readme_are_replaced_by_their_headers() -> None:
    update = import_module("reproduction.update_readme").updated
    text = "before\n\n| a | b |\n| - | - |\n| 1 | 2 |\n\nafter\n"
    assert update(text, "| a | b |\n| - | - |\n| 3 | 4 |\n| 5 | 6 |\n") == text.replace(
        "| 1 | 2 |", "| 3 | 4 |\n| 5 | 6 |"
    )
    with pytest.raises(ValueError, match="not found"):
        update(text, "| c |\n| - |\n")


def test_the_written_agreement_is_what_was_measured() -> None:
    folder = ROOT / "reproduction"
    text = (folder / "README.md").read_text(encoding="utf-8")
    for found in _numbers(folder / "experiment", "agreement.json").values():
        h0, h1 = found["h0"], found["h1"]
        assert f"| {h0['correlation']:.2f}, {h1['correlation']:.2f} |" in text
        assert f"| {h0['typical_ratio']:.2f}, {h1['typical_ratio']:.2f} |" in text
        assert f"| {found['epsilon'][0]:.2f} to {found['epsilon'][2]:.2f} |" in text


def test_the_losses_are_those_of_the_plan() -> None:
    """Complete, and under the hash of the audit files beside them."""
    folder = ROOT / "reproduction" / "experiment"
    audits = import_module("reproduction.audits")
    plans = json.loads((folder / "losses" / "plan.json").read_text(encoding="utf-8"))
    for name, audit in audits.load_audits().items():
        h0, h1 = audit.losses.by_hypothesis()
        assert h0.shape == h1.shape == (20, 100), name
        assert np.isfinite(h0).all()
        assert np.isfinite(h1).all()
    for config in ("fixed", "random"):
        identity = plans[config]["identity"]
        text = (folder / f"{config}.toml").read_text(encoding="utf-8")
        import tomllib

        table = tomllib.loads(text)
        assert identity["seed"] == table["audit"]["seed"]
        assert identity["bases"]["dataset_size"] == table["audit"]["dataset_size"]
        inside = identity["algorithm"]["settings"]["algorithm"]["settings"]
        for name, value in table["algorithm"]["options"].items():
            if name != "initialisation":
                assert inside[name] == value


@pytest.mark.slow
def test_chains_make_their_figures(tmp_path: Path) -> None:
    workshop = import_module("reproduction.workshop")
    shop = workshop.Workshop(
        tmp_path,
        sampler=em.engines.McmcSettings(num_iterations=1200, num_warmup=300, num_chains=2, seed=1),
        say=lambda _: None,
    )
    for name in ("figure6", "traces"):
        import_module(f"reproduction.{name}.make").make(shop)
        assert (tmp_path / f"{name}.png").stat().st_size > 20_000


def test_autocorrelations_of_a_chain_that_is_known() -> None:
    """An autoregressive chain forgets by a constant factor each step."""
    drawing = import_module("reproduction.drawing")
    rng = np.random.default_rng(1)
    chain, factor = np.zeros(200_000), 0.8
    for step, noise in enumerate(rng.standard_normal(len(chain) - 1)):
        chain[step + 1] = factor * chain[step] + noise
    found = drawing.autocorrelations(chain, 10)
    # Standard error of each is below 0.006 for 200,000 steps; five of them.
    np.testing.assert_allclose(found, factor ** np.arange(11), atol=0.03)


def test_names_and_engines_are_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for wrong, known in ((["figure7"], "figure2"), (["figure2", "--engine", "guess"], "published")):
        with pytest.raises(SystemExit, match="2"):
            main([*wrong, "--output", str(tmp_path)])
        assert known in capsys.readouterr().err


def test_published_images_become_the_population(tmp_path: Path) -> None:
    mnist: Any = import_module("reproduction.mnist")
    files = {"train-images-idx3-ubyte": bytes(16) + bytes(range(7)) * 224}
    files["train-labels-idx1-ubyte"] = bytes(8) + bytes([3, 9])
    with pytest.MonkeyPatch.context() as patched:
        hashes = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
        patched.setattr(mnist, "CHECKSUMS", hashes)
        (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(
            gzip.compress(files[next(iter(files))])
        )
        (tmp_path / "train-labels-idx1-ubyte").write_bytes(files["train-labels-idx1-ubyte"])
        mnist.convert(tmp_path, tmp_path / "mnist.npz")
    images = load_population("mnist.npz", folder=tmp_path)
    assert images.features.shape == (2, 784)
    assert images.features.dtype == np.float32
    assert images.features[0, 5] == np.float32(5) / np.float32(255)
    assert images.labels is not None
    assert images.labels.tolist() == [3, 9]
    with pytest.raises(SystemExit, match="not the published file"):
        mnist.convert(tmp_path, tmp_path / "other.npz")
