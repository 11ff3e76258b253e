"""``trio-tools check``: whether tools stop when they are cancelled, and what they leave behind."""

import argparse
import contextlib
import inspect
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from datetime import datetime
from pathlib import Path
from typing import Final, NoReturn, cast

from attrs import evolve

from trio_tools.conformance import (
    MANIFEST,
    CheckError,
    KnownFailure,
    Profile,
    ProfileError,
    Report,
    SetupError,
    TokenError,
    ToolCheck,
    Verdict,
    excused,
    named_in,
    read_profile,
    reports_to_html,
    reports_to_json,
    reports_to_junit,
)

from ._command import Subparsers, positive
from ._failure import FINE, FOUND, UNRESOLVED, USAGE, CommandError, one_line
from ._progress import ProgressBar
from ._target import TARGET_HELP, load_target, tools_of

__all__ = ["add_parser", "run"]

_ABOUT: Final = """\
Run each tool many times, cancelled at every step it takes and in every way a
cancellation can come, and print what became of it: whether it stopped, and what
it left behind. Each finding has a replay token, which runs the one case again:

  trio-tools check TARGET --replay TOKEN

The tool really runs, on arguments that are made up from its schema: unless it
declares that it only reads, you are asked first; --yes says so beforehand, and where
nobody can be asked a line on standard error says what is run. A target may also name
a trio_tools.conformance.ToolCheck, which gives arguments and a fixture of its own.

The exit code is 0 if all is fine, 1 for findings, 2 for a target that is none, 3
for what is unresolved, 130 if interrupted."""
_INTERRUPTS: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
_IMPORT_SECONDS: Final = 60
_NAMED: Final = 5
"""How many tools are told by their names."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``check``."""
    parser = subparsers.add_parser(
        "check",
        help="check that tools keep the rules of cancellation",
        description=_ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("targets", nargs="+", metavar="TARGET", help=TARGET_HELP)
    for form, what in (("json", "JSON"), ("junit", "JUnit XML"), ("html", "an HTML page")):
        parser.add_argument(
            f"--{form}", type=Path, metavar="FILE", help=f"write the report as {what} as well"
        )
    parser.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="the same seed gives the same report, but for tools that wait for threads or processes",
    )
    parser.add_argument("--replay", metavar="TOKEN", help="run the one case of a finding again")
    parser.add_argument("--yes", action="store_true", help="run tools that may change something, unasked")
    parser.add_argument(
        "--budget", type=positive, metavar="RUNS", help="the most runs for each tool (default: 2000)"
    )
    parser.add_argument(
        "--examples",
        type=positive,
        default=3,
        metavar="N",
        help="arguments drawn for each tool (default: 3)",
    )
    parser.add_argument("--profile", type=Path, metavar="FILE", help="limits and known failures, as TOML")
    parser.add_argument(
        "--processes", type=positive, metavar="N", help="worker processes (default: one a core)"
    )


def run(args: argparse.Namespace) -> int:
    """Check the targets; 1 for findings, 2 for a target that is none, 3 for what is unresolved."""
    with _interruptible():
        return _run(args)


@contextlib.contextmanager
def _interruptible() -> Generator[None]:
    """Take every request to end for a Ctrl-C, so that what tools started is ended as well."""
    # Who has one ignored, as nohup has, means it.
    ours = [each for each in _INTERRUPTS if signal.getsignal(each) is signal.SIG_DFL]
    for each in ours:
        signal.signal(each, signal.default_int_handler)
    try:
        yield
    finally:
        for each in ours:
            signal.signal(each, signal.SIG_DFL)


def _run(args: argparse.Namespace) -> int:
    try:
        profile, known = (Profile(), ()) if args.profile is None else read_profile(args.profile)
    except ProfileError as error:
        raise CommandError(str(error), status=USAGE) from None
    if args.budget is not None:
        profile = evolve(profile, max_cases=args.budget)
    troubles: list[int] = []
    checks: list[tuple[str, ToolCheck]] = []
    for target in args.targets:
        try:
            checks += [(target, check) for check in _checks_of(target, examples=args.examples)]
        except CommandError as error:
            troubles.append(_tell(error))
    if args.replay is not None:
        return _replay(checks, args.replay, profile) if checks else min(troubles)
    if not args.yes and not _may_run([check for _, check in checks]):
        raise CommandError("nothing was run", status=UNRESOLVED)
    reports: list[Report] = []
    for target, check in checks:
        try:
            reports.append(_checked(target, check, profile, args, known))
        except CommandError as error:
            troubles.append(_tell(error))
    _write(args, reports)
    return _status(reports, troubles)


