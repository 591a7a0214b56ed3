"""`estimate` with several deltas: the table, files, page, exit codes, and what is refused."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

import epsilometer as em
from epsilometer.cli import options
from epsilometer.errors import InputError
from tests.cli.shell import Shell

HEADER = "false_positives,trials_h0,false_negatives,trials_h1\n"


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "counts.csv"
    path.write_text(HEADER + "10,100,20,80\n30,100,30,80\n")
    return path


# --- what --delta may say ------------------------------------------------------------------------


def test_forms_of_delta() -> None:
    assert options.parse_deltas("0") == (0.0,)
    assert options.parse_deltas("1e-3, 1e-6,0") == (1e-3, 1e-6, 0.0)
    grid = options.parse_deltas("1e-8:1e-2:4")
    assert (grid[0], grid[-1]) == (1e-8, 1e-2)
    assert grid == (1e-8, 1e-6, 1e-4, 1e-2)
    np.testing.assert_allclose(
        np.diff(np.log10(options.parse_deltas("3e-7:.5:9"))), 0.777731, atol=1e-6
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected --delta D, D,D,... or LOW:HIGH:COUNT, got ''"),
        ("1e-3,", "expected --delta D"),
        ("1e-3,x", "got '1e-3,x'"),
        ("1e-3,1e-3", "got 0.001 twice"),
        ("1e-3,1", "0 <= delta < 1, got delta=1.0"),
        ("nan", "expected a finite delta"),
        ("1e-6:1e-2", "LOW:HIGH:COUNT"),
        ("1e-6:1e-2:3.5", "LOW:HIGH:COUNT"),
        ("1e-6:1e-2:1", "COUNT >= 2"),
        ("1e-6:1e-2:99999999999999", "COUNT <= 1000"),
        ("0:1e-2:5", "0 < LOW < HIGH"),
        ("1e-2:1e-6:5", "0 < LOW < HIGH"),
        (",".join(str(1e-6 * i) for i in range(1, 1002)), "at most 1000 deltas, got 1001"),
    ],
)
def test_bad_deltas(text: str, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)) as caught:
        options.parse_deltas(text)
    assert len(str(caught.value)) < 200


# --- the command ---------------------------------------------------------------------------------


def test_table_and_json_hold_the_curve(good: Path, shell: Shell) -> None:
    options = ["estimate", str(good), "--delta", "1e-2,1e-6,1e-4", "--level", "0.8", "--claim", "1"]
    found = shell.json(*options)
    curve = em.engines.estimate_curve(
        em.AttackCounts.read(good), em.CountModel(delta=0.1), [1e-6, 1e-4, 1e-2]
    )
    rows = found["over_delta"]["curve"]
    assert [row["delta"] for row in rows] == [1e-6, 1e-4, 1e-2]
    low, high = curve.credible_interval(0.8)
    assert [row["low"] for row in rows] == low.tolist()
    assert [row["high"] for row in rows] == high.tolist()
    np.testing.assert_allclose([row["median"] for row in rows], curve.median, rtol=1e-12)
    assert [row["probability_above"] for row in rows] == curve.probability_above(1.0).tolist()
    posterior = em.estimate(em.AttackCounts.read(good), em.CountModel(delta=1e-2))
    judged = em.judge(posterior, 1.0, deltas=[1e-6, 1e-4, 1e-2])
    assert found["verdict"]["outcome"] == str(judged.outcome)
    assert found["verdict"]["reasons"] == list(judged.reasons)
    assert (found["delta"], found["claim"]["epsilon"]) == (1e-2, 1.0)
    out, err = shell(*options)
    assert err == ""
    assert max(map(len, out.splitlines())) <= 80
    assert out.startswith(judged.label)
    table = [line.split() for line in out.split("intervals:\n")[1].split("\n\n")[0].splitlines()]
    assert table[0] == ["delta", "low", "median", "high", "claim", "P(above)"]
    assert [row[0] for row in table[1:]] == ["1e-06", "0.0001", "0.01"]
    assert [float(row[2]) for row in table[1:]] == pytest.approx(curve.median, abs=5.1e-4)
    out = " ".join(shell.said(*options, "--details").split())
    assert "it is not a joint band for the whole curve" in out


def test_files_of_output_and_a_claimed_curve(good: Path, tmp_path: Path, shell: Shell) -> None:
    claim = tmp_path / "claim.csv"
    claim.write_text("delta,epsilon\n1e-5,100\n1e-3,0.01\n")
    folder = tmp_path / "out"
    options = ["estimate", str(good), "--delta", "1e-6:1e-2:5", "--claim-curve", str(claim)]
    said = " ".join(shell.said(*options, "--output", folder, "--fail-on", "fail", code=3).split())
    assert said.startswith("FAIL (proven): ")
    assert "Epsilon over delta, 90 % intervals:" in said
    names = {path.name for path in folder.iterdir()}
    assert {"curve.csv", "curve.json", "curve.png", "posterior.nc", "summary.json"} < names
    rows = list(csv.DictReader((folder / "curve.csv").read_text().splitlines()))
    assert [row["claim"] for row in rows] == ["", "100.0", "100.0", "0.01", "0.01"]
    saved = json.loads((folder / "curve.json").read_text())
    assert (saved["verdict"]["outcome"], saved["verdict"]["grounds"]) == ("FAIL", "proven")
    assert [row["median"] for row in saved["curve"]] == [float(row["median"]) for row in rows]
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_batches_are_taken_together(good: Path, shell: Shell) -> None:
    assert shell.json("estimate", good, good, "--delta", "1e-6,1e-4")["num_challenge_bases"] == 4


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--delta", "1e-6,1e-4", "--engine", "mcmc"], "--engine mcmc needs one delta, got 2"),
        (
            ["--delta", "1e-6", "--claim-curve", "CLAIM"],
            "--claim-curve needs several deltas, got 1",
        ),
        (["--delta", "1e-6,1e-4", "--claim-curve", "CLAIM", "--claim", "1"], "got both"),
        (["--delta", "1e-9,1e-8", "--claim-curve", "CLAIM"], "nothing is claimed at any"),
        (["--delta", "1e-6,1e-4", "--claim-curve", "nowhere.csv"], "nowhere.csv"),
    ],
)
def test_refused_in_one_line(
    options: list[str], said: str, good: Path, tmp_path: Path, shell: Shell
) -> None:
    claim = tmp_path / "claim.csv"
    claim.write_text("delta,epsilon\n1e-5,2\n")
    given = [str(claim) if option == "CLAIM" else option for option in options]
    assert said in shell.refused("estimate", good, *given)
