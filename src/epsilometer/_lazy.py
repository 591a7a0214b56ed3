"""Public names that are imported on first use, as listed in the stub file beside a module."""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path


def public_names(
    module: str, file: str
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a module, from its stub file.

    Names and their modules are then listed once, for type checkers and at run time.  Submodules, which
    the stub imports as ``import package.module as module``, are found too.
    """
    homes: dict[str, str] = {}
    submodules: dict[str, str] = {}
    for line in ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8")).body:
        if isinstance(line, ast.ImportFrom):
            homes.update({alias.name: str(line.module) for alias in line.names})
        elif isinstance(line, ast.Import):
            submodules.update({str(alias.asname): alias.name for alias in line.names})

    def read(name: str) -> object:
        if name in submodules:
            return import_module(submodules[name])
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(import_module(home), name)

    names = sorted({*homes, *submodules})
    return read, lambda: names, sorted(homes)
