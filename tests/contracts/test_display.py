"""Every public class shows itself in a notebook, or is listed here with a reason."""

from __future__ import annotations

import base64
import inspect
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epsilometer as em
from epsilometer._display import Displayed, Plotted, view_of
from epsilometer._table import MOST_HTML_ROWS, MOST_ROWS, Table
from epsilometer.errors import InputError
from epsilometer.judgement.claims import NoPromise
from epsilometer.judgement.judging import result_of
from epsilometer.judgement.question import Question
from epsilometer.measurement.engine import LargestClaim
from epsilometer.model.family import Family
from epsilometer.model.shapes import Shape
from epsilometer.training.accounting import accounted_epsilon
from tests.drawn import error_counts
from tests.report.count_results import sampled, small_plan
from tests.report.curve_results import SETTINGS, SIMPLE

#: A name that must never be part of a page.
HOSTILE = "<script>alert('x')</script>"

#: Characters: a few lines of a terminal.
LONGEST_REPR = 400

#: Where public classes are, besides the top.
SUBMODULES = (
    *("attacks", "baselines", "checks", "datasets", "engines", "families", "goals", "judgement"),
    *("likelihoods", "priors", "rows", "stores", "training", "errors"),
)


@cache
def _public_classes() -> dict[str, type]:
    homes = [em, *(getattr(em, name) for name in SUBMODULES)]
    names = {
        name: getattr(home, name)
        for home in homes
        for name in getattr(home, "__all__", dir(home))
        if not name.startswith("_")
    }
    return {
        name: kind
        for name, kind in names.items()
        if inspect.isclass(kind) and kind.__module__.startswith("epsilometer")
    }


#: Exceptions, algorithms, estimators, priors and families: ``repr`` is their settings.
SETTINGS_AND_PARTS = {
    name
    for name, kind in _public_classes().items()
    if issubclass(kind, Exception)
    or kind.__module__.split(".")[1] in ("training", "baselines", "datasets")
    or kind.__module__.startswith(
        ("epsilometer.model.priors", "epsilometer.model.fam", "epsilometer.model.mixing")
    )
    or issubclass(kind, Family | Shape)
}

#: Settings, assumptions, attacks, designs, stores, and rows of a result's table: nothing to draw.
NO_RESULT = {
    "Algorithm", "AssumedScenario", "AssumedCurve", "AlternativeModel", "CountModel", "ChallengeBase",
    "ClaimedCurve", "CorrelatedCells", "CorrelatedNormal", "CustomStatistic",
    "ExactSettings", "FixedStrength", "FreeStrengths", "PilotScenario", "Grounds", "Include",
    "IndependentBinomial", "IndependentRows", "LikelihoodRatio", "Lira", "NoPromise",
    "LiraOffline", "Logit", "Loss", "McmcSettings", "ShadowModels", "CrossFed",
    "OneRun", "Pool", "MeasuredBy", "MemoryStore", "NormalScatter", "Offline",
    "OneRunCanaries", "Origin", "Outcome", "Outliers", "CustomCanaries", "CustomPoints",
    "PlannedDesign", "Point", "PoolModels", "PoolAttack", "PoolLogOdds", "PoolLoss",
    "PooledGroups", "PooledVariance", "PopulationAttack", "CurveModel", "CurveSettings", "Question",
    "Progress", "ProvenEpsilon", "Replace", "Rmia", "RmiaOffline", "OperatingPoint",
    "ScatteredMembers", "ManyModels", "DecidedClaim", "SqliteStore", "Statistic", "Table",
    "Thresholds", "Threshold", "UniformScatter", "IntervalWidth",
}  # fmt: skip

#: Inputs of an audit and parts of other results: a table says all there is to see.
WITHOUT_FIGURE = {
    *("AuditConfig", "Canaries", "Dataset", "Plan", "Population"),
    *("AlternativePrior", "ErrorCurves", "Influence", "LargestClaim", "ModelComparison"),
    *("SelfTest", "TrainingCheck"),
}


def _counts() -> em.AttackCounts:
    return error_counts([10, 30, 35], [20, 30, 50], 100, names=[HOSTILE, "second", "$third$"])


def _scores() -> em.Scores:
    rng = np.random.default_rng(1)
    return em.Scores(
        without=list(rng.normal(size=(3, 40))),
        with_point=list(rng.normal(1.0, size=(3, 40))),
        names=[HOSTILE, "second", "$third$"],
    )


@cache
def _posterior() -> Any:
    return em.estimate(_counts(), em.CountModel(delta=0.01))


@cache
def _curve_posterior() -> em.engines.CurvePosterior:
    return SETTINGS.estimate(_scores(), SIMPLE)


