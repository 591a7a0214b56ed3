"""The page as text: what it must hold, and what must never be in it.  A browser looks elsewhere."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import epsilometer as em
from epsilometer._text import probability_text
from epsilometer.judgement.count_result import CountResult
from epsilometer.judgement.origin import Origin
from epsilometer.posteriors.posterior import CountPosterior
from epsilometer.proofs.proof import rounded_down
from epsilometer.report.figures.charts import charts_of
from epsilometer.report.page import frame, sections
from epsilometer.report.text import sentences
from epsilometer.report.text.values import counts_csv, curves_csv, page_values
from tests.drawn import error_counts
from tests.report import browser, count_results
from tests.report.browser import Shelf
from tests.report.count_results import TWO, counts, curves, exact, sampled

# Other assumptions are tested in `test_models.py`; working them out takes seconds a page.
gather = partial(count_results.gather, compare=False)


def render(result: CountResult) -> str:
    return sections.render(result, charts_of(result))


def without_figures(result: CountResult) -> str:
    return sections.render(result, [])


def named(names: list[str]) -> em.AttackCounts:
    return error_counts(np.arange(len(names)) + 10, np.arange(len(names)) + 20, 100, names=names)


@pytest.fixture
def hostile(shelf: Shelf) -> tuple[CountResult, str]:
    return shelf.evidence(browser.hostile), shelf.path(browser.hostile).read_text(encoding="utf-8")


def stuck() -> CountPosterior:
    """Chains that never moved."""
    return sampled(scale=0.0)


class Tags(HTMLParser):
    """Every tag with its attributes, and the text outside of scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.within = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.within = tag

    def handle_endtag(self, tag: str) -> None:
        self.within = ""

    def handle_data(self, data: str) -> None:
        if self.within not in ("script", "style"):
            self.text.append(data)


def parsed(text: str) -> Tags:
    found = Tags()
    found.feed(text)
    found.close()
    return found


# --- safety -----------------------------------------------------------------------------------


def test_hostile_names_make_no_tags(hostile: tuple[CountResult, str], shelf: Shelf) -> None:
    _, text = hostile
    harmless = shelf.path(browser.exact).read_text(encoding="utf-8")
    kinds = {tag for tag, _ in parsed(text).tags}
    assert kinds <= {tag for tag, _ in parsed(harmless).tags}
    scripts = [attributes for tag, attributes in parsed(text).tags if tag == "script"]
    assert sum("type" not in attributes for attributes in scripts) == len(frame.SCRIPTS)
    assert not any(
        key.startswith("on") for _, attributes in parsed(text).tags for key in attributes
    )
    shown = "".join(parsed(text).text)
    for name in browser.SEEN:
        assert name in shown
    assert "\u202e" not in text
    assert "49" not in re.findall(r"<bdi>([^<]*)</bdi>", text)


def test_the_check_of_tags_would_see_an_injection(hostile: tuple[CountResult, str]) -> None:
    script = f"<script>{browser.HACK}</script>"
    broken = hostile[1].replace(script.replace("<", "&lt;").replace(">", "&gt;"), script, 1)
    scripts = [attributes for tag, attributes in parsed(broken).tags if tag == "script"]
    assert sum("type" not in attributes for attributes in scripts) == len(frame.SCRIPTS) + 1


