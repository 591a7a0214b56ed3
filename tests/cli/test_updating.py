"""``epsilometer estimate`` with several files: posteriors to go on from, other assumptions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import epsilometer as em
from epsilometer.cli.main import run
from tests.cli.shell import Shell
from tests.cli.test_estimate import HEADER, in_shell

FIRST = HEADER + "10,100,20,80\n30,100,30,80\n"
SECOND = HEADER + "5,100,40,80\n8,100,35,80\n"
DELTA = ["--delta", "0.01"]


@pytest.fixture
def first(tmp_path: Path) -> str:
    (tmp_path / "first.csv").write_text(FIRST)
    return str(tmp_path / "first.csv")


@pytest.fixture
def second(tmp_path: Path) -> str:
    (tmp_path / "second.csv").write_text(SECOND)
    return str(tmp_path / "second.csv")


@pytest.fixture
def folder(first: str, tmp_path: Path, shell: Shell) -> str:
    made = tmp_path / "result"
    shell.said("estimate", first, *DELTA, "--output", made)
    return str(made)


def all_at_once(first: str, second: str) -> em.engines.CountPosterior:
    counts = em.AttackCounts.read(first).joined(em.AttackCounts.read(second))
    return em.estimate(counts, em.CountModel(delta=0.01))


def test_files_are_estimated_together(first: str, second: str, shell: Shell) -> None:
    expected = all_at_once(first, second)
    low, high = expected.credible_interval("epsilon", 0.9)
    for files in ([first, second], [second, first]):
        found = shell.json("estimate", *files, *DELTA)
        assert found["epsilon"]["interval"] == pytest.approx([low, high], rel=2e-3)
        assert found["num_challenge_bases"] == 4


@pytest.mark.slow
def test_standard_input_may_be_one_of_them(first: str) -> None:
    done = in_shell("estimate", first, "-", *DELTA, "--json", stdin=SECOND)
    assert json.loads(done.stdout)["num_challenge_bases"] == 4
    assert in_shell("estimate", "-", "-", *DELTA, stdin=SECOND).returncode == 2


# --- going on from a posterior ----------------------------------------------------------------


def test_a_result_goes_on_in_another_folder(
    folder: str, first: str, second: str, tmp_path: Path, shell: Shell
) -> None:
    """In its own, error curves, losses and figures would be of the earlier counts."""
    assert "the result to update" in shell.refused(
        "estimate", folder, second, "--output", folder, "--force"
    )
    after = tmp_path / "after"
    found = shell.json("estimate", folder, second, "--output", str(after))
    expected = all_at_once(first, second)
    assert found["epsilon"]["median"] == pytest.approx(expected.median("epsilon"), rel=2e-3)
    assert found["delta"] == 0.01
    assert len(em.load(Path(folder) / "posterior.nc").counts) == 2
    assert em.load(after / "posterior.nc").counts == expected.counts
    # The file itself serves as well, and other commands read what was written.
    assert shell.json("estimate", str(after / "posterior.nc"), second)["num_challenge_bases"] == 6
    assert shell.json("report", after)


def test_priors_and_likelihood_come_from_the_posterior(
    first: str, second: str, tmp_path: Path, shell: Shell
) -> None:
    path = tmp_path / "p.nc"
    model = em.CountModel(
        delta=0.02,
        epsilon=em.priors.Exponential(mean=2.0),
        strength=em.priors.Fixed(value=0.5),
        likelihood=em.likelihoods.CorrelatedCells(),
    )
    em.estimate(em.AttackCounts.read(first), model).save(path)
    found = shell.json(
        "estimate", str(path), second, "--delta", "0.02", "--likelihood", "correlated"
    )
    assert found["assumptions"]["priors"]["epsilon"]["name"] == "Exponential"
    assert found["strength"]["interval"] == [0.5, 0.5]
    assert "within_correlation" in found


@pytest.mark.parametrize(
    "option",
    [
        ["--delta", "0.02"],
        ["--likelihood", "correlated"],
        ["--strength", "0.5"],
        ["--epsilon-prior-scale", "2"],
        ["--engine", "mcmc"],
    ],
)
def test_contradictions_are_refused(
    option: list[str], folder: str, second: str, shell: Shell
) -> None:
    assert f"{option[0]} contradicts" in shell.refused("estimate", folder, second, *option)


def test_options_that_agree_are_none(folder: str, second: str, shell: Shell) -> None:
    agree = ["--delta", "1e-2", "--likelihood", "binomial", "--engine", "exact"]
    shell.json("estimate", folder, second, *agree, "--epsilon-prior-scale", repr(10**0.5))


@pytest.mark.slow
def test_chains_go_on_as_chains(
    first: str, second: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.nc"
    settings = em.engines.McmcSettings(num_iterations=200, num_warmup=100, num_chains=2, seed=3)
    em.estimate(em.AttackCounts.read(first), em.CountModel(delta=0.01), settings).save(path)
    assert run(["estimate", str(path), second, "--json"]) in (0, 4)
    found = json.loads(capsys.readouterr().out)
    assert (found["settings"]["num_iterations"], found["seed"]) == (200, 3)


def test_files_that_are_no_posteriors_are_refused(
    folder: str, first: str, second: str, tmp_path: Path, shell: Shell
) -> None:
    damaged = tmp_path / "damaged.nc"
    whole = (Path(folder) / "posterior.nc").read_bytes()
    damaged.write_bytes(whole[: len(whole) // 2])
    assert "damaged" in shell.refused("estimate", str(damaged), second)
    (tmp_path / "text.nc").write_text(FIRST)
    assert "expected a NetCDF file" in shell.refused("estimate", str(tmp_path / "text.nc"), second)
    assert "cannot be read" in shell.refused("estimate", str(tmp_path / "none.nc"), second)
    assert "expected one result, got several" in shell.refused("estimate", str(tmp_path), second)
    (tmp_path / "empty").mkdir()
    assert "folder with posterior.nc" in shell.refused("estimate", str(tmp_path / "empty"), second)
    assert "only the first file may be a posterior" in shell.refused(
        "estimate", first, folder, *DELTA
    )
    assert "expected --delta" in shell.refused("estimate", first, second)


# --- bases entered twice ----------------------------------------------------------------------


def test_a_base_entered_twice_is_told(tmp_path: Path, shell: Shell) -> None:
    header = "challenge_base," + HEADER
    (tmp_path / "a.csv").write_text(header + "dog,10,100,20,80\ncat,30,100,30,80\n")
    (tmp_path / "b.csv").write_text(header + "dog,12,100,22,80\n")
    err = shell("estimate", str(tmp_path / "a.csv"), str(tmp_path / "b.csv"), *DELTA)[1]
    assert err.count("\n") == 1
    assert all(word in err for word in ("dog", "treated as independent data", "`group`"))
    assert "cat" not in err


# --- other assumptions ------------------------------------------------------------------------


def test_check_model_prints_a_table(first: str, shell: Shell) -> None:
    out, err = shell("estimate", first, *DELTA, "--check-model")
    assert err == ""
    for expected in ("binomial, strength 0.9", "correlated, strength free", "log BF"):
        assert expected in out


def test_check_model_in_json(first: str, shell: Shell) -> None:
    found = shell.json("estimate", first, *DELTA, "--check-model", "--level", "0.8")[
        "model_comparison"
    ]
    rows = found["assumptions"]
    assert rows[0]["used"]
    assert rows[0]["log_bayes_factor"] == 0
    assert sum(row["probability"] for row in rows) == pytest.approx(1.0)
    model = em.CountModel(delta=0.01, strength=em.priors.Fixed(value=0.9))
    expected = em.estimate(em.AttackCounts.read(first), model)
    held = next(row for row in rows if row["assumption"] == "binomial, strength 0.9")
    assert held["log_evidence"] == pytest.approx(expected.log_evidence, abs=5e-3)
    assert held["epsilon"]["interval"] == pytest.approx(
        list(expected.credible_interval("epsilon", 0.8)), rel=2e-3
    )
    assert "model_comparison" not in shell.json("estimate", first, *DELTA)
