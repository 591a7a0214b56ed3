"""Pilots: models that choose the challenge points of an audit of many models, and judge nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epsilometer as em
from epsilometer.auditing.designs import Pilot
from epsilometer.cli.main import run
from epsilometer.errors import InputError, StoreError
from epsilometer.measurement.bases import ChallengeBase
from epsilometer.measurement.failures import Failure
from epsilometer.measurement.plan import Task, training_stream
from epsilometer.measurement.pool import PoolBase
from epsilometer.measurement.store import SqliteStore

CONFIG = """
[population]
source = "records.npz"
[audit]
challenge = "pilot"
first_stage = 8
challenge_bases = 3
replicates = 6
dataset_size = 20
seed = 1
[algorithm]
object = "clipped-mean"
options = { noise = 0.02, records = 20 }
[estimate]
delta = 0.01
family = "gaussian"
mixing = "none"
likelihood = "binomial"
"""


def write_records(folder: Path) -> None:
    """A small population of directions: quickly read, again and again."""
    rows = np.random.default_rng(1).standard_normal((200, 64))
    np.savez(folder / "records.npz", features=rows / np.linalg.norm(rows, axis=1, keepdims=True))


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "audit.toml"
    path.write_text(CONFIG)
    write_records(tmp_path)
    return path


def edited(config: Path, old: str, new: str) -> Path:
    assert old in config.read_text()
    config.write_text(config.read_text().replace(old, new))
    return config


def read(config: Path, trained: list[Pilot] | None = None) -> em.rows.AuditConfig:
    """Read a configuration; pilots are trained and, if wanted, noted."""

    def train(pilot: Pilot) -> None:
        if trained is not None:
            trained.append(pilot)
        em.measure(pilot.plan, pilot.store)

    return em.rows.read_audit(config, train_pilot=train)


def points(settings: em.rows.AuditConfig) -> list[int]:
    return [base.challenge for base in settings.plan.bases if isinstance(base, ChallengeBase)]


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    capsys.readouterr()
    assert run(list(map(str, arguments))) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1, err
    return str(err)


# --- who chooses ----------------------------------------------------------------------------------


def test_the_points_that_leak_most_under_the_pilot_are_judged_by_others(config: Path) -> None:
    trained: list[Pilot] = []
    settings = read(config, trained)
    (pilot,) = trained
    assert pilot.store == config.with_name("audit-pilot.db")
    assert pilot.plan.sizes.models == 8
    with SqliteStore(pilot.store, read_only=True) as store:
        losses = store.pool_losses(store.sizes(), "")
    assert losses.challenges == 40
    ranked = em.attacks.most_leaking(losses, models=range(8), count=40)
    assert points(settings) == [int(losses.names[n]) for n in ranked[:3]]
    for base in settings.plan.bases:
        assert isinstance(base, ChallengeBase)
        assert len(base.dataset) == 20
        assert base.challenge not in base.dataset
    assert points(read(config, trained)) == points(settings)
    assert len(trained) == 1  # once is enough


def test_models_that_judge_have_other_streams_than_those_that_chose(config: Path) -> None:
    trained: list[Pilot] = []
    settings = read(config, trained)
    task = Task(0, 0, 0)
    assert trained[0].plan.seed != settings.plan.seed
    one, other = (training_stream(p.seed, task) for p in (trained[0].plan, settings.plan))
    assert one.random() != other.random()
    again: list[Pilot] = []
    edited(config, "seed = 1", 'seed = 2\nstore = "two.db"')
    read(config, again)
    assert again[0].plan.seed not in (trained[0].plan.seed, 1, 2)


def test_more_bases_later_keep_the_first(config: Path) -> None:
    before = points(read(config))
    settings = read(config)
    first = em.measure(settings.plan, settings.store)
    edited(config, "challenge_bases = 3", "challenge_bases = 5")
    trained: list[Pilot] = []
    grown = read(config, trained)
    assert points(grown)[:3] == before
    assert trained == []
    more = em.measure(grown.plan, grown.store)
    assert (more.trained, more.reused) == (24, 36)
    old = {row[:3]: row[3] for row in more.only.rows()}
    assert all(old[row[:3]] == row[3] for row in first.only.rows())


def test_replaced_records(config: Path) -> None:
    trained: list[Pilot] = []
    edited(config, "seed = 1", 'seed = 1\nadjacency = "replace"')
    settings = read(config, trained)
    (pool,) = trained[0].plan.bases
    assert isinstance(pool, PoolBase)
    assert pool.fixed_size
    assert {pool.size(0, n) for n in range(8)} == {20}
    assert len(points(settings)) == 3


# --- trained half-way, or for something else ------------------------------------------------------


def test_a_pilot_goes_on_after_an_interruption(config: Path) -> None:
    """With 8 of its 20 models there it is not done, and trains the rest only."""
    read(config)
    edited(config, "first_stage = 8", "first_stage = 20")
    with pytest.raises(InputError, match=r"the models of the pilot are not all in audit-pilot\.db"):
        em.rows.read_audit(config)
    trained: list[Pilot] = []
    settings = read(config, trained)
    with SqliteStore(trained[0].store, read_only=True) as store:
        assert [each["trained"] for each in store.status().runs] == [8, 12]
    trained[0].store.unlink()
    assert points(read(config)) == points(settings)


class StopError(Exception):
    """Ends a run."""


def pilot_of(config: Path) -> Pilot:
    """The pilot of a configuration, untrained."""
    found: list[Pilot] = []

    def note(pilot: Pilot) -> None:
        found.append(pilot)
        raise StopError

    for store in config.parent.glob("*-pilot.db"):
        store.rename(store.with_suffix(".aside"))
    with pytest.raises(StopError):
        em.rows.read_audit(config, train_pilot=note)
    for store in config.parent.glob("*-pilot.aside"):
        store.rename(store.with_suffix(".db"))
    return found[0]


def test_models_of_a_pilot_count_once_however_many_variants_they_have(config: Path) -> None:
    """A third of them with three variants each is not all of them."""
    edited(config, "[estimate]", "output_perturbation = [0.01, 0.02, 0.03]\n[estimate]")
    pilot = pilot_of(config)
    with SqliteStore(config.with_name("other.db")) as whole:
        em.measure(pilot.plan, whole)
        rows = list(whole.pool_rows(pilot.plan.sizes))
    assert len(rows) == 24
    with SqliteStore(pilot.store) as store:
        store.prepare(pilot.plan)
        store.add(rows[:9])
    assert pilot.ranking() is None
    with SqliteStore(pilot.store) as store:
        store.add(rows[9:])
    assert sorted(pilot.ranking() or ()) == sorted(map(int, pilot.plan.points))


def test_models_that_failed_are_not_waited_for(config: Path) -> None:
    pilot = pilot_of(config)
    with SqliteStore(config.with_name("other.db")) as whole:
        em.measure(pilot.plan, whole)
        rows = list(whole.pool_rows(pilot.plan.sizes))
    with SqliteStore(pilot.store) as store:
        store.prepare(pilot.plan)
        store.add(rows[1:])
        assert pilot.ranking() is None
        store.add_failure(Failure(Task(0, 0, 0), 3, "no"))
    assert pilot.ranking() is not None


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("dataset_size = 20", "dataset_size = 19", "dataset_size is 40 there and 38 here"),
        ("seed = 1", "seed = 2", "seed is .* there and"),
        ("noise = 0.02", "noise = 0.03", r"settings\.noise is 0\.02 there and 0\.03 here"),
    ],
)
def test_the_pilot_of_another_audit_chooses_nothing(
    config: Path, old: str, new: str, words: str
) -> None:
    read(config)
    edited(config, old, new)
    with pytest.raises(StoreError, match=rf"audit-pilot\.db holds another plan: .*{words}"):
        read(config)


def test_another_pilot_for_a_store_that_is_there(config: Path) -> None:
    settings = read(config)
    em.measure(settings.plan, settings.store)
    edited(config, "first_stage = 8", "first_stage = 9")
    grown = read(config)
    with pytest.raises(StoreError, match=r"settings\.models is 8 there and 9 here"):
        em.measure(grown.plan, grown.store)


# --- from the shell -------------------------------------------------------------------------------


def test_an_audit_trains_its_pilot_first(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["audit", str(config), "--json"]) == 0
    out, err = capsys.readouterr()
    found: dict[str, Any] = json.loads(out)
    assert "pilot: 8 models that select the challenge points, stored in audit-pilot.db" in err
    assert (found["models_trained"], found["num_challenge_bases"]) == (36, 3)
    assert found["plan"]["challenge"] == "pilot"
    assert np.isfinite(found["epsilon"]["median"])
    capsys.readouterr()
    assert run(["compare-attacks", str(config), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["attacks"]) == 4
    assert run(["audit", str(config), "--check", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["models"] == 36


def test_an_untrained_pilot(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Commands that train nothing say who does; --check tries the pilot."""
    losses = config.with_name("losses.csv")
    losses.write_text("challenge_base,hypothesis,replicate,loss\n0,0,0,1\n")
    what = (
        "the models of the pilot are not all in audit-pilot.db yet; `epsilometer audit` trains them"
    )
    assert what in refused(capsys, "losses", "import", losses, config)
    assert what in refused(capsys, "compare-attacks", config)
    assert not config.with_name("audit-pilot.db").exists()
    capsys.readouterr()
    assert run(["audit", str(config), "--check", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["models"] == 8
    assert found["store"].endswith("audit-pilot.db")
    assert not config.with_name("audit.db").exists()


WRONG = {
    "[audit] first_stage: expected 4 models or more to choose points": (
        "first_stage = 8", "first_stage = 3",
    ),
    "got first_stage = 0": ("first_stage = 8", "first_stage = 0"),
    "[audit] expected at most 40 challenge bases, the number of records in the pilot": (
        "challenge_bases = 3", "challenge_bases = 41",
    ),
    "[audit] expected a pool of at least 10 records": ("dataset_size = 20", "dataset_size = 4"),
    "[audit] challenge cannot be combined with one-run": (
        "first_stage = 8\nchallenge_bases = 3\nreplicates = 6", 'design = "one-run"',
    ),
}  # fmt: skip


@pytest.mark.parametrize("words", WRONG)
def test_wrong_files_train_no_pilot(
    words: str, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edited(config, *WRONG[words])
    assert words in refused(capsys, "audit", config)
    assert not config.with_name("audit-pilot.db").exists()
