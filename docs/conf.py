"""Configuration of the site: ``sphinx-build -W --keep-going -b html docs docs/_build``.

Nothing is fetched, neither while building nor while reading.  So there is no intersphinx and no MathJax:
formulas are plain text.  Slow figures are made by ``make_figures.py`` and committed.
"""

from __future__ import annotations

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "Epsilometer"
author = "the Epsilometer authors"
version = release = installed_version("epsilometer")

extensions = [
    "myst_parser",  # Markdown pages
    "sphinx.ext.autodoc",  # reference from docstrings
    "sphinx.ext.napoleon",  # NumPy sections
    "sphinx_copybutton",  # copy buttons
    "command_reference",  # commands, from the program itself
    "plain_python",  # fixes docstrings and signatures for the two above
    "public_names",  # links to public names
    "outside_links",  # links to README and examples
    "notebooks",  # notebooks with their stored outputs
    "offline",  # fails if a page loads external resources
]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

# The other folders hold data of studies.
include_patterns = [
    "*.md",
    "how-to/*.md",
    "explanation/*.md",
    "reference/*.md",
    "notebooks/*.ipynb",
]

nitpicky = True
default_role = "code"  # `x` in a docstring is code
python_use_unqualified_type_names = True
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
autodoc_preserve_defaults = True
# Show annotations as written, not as NumPy expands them.
autodoc_type_aliases = {name: name for name in ("Array", "ArrayLike", "FloatArray")}
maximum_signature_line_length = 70
add_module_names = False
napoleon_google_docstring = False
napoleon_use_ivar = False
napoleon_attr_annotations = False  # types are in the signature
napoleon_use_rtype = False
toc_object_entries_show_parents = "hide"

copybutton_exclude = ".linenos, .gp, .go"

html_theme = "furo"
html_title = "Epsilometer"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_search_summary = False  # needs a server: browsers forbid reading other local pages
html_show_copyright = False
pygments_style = "friendly"
pygments_dark_style = "native"
