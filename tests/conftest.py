"""What holds for all tests."""

from __future__ import annotations

import os
import signal

# Workers share the cores; threads of linear algebra on top of them only get in the way.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# Text is printed in 80 columns, unless a test says otherwise.
os.environ.pop("COLUMNS", None)

# A shell that starts the tests in the background has them ignore interrupts, and so would every process
# that they start; tests of interrupts need them as a terminal has them.
signal.signal(signal.SIGINT, signal.default_int_handler)
