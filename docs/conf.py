"""Sphinx builds the docs; `nox -s docs` makes every warning an error."""

import re
from importlib.metadata import version as installed_version

from docutils import nodes
from sphinx.application import Sphinx

project = "trio_tools"
copyright = "the trio_tools maintainers"
author = "the trio_tools maintainers"
version = release = installed_version("trio-tools")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "vectors/README.md"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
# The reference is about what the names promise; their types stand in the signature.
autodoc_default_options = {"members": True, "undoc-members": False}

html_theme = "furo"
html_title = "trio_tools"
html_static_path = ["_static"]

RULE = re.compile(r"[A-Z]{2}-\d+\Z")


def give_each_rule_an_anchor(app: Sphinx, document: nodes.document) -> None:
    """Make `semantics.html#bo-4` lead to the list item or table row that begins with **BO-4**."""
    if app.env.docname != "semantics":
        return
    for strong in document.findall(nodes.strong):
        place = strong.parent.parent
        if RULE.match(strong.astext()) and isinstance(place, nodes.list_item | nodes.entry):
            place["ids"].append(strong.astext().lower())


def link_each_rule(app: Sphinx, document: nodes.document, page: str) -> None:
    """Make every mention of a rule, on a page or in a docstring, a link to the rule."""
    book = app.builder.get_relative_uri(page, "semantics")
    mentions = [*document.findall(nodes.literal), *document.findall(nodes.title_reference)]
    if page == "semantics":
        return
    for mention in mentions:
        rule = mention.astext()
        if RULE.match(rule) and not isinstance(mention.parent, nodes.reference):
            mention.replace_self(nodes.reference("", rule, refuri=f"{book}#{rule.lower()}", internal=True))


def setup(app: Sphinx) -> None:
    app.connect("doctree-read", give_each_rule_an_anchor)
    app.connect("doctree-resolved", link_each_rule)