def _may_run(checks: list[ToolCheck]) -> bool:
    """Ask, where somebody can be asked, before tools run that may change something; else say so."""
    names = [check.name for check in checks if check.is_unprepared]
    if not names:
        return True
    listed = names if len(names) <= _NAMED else [*names[: _NAMED - 1], f"{len(names) - _NAMED + 1} more"]
    it = "it" if len(names) == 1 else "each"
    warning = f"{', '.join(listed)} may change something: {it} really runs, often, on made-up arguments"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        print(f"trio-tools: {warning}", file=sys.stderr)
        return True
    print(f"{warning}.\nRun {it}? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _tell(error: CommandError) -> int:
    print(f"trio-tools: {one_line(str(error))}", file=sys.stderr)
    return error.status


def _status(reports: list[Report], troubles: list[int]) -> int:
    verdicts = {report.verdict for report in reports}
    if Verdict.FAIL in verdicts:
        return FOUND
    if troubles:
        return min(troubles)
    return UNRESOLVED if Verdict.UNRESOLVED in verdicts else FINE


def _checked(
    target: str, check: ToolCheck, profile: Profile, args: argparse.Namespace, known: tuple[KnownFailure, ...]
) -> Report:
    bar = ProgressBar(check.name)
    try:
        report = check.run(profile=profile, seed=args.seed, processes=args.processes, on_progress=bar.show)
    except CheckError as error:
        status = UNRESOLVED if isinstance(error, SetupError) else USAGE
        raise CommandError(f"{target}: {error}", status=status) from None
    finally:
        bar.clear()
    report = excused(report, known, today=datetime.now().astimezone().date())
    print(report.to_text(colour=sys.stdout.isatty() and "NO_COLOR" not in os.environ))
    return report


def _replay(checks: list[tuple[str, ToolCheck]], token: str, profile: Profile) -> int:
    if len(checks) > 1:
        held = ", ".join(check.name for _, check in checks)
        name = named_in(token)
        checks = [(target, check) for target, check in checks if check.name == name]
        if len(checks) != 1:
            meant = "does not tell its tool" if name is None else f"is for {name}"
            raise CommandError(
                f"--replay: the token {meant}; of {held}, name the one it is for as TARGET", status=USAGE
            )
    ((target, check),) = checks
    try:
        case, complaints = check.replay(token, profile=profile)
    except TokenError as error:
        raise CommandError(f"--replay: {error}", status=USAGE) from None
    except CheckError as error:
        status = UNRESOLVED if isinstance(error, SetupError) else USAGE
        raise CommandError(f"{target}: {error}", status=status) from None
    titles = {requirement.id: requirement.title for requirement in MANIFEST}
    print(f"{check.name}: {case}")
    for each, complaint in complaints:
        print(f"  {each} {titles[each]}: {complaint.message}")
        if complaint.site is not None:
            print(f"    at {complaint.site}")
        for left in complaint.left:
            print(f"    left: {left}")
    if not complaints:
        print("  nothing is wrong with this run")
    return FOUND if complaints else FINE


def _write(args: argparse.Namespace, reports: list[Report]) -> None:
    forms: dict[str, Callable[[list[Report]], str]] = {
        "json": reports_to_json,
        "junit": reports_to_junit,
        "html": reports_to_html,
    }
    for name, form in forms.items():
        path = cast("Path | None", getattr(args, name))
        if path is None:
            continue
        try:
            path.write_text(form(reports), encoding="utf-8")
        except OSError as error:
            raise CommandError(f"{path} cannot be written: {error.strerror}") from None


def _checks_of(target: str, *, examples: int) -> Iterator[ToolCheck]:
    if target.startswith("mcp:"):
        raise CommandError(
            f"{target}: a server runs beyond this process and cannot be looked into; check what it serves",
            status=USAGE,
        )
    _try_import(target)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            found = load_target(target)
    except SystemExit as error:
        raise CommandError(f"{target}: importing it called sys.exit({error.code!r})", status=USAGE) from None
    return iter([*_read(found, target, examples)])


def _read(found: object, target: str, examples: int) -> Iterator[ToolCheck]:
    several = cast("list[object]", found) if isinstance(found, list | tuple) else []
    found = cast("object", found)
    if isinstance(found, ToolCheck):
        yield _named(found, target)
    elif any(isinstance(each, ToolCheck) for each in several):
        for each in several:
            yield from _read(each, target, examples)
    elif inspect.iscoroutinefunction(found):
        yield _named(ToolCheck(tool=found, max_examples=examples), target)
    else:
        for tool in tools_of(found, target):
            yield ToolCheck(tool=tool, max_examples=examples)


def _named(check: ToolCheck, target: str) -> ToolCheck:
    try:
        check.name  # noqa: B018  (whether it can be made a tool)
    except CheckError as error:
        raise CommandError(f"{target}: {error}", status=USAGE) from None
    return check


def _try_import(target: str) -> None:
    """Import a target in a process of its own first: it may take the interpreter down.

    Raises:
        CommandError: when it did, or did not come back.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    told, tell = os.pipe()
    pid = 0
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        # A Ctrl-C waits until it is known whom to end.
        signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPTS)
        pid = os.fork()
        if pid == 0:
            _answer(target, tell)
        os.close(tell)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        _, status = os.waitpid(pid, 0)
    except BaseException:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        if pid:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        raise
    # What the module started may still hold the other end.
    os.set_blocking(told, False)
    try:
        came_back = os.read(told, 100)
    except BlockingIOError:
        came_back = b""
    finally:
        os.close(told)
    code = os.waitstatus_to_exitcode(status)
    if came_back == b"interrupted":
        raise CommandError(f"{target}: importing it raised KeyboardInterrupt", status=USAGE)
    if code == -signal.SIGALRM:
        raise CommandError(f"{target}: importing it took more than {_IMPORT_SECONDS} s", status=USAGE)
    if code < 0:
        name = signal.Signals(-code).name
        raise CommandError(f"{target}: importing it ended the interpreter by {name}", status=USAGE)
    if not came_back:
        raise CommandError(f"{target}: importing it ended the interpreter with status {code}", status=USAGE)


def _answer(target: str, tell: int) -> NoReturn:
    """Import a target in the process made for it, say how that went, and end."""
    try:
        for each in _INTERRUPTS:
            signal.signal(each, signal.SIG_IGN if each is signal.SIGINT else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _INTERRUPTS)
        signal.alarm(_IMPORT_SECONDS)
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        os.write(tell, _came_back(target))
    finally:
        os._exit(0)


def _came_back(target: str) -> bytes:
    """Import a target; whatever that raises is met again by the import that counts, and then told."""
    try:
        load_target(target)
    except KeyboardInterrupt:
        return b"interrupted"
    except (Exception, SystemExit):  # noqa: BLE001
        return b"raised"
    return b"imported"
