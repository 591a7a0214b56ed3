"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]

AllowUnconverged = Annotated[
    bool, typer.Option("--allow-unconverged", help="Exit with 0 even if not converged.")
]
