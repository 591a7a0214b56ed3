"""Options on the estimate go before the configuration's, and mean what they mean in `estimate`."""

from __future__ import annotations

from pathlib import Path

import pytest

import epsilometer as em
from epsilometer.cli.main import run
from tests.cli.shell import Shell
from tests.cli.small_audit import AUDIT

ALGORITHM = em.training.ClippedMean(noise=0.02, records=50)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration whose models are trained, so that each test only estimates."""
    path = tmp_path_factory.mktemp("audit") / "audit.toml"
    path.write_text(AUDIT)
    assert run(["audit", str(path), "--output", str(path.parent / "first")]) == 0
    return path


@pytest.fixture(scope="module")
def counts(config: Path) -> em.AttackCounts:
    return em.AttackCounts.read(config.parent / "first" / "counts.csv")


def test_without_options_the_configuration_decides(config: Path, shell: Shell) -> None:
    found = shell.json("audit", config)
    assert (found["delta"], found["epsilon"]["level"], found["engine"]) == (0.1, 0.9, "exact")
    assert found["claim"]["source"] == "algorithm"
    assert not {"over_delta", "model_comparison"} & set(found)


def test_every_option_on_the_model_is_heard(
    config: Path, counts: em.AttackCounts, shell: Shell
) -> None:
    found = shell.json("audit", config, "--delta", "0.05", "--level", "0.8", "--claim", "2.5")
    expected = em.estimate(counts, em.CountModel(delta=0.05))
    assert found["epsilon"]["median"] == expected.median("epsilon")
    assert found["epsilon"]["interval"] == list(expected.credible_interval("epsilon", 0.8))
    assert (found["claim"]["epsilon"], found["claim"]["source"]) == (2.5, "option")
    assert found["claim"]["probability_above"] == expected.probability_above("epsilon", 2.5)


def test_the_algorithms_promise_is_that_at_the_delta_of_the_option(
    config: Path, shell: Shell
) -> None:
    claim = shell.json("audit", config, "--delta", "0.05")["claim"]
    assert (claim["epsilon"], claim["source"]) == (ALGORITHM.epsilon(delta=0.05), "algorithm")


def test_several_deltas_make_a_curve_beside_the_result(
    config: Path, counts: em.AttackCounts, tmp_path: Path, shell: Shell
) -> None:
    page, folder = tmp_path / "page.html", tmp_path / "result"
    options = ["--delta", "0.1,0.01", "--output", str(folder), "--report", str(page)]
    found = shell.json("audit", config, *options)
    assert found["delta"] == 0.1
    curve = em.engines.estimate_curve(counts, em.CountModel(delta=0.1), [0.1, 0.01])
    rows = found["over_delta"]["curve"]
    assert [row["median"] for row in rows] == pytest.approx(curve.median.tolist(), rel=1e-12)
    # At each delta the algorithm promises something else.
    promised = [ALGORITHM.epsilon(delta=delta) for delta in (0.01, 0.1)]
    assert [row["claim"] for row in rows] == promised
    assert found["claim"]["epsilon"] == promised[1]
    names = {"curve.csv", "curve.json", "curve.png", "posterior.nc", "losses.csv", "curves.csv"}
    assert names <= {path.name for path in folder.iterdir()}
    assert "The rest of this page is about delta = 0.1" in page.read_text(encoding="utf-8")
    text = shell.said("audit", config, "--delta", "0.1,0.01")
    assert "Epsilon over delta, 90 % intervals:" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(("claim", "code"), [("0.01", 3), ("30", 0)])
def test_a_claimed_curve_is_judged(
    config: Path, tmp_path: Path, claim: str, code: int, shell: Shell
) -> None:
    claims = tmp_path / "claims.csv"
    claims.write_text(f"delta,epsilon\n0.01,{claim}\n")
    options = ["--delta", "0.1,0.01", "--claim-curve", str(claims), "--fail-on", "fail", "--json"]
    found = shell.json("audit", config, *options, code=code)
    assert found["verdict"]["outcome"] == ("FAIL" if code else "PASS")
    # Cross-fed counts prove nothing; the scores of the same models do.
    assert found["verdict"]["grounds"] == ("proven" if code else "judged")
    assert found["verdict"]["reasons"]
    assert (found["claim"]["epsilon"], found["claim"]["source"]) == (float(claim), "option")


def test_other_assumptions_on_request(config: Path, shell: Shell) -> None:
    found = shell.json("audit", config, "--check-model")
    assert found["model_comparison"]["assumptions"][0]["used"]
    assert "Alternative models:" in shell.said(
        "report", config.parent / "first", "--check-model", "--details"
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--delta", "2"], "0 <= delta < 1"),
        (["--claim-curve", "claims.csv"], "--claim-curve needs several deltas, got 0"),
        (["--claim", "-1"], "claim >= 0"),
        (["--level", "1"], "0 < level < 1"),
    ],
)
def test_options_that_make_no_sense_are_known_before_training(
    tmp_path: Path, options: list[str], expected: str, shell: Shell
) -> None:
    (tmp_path / "audit.toml").write_text(AUDIT)
    err = shell.refused("audit", tmp_path / "audit.toml", *options)
    assert expected in err
    assert not (tmp_path / "audit.db").exists()
