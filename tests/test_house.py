"""What keeps the house simple: its size, one way of imports, no questions about classes."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from epsilometer.errors import InputError
from epsilometer.model import dependence, likelihoods, priors

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "epsilometer"
MODULES = {
    ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in SOURCE.rglob("*.py")
}

#: Priors, likelihoods, dependences and scatters: they say of themselves what others need to know.
MODEL_CLASSES = {
    name
    for module in (priors, likelihoods, dependence)
    for name, kind in inspect.getmembers(module, inspect.isclass)
    if kind.__module__ == module.__name__ and not name.startswith("_")
}

LONGEST, MOST_PARAMETERS = 80, 10

#: Public calls whose settings are flat keywords, each with a default.
FLAT = {
    "auditing/auditing.py:audit",
    "api.py:write_report",
    "planning/plan.py:plan_audit",
    "cli/prove.py:prove",
}


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _imported(path: Path) -> set[str]:
    """Modules of the package that are imported when this one runs, at the top or in a function."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                continue
            if isinstance(child, ast.ImportFrom) and child.module:
                for alias in child.names:
                    whole = f"{child.module}.{alias.name}"
                    found.add(whole if whole in MODULES else child.module)
            elif isinstance(child, ast.Import):
                found.update(alias.name for alias in child.names)
            visit(child)

    visit(_tree(path))
    return found & set(MODULES)


def _cycles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Sets of modules that reach each other, by taking away what imports nothing that is left."""
    left = {name: others - {name} for name, others in graph.items()}
    while True:
        free = {name for name, others in left.items() if not others & set(left)}
        used = {other for others in left.values() for other in others}
        free |= set(left) - used
        if not free:
            return [set(left)] if left else []
        left = {name: others - free for name, others in left.items() if name not in free}


def test_no_import_cycles() -> None:
    assert _cycles({name: _imported(path) for name, path in MODULES.items()}) == []


def test_cycles_are_seen() -> None:
    """Control: also one of several modules with others hanging on it."""
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set(), "e": {"a"}}
    assert _cycles(graph) == [{"a", "b", "c"}]


def _room(module: str) -> str:
    """The folder of a module, however deep; a module beside the folders is a room of its own."""
    parts = module.split(".")[1:]
    inside = len(parts) > 1 and MODULES[module].name != "__init__.py"
    return "/".join(parts[:-1] if inside else parts)


def test_rooms_do_not_import_each_other_both_ways() -> None:
    """Folders within folders too: `engines/exact` is one room, `engines` another."""
    rooms: dict[str, set[str]] = {}
    for name, path in MODULES.items():
        rooms.setdefault(_room(name), set()).update(_room(other) for other in _imported(path))
    assert {"api", "engines", "engines/exact", "report/text", "_arrays"} <= set(rooms)
    assert _cycles(rooms) == []
    # Control: one import back is seen.
    rooms["model"].add("engines/exact")
    assert {"model", "engines/exact"} <= _cycles(rooms)[0]


def _class_questions(path: Path) -> Iterator[str]:
    """Calls of isinstance with a class of the model."""
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id == "isinstance" and len(node.args) == 2:
                names = {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)}
                names |= {n.attr for n in ast.walk(node.args[1]) if isinstance(n, ast.Attribute)}
                for name in sorted(names & MODEL_CLASSES):
                    yield f"{path.relative_to(SOURCE)}:{node.lineno} {name}"


def test_nobody_asks_for_classes_of_the_model() -> None:
    asked = [
        question
        for path in sorted(SOURCE.rglob("*.py"))
        if path.parent.name != "model"
        for question in _class_questions(path)
    ]
    assert asked == []


def test_such_questions_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control."""
    monkeypatch.setattr("tests.test_house.SOURCE", tmp_path)
    path = tmp_path / "asks.py"
    path.write_text("isinstance(a, Fixed)\nisinstance(b, priors.Beta | int)\nisinstance(c, str)\n")
    assert list(_class_questions(path)) == ["asks.py:1 Fixed", "asks.py:2 Beta"]


