"""``epsilometer prove``, and ``audit --until-proven``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import epsilometer as em
from tests.cli.shell import Shell
from tests.cli.small_audit import AUDIT, edited

CONFIG = AUDIT.replace("challenge_bases = 3", "challenge_bases = 8").replace(
    "noise = 0.02", "noise = 0.004"
)


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    made = em.Scores(
        without=[rng.normal(size=80) for _ in range(5)],
        with_point=[rng.normal(size=80) + 2 for _ in range(5)],
    )
    made.write(tmp_path / "scores.csv")
    return tmp_path / "scores.csv"


def test_json_is_what_python_says(scores: Path, shell: Shell) -> None:
    found = shell.json("prove", scores, "--delta", 1e-5, "--claim", 1)
    proof = em.prove(em.Scores.read(scores), delta=1e-5, claim=1.0)
    assert found == json.loads(json.dumps(proof.described()))
    assert found["refuted"]
    assert found["at_least"] > 1


def test_text_says_when_it_is_valid(scores: Path, shell: Shell) -> None:
    out = shell.said("prove", scores, "--delta", "1e-5", "--claim", "9")
    assert out.startswith(
        "Not refuted: a claim of 9. Proven: at delta = 1e-05, epsilon is at least"
    )
    assert "at any time" in out
    assert "Data: 5 challenge bases, 800 scores of models" in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("claim", "gate", "code"), [(1, "proven", 3), (9, "proven", 0), (1, "never", 0)]
)
def test_exit_codes(claim: float, gate: str, code: int, scores: Path, shell: Shell) -> None:
    arguments = ["prove", scores, "--delta", 1e-5, "--claim", claim, "--fail-on", gate]
    shell.json(*arguments, code=code)


def test_counts_and_canaries_are_for_one_look(tmp_path: Path, shell: Shell) -> None:
    (tmp_path / "counts.csv").write_text(
        "false_positives,trials_h0,false_negatives,trials_h1\n4,100,30,100\n"
    )
    rng = np.random.default_rng(0)
    members = rng.integers(0, 2, 400)
    rows = "".join(f"{rng.normal() + 2 * m},{m}\n" for m in members)
    (tmp_path / "canaries.csv").write_text(f"score,member\n{rows}")
    for name in ("counts.csv", "canaries.csv"):
        found = shell.json("prove", tmp_path / name, "--delta", 1e-5)
        assert not found["any_time"]
        assert found["at_least"] > 0.3


def test_canaries_prove_more_if_their_noise_is_independent(tmp_path: Path, shell: Shell) -> None:
    rng, file = np.random.default_rng(4), tmp_path / "canaries.csv"
    members = rng.integers(0, 2, 2000)
    rows = "".join(f"{rng.normal() + 1.5 * m},{m}\n" for m in members)
    file.write_text(f"score,member\n{rows}")
    claim = ["--delta", 1e-5, "--claim", 4]
    assert "conditional" not in shell.json("prove", file, *claim)
    assumed = [*claim, "--assume-independent-noise"]
    entry = shell.json("prove", file, *assumed)["conditional"]
    assert entry["at_least"] > 5
    assert entry["refuted"]
    assert entry["shared_luck_p_value"] > 0.01
    said = " ".join(shell.said("prove", file, *assumed).split())
    assert "If the noise of canaries is independent and normal: epsilon is at least" in said
    # Only the gate that names the condition stops at it.
    for gate, code in (("never", 0), ("proven", 0), ("conditional", 3)):
        shell("prove", file, *assumed, "--fail-on", gate, code=code)
    shell("prove", file, *claim, "--fail-on", "conditional")
    gaussian = ["--family", "gaussian", "--mixing", "none", "--strength", 1]
    for gate, code in (("proven", 0), ("conditional", 3)):
        out = shell.said("estimate", file, *assumed, *gaussian, "--fail-on", gate, code=code)
        assert out.startswith("FAIL (proven if the noise is independent): ")


def test_only_canaries_have_noise_of_their_own(scores: Path, tmp_path: Path, shell: Shell) -> None:
    assumed = ["--delta", 1e-5, "--assume-independent-noise"]
    for command in ("prove", "estimate"):
        assert "scores of canaries" in shell.refused(command, scores, *assumed)
    counts = tmp_path / "counts.csv"
    counts.write_text("false_positives,trials_h0,false_negatives,trials_h1\n1,50,2,50\n")
    assert "is for scores of canaries" in shell.refused("prove", counts, *assumed)


def test_less_is_proven_where_models_are_shared(scores: Path, shell: Shell) -> None:
    alone = shell.json("prove", scores, "--delta", 1e-5)
    shared = shell.json("prove", scores, "--delta", 1e-5, "--shared-models")
    assert shared["at_least"] < alone["at_least"]


BAD = {
    "no delta": (["scores.csv"], "expected --delta D"),
    "error of 0": (["scores.csv", "--delta", "0.1", "--error", "0"], "error"),
    "a gate without a claim": (
        ["scores.csv", "--delta", "0.1", "--fail-on", "proven"],
        "needs a claimed epsilon",
    ),
    "another gate": (["scores.csv", "--delta", "0.1", "--fail-on", "x"], "expected fail_on"),
    "no file": (["nowhere.csv", "--delta", "0.1"], "nowhere.csv"),
    "cross-fed counts": (["crossfed.csv", "--delta", "0.1"], "pass the losses, the store"),
    "unfair coins": (["unfair.csv", "--delta", "0.1"], "fair coin"),
    "a statistic of scores": (
        ["scores.csv", "--delta", "0.1", "--statistic", "loss"],
        "--statistic is for losses",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line(
    case: str, scores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    monkeypatch.chdir(tmp_path)
    texts = {
        "crossfed.csv": "false_positives,trials_h0,false_negatives,trials_h1,design\n"
        "0,50,0,50,cross-fed\n",
        "unfair.csv": "score,member\n" + "1,1\n2,1\n" * 50 + "0,0\n",
    }
    for name, text in texts.items():
        Path(name).write_text(text)
    arguments, message = BAD[case]
    assert message in shell.refused("prove", *arguments)


# --- an audit that stops when the claim is refuted --------------------------------------------


def test_stops_as_soon_as_the_claim_is_refuted(config: Path, tmp_path: Path, shell: Shell) -> None:
    options = ["--until-proven", "--claim", "0.3"]
    found = shell.json("audit", config, *options, "--fail-on", "proven", code=3)
    stopping = found["stopping"]
    assert stopping["reached"]
    assert stopping["bases_used"] < stopping["most_bases"] == 8
    assert stopping["looks"][-1]["e_value"] >= 20
    assert all(look["e_value"] < 20 for look in stopping["looks"][:-1])
    assert (found["verdict"]["outcome"], found["verdict"]["grounds"]) == ("FAIL", "proven")
    assert found["proof"]["refuted"]
    # The store says the same to who asks it.
    store = shell.json("prove", tmp_path / "audit.db", "--delta", "0.1", "--claim", "0.3",
        "--statistic", "loss",
    )  # fmt: skip
    assert store["e_value"] == pytest.approx(stopping["looks"][-1]["e_value"])
    # Once more: nothing is trained, and it stops at the same base.
    again = shell.json("audit", config, *options)
    assert again["stopping"] == stopping
    assert again["models_trained"] == 0


def test_a_claim_that_holds_uses_every_base(config: Path, shell: Shell) -> None:
    edited(config, "noise = 0.004", "noise = 0.1")
    out, err = shell("audit", config, "--until-proven", "--claim", "3")
    said = " ".join(out.split())
    assert "All 8 challenge bases were used and the claim of 3 is not refuted" in said
    assert "The proof is anytime-valid" in said
    assert err.count("refuted from 20") >= 3
    assert max(map(len, out.splitlines())) <= 80


def test_an_audit_that_could_not_refute_the_claim_says_so_before_it_trains(
    config: Path, tmp_path: Path, shell: Shell
) -> None:
    asked = ["audit", config, "--claim", "6"]
    said = shell.refused(*asked, "--until-proven")
    assert "--until-proven would never stop this audit. Not even perfect attacks could" in said
    assert not (tmp_path / "audit.db").exists()
    words = "Not even perfect attacks could refute the claim of 6 (they would prove"
    out, err = shell(*asked, "--check")
    assert out.startswith("The training works.")
    assert err.count(words) == 1
    found, err = shell(*asked, "--check", "--json")
    assert any(text.startswith(words) for text in json.loads(found)["warnings"])
    assert words in err
    # The second line, after that about delta, and before any model: it is not said again.
    out, err = shell(*asked)
    assert words in err.splitlines()[1]
    assert err.count(words) == 1
    reread = ["prove", tmp_path / "audit.db", "--statistic", "loss", "--delta", "0.1"]
    assert words in shell(*reread, "--claim", "6")[1]
    assert words not in shell(*reread, "--claim", "1")[1]


def test_two_ends_are_one_too_many(config: Path, shell: Shell) -> None:
    both = ["--until-proven", "--until-width", "1"]
    assert "choose one" in shell.refused("audit", config, *both, "--claim", "1")


def test_without_a_claim_there_is_nothing_to_refute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "--until-proven needs a claimed epsilon" in shell.refused("audit", "--until-proven")
    assert not list(tmp_path.iterdir())
