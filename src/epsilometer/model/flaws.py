"""What is known against data before they are analysed."""

from __future__ import annotations


def failure_flaws(failed: int) -> tuple[str, ...]:
    """A sentence if models failed: those that remain are a selection."""
    if not failed:
        return ()
    return (
        f"{failed:,} of the models failed and {'is' if failed == 1 else 'are'} missing; if failures "
        "depend on who is in the data, the estimate is biased and proofs may be invalid.",
    )