def test_the_policy_allows_its_own_scripts_and_nothing_else(
    hostile: tuple[CountResult, str],
) -> None:
    _, text = hostile
    policy = next(
        attributes["content"]
        for tag, attributes in parsed(text).tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    own = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    hashes = [
        "'sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() + "'"
        for script in own
    ]
    assert rules["script-src"].split() == hashes
    assert len(hashes) == len(frame.SCRIPTS)


def test_nothing_is_fetched(hostile: tuple[CountResult, str]) -> None:
    for tag, attributes in parsed(hostile[1]).tags:
        for key in ("src", "href", "data", "action", "srcset", "poster"):
            address = attributes.get(key)
            if address is not None:
                assert address.startswith(("data:", "#")), (tag, key, address[:60])
    style = re.findall(r"<style>(.*?)</style>", hostile[1], flags=re.DOTALL)
    assert "url(" not in style[0]
    assert "@import" not in style[0]


def test_scripts_cannot_be_ended_early() -> None:
    ended = frame.script("a = '</script>'; b = '</SCRIPT >'; c = '<!--'\r\n")
    assert "</script" not in ended.lower()
    assert "<!--" not in ended
    assert "\r" not in ended


def test_numbers_of_plots_are_json_without_tags(hostile: tuple[CountResult, str]) -> None:
    evidence, text = hostile
    blocks = re.findall(
        r'<script type="application/json" id="([\w-]+)-data">(.*?)</script>', text, flags=re.DOTALL
    )
    expected = (
        sum(len(chart.panels()) for chart in charts_of(evidence)) + 1
    )  # and those of the sliders
    assert len(blocks) == expected
    for _, block in blocks:
        assert "<" not in block
        json.loads(block)


# --- content ----------------------------------------------------------------------------------


def test_downloads_are_the_reports_numbers(
    hostile: tuple[CountResult, str], tmp_path: Path
) -> None:
    evidence, text = hostile
    found = {
        attributes["download"]: attributes["href"]
        for tag, attributes in parsed(text).tags
        if tag == "a" and "download" in attributes
    }
    assert set(found) == {"report.json", "counts.csv", "curves.csv"}
    data = {
        name: base64.b64decode(str(address).split("base64,")[1]) for name, address in found.items()
    }
    assert json.loads(data["report.json"]) == page_values(evidence)
    (tmp_path / "counts.csv").write_bytes(data["counts.csv"])
    restored = em.AttackCounts.read(tmp_path / "counts.csv")
    original = evidence.posterior.counts
    assert restored.false_positives.tolist() == original.false_positives.tolist()
    inert = [f"'{name}" if name[0] in "=+-@" else name for name in original.names]
    assert list(restored.names) == inert
    assert evidence.origin.curves is not None
    assert data["curves.csv"].decode() == curves_csv(evidence.origin.curves)


@pytest.mark.parametrize("first", ["=", "+", "-", "@", "\t"])
def test_spreadsheets_run_no_name(first: str) -> None:
    row = counts_csv(named([f"{first}cmd", "b"])).splitlines()[1]
    assert row.startswith(f"'{first}cmd,")


def test_spreadsheets_run_no_statistic() -> None:
    name = f"={'1' * 199}"
    measured = em.rows.MeasuredBy(design="cross-fed", statistic=name)
    counts = replace(named(["a", "b"]), measured=measured)
    lines = counts_csv(counts).splitlines()
    assert lines[0].endswith(",design,statistic")
    # As long as a name may be, apostrophe included, so that the file can be read.
    assert lines[1].endswith(f",cross-fed,'{name[:-1]}")
    assert em.AttackCounts.parse("\n".join(lines), name="counts.csv").names == ("a", "b")


@pytest.mark.parametrize(
    ("make", "claim", "badge", "said"),
    [
        (exact, None, "ESTIMATE", "at delta = 0.01: epsilon of the algorithm, including what"),
        (exact, 0.2, "FAIL (proven)", "Look for a mistake in the algorithm"),
        (exact, 2.0, "INCONCLUSIVE", "lies on both sides of the claim"),
        (stuck, 1.5, "INCONCLUSIVE", "did not reach its accuracy"),
    ],
)
def test_the_verdict_stands_on_top(
    make: object, claim: float | None, badge: str, said: str
) -> None:
    posterior: CountPosterior = make()  # type: ignore[operator]
    text = without_figures(gather(posterior, claim=claim))
    top = text.split('<section id="numbers">')[0]
    assert f'<p class="badge">{badge}</p>' in top
    assert said in top
    assert f"<title>{badge} · Privacy audit: 2 challenge bases</title>" in text
    kind = badge.partition(" ")[0]
    assert f'<section class="verdict {kind}" id="verdict">' in top
    # What stands in the badge is not said again.
    said_first = top.split('<p class="badge">')[1].split("<details")[0]
    assert f"{badge}: " not in said_first
    assert ('<p class="headline">' in said_first) is (claim is not None)
    if badge == "FAIL (proven)":
        proven = em.prove(TWO, delta=0.01).at_least
        assert f"The attacks prove that epsilon is at least {rounded_down(proven)}" in top
    elif claim is not None and make is not stuck:
        above = posterior.probability_above("epsilon", claim)
        assert f"with probability {probability_text(above)}" in top


def test_every_base_and_assumption_is_there() -> None:
    swept, used = curves()
    model = em.CountModel(delta=0.1, likelihood=em.likelihoods.CorrelatedNormal())
    origin = Origin(
        plan={
            "hash": "abc123",
            "population": "directions",
            "adjacency": "replace",
            "design": "MeasureMIAFast",
            "dataset_size": 49,
            "seed": 1,
        },
        attack={"attack": "likelihood-ratio", "statistic": "loss", "target_alpha": 0.1},
        models={"trained": 160, "reused": 0, "failed": 2},
        curves=swept,
    )
    posterior = em.estimate(used, model)
    text = without_figures(gather(posterior, origin=origin))
    shown = "".join(parsed(text).text)
    for expected in (
        "the challenge point replaces another record",
        "delta = 0.1",
        "jointly normal",
        "half-normal with scale 3.162",
        "Attacks are not assumed to be the best possible",
        "abc123",
        "160 trained, 0 reused, 2 failed",
        "2 of the models failed. In proofs a failure is an outcome",
        "CorrelatedNormal(within_correlation_scale=0.01)",
        "exact quadrature",
        f"numpy {np.__version__}",
        "from directions",
    ):
        assert expected in shown
    wrong = zip(used.names, used.false_positives, used.trials_h0, strict=True)
    for name, positives, trials in wrong:
        assert f"<bdi>{name}</bdi></td><td>{positives}</td><td>{trials}</td>" in text


def test_seed_of_the_chains_is_named() -> None:
    shown = "".join(parsed(without_figures(gather(sampled()))).text)
    assert "seed of the engine" in shown
    assert re.search(r"seed of the engine\s*7\b", shown)


def test_warnings_about_counts_at_their_ends_reach_the_page() -> None:
    observed = counts([5] * 4, [0] * 4, 50)
    posterior = em.estimate(
        observed, em.CountModel(delta=1e-3, likelihood=em.likelihoods.CorrelatedNormal())
    )
    evidence = gather(posterior)
    assert any("4 of 4 bases have an error count of 0" in text for text in evidence.warnings)


def test_without_a_prior_of_epsilon_nothing_is_compared() -> None:
    evidence = gather(exact(epsilon=em.priors.Fixed(value=2.0)), claim=1.0)
    assert evidence.other_priors == ()
    assert evidence.influence is None
    text = render(evidence)
    assert '<p class="badge">FAIL (proven)</p>' in text
    assert "epsilon is held at 2." in text
    above = without_figures(replace(evidence, question=replace(evidence.question, claim=1.9)))
    assert '<p class="badge">INCONCLUSIVE</p>' in above
    assert "no other prior could be tried" in above


def test_curves_must_be_of_the_same_bases() -> None:
    swept, _ = curves()
    with pytest.raises(em.InputError, match="same challenge bases"):
        gather(exact(), origin=Origin(curves=swept))


# --- wording ----------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.0, 0.01, 0.3])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0, 12.0])
def test_best_detection_lies_on_the_boundary(epsilon: float, delta: float) -> None:
    from epsilometer.model.region import critical_epsilon

    for false_alarms in (0.001, 0.01, 0.2):
        found = sentences.best_detection(epsilon, delta, false_alarms)
        assert 0 <= found <= 1
        critical = float(critical_epsilon(false_alarms, 1 - found, delta))
        # Where delta alone allows everything, no epsilon is needed.
        assert critical <= epsilon + 1e-9
        if found < 1 - 1e-9:
            beyond = float(critical_epsilon(false_alarms, 1 - found - 1e-9, delta))
            assert beyond > epsilon - 1e-5


WEAK = counts([100, 500, 800, 300, 650], [850, 460, 170, 660, 310], 1000)


@pytest.mark.parametrize(
    ("observed", "claim", "outcome", "prior_alone", "said"),
    [
        (counts([1], [1], 2), 13.0, "PASS", True, "The prior alone gives the verdict PASS"),
        # Where a wider prior would not let it pass, it does not pass at all.
        (counts([1], [1], 2), 7.0, "INCONCLUSIVE", False, "the prior decides: with its scale"),
        (WEAK, 4.0, "PASS", False, ""),
    ],
)
def test_a_verdict_that_is_the_priors_says_so(
    observed: em.AttackCounts, claim: float, outcome: str, prior_alone: bool, said: str
) -> None:
    evidence = gather(exact(observed), claim=claim)
    verdict = evidence.verdict
    assert verdict is not None
    assert (verdict.outcome.value, verdict.prior_alone) == (outcome, prior_alone)
    assert verdict.leaning is em.judgement.Outcome.PASS
    top = " ".join([*sentences.after_verdict(evidence), *verdict.reasons])
    assert said in top
    assert said or not re.search("prior alone|the prior decides", top)


def test_claims_that_would_pass_or_fail_are_the_posteriors_quantiles() -> None:
    posterior = exact()
    text = sentences.settled_claims(gather(posterior))
    passes, fails = (float(value) for value in re.findall(r"of ([\d.]+) or", text))
    assert f"Claims below {rounded_down(em.prove(TWO, delta=0.01).at_least)} are refuted." in text
    assert "By the posterior alone" in text
    # Two decimals.
    assert passes == pytest.approx(float(posterior.quantile("epsilon", 0.95)), abs=0.005)
    assert fails == pytest.approx(float(posterior.quantile("epsilon", 0.05)), abs=0.005)
    assert em.judge(posterior, claim=passes + 0.01).leaning is em.judgement.Outcome.PASS
    assert em.judge(posterior, claim=passes - 0.01).leaning is em.judgement.Outcome.INCONCLUSIVE
    assert em.judge(posterior, claim=fails - 0.01).leaning is em.judgement.Outcome.FAIL
    assert em.judge(posterior, claim=fails + 0.01).leaning is em.judgement.Outcome.INCONCLUSIVE


def test_the_verdict_under_other_priors_is_stated() -> None:
    evidence = gather(exact(), claim=2.0)
    said = " ".join(sentences.after_verdict(evidence))
    for other in evidence.other_priors:
        above = other.epsilon.probability_above(2.0)
        assert (
            f"{probability_text(above)} (INCONCLUSIVE) with {other.factor:g} times the scale"
            in said
        )


def test_the_page_is_small(hostile: tuple[CountResult, str]) -> None:
    # The README says "under 1 MB"; twenty bases with their error curves take less.
    assert len(hostile[1].encode()) < 900_000
