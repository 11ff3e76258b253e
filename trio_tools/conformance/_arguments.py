"""The arguments that a tool is tried with: drawn, given, or derived from its schema."""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from trio_tools import JsonValue, NotLossless, Tool, freeze_value, thaw

from ._derive import SchemaError, strategy_for

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["ArgumentsError", "draw_arguments", "shrink_arguments"]


_DEPTH: Final = 512
"""Levels of nesting that a registry admits by default."""


class ArgumentsError(Exception):
    """No arguments could be had for a tool."""


def draw_arguments(tool: Tool, source: object, *, count: int, seed: int) -> list[Any]:
    """Return up to ``count`` different arguments objects, the same for the same seed.

    Args:
        source: a Hypothesis strategy, a sequence of examples, or None to derive a strategy from the
            tool's schema. All examples of a sequence are used.

    Raises:
        ArgumentsError: when the strategy fails, an example does not fit the tool's schema, so that the
            body would never run, or the source is something else.
    """
    if source is None and _takes_nothing(tool):
        return [{}]
    if isinstance(source, Sequence) and not isinstance(source, str | bytes):
        return [
            _fitting(tool, place, example) for place, example in enumerate(cast("Sequence[Any]", source), 1)
        ]
    strategy = _strategy(tool, source)
    return _drawn(strategy, count, seed)


def _fitting(tool: Tool, place: int, example: Any) -> Any:
    try:
        frozen = freeze_value(example, depth=_DEPTH)
    except NotLossless:
        return example  # refused further on, for every source of arguments alike
    try:
        tool.arguments_plan.bind(frozen)
    except ValueError as error:
        raise ArgumentsError(f"example {place} does not fit the schema of {tool.name!r}: {error}") from None
    return example


def _takes_nothing(tool: Tool) -> bool:
    parameters: object = tool.parameters
    return (
        # A schema may also be a plain boolean.
        isinstance(parameters, dict)
        and not cast("dict[str, object]", parameters).get("properties")
        and not cast("dict[str, object]", parameters).get("required")
    )


def _strategy(tool: Tool, source: object) -> "SearchStrategy[Any]":
    try:
        from hypothesis.strategies import SearchStrategy
    except ModuleNotFoundError as error:
        raise ArgumentsError(
            "arguments are drawn by Hypothesis: install trio-tools[conformance], or give a list of examples"
        ) from error
    if source is None:
        return _derived(tool)
    if not isinstance(source, SearchStrategy):
        raise ArgumentsError(
            f"arguments must be a strategy or a sequence of examples, not {type(source).__name__}"
        )
    return cast("SearchStrategy[Any]", source)


def _derived(tool: Tool) -> "SearchStrategy[Any]":
    try:
        return strategy_for(cast("Mapping[str, Any]", thaw(cast("JsonValue", tool.parameters))))
    except SchemaError as error:
        raise ArgumentsError(f"no arguments can be derived from the schema, give some: {error}") from error


def _drawn(strategy: "SearchStrategy[Any]", count: int, seed: int) -> list[Any]:
    from hypothesis import HealthCheck, Phase, given, settings

    unhealthy: list[HealthCheck] = [
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
        HealthCheck.data_too_large,
    ]
    from hypothesis import seed as with_seed
    from hypothesis.errors import HypothesisException

    found: dict[str, Any] = {}

    @with_seed(seed)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=unhealthy,
    )
    @given(strategy)
    def draw(value: Any) -> None:
        found.setdefault(_key(value), value)

    state = random.getstate()
    try:
        draw()
    except HypothesisException as error:
        raise ArgumentsError(f"the arguments strategy gives nothing: {error}") from error
    except Exception as error:
        raise ArgumentsError(f"the arguments strategy raised {type(error).__name__}: {error}") from error
    finally:
        random.setstate(state)
    return list(found.values())[:count]


def _key(value: Any) -> str:
    try:
        return json.dumps(value, sort_keys=True)
    except (TypeError, ValueError):
        return repr(value)


_TRIES: Final = 40


def shrink_arguments(
    tool: Tool, source: object, worst: Any, fails: Callable[[Any], bool], *, seed: int
) -> Any:
    """Return the simplest arguments found that still fail, ``worst`` if there are none simpler.

    Args:
        fails: runs a tool with arguments and says whether it fails in the same way.
    """
    if source is None and _takes_nothing(tool):
        return worst
    if isinstance(source, Sequence) and not isinstance(source, str | bytes):
        shorter = sorted(cast("Sequence[Any]", source), key=lambda value: (len(_key(value)), _key(value)))
        return next((value for value in shorter if fails(value)), worst)
    from hypothesis import HealthCheck, Phase, find, settings

    unhealthy: list[HealthCheck] = [
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
        HealthCheck.data_too_large,
    ]
    from hypothesis.errors import HypothesisException

    asked: dict[str, bool] = {}

    def failing(value: Any) -> bool:
        key = _key(value)
        if key not in asked:
            asked[key] = len(asked) < _TRIES and fails(value)
        return asked[key]

    try:
        return find(
            _strategy(tool, source),
            failing,
            settings=settings(
                max_examples=_TRIES,
                database=None,
                deadline=None,
                phases=[Phase.generate, Phase.shrink],
                suppress_health_check=unhealthy,
            ),
            random=random.Random(seed),
        )
    except HypothesisException:
        return worst
