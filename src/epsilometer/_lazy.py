"""Public names that are imported on first use, as listed in the stub file beside a module."""

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path


def public_names(
    module: str, file: str
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a module, from its stub file.

    Names and their modules are then listed once, for type checkers and at run time.  Submodules, which
    the stub imports as ``from package import module as module``, are found too.
    """
    homes: dict[str, str] = {}
    submodules: dict[str, str] = {}
    for line in ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8")).body:
        if isinstance(line, ast.ImportFrom):
            names = [alias.name for alias in line.names]
            if line.module == module:
                submodules.update({name: f"{module}.{name}" for name in names})
            else:
                homes.update(dict.fromkeys(names, str(line.module)))

    def read(name: str) -> object:
        if name in submodules:
            return import_module(submodules[name])
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(import_module(home), name)

    everything = sorted({*homes, *submodules})
    return read, lambda: everything, sorted(homes)
