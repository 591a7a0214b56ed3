"""``epsilometer audit`` of a pool, and every command on what it leaves behind."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import epsilometer as em
from epsilometer.cli.main import run
from tests.cli.shell import Shell
from tests.cli.small_audit import audit_text, clipped, edited, write_records

CONFIG = audit_text(
    'design = "pool"\nmodels = 24\npool_size = 40\npoints = 4\nreferences = 6\nchallenge = "pilot"',
    clipped(0.02, 20) + '\n[attack]\nmethod = "loss"',
    'delta = 0.001\nfamily = "gaussian"\nmixing = "none"\nclaim = 20.0',
    "records.npz",
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a pool that was audited, its store and its result."""
    folder = tmp_path_factory.mktemp("pool")
    (folder / "audit.toml").write_text(CONFIG)
    write_records(folder)
    assert run(["audit", str(folder / "audit.toml"), "--output", str(folder / "out")]) == 0
    return folder


@pytest.fixture(autouse=True)
def records(tmp_path: Path) -> None:
    write_records(tmp_path)


# --- the whole way --------------------------------------------------------------------------------


def test_what_was_written(made: Path, shell: Shell) -> None:
    found = shell.json("audit", made / "audit.toml")
    assert (found["models_trained"], found["models_reused"]) == (0, 24)
    assert found["num_challenge_bases"] == 4
    assert found["plan"]["design"] == "MeasurePool"
    assert found["plan"]["models"] == 24
    assert (found["plan"]["first_stage"], found["plan"]["pilot"]) == (12, True)
    summary = json.loads((made / "out" / "summary.json").read_text())
    for key in ("epsilon", "proof", "verdict", "bases"):
        assert summary[key] == found[key]
    # Judged are the points that the first stage chose, under the other models.
    settings = em.rows.read_audit(made / "audit.toml")
    losses = em.measure(settings.plan, settings.store).only
    chosen = em.attacks.most_leaking(losses, models=range(12), count=4)
    assert {row["challenge_base"] for row in found["bases"]} == {losses.names[n] for n in chosen}
    scores = em.Scores.read(made / "out" / "points.csv")
    assert {base.trials_h0 + base.trials_h1 for base in scores.bases} == {12}


def test_the_audit_in_words(made: Path, shell: Shell) -> None:
    text = shell.said("audit", made / "audit.toml", "--details")
    assert "0 models trained now, 24 reused, 0 failed." in text
    assert "Points share models" in text
    assert "challenge base" not in text


def test_a_result_is_reported_proven_and_estimated_alike(made: Path, shell: Shell) -> None:
    audited = json.loads((made / "out" / "summary.json").read_text())
    assert shell.json("report", made / "out")["verdict"] == audited["verdict"]
    for source in (made / "out", made / "audit.db", made / "out" / "points.csv"):
        proof = shell.json("prove", source, "--delta", "0.001")
        assert proof["at_least"] == pytest.approx(audited["proof"]["at_least"]), source
    same = ("--delta", "0.001", "--family", "gaussian", "--mixing", "none")
    for source in (made / "audit.db", made / "out" / "points.csv"):
        found = shell.json("estimate", source, *same)
        assert found["epsilon"]["median"] == pytest.approx(audited["epsilon"]["median"]), source


def test_status(made: Path, shell: Shell) -> None:
    text = shell.said("status", made / "audit.db")
    assert "24 of 24 models (100 %), 0 failed" in text
    assert "a pool: every model is queried on 46 points" in text
    found = shell.json("status", made / "audit.db")
    assert (found["models"], found["models_done"], found["points"]) == (24, 24, 46)