def _functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.FunctionDef):
                yield f"{path.relative_to(SOURCE).as_posix()}:{node.name}", node


def _compiled(node: ast.FunctionDef) -> bool:
    return any(
        "njit" in ast.dump(each) or "compiled" in ast.dump(each) for each in node.decorator_list
    )


def _command(node: ast.FunctionDef) -> bool:
    """A command of the shell: typer wants its options as flat parameters."""
    return any("command" in ast.dump(each) for each in node.decorator_list)


def _code_lines(node: ast.FunctionDef) -> int:
    """Lines of a function without its docstring and its signature."""
    body = node.body[1:] if ast.get_docstring(node) else node.body
    return (node.end_lineno or 0) - body[0].lineno + 1 if body else 0


def test_no_endless_functions() -> None:
    long = [
        f"{name} has {_code_lines(node)} lines"
        for name, node in _functions()
        if _code_lines(node) > LONGEST and not _compiled(node)
    ]
    assert long == []


def test_no_endless_signatures() -> None:
    wide = []
    for name, node in _functions():
        arguments = node.args
        count = len(arguments.posonlyargs + arguments.args + arguments.kwonlyargs)
        count -= bool(arguments.args and arguments.args[0].arg in ("self", "cls"))
        exempt = _compiled(node) or _command(node) or name in FLAT
        if count > MOST_PARAMETERS and not exempt:
            wide.append(f"{name} has {count} parameters")
    assert wide == []


# --- size: the limits are those that CONTRIBUTING.md states ------------------------------------

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(text: str) -> int:
    """Lines that are neither blank nor a comment nor part of a docstring."""
    lines = {
        number
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    }
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            lines -= set(range(docstring.lineno, (docstring.end_lineno or 0) + 1))
    return len(lines)


def _texts(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*.py"))
    }


def _flat_modules() -> int:
    folders = [path for path in (SOURCE / "engines").rglob("*") if path.is_dir()]
    return max(len([p for p in f.glob("*.py") if p.name != "__init__.py"]) for f in folders)


SIZES: dict[str, Callable[[], int]] = {
    "lines of code in `src/`": lambda: sum(map(code_lines, _texts(SOURCE).values())),
    "lines of code in `tests/`": lambda: sum(map(code_lines, _texts(ROOT / "tests").values())),
    "lines of JavaScript": lambda: sum(
        len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCE.rglob("*.js")
    ),
    "lines of a module": lambda: max(len(t.splitlines()) for t in _texts(SOURCE).values()),
    "modules in a folder of `engines/`": _flat_modules,
    "how-to pages": lambda: len(list((ROOT / "docs" / "how-to").glob("*.md"))),
    "bytes of ARCHITECTURE": lambda: (ROOT / "ARCHITECTURE.md").stat().st_size,
}


def _limits() -> dict[str, int]:
    """What CONTRIBUTING allows, by what is counted."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+?) \| ([\d,]+) \|$", text, re.MULTILINE)
    return {what: int(most.replace(",", "")) for what, most in rows}


def test_every_size_has_a_limit() -> None:
    assert set(_limits()) == set(SIZES)


@pytest.mark.parametrize("what", SIZES)
def test_the_house_keeps_its_size(what: str) -> None:
    size, limit = SIZES[what](), _limits()[what]
    assert size <= limit, f"{size:,} {what}, at most {limit:,}: make room, or argue for more there"


def test_code_is_counted_without_prose() -> None:
    text = (
        '"""Prose\n\nover lines."""\n\n# why\nx = """text\nof code"""\n\n\ndef f():\n    "says"\n'
    )
    assert code_lines(text) == 3


def test_errors_of_two_lines_are_seen() -> None:
    """Control of the fixture that every test has."""
    with pytest.raises(AssertionError, match="two"):
        InputError("two\nlines")