def _losses() -> em.Losses:
    rng = np.random.default_rng(1)
    return em.Losses(
        challenge_base=[HOSTILE] * 40 + ["second"] * 40,
        hypothesis=([0] * 20 + [1] * 20) * 2,
        replicate=list(range(20)) * 4,
        loss=rng.exponential(size=80),
    )


def _pool(*, losses: bool) -> Displayed:
    rng, names = np.random.default_rng(1), (HOSTILE, *"abcd")
    member = rng.random((12, 5)) < 0.5
    if losses:
        loss = rng.exponential(size=(12, 5)) / (1 + member)
        return em.PoolLosses(loss=loss, member=member, names=names, fair_coins=True)
    return em.rows.PoolScores(value=rng.normal(size=(12, 5)) + member, member=member, names=names)


def _population() -> em.Population:
    rng = np.random.default_rng(1)
    features, labels = rng.normal(size=(60, 3)), [0, 1] * 30
    return em.Population(features=features, labels=labels, name=HOSTILE)


def _audit_plan() -> em.goals.AuditPlan:
    return em.plan(
        em.CurveModel(delta=1e-5),
        em.goals.AssumedCurve(epsilon=8.0),
        em.goals.ProvenEpsilon(at_least=1.0),
        design=em.goals.OneRunCanaries(most=1000),
    )


class _Accountant:
    """What training claims, by the accountant of Opacus alone."""

    caveats = (HOSTILE,)

    def claimed_epsilon(self, delta: float) -> float:
        return accounted_epsilon([(1.0, 0.1, 10)], delta)


EXAMPLES: Mapping[str, Callable[[], Displayed]] = {
    "AttackCounts": _counts,
    "AttackResult": lambda: em.rows.cross_feed(
        _losses(), em.attacks.LikelihoodRatio(), statistic=em.attacks.Loss()
    ),
    "AuditConfig": lambda: em.rows.read_audit(
        Path(em.__file__).parent / "auditing" / "default_audit.toml"
    ),
    "AuditPlan": _audit_plan,
    "Canaries": lambda: em.Canaries.draw(_population(), count=20, rng=np.random.default_rng(1)),
    "Comparison": lambda: em.compare(_counts(), delta=0.01),
    "Comparison of scores": lambda: em.compare(_scores(), delta=0.01),
    "CountResult": lambda: result_of(_posterior(), Question(claim=2.0)).concluded(),
    "CurveResult": lambda: result_of(_curve_posterior(), Question(claim=2.0)).concluded(),
    "Dataset": lambda: _population().take(np.arange(5)),
    "DeltaCurve": lambda: em.engines.estimate_curve(
        _counts(), em.CountModel(delta=0.0), [0.0, 1e-3, 1e-2]
    ),
    "ErrorCurves": lambda: EXAMPLES["AttackResult"]().sweep(),  # type: ignore[attr-defined]
    "GridPosterior": _posterior,
    "Influence": lambda: em.checks.leave_one_out(_posterior()),
    "Losses": _losses,
    "Measurement": lambda: em.measure(small_plan()),
    "ModelComparison": lambda: em.checks.compare_models(
        _counts(), {HOSTILE: em.CountModel(delta=0.01),
                    "strong": em.CountModel(delta=0.01, strength=em.priors.Fixed(value=0.9))}
    ),
    "AlternativePrior": lambda: em.checks.prior_sensitivity(_posterior(), factors=(2.0,))[0],
    "Plan": lambda: small_plan(_population()),
    "PoolLosses": lambda: _pool(losses=True),
    "PoolScores": lambda: _pool(losses=False),
    "Population": _population,
    "PredictiveCheck": lambda: em.checks.check_predictions(
        _posterior(), rng=np.random.default_rng(1), replicates=200
    ),
    "JointDeltaCurve": lambda: em.engines.JointDeltaCurve(
        posterior=_curve_posterior(), deltas=[1e-4, 1e-3, 1e-2]
    ),
    "CurvePosterior": _curve_posterior,
    "Proof": lambda: em.prove(_scores(), delta=0.01, claim=0.1),
    "RocCheck": lambda: em.checks.check_rocs(
        _curve_posterior(), rng=np.random.default_rng(1), replications=100
    ),
    "SamplePosterior": sampled,
    "Scores": _scores,
    "Scores of canaries": lambda: em.Scores.of_canaries([1.0, 2.0, 0.3], [0.1, 0.2, 1.5]),
    "SelfTest": lambda: em.checks.check_pipeline(lambda *_: 1.0, label=HOSTILE, runs=20),
    "TrainingCheck": lambda: em.rows.check_training(small_plan()),
    "Verdict": lambda: em.judge(_curve_posterior(), claim=1.0),
    "Verdict over deltas": lambda: em.judge(_posterior(), 1.0, deltas=(1e-3, 1e-2)),
    "Verdict on nothing": lambda: em.judge(_posterior(), NoPromise(HOSTILE)),
    "LargestClaim": lambda: LargestClaim(claims=(_Accountant(),)),
}  # fmt: skip


