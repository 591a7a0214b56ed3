"""Notebooks as pages: the cells of an ``.ipynb`` with the outputs that it holds.  Nothing is executed.

A notebook becomes one text of Markdown, which the parser of all other pages reads.
"""

from __future__ import annotations

import html
import json
from typing import Any

from docutils import nodes
from myst_parser.parsers.sphinx_ import MystParser
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

#: Longer than any fence inside of a cell.
FENCE = "`" * 6


class NotebookParser(MystParser):
    """Reads a notebook as a page of Markdown."""

    supported = ("notebook",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Parse the notebook's cells and outputs."""
        super().parse(to_markdown(json.loads(inputstring)), document)


def to_markdown(notebook: dict[str, Any]) -> str:
    """Cells one after the other, each with its outputs."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif cell["cell_type"] == "code":
            parts.append(f"{FENCE}python\n{source}\n{FENCE}")
            parts += [text for output in cell["outputs"] if (text := _output(output))]
    return "\n\n".join(parts) + "\n"


def _output(output: dict[str, Any]) -> str:
    """An output as Markdown; the richest form that it has."""
    if output["output_type"] == "stream":
        return _text("".join(output["text"]))
    if output["output_type"] == "error":
        return _text(f"{output['ename']}: {output['evalue']}")
    data = output["data"]
    if "text/html" in data:
        return _raw("".join(data["text/html"]))
    if "image/png" in data:
        pixels = "".join(data["image/png"]).replace("\n", "")
        said = html.escape("".join(data.get("text/plain", "figure")))
        return _raw(f'<img alt="{said}" src="data:image/png;base64,{pixels}">')
    return _text("".join(data.get("text/plain", "")))


def _text(text: str) -> str:
    return f"{FENCE}text\n{text.rstrip()}\n{FENCE}" if text.strip() else ""


def _raw(page: str) -> str:
    if not page.strip():
        return ""
    return f'{FENCE}{{raw}} html\n<div class="notebook-output">{page}</div>\n{FENCE}'


def setup(app: Sphinx) -> ExtensionMetadata:
    """Let pages be notebooks."""
    app.add_source_suffix(".ipynb", "notebook")
    app.add_source_parser(NotebookParser)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
