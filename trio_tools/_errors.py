"""What can go wrong, and whose doing it was.

Three kinds of people meet an error here. The *author* of a tool or the *programmer* of an
application made a mistake that shows at definition or registration: `DefinitionError` and
`RegistrationError` are raised to them and never become a result. A *body* or a *hook* refuses on
purpose: it raises `ToolError`, whose code and message survive into the result. A *peer* on a wire
failed: `TransportError` says so, and one flag on it, which no text and no status can set, says that
the call it served was cancelled.
"""

from typing import Final, TypeGuard, TypeVar, final

from attrs import field, frozen

from ._text import shown

__all__ = [
    "ABORTED",
    "ABORTED_BEFORE_DISPATCH",
    "BLOCKED",
    "DENIED",
    "INVALID_ARGS",
    "INVALID_TOOL_OUTPUT",
    "NOT_JSON",
    "POLICY_ERROR",
    "TOOL_ERROR",
    "TOOL_TIMEOUT",
    "UNKNOWN_TOOL",
    "DefinitionError",
    "PolicyError",
    "RegistrationError",
    "ToolError",
    "ToolFailure",
    "TransportError",
    "failure_of",
    "is_kind",
    "standard_failure",
    "text_of",
]

E = TypeVar("E", bound=BaseException)

ABORTED: Final = "ABORTED"
ABORTED_BEFORE_DISPATCH: Final = "ABORTED_BEFORE_DISPATCH"
TOOL_TIMEOUT: Final = "TOOL_TIMEOUT"
UNKNOWN_TOOL: Final = "UNKNOWN_TOOL"
INVALID_ARGS: Final = "INVALID_ARGS"
INVALID_TOOL_OUTPUT: Final = "INVALID_TOOL_OUTPUT"
NOT_JSON: Final = "NOT_JSON"
DENIED: Final = "DENIED"
BLOCKED: Final = "BLOCKED"
TOOL_ERROR: Final = "TOOL_ERROR"
POLICY_ERROR: Final = "POLICY_ERROR"


class DefinitionError(TypeError, ValueError):
    """A tool cannot be built from what its author wrote (`JS-1`, `JS-7`, `JS-8`, `TI-2`).

    Raised when the tool is defined, never during a call. The message names the parameter, type or
    keyword at fault and says what to write instead.
    """


class RegistrationError(TypeError, ValueError):
    """A tool, hook or restriction cannot be added to a layer (`LA-3`, `LA-11`, `LA-13`).

    Raised when it is registered, never during a call, and the layer is left as it was.
    """


class ToolError(Exception):
    """A body or a hook refuses on purpose; code and message reach the result unchanged (`JS-10`).

    Args:
        message: the text for the model, used as it is behind ``Error: ``.
        code: any non-empty string. The outcome is FAILED whatever it says (`OU-3`).

    Raises:
        ValueError: when ``code`` is not a non-empty string.
    """

    def __init__(self, message: str, *, code: str) -> None:
        # A subclass of str may carry methods of its own, and enums of strings are the usual codes.
        plain = str.__str__(code) if isinstance(code, str) else ""  # pyright: ignore[reportUnnecessaryIsInstance]
        if not plain:
            raise ValueError(f"the code of a ToolError is a non-empty string, not {shown(code)}")
        super().__init__(message)
        self.message: Final = message
        self.code: Final = plain

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_tool_error, (type(self), self.args, dict(self.__dict__))


def _rebuild_tool_error(
    cls: type[ToolError], args: tuple[object, ...], state: dict[str, object]
) -> ToolError:
    error = cls.__new__(cls, *args)
    error.__dict__.update(state)
    return error


class PolicyError(Exception):
    """A gate, guard, wrapper, reviewer or finalizer answered with something malformed."""


