"""Optional libraries: imported where they are used, or an error that says how to install them."""

import re
import shlex
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires
from typing import Any

from epsilometer.errors import InputError

_REQUIREMENT = re.compile(
    r"""(?P<package>[^;]+?)\s*;\s*extra\s*==\s*['"](?P<extra>[\w-]+)['"]\s*"""
)

#: The extra that installs a module.
EXTRAS = {
    "dask": "dask",
    "distributed": "dask",
    "opacus": "torch",
    "pyarrow": "parquet",
    "sklearn": "sklearn",
    "torch": "torch",
}


def load(module: str, need: str, extra: str, *, instead: str = "") -> Any:
    """Import a module of an optional library.

    ``need`` begins the error message if it is not installed, and ``instead`` ends it.
    """
    try:
        return import_module(module)
    except ImportError:
        raise InputError(f"{need}: {advice(extra, module)}{instead}.") from None


def advice(extra: str, module: str) -> str:
    """The command that installs the packages of an extra, by their own names.

    It works wherever Epsilometer was installed from: a checkout, a wheel or an index.
    """
    packages = packages_of(extra) or [module.partition(".")[0]]
    return f"pip install {' '.join(map(shlex.quote, packages))}"


def advice_for(module: str | None) -> str | None:
    """The command that installs a library of one of the extras, by its module; None for others.

    Examples
    --------
    >>> advice_for("pyarrow.parquet")
    "pip install 'pyarrow>=18'"
    """
    extra = EXTRAS.get((module or "").partition(".")[0])
    return None if extra is None or module is None else advice(extra, module)


def packages_of(extra: str) -> list[str]:
    """The requirements of an extra, as the installed metadata lists them.

    Examples
    --------
    >>> packages_of("parquet")
    ['pyarrow>=18']
    """
    try:
        listed = requires("epsilometer") or []
    except PackageNotFoundError:  # imported from a source folder
        return []
    matches = (_REQUIREMENT.fullmatch(line) for line in listed)
    return [match["package"] for match in matches if match and match["extra"] == extra]
