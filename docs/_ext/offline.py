"""Warn about pages that load external resources; with ``-W`` the build then fails."""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.typing import ExtensionMetadata

_TAGS = re.compile(
    r"<(?:script|img|iframe|source|video|audio|embed|object|link)\b[^>]*?"
    r"\b(?:src|srcset|href|data)\s*=\s*[\"']?((?:https?:)?//[^\"'\s>]+)",
    re.IGNORECASE,
)
_STYLES = re.compile(
    r"(?:@import\s+|url\()\s*[\"']?((?:https?:)?//[^\"')\s]+)", flags=re.IGNORECASE
)


def fetched(text: str) -> list[str]:
    """External addresses that a page or a style sheet loads; plain links do not count.

    Examples
    --------
    >>> fetched('<a href="https://a.example/">a</a> <script src="//b.example/x.js"></script>')
    ['//b.example/x.js']
    """
    return [*_TAGS.findall(text), *_STYLES.findall(text)]


def check(app: Sphinx, exception: Exception | None) -> None:
    """Check every built file."""
    if exception is not None or app.builder.name != "html":
        return
    for path in sorted(Path(app.outdir).rglob("*")):
        if path.suffix in {".html", ".css"}:
            for address in fetched(path.read_text(encoding="utf-8")):
                logging.getLogger(__name__).warning("%s would fetch %s", path.name, address)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Run the check at the end of the build."""
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
