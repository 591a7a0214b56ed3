"""``epsilometer plan``, and ``audit --until-width``: an audit that stops by itself."""

from __future__ import annotations

import json
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
from epsilometer.model.region import sample_rings
from tests.cli.shell import Shell
from tests.cli.small_audit import COUNTED, audit_text, clipped
from tests.cli.test_estimate import PROGRAM
from tests.drawn import binomial_counts

CURVE = ["plan", "--workers", "1", "--epsilon", "8", "--delta", "1e-5"]
PROVE = [*CURVE, "--most-bases", "5", "--most-challenges", "200"]

CONFIG = audit_text(
    "challenge_bases = 12\nreplicates = 40\ndataset_size = 20",
    clipped(0.02, 20) + "\n[attack]\ntarget_alpha = 0.2",
    COUNTED.format(delta=0.1),
)


# --- plan -------------------------------------------------------------------------------------


def test_a_plan_is_told_drawn_and_written(tmp_path: Path, shell: Shell) -> None:
    wish = ["--prove", "1", "--models-per-second", "2", "--output", str(tmp_path / "plan")]
    out, err = shell(*PROVE, *wish)
    assert "so far: " in err
    body = out.split("\nWritten to")[0]
    assert max(map(len, body.splitlines())) <= 80
    assert body.startswith("Take ")
    written = json.loads((tmp_path / "plan" / "plan.json").read_text())
    chosen = written["recommended"]
    assert chosen["probability"] >= 0.8
    assert chosen["proven"] >= 1
    sizes = chosen["sizes"]
    assert chosen["models"] == 2 * sizes["bases"] * sizes["challenges"]
    assert f"{sizes['bases']} challenge bases" in body
    assert chosen["hours"] == pytest.approx(chosen["models"] / 7200)
    assert len((tmp_path / "plan" / "plan.csv").read_text().splitlines()) > 1
    assert (tmp_path / "plan" / "plan.png").read_bytes().startswith(b"\x89PNG")
    # The same object as JSON; and a folder in use is not overwritten.
    assert shell.json(*PROVE, *wish[:4]) == written
    assert "--force" in shell.refused(*PROVE, *wish)


@pytest.mark.parametrize(
    ("design", "sizes"),
    [
        (["--design", "one-run", "--most-canaries", "2000", "--runs", "2"], {"runs", "canaries"}),
        (["--design", "pool", "--most-models", "300", "--most-points", "20"], {"points", "models"}),
        (
            ["--model", "count", "--most-bases", "5", "--most-challenges", "100"],
            {"bases", "challenges"},
        ),
    ],
)
def test_every_design_is_planned(design: list[str], sizes: set[str], shell: Shell) -> None:
    found = shell.json(*CURVE, *design, "--prove", "1")
    assert set(found["recommended"]["sizes"]) == sizes
    assert found["quick"]


def test_what_the_audit_assumes_reaches_the_model(shell: Shell) -> None:
    told = ["--family", "gaussian", "--mixing", "none", "--known-strength", "--strength", "0.5"]
    found = shell.json(*CURVE, *told, "--width", "90")
    assert found["nothing_needed"]
    assert (found["model"]["families"], found["model"]["mixing"]) == (["gaussian"], "none")
    assert found["model"]["strength"] == repr(em.families.FixedStrength(value=0.5))
    assert found["scenario"]["assumed"]["strength"] == 0.5


def test_a_pilot_brings_its_own_model(tmp_path: Path, shell: Shell) -> None:
    rng = np.random.default_rng(2)
    alpha, beta = sample_rings(2.0, 1e-3, 0.5, size=(5,), rng=rng)
    counts = binomial_counts(alpha, beta, 50, 50, rng)
    em.estimate(counts, em.CountModel(delta=1e-3)).save(tmp_path / "posterior.nc")
    pilot = ["plan", "--workers", "1", "--simulations", "8", "--pilot", str(tmp_path)]
    found = shell.json(*pilot, "--most-bases", "10", "--extend", "--width", "4")
    assert found["model"]["likelihood"] == "IndependentBinomial"
    assert found["scenario"]["pilot"]["extended"]
    assert {design["sizes"]["challenges"] for design in found["designs"]} == {50}
    assert min(design["sizes"]["bases"] for design in found["designs"]) > 5
    assert "--delta is that of the pilot" in shell.refused(*pilot, "--delta", "0.1", "--width", "4")


