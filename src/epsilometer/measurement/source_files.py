"""Which of the user's files a piece of code depends on, and their hashes.

Imports are found by parsing the files rather than by inspecting loaded modules, so the result does not
depend on what else a program has imported.
"""

import ast
import hashlib
import warnings
from collections.abc import Iterator
from pathlib import Path

#: What a digest is of.
SYNTAX, BYTES = "syntax:", "bytes:"


def source_digest(text: bytes) -> str:
    """The digest of Python code.

    It is that of the syntax tree without positions and docstrings, so that comments, docstrings
    and formatting do not change it.  Code that does not parse is hashed as it is.  So are docstrings
    in code that may read them.
    """
    tree = _parsed(text)
    if tree is None:
        return BYTES + hashlib.sha256(text).hexdigest()
    if b"__doc__" not in text and b"getdoc" not in text:
        _remove_docstrings(tree)
    return SYNTAX + hashlib.sha256("\n".join(_tokens(tree)).encode("ascii")).hexdigest()


def source_digests(file: Path) -> dict[str, str]:
    """Digests, by name, of a file and of all files it imports from its own folder or package.

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
        digests[name] = source_digest(text)
        packages = [parent / "__init__.py" for parent in path.parents if root in parent.parents]
        waiting += [other for other in (*packages, *_imported(text, path, root)) if other.is_file()]
    return digests


def _parsed(text: bytes) -> ast.Module | None:
    """The syntax tree; None if there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a digest must not depend on how warnings are treated
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _remove_docstrings(tree: ast.Module) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            match node.body:
                case [ast.Expr(value=ast.Constant(value=str())), *rest]:
                    node.body = rest


def _tokens(tree: ast.AST) -> Iterator[str]:
    """A syntax tree in words that no two different trees share.

    Not ``ast.dump``, whose text differs between versions of Python, which would void every store.  New
    versions add fields, which are empty in code that does not use them: empty fields are left out.
    Whatever else a version may change is taken for a change of the code, never for equal code.  The
    tree is walked without recursion: long expressions are nested deeply.
    """
    waiting: list[ast.AST | str] = [tree]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
            continue
        parts: list[ast.AST | str] = [type(item).__name__]
        for name, value in ast.iter_fields(item):
            values = value if isinstance(value, list) else [value]
            constant = isinstance(item, ast.Constant) and name == "value"
            if isinstance(item, ast.JoinedStr):  # Python 3.12.0 and 3.12.1 add empty texts
                values = [v for v in values if getattr(v, "value", None) != ""]
            if not constant and (values in ([], [None]) or name in ("ctx", "kind")):
                continue  # whether a name is read or set is where it stands; kind is u in u"text"
            parts += [name, *(v if isinstance(v, ast.AST) else _literal(v) for v in values), "end"]
        waiting += reversed([*parts, "end"])


def _literal(value: object) -> str:
    """A constant or an identifier; hexadecimal, since decimals of very large numbers are refused."""
    return hex(value) if type(value) is int else ascii(value)


def _imported(text: bytes, path: Path, root: Path) -> Iterator[Path]:
    """Files that a file may import, whether or not they exist."""
    for node in ast.walk(_parsed(text) or ast.Module([], [])):
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
