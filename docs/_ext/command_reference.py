"""The directive ``command-reference``: help of every command, read from the program at build time.

It is not stored anywhere else, so it cannot become outdated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

PROGRAM = "epsilometer"

#: Context class of the command-line library, which does not export it.
Context = Any


def commands() -> Iterator[tuple[Context, Any]]:
    """Every command with its context; subcommands follow their group."""
    import typer

    from epsilometer.cli.main import app

    root = typer.main.get_command(app)
    yield from _with_children(root.context_class(root, info_name=PROGRAM), root)


def _with_children(context: Context, command: Any) -> Iterator[tuple[Context, Any]]:
    yield context, command
    for name, child in getattr(command, "commands", {}).items():
        yield from _with_children(type(context)(child, info_name=name, parent=context), child)


class CommandReference(SphinxDirective):
    """One section per command: description, usage, arguments and options."""

    def run(self) -> list[nodes.Node]:
        """Create the sections."""
        return [self._section(context, command) for context, command in commands()]

    def _section(self, context: Context, command: Any) -> nodes.section:
        path = context.command_path
        section = nodes.section(ids=[path.replace(" ", "-")], names=[path])
        section += nodes.title("", "", nodes.literal("", path))
        section += nodes.paragraph("", "", *_worded(" ".join((command.help or "").split())))
        usage = " ".join([path, *command.collect_usage_pieces(context)])
        block = nodes.literal_block(usage, usage)
        block["language"] = "text"
        section += block
        children = [f"{path} {name}" for name in getattr(command, "commands", {})]
        if children:
            section += nodes.paragraph("", "", nodes.Text("Commands: "), *_links(children))
        records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
        listed = nodes.definition_list(classes=["options"])
        for names, text in filter(None, records):
            term = nodes.term("", "", nodes.literal("", names))
            listed += nodes.definition_list_item(
                "", term, nodes.definition("", nodes.paragraph("", "", *_worded(text)))
            )
        if listed.children:
            section += listed
        self.state.document.note_explicit_target(section)
        return section


def _worded(text: str) -> Iterator[nodes.Node]:
    """Help text with backticked parts as code."""
    for number, part in enumerate(text.split("`")):
        yield nodes.literal("", part) if number % 2 else nodes.Text(part)


def _links(paths: list[str]) -> Iterator[nodes.Node]:
    for number, path in enumerate(paths):
        if number:
            yield nodes.Text(", ")
        text = nodes.literal("", path)
        yield nodes.reference("", "", text, refid=path.replace(" ", "-"), internal=True)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("command-reference", CommandReference)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
