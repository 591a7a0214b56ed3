"""``epsilometer audit`` of one training run: canaries in, proof, estimate, verdict and page out."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from pathlib import Path

import pytest

import epsilometer as em
from epsilometer.cli.main import run
from epsilometer.model.families import FAMILIES
from tests.cli.shell import Shell
from tests.cli.small_audit import audit_text, clipped, edited

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "one-run"

CONFIG = audit_text(
    'design = "one-run"\ncanaries = 300\ndataset_size = 50', clipped(0.004, 200), "delta = 1e-5"
)


LEAKING = audit_text(
    'design = "one-run"\ncanaries = 300\ncanary_kind = "mislabelled"\ndataset_size = 400',
    'object = "network"\noptions = { hidden = 64, classes = 10, epochs = 100, batch_size = 20, '
    "learning_rate = 0.1 }",
    "delta = 1e-5",
    "digits",
)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "one-run.toml"
    path.write_text(CONFIG)
    return path


def audited(folder: Path, text: str, *options: str) -> Path:
    """The configuration of a finished audit, beside its store."""
    path = folder / "one-run.toml"
    path.write_text(text)
    assert run(["audit", str(path), *options]) == 0
    return path


@pytest.fixture(scope="module")
def leaking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network learns mislabelled digits by heart."""
    folder = tmp_path_factory.mktemp("leaking")
    files = ["--output", str(folder / "result"), "--report", str(folder / "page.html")]
    return audited(folder, LEAKING, "--claim", "1", *files)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another one, of a mean."""
    return audited(tmp_path_factory.mktemp("plain"), CONFIG)


def test_the_whole_way(leaking: Path, shell: Shell) -> None:
    """That is proven from one run."""
    folder, store = leaking.with_name("result"), leaking.with_name("audit.db")
    found = json.loads((folder / "summary.json").read_text())
    assert found["models_trained"] == 1
    assert 1 < found["proof"]["at_least"] <= found["shown_at_least"]
    assert found["verdict"]["grounds"] == "proven"
    assert found["plan"]["design"] == "MeasureOneRun"
    assert found["plan"]["canaries"] == 300
    assert em.Scores.read(folder / "canaries.csv").one_run
    assert not (folder / "losses.csv").exists()
    for given in (folder, store, folder / "canaries.csv"):
        again = shell.json("prove", given, "--delta", "1e-5", "--claim", "1")
        assert again["at_least"] == pytest.approx(found["proof"]["at_least"])
        assert again["refuted"]
    estimated = shell.json("estimate", store, "--delta", "1e-5")
    assert estimated["epsilon"]["median"] == pytest.approx(found["epsilon"]["median"])
    page = leaking.with_name("page.html").read_text(encoding="utf-8")
    assert "Privacy audit: 1 training run from digits" in page
    assert "holds for any dependence between canaries" in page
    assert "challenge base" not in page.split("application/json")[0].split("<script")[0]
    assert shell.json("report", folder)["verdict"] == found["verdict"]


def test_text_speaks_of_canaries(leaking: Path, shell: Shell) -> None:
    text = shell.said("audit", leaking, "--claim", "1", "--fail-on", "proven", "--details", code=3)
    assert "FAIL (proven)" in text
    assert "shown (by canaries)" in text
    assert "training runs    1" in text
    assert "challenge base" not in text
    assert max(map(len, text.splitlines())) <= 80
    said = shell.said("status", leaking.with_name("audit.db"))
    assert "1 of 1 models (100 %)" in said
    assert "1 training run, 300 canaries each" in said
    assert "one-run scan, f-DP" in shell.said(
        "compare", leaking.with_name("audit.db"), "--delta", "1e-5"
    )


def test_more_runs_later(leaking: Path, tmp_path: Path, shell: Shell) -> None:
    one = json.loads((leaking.parent / "result" / "summary.json").read_text())
    for name in ("one-run.toml", "audit.db"):
        shutil.copy(leaking.with_name(name), tmp_path)
    config = edited(tmp_path / "one-run.toml", "seed = 1", "seed = 1\nruns = 3")
    three = shell.json("audit", config)
    assert (three["models_trained"], three["models_reused"]) == (2, 1)
    assert three["num_challenge_bases"] == 3
    assert three["proof"]["at_least"] > one["proof"]["at_least"]
    assert {row["challenge_base"] for row in three["bases"]} == {"run 0", "run 1", "run 2"}


ADDED = {
    "[audit] replicates is for design many-models and cannot be combined": "replicates = 9",
    "[audit] canary_kind: expected population, mislabelled, noise, gradient": 'canary_kind = "odd"',
    "[audit] run 0: mislabelled points need labels": 'canary_kind = "mislabelled"',
    "[audit] expected an algorithm that supports gradient": 'canary_kind = "gradient"',
    "canary_kind: cannot import nowhere": 'canary_kind = "nowhere:at_all"',
}
WRONG = {words: ("seed = 1", f"seed = 1\n{line}") for words, line in ADDED.items()} | {
    "[audit] runs is for design one-run and": ('design = "one-run"\ncanaries = 300', "runs = 2"),
    "[attack] target_alpha is for many models": ("[est", "[attack]\ntarget_alpha = 0.1\n[est"),
    "[estimate] model: canaries are read by": ("delta = 1e-5", 'delta = 1e-5\nmodel = "count"'),
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_files(words: str, config: Path, shell: Shell) -> None:
    edited(config, *WRONG[words])
    assert words in shell.refused("audit", config)


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


def test_a_loss_that_is_nan_for_some_canaries(config: Path, shell: Shell) -> None:
    config.with_name("nan_loss.py").write_text(OWN)
    edited(
        config, '"clipped-mean"\noptions = { noise = 0.004, records = 200 }', '"nan_loss:algorithm"'
    )
    edited(config, "seed = 1", 'seed = 1\ncanary_kind = "nan_loss:crafted"')
    err = shell.refused("audit", config)
    assert "run 0: canary" in err
    assert "expected a finite loss, got loss=nan" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("losses", "import", "{losses}", "{store}"), "can only be added by `audit`"),
        (("attack", "{store}"), "no shadow models to attack with"),
        (("audit", "{config}", "--until-proven", "--claim", "1"), "--until-proven are for many models"),
        (("audit", "{config}", "--until-width", "9"), "--until-proven are for many models"),
    ],
)  # fmt: skip
def test_what_canaries_are_not_for(
    arguments: tuple[str, ...], words: str, plain: Path, tmp_path: Path, shell: Shell
) -> None:
    store, losses = plain.with_name("audit.db"), tmp_path / "losses.csv"
    shell("losses", "export", store, losses)
    given = {"store": store, "config": plain, "losses": losses}
    assert words in shell.refused(*(each.format(**given) for each in arguments))


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
    assert other.curve.families == tuple(FAMILIES.values())


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
