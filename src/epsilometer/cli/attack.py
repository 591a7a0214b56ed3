"""``epsilometer attack``: losses in, error counts out."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsilometer import _files, _validate
from epsilometer.audit.loading import statistic_of
from epsilometer.cli import results
from epsilometer.cli.options import AsJson, AttackMethod, Shadows, StoreVariant, option
from epsilometer.cli.results import STDIN
from epsilometer.errors import InputError
from epsilometer.report.text import counted, shortened

if TYPE_CHECKING:
    from epsilometer.attacks.losses import Losses
    from epsilometer.attacks.result import AttackResult
    from epsilometer.attacks.rules import Attack
    from epsilometer.attacks.several_rules import Rule
    from epsilometer.measurement.designs import Design
    from epsilometer.model.counts import AttackCounts

STDOUT = "-"
METHOD = "likelihood-ratio"
"""The attack unless somebody chooses another: the paper's."""
MOST_ROWS = 40
"""Bases that are shown: a screen of them."""
LONGEST_NAME, RULE = 24, 44
"""Columns for the name of a base and of a rule: what the numbers leave of 80."""
CROSS_FED = (
    "models are cross-fed, so the rules of a base share shadow models: groups model how their rates "
    "depend, not that their counts do, and the interval comes out somewhat too narrow; --shadows, or "
    "one rule with --likelihood correlated, does not have that."
)


