"""``epsilometer attack``: error counts from losses."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import epsilometer as em
from epsilometer import _files, _validate
from epsilometer._text import counted, shortened, table_lines, wrapped
from epsilometer.cli import options, outputs, results
from epsilometer.cli.options import argument, option
from epsilometer.errors import InputError
from epsilometer.inputs.loading import statistic_of

STDOUT = "-"
MOST_ROWS = 40
"""Bases that are printed."""
LONGEST_NAME, RULE = 24, 44
"""Columns for the name of a base and of a rule."""
CROSS_FED = (
    "models are cross-fed, so the rules of a base share shadow models: groups model the dependence of "
    "rates, not of counts, and the interval is slightly too narrow; use --shadows, or one rule with "
    "--likelihood correlated."
)


def attack(
    file: str = argument(
        "FILE",
        "Losses as CSV or Parquet with the columns challenge_base, hypothesis, replicate, loss (pools: "
        "point, model, member, loss, or .npz), or a store of `audit`; - reads CSV from standard input.",
    ),
    target_alpha: str = option(
        "A",
        "Target false-positive rate, in (0, 1). Several, A,A,..., are several rules: each challenge is "
        "decided by one of them, and the rules of a base form a group.",
        default="0.1",
    ),
    statistic: str | None = option(
        "loss|logit|module:function",
        "Statistic of the attack. Default: loss; logit needs cross-entropy losses and is closer to "
        "normal. Several, separated by commas, are several rules.",
    ),
    method: str | None = options.ATTACK_METHOD,
    shadows: int | None = options.SHADOWS,
    variant: str | None = options.STORE_VARIANT,
    curves: Path | None = option("FILE", "Write counts at target rates .01 to .99 as CSV."),
    output: str | None = option("FILE", "Write the counts to a .csv or .json file; - prints CSV."),
    force: bool = outputs.FORCE,
    as_json: bool = options.AS_JSON,
) -> int:
    """Attack models by their losses and count the errors."""
    from epsilometer.auditing.running import describe

    rates = [_rate(part) for part in target_alpha.split(",")]
    if as_json and output == STDOUT:
        raise InputError("--json and --output - both print; choose one.")
    target = None if output in (None, STDOUT) else Path(str(output))
    outputs.check_file(target, outputs.TABLE_ENDINGS, option="--output", force=force)
    outputs.check_file(curves, (".csv",), option="--curves", force=force)
    looked_at = [
        statistic_of(name.strip(), folder=Path(), place="`statistic=`")
        for name in (statistic or "loss").split(",")
    ]
    losses, design = results.losses_of(file, variant, shadows)
    pool = not design.models(1)
    if pool and statistic is not None:
        raise InputError("--statistic is for many models; on a pool the method decides.")
    chosen = choose_attack(method, pool=pool)
    attacked = [design.attack(losses, chosen, statistic=one) for one in looked_at]
    if len(rates) * len(attacked) > 1:
        if curves is not None:
            raise InputError("--curves is for one statistic and one target rate.")
        rules = [
            em.attacks.OperatingPoint(result=one, target_alpha=rate)
            for one in attacked
            for rate in rates
        ]
        return _deliver(*_dealt(rules), output=output, as_json=as_json)
    result, alpha = attacked[0], rates[0]
    if curves is not None:
        result.sweep().write(curves)
    counts, data = result.counts(alpha), describe(result, alpha)
    return _deliver(counts, data, text_of(result, alpha), output=output, as_json=as_json)


def _rate(text: str) -> float:
    refusal = f"--target-alpha: expected rates in (0, 1), got {_files.shown(text)}."
    return _validate.open_unit_interval("target_alpha", options.number(text, refusal))


def _deliver(
    counts: em.AttackCounts, data: dict[str, Any], text: str, *, output: str | None, as_json: bool
) -> int:
    """Write and print counts, and print the warnings of the attack."""
    written = [] if output in (None, STDOUT) else [Path(str(output))]
    for path in written:
        counts.write(path)
    if as_json:
        results.say_json(data)
    elif output == STDOUT:
        results.say(counts.to_csv())
    else:
        results.say(text + results.written_to(written))
    results.warn_all(data["warnings"])
    return 0


def _dealt(rules: list[em.attacks.OperatingPoint]) -> tuple[em.AttackCounts, dict[str, Any], str]:
    """Challenges divided among several rules: counts, also as plain values and as text."""
    counts = em.attacks.split_counts(rules)
    warnings = [
        f"{rule.label}: {warning}"
        for rule in rules
        for warning in rule.result.warnings(rule.target_alpha)
    ]
    if counts.measured is not None and counts.measured.cross_fed:
        warnings.append(CROSS_FED)
    labels = [rule.label for rule in rules]
    data = {"rules": labels, "bases": counts.rows(), "warnings": warnings}
    intro = (
        f"{counted(len(set(counts.groups)), 'challenge base')}, {len(labels)} decision rules. Each "
        "challenge is decided by one rule; the rules of a base form a group of dependent attacks."
    )
    rows: list[tuple[str, ...]] = [("rule", "false positives", "false negatives")]
    for label in labels:
        mine = [row for row, name in enumerate(counts.names) if name.endswith(f"({label})")]
        part = counts.take(mine)
        positives = f"{part.false_positives.sum()} / {part.trials_h0.sum()}"
        negatives = f"{part.false_negatives.sum()} / {part.trials_h1.sum()}"
        rows.append((shortened(_files.printable(label), RULE), positives, negatives))
    lines = [*wrapped(intro), "", *table_lines(rows), ""]
    lines += wrapped("--output and --json have one row per base and rule.")
    return counts, data, "\n".join(lines) + "\n"


def choose_attack(method: str | None, *, pool: bool = False) -> Any:
    """The attack of that name, on many models or on a pool; None: that of the design."""
    from epsilometer.attacks.pool_attacks import POOL_ATTACKS
    from epsilometer.attacks.rules import ATTACKS

    known: Any = POOL_ATTACKS if pool else ATTACKS
    return None if method is None else known[_validate.one_of("method", method, known)]


def text_of(result: em.attacks.AttackResult, target_alpha: float) -> str:
    """The counts as text for a terminal."""
    counts = result.counts(target_alpha)
    checks = result.checks(target_alpha)
    lines = [
        f"{counted(len(checks), 'challenge base')}, statistic {result.statistic}, "
        f"{result.attack} attack",
        *wrapped(
            f"target false-positive rate {target_alpha:g}; the table has the realised rates, and "
            "whether the scores look normal, as the attack assumes"
        ),
        "",
    ]
    rows: list[tuple[str, ...]] = [
        ("base", "false positives", "false negatives", "rate", "normal", "")
    ]
    for row, check in enumerate(checks[:MOST_ROWS]):
        shown = shortened(_files.printable(check.name), LONGEST_NAME)
        positives = f"{counts.false_positives[row]} / {counts.trials_h0[row]}"
        negatives = f"{counts.false_negatives[row]} / {counts.trials_h1[row]}"
        normal = _normal(check.normality_h0, check.normality_h1)
        mark = "missed" if check.missed else ""
        rows.append((shown, positives, negatives, f"{check.realised:.3f}", normal, mark))
    lines += table_lines(rows)
    if len(checks) > MOST_ROWS:
        lines.append(f"... and {len(checks) - MOST_ROWS} more (all with --json or --output)")
    return "\n".join(lines) + "\n"


def _normal(*p_values: float) -> str:
    """Whether scores look normal, from the p-values of both hypotheses; NaN if untested."""
    from epsilometer.attacks.result import NOT_NORMAL

    if any(p < NOT_NORMAL for p in p_values):
        return "no"
    return "?" if any(math.isnan(p) for p in p_values) else "yes"
