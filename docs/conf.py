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
# A name in single backticks is a name of this package where there is one, and literal text elsewhere.
default_role = "py:obj"
exclude_patterns = ["_build", "vectors/README.md"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
# "Attributes:" becomes fields of the class, which autodoc then does not list a second time.
napoleon_use_ivar = True
napoleon_attr_annotations = False
autodoc_typehints_format = "short"

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


def trim_literals(
    _app: Sphinx, _what: str, _name: str, _obj: object, _options: object, lines: list[str]
) -> None:
    """Let a docstring write a literal that ends in a space, for which reStructuredText has no way."""
    lines[:] = [re.sub(r"``(.+?)``", lambda literal: f"``{literal[1].strip()}``", line) for line in lines]


MADE_BY_THE_REGISTRY = {
    "ScopeView",
    "ToolExecution",
    "DispatchExecution",
    "ToolContext",
    "Layer",
    "LayerView",
    "Registration",
    "Progress",
    "RegistryStatistics",
    "CallStatistics",
    "Tool",
    "FunctionTool",
}
JSON_VALUE = "None | bool | int | float | str | list[JsonValue] | dict[str, JsonValue]"


def name_json(*event: object) -> tuple[str, str] | None:
    """Show the type of JSON values by its name, and no constructor that nobody calls."""
    _, _, name, _, _, signature, returns = event
    if str(name).removeprefix("trio_tools.") in MADE_BY_THE_REGISTRY:
        return "", ""
    if not isinstance(signature, str):
        return None
    shown = [signature, str(returns or "")]
    while any(JSON_VALUE in text for text in shown):  # the type is spelled out twice, one within the other
        shown = [text.replace(JSON_VALUE, "JsonValue") for text in shown]
    return shown[0], shown[1]


def skip_internal(
    _app: Sphinx, _what: str, _name: str, member: object, _skip: bool, _options: object
) -> bool | None:
    return True if "(internal)" in (getattr(member, "__doc__", None) or "") else None


def setup(app: Sphinx) -> None:
    app.connect("autodoc-skip-member", skip_internal)
    app.connect("autodoc-process-signature", name_json)
    app.connect("autodoc-process-docstring", trim_literals)
    app.connect("doctree-read", give_each_rule_an_anchor)
    app.connect("doctree-resolved", link_each_rule)
