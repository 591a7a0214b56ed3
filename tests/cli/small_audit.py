"""Audits of a few seconds as files: most of an algorithm whose epsilon is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np

COUNTED = 'model = "count"\nlikelihood = "binomial"\ndelta = {delta}'


def clipped(noise: float, records: int) -> str:
    """The mean with noise, as the table [algorithm] names it."""
    return f'object = "clipped-mean"\noptions = {{ noise = {noise}, records = {records} }}'


def audit_text(audit: str, algorithm: str, estimate: str, source: str = "directions") -> str:
    """The text of an audit's file."""
    population = f'[population]\nsource = "{source}"\n'
    return f"{population}[audit]\n{audit}\nseed = 1\n[algorithm]\n{algorithm}\n[estimate]\n{estimate}\n"


AUDIT = audit_text(
    "challenge_bases = 3\nreplicates = 20\ndataset_size = 49",
    clipped(0.02, 50) + "\n[attack]\ntarget_alpha = 0.1",
    COUNTED.format(delta=0.1),
)


def edited(config: Path, old: str, new: str) -> Path:
    """The file with other text."""
    assert old in config.read_text()
    config.write_text(config.read_text().replace(old, new))
    return config


def own_audit(folder: Path, name: str, code: str, sizes: tuple[int, int] = (2, 6)) -> str:
    """The file of an audit of one's own code, in a module whose name no other test uses."""
    (folder / f"{name}.py").write_text(code, encoding="utf-8")
    audit = "challenge_bases = {}\nreplicates = {}\ndataset_size = 20".format(*sizes)
    text = audit_text(audit, f'object = "{name}:algorithm"', COUNTED.format(delta=0.01))
    (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    return str(folder / f"{name}.toml")


def write_records(folder: Path) -> None:
    """A small population of directions: quickly read, again and again."""
    rows = np.random.default_rng(1).standard_normal((200, 64))
    np.savez(folder / "records.npz", features=rows / np.linalg.norm(rows, axis=1, keepdims=True))
