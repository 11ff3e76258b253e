"""Change the core in small ways, one at a time, and see whether the tests notice.

    python tools/mutate.py                       # the modules that decide what becomes of a call
    python tools/mutate.py _scope _batch -j 2    # some of them, on two cores
    python tools/mutate.py --json last.json      # write down the figures and what survived
    python tools/mutate.py --survivors last.json # only what survived an earlier run
    python tools/mutate.py --control --every 50  # no changes: all of these have to survive

The tests are collected once, and each says which lines it runs. A mutant is a copy of that process, in
which the changed function takes on the changed code; the tests that reach what was changed run, fast ones
first, up to the first failure, each for as long as it took unchanged and somewhat longer. A mutant that
hangs counts as killed, one that could not be made as a survivor. Prints a line for each survivor, and then
a table of what was killed; exits 1 if a module is below the goal. Needs Python 3.12 or newer and a system
that can fork.
"""

import argparse
import ast
import copy
import gc
import hashlib
import json
import math
import os
import pickle
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import ClassVar, Final, final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import pytest  # noqa: E402  (its plugins must meet this copy of the package)
from trio._core import _ki  # noqa: E402

PACKAGE: Final = ROOT / "trio_tools"
DECIDING: Final = (
    "_pipeline",
    "_scope",
    "_lifetime",
    "_watch",
    "_batch",
    "_result",
    "_fusion",
    "_delegation",
    "_body",
    "_policy",
    "_life",
    "_classification",
    "_verdicts",
    "_timeout",
)
GOAL: Final = 0.95
UNFIT: Final = 97
CRASHED: Final = 98
MEMORY: Final = 4 << 30
CHUNK: Final = 60

COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
}


def is_docstring(node: ast.stmt) -> bool:
    """Return whether a statement is nothing but a constant."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield a name and a replacement for each way in which ``node`` alone can be changed."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARISONS:
            changed = copy.deepcopy(node)
            changed.ops = [COMPARISONS[type(op)]()]
            yield f"{type(op).__name__} -> {type(changed.ops[0]).__name__}", changed
        case ast.BoolOp(op=op):
            changed = copy.deepcopy(node)
            changed.op = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield "and <-> or", changed
            for index in range(len(node.values)):
                fewer = [value for position, value in enumerate(node.values) if position != index]
                shorter = fewer[0] if len(fewer) == 1 else ast.BoolOp(op=op, values=fewer)
                yield f"operand {index + 1} dropped", copy.deepcopy(shorter)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "not dropped", copy.deepcopy(operand)
        case ast.BinOp(op=op) if type(op) in ARITHMETIC:
            changed = copy.deepcopy(node)
            changed.op = ARITHMETIC[type(op)]()
            yield "operator", changed
        case ast.Constant(value=bool() as value):
            yield f"{value} -> {not value}", ast.Constant(value=not value)
        case ast.Constant(value=int() | float() as value):
            yield f"{value} -> {value + 1}", ast.Constant(value=value + 1)
        case ast.IfExp(body=body, orelse=orelse):
            yield "if-expression: always the first", copy.deepcopy(body)
            yield "if-expression: always the second", copy.deepcopy(orelse)
        case ast.If(test=test) | ast.While(test=test) if not isinstance(test, ast.Constant):
            changed = copy.deepcopy(node)
            changed.test = ast.UnaryOp(op=ast.Not(), operand=copy.deepcopy(test))
            yield "condition negated", changed
        case ast.Return(value=value) if value is not None and not _is_none(value):
            yield "return None", ast.Return(value=ast.Constant(value=None))
        case ast.Break():
            yield "break -> continue", ast.Continue()
        case ast.Continue():
            yield "continue -> break", ast.Break()
        case ast.Expr() | ast.Assign() | ast.AugAssign() | ast.Raise() if not is_docstring(node):
            yield "statement dropped", ast.Pass()
        case _:
            return


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def mutable(tree: ast.Module) -> Iterator[ast.AST]:
    """Walk what runs in a function; declarations, annotations and docstrings are left alone."""
    pending: list[tuple[ast.AST, bool]] = [(tree, False)]
    while pending:
        node, inside = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name == "__repr__" or any(_is_overload(each) for each in node.decorator_list):
                continue
            pending.extend((child, True) for child in reversed(node.body))
            continue
        if inside:
            yield node
        if isinstance(node, ast.AnnAssign):
            if node.value is not None:
                pending.append((node.value, inside))
            continue
        if isinstance(node, ast.Assert):
            continue
        pending.extend((child, inside) for child in reversed(list(ast.iter_child_nodes(node))))


def _is_overload(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "overload"


class Swap(ast.NodeTransformer):
    """Puts a replacement where one node stands."""

    def __init__(self, target: ast.AST, replacement: ast.AST) -> None:
        self.target, self.replacement = target, replacement

    def visit(self, node: ast.AST) -> ast.AST:
        """Replace the target, and look for it further in."""
        if node is self.target:
            return ast.copy_location(self.replacement, node)
        return self.generic_visit(node)


@dataclass(frozen=True)
class Mutant:
    """One change of one node."""

    module: str
    function: str
    line: int
    last_line: int
    number: int
    change: str
    code: str
    tree: ast.Module
    node: ast.AST
    replacement: ast.AST

    # What stays the same while other lines of the module change.
    KEY: ClassVar = ("module", "function", "code", "change", "number")

    @property
    def key(self) -> tuple[object, ...]:
        """Return what finds this mutant again."""
        return tuple(getattr(self, name) for name in self.KEY)

    def row(self) -> dict[str, object]:
        """Return what is written down of it."""
        return {name: getattr(self, name) for name in ("line", *self.KEY)}

    def __str__(self) -> str:
        return f"{self.module}.py:{self.line} in {self.function}  {self.change}:  {self.code}"

    def compiled(self, path: str) -> CodeType:
        """Compile the module with this change in it; the tree is changed for good."""
        changed = Swap(self.node, self.replacement).visit(self.tree)
        return compile(ast.fix_missing_locations(changed), path, "exec", dont_inherit=True)


def outermost(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield every function that is in no other, with its qualified name."""
    pending: list[tuple[str, ast.AST]] = [("", tree)]
    while pending:
        prefix, node = pending.pop(0)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{prefix}{child.name}", child
            elif isinstance(child, ast.ClassDef):
                pending.append((f"{prefix}{child.name}.", child))


