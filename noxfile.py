"""Sessions that run on a fresh machine: Python 3.11 or newer and pip are all they ask for.

`python -m pip install "nox[uv]"`, then `python -m nox -s <session>`. Without uv nox falls back to
virtualenv and pip: the same environments, made about ten times slower.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nox
from nox.command import CommandFailed

nox.needs_version = ">=2025.10.16"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_venv = "yes"
nox.options.download_python = "never"
if "NOX_ENVDIR" in os.environ:
    nox.options.envdir = os.environ["NOX_ENVDIR"]
# nox makes a missing interpreter an error where CI is set; here it is skipped with a line that says
# so, and only a machine that has none of them is an error (see `tests`).
nox.options.error_on_missing_interpreters = False
# A check that fails shows what failed last of all, and wastes no time on the rest.
nox.options.stop_on_first_error = "CI" in os.environ
nox.options.sessions = ["tests", "types", "lint", "wheel", "docs"]

ROOT = Path(__file__).parent
VERSIONS = ("3.11", "3.12", "3.13")
PACKAGE = "trio_tools"
TEMPORARY = tempfile.gettempdir()
# A package of somebody else, which has nothing but the wheel.
STRANGERS = "tests/conformance/test_throwaway.py"
# What the tests read beside the package; the wheel session takes it to an empty folder.
BESIDE_THE_TESTS = (
    "README.md",
    "pyproject.toml",
    "noxfile.py",
    ".ci",
    "tests",
    "docs",
    "examples",
    "benchmarks",
    "changelog.d",
)

# Where to catch a cancellation, and to make a result of it, is the work itself.
CATCHES_CANCELLED = (
    "_batch",
    "_body",
    "_delegation",
    "_fusion",
    "_leaves",
    "_pipeline",
    "_scope",
    "_watch",
    "conformance/_probe",
    "conformance/_workers",
    "reference/_call_",
    "reference/_execute",
    "reference/_plain_asyncio",
)


def _runs(version: str) -> bool:
    # A shim named python3.12 may exist and then refuse to run, so being on the path is not enough.
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return True
    command = shutil.which(f"python{version}")
    if command is None:
        return False
    return subprocess.run([command, "-c", ""], capture_output=True, check=False).returncode == 0


FOUND = tuple(version for version in VERSIONS if _runs(version))
# Instructions are counted with `sys.monitoring`, which is younger than the oldest version.
COUNTING = tuple(version for version in FOUND if version != "3.11")


def _group(name: str) -> list[str]:
    groups = nox.project.load_toml(ROOT / "pyproject.toml")["dependency-groups"]
    return list(groups[name])


def _install(session: nox.Session, python: Path, *requirements: str) -> None:
    """Install into an environment that is not the session's own."""
    if session.venv_backend == "uv":
        session.run("uv", "pip", "install", "--quiet", "--python", str(python), *requirements, external=True)
    else:
        session.run(str(python), "-m", "pip", "install", "--quiet", *requirements, external=True)


@nox.session
def demo(session: nox.Session) -> None:
    """Run the main job: one batch that ends in every way, and its timeline."""
    session.install("-e", ".[cli,mcp]", *_group("demo"))
    session.run("trio-tools", "demo", *session.posargs)


if FOUND:

    @nox.session(python=VERSIONS)
    def tests(session: nox.Session) -> None:
        """Run the tests on each interpreter found; the newest one measures branch coverage."""
        session.install("-e", ".[all]", *_group("test"), *_group("demo"))
        if session.posargs:
            session.run("pytest", *session.posargs)
            return
        if session.python != FOUND[-1]:
            session.run("pytest", "--numprocesses=auto", "-m", "not slow")
            return
        # Coverage starts before pytest does, whose plugins import the package, and starts itself in each
        # process that the tests start.
        measured = ("coverage", "run", "-m", "pytest")
        env = {"COVERAGE_FILE": str(Path(session.virtualenv.location) / "coverage")}
        session.run("coverage", "erase", env=env)
        session.run(*measured, "--numprocesses=auto", "-m", "not slow", env=env)
        session.run("coverage", "combine", "--quiet", env=env)
        session.run("coverage", "report", "--include", f"{PACKAGE}/_*.py", "--fail-under", "100", env=env)
        # What is slow depends on the machine, not on the interpreter: once is enough, and measuring
        # coverage would make it slower still. Half of these tests wait more than they work. What is
        # exhaustive, and sampled by another test, takes as long as all others: `-- -m exhaustive`.
        session.run("pytest", "--numprocesses=4", "-m", "slow and not exhaustive", "--durations=15")

else:

    @nox.session(python=False)
    def tests(session: nox.Session) -> None:
        """Say that no interpreter was found."""
        session.error(f"none of Python {', '.join(VERSIONS)} was found: install one of them")


@nox.session
def types(session: nox.Session) -> None:
    """Hold package, tests and examples against pyright strict, and the public types against 100 %."""
    session.install("-e", ".[all]", *_group("test"), *_group("types"))
    session.run("pyright", *session.posargs)
    report = session.run("pyright", "--verifytypes", PACKAGE, "--ignoreexternal", silent=True)
    score = [line.strip() for line in str(report).splitlines() if "completeness score" in line]
    session.log(f"{PACKAGE}: {' '.join(score)}")
    if score != ["Type completeness score: 100%"]:
        session.error(f"the public types are not complete:\n{report}")