def attack(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="Losses: CSV or Parquet with the columns challenge_base, hypothesis, replicate, "
            "loss, or a store of `audit`; - reads CSV from standard input.",
        ),
    ],
    target_alpha: Annotated[
        str,
        option(
            "A",
            "Target false-positive rate, in (0, 1). Several, A,A,..., are several rules: every "
            "challenge is judged by one of them, and the rules of a base are a group.",
        ),
    ] = "0.1",
    statistic: Annotated[
        str,
        option(
            "loss|logit|module:function",
            "What the attack looks at; logit needs cross-entropy losses and is nearer normal. "
            "Several, with commas between, are several rules.",
        ),
    ] = "loss",
    method: AttackMethod = METHOD,
    shadows: Shadows = None,
    variant: StoreVariant = None,
    curves: Annotated[
        Path | None, option("FILE", "Write counts at the target rates .01 to .99 as CSV.")
    ] = None,
    output: Annotated[
        str | None, option("FILE", "Write the counts, JSON if it ends in .json; - prints CSV.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Attack every base with the losses of its models, and count the errors."""
    from epsilometer.attacks import curves_files
    from epsilometer.attacks.several_rules import Rule
    from epsilometer.audit.variants import describe

    rates = _rates(target_alpha)
    if as_json and output == STDOUT:
        raise InputError("--json and --output - both print; choose one.")
    chosen = choose_attack(method)
    looked_at = [
        statistic_of(name.strip(), folder=Path(), place="--statistic")
        for name in statistic.split(",")
    ]
    losses, design = _read(file, variant, shadows)
    attacked = [design.attack(losses, chosen, statistic=one) for one in looked_at]
    if len(rates) * len(attacked) > 1:
        if curves is not None:
            raise InputError("--curves is for one statistic and one target rate.")
        rules = [Rule(result=one, target_alpha=rate) for one in attacked for rate in rates]
        return _deliver(*_dealt(rules, design), output=output, as_json=as_json)
    result, alpha = attacked[0], rates[0]
    if curves is not None:
        curves_files.write(result.sweep(), curves)
    counts, data = result.counts(alpha), describe(result, alpha)
    return _deliver(counts, data, text_of(result, alpha), output=output, as_json=as_json)


def _rates(text: str) -> list[float]:
    from epsilometer.attacks.result import target_rate

    rates = []
    for part in text.split(","):
        try:
            number = float(part)
        except ValueError:
            raise InputError(
                f"--target-alpha: expected rates in (0, 1), got {_files.shown(part)}."
            ) from None
        rates.append(target_rate(number))
    return rates


def _deliver(
    counts: AttackCounts, data: dict[str, Any], text: str, *, output: str | None, as_json: bool
) -> int:
    """Write and print counts, and warn of what the attack warns of."""
    from epsilometer.model import counts_files

    written = [] if output in (None, STDOUT) else [Path(str(output))]
    for path in written:
        counts_files.write(counts, path)
    if as_json:
        results.say_json(data)
    elif output == STDOUT:
        results.say(counts_files.to_csv(counts))
    else:
        results.say(text + results.written_to(written))
    for warning in data["warnings"]:
        results.warn(f"warning: {warning}")
    return 0


def _dealt(rules: list[Rule], design: Design) -> tuple[AttackCounts, dict[str, Any], str]:
    """The challenges dealt out to several rules: counts, and these as plain values and as text."""
    from epsilometer.attacks.several_rules import deal_counts
    from epsilometer.measurement.designs import MeasureMIAFast
    from epsilometer.model import counts_files

    counts = deal_counts(rules)
    warnings = [
        f"{rule.label}: {warning}"
        for rule in rules
        for warning in rule.result.warnings(rule.target_alpha)
    ]
    if isinstance(design, MeasureMIAFast):
        warnings.append(CROSS_FED)
    labels = [rule.label for rule in rules]
    data = {"rules": labels, "bases": counts_files.rows(counts), "warnings": warnings}
    lines = [
        f"{counted(len(set(counts.groups)), 'challenge base')}, {len(labels)} decision rules; every "
        "challenge was judged by",
        "one of them, and the rules of a base are a group of dependent attacks",
        "",
        f"{'rule':<{RULE}}  {'false positives':>15}  {'false negatives':>15}",
    ]
    for label in labels:
        mine = [row for row, name in enumerate(counts.names) if name.endswith(f"({label})")]
        part = counts.take(mine)
        positives = f"{part.false_positives.sum()} / {part.trials_h0.sum()}"
        negatives = f"{part.false_negatives.sum()} / {part.trials_h1.sum()}"
        lines.append(f"{_files.printable(label)[:RULE]:<{RULE}}  {positives:>15}  {negatives:>15}")
    lines += ["", "--output or --json has a row for each base and rule."]
    return counts, data, "\n".join(lines) + "\n"


def choose_attack(method: str) -> Attack:
    """The attack of that name."""
    from epsilometer.attacks.rules import ATTACKS

    return ATTACKS[_validate.one_of("method", method, ATTACKS)]


def _read(file: str, variant: str | None, shadows: int | None) -> tuple[Losses, Design]:
    from epsilometer.attacks.losses import Losses
    from epsilometer.measurement.sqlite_store import is_store

    if file != STDIN and is_store(file):
        if shadows is not None:
            raise InputError("--shadows is for files of losses; a store knows its design.")
        return _read_store(Path(file), variant)
    if variant is not None:
        raise InputError("--variant is for stores; a file of losses has one variant.")
    if file == STDIN:
        name, text = results.text_of(file)
        losses = Losses.parse_csv(text, name=name)
    else:
        losses = Losses.read(file)
    return losses, _design(losses, shadows)


def read_losses(file: str, variant: str | None) -> Losses:
    """Losses of a file or a store, however they were measured."""
    return _read(file, variant, None)[0]


def _design(losses: Losses, shadows: int | None) -> Design:
    from epsilometer.measurement.designs import MeasureMIA, MeasureMIAFast

    most = int(losses.replicate.max()) + 1
    if shadows is None:
        return MeasureMIAFast(replicates=max(most, 3))
    _validate.whole_number("shadows", shadows, least=2)
    blocks, rest = divmod(most, 1 + 2 * shadows)
    if rest:
        raise InputError(
            f"--shadows {shadows}: expected replicates in blocks of {1 + 2 * shadows} (a challenge and "
            f"its shadow models), got {most}; without --shadows models are cross-fed."
        )
    return MeasureMIA(replicates=blocks, shadows_h0=shadows, shadows_h1=shadows)


def _read_store(path: Path, variant: str | None) -> tuple[Losses, Design]:
    from epsilometer.measurement.designs import design_of
    from epsilometer.measurement.sqlite_store import SqliteStore

    with SqliteStore(path, read_only=True) as store:
        sizes = store.sizes()
        chosen = choose_variant(sizes.variants, variant)
        losses = store.losses(sizes, chosen)
        return losses, design_of(store.status().identity.get("design"), sizes.models_h0)


def choose_variant(variants: tuple[str, ...], wanted: str | None) -> str:
    """The wanted variant, or the only one."""
    if wanted is None and len(variants) == 1:
        return variants[0]
    if wanted not in variants:
        shown = f"got {wanted!r}" if wanted is not None else "got none"
        raise InputError(f"expected --variant to be one of {', '.join(variants)}, {shown}.")
    return str(wanted)


def text_of(result: AttackResult, target_alpha: float) -> str:
    """The counts for reading, at most 80 columns wide."""
    counts = result.counts(target_alpha)
    checks = result.checks(target_alpha)
    width = min(LONGEST_NAME, max(4, *(len(_files.printable(name)) for name in result.names)))
    lines = [
        f"{counted(len(checks), 'challenge base')}, statistic {result.statistic}, "
        f"{result.attack} attack",
        f"target false-positive rate {target_alpha:g}; realised rates below, and whether the scores",
        "look normal, as the attack takes them to be",
        "",
        f"{'base':<{width}}  {'false positives':>15}  {'false negatives':>15}  {'rate':>6}  normal",
    ]
    for row, check in enumerate(checks[:MOST_ROWS]):
        shown = shortened(_files.printable(check.name), width)
        positives = f"{counts.false_positives[row]} / {counts.trials_h0[row]}"
        negatives = f"{counts.false_negatives[row]} / {counts.trials_h1[row]}"
        mark = " missed" if check.missed else ""
        lines.append(
            f"{shown:<{width}}  {positives:>15}  {negatives:>15}  {check.realised:>6.3f}  "
            f"{_normal(check.normality_h0, check.normality_h1):<6}{mark}".rstrip()
        )
    if len(checks) > MOST_ROWS:
        lines.append(f"... and {len(checks) - MOST_ROWS} more (--json or --output has them all)")
    return "\n".join(lines) + "\n"


def _normal(*p_values: float) -> str:
    """Whether scores look normal, from the p-values of both hypotheses; NaN where untested."""
    from epsilometer.attacks.result import NOT_NORMAL

    if any(p < NOT_NORMAL for p in p_values):
        return "no"
    return "?" if any(math.isnan(p) for p in p_values) else "yes"
