"""Fix docstrings and signatures that Sphinx would misread.

Bars are absolute values, ``|rho|``, never substitutions.  A property's docstring is a sentence, but
napoleon reads the words before a colon as a type.  Signatures are shown as a person would write them.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

SENTENCES = {"property", "attribute", "data"}
#: Napoleon's priority is 500.
BEFORE_NAPOLEON, AFTER_NAPOLEON = 400, 600

_BARS = re.compile(r"(?<![\\|`])\|(?=\w+\|)(\w+)\|")
_kept: dict[str, list[str]] = {}


def take(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Escape bars, and hide sentences from napoleon."""
    lines[:] = [_BARS.sub(r"\\|\1\\|", line) for line in lines]
    if what in SENTENCES:
        _kept[name] = list(lines)
        lines.clear()


def give_back(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Restore the hidden sentences."""
    if what in SENTENCES:
        lines[:] = _kept.pop(name)


def written(text: str | None) -> str | None:
    """A signature or annotation as a person would write it.

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
    """Rewrite a signature and its annotation."""
    return written(signature), written(annotation)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the hooks before and after napoleon."""
    app.connect("autodoc-process-signature", sign)
    app.connect("autodoc-process-docstring", take, priority=BEFORE_NAPOLEON)
    app.connect("autodoc-process-docstring", give_back, priority=AFTER_NAPOLEON)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
