"""What the module of a command defines, and the kinds of arguments that several have."""

import argparse
from typing import Protocol, TypeAlias

__all__ = ["CommandModule", "Subparsers", "positive"]

# The standard library names the type only in private.
Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # pyright: ignore[reportPrivateUsage]


class CommandModule(Protocol):
    """A module that is one command."""

    def add_parser(self, subparsers: Subparsers) -> object:
        """Add the command's parser, with help for each argument."""
        ...

    def run(self, args: argparse.Namespace) -> int:
        """Run the command and return its exit code; `CommandError` ends it with one line."""
        ...


def positive(text: str) -> int:
    """Return the number of an argument that counts something, for `argparse`."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {number}")
    return number
