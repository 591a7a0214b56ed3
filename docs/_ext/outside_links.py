"""Link to Markdown files outside of the site, such as README, as downloads.

In the repository such links work unchanged.
"""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

_LINK = re.compile(r"\]\((\.\.?/[^)\s#]+\.md)\)")


def rewrite(text: str, page: Path, site: Path) -> str:
    """Mark links that leave the site as file links in MyST syntax.

    Examples
    --------
    >>> page, site = Path("/a/docs/how-to/x.md"), Path("/a/docs")
    >>> rewrite("[r](../../README.md) [t](../tutorial.md)", page, site)
    '[r](path:../../README.md) [t](../tutorial.md)'
    """

    def marked(found: re.Match[str]) -> str:
        inside = (page.parent / found[1]).resolve().is_relative_to(site)
        return found[0] if inside else f"](path:{found[1]})"

    return _LINK.sub(marked, text)


def read(app: Sphinx, name: str, content: list[str]) -> None:
    """Rewrite a page before it is parsed."""
    page = Path(app.env.doc2path(name))
    content[0] = rewrite(content[0], page, Path(app.srcdir))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the hook."""
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
