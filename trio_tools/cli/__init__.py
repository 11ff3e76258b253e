"""The command line: `main` is what the script ``trio-tools`` runs."""

from ._main import main

__all__ = ["main"]
