"""Which of the user's files a piece of code depends on, and their hashes.

Imports are found by parsing the files rather than by inspecting loaded modules, so the result does not
depend on what else a program has imported.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path


def source_digests(file: Path) -> dict[str, str]:
    """SHA-256, by name, of a file and of all files it imports from its own folder or package.

    Empty for installed packages, which are identified by their versions.
    """
    start = file.resolve()
    if "site-packages" in start.parts or "dist-packages" in start.parts:
        return {}
    root = start.parent
    while (root / "__init__.py").is_file():
        root = root.parent
    digests: dict[str, str] = {}
    waiting = [start]
    while waiting:
        path = waiting.pop()
        name = path.relative_to(root).as_posix()
        if name in digests:
            continue
        text = path.read_bytes()
        digests[name] = hashlib.sha256(text).hexdigest()
        packages = [parent / "__init__.py" for parent in path.parents if root in parent.parents]
        found = [*packages, *_imported(text, path, root)]
        waiting += [other for other in found if other.is_file()]
    return digests


def _imported(text: bytes, path: Path, root: Path) -> Iterator[Path]:
    """Files that a file may import, whether or not they exist."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files(root, alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = root
            if node.level:
                base = path.parents[min(node.level, len(path.parents)) - 1]
                if not base.is_relative_to(root):
                    continue
            module = node.module or ""
            yield from _files(base, module)
            for alias in node.names:
                yield from _files(base, f"{module}.{alias.name}" if module else alias.name)


def _files(base: Path, module: str) -> Iterator[Path]:
    """The file of a module, and the packages that contain it."""
    place = base
    for part in module.split(".") if module else []:
        place = place / part
        yield place.with_name(f"{part}.py")
        yield place / "__init__.py"
