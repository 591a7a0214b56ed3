"""``python -m epsilometer``: the command line, where the command itself is not on the path."""

import sys

from epsilometer.cli.main import run

if __name__ == "__main__":
    sys.exit(run())
