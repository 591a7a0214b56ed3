"""Epsilometer: how private is a training algorithm?  One call trains, attacks, estimates and judges.

>>> import epsilometer as em
>>> result = em.audit("audit.toml")  # doctest: +SKIP

or, with your own training and records,

>>> result = em.audit(
...     em.PyTorch(module=..., fit=...), population, delta=1e-5, claim=2.0, design=em.Pool(models=64)
... )  # doctest: +SKIP
>>> result.verdict, result.proof, result.posterior, result.next_step  # doctest: +SKIP
>>> result.write("folder"), result.report("page.html")  # doctest: +SKIP

With scores, losses or error counts at hand (a file, a data frame, arrays), the parts of that call:

>>> scores = {"without": [0.1, 0.4, 0.2, 0.3], "with_point": [1.9, 1.1, 0.8, 1.2]}
>>> posterior = em.estimate(scores, delta=1e-3)
>>> low, high = posterior.credible_interval("epsilon", 0.9)
>>> em.prove(scores, delta=1e-3).at_least >= 0
True
>>> em.judge(posterior, 2.0).label
'INCONCLUSIVE'

Priors, families, likelihoods, attacks, stores and other parts are in submodules (``em.priors``,
``em.families``, ...).  Names are imported on first use, so that importing the package is quick.
"""

from __future__ import annotations

from epsilometer._lazy import public_names

_read, __dir__, __all__ = public_names(__name__, __file__)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("epsilometer")
    return _read(name)
