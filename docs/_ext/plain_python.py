"""Readings of our docstrings and signatures that Sphinx would get wrong.

Bars are absolute values, ``|rho|``, never substitutions.  A property's docstring is a sentence, where
napoleon takes what stands before a colon for a type.  And signatures are shown as somebody would write
them.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

SENTENCES = {"property", "attribute", "data"}
BEFORE_NAPOLEON, AFTER_NAPOLEON = 400, 600
"""Napoleon listens at 500."""

_BARS = re.compile(r"(?<![\\|`])\|(?=\w+\|)(\w+)\|")
_kept: dict[str, list[str]] = {}


def take(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Escape bars, and keep sentences away from napoleon."""
    lines[:] = [_BARS.sub(r"\\|\1\\|", line) for line in lines]
    if what in SENTENCES:
        _kept[name] = list(lines)
        lines.clear()


def give_back(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Put sentences where they were."""
    if what in SENTENCES:
        lines[:] = _kept.pop(name)


def written(text: str | None) -> str | None:
    """A signature or annotation without what only machines write.

    Examples
    --------
    >>> written("(x: TypeAliasForwardRef('ArrayLike'), y: ~typing.Any = <factory>)")
    '(x: ArrayLike, y: Any = ...)'
    """
    if text is None:
        return None
    text = re.sub(r"~?\b(?:\w+\.)*TypeAliasForwardRef\('(\w+)'\)", r"\1", text)
    return re.sub(r"~(?:\w+\.)+(?=\w)", "", text).replace("<factory>", "...")


def sign(
    app: Sphinx,
    what: str,
    name: str,
    obj: Any,
    options: Any,
    signature: str | None,
    annotation: str | None,
) -> tuple[str | None, str | None]:
    """Signatures as somebody would write them."""
    return written(signature), written(annotation)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Stand before and behind napoleon."""
    app.connect("autodoc-process-signature", sign)
    app.connect("autodoc-process-docstring", take, priority=BEFORE_NAPOLEON)
    app.connect("autodoc-process-docstring", give_back, priority=AFTER_NAPOLEON)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
