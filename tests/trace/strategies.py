"""Steps of every kind, and JSON of every kind, for Hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from trio_tools import Artifact, Settlement, ToolOutcome
from trio_tools.trace._step import EventKind, RunStep, StepKind

text = st.text(max_size=30)
# Halves of surrogate pairs are what a program may hold, though no store can.
broken_text = st.text(st.characters(exclude_categories=()), max_size=30)
integers = st.integers() | st.integers(min_value=2**63, max_value=10**40)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | integers | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)
json_objects = st.dictionaries(text, json_values, max_size=4)
artifacts = st.builds(Artifact, st.sampled_from(["table", "text"]), text, json_values)
requested_calls = st.fixed_dictionaries({"id": text, "name": text, "arguments": json_values})
counts = st.integers(min_value=0, max_value=10**9)


def causes(reason: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, str]]:
    return st.fixed_dictionaries({"kind": text, "name": text}, optional={"reason": reason})


def _maybe(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=members)


@st.composite
def steps(draw: st.DrawFn, kinds: st.SearchStrategy[str] | None = None) -> RunStep:
    """Draw a step with any members that do not contradict one another."""
    kind = draw(kinds if kinds is not None else st.sampled_from(list(EventKind)))
    members: dict[str, Any] = draw(
        _maybe(
            messages_sent=st.lists(json_objects, max_size=3),
            tool_specs=st.lists(text, max_size=3),
            content=text,
            thinking=text,
            raw=json_values,
            finish_reason=text,
            prompt_tokens=counts,
            completion_tokens=counts,
            total_tokens=counts,
            estimated_cost=st.floats(min_value=0, max_value=1e6) | counts,
            requested_tool_calls=st.lists(requested_calls, max_size=3),
            context_budget=json_objects,
            dropped_sources=st.lists(text, max_size=3),
            tool_name=text,
            tool_arguments=json_values,
            tool_result=text,
            tool_artifacts=st.lists(artifacts, max_size=3),
            tool_code=text,
            tool_cause=causes(text),
            write_target_table=text,
            write_target_uid=integers,
            approved=st.booleans(),
            decided_by=integers | text,
            submitted_by=integers | text,
        )
    )
    if draw(st.booleans()):
        members["tool_is_error"] = draw(st.booleans())
    if kind == StepKind.TOOL and draw(st.booleans()):
        outcome = draw(st.sampled_from(list(ToolOutcome)))
        members |= {"tool_outcome": outcome, "tool_is_error": outcome is not ToolOutcome.OK}
    if draw(st.booleans()):
        settlement = draw(st.sampled_from(list(Settlement)))
        members |= {
            "tool_settlement": settlement,
            "tool_dispatched": settlement is not Settlement.NOT_DISPATCHED,
        }
    return RunStep(
        kind=kind,
        round=draw(st.integers(min_value=0, max_value=10**6)),
        duration_ms=draw(st.floats(min_value=0, max_value=1e9) | counts),
        **members,
    )
