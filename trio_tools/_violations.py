"""What is wrong with a value, in the words and the order that `JS-15` fixes."""

from typing import TypeAlias, final

from attrs import define, field

from ._errors import text_of
from ._json import JsonValue, to_json_text

Path: TypeAlias = str | None
"""Where in a document: ``a.b[1].c``, or None for its root."""


@final
class Violations(ValueError):  # noqa: N818  (what is wrong, not yet whose error it is)
    """A value does not have the declared shape.

    `items` lists every violation in walk order (`JS-5`): those of a value before those of its members, and of
    an object first what is missing, then the declared properties, then those that are not declared.
    """

    def __init__(self, items: tuple[str, ...]) -> None:
        super().__init__("; ".join(items))
        self.items = items

    def __reduce__(self) -> tuple[type["Violations"], tuple[tuple[str, ...]]]:
        return Violations, (self.items,)


def member(path: Path, key: str | int) -> str:
    """Returns the path of a member: a property by its name, an item of an array by its index."""
    if isinstance(key, int):
        return f"{path or ''}[{key}]"
    return key if path is None else f"{path}.{key}"


@define(eq=False)
class Report:
    """Collects violations; `root` is what the root of the document is called: ``arguments`` or ``value``."""

    root: str
    lines: list[str] = field(factory=list[str])

    def _name(self, path: Path) -> str:
        return f'"{self.root if path is None else path}"'

    def must_be(self, path: Path, what: str) -> None:
        """Adds that the value is not ``what``, such as ``a string``."""
        self.lines.append(f"{self._name(path)} must be {what}")

    def must_be_among(self, path: Path, options: list[JsonValue]) -> None:
        """Adds that the value is none of the options."""
        self.must_be(path, f"one of {to_json_text(options)}")

    def must_equal(self, path: Path, expected: JsonValue) -> None:
        """Adds that the value is not the one that is expected."""
        self.must_be(path, to_json_text(expected))

    def missing(self, path: Path, key: str) -> None:
        """Adds that the object at the path lacks a property that it must have."""
        self.lines.append(f'missing required property "{member(path, key)}"')

    def undeclared(self, path: Path, key: str) -> None:
        """Adds that the object at the path has a property that it must not have."""
        name = member(path, key)
        self.lines.append(f'"{name}" is not a declared property (additionalProperties: false)')

    def no_branch(self, path: Path) -> None:
        """Adds that no branch of an ``anyOf`` accepts the value."""
        self.lines.append(f"{self._name(path)} must match at least one anyOf branch")

    def not_one_branch(self, path: Path, matched: int) -> None:
        """Adds that not exactly one branch of a ``oneOf`` accepts the value."""
        self.lines.append(f"{self._name(path)} must match exactly one oneOf branch (matched {matched})")

    def sentence(self, path: Path, text: str) -> None:
        """Adds what somebody else has to say about the value."""
        self.lines.append(f"{self._name(path)}: {text}")

    def refused(self, path: Path, error: Exception) -> None:
        """Adds that the author's own class did not accept the value."""
        self.sentence(path, text_of(error))

    def violations(self) -> Violations:
        """Returns what was collected."""
        return Violations(tuple(self.lines))
