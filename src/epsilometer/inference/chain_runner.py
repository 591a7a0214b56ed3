"""Several Markov chains in threads, with progress, stopped together."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from os import cpu_count
from typing import Protocol, TypeVar

import numpy as np

BLOCK = 500
"""Iterations between two reports of progress, and between two steps of adaptation."""


class Chain(Protocol):
    """A chain that goes on for a number of iterations at a time."""

    def advance(self, most: int) -> int:
        """Run at most so many iterations; return how many were left to do and are done."""
        ...


C = TypeVar("C", bound=Chain)


def run_chains(
    make: Callable[[np.random.Generator], C],
    *,
    chains: int,
    iterations: int,
    seed: int,
    progress: Callable[[int, int], None] | None,
    num_threads: int | None,
) -> list[C]:
    """Run chains to their end in threads: the kernels release the interpreter's lock.

    The random stream belongs to the chain, so draws do not depend on the threads.
    """
    seeds = np.random.SeedSequence(seed).spawn(chains)
    finished: queue.SimpleQueue[int | None] = queue.SimpleQueue()
    stop = threading.Event()

    def work(stream: np.random.SeedSequence) -> C:
        try:
            chain = make(np.random.default_rng(stream))
            while not stop.is_set() and (made := chain.advance(BLOCK)) > 0:
                finished.put(made)
            return chain
        finally:
            finished.put(None)

    workers = min(num_threads or cpu_count() or 1, chains)
    with ThreadPoolExecutor(max_workers=workers) as pool:
        futures: list[Future[C]] = [pool.submit(work, stream) for stream in seeds]
        done, running = 0, len(futures)
        try:
            while running:
                made = finished.get()
                if made is None:
                    running -= 1
                else:
                    done += made
                    if progress:
                        progress(done, chains * iterations)
        finally:
            # An interrupt arrives here: the chains must not run on behind it.
            stop.set()
        return [future.result() for future in futures]
