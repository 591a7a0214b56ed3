"""Make the figure of `how-to/pool.md`: attacks of `examples/pool` compared.

    python docs/make_pool_figure.py

Writes ``docs/how-to/figures/pool_attacks.svg``, in half a minute.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import matplotlib as mpl

from epsilometer.cli.main import run

HERE = Path(__file__).resolve().parent
TARGET = HERE / "how-to" / "figures" / "pool_attacks.svg"


def main() -> None:
    """Train, attack and draw."""
    mpl.rcParams["svg.hashsalt"] = "epsilometer"  # the same numbers give the same file
    TARGET.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        place = shutil.copytree(HERE.parent / "examples" / "pool", Path(folder) / "pool")
        config = str(place / "audit.toml")
        for words in (["audit", config], ["compare-attacks", config, "--figure", str(TARGET)]):
            if code := run(words):
                raise SystemExit(code)


if __name__ == "__main__":
    main()
