"""``epsilometer audit``, ``status`` and ``losses``: from a configuration to a result."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import epsilometer as em
from epsilometer.cli import audit
from epsilometer.cli.main import run
from epsilometer.measurement.plan import Task, training_stream
from epsilometer.measurement.run import Progress
from tests.cli.shell import Shell
from tests.cli.small_audit import audit_text, clipped, edited
from tests.cli.test_estimate import in_shell

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

CONFIG = audit_text(
    "challenge_bases = 3\nreplicates = 12\ndataset_size = 20",
    clipped(0.02, 20),
    'model = "count"\ndelta = 0.1',
)


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished audit, with its store and its result: only to be read."""
    folder = tmp_path_factory.mktemp("audited")
    (folder / "audit.toml").write_text(CONFIG)
    assert run(["audit", str(folder / "audit.toml"), "--output", str(folder / "result")]) == 0
    return folder


@pytest.fixture(scope="module")
def found(audited: Path) -> dict[str, Any]:
    """What that audit answered."""
    return dict(json.loads((audited / "result" / "summary.json").read_text()))


@pytest.fixture
def done(audited: Path, config: Path) -> Path:
    """The configuration of a finished audit that may be changed, beside its store."""
    shutil.copy(audited / "audit.db", config.parent)
    return config


# --- the whole way ----------------------------------------------------------------------------


def test_equals_the_python_calls(found: dict[str, Any]) -> None:
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


def test_models_are_reused_and_only_what_is_new_is_trained(
    done: Path, found: dict[str, Any], shell: Shell
) -> None:
    again = shell.json("audit", done)
    assert (found["models_trained"], found["models_reused"]) == (72, 0)
    assert (again["models_trained"], again["models_reused"]) == (0, 72)
    for key in ("epsilon", "strength", "counts", "plan"):
        assert found[key] == again[key]
    out = shell.said("status", done.with_name("audit.db"))
    assert "72 of 72 models (100 %), 0 failed" in out
    assert max(map(len, out.splitlines())) <= 80
    edited(done, "challenge_bases = 3", "challenge_bases = 4")
    edited(done, "replicates = 12", "replicates = 15")
    grown = shell.json("audit", done)
    assert (grown["models_trained"], grown["models_reused"]) == (4 * 30 - 72, 72)


@pytest.mark.parametrize("executor", ["threads", pytest.param("processes", marks=pytest.mark.slow)])
def test_executors_agree(config: Path, found: dict[str, Any], executor: str, shell: Shell) -> None:
    other = shell.json("audit", config, "--executor", executor, "--workers", "2")
    assert other["models_trained"] == 72
    assert other["counts"] == found["counts"]


@pytest.mark.slow
def test_noise_levels_share_models(config: Path, tmp_path: Path, shell: Shell) -> None:
    edited(config, "noise = 0.02, ", "noise = 0.0, ")
    edited(config, "[estimate]", "output_perturbation = [0.02, 0.05]\n[estimate]")
    found = shell.json("audit", config, "--output", tmp_path / "out")
    assert found["models_trained"] == 72
    first, second = found["variants"]
    assert first["variant"] == "0.02"
    assert second["shares_models_with"] == ["0.02"]
    assert first["counts"] != second["counts"]
    assert (tmp_path / "out" / "variant-0.05" / "counts.csv").is_file()
    assert "--variant" in shell.refused("attack", tmp_path / "audit.db")
    attacked = shell.json("attack", tmp_path / "audit.db", "--variant", "0.05")
    assert attacked["bases"] == second["counts"]["bases"]


def test_independent_shadows_are_binomial(config: Path, tmp_path: Path, shell: Shell) -> None:
    edited(config, "replicates = 12", "replicates = 5\nshadows = 3")
    found = shell.json("audit", config)
    assert found["models_trained"] == 3 * 2 * 5 * (1 + 2 * 3)
    likelihood = found["assumptions"]["likelihood"]["name"]
    assert likelihood == "IndependentBinomial"
    assert shell.json("attack", tmp_path / "audit.db")["bases"] == found["counts"]["bases"]


@pytest.mark.slow
def test_output_folder_and_losses_both_ways(config: Path, tmp_path: Path, shell: Shell) -> None:
    folder = tmp_path / "result"
    shell.json("audit", config, "--output", folder)
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
        assert said in shell.said("losses", "import", tmp_path / "exported.parquet", target)
    again = shell.json("audit", config)
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


def test_what_training_prints_is_not_the_answer(config: Path, shell: Shell) -> None:
    own_code(config, "own_training_prints", "print('training!') or model")
    out, err = shell("audit", config, "--json")
    assert json.loads(out)["models_trained"] == 72
    assert "training!" in err


