"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]

AllowUnconverged = Annotated[
    bool, typer.Option("--allow-unconverged", help="Accept a result that did not converge.")
]

ReportFile = Annotated[
    Path | None,
    typer.Option("--report", metavar="FILE", help="Write a page, HTML, that stands alone."),
]

FiguresFolder = Annotated[
    Path | None,
    typer.Option(
        "--figures", metavar="DIR", help="Write every figure for print: PNG, SVG and PDF."
    ),
]

PassAtMost = Annotated[
    float,
    typer.Option(metavar="P", help="PASS if epsilon exceeds the claim with probability at most P."),
]

FailAtLeast = Annotated[
    float,
    typer.Option(
        metavar="P", help="FAIL if epsilon exceeds the claim with probability at least P."
    ),
]

FailOn = Annotated[
    str,
    typer.Option(
        metavar="never|fail|inconclusive",
        help="Exit with 3 if the verdict is FAIL; with `inconclusive` also if it is that.",
    ),
]
