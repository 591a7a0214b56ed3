"""How a worker process of ours begins: it leaves interrupts to its parent, and ends with it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading


def begin_worker() -> None:
    """Call this first in a process that a pool has started."""
    # Ctrl-C reaches every process of a terminal; the one that coordinates decides what to do.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What code of others prints is not the program's answer.
    sys.stdout = sys.stderr
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