@pytest.mark.slow
def test_what_workers_print_is_not_the_answer_either(config: Path) -> None:
    own_code(config, "own_training_workers", "print('training!') or model")
    done = in_shell("audit", config, "--json", "--executor", "processes")
    assert json.loads(done.stdout)["models_trained"] == 72
    assert "training!" in done.stderr


def test_losses_outside_the_plan_are_refused(audited: Path, tmp_path: Path, shell: Shell) -> None:
    path = tmp_path / "more.csv"
    path.write_text("challenge_base,hypothesis,replicate,loss\n0,0,99,0.5\n")
    assert "expected replicates below 12 under hypothesis 0" in shell.refused(
        "losses", "import", path, audited / "audit.db"
    )


# --- the option --store -----------------------------------------------------------------------


def test_losses_go_to_the_given_store(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)  # an option's path starts here, not where the configuration is
    assert shell.json("audit", config, "--store", "other.db")["models_trained"] == 72
    assert shell.json("audit", config, "--store", "other.db")["models_reused"] == 72
    assert (here / "other.db").is_file()
    assert not (tmp_path / "audit.db").exists()
    assert "expected --store PATH or --store none" in shell.refused("audit", config, "--store", "")


@pytest.mark.parametrize("goal", [(), ("--until-width", "0.1")])
def test_without_a_store_nothing_is_kept(
    config: Path, found: dict[str, Any], shell: Shell, goal: tuple[str, ...]
) -> None:
    other = shell.json("audit", config, "--store", "none", *goal)
    assert (other["models_trained"], other["models_reused"]) == (72, 0)
    assert other["counts"] == found["counts"]
    assert shell.json("audit", config, "--check", "--store", "none")["store"] is None
    assert [each.name for each in config.parent.iterdir()] == ["audit.toml"]


def test_failing_code_without_a_store_names_no_store(config: Path, shell: Shell) -> None:
    own_code(config, "own_training_g", "unknown_name")
    err = shell("audit", config, "--store", "none", code=2)[1]
    assert "NameError" in err
    assert "epsilometer status" not in err


@pytest.mark.slow
def test_changed_code_is_named_before_the_folder_of_its_result(config: Path) -> None:
    own_code(config, "own_training_f", "model")
    folder = config.parent / "result"
    arguments = ("audit", str(config), "--output", str(folder))
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


def printed(config: Path, shell: Shell) -> tuple[str, str]:
    out, err = shell("audit", config)
    return " ".join(out.split()), err


def test_the_algorithm_brings_its_claim(quick: Path, shell: Shell) -> None:
    claim = shell.json("audit", quick)["claim"]
    assert claim["epsilon"] == EXACT
    assert claim["source"] == "algorithm"
    assert 0 < claim["probability_above"] < 1
    out, err = printed(quick, shell)
    assert f"The algorithm's own claim: epsilon at most {EXACT:.4g}" in out
    large, beyond = err.splitlines()
    assert "Delta = 0.1 is not below 1/20" in large
    assert f"Not even perfect attacks could refute the claim of {EXACT:.4g} (they would" in beyond


def test_a_stated_claim_goes_before(quick: Path, shell: Shell) -> None:
    edited(quick, "delta = 0.1", "delta = 0.1\nclaim = 3.0")
    claim = shell.json("audit", quick)["claim"]
    assert (claim["epsilon"], claim["source"]) == (3.0, "configuration")
    out, _ = printed(quick, shell)
    assert "The claim: epsilon at most 3 " in out
    assert "own claim" not in out


def test_perturbed_outputs_keep_the_claim(quick: Path, shell: Shell) -> None:
    edited(quick, "[estimate]", "output_perturbation = [0.02, 0.05]\n[estimate]")
    for found in shell.json("audit", quick)["variants"]:
        assert (found["claim"]["epsilon"], found["claim"]["source"]) == (EXACT, "algorithm")


def test_an_infinite_epsilon_is_no_promise_and_never_passes(quick: Path, shell: Shell) -> None:
    edited(quick, "noise = 0.02", "noise = 0.0")
    out = shell.said("audit", quick, "--fail-on", "never", code=3)
    verdict = out.split("\n\n")[1]  # after the number of models
    assert verdict.startswith("NO PROMISE: the training promises nothing: its accountant states an")
    out, err = shell("audit", quick, "--json", "--until-proven", code=3)
    assert json.loads(out)["verdict"]["outcome"] == "NO PROMISE"
    assert "there is nothing to refute: the audit does not stop early" in err


