"""What a person would type to start this program again, as it was started now."""

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

__all__ = ["how_it_was_started"]

_SCRIPT: Final = "trio-tools"
_NOX: Final = "NOX_CURRENT_SESSION"


def how_it_was_started() -> str:
    """Return the words that start the command line: the script where it was used, else Python and the module.

    Both by name alone where that name leads to them, so that the line can be copied as it stands.
    """
    started = Path(sys.argv[0])
    if started.stem == _SCRIPT:
        return _known_as(_SCRIPT, started)
    python = Path(sys.executable)
    return f"{_known_as('python', python)} -m {__package__}"


def _known_as(name: str, path: Path) -> str:
    found = shutil.which(name)
    # Nox puts its environment on the path for as long as a session runs, and not for whoever reads the line.
    known = found is not None and Path(found).absolute() == path.absolute() and _NOX not in os.environ
    return name if known else shlex.quote(str(path))
