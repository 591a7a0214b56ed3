"""``epsilometer plan``, and ``audit --until-width``: an audit that stops by itself."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epsilometer as em
from epsilometer.auditing.stopping import interim_sizes
from epsilometer.cli import results
from epsilometer.cli.main import run
from epsilometer.model.region import sample_rings
from tests.cli.test_estimate import PROGRAM

QUICK = ["--simulations", "20", "--workers", "1", "--seed", "2"]
SMALL = ["plan", *QUICK, "--most-bases", "7", "--most-challenges", "50"]
ASSUMED = ["--epsilon", "2", "--strength", "0.5", "--delta", "1e-3", "--likelihood", "binomial"]

CONFIG = """
[population]
source = "directions"
[audit]
challenge_bases = 12
replicates = 40
dataset_size = 20
seed = 1
[algorithm]
object = "clipped-mean"
options = { noise = 0.02, records = 20 }
[attack]
target_alpha = 0.2
[estimate]
model = "count"
delta = 0.1
likelihood = "binomial"
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "audit.toml"
    path.write_text(CONFIG)
    return path


# --- plan -------------------------------------------------------------------------------------


def test_a_plan_is_told_drawn_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wish = ["--width", "4.5", "--models-per-second", "2", "--output", str(tmp_path / "plan")]
    assert run([*SMALL, *ASSUMED, *wish]) == 0
    text = capsys.readouterr().out
    body = text.split("\nWritten to")[0]
    assert max(map(len, body.splitlines())) <= 80
    assert body.startswith("Take ")
    assert "floor" in body
    written = json.loads((tmp_path / "plan" / "plan.json").read_text())
    chosen = written["recommended"]
    assert chosen["probability"] >= 0.8
    assert chosen["median_width"] <= 4.5
    assert chosen["models"] == 2 * chosen["bases"] * chosen["challenges"]
    assert f"{chosen['bases']} challenge bases" in body
    assert chosen["hours"] == pytest.approx(chosen["models"] / 7200)
    assert len((tmp_path / "plan" / "plan.csv").read_text().splitlines()) > 1
    assert (tmp_path / "plan" / "plan.png").read_bytes().startswith(b"\x89PNG")


def test_a_pilot_brings_its_own_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(2)
    alpha, beta = sample_rings(2.0, 1e-3, 0.5, size=(5,), rng=rng)
    counts = em.likelihoods.IndependentBinomial().sample(
        alpha, beta, trials_h0=50, trials_h1=50, rng=rng
    )
    em.estimate(counts, em.CountModel(delta=1e-3)).save(tmp_path / "posterior.nc")
    pilot = ["plan", *QUICK, "--pilot", str(tmp_path), "--most-bases", "10", "--claim", "5"]
    assert run([*pilot, "--extend", "--width", "5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["model"] == {
        "delta": 1e-3,
        "likelihood": "IndependentBinomial",
        "epsilon_prior": repr(em.priors.HalfNormal()),
        "strength_prior": repr(em.priors.Beta()),
    }
    assert found["scenario"]["pilot"]["extended"]
    assert {design["challenges"] for design in found["designs"]} == {50}
    assert min(design["bases"] for design in found["designs"]) > 5
    assert run([*pilot, "--delta", "0.1"]) == 2
    assert "--delta is that of the pilot" in capsys.readouterr().err


def test_nothing_to_do_is_said_and_leaves_no_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plan.png").write_bytes(b"of an earlier plan")
    assert run([*SMALL, *ASSUMED, "--width", "9", "--output", str(tmp_path), "--force"]) == 0
    assert capsys.readouterr().out.startswith("Nothing needs to be measured")
    assert not (tmp_path / "plan.png").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (ASSUMED, "expected --width W, --claim C or both"),
        (["--width", "1", "--epsilon", "2"], "expected --epsilon E, --strength S and --delta D"),
        ([*ASSUMED, "--width", "0"], "expected at_most > 0"),
        ([*ASSUMED, "--width", "1", "--extend"], "--extend is for --pilot"),
        ([*ASSUMED, "--width", "1", "--probability", "2"], "expected 0 < probability < 1"),
        ([*ASSUMED[:6], "--likelihood", "x", "--width", "1"], "expected likelihood to be one of"),
        ([*ASSUMED, "--width", "1", "--shadows", "0"], "expected shadows_h0 >= 1"),
        (["--pilot", "nowhere.nc", "--width", "1"], "nowhere.nc"),
    ],
)
def test_bad_options_are_refused_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*SMALL, *arguments]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


# --- canaries of one run ----------------------------------------------------------------------

CANARIES = ["plan", "--design", "one-run", "--epsilon", "8", "--delta", "1e-5"]