@cache
def _example(name: str) -> Any:
    return EXAMPLES[name]()


def test_every_public_class_is_shown_or_listed() -> None:
    classes = _public_classes()
    shown = {name for name, kind in classes.items() if issubclass(kind, Displayed)}
    assert shown | SETTINGS_AND_PARTS | NO_RESULT == set(classes)
    assert not shown & (SETTINGS_AND_PARTS | NO_RESULT)


def test_every_shown_class_has_an_example() -> None:
    """Those that are returned without being public names too."""
    kinds = {type(_example(name)).__name__ for name in EXAMPLES}
    shown = {
        name for name, kind in _public_classes().items()
        if issubclass(kind, Displayed) and not inspect.isabstract(kind)
    }  # fmt: skip
    assert shown <= kinds
    assert {"GridPosterior", "SamplePosterior", "ErrorCurves", "LargestClaim"} <= kinds


@pytest.mark.parametrize("name", EXAMPLES)
def test_everything_shows_itself(name: str) -> None:
    """A short line, a table, and HTML that is escaped and balanced, with the main figure."""
    shown = _example(name)
    text, table, page = repr(shown), shown.summary(), shown._repr_html_()
    assert text.startswith(f"{type(shown).__name__}(")
    assert len(text) <= LONGEST_REPR
    assert "\n" not in text
    assert "array(" not in text
    assert isinstance(table, Table)
    assert len(table) >= 1
    assert len(table.lines()) <= MOST_ROWS + 12
    assert list(table.to_pandas().columns) == list(table.columns)
    assert "<script" not in page
    assert "<table" in page
    for tag in ("div", "table", "tr", "td", "th", "b"):
        assert page.count(f"<{tag}>") + page.count(f"<{tag} ") == page.count(f"</{tag}>"), tag
    drawn = type(shown).__name__ not in WITHOUT_FIGURE
    assert isinstance(shown, Plotted) is drawn
    (image,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]*)"', page) if drawn else [""]
    assert (b"<path" in base64.b64decode(image)) is drawn
    assert len(page) < 250_000


def test_hostile_names_are_there_as_text() -> None:
    """Control: the name is shown, so that its absence as a tag means something."""
    page = _example("Scores")._repr_html_()
    assert "&lt;script&gt;" in page


@pytest.mark.parametrize("name", ["Scores", "CurvePosterior", "GridPosterior", "Verdict", "Proof"])
def test_plots_of_one_panel_can_be_drawn_into_axes(name: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert _example(name).plot(ax=right) is figure
    assert right.lines
    assert not left.lines


@pytest.mark.parametrize("name", ["CurvePosterior", "GridPosterior"])
def test_posteriors_have_several_figures(name: str) -> None:
    shown = _example(name)
    for which in view_of(shown).figures_for(shown):
        assert shown.plot(which).axes
    with pytest.raises(
        InputError, match=r"expected one of the figures exceedance, .*got 'nothing'"
    ):
        shown.plot("nothing")


def test_a_result_with_a_fixed_epsilon_shows_another_figure() -> None:
    model = em.CountModel(delta=0.01, epsilon=em.priors.Fixed(value=1.0))
    assert "<img" in result_of(em.estimate(_counts(), model))._repr_html_()


def test_figures_of_several_panels_take_no_axes() -> None:
    from matplotlib.figure import Figure

    with pytest.raises(InputError, match="one panel"):
        _example("PredictiveCheck").plot(ax=Figure().subplots())


def test_tables_of_posteriors_have_any_level() -> None:
    posterior = _example("GridPosterior")
    table = posterior.summary(level=0.5)
    assert table.columns[2:4] == ("25 %", "75 %")
    assert table.rows[0][2:4] == posterior.credible_interval("epsilon", 0.5)
    with pytest.raises(InputError, match="level"):
        posterior.summary(level=1.5)


def test_long_tables_are_cut_when_shown_but_not_in_rows() -> None:
    counts = error_counts([1] * 500, [1] * 500, 10)
    table = counts.summary()
    assert len(table) == 500
    assert len(str(table).splitlines()) == MOST_ROWS + 3
    assert "470 more rows" in str(table)
    assert table._repr_html_().count("<tr>") == MOST_HTML_ROWS + 1


def test_a_class_without_a_view_shows_its_fields() -> None:
    assert repr(_population()) == (
        f"Population(name {HOSTILE}, crafted 0, features 60 x 3 float64, labels 60 int64)"
    )
    plan = small_plan(_population()).summary().rows
    assert {("population", "Population"), ("dataset size", 19)} <= set(plan)
