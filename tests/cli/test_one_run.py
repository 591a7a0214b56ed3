"""``epsilometer audit`` of one training run: canaries in, proof, estimate, verdict and page out."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import epsilometer as em
from epsilometer.cli.main import run

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "one-run"

CONFIG = """
[population]
source = "directions"
[audit]
design = "one-run"
canaries = 300
dataset_size = 50
seed = 1
[algorithm]
object = "clipped-mean"
options = { noise = 0.004, records = 200 }
[estimate]
delta = 1e-5
"""


LEAKING = """
[population]
source = "digits"
[audit]
design = "one-run"
canaries = 300
canary_kind = "mislabelled"
dataset_size = 400
seed = 1
[algorithm]
object = "network"
options = { hidden = 64, classes = 10, epochs = 100, batch_size = 20, learning_rate = 0.1 }
[estimate]
delta = 1e-5
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "one-run.toml"
    path.write_text(CONFIG)
    return path


@pytest.fixture
def leaking(config: Path) -> Path:
    config.write_text(LEAKING)
    return config


def edited(config: Path, old: str, new: str) -> Path:
    assert old in config.read_text()
    config.write_text(config.read_text().replace(old, new))
    return config


def answered(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run([*arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_whole_way(leaking: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A network learns mislabelled digits by heart: that is proven from one run."""
    folder = tmp_path / "result"
    found = answered(
        capsys, "audit", str(leaking), "--claim", "1", "--output", str(folder),
        "--report", str(tmp_path / "page.html"),
    )  # fmt: skip
    assert found["models_trained"] == 1
    assert 1 < found["proof"]["at_least"] < found["epsilon"]["median"]
    assert found["verdict"]["grounds"] == "proven"
    assert found["plan"]["design"] == "MeasureOneRun"
    assert found["plan"]["canaries"] == 300
    scores = em.Scores.read(folder / "canaries.csv")
    assert scores.one_run
    assert not (folder / "losses.csv").exists()
    for given in (folder, tmp_path / "audit.db", folder / "canaries.csv"):
        again = answered(capsys, "prove", str(given), "--delta", "1e-5", "--claim", "1")
        assert again["at_least"] == pytest.approx(found["proof"]["at_least"])
        assert again["refuted"]
    estimated = answered(capsys, "estimate", str(tmp_path / "audit.db"), "--delta", "1e-5")
    assert estimated["epsilon"]["median"] == pytest.approx(found["epsilon"]["median"])
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Privacy audit: 1 training run from digits" in page
    assert "holds for any dependence between canaries" in page
    assert "challenge base" not in page.split("application/json")[0].split("<script")[0]
    reported = answered(capsys, "report", str(folder))
    assert reported["verdict"] == found["verdict"]


def test_text_speaks_of_canaries(leaking: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", str(leaking), "--claim", "1", "--fail-on", "proven", "--details"]) == 3
    text = capsys.readouterr().out
    assert "FAIL (proven)" in text
    assert "shown (by canaries)" in text
    assert "training runs    1" in text
    assert "challenge base" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert run(["status", str(leaking.with_name("audit.db"))]) == 0
    said = capsys.readouterr().out
    assert "1 of 1 models (100 %)" in said
    assert "1 training run, 300 canaries each" in said
    assert run(["compare", str(leaking.with_name("audit.db")), "--delta", "1e-5"]) == 0
    assert "one-run scan, f-DP" in capsys.readouterr().out


def test_more_runs_later(leaking: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = answered(capsys, "audit", str(leaking))
    edited(leaking, "seed = 1", "seed = 1\nruns = 3")
    three = answered(capsys, "audit", str(leaking))
    assert (three["models_trained"], three["models_reused"]) == (2, 1)
    assert three["num_challenge_bases"] == 3
    assert three["proof"]["at_least"] > one["proof"]["at_least"]
    assert {row["challenge_base"] for row in three["bases"]} == {"run 0", "run 1", "run 2"}


ALL_IN = "canaries = 2\ndataset_size = 50\nseed = 2"
NONE_IN = ALL_IN.replace("seed = 2", "seed = 4")

WRONG = {
    "[audit] replicates is for design many-models and cannot be combined": (
        "seed = 1",
        "seed = 1\nreplicates = 9",
    ),
    "[audit] runs is for design one-run and cannot be combined": (
        'design = "one-run"\ncanaries = 300',
        "runs = 2",
    ),
    "[audit] canary_kind: expected population, mislabelled, noise, gradient": (
        "seed = 1",
        'seed = 1\ncanary_kind = "odd"',
    ),
    "[audit] run 0: mislabelled points need labels": (
        "seed = 1",
        'seed = 1\ncanary_kind = "mislabelled"',
    ),
    "[audit] run 0: expected at most 9950 canaries": ("canaries = 300", "canaries = 20000"),
    "got none of 2 included": ("canaries = 300\ndataset_size = 50\nseed = 1", NONE_IN),
    "got all of 2 included": ("canaries = 300\ndataset_size = 50\nseed = 1", ALL_IN),
    "[audit] expected adjacency include": ("seed = 1", 'seed = 1\nadjacency = "replace"'),
    "[audit] expected an algorithm that supports gradient canaries": (
        "seed = 1",
        'seed = 1\ncanary_kind = "gradient"',
    ),
    "[audit] compare_with initial": ("seed = 1", 'seed = 1\ncompare_with = "initial"'),
    "[attack] target_alpha is for many models": ("[est", "[attack]\ntarget_alpha = 0.1\n[est"),
    "[estimate] model: canaries are read by": ("delta = 1e-5", 'delta = 1e-5\nmodel = "count"'),
    "canary_kind: cannot import nowhere": ("seed = 1", 'seed = 1\ncanary_kind = "nowhere:at_all"'),
}  # fmt: skip


@pytest.mark.parametrize("words", WRONG)
def test_wrong_files(words: str, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edited(config, *WRONG[words])
    assert run(["audit", str(config)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert err.count("\n") == 1


OWN = """
import numpy as np

class Algorithm:
    fingerprint = "fixed"
    def train(self, dataset, rng):
        return dataset.features.mean(axis=0)
    def loss(self, model, point):
        return float("nan") if point.features[0] > 0.2 else -float(point.features @ model)

def crafted(population, count, rng):
    return rng.standard_normal((count, 64)), None

algorithm = Algorithm()
"""


def test_a_loss_that_is_nan_for_some_canaries(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.with_name("nan_loss.py").write_text(OWN)
    edited(
        config, '"clipped-mean"\noptions = { noise = 0.004, records = 200 }', '"nan_loss:algorithm"'
    )
    edited(config, "seed = 1", 'seed = 1\ncanary_kind = "nan_loss:crafted"')
    assert run(["audit", str(config)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "run 0: canary" in err
    assert "expected a finite loss, got loss=nan" in err
    assert err.count("\n") == 1


def test_a_changed_plan_and_another_store(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", str(config)]) == 0
    for old, new, words in (
        ("seed = 1", "seed = 2", "seed is 1 there and 2 here"),
        ("canaries = 300", "canaries = 301", "design.canaries is 300 there and 301 here"),
    ):
        before = config.read_text()
        capsys.readouterr()
        edited(config, old, new)
        assert run(["audit", str(config)]) == 2
        assert words in capsys.readouterr().err
        config.write_text(before)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("losses", "import", "{store}.csv", "{store}"), "can only be added by `audit`"),
        (("attack", "{store}"), "no shadow models to attack with"),
        (("audit", "{config}", "--until-proven", "--claim", "1"), "--until-proven are for many models"),
        (("audit", "{config}", "--until-width", "9"), "--until-proven are for many models"),
    ],
)  # fmt: skip
def test_what_canaries_are_not_for(
    arguments: tuple[str, ...], words: str, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["audit", str(config)]) == 0
    capsys.readouterr()
    store = config.with_name("audit.db")
    assert run(["losses", "export", str(store), f"{store}.csv"]) == 0
    capsys.readouterr()
    assert run([each.format(store=store, config=config) for each in arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert err.count("\n") == 1


def test_gradient_canaries_by_an_audit_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """The algorithm says how many canaries, what is claimed and what their scores look like."""
    folder = EXAMPLE.with_name("gradient-canaries")
    monkeypatch.syspath_prepend(str(folder))
    sys.modules.pop("training", None)
    found = em.rows.read_audit(folder / "audit.toml")
    sys.modules.pop("training", None)
    assert found.plan.design.in_gradients
    assert found.plan.design.canaries == 3000
    assert found.claim is not None
    assert found.claim.epsilon == pytest.approx(1.00, abs=0.01)
    assert found.model is None
    assert found.curve is not None
    assert [family.name for family in found.curve.families] == ["gaussian"]
    other = em.rows.read_audit(folder / "audit.toml", tables={"estimate": {"family": "average"}})
    sys.modules.pop("training", None)
    assert other.curve is not None
    assert len(other.curve.families) == 3


def test_the_example(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The table of the example, with fewer canaries."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    for name in ("table", "training"):
        sys.modules.pop(name, None)
    table = importlib.import_module("table")
    monkeypatch.setattr(sys, "argv", ["table.py", "--canaries", "60", "--quick"])
    table.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert all(line.count("|") == lines[0].count("|") for line in lines)
    for name in ("table", "training"):
        sys.modules.pop(name, None)
