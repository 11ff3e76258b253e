"""Where the command line keeps what it records."""

import os
import sys
from pathlib import Path
from typing import Final

__all__ = ["default_store"]

_NAME: Final = "trio-tools"


def default_store() -> Path:
    """Return the file that runs are recorded in unless ``--store`` names another.

    It lies in the platform's folder for the state of programs. The folder need not exist yet.
    """
    try:
        from platformdirs import user_state_path
    except ImportError:
        # The extra `cli` is not installed: what platformdirs would say on the systems that we know.
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Application Support" / _NAME / "runs.sqlite3"
        base = os.environ.get("XDG_STATE_HOME", "").strip()
        return (Path(base) if base else Path.home() / ".local" / "state") / _NAME / "runs.sqlite3"
    return user_state_path(_NAME, appauthor=False) / "runs.sqlite3"