def test_canaries_are_planned_told_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plan.png").write_bytes(b"of an earlier plan")
    told = ["--family", "gaussian", "--mixing", "none", "--known-strength", "--simulations", "4"]
    size = ["--runs", "2", "--dataset-size", "5000", "--most-canaries", "2000"]
    wish = ["--claim", "2", "--output", str(tmp_path)]
    assert run([*CANARIES, *told, *size, *wish]) == 2
    assert "--force" in capsys.readouterr().err
    assert run([*CANARIES, *told, *size, *wish, "--force"]) == 0
    out, err = capsys.readouterr()
    assert "first answer: about" in err
    body = out.split("\nWritten to")[0]
    assert max(map(len, body.splitlines())) <= 80
    assert body.startswith("Take ")
    assert "Canaries of one run interfere" in body
    assert "of 5,000 records" in " ".join(body.split())
    written = json.loads((tmp_path / "plan.json").read_text())
    assert written["model"]["families"] == ["gaussian"]
    assert written["model"]["strength"] == 1.0
    assert (written["runs"], written["most"]) == (2, 2000)
    assert written["recommended"]["fail_share"] >= 0.8
    assert len((tmp_path / "plan.csv").read_text().splitlines()) == len(written["designs"]) + 1
    assert not (tmp_path / "plan.png").exists()
    # The same object as JSON.
    assert run([*CANARIES, *told, *size, "--claim", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == written


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*CANARIES], "expected --width W, --claim C or both"),
        ([*CANARIES, "--width", "1", "--pilot", "x"], "--pilot is for --design models"),
        ([*CANARIES, "--width", "1", "--shadows", "3"], "--shadows is for --design models"),
        ([*CANARIES, "--width", "1", "--likelihood", "binomial"], "--likelihood is for --design"),
        ([*CANARIES, "--width", "1", "--most-bases", "9"], "--most-bases is for --design models"),
        ([*CANARIES, "--width", "1", "--extend"], "--extend is for --design models"),
        ([*CANARIES, "--width", "1", "--runs", "0"], "expected runs >= 1"),
        ([*CANARIES, "--width", "1", "--curve", "x"], "expected curve to be one of gaussian"),
        ([*CANARIES, "--width", "1", "--mixing", "x"], "expected mixing to be free"),
        ([*CANARIES[:5], "--width", "1"], "expected --epsilon E and --delta D"),
        ([*SMALL, *ASSUMED, "--width", "1", "--runs", "2"], "--runs is for --design one-run"),
        ([*SMALL, *ASSUMED, "--width", "1", "--design", "x"], "expected design to be one of"),
    ],
)
def test_options_of_another_design_are_refused_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


# --- an audit that stops by itself ------------------------------------------------------------


def audited(config: Path, capsys: pytest.CaptureFixture[str], width: float) -> dict[str, Any]:
    capsys.readouterr()
    assert run(["audit", str(config), "--json", "--until-width", str(width)]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_interim_analyses_grow_by_a_quarter_and_end_at_the_most() -> None:
    assert list(interim_sizes(3)) == [3]
    sizes = list(interim_sizes(100))
    assert (sizes[0], sizes[-1]) == (5, 100)
    assert sizes == sorted(set(sizes))


def test_stops_when_narrow_enough(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = audited(config, capsys, 2.6)
    stopping = found["stopping"]
    used = stopping["bases_used"]
    low, high = found["epsilon"]["interval"]
    assert stopping["reached"]
    assert high - low == stopping["looks"][-1]["width"] <= 2.6
    assert all(look["width"] > 2.6 for look in stopping["looks"][:-1])
    assert 5 < used < 12  # neither at the first analysis nor at the last
    assert len(stopping["looks"]) > 1
    assert found["models_trained"] == 80 * used
    # As if so many bases had been asked for from the start.
    config.write_text(CONFIG.replace("challenge_bases = 12", f"challenge_bases = {used}"))
    assert run(["audit", str(config), "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["epsilon"] == found["epsilon"]
    assert plain["plan"] == found["plan"]
    assert (plain["models_trained"], plain["models_reused"]) == (0, 80 * used)


def test_a_width_out_of_reach_uses_every_base(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["audit", str(config), "--until-width", "0.01"]) == 0
    out, err = capsys.readouterr()
    said = " ".join(out.split())
    assert "All 12 challenge bases were used" in said
    assert (
        "The proof is anytime-valid; other bounds would need a correction for each analysis."
        in said
    )
    assert err.count("goal 0.01") == len(list(interim_sizes(12)))
    assert max(map(len, out.splitlines())) <= 80


def test_killed_and_started_again_stops_at_the_same_base(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = audited(config, capsys, 2.6)
    (tmp_path / "audit.db").unlink()
    command = [sys.executable, "-c", PROGRAM, "audit", str(config), "--until-width", "2.6"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 120
        while not (tmp_path / "audit.db").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    again = audited(config, capsys, 2.6)
    assert again["stopping"] == whole["stopping"]
    assert again["epsilon"] == whole["epsilon"]


def test_the_wanted_width_is_checked(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", str(config), "--until-width", "0"]) == 2
    assert "expected until_width > 0" in capsys.readouterr().err


# --- the quick search -------------------------------------------------------------------------


@pytest.mark.slow
def test_by_default_the_search_is_quick_and_states_its_precision(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """README's question, for independent counts; progress is printed without a terminal too."""
    monkeypatch.setattr(results, "SECONDS_BETWEEN_LINES", 0.5)
    assert run(["plan", *ASSUMED, "--width", "1", "--workers", "1", "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    chosen = found["recommended"]
    assert found["quick"]
    assert chosen["probability"] >= 0.8
    assert chosen["simulations"] <= 20
    assert 0.02 < chosen["standard_error"] < 0.15
    assert f"{chosen['simulations']} simulated audits" in found["what_helps"][0]
    assert f"standard error {chosen['standard_error']:.2f}" in found["what_helps"][0]
    assert "--thorough" in found["what_helps"][0]
    assert re.search(r"simulated audits: \d+ done after \d+ s\n", err)
    assert "first answer: " in err


@pytest.mark.slow
def test_simulations_or_thorough_make_it_thorough(capsys: pytest.CaptureFixture[str]) -> None:
    size = ["--most-bases", "5", "--most-challenges", "20", "--workers", "1", "--json"]
    for option, quick in (([], True), (["--simulations", "20"], False), (["--thorough"], False)):
        assert run(["plan", *ASSUMED, "--width", "4.5", *size, *option]) == 0
        assert json.loads(capsys.readouterr().out)["quick"] is quick
