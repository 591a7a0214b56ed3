"""Whatever a user has, read in one place: every form of the same data says the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epsilometer as em
from epsilometer.auditing.answering import default_model, result_for
from epsilometer.comparison.estimators import compare
from epsilometer.errors import InputError
from epsilometer.inputs import sources as inputs
from epsilometer.inputs.held import source_of
from epsilometer.inputs.loading import load_object
from epsilometer.inputs.source import LossOptions
from epsilometer.inputs.sources import read, read_text
from epsilometer.judgement.question import Question
from epsilometer.model.models import likelihood_for
from tests.drawn import losses_of
from tests.report.count_results import small_plan

PLAIN = em.AttackCounts(
    false_positives=[4, 6], trials_h0=50, false_negatives=[20, 30], trials_h1=50, names=["a", "b"]
)
CROSS, OWN = (
    replace(PLAIN, measured=em.rows.MeasuredBy(design=design))
    for design in ("cross-fed", "independent")
)
QUICK = em.CurveModel(delta=0.01, families=(em.families.Gaussian(),), mixing=em.families.NoMixing())


def some_losses(models: int = 30) -> em.Losses:
    rng = np.random.default_rng(3)
    logits = rng.normal([[0.0], [1.2]], size=(2, 2, models))
    return losses_of(("a", "b"), np.log1p(np.exp(-logits)))


LOSSES = some_losses()


def posterior_of(given: Any, **said: Any) -> Any:
    """The posterior of what is asked of something."""
    return result_for(given, claim=1.0, **said).posterior


# --- the likelihood that counts want ----------------------------------------------------------


def test_what_counts_say_decides_the_likelihood() -> None:
    assert likelihood_for(CROSS) == "correlated"
    # Controls: independent, unknown, and groups, whose dependence is in the model already.
    assert likelihood_for(OWN) == likelihood_for(PLAIN) == "binomial"
    assert likelihood_for(replace(CROSS, groups=("one", "one"))) == "binomial"


def test_several_batches() -> None:
    assert likelihood_for(PLAIN, CROSS) == likelihood_for(CROSS, PLAIN) == "correlated"
    assert likelihood_for(PLAIN, OWN) == "binomial"
    with pytest.raises(
        InputError, match="one design, got cross-fed and independent: choose the like"
    ):
        likelihood_for(CROSS, OWN)


# --- every form -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["losses.csv", "losses.parquet", "audit.db"])
def test_losses_in_every_form(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if name == "audit.db":
        expected = em.measure(small_plan(), path).only
    else:
        LOSSES.write(path)
        expected = LOSSES
    found = read(path, LossOptions(statistic="loss", target_alpha=0.2))
    assert found.scores == em.attacks.scores_of(expected, em.attacks.Loss())
    counts = found.data("count")
    assert counts.measured == em.rows.MeasuredBy(
        design="cross-fed", target_alpha=0.2, statistic="loss"
    )
    assert counts == em.rows.cross_feed(expected, statistic=em.attacks.Loss()).counts(0.2)


def test_objects_are_what_their_files_are(tmp_path: Path) -> None:
    LOSSES.write(tmp_path / "losses.csv")
    assert source_of(LOSSES).scores == source_of(tmp_path / "losses.csv").scores
    scores = em.attacks.scores_of(LOSSES)
    scores.write(tmp_path / "scores.csv")
    assert source_of(scores).data("curve") == source_of(str(tmp_path / "scores.csv")).scores
    CROSS.write(tmp_path / "counts.json")
    assert source_of(CROSS).counts == source_of(tmp_path / "counts.json").counts
    with pytest.raises(InputError, match="expected the path of a file, a store or a result folder"):
        source_of(5)


def test_canaries_of_one_run_are_told_from_models() -> None:
    assert read_text("score,member\n3,1\n2,0\n1,1\n", "a").provable.one_run
    models = read_text("challenge_base,hypothesis,score\na,1,3\na,0,2\na,1,1\n", "a")
    assert not models.provable.one_run
    several = "challenge_base,score,member\na,3,1\na,2,0\nb,1,1\nb,4,1\nb,0,0\n"
    runs = read_text(several, "a")
    # Canaries all the same, each base a run of its own; bounds of one run read all of them together.
    assert runs.scores is not None
    assert runs.scores.one_run
    separate = em.Scores.of_bases(runs.scores.bases, runs.scores.names)
    several_runs = compare(runs.scores, delta=0.01).rows
    as_models = compare(separate, delta=0.01).rows
    for rows, refused in ((several_runs, 0), (as_models, 4)):
        bounds = [row for row in rows if row.label.startswith("one-run")]
        assert len(bounds) == 4
        assert sum("or of several bases" in row.reason for row in bounds) == refused


@pytest.mark.parametrize("option", ["statistic", "target_alpha", "variant"])
def test_options_of_losses_are_refused_without_any(option: str) -> None:
    options = LossOptions(**{option: {"target_alpha": 0.1}.get(option, "loss")})  # type: ignore[arg-type]
    for text in ("score,member\n3,1\n2,0\n1,1\n", PLAIN.to_csv()):
        with pytest.raises(InputError, match=f"`{option}=` is for losses; file.csv has none"):
            read_text(text, "file.csv", options)


# --- results ----------------------------------------------------------------------------------


def written(folder: Path, posterior: Any, **summary: Any) -> Path:
    """A result folder, its summary as small as it may be."""
    folder.mkdir()
    posterior.save(folder / "posterior.nc")
    data = {"epsilon": {"median": posterior.median("epsilon"), "level": 0.9}, **summary}
    (folder / "summary.json").write_text(json.dumps(data))
    return folder


@pytest.fixture(scope="module")
def published() -> em.engines.CountPosterior:
    return em.estimate(PLAIN, em.CountModel(delta=0.01, strength=em.priors.Fixed(value=0.5)))


def attack(statistic: str) -> dict[str, Any]:
    return {"target_alpha": 0.2, "statistic": statistic, "attack": "threshold"}


def test_losses_of_a_result_are_read_as_its_audit_did(
    published: em.engines.CountPosterior, tmp_path: Path
) -> None:
    folder = written(tmp_path / "result", published, counts=attack("loss"))
    LOSSES.write(folder / "losses.csv")
    found = inputs.read_folder_losses(folder)
    assert found.scores == em.attacks.scores_of(LOSSES, em.attacks.Loss())
    # The two statistics turn the order of scores about nowhere, but other scores they are.
    assert found.scores != em.attacks.scores_of(LOSSES, em.attacks.Logit())
    expected = em.rows.cross_feed(
        LOSSES, em.attacks.Threshold(), statistic=em.attacks.Loss()
    ).counts(0.2)
    assert found.data("count") == expected
    # Without a posterior too, and an option goes before.
    (folder / "posterior.nc").unlink()
    assert read(folder).scores == found.scores
    assert read(folder, LossOptions(statistic="logit")).scores == em.attacks.scores_of(LOSSES)


def test_code_that_a_summary_names_is_not_run(
    published: em.engines.CountPosterior, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hostile.py").write_text(
        "import pathlib\npathlib.Path('ran').touch()\ndef look(losses):\n    return -losses\n"
    )
    folder = written(tmp_path / "result", published, counts=attack("hostile:look"))
    LOSSES.write(folder / "losses.csv")
    with pytest.raises(InputError, match=r"scored by 'hostile:look'.* give it as `statistic=`"):
        inputs.read_folder_losses(folder)
    assert not (tmp_path / "ran").exists()
    # The posterior needs no losses, and a name that the user gives is run.
    assert read(folder).counts == PLAIN
    scored = read(folder, LossOptions(statistic="hostile:look")).scores
    assert scored == em.attacks.scores_of(LOSSES, em.attacks.Loss())
    assert (tmp_path / "ran").exists()


def test_a_result_is_judged_as_it_is(published: em.engines.CountPosterior, tmp_path: Path) -> None:
    folder = written(tmp_path / "result", published)
    for path in (folder, folder / "posterior.nc"):
        own = posterior_of(path)
        assert own.model == published.model
        assert own.median("epsilon") == published.median("epsilon")
        assert posterior_of(path, delta=0.01).median("epsilon") == own.median("epsilon")
    # At another delta it is estimated anew, under its other assumptions.
    other = posterior_of(folder, delta=0.05)
    assert other.model == replace(published.model, delta=0.05)
    # A model goes before the result's.
    model = em.CountModel(delta=0.02)
    assert posterior_of(folder, model=model).model == model
    # What is asked of it is kept, and answered as the posterior is by itself.
    found = result_for(folder, claim=0.5, error=0.01)
    assert found.question == Question(claim=0.5, error=0.01)
    assert found.verdict == em.judge(published, claim=0.5, error=0.01)


def test_the_default_model_follows_the_design() -> None:
    for counts, name in ((CROSS, "correlated"), (OWN, "binomial"), (PLAIN, "binomial")):
        assert posterior_of(counts, delta=0.01).model.likelihood.name == name
    # Losses are cross-fed where counts are made of them.
    assert default_model(source_of(LOSSES).data("count"), 0.01) == em.CountModel(
        delta=0.01,
        likelihood=default_model(CROSS, 0.01).likelihood,  # type: ignore[union-attr]
    )


def test_results_of_the_whole_curve(tmp_path: Path) -> None:
    scores = em.attacks.scores_of(LOSSES)
    posterior = em.estimate(scores, QUICK)
    folder = written(tmp_path / "result", posterior)
    found = read(folder)
    assert found.scores == scores
    assert not found.provable.one_run
    with pytest.raises(InputError, match="the count model needs counts or losses, got scores"):
        found.data("count")
    # What an audit leaves beside it is what the published model is estimated from.
    em.estimate(CROSS, em.CountModel(delta=0.01)).save(folder / "count.nc")
    assert read(folder).data("count") == CROSS
    canaries = em.estimate(em.Scores.of_canaries([3, 1, 2.5], [2, 0, 0.5]), QUICK)
    assert read(written(tmp_path / "canaries", canaries)).provable.one_run


def test_folders_that_are_none(tmp_path: Path, published: em.engines.CountPosterior) -> None:
    with pytest.raises(InputError, match=r"folder with posterior\.nc or losses\.csv"):
        read(tmp_path)
    written(tmp_path / "variant-1", published)
    with pytest.raises(
        InputError, match="expected one result, got several: choose one of variant-1"
    ):
        read(tmp_path)


def test_two_folders_may_have_a_module_of_the_same_name(tmp_path: Path) -> None:
    """Two audits in one process: each trains with the code beside its own file."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "namesake_helper.py").write_text(f"NAME = {name!r}\n")
        (tmp_path / name / "namesake_training.py").write_text("from namesake_helper import NAME\n")

    def loaded(name: str) -> object:
        return load_object("namesake_training:NAME", folder=tmp_path / name, place="here")

    assert [loaded("one"), loaded("two"), loaded("two"), loaded("one")] == [
        "one",
        "two",
        "two",
        "one",
    ]


def test_modules_without_a_file_are_not_sent_as_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch has some whose file is a bare name; from the audit's folder they look like its own."""
    import torch

    from epsilometer.measurement import executors

    assert not Path(torch.ops.__file__).is_absolute()
    monkeypatch.setattr(executors, "_sent", set())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bare_training.py").write_text("algorithm = object()\n", encoding="utf-8")
    load_object("bare_training:algorithm", folder=tmp_path, place="here")
    assert executors._sent == {"bare_training"}
