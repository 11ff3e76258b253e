"""The package is a house of floors, and imports only go down.

`CORE` is the order: a module may import only modules that stand above it in the list, which rules out
cycles as well. Imports that are deferred into a function or made for the type checker alone count like
any other, for they are read by people too. A new module is put into the list by hand, on the floor
where it belongs.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from attrs import frozen

import trio_tools

PACKAGE = Path(trio_tools.__file__).parent

# (floor, module): a module sees what stands above it, and nothing else of the core.
CORE = (
    (1, "_version"),
    (1, "_text"),
    (1, "_errors"),
    (1, "_callables"),
    (1, "_json"),
    (1, "_classification"),
    (2, "_content"),
    (2, "_bounding"),
    (2, "_result"),
    (2, "_violations"),
    (2, "_dialect"),
    (2, "_validator"),
    (2, "_shape"),
    (2, "_form"),
    (2, "_taking"),
    (2, "_signature"),
    (2, "_schema"),
    (2, "_leaves"),
    (3, "_fusion"),
    (3, "_lifetime"),
    (3, "_watch"),
    (3, "_scope"),
    (3, "_tool"),
    (3, "_decisions"),
    (4, "_call"),
    (4, "_parked"),
    (4, "_emptying"),
    (4, "_life"),
    (4, "_execution"),
    (4, "_layer"),
    (5, "_output"),
    (5, "_verdicts"),
    (5, "_policy"),
    (5, "_timeout"),
    (5, "_body"),
    (5, "_delegation"),
    (5, "_pipeline"),
    (6, "_batch"),
    (6, "_registry"),
    (7, "__init__"),
)
ORDER = [name for _, name in CORE]

# Floor 8: each sees the core through the face `trio_tools`, and of the other houses what is named here.
HOUSES: dict[str, frozenset[str]] = {
    "trace": frozenset(),
    "conformance": frozenset(),
    "reference": frozenset(),
    "mcp": frozenset(),
    # Floor 9.
    "cli": frozenset({"trace", "conformance", "reference", "mcp"}),
}

# Where tasks, scopes or time are the subject; the rest of the core is plain code, tested without a loop.
SEES_TRIO = {
    "_leaves",
    "_fusion",
    "_lifetime",
    "_watch",
    "_scope",
    "_parked",
    "_emptying",
    "_life",
    "_execution",
    "_policy",
    "_body",
    "_delegation",
    "_pipeline",
    "_batch",
}
CORE_PACKAGES = {"trio", "attrs", "cattrs", "jsonschema_rs"}

# Packages that only some modules may import; a house stands for all its modules.
ONLY_IN: dict[str, tuple[str, ...]] = {
    "hypothesis": ("conformance", "reference"),
    "hypothesis_jsonschema": ("conformance",),
    "pytest": ("conformance.pytest_plugin",),
    "_pytest": (),
    "rich": ("cli", "trace"),
    "platformdirs": ("cli",),
    "psycopg": ("trace",),
    "opentelemetry": ("trace",),
    "mcp": ("mcp",),
    "mcp_types": ("mcp",),
    "pydantic": ("mcp",),
    "httpx2": ("mcp",),
    "anyio": ("mcp", "reference"),
}


@frozen
class Import:
    """One import: who imports, what (dotted, from the package's root or a top-level name), and where."""

    by: str
    of: str
    name: str | None
    line: int
    relative: bool

    def __str__(self) -> str:
        return f"{self.by}:{self.line} imports {self.of}" + (f".{self.name}" if self.name else "")


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


MODULES = {module_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports_of(module: str) -> Iterator[Import]:
    path = MODULES[module]
    package = path.relative_to(PACKAGE).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module, alias.name, None, node.lineno, relative=False)
        elif isinstance(node, ast.ImportFrom):
            target = node.module or ""
            if node.level:
                base = package[: len(package) - node.level + 1]
                target = ".".join((*base, *filter(None, target.split("."))))
            for alias in node.names:
                yield Import(module, target, alias.name, node.lineno, relative=bool(node.level))


IMPORTS = [found for module in MODULES for found in imports_of(module)]


def house_of(module: str) -> str | None:
    first = module.split(".")[0]
    return first if first in HOUSES else None


def is_core(module: str) -> bool:
    return "." not in module and house_of(module) is None


def target_of(found: Import) -> str | None:
    """Say which module of the package is meant, or None if it is another package's."""
    if found.relative:
        inner = f"{found.of}.{found.name}".lstrip(".")
        return inner if inner in MODULES else (found.of or "__init__")
    if found.of == "trio_tools":
        return found.name if found.name in MODULES else "__init__"
    return found.of.removeprefix("trio_tools.") if found.of.startswith("trio_tools.") else None


def third_party_of(found: Import) -> str | None:
    top = found.of.split(".")[0]
    if found.relative or top == "trio_tools" or top in sys.stdlib_module_names:
        return None
    return top


def test_each_module_of_the_package_stands_on_a_floor() -> None:
    core = {module for module in MODULES if is_core(module)}
    houses = {module.split(".")[0] for module in MODULES if "." in module}

    assert core == set(ORDER)
    assert houses <= set(HOUSES)
    assert [floor for floor, _ in CORE] == sorted(floor for floor, _ in CORE)


def test_the_core_imports_only_downwards_and_by_relative_name() -> None:
    wrong: list[str] = []
    for found in IMPORTS:
        target = target_of(found)
        if not is_core(found.by) or target is None:
            continue
        if not found.relative or found.name == "*":
            wrong.append(f"{found}: relative, by name")
        elif target not in ORDER or ORDER.index(target) >= ORDER.index(found.by):
            wrong.append(f"{found}: upwards")

    assert wrong == []


def test_the_houses_see_the_core_only_through_its_face() -> None:
    wrong: list[str] = []
    for found in IMPORTS:
        house, target = house_of(found.by), target_of(found)
        if house is None or target is None:
            continue
        if target == "__init__":
            private = found.name is None or (found.name.startswith("_") and found.name != "__version__")
            if found.relative or private:
                wrong.append(f"{found}: `from trio_tools import <name>`")
        elif house_of(target) is None:
            wrong.append(f"{found}: behind the face")
        elif house_of(target) == house:
            if not found.relative:
                wrong.append(f"{found}: relative, by name")
        elif target.split(".")[0] not in HOUSES[house] or "._" in f"{target}.{found.name}":
            wrong.append(f"{found}: another house")

    assert wrong == []


def test_no_two_modules_import_each_other_in_a_circle() -> None:
    graph: dict[str, set[str]] = {module: set() for module in MODULES}
    for found in IMPORTS:
        target = target_of(found)
        if target in MODULES and target != found.by:
            graph[found.by].add(target)

    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_the_core_needs_its_four_packages_and_trio_only_where_time_passes() -> None:
    used = [(found, third_party_of(found)) for found in IMPORTS if is_core(found.by)]
    wrong = [str(found) for found, top in used if top is not None and top not in CORE_PACKAGES]
    timeless = [str(found) for found, top in used if top == "trio" and found.by not in SEES_TRIO]

    assert wrong == []
    assert timeless == []


def test_a_heavy_package_is_imported_only_where_it_is_the_subject() -> None:
    wrong: list[str] = []
    for found in IMPORTS:
        allowed = ONLY_IN.get(third_party_of(found) or "")
        if allowed is not None and not any(f"{found.by}.".startswith(f"{place}.") for place in allowed):
            wrong.append(str(found))

    assert wrong == []


def test_every_third_party_import_is_of_a_declared_package() -> None:
    known = CORE_PACKAGES | set(ONLY_IN)
    unknown = [str(found) for found in IMPORTS if (third_party_of(found) or "trio") not in known]

    assert unknown == []
