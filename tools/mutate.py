"""Change the core in small ways, one at a time, and see whether the tests notice.

    python tools/mutate.py                       # the modules that decide what becomes of a call
    python tools/mutate.py _scope _batch -j 2    # some of them, on two cores
    python tools/mutate.py --survivors last.json # only what survived an earlier run

Every mutant is a copy of the package in a temporary folder with one change; the tests run against it in
a process of their own and stop at the first failure. A mutant that hangs counts as killed. Prints a row
for each survivor and the share that was killed; exits 1 below the goal.
"""

import argparse
import ast
import copy
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGE: Final = ROOT / "trio_tools"
DECIDING: Final = ("_pipeline", "_delegation", "_body", "_policy", "_scope", "_fusion", "_batch", "_result")
GOAL: Final = 0.95

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


def mutants_of(module: str) -> list[dict[str, object]]:
    """Return every mutant of a module: where, what was changed, and the whole changed text."""
    source = (PACKAGE / f"{module}.py").read_text()
    lines = source.splitlines()
    found: list[dict[str, object]] = []
    nodes = len(list(mutable(ast.parse(source))))
    for position in range(nodes):
        count = len(list(changes(list(mutable(ast.parse(source)))[position])))
        for which in range(count):
            tree = ast.parse(source)
            node = list(mutable(tree))[position]
            name, replacement = list(changes(node))[which]
            line = getattr(node, "lineno", 0)
            changed = ast.fix_missing_locations(Swap(node, replacement).visit(tree))
            found.append(
                {
                    "module": module,
                    "line": line,
                    "change": name,
                    "code": lines[line - 1].strip(),
                    "text": ast.unparse(changed),
                }
            )
    return found


def tests_for(module: str) -> list[str]:
    """Return the tests of the core, those of the module itself first."""
    files = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").glob("test_*.py"))
    left_out = {"tests/test_docs.py", "tests/test_rules.py", "tests/test_layers.py", "tests/test_exports.py"}
    files = [file for file in files if file not in left_out]
    files.sort(key=lambda file: module.strip("_") not in file)
    return [*files, "tests/reference/test_call_model.py"]


def judge(mutant: dict[str, object], seconds: float) -> tuple[dict[str, object], str]:
    """Run the tests against one mutant and say ``killed``, ``hung`` or ``survived``."""
    module = str(mutant["module"])
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copied = Path(folder) / "trio_tools"
        shutil.copytree(PACKAGE, copied, ignore=shutil.ignore_patterns("__pycache__"))
        (copied / f"{module}.py").write_text(str(mutant["text"]))
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header"]
        command += ["-o", f"pythonpath={folder} {ROOT}", "--rootdir", str(ROOT), *tests_for(module)]
        # The copy must win over an installed package, and no bytecode of the original may be met.
        environment = dict(os.environ, PYTHONPATH=folder, PYTHONDONTWRITEBYTECODE="1")
        with subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            try:
                code = process.wait(seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return mutant, "hung"
    return mutant, "survived" if code == 0 else "killed"


def main() -> int:
    """Judge the mutants that the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("modules", nargs="*", default=list(DECIDING), metavar="MODULE")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=90, help="after which a mutant counts as hung")
    parser.add_argument("--every", type=int, default=1, help="take only every Nth mutant")
    parser.add_argument("--json", type=Path, help="write the survivors there")
    parser.add_argument("--survivors", type=Path, help="judge only the survivors of an earlier run")
    options = parser.parse_args()
    mutants = [mutant for module in options.modules for mutant in mutants_of(module)][:: options.every]
    if options.survivors is not None:
        known = {
            (row["module"], row["line"], row["change"]) for row in json.loads(options.survivors.read_text())
        }
        mutants = [
            mutant for mutant in mutants if (mutant["module"], mutant["line"], mutant["change"]) in known
        ]
    counts = {"killed": 0, "hung": 0, "survived": 0}
    survivors: list[dict[str, object]] = []
    started = time.monotonic()
    with ThreadPoolExecutor(options.jobs) as pool:
        for done, (mutant, verdict) in enumerate(
            pool.map(lambda each: judge(each, options.seconds), mutants), 1
        ):
            counts[verdict] += 1
            if verdict == "survived":
                survivors.append({key: value for key, value in mutant.items() if key != "text"})
                print(
                    f"survived: {mutant['module']}.py:{mutant['line']}  {mutant['change']}:  {mutant['code']}",
                    flush=True,
                )
            if done % 25 == 0:
                print(
                    f"{done} of {len(mutants)} after {time.monotonic() - started:.0f} s: {counts}",
                    file=sys.stderr,
                    flush=True,
                )
    if options.json is not None:
        options.json.write_text(json.dumps(survivors, indent=1))
    share = 1 - counts["survived"] / len(mutants) if mutants else 1.0
    print(f"{len(mutants) - counts['survived']} of {len(mutants)} killed ({share:.1%}): {counts}")
    return 0 if share >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
