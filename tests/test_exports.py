"""What is public: each face's `__all__` against what it holds, and the names that are promised."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path
from types import ModuleType

import pytest

import trio_tools

PACKAGE = Path(trio_tools.__file__).parent
# Houses whose packages come with an extra; the tests install them all.
HOUSES = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py") if path.parent.name != "cli")
FACES = ["trio_tools", *(f"trio_tools.{house}" for house in HOUSES)]

PROMISED = {
    "lifetimes": ["CallScope", "CancelCause", "CauseKind", "ScopeView", "open_call_scope"],
    "calls": ["DispatchExecution", "ExecutionToken", "ToolCall", "ToolContext", "ToolExecution"],
    "tools": ["Effect", "JsonSchema", "Tool", "tool"],
    "registry": [
        "BatchPolicy",
        "Layer",
        "Registration",
        "Registry",
        "RegistryStatistics",
        "enforce_timeouts",
    ],
    "hooks": ["Approver", "Gate", "Guard", "Observer", "Reviewer", "Wrapper"],
    "decisions": ["Accept", "Allow", "Approval", "Ask", "Block", "Deny", "GateDecision", "ReviewDecision"],
    "results": ["Content", "ImageContent", "JsonValue", "Settlement", "TextContent", "ToolFailure"],
    "outcomes": ["ToolOutcome", "ToolResult"],
    "side channels": ["Artifact", "ArtifactType", "Bounds", "WriteKind", "WriteTarget"],
    "errors": ["DefinitionError", "RegistrationError", "ToolError", "TransportError"],
    "codes": ["TOOL_ABORTED", "TOOL_ABORTED_BEFORE_DISPATCH"],
}


def exported(module: ModuleType) -> list[str]:
    return list(module.__all__)


@pytest.mark.parametrize("name", [name for names in PROMISED.values() for name in names])
def test_the_face_has_every_name_that_is_promised(name: str) -> None:
    assert name in exported(trio_tools)
    assert hasattr(trio_tools, name)


@pytest.mark.parametrize("face", FACES)
def test_a_face_exports_exactly_what_it_imports(face: str) -> None:
    module = importlib.import_module(face)
    tree = ast.parse(inspect.getsource(module))
    bound: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            bound |= {alias.asname or alias.name for alias in node.names}
    public = {name for name in bound if not name.startswith("_")}

    assert sorted(exported(module)) == sorted(public)


@pytest.mark.parametrize("face", FACES)
def test_a_face_defines_nothing_itself(face: str) -> None:
    tree = ast.parse(inspect.getsource(importlib.import_module(face)))
    defined = [
        ast.unparse(node).splitlines()[0]
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]

    assert defined == []


@pytest.mark.parametrize("face", FACES)
def test_every_public_name_has_a_docstring(face: str) -> None:
    module = importlib.import_module(face)
    silent: list[str] = []
    for name in exported(module):
        value = getattr(module, name)
        if not (inspect.isclass(value) or inspect.isroutine(value)):
            continue
        if not own_docstring(value):
            silent.append(name)
        if inspect.isclass(value):
            silent += [f"{name}.{member}" for member in silent_members(value)]

    assert silent == []


def own_docstring(value: object) -> str:
    text = vars(value).get("__doc__") if inspect.isclass(value) else getattr(value, "__doc__", None)
    return text or ""


def silent_members(cls: type) -> list[str]:
    """Name the public methods and properties of the package's own class that say nothing."""
    silent: list[str] = []
    members: dict[str, object] = dict(vars(cls))
    for name, member in members.items():
        if name.startswith("_") or not is_described(member):
            continue
        function: object = getattr(member, "__func__", member)
        if not inspect.getdoc(function):
            silent.append(name)
    return silent


def is_described(member: object) -> bool:
    return inspect.isroutine(member) or isinstance(member, property | classmethod | staticmethod)


def test_private_modules_name_what_they_define() -> None:
    """A module's `__all__` holds only names that it binds, each once."""
    wrong: list[str] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"):
                continue
            names: list[str] = ast.literal_eval(node.value)
            module = importlib.import_module(
                ".".join(("trio_tools", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(
                    ".__init__"
                )
            )
            wrong += [f"{module.__name__}.{name}" for name in names if not hasattr(module, name)]
            if len(names) != len(set(names)):
                wrong.append(f"{module.__name__}.__all__ names something twice")

    assert wrong == []
