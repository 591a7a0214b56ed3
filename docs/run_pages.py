"""Run the code of the pages and refresh the outputs they quote.

    python docs/run_pages.py [PAGE ...]

Without arguments all pages are refreshed; a page is rewritten only if its output changed.  Each page is
run from top to bottom in a temporary folder with a copy of ``examples/``:

- every ``python`` block, all in one namespace;
- ``sh`` blocks under the comment ``<!-- runs -->``;
- a block under ``<!-- file: NAME -->`` is written to that file instead of being run;
- a ``text`` block under ``<!-- output -->`` holds the output of the previous block that was run.

``tests/docs/test_pages.py`` checks the outputs (except times and error estimates, see `comparable`).
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RUNS, OUTPUT, FILE = "runs", "output", "file: "

_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>runs|output|file: [\w./-]+) -->\n)?"
    r"^```(?P<language>[\w{}-]+)\n(?P<text>.*?)^```$",
    flags=re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced block of a page, the mark above it and its position."""

    mark: str
    language: str
    text: str
    start: int
    end: int

    @property
    def step(self) -> tuple[str, str] | None:
        """The action for this block and its argument; None if there is none."""
        if self.mark.startswith(FILE):
            return "file", self.mark.removeprefix(FILE)
        if self.language == "python" or (self.language == "sh" and self.mark == RUNS):
            return self.language, ""
        return None


def pages() -> list[Path]:
    """Every page of the site."""
    found = [path for path in HERE.rglob("*.md") if "_build" not in path.parts]
    return sorted(found)


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    for found in _BLOCK.finditer(text):
        yield Block(
            mark=found["mark"] or "",
            language=found["language"],
            text=found["text"],
            start=found.start("text"),
            end=found.end("text"),
        )


def render(text: str) -> str:
    """Run a page and return it with refreshed outputs."""
    found = list(blocks(text))
    steps = [[*block.step, block.text] for block in found if block.step is not None]
    printed = iter(_run(steps)) if steps else iter(())
    pieces, last, said = [], 0, ""
    for block in found:
        if block.step is not None:
            said = next(printed)
        elif block.mark == OUTPUT:
            pieces += [text[last : block.start], said]
            last = block.end
    return "".join([*pieces, text[last:]])


def comparable(text: str) -> str:
    """A page without the numbers that differ between runs and between processors.

    Examples
    --------
    >>> comparable("estimated error 5.5e-07, tolerance 1e-03 met, 0.78 s")
    'estimated error *, tolerance 1e-03 met, * s'
    """
    text = re.sub(r"\b\d+\.\d+ s\b", "* s", text)
    return re.sub(r"(estimated\s+error)\s+[\d.e+-]+", r"\1 *", text)


def _run(steps: list[list[str]]) -> list[str]:
    """Run the steps in a separate process and folder; return what each of them printed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "page"
        shutil.copytree(ROOT / "examples", folder / "examples")
        answer = Path(name) / "answer.json"
        command = [sys.executable, __file__, "--steps", str(answer)]
        environment = os.environ | {
            "COLUMNS": "80",
            "MPLBACKEND": "Agg",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        }
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            input=json.dumps(steps),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"a block of the page failed.\n{done.stdout}")
        printed: list[str] = json.loads(answer.read_text(encoding="utf-8"))
        return printed


def _do_steps(answer: Path) -> None:
    """Run the steps of a page; executed in the child process."""
    sys.path[0] = str(Path.cwd())  # import files of the page, not those next to this script
    page = types.ModuleType("page")  # classes of the page need a module that can be found
    sys.modules["page"] = page
    printed = []
    for action, argument, text in json.loads(sys.stdin.read()):
        if action == "file":
            Path(argument).parent.mkdir(parents=True, exist_ok=True)
            Path(argument).write_text(text, encoding="utf-8")
            printed.append("")
        elif action == "sh":
            printed.append(_shell(text))
        else:
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(text, "<page>", "exec"), page.__dict__)
            printed.append(out.getvalue())
    answer.write_text(json.dumps(printed), encoding="utf-8")


def _shell(text: str) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"exit code {done.returncode} of:\n{text}\n{done.stdout}")
    return done.stdout


def main(names: list[str]) -> None:
    """Refresh the outputs of the named pages, or of all pages."""
    for path in [Path(name) for name in names] or pages():
        text = path.read_text(encoding="utf-8")
        new = render(text)
        if comparable(new) != comparable(text):
            path.write_text(new, encoding="utf-8")
            sys.stdout.write(f"{path} written\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--steps"]:
        _do_steps(Path(sys.argv[2]))
    else:
        main(sys.argv[1:])
