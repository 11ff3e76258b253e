"""Sphinx builds the docs; `nox -s docs` makes every warning an error."""

from importlib.metadata import version as installed_version
from pathlib import Path

project = "trio_tools"
copyright = "the trio_tools maintainers"
author = "the trio_tools maintainers"
version = release = installed_version("trio-tools")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "vectors/README.md"]
nitpicky = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
# The reference is about what the names promise; their types stand in the signature.
autodoc_default_options = {"members": True, "undoc-members": False}

html_theme = "furo"
html_title = "trio_tools"
html_static_path = ["_static"] if (Path(__file__).parent / "_static").exists() else []
