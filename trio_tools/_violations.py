"""What is wrong with a value, in the words and the order that `JS-15` fixes.

Whoever sends a value decides how much is wrong with it, and how long the names in it are. So what is said
about it is bounded where it is made: each path, and each other text in a line, keeps head and tail, and when
the lines have filled as much as a result publishes of a text by default, the rest is counted.
"""

from collections.abc import Callable
from typing import Final, final

from attrs import Attribute, define, field

from ._errors import ToolError, is_kind, text_of
from ._json import JsonValue, to_json_text
from ._text import clipped

_LINES: Final = 50_000
"""Characters of all lines together."""
_SHOWN: Final = 5_000
"""Characters of a path, or of another text in a line."""


@final
class Violations(ValueError):  # noqa: N818  (what is wrong, not yet whose error it is)
    """A value does not have the declared shape.

    `items` lists every violation in walk order (`JS-5`): those of a value before those of its members, and of
    an object first what is missing, then the declared properties, then those that are not declared. Of more
    than 50 000 characters can say, the last item is ``... and N more``.
    """

    def __init__(self, items: tuple[str, ...], quoted: tuple[str | None, ...] | None = None) -> None:
        super().__init__("; ".join(items))
        self.items = items
        self._quoted = quoted or (None,) * len(items)

    def masked(self, text: str) -> tuple[str, ...]:
        """Returns the items with ``text`` in place of what uncoded exceptions said (`JS-11`)."""
        return tuple(
            item if place is None else f"{place}: {text}"
            for item, place in zip(self.items, self._quoted, strict=True)
        )

    def __reduce__(self) -> tuple[type["Violations"], tuple[object, ...]]:
        return Violations, (self.items, self._quoted)


@final
@define(eq=False, repr=False)
class Place:
    """Where in a document a value is: ``a.b[1].c``.

    The text is made when it is needed, for a path is as long as its document is deep. Two places are the same
    only if they are the same object, since the paths of two places may read alike; from one root each is made
    once.
    """

    parent: "Place | None" = None
    key: str | int = ""
    _members: dict[str | int, "Place"] = field(factory=dict[str | int, "Place"], init=False)

    def member(self, key: str | int) -> "Place":
        """Returns the place of a member: of a property by its name, of an item by its index."""
        found = self._members.get(key)
        if found is None:
            found = self._members[key] = Place(self, key)
        return found

    def named(self, root: str) -> str:
        """Returns the text of the path, which is `root` for the root of a document."""
        steps: list[str] = []
        place = self
        while place.parent is not None:
            steps.append(f"[{place.key}]" if isinstance(place.key, int) else f".{clipped(place.key, _SHOWN)}")
            place = place.parent
        if not steps:
            return root
        # Paths start at the root without naming it.
        steps[-1] = steps[-1].removeprefix(".")
        return clipped("".join(reversed(steps)), _SHOWN)


def _said_by(error: Exception) -> str:
    # The validators of attrs put what they say before what they looked at, none of which is for a reader.
    match error.args:
        case (str() as text, Attribute(), *_):
            return str.__str__(text)
        case _:
            return text_of(error)


@final
@define(eq=False, repr=False)
class Report:
    """Collects violations; `root` is what the root of the document is called: ``arguments`` or ``value``.

    A silent report only counts them: it judges a branch whose own violations nobody will read.
    """

    root: str
    silent: bool = False
    count: int = 0
    # The lines in order, each once; beside a line that quotes an uncoded exception stands its place.
    _lines: dict[str, str | None] = field(factory=dict[str, str | None], init=False)
    _room: int = field(default=_LINES, init=False)

    def _add(self, place: Place, line: Callable[[str], str], *, quotes: bool = False) -> None:
        if not self.silent and self._room > 0:
            name = place.named(self.root)
            text = line(name)
            if text in self._lines:
                return
            self._room -= len(text)
            if self._room > 0:
                self._lines[text] = f'"{name}"' if quotes else None
        self.count += 1

    def must_be(self, place: Place, what: str) -> None:
        """Adds that the value is not ``what``, such as ``a string``."""
        self._add(place, lambda name: f'"{name}" must be {what}')

    def must_be_among(self, place: Place, options: JsonValue) -> None:
        """Adds that the value is none of the options, which are an array."""
        self._add(place, lambda name: f'"{name}" must be one of {clipped(to_json_text(options), _SHOWN)}')

    def must_equal(self, place: Place, expected: JsonValue) -> None:
        """Adds that the value is not the one that is expected."""
        self._add(place, lambda name: f'"{name}" must be {clipped(to_json_text(expected), _SHOWN)}')

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

    def refused_name(self, place: Place, key: str) -> None:
        """Adds that the object has a property whose name is not allowed."""
        self._add(
            place,
            lambda name: f'"{name}" the property name {clipped(to_json_text(key), _SHOWN)} is not allowed',
        )

    def sentence(self, place: Place, text: str) -> None:
        """Adds a whole sentence that somebody else has to say about the value."""
        self._add(place, lambda name: f'"{name}": {clipped(text, _SHOWN)}')

    def refused(self, place: Place, error: Exception) -> None:
        """Adds that the author's own class did not accept the value."""
        self._add(
            place,
            lambda name: f'"{name}": {clipped(_said_by(error), _SHOWN)}',
            quotes=not is_kind(error, ToolError),
        )

    def branch(self) -> "Report":
        """Returns a silent report, to judge a value that may fail."""
        return Report(self.root, silent=True)

    def violations(self) -> Violations:
        """Returns what was collected, without repetitions."""
        items, quoted = tuple(self._lines), tuple(self._lines.values())
        if (unlisted := self.count - len(items)) > 0:
            items, quoted = (*items, f"... and {unlisted} more"), (*quoted, None)
        return Violations(items, quoted)
