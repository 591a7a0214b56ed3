"""The scripts and extensions of the site, which are no package, as modules."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
EXTENSIONS = sorted(path.stem for path in (DOCS / "_ext").glob("*.py"))


@cache
def script(name: str) -> ModuleType:
    """``NAME.py`` of the folders ``docs``, ``docs/_ext`` and ``benchmarks``."""
    folders = (DOCS, DOCS / "_ext", ROOT / "benchmarks")
    path = next(place for folder in folders if (place := folder / f"{name}.py").exists())
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