def test_a_pilot_may_be_scores(tmp_path: Path, shell: Shell) -> None:
    rng = np.random.default_rng(2)
    scores = em.Scores(
        without=[*rng.normal(size=(3, 40))], with_point=[*rng.normal(3, size=(3, 40))]
    )
    scores.write(tmp_path / "scores.csv")
    pilot = ["plan", "--workers", "1", "--pilot", str(tmp_path / "scores.csv"), "--prove", "0.5"]
    found = shell.json(*pilot, "--delta", "1e-3")
    assert found["model"]["kind"] == "curve"
    assert found["recommended"]["sizes"]["bases"] >= 5
    assert "delta" in shell.refused(*pilot)


def test_nothing_to_do_is_said_and_leaves_no_figure(tmp_path: Path, shell: Shell) -> None:
    (tmp_path / "plan.png").write_bytes(b"of an earlier plan")
    assert shell.said(*CURVE, "--width", "60", "--output", str(tmp_path), "--force").startswith(
        "Nothing needs to be measured"
    )
    assert not (tmp_path / "plan.png").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected a goal"),
        (["--width", "1", "--extend"], "--extend is for --pilot"),
        (["--width", "1", "--likelihood", "x"], "likelihood"),
        (["--width", "1", "--shadows", "0"], "shadows"),
        (["--width", "1", "--runs", "2"], "--runs is for another design"),
        (["--width", "1", "--design", "x"], "design"),
        (["--width", "1", "--design", "one-run", "--most-bases", "9"], "--most-bases is for"),
        (["--width", "1", "--curve", "x"], "curve"),
        (["--width", "1", "--mixing", "x"], "mixing"),
        (["--width", "1", "--model", "x"], "model"),
        (["--width", "1", "--pilot", "nowhere.nc"], "--epsilon is that of the pilot"),
    ],
)
def test_bad_options_are_refused_in_one_line(
    arguments: list[str], message: str, shell: Shell
) -> None:
    err = shell(*CURVE, *arguments, code=2)[1]
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("missing", [["plan", "--width", "1"], ["plan", "--pilot", "x.nc"]])
def test_missing_assumptions_are_named(missing: list[str], shell: Shell) -> None:
    err = shell(*missing, "--width", "1", code=2)[1]
    assert "--epsilon E and --delta D" in err or "x.nc" in err


# --- an audit that stops by itself ------------------------------------------------------------


def audited(config: Path, shell: Shell) -> dict[str, Any]:
    return shell.json("audit", config, "--until-width", "2.6")


def test_interim_analyses_grow_by_a_quarter_and_end_at_the_most() -> None:
    assert list(interim_sizes(3)) == [3]
    sizes = list(interim_sizes(100))
    assert (sizes[0], sizes[-1]) == (5, 100)
    assert sizes == sorted(set(sizes))


def test_stops_when_narrow_enough(config: Path, shell: Shell) -> None:
    found = audited(config, shell)
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
    plain = shell.json("audit", str(config))
    assert plain["epsilon"] == found["epsilon"]
    assert plain["plan"] == found["plan"]
    assert (plain["models_trained"], plain["models_reused"]) == (0, 80 * used)


def test_a_width_out_of_reach_uses_every_base(config: Path, shell: Shell) -> None:
    out, err = shell("audit", str(config), "--until-width", "0.01")
    said = " ".join(out.split())
    assert "All 12 challenge bases were used" in said
    assert (
        "The proof is anytime-valid; other bounds would need a correction for each analysis."
        in said
    )
    assert err.count("goal 0.01") == len(list(interim_sizes(12)))
    assert max(map(len, out.splitlines())) <= 80


def test_killed_and_started_again_stops_at_the_same_base(
    config: Path, tmp_path: Path, shell: Shell
) -> None:
    whole = audited(config, shell)
    (tmp_path / "audit.db").unlink()
    command = [sys.executable, "-c", PROGRAM, "audit", str(config), "--until-width", "2.6"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 120
        while not (tmp_path / "audit.db").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    again = audited(config, shell)
    assert again["stopping"] == whole["stopping"]
    assert again["epsilon"] == whole["epsilon"]


def test_the_wanted_width_is_checked(config: Path, shell: Shell) -> None:
    assert "expected until_width > 0" in shell.refused("audit", str(config), "--until-width", "0")
