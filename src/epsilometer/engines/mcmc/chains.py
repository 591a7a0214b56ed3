"""A Markov chain that tunes itself during warm-up, and several of them run in threads."""

from __future__ import annotations

import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from os import cpu_count
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from epsilometer._arrays import FloatArray

if TYPE_CHECKING:
    from epsilometer.engines.mcmc.driver import McmcSettings


ITERATIONS_BETWEEN = 500
"""Iterations between two reports of progress."""


class Chain(ABC):
    """One chain: its steps are tuned after each block of warm-up and then frozen.

    A subclass starts, runs and tunes itself; it has its own random stream.
    """

    warmup_block: ClassVar[int]
    """Iterations between tuning steps: few, because the first step sizes are guesses."""

    def __init__(
        self, settings: McmcSettings, rng: np.random.Generator, *, width: int, num_steps: int
    ) -> None:
        self.settings, self.rng = settings, rng
        self.warm = np.zeros((settings.num_warmup, width))
        self.kept = np.zeros((settings.num_iterations, width))
        self.done = 0
        self.accepted, self.tried = np.zeros(num_steps), np.zeros(num_steps)

    def advance(self, most: int) -> int:
        """Run at most ``most`` iterations, not past the end of a phase; return how many were run."""
        warming = self.done < len(self.warm)
        phase, begun = (self.warm, 0) if warming else (self.kept, len(self.warm))
        most = min(most, self.warmup_block) if warming else most
        draws = phase[self.done - begun : self.done - begun + most]
        if len(draws) == 0:
            return 0
        accepted, tried = np.zeros_like(self.accepted), np.zeros_like(self.tried)
        self.run(draws, accepted, tried)
        self.done += len(draws)
        if warming:
            self.tune(accepted, tried)
        else:
            self.accepted += accepted
            self.tried += tried
        return len(draws)

    @abstractmethod
    def run(self, draws: FloatArray, accepted: FloatArray, tried: FloatArray) -> None:
        """Fill the rows of ``draws``; add up accepted and tried steps of each kind."""

    @abstractmethod
    def tune(self, accepted: FloatArray, tried: FloatArray) -> None:
        """Learn from the last block of warm-up."""


def run_chains(
    make: Callable[[np.random.Generator], Chain],
    settings: McmcSettings,
    *,
    on_progress: Callable[[int, int], None] | None,
    num_threads: int | None,
) -> list[Chain]:
    """Run chains to their end in threads: the kernels release the interpreter's lock.

    The random stream belongs to the chain, so draws do not depend on the threads.
    """
    seeds = np.random.SeedSequence(settings.seed).spawn(settings.num_chains)
    total = settings.num_chains * (settings.num_warmup + settings.num_iterations)
    finished: queue.SimpleQueue[int | None] = queue.SimpleQueue()
    stop = threading.Event()

    def work(stream: np.random.SeedSequence) -> Chain:
        try:
            chain = make(np.random.default_rng(stream))
            while not stop.is_set() and (made := chain.advance(ITERATIONS_BETWEEN)) > 0:
                finished.put(made)
            return chain
        finally:
            finished.put(None)

    workers = min(num_threads or cpu_count() or 1, settings.num_chains)
    with ThreadPoolExecutor(max_workers=workers) as pool:
        futures: list[Future[Chain]] = [pool.submit(work, stream) for stream in seeds]
        done = 0
        try:
            for _ in futures:  # each sends None once
                while (made := finished.get()) is not None:
                    done += made
                    if on_progress:
                        on_progress(done, total)
        finally:
            # On an interrupt the chains must not continue in the background.
            stop.set()
        return [future.result() for future in futures]