def test_attack(made: Path, tmp_path: Path, shell: Shell) -> None:
    store = made / "audit.db"
    as_audited = shell.json("attack", store)
    assert (as_audited["attack"], len(as_audited["bases"])) == ("loss", 4)
    other = shell.json("attack", store, "--method", "population")
    assert other["attack"] == "population"
    counts = tmp_path / "counts.csv"
    shell.said("attack", store, "--output", counts)
    assert len(em.AttackCounts.read(counts)) == 4
    for row in as_audited["bases"]:
        assert row["trials_h0"] + row["trials_h1"] == 12


@pytest.mark.parametrize("ending", ["npz", "csv", "parquet"])
def test_losses_are_exported(ending: str, made: Path, tmp_path: Path, shell: Shell) -> None:
    file = tmp_path / f"losses.{ending}"
    text = shell.said("losses", "export", made / "audit.db", file)
    assert "1,104 losses written" in text
    settings = em.rows.read_audit(made / "audit.toml")
    measured = em.measure(settings.plan, settings.store).only
    read = em.PoolLosses.read(file)
    assert read.loss.tobytes() == measured.loss.tobytes()
    assert read.member.tobytes() == measured.member.tobytes()
    assert (read.names, read.references) == (measured.names, measured.references)
    # A pool as somebody brings it has no audit that says how; half of it teaches.
    assert shell.json("attack", file, "--method", "loss")["attack"] == "loss"


def test_compare(made: Path, shell: Shell) -> None:
    text = shell.said("compare", made / "out" / "points.csv", "--delta", "0.001")
    assert "4 points that share 12 models" in " ".join(text.split())
    assert "ROC scan" in text


def test_check_trains_little(config: Path, shell: Shell) -> None:
    found = shell.json("audit", config, "--check")
    assert found["models"] == 24
    assert 0 < found["models_done"] <= 24
    assert len(found["losses"][0]["losses_h0"]) == found["models_done"]


def test_judging_otherwise_trains_nothing(made: Path, tmp_path: Path, shell: Shell) -> None:
    folder = Path(shutil.copytree(made, tmp_path / "own"))
    config = edited(folder / "audit.toml", 'challenge = "pilot"', "first_stage = 0")
    edited(config, "points = 4", "points = 2")
    found = shell.json("audit", config)
    assert (found["models_trained"], found["num_challenge_bases"]) == (0, 2)
    edited(config, "models = 24", "models = 26")
    found = shell.json("audit", config)
    assert (found["models_trained"], found["models_reused"]) == (2, 24)
    edited(config, "seed = 1", "seed = 2")
    assert "seed is 1 there and 2 here" in shell.refused("audit", config)


# --- what is refused ------------------------------------------------------------------------------


LIST = 'challenge = "pilot"'
WRONG = {
    "[audit] models is missing": ("models = 24\n", ""),
    "[audit] pool_size is missing": ("pool_size = 40\n", ""),
    "[audit] models: expected greater than or equal to 4": ("models = 24", "models = 3"),
    "[audit] dataset_size is for design": ("seed = 1", "seed = 1\ndataset_size = 9"),
    "[audit] challenge_bases is for design many-models": ("seed", "challenge_bases = 2\nseed"),
    "[audit] canaries is for design one-run": ("seed = 1", "seed = 1\ncanaries = 9"),
    "[attack] method: threshold is for many models; expected loss, logit, lira": (
        'method = "loss"', 'method = "threshold"',
    ),
    "[attack] method: expected": ('method = "loss"', 'method = "odd"'),
    "[attack] statistic is for many models": ('method = "loss"', 'statistic = "logit"'),
    "[attack] target_alpha is for many": ('method = "loss"', "target_alpha = 0.1"),
    "[estimate] model: pools are read by": ("delta = 0.001", 'delta = 0.001\nmodel = "count"'),
    "[audit] expected points <= 40": ("points = 4", "points = 41"),
    "[audit] points: expected greater than": ("points = 4", "points = 0"),
    "[audit] share: expected greater than 0": ("seed = 1", "seed = 1\nshare = 0.0"),
    "[audit] share: expected less than 1": ("seed = 1", "seed = 1\nshare = 1.0"),
    "[audit] references: expected": ("references = 6", "references = -1"),
    "[audit] points: expected points = 2, those of the list": (LIST, "challenge = [3, 4]"),
}  # fmt: skip