def mutants_of(module: str) -> list[Mutant]:
    """Return every mutant of a module, in the order of its lines."""
    source = (PACKAGE / f"{module}.py").read_text()
    lines, tree = source.splitlines(), ast.parse(source)
    found: list[Mutant] = []
    seen: Counter[tuple[str, str, str]] = Counter()
    for name, function in outermost(tree):
        for node in mutable(ast.Module([function], [])):
            for change, replacement in changes(node):
                line = getattr(node, "lineno", function.lineno)
                code = lines[line - 1].strip()
                # Tells apart the changes of one kind on lines that read alike.
                seen[name, code, change] += 1
                number = seen[name, code, change]
                last = getattr(node, "end_lineno", None) or line
                found.append(Mutant(module, name, line, last, number, change, code, tree, node, replacement))
    return sorted(found, key=lambda mutant: mutant.line)


def code_objects(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and all that are nested in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from code_objects(constant)


class UnfitError(Exception):
    """The functions in memory cannot take on the change."""


def functions_in_memory() -> dict[tuple[str, str], list[FunctionType]]:
    """Return the functions that were made of the package, by file and qualified name."""
    found: dict[tuple[str, str], list[FunctionType]] = {}
    for each in gc.get_objects():
        if type(each) is FunctionType and each.__code__.co_filename.startswith(str(PACKAGE)):
            found.setdefault((each.__code__.co_filename, each.__code__.co_qualname), []).append(each)
    return found


def infect(mutant: Mutant, functions: dict[tuple[str, str], list[FunctionType]]) -> None:
    """Have every function in memory that was made of the mutant's function run the changed code."""
    path = str(PACKAGE / f"{mutant.module}.py")
    changed = {(code.co_qualname, code.co_firstlineno): code for code in code_objects(mutant.compiled(path))}
    found = False
    for function in functions.get((path, mutant.function), ()):
        old = function.__code__
        new = changed.get((old.co_qualname, old.co_firstlineno))
        if new is None:
            continue
        # trio knows by its code that a function is protected from Ctrl-C.
        with suppress(KeyError):
            _ki._CODE_KI_PROTECTION_STATUS_WMAP[new] = _ki._CODE_KI_PROTECTION_STATUS_WMAP[old]
        function.__code__ = new
        found = True
    if not found:
        raise UnfitError


@dataclass
class Reach:
    """What one test runs of the modules: lines, and functions as (module, qualified name)."""

    seconds: float
    passed: bool
    lines: set[tuple[str, int]] = field(default_factory=set)
    functions: set[tuple[str, str]] = field(default_factory=set)


class Watch:
    """Notes which lines of the modules run, until it is asked."""

    TOOL: Final = 3

    def __init__(self) -> None:
        self.lines: set[tuple[str, int]] = set()
        self.functions: set[tuple[str, str]] = set()
        sys.monitoring.use_tool_id(self.TOOL, "mutants")
        events = sys.monitoring.events
        sys.monitoring.register_callback(self.TOOL, events.LINE, self._line)
        sys.monitoring.register_callback(self.TOOL, events.PY_START, self._start)
        sys.monitoring.set_events(self.TOOL, events.LINE | events.PY_START)

    def _line(self, code: CodeType, line: int) -> object:
        if code.co_filename.startswith(f"{PACKAGE}{os.sep}_"):
            self.lines.add((Path(code.co_filename).stem, line))
        return sys.monitoring.DISABLE

    def _start(self, code: CodeType, _offset: int) -> object:
        if code.co_filename.startswith(f"{PACKAGE}{os.sep}_"):
            self.functions.add((Path(code.co_filename).stem, code.co_qualname.partition(".<locals>")[0]))
        return sys.monitoring.DISABLE

    def take(self) -> tuple[set[tuple[str, int]], set[tuple[str, str]]]:
        """Return what ran since it was last asked."""
        taken = self.lines, self.functions
        self.lines, self.functions = set(), set()
        sys.monitoring.restart_events()
        return taken


def run_in_child(work: Callable[[], None]) -> int:
    """Start ``work`` in a copy of this process; it ends with ``os._exit``."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            silent = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silent, 1)
            os.dup2(silent, 2)
            os.setsid()
            # What a shell starts in the background ignores a Ctrl-C, on which tests rely.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            work()
        except BaseException:  # noqa: BLE001
            os._exit(CRASHED)
        os._exit(0)
    return pid


@final
class Judge:
    """Runs the tests against one mutant after the other; a plugin of the pytest run that collected them."""

    def __init__(self, mutants: list[Mutant], jobs: int, slowest: float, reaches: Path | None) -> None:
        self.mutants, self.jobs, self.slowest, self.kept = mutants, jobs, slowest, reaches
        self.verdicts: dict[int, str] = {}
        self._failed = False
        self._functions: dict[tuple[str, str], list[FunctionType]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take note of a failure."""
        self._failed = self._failed or report.failed

    def _passes(self, item: pytest.Item) -> bool:
        self._failed = False
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        return not self._failed

    def _map(self, items: list[pytest.Item]) -> list[Reach]:
        """Run every test once, unchanged, in a child, so that no thread is left in this process."""
        known: dict[tuple[str, str], Reach] = {}
        if self.kept is not None and self.kept.exists():
            known = pickle.loads(self.kept.read_bytes())
        package = digest(*sorted(PACKAGE.glob("_*.py")))
        keys = [(item.nodeid, f"{package} {digest(item.path)}") for item in items]
        missing = [index for index, key in enumerate(keys) if key not in known]
        if missing:
            found = self._run_unchanged([items[index] for index in missing])
            known.update((keys[index], reach) for index, reach in zip(missing, found, strict=True))
        if self.kept is not None:
            self.kept.write_bytes(pickle.dumps(known))
        return [known[key] for key in keys]

    def _run_unchanged(self, items: list[pytest.Item]) -> list[Reach]:
        """Run tests in children, so that no thread is left in this process; what crashes counts as failed."""
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder:

            def work(first: int) -> None:
                watch = Watch()
                for index in range(first, min(first + CHUNK, len(items))):
                    watch.take()
                    signal.alarm(120)
                    started = time.monotonic()
                    passed = self._passes(items[index])
                    reach = Reach(time.monotonic() - started, passed, *watch.take())
                    Path(folder, str(index)).write_bytes(pickle.dumps(reach))

            waiting, running = list(range(0, len(items), CHUNK)), 0
            while waiting or running:
                while waiting and running < self.jobs:
                    run_in_child(partial(work, waiting.pop()))
                    running += 1
                os.wait()
                running -= 1
            return [
                pickle.loads(path.read_bytes()) if path.exists() else Reach(math.inf, passed=False)
                for path in (Path(folder, str(index)) for index in range(len(items)))
            ]

    def _tests_of(self, mutant: Mutant, reaches: list[Reach]) -> list[int]:
        """Return the tests that reach what is changed, or else its function, fast ones first."""
        lines = {(mutant.module, line) for line in range(mutant.line, mutant.last_line + 1)}
        inside = [
            (not lines & reach.lines, reach.seconds, index)
            for index, reach in enumerate(reaches)
            if (mutant.module, mutant.function) in reach.functions
            and reach.passed
            and reach.seconds < self.slowest
        ]
        tests = [index for beside, _, index in sorted(inside) if not beside]
        return tests or [index for _, _, index in sorted(inside)]

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Judge all mutants in place of running the tests."""
        items = session.items
        started = time.monotonic()
        reaches = self._map(items)
        broken = [item.nodeid for item, reach in zip(items, reaches, strict=True) if not reach.passed]
        say(f"{len(items)} tests took {time.monotonic() - started:.0f} s; failing unchanged: {broken}")
        self._functions = functions_in_memory()
        running: dict[int, int] = {}
        waiting = list(reversed(range(len(self.mutants))))
        while waiting or running:
            while waiting and len(running) < self.jobs:
                number = waiting.pop()
                running[self._start(self.mutants[number], items, reaches)] = number
            pid, status = os.waitpid(-1, 0)
            self._conclude(running.pop(pid), os.waitstatus_to_exitcode(status))
            if len(self.verdicts) % 25 == 0:
                elapsed = time.monotonic() - started
                say(
                    f"{len(self.verdicts)} of {len(self.mutants)} after {elapsed:.0f} s: "
                    f"{dict(Counter(self.verdicts.values()))}"
                )
        return True

    def _start(self, mutant: Mutant, items: list[pytest.Item], reaches: list[Reach]) -> int:
        def work() -> None:
            try:
                infect(mutant, self._functions)
            except BaseException:  # noqa: BLE001
                os._exit(UNFIT)
            for index in self._tests_of(mutant, reaches):
                # A mutant that hangs is killed by the alarm.
                signal.setitimer(signal.ITIMER_REAL, 3 + 20 * reaches[index].seconds)
                if not self._passes(items[index]):
                    os._exit(1)

        return run_in_child(work)

    def _conclude(self, number: int, code: int) -> None:
        mutant = self.mutants[number]
        verdict = {0: "survived", UNFIT: "unfit", -signal.SIGALRM: "hung"}.get(code, "killed")
        self.verdicts[number] = verdict
        if verdict in ("survived", "unfit"):
            print(f"{verdict}: {mutant}", flush=True)


def digest(*paths: Path) -> str:
    """Return what changes whenever the content of a file does."""
    return hashlib.blake2b(b"".join(path.read_bytes() for path in paths), digest_size=8).hexdigest()


def say(line: str) -> None:
    """Tell how far it is."""
    print(line, file=sys.stderr, flush=True)


def test_files() -> list[str]:
    """Return the tests of the core, and of the model that it is held against."""
    about_data = {"json", "schema", "signature", "validator", "dialect", "violations"}
    about_the_rest = {"docs", "rules", "layers", "exports", "benchmarks", "interrupts"}
    left_out = {f"test_{name}" for name in about_data | about_the_rest}
    files = [path for path in sorted((ROOT / "tests").glob("test_*.py")) if path.stem not in left_out]
    held_against = ROOT / "tests" / "reference"
    files += [held_against / f"test_call_{name}.py" for name in ("agreement", "machine", "model")]
    return [str(path) for path in files]


def main() -> int:
    """Judge the mutants that the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("modules", nargs="*", default=list(DECIDING), metavar="MODULE")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--every", type=int, default=1, help="take only every Nth mutant")
    parser.add_argument("--json", type=Path, help="write the figures and the survivors there")
    parser.add_argument("--survivors", type=Path, help="judge only the survivors of an earlier run")
    parser.add_argument("--control", action="store_true", help="change nothing: every mutant has to survive")
    parser.add_argument(
        "--slowest", type=float, default=60, help="leave out tests that take longer, in seconds"
    )
    parser.add_argument("--reach", type=Path, help="keep there which test reaches what; new tests are added")
    options = parser.parse_args()
    mutants = [mutant for module in options.modules for mutant in mutants_of(module)][:: options.every]
    if options.survivors is not None:
        rows = json.loads(options.survivors.read_text())["survivors"]
        known = {tuple(row[name] for name in Mutant.KEY) for row in rows}
        mutants = [mutant for mutant in mutants if mutant.key in known]
    if options.control:
        mutants = [replace(mutant, replacement=mutant.node) for mutant in mutants]
    os.chdir(ROOT)
    os.environ["CI"] = "1"  # Hypothesis then draws the same examples in every run.
    judge = Judge(mutants, options.jobs, options.slowest, options.reach)
    arguments = ["-q", "-p", "no:cacheprovider", "--capture=no", "--rootdir", str(ROOT), *test_files()]
    pytest.main(arguments, plugins=[judge])
    survivors = [
        mutant for number, mutant in enumerate(mutants) if judge.verdicts[number] in ("survived", "unfit")
    ]
    table: dict[str, dict[str, int]] = {}
    for number, mutant in enumerate(mutants):
        row = table.setdefault(mutant.module, {"killed": 0, "hung": 0, "survived": 0, "unfit": 0})
        row[judge.verdicts[number]] += 1
    print("\n| module | mutants | killed | of these hung | survived | share |\n|---|---|---|---|---|---|")
    for module, row in table.items():
        killed, mutated = row["killed"] + row["hung"], sum(row.values())
        print(
            f"| `{module}` | {mutated} | {killed} | {row['hung']} | {mutated - killed} "
            f"| {killed / mutated:.1%} |"
        )
    if options.json is not None:
        found = {"modules": table, "survivors": [mutant.row() for mutant in survivors]}
        options.json.write_text(json.dumps(found, indent=1))
    shares = [(row["killed"] + row["hung"]) / sum(row.values()) for row in table.values()]
    return 0 if min(shares, default=1.0) >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
