"""``em.estimate``, ``em.prove`` and ``em.compare`` on files: as on the data that they hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import epsilometer as em
from epsilometer.cli.main import run
from epsilometer.errors import InputError
from tests.cli.shell import Shell
from tests.drawn import losses_of

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
COUNTS, SCORES = EXAMPLES / "counts.csv", EXAMPLES / "scores.csv"
PUBLISHED = em.CountModel(delta=0.01)
CURVE = em.CurveModel(delta=0.01, families=(em.families.Gaussian(),), mixing=em.families.NoMixing())


@pytest.fixture(scope="module")
def losses() -> em.Losses:
    rng = np.random.default_rng(3)
    return losses_of(("a", "b"), np.exp(rng.normal(size=(2, 2, 12)) - [[0], [1]]))


@pytest.fixture(scope="module")
def files(losses: em.Losses, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with losses, and results of counts and of scores."""
    folder = tmp_path_factory.mktemp("files")
    losses.write(folder / "losses.csv")
    for file in (COUNTS, SCORES):
        output = str(folder / file.stem)
        assert run(["estimate", str(file), "--delta", "0.01", "--output", output]) == 0
    return folder


def test_results_losses_and_posteriors_are_estimated(files: Path, losses: em.Losses) -> None:
    assert em.estimate(files / "counts", PUBLISHED).counts == em.AttackCounts.read(COUNTS)
    assert em.estimate(files / "scores" / "posterior.nc", CURVE).scores == em.Scores.read(SCORES)
    from_file, from_data = em.estimate(files / "losses.csv", CURVE), em.estimate(losses, CURVE)
    assert from_file.median("epsilon") == from_data.median("epsilon")
    assert em.estimate(losses, PUBLISHED).counts.trials_h0.tolist() == [12, 12]


def test_proofs_and_comparisons_read_files(files: Path) -> None:
    counts = em.AttackCounts.read(COUNTS)
    assert em.prove(COUNTS, delta=0.01).at_least == em.prove(counts, delta=0.01).at_least
    assert em.prove(files / "losses.csv", delta=0.01).any_time
    rows = em.compare(files / "counts", delta=0.01).rows
    assert [row.low for row in rows] == [row.low for row in em.compare(counts, delta=0.01).rows]
    assert em.compare(str(SCORES), delta=0.01).rows


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        em.estimate(tmp_path / "nothing.csv", PUBLISHED)
    with pytest.raises(InputError, match="the count model needs counts or losses"):
        em.estimate(SCORES, PUBLISHED)
    with pytest.raises(
        InputError, match="expected model to be one of curve, count, got model='model'"
    ):
        em.estimate(COUNTS, "model", delta=0.1)
    (tmp_path / "audit.toml").write_text("")
    with pytest.raises(InputError, match=r"epsilometer audit .*audit\.toml"):
        em.estimate(tmp_path / "audit.toml", CURVE)


@pytest.mark.parametrize("command", ["estimate", "prove", "compare", "report"])
@pytest.mark.parametrize("given", ["counts", "counts/posterior.nc", "scores", "losses.csv"])
def test_commands_take_the_same_inputs(command: str, given: str, files: Path) -> None:
    delta = [] if command == "report" and "losses" not in given else ["--delta", "0.01"]
    assert run([command, str(files / given), *delta]) == 0


@pytest.mark.parametrize("file", [COUNTS, SCORES])
def test_data_are_reported_like_a_result(file: Path, files: Path, shell: Shell) -> None:
    from_data = shell.said("report", file, "--delta", "0.01", "--claim", "2")
    from_result = shell.said("report", files / file.stem, "--claim", "2")

    def without_time(text: str) -> list[str]:
        return [line for line in text.splitlines() if not line.startswith("time")]

    assert without_time(from_result) == without_time(from_data)
    assert "--delta" in shell.refused("report", file)
    said = shell.refused("report", files / file.stem, "--delta", "0.5")
    assert "result at delta = 0.01" in said


HINTS = {
    "score;member\n0,5;1\n0,25;0\n": "looks like a semicolon-separated file",
    "score\tmember\n0.5\t1\n": "looks like a tab-separated file",
    'score,member\n"0,5",1\n"0,25",0\n': "got score='0,5'",
    "score,member\n0,5,1\n0,25,0\n": "decimal commas",
    "false_positives;trials_h0;false_negatives;trials_h1\n1;2;3;4\n": "semicolon-separated",
}


@pytest.mark.parametrize("text", HINTS)
@pytest.mark.parametrize("command", ["estimate", "prove", "compare"])
def test_other_separators_get_a_hint(command: str, text: str, tmp_path: Path, shell: Shell) -> None:
    (tmp_path / "file.csv").write_text(text)
    assert HINTS[text] in shell.refused(command, tmp_path / "file.csv", "--delta", "0.01")


def test_losses_with_semicolons_get_the_hint_wherever_they_are_read(tmp_path: Path) -> None:
    (tmp_path / "losses.csv").write_text("challenge_base;hypothesis;replicate;loss\na;0;0;0,5\n")
    with pytest.raises(InputError, match="semicolon"):
        em.Losses.read(tmp_path / "losses.csv")


@pytest.mark.parametrize(
    ("name", "hint"),
    [("x.xlsx", "save the table as CSV"), ("x.pkl", "never read"), ("summary.json", "its folder")],
)
def test_files_of_other_kinds_get_a_hint(
    name: str, hint: str, tmp_path: Path, shell: Shell
) -> None:
    (tmp_path / name).write_bytes(b"PK\x03\x04")
    assert hint in shell.refused("estimate", tmp_path / name, "--delta", "0.01")
