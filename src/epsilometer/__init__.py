"""Epsilometer: the privacy of a training algorithm, judged by attacks on it.

From counts of false positives and false negatives of membership-inference attacks, the full Bayesian
posterior of epsilon together with the strength of the attacks.  And before that: training the models
that attacks need, and counting the errors of attacks on their losses.

>>> import epsilometer as em
>>> counts = em.AttackCounts(
...     false_positives=[40], trials_h0=100, false_negatives=[40], trials_h1=100
... )
>>> posterior = em.estimate(counts, em.AuditModel(delta=0.01))
>>> low, high = posterior.credible_interval("epsilon", 0.9)

Names are imported on first use, so that importing the package is quick.
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path


def _names() -> tuple[dict[str, str], dict[str, str]]:
    """Read ``__init__.pyi``: the module of every public name, and the new name of every renamed one."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    homes, renamed = {}, {}
    for line in stub.body:
        if isinstance(line, ast.ImportFrom):
            homes.update({each.name: str(line.module) for each in line.names})
        elif isinstance(line, ast.Assign):
            old, new = line.targets[0], line.value
            assert isinstance(old, ast.Name)
            assert isinstance(new, ast.Name)
            renamed[old.id] = new.id
    return homes, renamed


_HOMES, _RENAMED = _names()
__all__ = sorted(_HOMES)  # noqa: PLE0605 (a list, if not a literal one)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("epsilometer")
    if name in _RENAMED:
        from warnings import warn

        new = _RENAMED[name]
        message = (
            f"epsilometer.{name} is deprecated and will be removed in 0.3: use epsilometer.{new}."
        )
        warn(message, DeprecationWarning, stacklevel=2)
        name = new
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'epsilometer' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return __all__
