"""Optional libraries: loaded where they are used, or an error that says how to get them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from epsilometer.errors import InputError


def load(module: str, need: str, extra: str, *, instead: str = "") -> Any:
    """A module of an optional library; ``need`` says what for, ``instead`` what else would do."""
    try:
        return import_module(module)
    except ImportError:
        raise InputError(f"{need}: pip install 'epsilometer[{extra}]'{instead}.") from None
