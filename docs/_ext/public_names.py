"""Resolve annotations to the public names under which classes are documented.

Annotations name ``epsilometer.model.counts.AttackCounts``; the reference documents
``epsilometer.AttackCounts``, and ``epsilometer.families.Gaussian`` in a submodule.  Private and
third-party types are shown without a link.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.typing import ExtensionMetadata

PACKAGE = "epsilometer"


@cache
def public() -> dict[str, tuple[str, ...]]:
    """The public names of each public module: the package, and the submodules that its stub imports.

    Examples
    --------
    >>> "Scores" in public()["epsilometer"], "Gaussian" in public()["epsilometer.families"]
    (True, True)
    """
    package = import_module(PACKAGE)
    names = {PACKAGE: tuple(package.__all__)}
    for name in sorted(set(dir(package)) - set(package.__all__)):
        module = import_module(f"{PACKAGE}.{name}")
        defined = [key for key, value in vars(module).items() if _is_defined_in(value, module)]
        names[module.__name__] = tuple(getattr(module, "__all__", defined))
    return names


def _is_defined_in(value: object, module: object) -> bool:
    return getattr(value, "__module__", None) == getattr(module, "__name__", "")


def find(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, contents: nodes.TextElement
) -> nodes.reference | nodes.TextElement | None:
    """Resolve a reference that Sphinx could not resolve."""
    if node.get("refdomain") != "py":
        return None
    target = str(node["reftarget"])
    name = target.rpartition(".")[2]
    objects = env.domains.python_domain.objects
    local = name if target.startswith(f"{PACKAGE}.") else target  # such as Scores, or Scores.read
    places = (objects.get(f"{module}.{local}") for module in public())
    documented = next((place for place in places if place is not None), None)
    if documented is None:
        # Annotations have no place, and name anything; what somebody wrote must be right.
        place = node.source
        return contents if place is None or is_there(target) or is_defined(name, place) else None
    here = node.get("refdoc", env.docname)
    uri = app.builder.get_relative_uri(here, documented.docname) + "#" + documented.node_id
    return nodes.reference("", "", contents, internal=True, refuri=uri)


def is_there(target: str) -> bool:
    """Whether a full name of this package can be imported.

    Examples
    --------
    >>> is_there("epsilometer.engines.exact.engine.estimate_exact"), is_there("epsilometer.exact.no")
    (True, False)
    """
    home, _, name = target.rpartition(".")
    if not home.startswith(PACKAGE):
        return False
    try:
        return hasattr(import_module(home), name)
    except ImportError:
        return False


def is_defined(name: str, place: str) -> bool:
    """Whether the module of a docstring defines a name, public or not."""
    path, _, rest = place.partition(":docstring of ")
    if not rest:
        return False
    text = Path(path).read_text(encoding="utf-8")
    return re.search(rf"^(?:(?:def|class) )?{re.escape(name)}\b", text, flags=re.M) is not None


def setup(app: Sphinx) -> ExtensionMetadata:
    """Answer what is left over."""
    app.connect("missing-reference", find)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