@nox.session
def lint(session: nox.Session) -> None:
    """Run ruff, the formatter's check and flake8-async."""
    session.install(*_group("lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    # Tests are left out: half of them misuse trio on purpose.
    checked = {str(path) for name in (PACKAGE, "examples") for path in Path(name).rglob("*.py")}
    catching = {path for path in checked if path.removeprefix(f"{PACKAGE}/").startswith(CATCHES_CANCELLED)}
    # ASYNC9 asks for a checkpoint in each async function, ASYNC114 for a list of all startable ones, and
    # ASYNC122 is about versions of trio that are older than ours.
    flake = ("flake8-async", "--enable=ASYNC1,ASYNC2")
    session.run(*flake, "--disable=ASYNC114,ASYNC122", *sorted(checked - catching))
    session.run(*flake, "--disable=ASYNC102,ASYNC103,ASYNC104,ASYNC12,ASYNC114", *sorted(catching))


@nox.session
def wheel(session: nox.Session) -> None:
    """Build, install into empty environments, and run the tests from an empty folder."""
    session.install(*_group("wheel"))
    # Absolute, for what is installed there is run from another folder.
    place = Path(session.create_tmp()).resolve()
    shutil.rmtree(place)
    place.mkdir()
    session.run("python", "-m", "build", "--outdir", str(place / "dist"), silent=True)
    (built,) = (place / "dist").glob("*.whl")
    python = Path("bin") / "python"

    session.run("python", "-m", "venv", str(place / "core"))
    _install(session, place / "core" / python, str(built))
    everything = place / "everything"
    session.run("python", "-m", "venv", str(everything))
    _install(session, everything / python, f"{built}[all]", *_group("test"), *_group("demo"))

    empty = place / "empty"
    empty.mkdir()
    with session.chdir(empty):
        # Isolated, so that neither this folder nor a variable of the machine lends a module.
        session.run(str(place / "core" / python), "-I", "-c", f"import {PACKAGE}", external=True)
        session.run(str(everything / python), "-I", "-m", "pip", "check", external=True)
        for name in filter(lambda name: (ROOT / name).exists(), BESIDE_THE_TESTS):
            if (ROOT / name).is_dir():
                shutil.copytree(
                    ROOT / name, empty / name, ignore=shutil.ignore_patterns("__pycache__", "_build")
                )
            else:
                shutil.copy(ROOT / name, empty / name)
        path = os.pathsep.join([str(everything / "bin"), os.environ["PATH"]])
        # The folder that nox calls temporary is closed to the user that a database server runs as.
        env = {"PATH": path, "TMPDIR": TEMPORARY}
        pytest = (str(everything / python), "-P", "-m", "pytest")
        if session.posargs:
            session.run(*pytest, *session.posargs, external=True, env=env)
            return
        session.run(*pytest, "--numprocesses=auto", "-m", "not slow", external=True, env=env)
        session.run(*pytest, STRANGERS, external=True, env=env)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the docs, where a warning is an error, and run every snippet of them."""
    session.install("-e", ".[all]", *_group("test"), *_group("demo"), *_group("docs"))
    built = ROOT / "docs" / "_build"
    session.run(
        "sphinx-build", "--fail-on-warning", "--keep-going", "--quiet", "-b", "html", "docs", str(built)
    )
    session.run("pytest", "tests/test_docs.py", *session.posargs)
    session.log(f"open {built / 'index.html'}")


@nox.session(python=FOUND[-1] if FOUND else None)
def bench(session: nox.Session) -> None:
    """Print what calls cost, beside other ways to call tools; `-- --write docs` redoes the page."""
    session.install("-e", ".[conformance]")
    # The others may ask for versions that we do not: they get an environment of their own.
    place = Path(session.virtualenv.location) / "peers"
    python = place / "bin" / "python"
    if not python.exists():
        session.run("python", "-m", "venv", str(place))
    _install(session, python, "-e", str(ROOT))
    for requirement in _group("peers"):
        try:
            _install(session, python, requirement)
        except CommandFailed:
            session.warn(f"{requirement} could not be installed: its rows will say that it is absent")
    session.run("python", "-m", "benchmarks", "--peers", str(python), *session.posargs)


if COUNTING:

    @nox.session(python=COUNTING)
    def instructions(session: nox.Session) -> None:
        """Hold the count of instructions of a call to its budget; `-- --update "reason"` stores it."""
        session.install("-e", ".")
        session.run("python", "-m", "benchmarks.instructions", *session.posargs)

else:

    @nox.session(python=False)
    def instructions(session: nox.Session) -> None:
        """Say that nothing was counted."""
        session.skip("no Python that counts instructions was found: 3.12 or newer has them")


@nox.session(python=FOUND[-1] if FOUND else None)
def soak(session: nox.Session) -> None:
    """Hold random programs against both models, on all cores: `-- --minutes M` or `-- --programs N`."""
    session.install("-e", ".[all]")
    # A Ctrl-C ends it with the report of what it has come to, which takes a moment.
    options = session.posargs or ("--minutes", "5")
    session.run("python", "-m", "trio_tools.reference.soak", *options, interrupt_timeout=60)


@nox.session(venv_backend="uv", python=FOUND[0] if FOUND else None)
def lowest(session: nox.Session) -> None:
    """Run the tests with the lowest version that each dependency declares; needs uv."""
    session.install("--resolution", "lowest-direct", "-e", ".[all]", *_group("test"), *_group("demo"))
    session.run("uv", "pip", "list", external=True)
    session.run("pytest", *session.posargs)


@nox.session(python=FOUND[-1] if FOUND else None)
def mutants(session: nox.Session) -> None:
    """Change the core in small ways and see whether the tests notice; needs Python 3.12 or newer."""
    session.install("-e", ".[all]", *_group("test"), *_group("demo"))
    session.run("python", "tools/mutate.py", *session.posargs)