@pytest.mark.parametrize(
    ("name", "answer", "expected"),
    [
        ("negative", "-0.5", "claimed_epsilon: expected a number >= 0, got -0.5"),
        ("nan", "float('nan')", "its accountant states epsilon = nan"),
        ("text", "'2'", "its accountant states epsilon = '2'"),
        ("none", "None", "its accountant states no epsilon"),
        ("error", "1 / 0", "its accountant failed (ZeroDivisionError: division by zero)"),
    ],
)
def test_claims_that_are_none(
    config: Path, name: str, answer: str, expected: str, shell: Shell
) -> None:
    own_code(config, f"own_claim_{name}", "model")
    source = config.parent / f"own_claim_{name}.py"
    text = f"    def claimed_epsilon(self, delta):\n        return {answer}\nalgorithm"
    source.write_text(source.read_text().replace("algorithm", text, 1))
    if name == "negative":
        assert f"audit.toml: [algorithm] {expected}" in shell.refused("audit", config)
        return
    out = " ".join(shell.said("audit", config, code=3).split())
    assert f"NO PROMISE: the training promises nothing: {expected}" in out


@pytest.mark.slow
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
        ("replicates = 12", "replicate = 12", "replicate: did you mean replicates?"),
        ("dataset_size = 20", "", "[audit] dataset_size is missing"),
        ("dataset_size = 20", "dataset_size = 99999", "[audit] expected dataset_size <= 9999"),
        ("seed = 1", "seed = -1", "[audit] seed: expected greater than or equal to 0"),
        ("seed = 1", 'seed = 1\nadjacency = "swap"', "[audit] adjacency: expected 'include' or"),
        ("delta = 0.1", "delta = 1.0", "[estimate] delta: expected less than 1"),
        ("delta = 0.1", "", "[estimate] delta is missing"),
        ('"count"', '"best"', "[estimate] model: expected"),
        ("delta", 'family = "cauchy"\ndelta', "[estimate] family: expected"),
        ("delta", "mixing = 2.0\ndelta", "[estimate] mixing: expected free, none or a number in"),
        ("delta", "strength = 2\ndelta", "[estimate] strength: expected free or a number in"),
        ("[estimate]", "[estimates]", "table [estimate] is missing"),
        ("[population]", "[population", "not valid TOML"),
        ('"directions"', '"nowhere.npz"', "[population] source: "),
        ('"directions"', '"directions"\nshape = [8, 9]', "[population] expected a shape with 64"),
        ('"directions"', '"directions"\nshape = [0]', "[population] shape.0: expected greater"),
        ('"clipped-mean"', '"no_such_module:x"', "[algorithm] object: cannot import"),
        ('"clipped-mean"', '"os.system"', "[algorithm] object: expected module:attribute"),
        ('"clipped-mean"', '"math:pi"', "[algorithm] object: expected an algorithm"),
        ("noise = 0.02", "nois = 0.02", "[algorithm] object: cannot be made with"),
        ("delta = 0.1", 'delta = 0.1\n[attack]\nmethod = "best"', "[attack] method: expected"),
        ("delta = 0.1", "delta = 0.1\n[attack]\ntarget_alpha = 1.0", "[attack] target_alpha"),
        ("delta = 0.1", 'delta = 0.1\n[execution]\nexecutor = "gpu"', "expected executor"),
    ],
)
def test_wrong_configurations(
    config: Path, old: str, new: str, expected: str, shell: Shell
) -> None:
    edited(config, old, new)
    err = shell.refused("audit", config)
    assert err.startswith("epsilometer: audit.toml: ")
    assert expected in err
    assert not (config.parent / "audit.db").exists()


def test_everything_wrong_is_said_at_once(config: Path, shell: Shell) -> None:
    edited(config, "seed = 1", 'seed = "one"')
    edited(config, "delta = 0.1", "")
    err = shell.refused("audit", config)
    assert "[audit] seed" in err
    assert "[estimate] delta is missing" in err


@pytest.mark.parametrize("command", [["status"], ["attack"], ["losses", "export"]])
def test_a_file_that_is_no_store(tmp_path: Path, command: list[str], shell: Shell) -> None:
    path = tmp_path / "some.db"
    path.write_bytes(b"SQLite format 3\0" + b"rubbish" * 100)
    rest = [str(tmp_path / "x.csv")] if command[0] == "losses" else []
    assert "some.db" in shell.refused(*command, path, *rest)


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
    done = in_shell("audit", folder / "audit.toml", "--json")
    assert done.returncode == 0, done.stderr
    low, high = json.loads(done.stdout)["epsilon"]["interval"]
    truth = em.training.ClippedMean(noise=0.01, records=100).epsilon(0.1)
    assert low < truth < high
