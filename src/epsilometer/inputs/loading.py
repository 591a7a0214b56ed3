"""Objects by name, ``module:attribute``, as configurations and options give them.

Naming an object runs the module that holds it: this is how a user's own training code gets in, and
the only way a configuration can make code run.
"""

from __future__ import annotations

import difflib
import re
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epsilometer import _extras
from epsilometer.errors import InputError

if TYPE_CHECKING:
    from epsilometer.attacks.statistics import Statistic

_OBJECT = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)

# What a user's module may raise while it is imported; listed, so that a stop or an interrupt is not.
RAISED = (
    *(ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError),
    *(OSError, RuntimeError, SyntaxError, TypeError, ValueError),
)


def load_object(spec: str, *, folder: Path, place: str) -> Any:
    """The object that ``my_training:algorithm`` names; modules in ``folder`` can be imported.

    ``place`` is where the name was given, for error messages.
    """
    if not _OBJECT.fullmatch(spec):
        raise InputError(f"{place}: expected module:attribute, got {spec!r}.")
    module_name, _, attribute = spec.partition(":")
    _come_home(folder)
    failure = f"{place}: cannot import {module_name} with {folder} on the path"
    target = run_user_code(failure, import_module, module_name)
    _send_code_from(folder)
    for part in attribute.split("."):
        if not hasattr(target, part):
            public = [name for name in dir(target) if not name.startswith("_")]
            near = difflib.get_close_matches(part, public, 1)
            hint = f"; did you mean {near[0]}?" if near else "."
            raise InputError(f"{place}: {module_name} has no {attribute}{hint}")
        target = getattr(target, part)
    return target


#: Folders whose modules were imported by name.
_homes: set[str] = set()


def _come_home(folder: Path) -> None:
    """Put a folder first on the path, and forget namesakes of its modules from earlier folders.

    Otherwise the second of two audits in one process would silently train with the first one's
    ``training.py``.
    """
    home = str(folder.absolute())
    here = {path.stem for path in folder.glob("*.py")} if folder.is_dir() else set()
    others = {Path(other) for other in _homes - {home}}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name in here and file and Path(file).absolute().parent in others:
            del sys.modules[name]
    if home in _homes and home in sys.path:
        sys.path.remove(home)
    if home not in sys.path or _homes - {home}:
        sys.path.insert(0, home)  # stays: worker processes inherit it
    _homes.add(home)


def statistic_of(name: str, *, folder: Path, place: str) -> Statistic:
    """The statistic of that name, or the user's function ``module:function``."""
    from epsilometer.attacks.statistics import STATISTICS, CustomStatistic

    if name in STATISTICS:
        return STATISTICS[name]
    if ":" not in name:
        raise InputError(
            f"{place}: expected {', '.join(STATISTICS)} or module:function, got {name!r}."
        )
    function = load_object(name, folder=folder, place=place)
    if not callable(function):
        raise InputError(f"{place}: expected a function of losses, got {name!r}.")
    return CustomStatistic(function=function, name=name)


def run_user_code(
    failure: str, function: Callable[..., Any], /, *arguments: Any, **options: Any
) -> Any:
    """What a user's code returns; what it raises becomes one line that begins with ``failure``."""
    try:
        return function(*arguments, **options)
    except RAISED as error:
        raise InputError(f"{failure} ({_reason(error)}).{_install(error)}") from None


def _install(error: BaseException) -> str:
    """How to install a missing library of one of the extras; empty for other errors."""
    if not isinstance(error, ModuleNotFoundError):
        return ""
    command = _extras.advice_for(error.name)
    return "" if command is None else f" To install it: {command}"


def _reason(error: BaseException) -> str:
    text = f"{type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if "importlib" not in frame.filename]
    if isinstance(error, ImportError | InputError) or len(inside) < 2:
        return text
    return f"{text}, {Path(inside[-1].filename).name} line {inside[-1].lineno}"


def _send_code_from(folder: Path) -> None:
    """Modules of the folder go to Dask workers as code: they need not have the folder."""
    from epsilometer.measurement.executors import send_code_of

    home = folder.resolve()
    for name, module in list(sys.modules.items()):
        file = Path(getattr(module, "__file__", None) or "")
        # PyTorch has modules whose file does not exist.
        if name.startswith("epsilometer") or not file.is_file():
            continue
        path = file.resolve()
        if path.parent.is_relative_to(home) and "site-packages" not in path.parts:
            send_code_of(name)
