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


def in_shell(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )


# --- good input -------------------------------------------------------------------------------


def test_summary_in_a_real_process(good: Path) -> None:
    done = in_shell("estimate", str(good), "--delta", "0.01", "--claim", "1")
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.startswith("FAIL (proven): ")
    assert len(done.stdout.splitlines()) <= 25
    done = in_shell("estimate", str(good), "--delta", "0.01", "--claim", "1", "--details")
    for expected in ("epsilon", "attack strength", "5 %  ", "exact", "Assumed:"):
        assert expected in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_json_is_one_object_and_nothing_else(
    good: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["estimate", str(good), "--delta", "0.01", "--level", "0.8", "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    summary = json.loads(out)
    posterior = em.estimate(em.AttackCounts.read(good), em.CountModel(delta=0.01))
    assert summary["epsilon"]["interval"] == list(posterior.credible_interval("epsilon", 0.8))
    assert summary["num_challenge_bases"] == 2
    assert summary["engine"] == "exact"


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        json.dumps(
            [
                {"false_positives": 10, "trials_h0": 100, "false_negatives": 20, "trials_h1": 80},
                {"false_positives": 30, "trials_h0": 100, "false_negatives": 30, "trials_h1": 80},
            ]
        ),
    ],
)
def test_standard_input_of_both_kinds(text: str) -> None:
    done = in_shell("estimate", "-", "--delta", "0.01", "--json", stdin=text)
    assert done.returncode == 0
    assert json.loads(done.stdout)["num_challenge_bases"] == 2


