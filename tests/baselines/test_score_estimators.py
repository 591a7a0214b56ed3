"""The listed estimators are the auditor's bounds, and each describes itself."""

from __future__ import annotations

from epsilometer.baselines.catalogue import (
    FROM_COUNTS,
    FROM_SCORES,
    ScoreEstimator,
    one_run_fdp_scan,
    one_run_scan,
    raw_counts,
    roc_scan,
)
from epsilometer.baselines.estimator import Kind
from epsilometer.baselines.intervals import ClopperPearson, GaussianRates
from epsilometer.baselines.one_run_fdp import GaussianDP
from epsilometer.baselines.scores import CanaryScoreAuditor
from epsilometer.baselines.thresholds import Bonferroni, Split
from tests.baselines.oracles import normal_grid

AUDITOR = CanaryScoreAuditor(normal_grid(150) + 2, normal_grid(150))


def test_labels_are_distinct_and_assumptions_are_stated() -> None:
    assert len({e.label for e in FROM_COUNTS}) == len(FROM_COUNTS)
    assert len({e.label for e in FROM_SCORES}) == len(FROM_SCORES)
    words = [(e.label, e.assumes, e.kind, e.gaussian) for e in FROM_COUNTS]
    words += [(e.label, e.assumes, e.kind, e.gaussian) for e in FROM_SCORES]
    for label, assumes, kind, gaussian in words:
        assert label
        assert assumes
        assert kind in set(Kind)
        assert gaussian == ("Gaussian" in label)


def test_they_are_the_auditor_s() -> None:
    a, split, hull = AUDITOR, Split(), Bonferroni()
    pairs: list[tuple[ScoreEstimator, float]] = [
        (roc_scan(ClopperPearson()), a.epsilon_lower(ClopperPearson(), 0.1, 1e-5)),
        (
            roc_scan(ClopperPearson(), split),
            a.epsilon_lower(ClopperPearson(), 0.1, 1e-5, threshold_strategy=split),
        ),
        (
            roc_scan(GaussianRates(), hull),
            a.epsilon_lower(GaussianRates(), 0.1, 1e-5, threshold_strategy=hull),
        ),
        (one_run_scan(), a.epsilon_one_run(0.1, 1e-5)),
        (one_run_scan(one_sided=False), a.epsilon_one_run(0.1, 1e-5, one_sided=False)),
        (one_run_fdp_scan(), a.epsilon_one_run_fdp(0.1, 1e-5)),
        (one_run_fdp_scan(GaussianDP()), a.epsilon_one_run_fdp(0.1, 1e-5, family=GaussianDP())),
        (raw_counts(5), a.epsilon_raw_counts(5, 1e-5)),
    ]
    for estimator, expected in pairs:
        assert estimator.lower(a, 1e-5, 0.1) == expected


def test_the_strategy_is_in_the_label() -> None:
    assert roc_scan(ClopperPearson(), Bonferroni()).label == "ROC scan, Clopper-Pearson, Bonferroni"
    assert one_run_scan(Split(), one_sided=False).label == "one-run scan, both ends, Split"
