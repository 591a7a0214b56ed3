"""``epsilometer compare-attacks``: stores, configurations and files in; tables and figures out."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import epsilometer as em
from epsilometer.auditing.attack_comparison import LEAKIEST, read_attacked
from epsilometer.measurement.store import SqliteStore
from tests.cli.shell import Shell
from tests.cli.small_audit import audit_text, clipped, write_records

POOL = audit_text(
    'design = "pool"\nmodels = 12\npool_size = 30\npoints = 3\nreferences = 10\nstore = "pool.db"',
    clipped(0.02, 15) + '\n[attack]\nmethod = "loss"',
    "delta = 0.01\nclaim = 30.0",
    "records.npz",
)

MANY = audit_text(
    'challenge_bases = 2\nreplicates = 12\ndataset_size = 20\nstore = "many.db"',
    clipped(0.02, 20),
    "delta = 0.01",
    "records.npz",
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with configurations and their stores."""
    folder = tmp_path_factory.mktemp("attacked")
    write_records(folder)
    for name, text in (("pool", POOL), ("many", MANY)):
        (folder / f"{name}.toml").write_text(text)
        settings = em.rows.read_audit(folder / f"{name}.toml")
        em.measure(settings.plan, settings.store)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "own"))


def test_a_configuration_with_a_figure(folder: Path, shell: Shell) -> None:
    figure = folder / "curves.svg"
    found = shell.json("compare-attacks", folder / "pool.toml", "--figure", figure)
    assert figure.read_text().startswith("<?xml")
    assert found["source"] == (
        "pool.db of pool.toml: 12 models, 30 points; 12 models judge 3 points"
    )
    assert found["delta"] == 0.01
    # Losses below 0 have no log odds, so two attacks are left.
    assert {each["attack"] for each in found["attacks"]} == {"loss", "population"}
    assert {each["attack"] for each in found["skipped"]} == {
        "logit", "lira", "lira-offline", "rmia", "rmia-offline",
    }  # fmt: skip
    assert [each["points"] for each in found["points"]] == ["judged", "random"]
    gap = found["gap"]
    assert gap.pop("claim") == 30
    assert sum(gap.values()) == pytest.approx(30)


def test_a_store_in_words(folder: Path, shell: Shell) -> None:
    text = shell.said("compare-attacks", folder / "pool.db", "--delta", "0.01")
    assert "models judge" in " ".join(text.split())
    given = read_attacked(folder / "pool.db")
    staged = replace(given, design=em.Pool(models=12, attack="loss", first_stage=4, judged=2))
    assert [len(points) for points in staged.point_sets().values()] == [2, 2, 2]
    assert LEAKIEST in staged.point_sets()
    assert "claim" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_many_models(folder: Path, shell: Shell) -> None:
    text = shell.said("compare-attacks", folder / "many.toml", "--claim", "20")
    for name in ("likelihood-ratio, loss", "pooled-variance, loss", "offline, loss"):
        assert name in text
    assert "Attacks with the same statistic" in text
    assert "from 0 to the claim of 20" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_file_of_losses(folder: Path, shell: Shell) -> None:
    with SqliteStore(folder / "pool.db", read_only=True) as store:
        losses = store.pool_losses(store.sizes(), "")
    em.PoolLosses(
        loss=losses.loss[:, :6] + 1, member=losses.member[:, :6]
    ).write(folder / "losses.npz")  # fmt: skip
    found = shell.json("compare-attacks", folder / "losses.npz", "--delta", "0.1")
    assert found["source"].startswith("losses.npz: 12 models, 6 points; 6 models judge 6 points")
    assert {"lira", "rmia"} <= {each["attack"] for each in found["attacks"]}
    assert found["gap"] is None


# --- what is refused ------------------------------------------------------------------------------

WRONG = {
    ".png, .svg or .pdf, got an ending .txt": ("{pool}", "--delta", "0.1", "--figure", "x.txt"),
    "0 < level < 1": ("{pool}", "--delta", "0.1", "--level", "1"),
    "0 < error < 1": ("{pool}", "--delta", "0.1", "--error", "0"),
    "claim >= 0": ("{pool}", "--delta", "0.1", "--claim", "-1"),
    "delta": ("{pool}",),
    "cannot be read": ("nowhere.csv", "--delta", "0.1"),
    "expected --variant to be one of": ("{pool}", "--delta", "0.1", "--variant", "odd"),
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_calls(words: str, made: Path, shell: Shell) -> None:
    call = [each.format(pool=made / "pool.db") for each in WRONG[words]]
    assert words in shell.refused("compare-attacks", *call)


def test_a_configuration_without_its_store(folder: Path, shell: Shell) -> None:
    (folder / "pool.db").unlink()
    assert "its store pool.db does not exist yet: run the audit first" in shell.refused(
        "compare-attacks", folder / "pool.toml"
    )


def test_a_store_of_another_plan_than_its_configuration(folder: Path, shell: Shell) -> None:
    (folder / "pool.toml").write_text(POOL.replace("seed = 1", "seed = 2"))
    assert "seed is 1 there and 2 here" in shell.refused("compare-attacks", folder / "pool.toml")
    (folder / "pool.toml").write_text(MANY.replace("many.db", "pool.db"))
    assert "holds another plan" in shell.refused("compare-attacks", folder / "pool.toml")


def test_a_store_that_is_not_full(folder: Path, shell: Shell) -> None:
    """Taught by models that have not come yet nothing can be judged; it says what to do."""
    with SqliteStore(folder / "pool.db") as store:
        sizes = store.sizes()
        rows = list(store.pool_rows(sizes))
    plan = em.rows.read_audit(folder / "pool.toml").plan
    with SqliteStore(folder / "half.db") as store:
        store.prepare(plan)
        store.add(rows[2:7])
    with SqliteStore(folder / "empty.db") as store:
        store.prepare(plan)
    assert "expected at least one model, got none" in shell.refused(
        "compare-attacks", folder / "empty.db", "--delta", "0.1"
    )
    found = shell.json("compare-attacks", folder / "half.db", "--delta", "0.1")
    assert "5 models, 30 points; 5 models judge" in found["source"]


def test_many_models_that_are_not_all_there(folder: Path, shell: Shell) -> None:
    plan = em.rows.read_audit(folder / "many.toml").plan
    with SqliteStore(folder / "many.db") as store:
        rows = store.rows(store.sizes())
    with SqliteStore(folder / "half.db") as store:
        store.prepare(plan)
        store.add([row for row in rows if row.base == 0 or row.replicate < 1])
    found = shell.json("compare-attacks", folder / "half.db", "--delta", "0.1")
    assert found["attacks"]
    with SqliteStore(folder / "one.db") as store:
        store.prepare(plan)
        store.add([row for row in rows if row.hypothesis == 0])
    shell.refused("compare-attacks", folder / "one.db", "--delta", "0.1")


def test_canaries_are_refused(folder: Path, shell: Shell) -> None:
    text = MANY.replace("challenge_bases = 2\nreplicates = 12", 'design = "one-run"\ncanaries = 40')
    (folder / "run.toml").write_text(text.replace("many.db", "run.db"))
    settings = em.rows.read_audit(folder / "run.toml")
    em.measure(settings.plan, settings.store)
    for name in ("run.toml", "run.db"):
        said = shell.refused("compare-attacks", folder / name, "--delta", "0.1")
        assert "canaries of one run have one score each" in said
