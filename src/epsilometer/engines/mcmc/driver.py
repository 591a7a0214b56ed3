"""The posterior by Markov chains, for independent attacks and for groups."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np

from epsilometer import _validate
from epsilometer._arrays import OnMessage
from epsilometer.engines.mcmc.attack_chain import AttackChain
from epsilometer.engines.mcmc.chains import run_chains
from epsilometer.engines.mcmc.densities import PARAMETERS
from epsilometer.engines.mcmc.diagnostics import diagnose
from epsilometer.engines.mcmc.group_chain import GroupChain
from epsilometer.engines.mcmc.posterior import SamplePosterior
from epsilometer.engines.mcmc.settings import (
    COMPILED_LIKELIHOODS,
    COMPILED_PRIORS,
    COMPILED_SCATTERS,
    FixedRandomWalk,
    InformedAuxiliaries,
    TunedRandomWalk,
    UniformAuxiliaries,
)
from epsilometer.errors import InputError
from epsilometer.model.count_model import CountModel
from epsilometer.model.counts import AttackCounts
from epsilometer.posteriors.provenance import Provenance


@dataclass(frozen=True, kw_only=True)
class McmcSettings:
    """Settings of MCMC: how long and how to sample.

    Parameters
    ----------
    num_auxiliary
        K: the latent and its K - 1 auxiliaries, at least 2.  Groups of dependent attacks have none,
        and neither ``auxiliaries`` nor ``proposal`` applies to them.
    num_sweeps
        Groups only: sweeps over all averages, members and parameters per draw that is kept.  Older files
        store it as ``num_auxiliary``.
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
    num_sweeps: int = 24
    num_iterations: int = 20_000
    num_warmup: int = 3_000
    num_chains: int = 4
    seed: int = 0
    auxiliaries: UniformAuxiliaries | InformedAuxiliaries = field(
        default_factory=InformedAuxiliaries
    )
    proposal: FixedRandomWalk | TunedRandomWalk = field(default_factory=TunedRandomWalk)

    def __post_init__(self) -> None:
        for name, least in (
            ("num_auxiliary", 2),
            ("num_sweeps", 1),
            ("num_iterations", 1),
            ("num_warmup", 0),
            ("num_chains", 1),
            ("seed", 0),
        ):
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
        kind = GroupChain if model.scatters(counts) else AttackChain
        if on_message:
            on_message("compiling")
        kind(counts, model, replace(self, num_warmup=1), np.random.default_rng(0)).advance(1)
        started = time.perf_counter()
        if on_message:
            on_message(f"sampling {self.num_chains} chains")
        chains = run_chains(
            lambda rng: kind(counts, model, self, rng),
            self,
            on_progress=on_progress,
            num_threads=num_threads,
        )
        samples = {
            name: np.stack([chain.kept[:, PARAMETERS.index(name)] for chain in chains])
            for name in model.parameters_of(counts)
        }
        accepted, tried = (
            sum(float(getattr(chain, steps).sum()) for chain in chains)
            for steps in ("accepted", "tried")
        )
        sampler = {"sampler": "groups"} if kind is GroupChain else {}
        return SamplePosterior(
            counts=counts,
            model=model,
            provenance=Provenance(
                engine="mcmc",
                settings=self.to_dict() | sampler,
                seconds=time.perf_counter() - started,
                seed=self.seed,
            ),
            engine=self,
            samples=samples,
            diagnostics=diagnose(samples, acceptance_rate=accepted / max(tried, 1.0)),
        )

    def to_dict(self) -> dict[str, object]:
        """Plain values for provenance, without the seed."""
        values = {part.name: getattr(self, part.name) for part in fields(self)}
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
    if model.likelihood.name not in COMPILED_LIKELIHOODS:
        yield _unknown("likelihood", COMPILED_LIKELIHOODS, model.likelihood)
    if model.scatters(counts):
        scatter = model.dependence.scatter
        if scatter is None:
            yield "MCMC expects scattered members; use the exact engine for pooled groups."
        elif scatter.name not in COMPILED_SCATTERS:
            yield _unknown("scatter", COMPILED_SCATTERS, scatter)
        if model.fixed_values(counts).get("spread") == 0:
            yield (
                "MCMC expects spread > 0, got spread=0.0: members without scatter are one attack; "
                "use the exact engine for this limit."
            )
    for name, prior in model.priors_of(counts).items():
        known = ("beta",) if name == "strength" else COMPILED_PRIORS
        kind, *_ = prior.compiled or ("",)
        if prior.fixed_value is None and kind not in known:
            yield _unknown(f"prior of {name}", known, prior)


def _unknown(what: str, known: tuple[str, ...], value: object) -> str:
    return (
        f"MCMC expects a compiled {what} ({', '.join(known)}), got {value!r}; use the exact engine."
    )