@final
class TransportError(Exception):
    """The wire to a remote tool failed (`TP-1`).

    An error made by `for_cancelled_call` says that the call it served was cancelled; every other one
    is an ordinary failure, whatever its text, status or code (`TP-2`).
    """

    _cancelled: bool = False

    @classmethod
    def for_cancelled_call(cls, server: str) -> "TransportError":
        """Make the one error that means: the call to ``server`` was cancelled (`TP-3`)."""
        error = cls(f"the call to {server} was cancelled")
        error._cancelled = True
        return error

    @property
    def cancelled(self) -> bool:
        """Whether this error reports a cancelled call; only `for_cancelled_call` sets it."""
        return self._cancelled


def _text(value: object) -> str:
    # What a failure says is stored and shown, end to end, and an enum of strings is a usual code.
    if not isinstance(value, str):
        raise TypeError(f"message, code and name of a failure are strings, not {shown(value)}")
    return str.__str__(value)


@frozen
class ToolFailure:
    """Why a call that is not OK ended as it did.

    Attributes:
        message: the sentence for a person or a model, without the ``Error: `` of the content.
        code: which rule decided, such as ``TOOL_TIMEOUT``; never empty.
        name: the class of the error, such as ``ToolTimeoutError`` or ``ValueError``.

    Its repr shows code and name only (`OU-6`).

    Raises:
        TypeError: when one of them is no string.
    """

    message: str = field(converter=_text)
    code: str = field(converter=_text)
    name: str = field(converter=_text)

    def __repr__(self) -> str:
        return f"ToolFailure(code={self.code!r}, name={self.name!r})"


def is_kind(error: object, kind: type[E]) -> TypeGuard[E]:
    """Return whether ``error`` is of a class, by its type: an exception may lie about its ``__class__``."""
    return issubclass(type(error), kind)


def text_of(error: BaseException) -> str:
    """Return the text of ``error``, its class name where that is empty (`JS-9`); never raises.

    An error whose ``__str__`` fails reads as ``<unprintable NAME>``.
    """
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:
        return f"<unprintable {name}>"
    # A subclass of str may carry methods of its own into every later formatting.
    return str.__str__(text) or name


def failure_of(error: BaseException, *, code: str, masked: str | None) -> ToolFailure:
    """Describe ``error`` as a failure.

    Args:
        code: the code of an error that brings none of its own (`JS-10`).
        masked: the text that replaces that of an uncoded error (`JS-11`), None to show it.
    """
    own = getattr(error, "code", None) if is_kind(error, ToolError) else None
    # A subclass may forget to call the constructor it inherits, or assign what is no code.
    if isinstance(own, str) and own:
        return ToolFailure(text_of(error), str.__str__(own), type(error).__name__)
    return ToolFailure(text_of(error) if masked is None else masked, code, type(error).__name__)


_STANDARD: Final = {
    ABORTED: ("AbortError", "tool call aborted"),
    ABORTED_BEFORE_DISPATCH: ("AbortError", "tool call aborted before dispatch"),
    TOOL_TIMEOUT: ("ToolTimeoutError", "tool call timed out after {milliseconds}ms"),
    UNKNOWN_TOOL: ("ToolNotFoundError", 'unknown tool "{tool}"'),
    INVALID_ARGS: ("ToolArgsError", "invalid arguments: {violations}"),
    INVALID_TOOL_OUTPUT: ("ToolOutputError", 'tool "{tool}" returned invalid output: {violations}'),
    NOT_JSON: ("NotJsonError", "tool execution arguments must be losslessly JSON-serializable"),
    DENIED: ("DeniedError", "{reason}"),
    BLOCKED: ("BlockedError", "{feedback}"),
    TOOL_ERROR: ("ToolError", "{reason}"),
    POLICY_ERROR: ("PolicyError", "{reason}"),
}


def standard_failure(code: str, **fields: object) -> ToolFailure:
    """Return the failure of a rule rather than of an exception, worded as the table says (`JS-12`)."""
    name, template = _STANDARD[code]
    return ToolFailure(template.format_map(fields), code, name)
