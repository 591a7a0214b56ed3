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


def attack(
    file: str = argument(
        "FILE",
        "Losses as CSV or Parquet with the columns challenge_base, hypothesis, replicate, loss (pools: "
        "point, model, member, loss, or .npz), or a store of `audit`; - reads CSV from standard input.",
    ),
    target_alpha: float = option("A", "Target false-positive rate, in (0, 1).", default=0.1),
    statistic: str | None = option(
        "loss|logit|module:function",
        "Statistic of the attack. Default: loss; logit needs cross-entropy losses and is closer to "
        "normal.",
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

    alpha = _validate.open_unit_interval("target_alpha", target_alpha)
    if as_json and output == STDOUT:
        raise InputError("--json and --output - both print; choose one.")
    target = None if output in (None, STDOUT) else Path(str(output))
    outputs.check_file(target, outputs.TABLE_ENDINGS, option="--output", force=force)
    outputs.check_file(curves, (".csv",), option="--curves", force=force)
    scoring = statistic_of(statistic or "loss", folder=Path(), place="`statistic=`")
    losses, design = results.losses_of(file, variant, shadows)
    pool = not design.models(1)
    if pool and statistic is not None:
        raise InputError("--statistic is for many models; on a pool the method decides.")
    chosen = choose_attack(method, pool=pool)
    result = design.attack(losses, chosen, statistic=scoring)
    if curves is not None:
        result.sweep().write(curves)
    counts, data = result.counts(alpha), describe(result, alpha)
    if target is not None:
        counts.write(target)
    if as_json:
        results.say_json(data)
    elif output == STDOUT:
        results.say(counts.to_csv())
    else:
        written = [] if target is None else [target]
        results.say(text_of(result, alpha) + results.written_to(written))
    results.warn_all(data["warnings"])
    return 0


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
