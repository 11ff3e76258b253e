"""The pytest plugin: ``--trio-tool pkg.mod:TOOL``, the marker ``trio_tool``, and two fixtures.

``pytest --trio-tool pkg.mod:TOOL`` adds one test item for each requirement of each tool that the target
holds: a `Tool`, an ``async def`` function, a `ToolCheck`, a list of these, or a registry. A tool is
checked once, by the first of its items that runs.

In a test module, ``check_trio_tool`` checks a tool the way the marker says::

    @pytest.mark.trio_tool(arguments=[{"path": "a.txt"}], setup=World)
    def test_read_file(check_trio_tool):
        check_trio_tool(read_file)
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, cast, final

import pytest

from trio_tools import Layer, Tool

from ._check import CheckError, ToolCheck
from ._manifest import MANIFEST, Requirement, Verdict
from ._profile import Profile
from ._report import ConformanceError, Report

__all__ = [
    "check_trio_tool",
    "pytest_addoption",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "trio_tool_profile",
]

_MARKER: Final = (
    "trio_tool(arguments=None, setup=None, profile=None, max_examples=3, seed=None): "
    "how the fixture check_trio_tool checks a tool"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("trio-tools", "conformance of tools")
    group.addoption(
        "--trio-tool",
        action="append",
        default=[],
        metavar="TARGET",
        dest="trio_tool",
        help="check the tools of pkg.mod:NAME or path/file.py:NAME, one item for each requirement",
    )
    group.addoption(
        "--trio-tool-seed",
        type=int,
        default=None,
        metavar="N",
        dest="trio_tool_seed",
        help="what the checks are drawn from; the same seed gives the same report, but for tools that "
        "wait for threads or processes",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", _MARKER)


def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add the items of the targets behind those that were collected."""
    seed = cast("int | None", config.getoption("trio_tool_seed"))
    for target in cast("list[str]", config.getoption("trio_tool")):
        try:
            checks = _checks_of(target, config)
        except CheckError as error:
            raise pytest.UsageError(f"--trio-tool {error}") from error
        for check in checks:
            collector: _ToolCollector = _ToolCollector.from_parent(  # pyright: ignore[reportUnknownMemberType]
                session,
                name=f"{target}[{check.name}]",
                # It lies in no file, which is what stands in front of the name otherwise.
                nodeid=f"{target}[{check.name}]",
                check=check,
                seed=seed,
            )
            items.extend(collector.collect())


def _checks_of(target: str, config: pytest.Config) -> Iterator[ToolCheck]:
    place, separator, name = target.rpartition(":")
    if not separator or not place or not name:
        raise CheckError(f"{target}: a target is pkg.mod:NAME or path/file.py:NAME")
    try:
        module = found = _imported(place, config)
        for part in name.split("."):
            if not hasattr(found, part):
                raise CheckError(f"{target}: {place} has no {name}; {_hint(module)}")
            found = getattr(found, part)
    except CheckError:
        raise
    except (Exception, SystemExit) as error:
        raise CheckError(f"{target}: {type(error).__name__}: {' '.join(str(error).split())}") from error
    return iter([*_read(found, target)])


def _hint(module: object) -> str:
    held = [name for name, value in vars(module).items() if _is_target(value)]
    return f"it has {', '.join(held)}" if held else "it has no tool, list of tools or registry"


def _is_target(value: object) -> bool:
    if isinstance(value, list | tuple):
        items = cast("list[object] | tuple[object, ...]", value)
        return bool(items) and all(map(_is_target, items))
    return isinstance(value, Tool | ToolCheck | Layer)


