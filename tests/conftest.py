"""What holds for all tests."""

from __future__ import annotations

import signal

# A shell that starts the tests in the background has them ignore interrupts, and so would every process
# that they start; tests of interrupts need them as a terminal has them.
signal.signal(signal.SIGINT, signal.default_int_handler)
