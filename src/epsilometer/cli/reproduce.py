"""``epsilometer reproduce``: the paper's figures and table, from the scripts in ``reproduction/``.

The scripts use the public interface only.  They are installed next to the package; in a checkout they
are at its top.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

from epsilometer import _files, _validate
from epsilometer.cli import outputs, results
from epsilometer.cli.options import argument, flag, option
from epsilometer.errors import InputError

NAMES = ("figure2", "figure3", "figure4", "figure5", "figure6", "table1", "traces")
PACKAGE = "epsilometer_reproduction"


def reproduce(
    names: list[str] | None = argument("NAME", f"{', '.join(NAMES)}. Default: all.", default=None),
    output: Path = option(
        "DIR", "Folder for figures, tables and numbers.", default=Path("reproduced")
    ),
    engine: str = option(
        None, "exact, or published: the sampler with the paper's settings (slow).", default="exact"
    ),
    train: bool = flag(
        "Train the 8,000 networks on MNIST instead of using the included losses: hours; an "
        "interrupted run continues.",
        "--train",
    ),
) -> int:
    """Reproduce the figures and the table of the paper."""
    wanted = list(dict.fromkeys(names or NAMES))
    for name in wanted:
        _validate.one_of("name", name, NAMES)
    outputs.check_folder(output)
    package()
    workshop = import_module(f"{PACKAGE}.workshop")
    audits = import_module(f"{PACKAGE}.audits")
    _validate.one_of("engine", engine, workshop.ENGINES)
    losses = None
    if train:
        losses = output / "experiment"
        audits.train(losses, say=results.warn)
    shop = workshop.Workshop(output, engine=engine, losses=losses, say=results.warn)
    for name in wanted:
        import_module(f"{PACKAGE}.{name}.make").make(shop)
    results.say(f"Made {', '.join(wanted)} in {_files.printable(output)}\n")
    return 0


def package() -> ModuleType:
    """The scripts as a package: those of the checkout, or the installed ones.

    The checkout comes first: an editable install has a copy from the day it was installed.
    """
    if PACKAGE in sys.modules:
        return sys.modules[PACKAGE]
    folder = Path(__file__).resolve().parents[3] / "reproduction"
    if not (folder / "__init__.py").is_file():
        if importlib.util.find_spec(PACKAGE) is None:
            raise InputError(
                "the scripts of the reproduction are not installed with this Epsilometer."
            )
        return import_module(PACKAGE)
    spec = importlib.util.spec_from_file_location(
        PACKAGE, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = module
    spec.loader.exec_module(module)
    return module