def _imported(place: str, config: pytest.Config) -> object:
    if not place.endswith(".py"):
        _find(place.partition(".")[0], config)
        return importlib.import_module(place)
    path = config.invocation_params.dir / place
    if not path.is_file():
        raise CheckError(f"{place}: there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise CheckError(f"{place} is no Python file")
    module = importlib.util.module_from_spec(spec)
    # As in a script that is run, what stands beside the file can be imported.
    sys.path.insert(0, str(path.parent))
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _find(package: str, config: pytest.Config) -> None:
    """Put the folder of a package on the path, if it is neither installed nor on the path already.

    The program ``pytest`` does not have the folder it is started in on the path, as ``python -m pytest``
    has; somebody who names a package that lies there means that one.
    """
    if importlib.util.find_spec(package) is not None:
        return
    folders = [config.invocation_params.dir, config.rootpath, config.rootpath / "src"]
    for folder in folders:
        if (folder / package).is_dir() or (folder / f"{package}.py").is_file():
            sys.path.insert(0, str(folder))
            return
    looked = ", ".join(map(str, dict.fromkeys(folders)))
    raise CheckError(
        f"{package}: there is no such module on the path or in {looked}; "
        "install it, or name its folder in the option `pythonpath` of pytest"
    )


def _read(found: object, target: str) -> Iterator[ToolCheck]:
    if isinstance(found, ToolCheck):
        yield found
    elif isinstance(found, Layer):
        for schema in found.schemas():
            tool = found.get(cast("str", schema["name"]))
            if tool is not None:
                yield ToolCheck(tool=tool)
    elif isinstance(found, list | tuple):
        for each in cast("list[object]", found):
            yield from _read(each, target)
    elif isinstance(found, Tool) or callable(found):
        check = ToolCheck(tool=found)
        assert check.name
        yield check
    else:
        raise CheckError(
            f"{target}: this is a {type(found).__name__}, not a tool, a list of tools or a registry"
        )


@final
class _ToolCollector(pytest.Collector):
    """The requirements of one tool; it is checked when the first of them is asked about."""

    def __init__(self, *, check: ToolCheck, seed: int | None, **options: Any) -> None:
        super().__init__(**options)
        self._check: Final = check
        self._seed: Final = seed
        self._report: Report | CheckError | None = None

    def collect(self) -> list[pytest.Item]:
        """Return one item for each requirement."""
        return [
            _RequirementItem.from_parent(  # pyright: ignore[reportUnknownMemberType]
                self, name=f"{requirement.id} {requirement.title}", requirement=requirement
            )
            for requirement in MANIFEST
        ]

    def report(self) -> Report:
        """Return the report, making it the first time."""
        if self._report is None:
            try:
                self._report = self._check.run(seed=self._seed)
            except CheckError as error:
                self._report = error
        if isinstance(self._report, CheckError):
            raise self._report
        return self._report


@final
class _RequirementItem(pytest.Item):
    """One requirement of one tool."""

    def __init__(self, *, requirement: Requirement, **options: Any) -> None:
        super().__init__(**options)  # pyright: ignore[reportUnknownMemberType]
        self._requirement: Final = requirement

    def runtest(self) -> None:
        """Fail with the findings, or with what is unresolved; skip what does not apply."""
        report = cast("_ToolCollector", self.parent).report()
        each = self._requirement.id
        verdict = report.verdicts[each]
        if verdict is Verdict.FAIL:
            raise ConformanceError(
                "\n".join(str(finding) for finding in report.findings if finding.requirement == each)
            )
        if verdict is Verdict.UNRESOLVED:
            raise ConformanceError(f"unresolved: {report.reasons[each]}")
        if verdict is Verdict.NOT_APPLICABLE:
            pytest.skip(f"not applicable: {report.reasons[each]}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show the findings rather than a traceback."""
        if isinstance(excinfo.value, ConformanceError | CheckError):
            return f"{excinfo.value}\n\n{self._requirement.id} requires: {self._requirement.sentence}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return how the item is called."""
        return Path(), None, f"{self.parent.name if self.parent else ''} {self.name}"


@pytest.fixture(scope="session")
def trio_tool_profile() -> Profile:
    """The profile of every check that names none; override it in a conftest."""
    return Profile()


@pytest.fixture
def check_trio_tool(request: pytest.FixtureRequest, trio_tool_profile: Profile) -> Callable[[object], Report]:
    """A function that checks a tool the way the marker ``trio_tool`` says; it raises where that fails."""
    marker = request.node.get_closest_marker("trio_tool")
    options: dict[str, Any] = {} if marker is None else dict(marker.kwargs)
    seed = options.pop("seed", None)

    def check(tool: object) -> Report:
        report = ToolCheck(tool=tool, **options).run(profile=trio_tool_profile, seed=seed)
        report.raise_for_failures()
        return report

    return check
