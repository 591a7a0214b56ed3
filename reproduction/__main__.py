"""``python -m reproduction``, from a checkout: the paper's figures and table."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from . import audits, workshop

NAMES = ("figure2", "figure3", "figure4", "figure5", "figure6", "table1", "traces")


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the figures and tables of those names, by default all."""
    parser = argparse.ArgumentParser(prog="python -m reproduction", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"{', '.join(NAMES)}; default: all"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("reproduced"), help="folder to write to"
    )
    parser.add_argument("--engine", choices=workshop.ENGINES, default=workshop.ENGINES[0])
    parser.add_argument(
        "--train",
        action="store_true",
        help="train the 8,000 networks on MNIST instead of using the included losses: hours; an "
        "interrupted run continues",
    )
    given = parser.parse_args(arguments)
    wanted = list(dict.fromkeys(given.names or NAMES))
    unknown = [name for name in wanted if name not in NAMES]
    if unknown:
        parser.error(f"unknown {unknown[0]}; expected {', '.join(NAMES)}")
    losses = given.output / "experiment" if given.train else None
    if losses is not None:
        audits.train(losses, say=_say)
    shop = workshop.Workshop(given.output, engine=given.engine, losses=losses, say=_say)
    for name in wanted:
        import_module(f"{__package__}.{name}.make").make(shop)
    _say(f"Made {', '.join(wanted)} in {given.output}")
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
