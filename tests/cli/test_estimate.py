"""The command line: what goes to stdout, what to stderr, exit codes, and files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import epsilometer as em
from epsilometer.cli import options
from epsilometer.cli.main import run
from tests.cli.shell import Shell

HEADER = "false_positives,trials_h0,false_negatives,trials_h1\n"
GOOD = HEADER + "10,100,20,80\n30,100,30,80\n"
PROGRAM = "from epsilometer.cli.main import run; raise SystemExit(run())"
CHAINS = ["--engine", "mcmc"]
CHAINS_OF = options.chains_of  # before tests/cli/conftest.py replaces it


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "counts.csv"
    path.write_text(GOOD)
    return path


def in_shell(*arguments: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )


# --- good input -------------------------------------------------------------------------------


def test_summary_in_a_real_process(good: Path) -> None:
    done = in_shell("estimate", good, "--delta", "0.01", "--claim", "1")
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.startswith("FAIL (proven): ")
    assert len(done.stdout.splitlines()) <= 25
    done = in_shell("estimate", good, "--delta", "0.01", "--claim", "1", "--details")
    for expected in ("epsilon", "attack strength", "5 %  ", "exact", "Assumed:"):
        assert expected in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_json_is_one_object_and_nothing_else(good: Path, shell: Shell) -> None:
    out, err = shell("estimate", good, "--delta", "0.01", "--level", "0.8", "--json")
    assert err == ""
    summary = json.loads(out)
    posterior = em.estimate(em.AttackCounts.read(good), em.CountModel(delta=0.01))
    assert summary["epsilon"]["interval"] == list(posterior.credible_interval("epsilon", 0.8))
    assert summary["num_challenge_bases"] == 2
    assert summary["engine"] == "exact"


def test_a_closed_pipe_is_no_traceback(good: Path) -> None:
    command = f"{sys.executable} -c '{PROGRAM}'"
    done = subprocess.run(
        ["bash", "-c", f"{command} estimate '{good}' --delta 0.01 --json | true"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""


def test_options_reach_the_model(good: Path, shell: Shell) -> None:
    arguments = ["--strength", "0.5", "--epsilon-prior-scale", "2", "--claim", "0.7"]
    summary = shell.json("estimate", good, "--delta", "0.02", *arguments)
    assert summary["strength"]["interval"] == [0.5, 0.5]
    assert summary["assumptions"]["priors"]["epsilon"] == {"name": "HalfNormal", "scale": 2.0}
    assert summary["delta"] == 0.02
    assert summary["claim"]["epsilon"] == 0.7
    assert 0 < summary["claim"]["probability_above"] < 1


def test_output_folder(good: Path, tmp_path: Path, shell: Shell) -> None:
    folder = tmp_path / "new" / "results"
    arguments = ["estimate", str(good), "--delta", "0.01", "--output", str(folder), "--json"]
    printed = shell.json(*arguments)
    assert sorted(file.name for file in folder.iterdir()) == [
        "answer.png", "exceedance.png", "joint.png", "marginals.png", "outputs.json", "posterior.nc",
        "region.png", "summary.json",
    ]  # fmt: skip
    assert json.loads((folder / "summary.json").read_text()) == printed
    restored = em.load(folder / "posterior.nc")
    assert restored.median("epsilon") == printed["epsilon"]["median"]
    # A later run leaves no figure that contradicts it.
    assert run([*arguments, "--strength", "0.5"]) == 0
    assert not (folder / "joint.png").exists()


@pytest.mark.slow
def test_unconverged_chains_have_their_own_exit_code(
    good: Path, tmp_path: Path, shell: Shell
) -> None:
    arguments = ["estimate", str(good), "--delta", "0.01", *CHAINS, "--json"]
    out, err = shell(*arguments, code=4)
    summary = json.loads(out)
    assert summary["converged"] is False
    assert summary["settings"]["num_chains"] == 2
    assert len(err.splitlines()) == 1
    assert "NOT CONVERGED" in err
    assert "R-hat" in err
    folder = tmp_path / "chains"
    again = shell.json(*arguments, "--allow-unconverged", "--output", folder)
    assert again["epsilon"] == summary["epsilon"]
    assert (folder / "traces.png").exists()
    assert (folder / "ranks.png").exists()


def test_the_samplers_of_the_shell() -> None:
    sampler = em.engines.McmcSettings
    assert CHAINS_OF("mcmc") == sampler()
    assert CHAINS_OF("published") == sampler.published()


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from epsilometer.cli.main import run; run(['--help']); "
        "sys.exit(bool({'numba', 'scipy', 'xarray', 'matplotlib', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (HEADER + "1,10,2,10\n1.5,10,2,10\n", "row 3: expected a whole number"),
        (HEADER.strip() + ",trials_h1\n1,2,3,4,4\n", "row 1: column trials_h1 occurs twice"),
        (HEADER + "1,1" + "0" * 40 + ",2,10\n", "row 2: "),
        (HEADER + '1,10,2,"10\n', "row 2: not valid CSV"),
        (HEADER + "1,10,2,10\0\n", "NUL"),
        (b"\xff\xfe\x00bad", "UTF-8"),
        (HEADER + '"1\n\x1b[31m",10,2,10\n', "row "),
        ("[" * 100_000, "not valid JSON"),
    ],
)
def test_bad_files(content: str | bytes, expected: str, tmp_path: Path, shell: Shell) -> None:
    """Files that could do harm; every other mistake is named by the tests of counts."""
    path, folder = tmp_path / "counts.csv", tmp_path / "results"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    error = shell.refused("estimate", path, "--delta", "0.01", "--output", folder)
    assert "counts.csv" in error
    assert expected in error
    assert "\x1b" not in error
    assert not folder.exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "--delta"),
        (["--delta", "1"], "delta=1.0"),
        (["--delta"], "--delta"),
        (["--delta", "0", "--level", "0"], "level=0.0"),
        (["--delta", "0", "--level", "90"], "level=90.0"),
        (["--delta", "0", "--claim", "-1"], "claim=-1.0"),
        (["--delta", "0", "--strength", "1.1"], "strength=1.1"),
        (["--delta", "0", "--epsilon-prior-scale", "0"], "epsilon_prior_scale=0.0"),
        (["--delta", "0", "--likelihood", "poisson"], "likelihood='poisson'"),
        (["--delta", "0", "--engine", "magic"], "engine='magic'"),
        (["--delta", "0", "--colour", "red"], "--colour"),
        (["--delta", "0", "second.csv"], "second.csv"),
    ],
)
def test_bad_arguments(arguments: list[str], expected: str, good: Path, shell: Shell) -> None:
    assert expected in shell.refused("estimate", good, *arguments)


def test_missing_things(tmp_path: Path, shell: Shell) -> None:
    assert "no.csv" in shell.refused("estimate", tmp_path / "no.csv", "--delta", "0")
    assert "cannot be read" in shell.refused("estimate", tmp_path, "--delta", "0")
    assert "FILE" in shell.refused("estimate")
    assert "guess" in shell.refused("guess")


def test_output_that_cannot_be_written(good: Path, tmp_path: Path, shell: Shell) -> None:
    (tmp_path / "taken").write_text("a file")
    for folder in (tmp_path / "taken", tmp_path / "taken" / "below"):
        arguments = ["estimate", str(good), "--delta", "0.01", "--output", str(folder)]
        assert "taken" in shell.refused(*arguments)
    assert (tmp_path / "taken").read_text() == "a file"


def test_a_disk_that_fails_late_does_not_lose_the_result(
    good: Path, tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device", "posterior.nc")

    monkeypatch.setattr("epsilometer.posteriors.trees.write", fail)
    arguments = ["estimate", str(good), "--delta", "0.01", "--json"]
    out, err = shell(*arguments, "--output", tmp_path / "full", code=2)
    assert json.loads(out)["num_challenge_bases"] == 2
    assert err == "epsilometer: posterior.nc: No space left on device.\n"


def test_interrupt(good: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("epsilometer.engines.exact.engine.estimate_exact", stop)
    out, err = shell("estimate", good, "--delta", "0.01", code=130)
    assert out == ""
    assert err.strip() == "epsilometer: interrupted."


def test_correlated_counts_at_their_ends_are_doubted(tmp_path: Path, shell: Shell) -> None:
    """Five perfect attacks: the normal density has no bound there, and epsilon runs away."""
    perfect, mixed = tmp_path / "perfect.csv", tmp_path / "mixed.csv"
    rows = [f"{x},50,0,50\n" for x in (5, 4, 6, 5, 7)]
    perfect.write_text(HEADER + "".join(rows), encoding="utf-8")
    mixed.write_text(HEADER + "".join([*rows[:2], "5,50,9,50\n", "4,50,20,50\n"]), encoding="utf-8")
    common = ["--delta", "0.001", "--likelihood", "correlated-published"]
    error = shell("estimate", perfect, *common)[1]
    assert "5 of 5 bases have an error count of 0 or of all challenges" in error
    assert "With independent counts (likelihood binomial) epsilon is" in error
    assert "or of all challenges" not in shell("estimate", mixed, *common)[1]
    # Probabilities of whole counts have a bound.
    for likelihood in ("binomial", "correlated"):
        other = shell("estimate", perfect, "--delta", "0.001", "--likelihood", likelihood)
        assert "or of all challenges" not in other[1]
