"""``epsilometer attack``: error counts from losses."""

from pathlib import Path
from typing import Any

from epsilometer import _validate
from epsilometer.cli import options, outputs, results
from epsilometer.cli.options import argument, option
from epsilometer.errors import InputError
from epsilometer.inputs.loading import statistic_of

STDOUT = "-"


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
    from epsilometer.report.text.rows import counts_table

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
    result = design.attack(losses, choose_attack(method, pool=pool), statistic=scoring)
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
        note = f"{result.attack} attack, statistic {result.statistic}, target rate {alpha:g}"
        lines = counts_table(counts, [note]).lines()
        written = results.written_to([] if target is None else [target])
        results.say("\n".join(lines) + "\n" + written)
    results.warn_all(data["warnings"])
    return 0


def choose_attack(method: str | None, *, pool: bool = False) -> Any:
    """The attack of that name, on many models or on a pool; None: that of the design."""
    from epsilometer.attacks.pool_attacks import POOL_ATTACKS
    from epsilometer.attacks.rules import ATTACKS

    known: Any = POOL_ATTACKS if pool else ATTACKS
    return None if method is None else known[_validate.one_of("method", method, known)]