@pytest.mark.parametrize("words", WRONG)
def test_wrong_files(words: str, config: Path, shell: Shell) -> None:
    edited(config, *WRONG[words])
    assert words in shell.refused("audit", config)
    assert not config.with_name("audit.db").exists()


CALLS = {
    "--until-width and --until-proven are for many models": ("audit", "{config}", "--until-width", "1"),
    "canaries and pools are valid for one planned analysis": ("audit", "{config}", "--until-proven"),
    "--statistic is for many models; on a pool the method decides": (
        "attack", "{store}", "--statistic", "logit",
    ),
    "expected method to be one of loss, logit, lira": ("attack", "{store}", "--method", "threshold"),
    "--target-alpha is for many models": (
        "estimate", "{store}", "--delta", "0.1", "--target-alpha", "0.2",
    ),
    "--shadows is for files of losses": ("attack", "{store}", "--shadows", "2"),
    "losses of a pool are written to a file": ("losses", "export", "{store}", "-"),
    "losses of pools can only be added by `audit`": ("losses", "import", "{csv}", "{config}"),
    "expected losses of at least 0 for log odds, got loss=-": ("attack", "{store}", "--method", "lira"),
    "the attack `loss` accepts any losses": ("attack", "{store}", "--method", "rmia"),
}  # fmt: skip


@pytest.mark.parametrize("words", CALLS)
def test_what_pools_are_not_for(words: str, made: Path, tmp_path: Path, shell: Shell) -> None:
    csv = tmp_path / "losses.csv"
    csv.write_text("challenge_base,hypothesis,replicate,loss\n0,0,0,1\n")
    given = {"store": made / "audit.db", "config": made / "audit.toml", "csv": csv}
    assert words in shell.refused(*(each.format(**given) for each in CALLS[words]))


def test_a_method_of_pools_for_many_models(config: Path, shell: Shell) -> None:
    edited(config, 'design = "pool"\nmodels = 24\npool_size = 40\npoints = 4\nreferences = 6\n'
                   'challenge = "pilot"', "dataset_size = 20")  # fmt: skip
    edited(config, 'method = "loss"', 'method = "lira"')
    assert "[attack] method: lira is for design pool; expected likelihood-ratio" in shell.refused(
        "audit", config
    )
    edited(config, 'method = "lira"', "")
    edited(config, "seed = 1", "seed = 1\nfirst_stage = 8")
    assert "first_stage is for design pool" in shell.refused("audit", config)
    edited(config, "first_stage = 8", 'challenge = "pilot"')
    assert 'challenge = "pilot" is for design pool' in shell.refused("audit", config)


# --- a network, whose losses are cross-entropies --------------------------------------------------

DIGITS = audit_text(
    'design = "pool"\nmodels = 16\npool_size = 40\npoints = 3\nchallenge = "mislabelled"\n'
    'adjacency = "replace"',
    'object = "network"\noptions = { hidden = 8, classes = 10, epochs = 20, batch_size = 20, '
    "learning_rate = 0.5 }",
    'delta = 1e-5\nfamily = "gaussian"\nmixing = "none"',
    "digits",
)


def test_digits_learnt_by_heart(tmp_path: Path, shell: Shell) -> None:
    (tmp_path / "audit.toml").write_text(DIGITS)
    found = shell.json("audit", tmp_path / "audit.toml")
    assert found["num_challenge_bases"] == 3
    assert found["plan"]["challenge"] == "mislabelled"
    assert {int(row["challenge_base"]) for row in found["bases"]} == {1797, 1798, 1799}
    rmia = shell.json("attack", tmp_path / "audit.db", "--method", "rmia")
    assert rmia["attack"] == "rmia"
