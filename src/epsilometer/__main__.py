"""``python -m epsilometer``: the command line, where the command itself is not on the path."""

from __future__ import annotations

import sys

from epsilometer.cli.main import run

if __name__ == "__main__":
    sys.exit(run())
