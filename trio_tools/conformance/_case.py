"""One run of one tool: which arguments, which way a cancellation comes, and at which step."""

import base64
import binascii
import json
import zlib
from enum import StrEnum
from typing import Any, Final, Self, cast, final

from attrs import evolve, frozen

__all__ = ["Case", "Kind", "Mode", "TokenError", "Way", "named_in", "read_token", "token_of"]


@final
class Kind(StrEnum):
    """What a case does with the tool."""

    REFERENCE = "reference"
    CANCEL = "cancel"
    TIMEOUT = "timeout"
    REPEAT = "repeat"
    PAIR = "pair"
    ROUTES = "routes"


@final
class Way(StrEnum):
    """How a cancellation comes.

    ``caller``: the call scope is cancelled. ``deadline``: its deadline is moved to now. ``both``: the two
    in one step. ``sibling``: another task in the caller's nursery fails. ``shutdown``: a trio scope around
    everything is cancelled.
    """

    CALLER = "caller"
    DEADLINE = "deadline"
    BOTH = "both"
    SIBLING = "sibling"
    SHUTDOWN = "shutdown"


@final
class Mode(StrEnum):
    """Where at a step a cancellation lands: as the task parks, or as it is about to be resumed."""

    BLOCK = "block"
    RESUME = "resume"


class TokenError(ValueError):
    """A replay token is not one, or is of another version."""


@final
@frozen(kw_only=True)
class Case:
    """One run, and all that it depends on besides the tool.

    Attributes:
        kind: what is done with the tool.
        arguments: the JSON arguments of the call.
        way: how the cancellation comes, for the kinds that have one.
        mode: where at the step it lands.
        step: the step, from 1; 0 stands for the place before the first. Of a pair: the step of the first
            call at which the second begins.
        second: mode and step of another cancellation, during the cleanup, see `second_way`.
        deviations: where the order of tasks departs from first spawned, first run.
        draw: whether the picture of the run is taken down.
    """

    kind: Kind
    arguments: Any
    way: Way = Way.CALLER
    mode: Mode = Mode.BLOCK
    step: int = -1
    second: tuple[Mode, int] | None = None
    deviations: tuple[tuple[int, int], ...] = ()
    draw: bool = False

    def drawn(self) -> Self:
        """Return the same case with its picture taken down."""
        return evolve(self, draw=True)

    def called_with(self, arguments: Any) -> Self:
        """Return the same case with other arguments."""
        return evolve(self, arguments=arguments)

    @property
    def second_way(self) -> Way:
        """How the second cancellation comes: from outside, or where that was the first, from the caller."""
        return Way.CALLER if self.way is Way.SHUTDOWN else Way.SHUTDOWN

    @property
    def simplicity(self) -> tuple[int, ...]:
        """Smaller for what is easier to understand: no other order, one cancellation, at a line, early."""
        return (
            tuple(Kind).index(self.kind),
            len(self.deviations),
            int(self.second is not None),
            int(self.step == 0),
            tuple(Way).index(self.way),
            self.step,
            tuple(Mode).index(self.mode),
        )

    def __str__(self) -> str:
        place = f"at step {self.step} ({self.mode})"
        said = {
            Kind.REFERENCE: "not cancelled",
            Kind.CANCEL: f"cancelled by {self.way} {place}",
            Kind.TIMEOUT: f"its timeout passes {place}",
            Kind.REPEAT: "called twice"
            + (f", the first cancelled by {self.way} {place}" if self.step >= 0 else ""),
            Kind.PAIR: f"two at once, the second beginning at step {self.step} of the first",
            Kind.ROUTES: "by every route" + (f", cancelled by {self.way} {place}" if self.step >= 0 else ""),
        }[self.kind]
        if self.second is not None:
            said += f", and by {self.second_way} at step {self.second[1]} ({self.second[0]})"
        if self.deviations:
            said += ", order " + " ".join(f"{choice}:{position}" for choice, position in self.deviations)
        return said


_VERSION: Final = 1


def token_of(case: Case, tool: str = "") -> str:
    """Return the replay token of ``case``: text without spaces that `read_token` inverts.

    Args:
        tool: the name of the tool, for a target that holds several.
    """
    packed = [
        _VERSION,
        case.kind,
        case.arguments,
        case.way,
        case.mode,
        case.step,
        case.second,
        case.deviations,
        *([tool] if tool else []),
    ]
    raw = zlib.compress(json.dumps(packed, separators=(",", ":")).encode("ascii"), 9)
    return "tt1-" + base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")


def read_token(token: str) -> Case:
    """Return the case that a replay token stands for.

    Raises:
        TokenError: when the text is no token of this version.
    """
    try:
        _, kind, arguments, way, mode, step, second, deviations, *_ = _unpacked(token)
        return Case(
            kind=Kind(kind),
            arguments=arguments,
            way=Way(way),
            mode=Mode(mode),
            step=int(step),
            second=None if second is None else (Mode(second[0]), int(second[1])),
            deviations=tuple((int(choice), int(position)) for choice, position in deviations),
        )
    except (ValueError, TypeError, KeyError, IndexError, zlib.error, binascii.Error) as error:
        raise TokenError(f"{token[:40]!r} is no replay token of this version") from error


def named_in(token: str) -> str | None:
    """Return the name of the tool that a replay token is for, None when it tells none or is no token."""
    try:
        name = _unpacked(token)[8]
    except (ValueError, IndexError, zlib.error, binascii.Error):
        return None
    return name if isinstance(name, str) else None


def _unpacked(token: str) -> list[Any]:
    head, _, body = token.strip().partition("-")
    if head != "tt1":
        raise ValueError("no such version")
    raw = zlib.decompress(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return [*cast("list[Any]", json.loads(raw))]
