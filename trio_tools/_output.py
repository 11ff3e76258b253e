"""What a value becomes on its way out: frozen, checked, rendered to content, projected to meta (`MA-9`)."""

from collections.abc import Callable

from ._classification import Came
from ._content import Content, TextContent, content_of
from ._errors import ToolError, is_kind, text_of
from ._json import JsonValue, NotLossless, freeze_value
from ._leaves import capture_sync, close_coroutine
from ._life import Life
from ._schema import Violations
from ._tool import Tool

__all__ = ["InvalidOutputError", "Output", "make_output"]


class InvalidOutputError(Exception):
    """A value, or what was to be made of it, is not what the tool declared; the text says how."""


Output = tuple[JsonValue, tuple[Content, ...], JsonValue | None]
"""What a valid value gives a result: its value, its content and its meta."""


def make_output(life: Life, tool: Tool, value: object) -> Output:
    """Make a result's value, content and meta of ``value``, as ``tool`` declares them.

    Raises:
        InvalidOutputError: when the value or one of the others is not as declared (`MA-11`, `MA-12`).
    """
    depth = life.settings.bounds.json_depth
    try:
        if tool.output_plan.runs_foreign_code:
            life.stale = True
        checked = tool.output_plan.accept(value, depth=depth)
    except NotLossless:
        close_coroutine(value)
        raise InvalidOutputError("value is not lossless JSON") from None
    except Violations as violations:
        raise InvalidOutputError("; ".join(violations.items)) from None
    return checked, _rendered(life, tool, checked), _projected(life, tool, checked)


def _rendered(life: Life, tool: Tool, value: JsonValue) -> tuple[Content, ...]:
    if tool.render is None:
        return (TextContent(value if isinstance(value, str) else tool.output_plan.text(value)),)
    answer = _call(life, "render", tool.render, value)
    try:
        return content_of(answer)
    except Exception:
        close_coroutine(answer)
        raise InvalidOutputError("render returned non-lossless JSON") from None


def _projected(life: Life, tool: Tool, value: JsonValue) -> JsonValue | None:
    if tool.meta is None or life.parent is not None:
        return None
    answer = _call(life, "meta", tool.meta, value)
    try:
        return freeze_value(answer, depth=life.settings.bounds.json_depth)
    except NotLossless:
        close_coroutine(answer)
        raise InvalidOutputError("meta returned non-lossless JSON") from None


def _call(life: Life, option: str, fn: Callable[..., object], value: JsonValue) -> object:
    life.stale = True
    captured = capture_sync(fn, life.arguments, value)
    if captured.came is Came.SUCCESS:
        return captured.answer
    masked = life.masking_text()
    texts = [
        text_of(error) if is_kind(error, ToolError) else masked or text_of(error) for error in captured.errors
    ]
    raise InvalidOutputError(f"{option} failed: {'; '.join(texts) or 'Cancelled'}")
