"""What a command works on: ``pkg.mod:NAME``, ``path/file.py:NAME`` or ``mcp:COMMAND``."""

import contextlib
import importlib
import importlib.util
import os
import sys
import sysconfig
import traceback
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Final, cast

from trio_tools import Layer, RegistrationError, Registry, Tool, TransportError

from ._failure import USAGE, CommandError, one_line

__all__ = ["TARGET_HELP", "load_target", "open_target", "tools_of"]

TARGET_HELP: Final = (
    "pkg.mod:NAME or path/file.py:NAME, where NAME is a tool, a list of tools or a registry; "
    "or mcp:COMMAND, an MCP server to start, or mcp:URL"
)
_MCP: Final = "mcp:"
# Where code lies that the author of a target did not write.
_FOREIGN: Final = (
    "<",
    str(Path(__file__).parent.parent),
    *map(sysconfig.get_path, ("stdlib", "purelib", "platlib")),
)


@asynccontextmanager
async def open_target(target: str) -> AsyncGenerator[Layer]:
    """Give the tools of ``target`` as a registry, until the block is left.

    Raises:
        CommandError: when there is no such thing, or it is no tool, or the server does not start.
    """
    if not target.startswith(_MCP):
        yield _registry_of(load_target(target), target)
        return
    command = target.removeprefix(_MCP).strip()
    if not command:
        raise CommandError(
            f"{target}: name the server to start, as in mcp:'uvx mcp-server-git'", status=USAGE
        )
    try:
        from trio_tools.mcp import open_mcp_toolset
    except ImportError as error:
        raise CommandError(
            f"{target}: {error.name} is not installed; run: pip install 'trio-tools[mcp]'"
        ) from None
    async with contextlib.AsyncExitStack() as stack:
        try:
            tools = await stack.enter_async_context(open_mcp_toolset(command))
        except TransportError as error:
            raise CommandError(str(error)) from None
        yield _registry_of(tools, target)


def load_target(target: str) -> object:
    """Import the object that a ``module:NAME`` or ``file.py:NAME`` target names.

    Raises:
        CommandError: when it cannot be imported or found.
    """
    place, separator, name = target.rpartition(":")
    if not separator or not place or not name:
        raise CommandError(f"{target}: a target is {TARGET_HELP}", status=USAGE)
    module = _import(place, target)
    found: object = module
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            known = [key for key, value in vars(module).items() if _is_target(value)]
            hint = f"it has {', '.join(known)}" if known else "it defines no tool, list of tools or registry"
            raise CommandError(f"{target}: {place} has no {name}; {hint}", status=USAGE) from None
    return found


def tools_of(found: object, target: str) -> tuple[Tool, ...]:
    """Read a target as the tools that it holds.

    Raises:
        CommandError: when it is neither a tool, nor a collection of tools, nor a registry.
    """
    kind = type(found).__name__
    if isinstance(found, Tool):
        return (found,)
    if isinstance(found, Layer):
        visible = (found.get(cast("str", schema["name"])) for schema in found.schemas())
        return tuple(tool for tool in visible if tool is not None)
    if isinstance(found, list | tuple | set | frozenset):
        items = list(cast("Iterable[object]", found))
        if items and all(isinstance(item, Tool) for item in items):
            return tuple(cast("list[Tool]", items))
    raise CommandError(f"{target}: this is a {kind}, not a tool, a list of tools or a registry", status=USAGE)


def _registry_of(found: object, target: str) -> Layer:
    if isinstance(found, Layer):
        return found
    registry = Registry()
    try:
        for tool in tools_of(found, target):
            registry.register(tool)
    except RegistrationError as error:
        raise CommandError(f"{target}: {error}", status=USAGE) from None
    return registry


def _is_target(value: object) -> bool:
    if isinstance(value, list | tuple):
        items = cast("list[object] | tuple[object, ...]", value)
        return bool(items) and all(isinstance(item, Tool) for item in items)
    return isinstance(value, Tool | Layer)


def _import(place: str, target: str) -> ModuleType:
    is_file = place.endswith(".py") or os.sep in place
    if is_file and not Path(place).is_file():
        raise CommandError(f"{target}: there is no file {place}", status=USAGE)
    # A module is found from where the command is given, as `python -m` would find it.
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return _import_file(Path(place), target) if is_file else importlib.import_module(place)
    except CommandError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and (place == error.name or place.startswith(f"{error.name}.")):
            raise CommandError(f"{target}: there is no module {error.name}", status=USAGE) from None
        raise CommandError(
            f"{target}: it imports {error.name}, which is not installed", status=USAGE
        ) from None
    except Exception as error:  # noqa: BLE001  (whatever a user's module raises is told in one line)
        raise CommandError(
            f"{target}: importing it failed: {type(error).__name__}: {one_line(str(error))}{_where(error)}",
            status=USAGE,
        ) from None


def _import_file(path: Path, target: str) -> ModuleType:
    name = path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise CommandError(f"{target}: {path} is no Python file; a target is {TARGET_HELP}", status=USAGE)
    module = importlib.util.module_from_spec(spec)
    # As in a script that is run, what stands beside the file can be imported.
    sys.path.insert(0, str(path.resolve().parent))
    # Its classes are looked up by their module's name when annotations are read.
    previous = sys.modules.get(name)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        if previous is None:
            del sys.modules[name]
        else:
            sys.modules[name] = previous
        raise
    return module


def _where(error: Exception) -> str:
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return ""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_FOREIGN)]
    return "".join(f" ({Path(frame.filename).name}, line {frame.lineno})" for frame in (own or frames)[-1:])
