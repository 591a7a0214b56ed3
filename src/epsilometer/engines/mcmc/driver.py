"""The posterior of independent attacks by Markov chains: settings, and chains run in threads."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from os import cpu_count
from typing import Any, ClassVar

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import OnMessage
from epsilometer.engines.mcmc import densities
from epsilometer.engines.mcmc.attack_chain import AttackChain
from epsilometer.engines.mcmc.diagnostics import diagnose
from epsilometer.engines.mcmc.posterior import SamplePosterior
from epsilometer.errors import InputError
from epsilometer.model.counts import AttackCounts
from epsilometer.model.models import CountModel
from epsilometer.posteriors.provenance import Provenance

#: The least value of each number in the settings.
LEAST = {"num_auxiliary": 2, "num_iterations": 1, "num_warmup": 0, "num_chains": 1, "seed": 0}

#: Iterations between two reports of progress.
ITERATIONS_BETWEEN = 500


@dataclass(frozen=True, kw_only=True)
class UniformAuxiliaries:
    """Auxiliary error rates uniform on the unit square, as published."""

    informed: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class InformedAuxiliaries:
    """Auxiliary error rates concentrated where the counts put them.

    Binomial counts: the Beta posteriors of the rates, so that only the ring's indicator remains as
    weight, with a heavy tail added if a count is close to 0 or to all trials.  Correlated counts:
    logistic around the arcsine of the observed rates' roots.
    """

    informed: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class FixedRandomWalk:
    """Independent steps of fixed size on log epsilon, strength, tau and rho, as published.

    The paper's appendix gives variances 1e-2, 1e-4, 1e-6, 1e-6; these are standard deviations.
    """

    tuned: ClassVar[bool] = False

    log_epsilon_scale: float = 0.1
    strength_scale: float = 0.01
    within_correlation_scale: float = 0.001
    cross_correlation_scale: float = 0.001

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            object.__setattr__(self, name, _validate.positive(name, value))

    @property
    def scales(self) -> tuple[float, ...]:
        """Standard deviations of the steps, in the order of the parameters."""
        return tuple(asdict(self).values())


@dataclass(frozen=True, kw_only=True)
class TunedRandomWalk:
    """Steps of three lengths along a covariance learnt in warm-up and then frozen.

    Works on log epsilon, logit strength and logits of the correlations within their bounds; one
    proposal in ten draws the strength from its prior.  Between iterations there are a few moves
    without auxiliaries: of the parameters given the latents, and of the ring with its latents.
    """

    tuned: ClassVar[bool] = True
    #: None are set: steps are learnt.
    scales: ClassVar[tuple[float, ...]] = (0.0,) * 4


@dataclass(frozen=True, kw_only=True)
class McmcSettings:
    """Settings of MCMC: how long and how to sample.

    Parameters
    ----------
    num_auxiliary
        K: the latent and its K - 1 auxiliaries, at least 2.
    num_iterations
        Draws kept from each chain, after warm-up.
    num_warmup
        Iterations discarded before that; all tuning happens in them.
    num_chains
        Independent chains from over-dispersed starts.
    seed
        The same seed gives the same draws, for any number of threads.
    auxiliaries, proposal
        The distribution of auxiliaries, and the proposal for parameters.

    Examples
    --------
    >>> McmcSettings.published().num_auxiliary
    1000
    """

    num_auxiliary: int = 24
    num_iterations: int = 20_000
    num_warmup: int = 3_000
    num_chains: int = 4
    seed: int = 0
    auxiliaries: UniformAuxiliaries | InformedAuxiliaries = field(
        default_factory=InformedAuxiliaries
    )
    proposal: FixedRandomWalk | TunedRandomWalk = field(default_factory=TunedRandomWalk)

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            value = _validate.whole_number(name, getattr(self, name), least=least)
            object.__setattr__(self, name, value)
        for name, kinds in (
            ("auxiliaries", (UniformAuxiliaries, InformedAuxiliaries)),
            ("proposal", (FixedRandomWalk, TunedRandomWalk)),
        ):
            if not isinstance(getattr(self, name), kinds):
                known = " or ".join(kind.__name__ for kind in kinds)
                raise InputError(f"expected {known}, got {name}={getattr(self, name)!r}.")

    @classmethod
    def published(cls, **overrides: Any) -> McmcSettings:
        """Return the paper's settings: one chain of 100,000 iterations, the first 10,000 discarded.

        K = 1000 uniform auxiliaries per base and the random walk of the appendix.  Any setting may be
        overridden by name.
        """
        settings = cls(
            num_auxiliary=1000,
            num_iterations=90_000,
            num_warmup=10_000,
            num_chains=1,
            auxiliaries=UniformAuxiliaries(),
            proposal=FixedRandomWalk(),
        )
        return replace(settings, **overrides)

    def supports(self, counts: AttackCounts, model: CountModel) -> str | None:
        """Why these settings cannot sample that posterior, as a sentence; None if they can.

        Assumes that the model accepts the counts: ``model.check(counts)`` passes.

        Examples
        --------
        >>> from epsilometer.model.priors import Fixed
        >>> one = AttackCounts(
        ...     false_positives=[4], trials_h0=10, false_negatives=[4], trials_h1=10
        ... )
        >>> McmcSettings().supports(one, CountModel(delta=0.0))
        >>> McmcSettings().supports(one, CountModel(delta=0.0, strength=Fixed(value=1.0)))[:26]
        'MCMC expects strength < 1,'
        """
        return next(_refusals(counts, model), None)

    def estimate(
        self,
        counts: AttackCounts,
        model: CountModel,
        *,
        on_message: OnMessage | None = None,
        on_progress: Callable[[int, int], None] | None = None,
        num_threads: int | None = None,
    ) -> SamplePosterior:
        """Return draws from the posterior of the model given the counts.

        Exact for any number of auxiliaries; more of them make larger steps acceptable.  Epsilon above
        700, where e^-epsilon nears the limit of double precision, is not visited.

        Parameters
        ----------
        counts, model, on_message, on_progress
            As for :func:`epsilometer.estimate`; numbers are over all chains, from the calling thread.
        num_threads
            Chains run at once.  Default: the number of processors.  Draws do not depend on it.

        Returns
        -------
        SamplePosterior
            ``posterior.trustworthy`` is true if the chains converged; ``posterior.diagnostics`` has
            the figures.

        Raises
        ------
        InputError
            If the model does not accept the counts, or :meth:`supports` returns a reason.
        ContradictionError
            If no starting point with posterior weight was found.
        """
        model.check(counts)
        if refusal := self.supports(counts, model):
            raise InputError(refusal)
        if num_threads is not None:
            num_threads = _validate.whole_number("num_threads", num_threads)
        if on_message:
            on_message("compiling")
        once = replace(self, num_warmup=1)
        AttackChain(counts, model, once, np.random.default_rng(0)).advance(1)
        started = time.perf_counter()
        if on_message:
            on_message(f"sampling {self.num_chains} chains")
        chains = self._run(counts, model, on_progress, num_threads or cpu_count() or 1)
        samples = {
            name: np.stack([chain.kept[:, densities.PARAMETERS.index(name)] for chain in chains])
            for name in model.parameters_of(counts)
        }
        accepted = sum(float(chain.accepted.sum()) for chain in chains)
        tried = sum(float(chain.tried.sum()) for chain in chains)
        settings, seconds = self.to_dict(), time.perf_counter() - started
        provenance = Provenance(engine="mcmc", settings=settings, seconds=seconds, seed=self.seed)
        return SamplePosterior(
            counts=counts,
            model=model,
            provenance=provenance,
            engine=self,
            samples=samples,
            diagnostics=diagnose(samples, acceptance_rate=accepted / max(tried, 1.0)),
        )

    def _run(
        self,
        counts: AttackCounts,
        model: CountModel,
        on_progress: Callable[[int, int], None] | None,
        num_threads: int,
    ) -> list[AttackChain]:
        """Run chains to their end in threads: the kernels release the interpreter's lock.

        The random stream belongs to the chain, so draws do not depend on the threads.
        """
        seeds = np.random.SeedSequence(self.seed).spawn(self.num_chains)
        total = self.num_chains * (self.num_warmup + self.num_iterations)
        finished: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        stop = threading.Event()

        def work(stream: np.random.SeedSequence) -> AttackChain:
            try:
                chain = AttackChain(counts, model, self, np.random.default_rng(stream))
                while not stop.is_set() and (made := chain.advance(ITERATIONS_BETWEEN)) > 0:
                    finished.put(made)
                return chain
            finally:
                finished.put(None)

        with ThreadPoolExecutor(max_workers=min(num_threads, self.num_chains)) as pool:
            futures = [pool.submit(work, stream) for stream in seeds]
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

    def to_dict(self) -> dict[str, object]:
        """Plain values for provenance, without the seed."""
        values = dict(vars(self))
        del values["seed"]
        values["auxiliaries"] = type(self.auxiliaries).__name__
        values["proposal"] = {"name": type(self.proposal).__name__, **asdict(self.proposal)}
        return values


def _refusals(counts: AttackCounts, model: CountModel) -> Iterator[str]:
    """Reasons for refusal; later checks rely on earlier ones."""
    if model.strength.fixed_value == 1:
        yield (
            "MCMC expects strength < 1, got strength=1.0: the ring has no area there; "
            "use the exact engine for this limit."
        )
    if not model.parameters_of(counts):
        yield "expected a parameter to estimate: epsilon and strength are both fixed."
    if model.likelihood.name not in densities.COMPILED_LIKELIHOODS:
        yield _unknown("likelihood", densities.COMPILED_LIKELIHOODS, model.likelihood)
    if model.scatters(counts):
        yield "MCMC expects independent rows; use the exact engine for groups."
    for name, prior in model.priors_of(counts).items():
        known = ("beta",) if name == "strength" else densities.COMPILED_PRIORS
        kind, *_ = prior.compiled or ("",)
        if prior.fixed_value is None and kind not in known:
            yield _unknown(f"prior of {name}", known, prior)


def _unknown(what: str, known: tuple[str, ...], value: object) -> str:
    return (
        f"MCMC expects a compiled {what} ({', '.join(known)}), got {value!r}; use the exact engine."
    )