def test_a_closed_pipe_is_no_traceback(good: Path) -> None:
    command = f"{sys.executable} -c '{PROGRAM}'"
    done = subprocess.run(
        ["bash", "-c", f"{command} estimate '{good}' --delta 0.01 --json | true"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""


def test_options_reach_the_model(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--strength", "0.5", "--epsilon-prior-scale", "2", "--claim", "0.7"]
    assert run(["estimate", str(good), "--delta", "0.02", *arguments, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["strength"]["interval"] == [0.5, 0.5]
    assert summary["assumptions"]["priors"]["epsilon"] == {"name": "HalfNormal", "scale": 2.0}
    assert summary["delta"] == 0.02
    assert summary["claim"]["epsilon"] == 0.7
    assert 0 < summary["claim"]["probability_above"] < 1


def test_output_folder(good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "results"
    arguments = ["estimate", str(good), "--delta", "0.01", "--output", str(folder), "--json"]
    assert run(arguments) == 0
    printed = json.loads(capsys.readouterr().out)
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
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["estimate", str(good), "--delta", "0.01", *CHAINS, "--json"]
    assert run(arguments) == 4
    out, err = capsys.readouterr()
    summary = json.loads(out)
    assert summary["converged"] is False
    assert summary["settings"]["num_chains"] == 2
    assert len(err.splitlines()) == 1
    assert "NOT CONVERGED" in err
    assert "R-hat" in err
    folder = tmp_path / "chains"
    assert run([*arguments, "--allow-unconverged", "--output", str(folder)]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["epsilon"] == summary["epsilon"]
    assert (folder / "traces.png").exists()
    assert (folder / "ranks.png").exists()


def test_the_samplers_of_the_shell() -> None:
    sampler = em.engines.McmcSettings
    assert CHAINS_OF("mcmc") == sampler()
    assert CHAINS_OF("published") == sampler.published()


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("epsilometer ")
    assert run(["--help"]) == 0
    assert "estimate" in capsys.readouterr().out
    assert run(["estimate", "--help"]) == 0
    assert "--delta" in capsys.readouterr().out


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from epsilometer.cli.main import run; run(['--help']); "
        "sys.exit(bool({'numba', 'scipy', 'xarray', 'matplotlib', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- bad input --------------------------------------------------------------------------------


def assert_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], *expected: str
) -> None:
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1, err
    assert err.startswith("epsilometer: ")
    for text in expected:
        assert text in err


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", ["empty file"]),
        ("\n\n", ["empty file"]),
        (HEADER, ["at least one challenge base"]),
        ("false_positives,trials_h0,false_negatives\n1,2,3\n", ["row 1", "missing trials_h1"]),
        (HEADER.strip() + ",colour\n1,2,3,4,red\n", ["row 1", "unknown column 'colour'"]),
        (HEADER.strip() + ",trials_h1\n1,2,3,4,4\n", ["row 1", "occurs twice"]),
        (HEADER + "1,10,2,10\n1.5,10,2,10\n", ["row 3", "false_positives='1.5'"]),
        (HEADER + "x,10,2,10\n", ["row 2", "false_positives='x'"]),
        (HEADER + "nan,10,2,10\n", ["row 2", "false_positives='nan'"]),
        (HEADER + "inf,10,2,10\n", ["row 2"]),
        (HEADER + ",10,2,10\n", ["row 2"]),
        (HEADER + "-1,10,2,10\n", ["row 2", "false_positives=-1"]),
        (HEADER + "1,10,-2,10\n", ["row 2", "false_negatives=-2"]),
        (HEADER + "12,10,2,10\n", ["row 2", "false_positives=12, trials_h0=10"]),
        (HEADER + "1,10,12,10\n", ["row 2", "false_negatives=12, trials_h1=10"]),
        (HEADER + "0,0,2,10\n", ["row 2", "trials_h0=0"]),
        (HEADER + "1,10,0,0\n", ["row 2", "trials_h1=0"]),
        (HEADER + "1,1" + "0" * 40 + ",2,10\n", ["row 2", "trials_h0"]),
        (HEADER + "1,10000000000000000,2,10\n", ["row 2", "trials_h0"]),
        (HEADER + "1,10,2\n", ["row 2", "expected 4 cells, got 3"]),
        (HEADER + '1,10,2,"10\n', ["row"]),
        (HEADER + "1,10,2,10\0\n", ["NUL"]),
        (b"\xff\xfe\x00bad", ["UTF-8"]),
        (HEADER + '"1\n\x1b[31m",10,2,10\n', ["row"]),
    ],
)
def test_bad_csv(
    content: str | bytes,
    expected: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "counts.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    folder = tmp_path / "results"
    arguments = ["estimate", str(path), "--delta", "0.01", "--output", str(folder)]
    assert_refused(capsys, arguments, "counts.csv", *expected)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("{", "not valid JSON"),
        ("{}", "expected a list"),
        ("[]", "at least one challenge base"),
        ("[1]", "item 1"),
        ('[{"false_positives": 1}]', "item 1"),
        (
            '[{"false_positives": NaN, "trials_h0": 1, "false_negatives": 1, "trials_h1": 1}]',
            "NaN",
        ),
        (
            '[{"false_positives": 1.5, "trials_h0": 2, "false_negatives": 1, "trials_h1": 1}]',
            "item 1",
        ),
        (
            '[{"false_positives": true, "trials_h0": 2, "false_negatives": 1, "trials_h1": 1}]',
            "item 1",
        ),
        ("[" * 100_000, "not valid JSON"),
    ],
)
def test_bad_json(
    content: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "counts.json"
    path.write_text(content)
    assert_refused(capsys, ["estimate", str(path), "--delta", "0"], "counts.json", expected)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "--delta"),
        (["--delta", "1"], "delta=1.0"),
        (["--delta", "-0.1"], "delta=-0.1"),
        (["--delta", "nan"], "delta=nan"),
        (["--delta", "inf"], "delta=inf"),
        (["--delta", "small"], "--delta"),
        (["--delta"], "--delta"),
        (["--delta", "0", "--level", "0"], "level=0.0"),
        (["--delta", "0", "--level", "1"], "level=1.0"),
        (["--delta", "0", "--level", "90"], "level=90.0"),
        (["--delta", "0", "--level", "nan"], "level=nan"),
        (["--delta", "0", "--claim", "-1"], "claim=-1.0"),
        (["--delta", "0", "--strength", "1.1"], "strength=1.1"),
        (["--delta", "0", "--strength", "-0.1"], "strength=-0.1"),
        (["--delta", "0", "--strength", "nan"], "strength=nan"),
        (["--delta", "0", "--epsilon-prior-scale", "0"], "epsilon_prior_scale=0.0"),
        (["--delta", "0", "--epsilon-prior-scale", "nan"], "epsilon_prior_scale=nan"),
        (["--delta", "0", "--likelihood", "poisson"], "likelihood='poisson'"),
        (["--delta", "0", "--engine", "magic"], "engine='magic'"),
        (["--delta", "0", "--colour", "red"], "--colour"),
        (["--delta", "0", "second.csv"], "second.csv"),
    ],
)
def test_bad_arguments(
    arguments: list[str], expected: str, good: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_refused(capsys, ["estimate", str(good), *arguments], expected)


def test_correlated_model_on_one_trial(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "counts.csv"
    path.write_text(HEADER + "0,1,1,10\n")
    arguments = ["estimate", str(path), "--delta", "0", "--likelihood", "correlated"]
    assert_refused(capsys, arguments, "trials_h0 >= 2")


def test_missing_things(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert_refused(capsys, ["estimate", str(tmp_path / "no.csv"), "--delta", "0"], "no.csv")
    assert_refused(capsys, ["estimate", str(tmp_path), "--delta", "0"], "cannot be read")
    assert_refused(capsys, ["estimate"], "FILE")
    assert_refused(capsys, ["guess"], "guess")


def test_output_that_cannot_be_written(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").write_text("a file")
    for folder in (tmp_path / "taken", tmp_path / "taken" / "below"):
        arguments = ["estimate", str(good), "--delta", "0.01", "--output", str(folder)]
        assert_refused(capsys, arguments, "taken")
    assert (tmp_path / "taken").read_text() == "a file"


def test_a_disk_that_fails_late_does_not_lose_the_result(
    good: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device", "posterior.nc")

    monkeypatch.setattr("epsilometer.posteriors.trees.write", fail)
    arguments = ["estimate", str(good), "--delta", "0.01", "--json"]
    assert run([*arguments, "--output", str(tmp_path / "full")]) == 2
    out, err = capsys.readouterr()
    assert json.loads(out)["num_challenge_bases"] == 2
    assert err == "epsilometer: posterior.nc: No space left on device.\n"


def test_interrupt(
    good: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("epsilometer.engines.exact.engine.estimate_exact", stop)
    assert run(["estimate", str(good), "--delta", "0.01"]) == 130
    out, err = capsys.readouterr()
    assert out == ""
    assert err.strip() == "epsilometer: interrupted."


def test_correlated_counts_at_their_ends_are_doubted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Five perfect attacks: the normal density has no bound there, and epsilon runs away."""
    header = "false_positives,trials_h0,false_negatives,trials_h1\n"
    perfect, mixed = tmp_path / "perfect.csv", tmp_path / "mixed.csv"
    rows = [f"{x},50,0,50\n" for x in (5, 4, 6, 5, 7)]
    perfect.write_text(header + "".join(rows), encoding="utf-8")
    mixed.write_text(header + "".join([*rows[:2], "5,50,9,50\n", "4,50,20,50\n"]), encoding="utf-8")
    common = ["--delta", "0.001", "--likelihood", "correlated-published"]
    run(["estimate", str(perfect), *common])
    error = capsys.readouterr().err
    assert "5 of 5 bases have an error count of 0 or of all challenges" in error
    assert "With independent counts (likelihood binomial) epsilon is" in error
    run(["estimate", str(mixed), *common])
    assert "or of all challenges" not in capsys.readouterr().err
    # Probabilities of whole counts have a bound.
    for likelihood in ("binomial", "correlated"):
        run(["estimate", str(perfect), "--delta", "0.001", "--likelihood", likelihood])
        assert "or of all challenges" not in capsys.readouterr().err
