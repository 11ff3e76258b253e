"""What is wrong with a value, in the words and the order that `JS-15` fixes."""

from collections.abc import Callable
from typing import final

from attrs import define, field

from ._errors import text_of
from ._json import JsonValue, to_json_text


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


@final
@define(eq=False)
class Place:
    """Where in a document a value is: ``a.b[1].c``.

    The text is made when it is needed, for a path is as long as its document is deep. Two places are the same
    only if they are the same object, since the paths of two places may read alike.
    """

    parent: "Place | None" = None
    key: str | int = ""

    def member(self, key: str | int) -> "Place":
        """Returns the place of a member: of a property by its name, of an item by its index."""
        return Place(self, key)

    def named(self, root: str) -> str:
        """Returns the text of the path, which is `root` for the root of a document."""
        steps: list[str] = []
        place = self
        while place.parent is not None:
            steps.append(f"[{place.key}]" if isinstance(place.key, int) else f".{place.key}")
            place = place.parent
        if not steps:
            return root
        # Paths start at the root without naming it.
        steps[-1] = steps[-1].removeprefix(".")
        return "".join(reversed(steps))


@final
@define(eq=False)
class Report:
    """Collects violations; `root` is what the root of the document is called: ``arguments`` or ``value``.

    A silent report only counts them: it judges a branch whose own violations nobody will read.
    """

    root: str
    silent: bool = False
    count: int = 0
    lines: list[str] = field(factory=list[str])

    def _add(self, place: Place, line: Callable[[str], str]) -> None:
        self.count += 1
        if not self.silent:
            self.lines.append(line(place.named(self.root)))

    def must_be(self, place: Place, what: str) -> None:
        """Adds that the value is not ``what``, such as ``a string``."""
        self._add(place, lambda name: f'"{name}" must be {what}')

    def must_be_among(self, place: Place, options: JsonValue) -> None:
        """Adds that the value is none of the options, which are an array."""
        self._add(place, lambda name: f'"{name}" must be one of {to_json_text(options)}')

    def must_equal(self, place: Place, expected: JsonValue) -> None:
        """Adds that the value is not the one that is expected."""
        self._add(place, lambda name: f'"{name}" must be {to_json_text(expected)}')

    def missing(self, place: Place, key: str) -> None:
        """Adds that the object lacks a property that it must have."""
        self._add(place.member(key), lambda name: f'missing required property "{name}"')

    def undeclared(self, place: Place, key: str) -> None:
        """Adds that the object has a property that it must not have."""
        self._add(
            place.member(key),
            lambda name: f'"{name}" is not a declared property (additionalProperties: false)',
        )

    def no_branch(self, place: Place) -> None:
        """Adds that no branch of an ``anyOf`` accepts the value."""
        self._add(place, lambda name: f'"{name}" must match at least one anyOf branch')

    def not_one_branch(self, place: Place, matched: int) -> None:
        """Adds that not exactly one branch of a ``oneOf`` accepts the value."""
        self._add(place, lambda name: f'"{name}" must match exactly one oneOf branch (matched {matched})')

    def fault(self, place: Place, text: str) -> None:
        """Adds what the value does or is, such as ``has non-unique elements``."""
        self._add(place, lambda name: f'"{name}" {text}')

    def sentence(self, place: Place, text: str) -> None:
        """Adds a whole sentence that somebody else has to say about the value."""
        self._add(place, lambda name: f'"{name}": {text}')

    def refused(self, place: Place, error: Exception) -> None:
        """Adds that the author's own class did not accept the value."""
        self.sentence(place, text_of(error))

    def branch(self) -> "Report":
        """Returns a silent report, to judge a value that may fail."""
        return Report(self.root, silent=True)

    def violations(self) -> Violations:
        """Returns what was collected, without repetitions."""
        return Violations(tuple(dict.fromkeys(self.lines)))
