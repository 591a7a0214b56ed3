"""``epsilometer audit``, ``status`` and ``losses``: from a configuration to a result."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import epsilometer as em
from epsilometer.cli import audit
from epsilometer.cli.main import run
from epsilometer.measurement.plan import Task, training_stream
from epsilometer.measurement.rows import Progress
from tests.cli.test_estimate import PROGRAM, in_shell

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

CONFIG = """
[population]
source = "directions"
[audit]
challenge_bases = 3
replicates = 12
dataset_size = 20
seed = 1
[algorithm]
object = "clipped-mean"
options = { noise = 0.02, records = 20 }
[estimate]
model = "count"
delta = 0.1
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "audit.toml"
    path.write_text(CONFIG)
    return path


def edited(config: Path, old: str, new: str) -> Path:
    assert old in config.read_text()
    config.write_text(config.read_text().replace(old, new))
    return config


def audit_json(config: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run(["audit", str(config), "--json", "--allow-unconverged", *arguments]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


# --- the whole way ----------------------------------------------------------------------------


def test_trains_then_reuses(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = audit_json(config, capsys)
    again = audit_json(config, capsys)
    assert (first["models_trained"], first["models_reused"]) == (72, 0)
    assert (again["models_trained"], again["models_reused"]) == (0, 72)
    for key in ("epsilon", "strength", "counts", "plan"):
        assert first[key] == again[key]


def test_equals_the_python_calls(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = audit_json(config, capsys)
    plan = em.Plan(
        population=em.datasets.load_population("directions"),
        algorithm=em.training.ClippedMean(noise=0.02, records=20),
        design=em.CrossFed(replicates=12),
        challenge_bases=3,
        dataset_size=20,
        seed=1,
    )
    counts = plan.design.attack(em.measure(plan).only).counts(0.1)
    model = em.CountModel(delta=0.1, likelihood=em.likelihoods.CorrelatedCells())
    posterior = em.estimate(counts, model)
    assert found["epsilon"]["interval"] == list(posterior.credible_interval("epsilon", 0.9))
    assert found["plan"]["hash"] == plan.content_hash


def test_growing_adds_only_what_is_new(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    audit_json(config, capsys)
    edited(config, "challenge_bases = 3", "challenge_bases = 4")
    edited(config, "replicates = 12", "replicates = 15")
    grown = audit_json(config, capsys)
    assert (grown["models_trained"], grown["models_reused"]) == (4 * 30 - 72, 72)


@pytest.mark.parametrize("executor", ["threads", pytest.param("processes", marks=pytest.mark.slow)])
def test_executors_agree(config: Path, executor: str, capsys: pytest.CaptureFixture[str]) -> None:
    serial = audit_json(config, capsys)
    (config.parent / "audit.db").unlink()
    other = audit_json(config, capsys, "--executor", executor, "--workers", "2")
    assert other["models_trained"] == 72
    assert other["counts"] == serial["counts"]


def test_another_plan_is_refused_by_name(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    audit_json(config, capsys)
    edited(config, "seed = 1", "seed = 2")
    assert run(["audit", str(config)]) == 2
    err = capsys.readouterr().err
    assert "audit.db holds another plan" in err
    assert "seed is 1 there and 2 here" in err


@pytest.mark.slow
def test_noise_levels_share_models(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edited(config, "noise = 0.02, ", "noise = 0.0, ")
    edited(config, "[estimate]", "output_perturbation = [0.02, 0.05]\n[estimate]")
    found = audit_json(config, capsys, "--output", str(tmp_path / "out"))
    assert found["models_trained"] == 72
    first, second = found["variants"]
    assert first["variant"] == "0.02"
    assert second["shares_models_with"] == ["0.02"]
    assert first["counts"] != second["counts"]
    assert (tmp_path / "out" / "variant-0.05" / "counts.csv").is_file()
    assert run(["attack", str(tmp_path / "audit.db")]) == 2
    assert "--variant" in capsys.readouterr().err
    assert run(["attack", str(tmp_path / "audit.db"), "--variant", "0.05", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bases"] == second["counts"]["bases"]


def test_independent_shadows_are_binomial(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edited(config, "replicates = 12", "replicates = 5\nshadows = 3")
    found = audit_json(config, capsys)
    assert found["models_trained"] == 3 * 2 * 5 * (1 + 2 * 3)
    likelihood = found["assumptions"]["likelihood"]["name"]
    assert likelihood == "IndependentBinomial"
    assert run(["attack", str(tmp_path / "audit.db"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bases"] == found["counts"]["bases"]


@pytest.mark.slow
def test_output_folder_and_losses_both_ways(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "result"
    audit_json(config, capsys, "--output", str(folder))
    for name in ("losses.csv", "counts.csv", "curves.csv", "summary.json", "posterior.nc"):
        assert (folder / name).is_file(), name
    store = tmp_path / "audit.db"
    for ending in ("csv", "parquet"):
        exported = tmp_path / f"exported.{ending}"
        assert run(["losses", "export", str(store), str(exported)]) == 0
        assert em.Losses.read(exported) == em.Losses.read(folder / "losses.csv")
    # A fresh store of the same plan takes them in, and then there is nothing to train.
    store.rename(tmp_path / "first.db")
    for target, said in ((config, "72 losses added, 0 were"), (store, "0 losses added, 72")):
        assert run(["losses", "import", str(tmp_path / "exported.parquet"), str(target)]) == 0
        assert said in capsys.readouterr().out
    again = audit_json(config, capsys)
    assert (again["models_trained"], again["models_reused"]) == (0, 72)
    assert run(["losses", "export", str(store), str(tmp_path / "again.csv")]) == 0
    assert (tmp_path / "again.csv").read_bytes() == (folder / "losses.csv").read_bytes()


# --- code of one's own ------------------------------------------------------------------------

TRAINING = """
import os
class Own:
    def train(self, dataset, rng):
        return rng.normal()
    def loss(self, model, point):
        return {loss}
algorithm = Own()
"""


def own_code(config: Path, name: str, loss: str) -> Path:
    (config.parent / f"{name}.py").write_text(TRAINING.format(loss=loss))
    edited(config, '"clipped-mean"', f'"{name}:algorithm"')
    return edited(config, "options = { noise = 0.02, records = 20 }", "")


@pytest.mark.slow
def test_own_algorithm_and_changed_code(config: Path) -> None:
    own_code(config, "own_training_a", "model")
    arguments = ("audit", str(config), "--executor", "processes", "--workers", "2")
    done = in_shell(*arguments, "--json", "--allow-unconverged")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["models_trained"] == 72
    source = config.parent / "own_training_a.py"
    source.write_text(source.read_text() + "CHANGED = True\n")
    refused = in_shell(*arguments)
    assert refused.returncode == 2
    assert "code has changed since it was created (own_training_a.py)" in refused.stderr
    assert "--accept-changed-code" in refused.stderr
    accepted = in_shell(*arguments, "--accept-changed-code", "--json", "--allow-unconverged")
    assert json.loads(accepted.stdout)["models_reused"] == 72


@pytest.mark.slow
def test_failed_models_are_named_and_the_rest_goes_on(config: Path) -> None:
    own_code(config, "own_training_b", "model if model > -1.5 else float('nan')")
    done = in_shell("audit", str(config), "--json", "--allow-unconverged")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    failed = found["models_failed"]
    assert failed
    assert found["models_trained"] == 72 - len(failed)
    # After three models for which retries did not help, others may not be retried.
    attempts = sorted(item["attempts"] for item in failed)
    assert attempts[-3:] == [3, 3, 3]
    assert "expected a finite loss, got loss=nan" in done.stderr
    counted = sum(b["trials_h0"] + b["trials_h1"] for b in found["counts"]["bases"])
    assert counted == 72 - len(failed)
    shown = in_shell("status", str(config.parent / "audit.db"), "--json")
    assert len(json.loads(shown.stdout)["failures"]) == len(failed)


def test_a_changed_helper_is_noticed(config: Path) -> None:
    own_code(config, "own_training_e", "model + helper_e.SHIFT")
    source = config.parent / "own_training_e.py"
    source.write_text("import helper_e\n" + source.read_text())
    helper = config.parent / "helper_e.py"
    helper.write_text("SHIFT = 1.0\n")
    assert in_shell("audit", str(config), "--allow-unconverged").returncode == 0
    helper.write_text("SHIFT = 2.0\n")
    refused = in_shell("audit", str(config))
    assert refused.returncode == 2
    assert "(helper_e.py)" in refused.stderr


@pytest.mark.parametrize("executor", ["serial", pytest.param("processes", marks=pytest.mark.slow)])
def test_what_training_prints_is_not_the_answer(config: Path, executor: str) -> None:
    own_code(config, f"own_training_{executor}", "print('training!') or model")
    done = in_shell("audit", str(config), "--json", "--allow-unconverged", "--executor", executor)
    assert json.loads(done.stdout)["models_trained"] == 72
    assert "training!" in done.stderr


def test_losses_outside_the_plan_are_refused(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    audit_json(config, capsys)
    path = tmp_path / "more.csv"
    path.write_text("challenge_base,hypothesis,replicate,loss\n0,0,99,0.5\n")
    assert run(["losses", "import", str(path), str(tmp_path / "audit.db")]) == 2
    assert "expected replicates below 12 under hypothesis 0" in capsys.readouterr().err


def test_nothing_can_be_trained(config: Path) -> None:
    own_code(config, "own_training_c", "no_such_name")
    done = in_shell("audit", str(config))
    assert done.returncode == 2
    assert "no model could be trained" in done.stderr
    assert "NameError" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_interrupted_and_continued(config: Path) -> None:
    own_code(config, "own_training_d", "os.getpid() * 0 + model")
    source = config.parent / "own_training_d.py"
    source.write_text(
        source.read_text().replace("return rng", "import time; time.sleep(0.15); return rng")
    )
    arguments = [sys.executable, "-c", PROGRAM, "audit", str(config), "--executor", "threads"]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    store = config.parent / "audit.db"
    while not store.exists() or not _done(store):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert err.endswith(
        "epsilometer: interrupted; finished models are kept: repeat the command to continue.\n"
    )
    kept = _done(store)
    assert 0 < kept < 72
    done = in_shell("audit", str(config), "--json", "--allow-unconverged")
    assert json.loads(done.stdout)["models_trained"] == 72 - kept


def _done(store: Path) -> int:
    shown = in_shell("status", str(store), "--json")
    return int(json.loads(shown.stdout)["models_done"]) if shown.returncode == 0 else 0


# --- the option --store -----------------------------------------------------------------------


def test_losses_go_to_the_given_store(
    config: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)  # an option's path starts here, not where the configuration is
    assert audit_json(config, capsys, "--store", "other.db")["models_trained"] == 72
    assert audit_json(config, capsys, "--store", "other.db")["models_reused"] == 72
    assert (here / "other.db").is_file()
    assert not (tmp_path / "audit.db").exists()
    assert run(["audit", str(config), "--store", ""]) == 2
    assert "expected --store PATH or --store none" in capsys.readouterr().err


@pytest.mark.parametrize("goal", [(), ("--until-width", "0.1")])
def test_without_a_store_nothing_is_kept(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], goal: tuple[str, ...]
) -> None:
    kept = audit_json(config, capsys)
    (tmp_path / "audit.db").unlink()
    for _ in range(2):
        found = audit_json(config, capsys, "--store", "none", *goal)
        assert (found["models_trained"], found["models_reused"]) == (72, 0)
        assert found["counts"] == kept["counts"]
    assert [each.name for each in tmp_path.iterdir()] == ["audit.toml"]


def test_a_check_without_a_store(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["audit", str(config), "--check", "--store", "none", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["store"] is None
    assert [each.name for each in tmp_path.iterdir()] == ["audit.toml"]


def test_failing_code_without_a_store_names_no_store(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own_code(config, "own_training_g", "unknown_name")
    assert run(["audit", str(config), "--store", "none"]) == 2
    err = capsys.readouterr().err
    assert "NameError" in err
    assert "epsilometer status" not in err


@pytest.mark.slow
def test_changed_code_is_named_before_the_folder_of_its_result(config: Path) -> None:
    own_code(config, "own_training_f", "model")
    folder = config.parent / "result"
    arguments = ("audit", str(config), "--allow-unconverged", "--output", str(folder))
    assert in_shell(*arguments).returncode == 0
    source = config.parent / "own_training_f.py"
    source.write_text(source.read_text() + "# a remark\n")
    assert in_shell(*arguments).returncode == 0
    source.write_text(source.read_text() + "CHANGED = True\n")
    refused = in_shell(*arguments)
    assert refused.returncode == 2
    assert "audit.db holds another plan: code has changed" in refused.stderr
    assert "not of the same data" not in refused.stderr
    # Without the store the folder itself is the obstacle.
    apart = in_shell(*arguments, "--store", "none")
    assert "not of the same data" in apart.stderr
    assert in_shell(*arguments, "--store", "none", "--force").returncode == 0


# --- whose claim ------------------------------------------------------------------------------

EXACT = em.training.ClippedMean(noise=0.02, records=20).epsilon(0.1)


@pytest.fixture
def quick(config: Path) -> Path:
    """With the likelihood that takes no time: what is claimed does not depend on it."""
    return edited(config, "delta = 0.1", 'likelihood = "binomial"\ndelta = 0.1')


def printed(config: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    capsys.readouterr()
    assert run(["audit", str(config), "--allow-unconverged"]) == 0
    out, err = capsys.readouterr()
    return " ".join(out.split()), err


def test_the_algorithm_brings_its_claim(quick: Path, capsys: pytest.CaptureFixture[str]) -> None:
    claim = audit_json(quick, capsys)["claim"]
    assert claim["epsilon"] == EXACT
    assert claim["source"] == "algorithm"
    assert 0 < claim["probability_above"] < 1
    out, err = printed(quick, capsys)
    assert f"The algorithm's own claim: epsilon at most {EXACT:.4g}" in out
    assert err.count("\n") == err.count("Delta = 0.1 is not below 1/20") == 1


def test_a_stated_claim_goes_before(quick: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edited(quick, "delta = 0.1", "delta = 0.1\nclaim = 3.0")
    claim = audit_json(quick, capsys)["claim"]
    assert (claim["epsilon"], claim["source"]) == (3.0, "configuration")
    out, _ = printed(quick, capsys)
    assert "The claim: epsilon at most 3 " in out
    assert "own claim" not in out


def test_perturbed_outputs_keep_the_claim(quick: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edited(quick, "[estimate]", "output_perturbation = [0.02, 0.05]\n[estimate]")
    for found in audit_json(quick, capsys)["variants"]:
        assert (found["claim"]["epsilon"], found["claim"]["source"]) == (EXACT, "algorithm")


@pytest.mark.parametrize("fail_on", ["never", "proven", "fail", "inconclusive"])
def test_an_infinite_epsilon_is_no_promise_and_never_passes(
    quick: Path, fail_on: str, capsys: pytest.CaptureFixture[str]
) -> None:
    edited(quick, "noise = 0.02", "noise = 0.0")
    capsys.readouterr()
    assert run(["audit", str(quick), "--fail-on", fail_on]) == 3
    out, _ = capsys.readouterr()
    verdict = out.split("\n\n")[1]  # after the number of models
    assert verdict.startswith("NO PROMISE: the training promises nothing: its accountant states an")
    assert run(["audit", str(quick), "--json", "--until-proven"]) == 3
    out, err = capsys.readouterr()
    assert json.loads(out)["verdict"]["outcome"] == "NO PROMISE"
    assert "there is nothing to refute: the audit does not stop early" in err


def test_a_promise_about_other_neighbours_is_left_aside(
    quick: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edited(quick, "seed = 1", 'seed = 1\nadjacency = "replace"')
    assert "claim" not in audit_json(quick, capsys)
    out, err = printed(quick, capsys)
    assert "exceeds" not in out
    assert "replaces records, so the promise is left aside" in err
    assert err.count("\n") == 2  # and the one about delta
    edited(quick, "delta = 0.1", "delta = 0.1\nclaim = 3.0")
    assert audit_json(quick, capsys)["claim"]["source"] == "configuration"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("-0.5", ""),
        ("float('nan')", "its accountant states epsilon = nan"),
        ("'2'", "its accountant states epsilon = '2'"),
        ("None", "its accountant states no epsilon"),
        ("1 / 0", "its accountant failed (ZeroDivisionError: division by zero)"),
    ],
)
def test_claims_that_are_none(config: Path, answer: str, expected: str) -> None:
    own_code(config, "own_training_f", "model")
    source = config.parent / "own_training_f.py"
    text = f"    def claimed_epsilon(self, delta):\n        return {answer}\nalgorithm"
    source.write_text(source.read_text().replace("algorithm", text, 1))
    done = in_shell("audit", str(config))
    if not expected:
        assert done.returncode == 2
        words = "epsilometer: audit.toml: [algorithm] claimed_epsilon: expected a number >= 0, got -0.5."
        assert done.stderr == f"{words}\n"
        return
    assert done.returncode == 3
    assert f"NO PROMISE: the training promises nothing: {expected}" in " ".join(done.stdout.split())


def test_the_example_of_dp_sgd_claims_what_its_accountant_does() -> None:
    correct, broken = (
        em.rows.read_audit(EXAMPLES / "dp-sgd" / f"{name}.toml") for name in ("correct", "broken")
    )
    # 1.1 by the accountant; the slip is not in what it is told.
    assert correct.claim is not None
    assert broken.claim is not None
    assert correct.claim.epsilon == broken.claim.epsilon
    assert correct.claim.source == "algorithm"
    assert correct.claim.epsilon == pytest.approx(1.115, abs=0.01)
    assert correct.store != broken.store
    for found in (correct, broken):
        plan = found.plan
        model = plan.algorithm.train(
            plan.bases[0].train_on(plan.population, 1), training_stream(1, Task(0, 1, 0))
        )
        base = plan.bases[0]
        assert isinstance(base, em.rows.ChallengeBase)
        loss = plan.algorithm.loss(model, plan.population.point(base.challenge))
        assert 0 < loss < 10


# --- what is wrong is named -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("replicates = 12", 'replicates = "x"', "[audit] replicates: expected a whole number"),
        ("replicates = 12", "replicates = true", "[audit] replicates: expected a whole number"),
        (
            "replicates = 12",
            "replicate = 12",
            "unknown key [audit] replicate: did you mean replicates?",
        ),
        ("replicates = 12", "replicates = 2", "[audit] expected replicates >= 3"),
        ("dataset_size = 20", "", "[audit] dataset_size is missing"),
        ("dataset_size = 20", "dataset_size = 99999", "[audit] expected dataset_size <= 9999"),
        ("seed = 1", "seed = -1", "[audit] seed: expected greater than or equal to 0"),
        ("seed = 1", 'seed = 1\nadjacency = "swap"', "[audit] adjacency: expected 'include' or"),
        ("delta = 0.1", "delta = 1.0", "[estimate] delta: expected less than 1"),
        ("delta = 0.1", "", "[estimate] delta is missing"),
        ("[estimate]", "[estimates]", "table [estimate] is missing"),
        ("[population]", "[population", "not valid TOML"),
        ('"directions"', '"nowhere.npz"', "[population] source: "),
        ('"directions"', '"directions"\nshape = [8, 9]', "[population] expected a shape with 64"),
        ('"directions"', '"directions"\nshape = [0]', "[population] shape.0: expected greater"),
        ('"clipped-mean"', '"no_such_module:x"', "[algorithm] object: cannot import"),
        ('"clipped-mean"', '"os.system"', "[algorithm] object: expected module:attribute"),
        ('"clipped-mean"', '"math:pi"', "[algorithm] object: expected an algorithm"),
        ("noise = 0.02", "nois = 0.02", "[algorithm] object: cannot be made with"),
        ("noise = 0.02", "noise = -1.0", "expected noise >= 0"),
        ("delta = 0.1", 'delta = 0.1\n[attack]\nmethod = "best"', "[attack] method: expected"),
        ("delta = 0.1", "delta = 0.1\n[attack]\ntarget_alpha = 1.0", "[attack] target_alpha"),
        ("delta = 0.1", 'delta = 0.1\n[execution]\nexecutor = "gpu"', "expected executor"),
    ],
)
def test_wrong_configurations(
    config: Path, old: str, new: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    edited(config, old, new)
    assert run(["audit", str(config)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("epsilometer: audit.toml: ")
    assert expected in err
    assert err.count("\n") == 1
    assert not (config.parent / "audit.db").exists()


def test_everything_wrong_is_said_at_once(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edited(config, "seed = 1", 'seed = "one"')
    edited(config, "delta = 0.1", "")
    assert run(["audit", str(config)]) == 2
    err = capsys.readouterr().err
    assert "[audit] seed" in err
    assert "[estimate] delta is missing" in err


@pytest.mark.parametrize("command", [["status"], ["attack"], ["losses", "export"]])
def test_a_file_that_is_no_store(
    tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "some.db"
    path.write_bytes(b"SQLite format 3\0" + b"rubbish" * 100)
    rest = [str(tmp_path / "x.csv")] if command[0] == "losses" else []
    assert run([*command, str(path), *rest]) == 2
    err = capsys.readouterr().err
    assert "some.db" in err
    assert err.count("\n") == 1


def test_status_text(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    audit_json(config, capsys)
    assert run(["status", str(config.parent / "audit.db")]) == 0
    out = capsys.readouterr().out
    assert "72 of 72 models (100 %), 0 failed" in out
    assert max(map(len, out.splitlines())) <= 80


def test_progress_in_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(audit, "SECONDS_BETWEEN_LINES", 0)
    clock = iter([0.0, 50.0, 50.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    audit.lines_of_progress()(Progress(600, 1000, 100, 2))
    assert "600 of 1,000 models, 2 failed, 3 min left" in capsys.readouterr().err


@pytest.mark.slow
def test_the_shipped_example_knows_its_answer(tmp_path: Path) -> None:
    folder = tmp_path / "known-answer"
    shutil.copytree(EXAMPLES / "known-answer", folder)
    done = in_shell("audit", str(folder / "audit.toml"), "--json")
    assert done.returncode == 0, done.stderr
    low, high = json.loads(done.stdout)["epsilon"]["interval"]
    truth = em.training.ClippedMean(noise=0.01, records=100).epsilon(0.1)
    assert low < truth < high


def test_modules_without_a_file_are_not_sent_as_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch has some whose file is a bare name; from the audit's folder they look like its own."""
    import torch

    from epsilometer.inputs import loading
    from epsilometer.measurement import executors

    assert not Path(torch.ops.__file__).is_absolute()
    monkeypatch.setattr(executors, "_sent", set())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bare_training.py").write_text("algorithm = object()\n", encoding="utf-8")
    loading.load_object("bare_training:algorithm", folder=tmp_path, place="here")
    assert executors._sent == {"bare_training"}
