"""How a command ends: the exit codes, and the one line that a person gets instead of a traceback."""

from typing import Final

__all__ = ["FINE", "FOUND", "INTERRUPTED", "UNRESOLVED", "USAGE", "CommandError", "one_line"]

FINE: Final = 0
FOUND: Final = 1
"""Findings, or a call that did not end ok, or a command that could not do its work."""
USAGE: Final = 2
UNRESOLVED: Final = 3
INTERRUPTED: Final = 130


class CommandError(Exception):
    """The command cannot do its work; the text is one line that names the thing and says what to do.

    Args:
        text: the line; it is printed behind the name of the program.
        status: the exit code.
    """

    def __init__(self, text: str, *, status: int = FOUND) -> None:
        super().__init__(text)
        self.status: Final = status


def one_line(text: str) -> str:
    """Return ``text`` in one line that cannot steer a terminal.

    Every run of white space, line ends included, is one space, and what cannot be printed is an escape.
    """
    line = " ".join(text.split())
    return line if line.isprintable() else "".join(map(_escaped, line))


def _escaped(char: str) -> str:
    return char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
