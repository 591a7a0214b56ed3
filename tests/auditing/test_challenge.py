"""``[audit] challenge``: what a configuration may say, what it leads to, and what is told of copies."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import epsilometer as em
from epsilometer.auditing.running import Estimated, origin_of
from epsilometer.errors import InputError
from epsilometer.judgement.origin import Origin
from epsilometer.measurement.bases import ChallengeBase
from epsilometer.measurement.challenges import GivenPoints, Mislabelled, Outliers
from tests.cli.shell import Shell

CONFIG = """
[population]
source = "people.npz"
[audit]
challenge = {challenge}
{more}
dataset_size = 24
seed = 1
[algorithm]
object = "clipped-mean"
options = {{ noise = 0.02, records = 25 }}
[estimate]
model = "count"
delta = 0.1
"""

OWN = """
import numpy as np
from epsilometer.rows import Dataset

def first(population, count, rng):
    return list(range(count))

def zeros(population, count, rng):
    return Dataset(features=np.zeros((count, 4)), labels=np.ones(count, dtype=int))

def fails(population, count, rng):
    return [1 / 0]

number = 3
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """30 records, of which 17 and 29 are equal, and 5 has the features of 6."""
    features = np.random.default_rng(3).standard_normal((30, 4))
    labels = np.arange(30) % 2
    features[29], labels[29] = features[17], labels[17]
    features[5] = features[6]
    np.savez(tmp_path / "people.npz", features=features, labels=labels)
    (tmp_path / "own_points.py").write_text(OWN)
    return tmp_path


def written(
    folder: Path, challenge: str, more: str = "challenge_bases = 3\nreplicates = 8"
) -> Path:
    path = folder / "audit.toml"
    path.write_text(CONFIG.format(challenge=challenge, more=more))
    return path


def points(path: Path) -> list[int]:
    bases = em.rows.read_audit(path).plan.bases
    return [base.challenge for base in bases if isinstance(base, ChallengeBase)]


def test_kinds_by_name(folder: Path) -> None:
    for word, kind in (("mislabelled", Mislabelled()), ("outliers", Outliers())):
        assert em.rows.read_audit(written(folder, f'"{word}"')).plan.challenge_kind == kind
    random = em.rows.read_audit(written(folder, '"random"')).plan
    path = written(folder, "0")
    path.write_text(path.read_text().replace("challenge = 0\n", ""))
    assert em.rows.read_audit(path).plan.content_hash == random.content_hash


def test_a_list_says_how_many_bases_there_are(folder: Path) -> None:
    path = written(folder, "[3, 17, 9, 0]", "")
    assert em.rows.read_audit(path).plan.challenge_kind == GivenPoints(indices=(3, 17, 9, 0))
    assert points(path) == [3, 17, 9, 0]
    assert points(written(folder, "[3, 17]", "challenge_bases = 2")) == [3, 17]


def test_own_functions(folder: Path) -> None:
    assert points(written(folder, '"own_points:first"')) == [0, 1, 2]
    assert points(written(folder, '"own_points:zeros"')) == [30, 31, 32]


WRONG = {
    "[audit] challenge: expected random, mislabelled, outliers, pilot, module:function or a list of "
    "indices, got 'outlier'": ('"outlier"', ""),
    "[audit] challenge: expected a kind or a list of whole numbers, got 3": ("3", ""),
    "[audit] challenge: expected a kind or a list of whole numbers, got [1, 2.5]": ("[1, 2.5]", ""),
    "[audit] challenge: expected a kind or a list of whole numbers, got [True]": ("[true]", ""),
    "[audit] challenge: expected a kind or a list of whole numbers, got []": ("[]", ""),
    "[audit] challenge: expected distinct points, got record 4 twice": ("[4, 1, 4]", ""),
    "[audit] challenge: expected challenge_bases = 2, one for each point of the list, got "
    "challenge_bases = 3": ("[4, 1]", "challenge_bases = 3"),
    "[audit] challenge: own_points has no nothing": ('"own_points:nothing"', ""),
    "[audit] challenge: expected a function": ('"own_points:number"', ""),
    "[audit] challenge: own_points:fails failed (ZeroDivisionError": ('"own_points:fails"', ""),
    "[audit] challenge cannot be combined with one-run; canaries have canary_kind": (
        '"mislabelled"',
        'design = "one-run"',
    ),
}


@pytest.mark.parametrize("words", WRONG)
def test_what_is_refused(folder: Path, words: str) -> None:
    with pytest.raises(InputError, match=re.escape(f"audit.toml: {words}")):
        em.rows.read_audit(written(folder, *WRONG[words])).plan.bases  # noqa: B018


def origin(path: Path) -> Origin:
    """What is told of an audit, without an estimate."""
    settings = em.rows.read_audit(path)
    measured = em.measure(settings.plan)
    losses = measured.only
    scores = settings.plan.design.scores(losses, settings.statistic)
    return origin_of(settings, measured, Estimated("", losses, scores, None, None), None)


def test_copies_of_challenge_points_are_named(folder: Path) -> None:
    """24 of the other 29 records are in D: this seed has both copies."""
    found = origin(written(folder, "[17, 3, 5]", "replicates = 3"))
    *_, first, second = found.warnings  # a delta this large is warned of, too
    assert first.startswith("base 0: its challenge point (record 17) is also in D as record 29:")
    assert second.startswith(
        "base 2: its challenge point (record 5) is also in D as record 6 (with"
    )
    assert found.plan["challenge"] == "given"


def test_nothing_is_said_where_there_are_no_copies(folder: Path) -> None:
    said = origin(written(folder, "[3, 4]", "replicates = 3")).warnings
    assert not [line for line in said if "challenge point" in line]
    random = origin(written(folder, '"random"', "replicates = 3\nchallenge_bases = 2"))
    assert "challenge" not in random.plan


@pytest.mark.slow
@pytest.mark.parametrize("model", ["curve", "count"])
def test_page_terminal_and_json_name_the_copies(folder: Path, model: str, shell: Shell) -> None:
    said = "ase 0: its challenge point (record 17) is also in D as record 29:"
    path = written(folder, "[17, 3, 5]", "replicates = 8")
    path.write_text(path.read_text().replace('model = "count"', f'model = "{model}"'))
    page = folder / "page.html"
    found = shell.json("audit", path, "--report", str(page))
    assert found["plan"]["challenge"] == "given"
    assert said in json.dumps(found)
    assert said in page.read_text(encoding="utf-8")
    assert f"warning: B{said}" in shell("audit", path)[1]
    grown = shell.json("audit", written(folder, "[17, 3, 5, 2]", "replicates = 8"))
    assert (grown["models_trained"], grown["models_reused"]) == (16, 48)
    err = shell("audit", written(folder, '"outliers"'), code=2)[1]
    assert 'bases.challenge.name is "given" there and "outliers" here' in err


@pytest.mark.slow
def test_steps_keep_the_points_of_a_function(folder: Path, shell: Shell) -> None:
    """Its first points depend on how many are asked for: an audit in steps asks once."""
    (folder / "last_points.py").write_text(
        "def last(population, count, rng):\n    return list(range(30 - count, 30))\n"
    )
    path = written(folder, '"last_points:last"', "challenge_bases = 10\nreplicates = 8")
    assert shell.json("audit", path, "--until-width", "0.001")["models_trained"] == 160
