"""What the module of a command defines."""

import argparse
from typing import Protocol, TypeAlias

__all__ = ["CommandModule", "Subparsers"]

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
