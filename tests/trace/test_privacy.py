"""What each level of privacy lets into the store."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trace.strategies import steps
from trio_tools import Artifact, ToolOutcome, to_json_text
from trio_tools.trace._privacy import PrivacyLevel, filter_step, mask_text, text_writer
from trio_tools.trace._step import RunStep
from trio_tools.trace._wire import KEYS, KeyClass, step_to_json, structure_step

MARKER = "tr0mb0ne"
LOW = [PrivacyLevel.NONE, PrivacyLevel.METADATA]


def telling_step() -> RunStep:
    return RunStep(
        kind="tool",
        round=2,
        duration_ms=7.5,
        messages_sent=({"role": "user", "text": MARKER},),
        content=MARKER,
        thinking=MARKER,
        raw={"deep": [{MARKER: MARKER}]},
        requested_tool_calls=({"id": MARKER, "name": "lookup", "arguments": MARKER},),
        tool_name="lookup",
        tool_arguments={MARKER: MARKER},
        tool_result=MARKER,
        tool_artifacts=(Artifact("table", MARKER, {MARKER: 1}),),  # pyright: ignore[reportArgumentType]
        tool_is_error=True,
        tool_outcome=ToolOutcome.CANCELLED,
        tool_cause={"kind": "caller", "name": "nightly", "reason": MARKER},
    )


@pytest.mark.rule("TR-12")
@pytest.mark.parametrize("level", LOW)
def test_no_content_survives_metadata_and_its_measure_does(level: PrivacyLevel) -> None:
    row = step_to_json(filter_step(telling_step(), level))

    assert MARKER not in to_json_text(row)
    assert row == {
        "kind": "tool",
        "round": 2,
        "durationMs": 7.5,
        "toolName": "lookup",
        "toolIsError": True,
        "toolOutcome": "cancelled",
        "toolCause": {"kind": "caller", "name": "nightly"},
        "contentRedacted": True,
        "messagesSentCount": 1,
        "contentLength": 8,
        "thinkingLength": 8,
        "toolResultLength": 8,
        "toolArtifactsCount": 1,
        "toolArtifactTypes": ["table"],
        "requestedToolNames": ["lookup"],
    }


@pytest.mark.rule("TR-12")
@given(steps(), st.sampled_from(LOW))
def test_each_content_key_is_gone_from_any_step(step: RunStep, level: PrivacyLevel) -> None:
    row = step_to_json(filter_step(step, level))

    assert not {key.name for key in KEYS if key.cls is KeyClass.CONTENT} & set(row)
    assert '"reason"' not in to_json_text({"toolCause": row.get("toolCause")})


@pytest.mark.rule("TR-12")
@given(steps(), st.sampled_from(PrivacyLevel))
def test_fixed_meta_and_additive_keys_survive_every_level(step: RunStep, level: PrivacyLevel) -> None:
    before, after = step_to_json(step), step_to_json(filter_step(step, level))
    kept = {key.name for key in KEYS if key.cls in {KeyClass.FIXED, KeyClass.META}} - {"toolCause"}

    assert {name: after.get(name) for name in kept} == {name: before.get(name) for name in kept}
    if step.tool_cause is not None:
        cause: Any = after["toolCause"]
        assert (cause["kind"], cause["name"]) == (step.tool_cause["kind"], step.tool_cause["name"])


@pytest.mark.rule("TR-12")
@given(steps(), st.sampled_from(PrivacyLevel))
def test_filtering_twice_is_filtering_once(step: RunStep, level: PrivacyLevel) -> None:
    once = filter_step(step, level)

    assert filter_step(once, level) == once
    assert structure_step(step_to_json(once)) == once


@pytest.mark.rule("TR-12")
@given(steps())
def test_full_is_verbatim(step: RunStep) -> None:
    assert filter_step(step, PrivacyLevel.FULL) is step


@pytest.mark.rule("TR-12")
@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-abcdefghijklmnopqrstuvwx123456",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "AKIAABCDEFGHIJKLMNOP",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc123def456",
        "Bearer abcdef1234567890",
        "password=hunter2",
        'the "api_key": "12345abcde"',
        "postgresql://anna:hunter2@db.example/x",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----",
        "xoxb-123456789012-abcdef",
    ],
)
def test_secrets_of_well_known_shapes_are_masked(secret: str) -> None:
    masked = mask_text(f"see {secret} there")

    assert "[redacted]" in masked
    assert not any(
        part in masked for part in ("hunter2", "12345abcde", "MIIEow", "abcdef", "ABCDEF", "eyJzdWIi")
    )
    assert masked.startswith("see ")


@pytest.mark.rule("TR-12")
def test_what_a_name_calls_a_secret_is_masked_and_what_is_none_is_kept() -> None:
    step = RunStep(
        kind="tool",
        tool_arguments={
            "password": "hunter2",
            "clientSecret": ["a", {"b": "c"}],
            "X-Api-Key": "q",
            "max_tokens": "12",
            "city": "Graz",
            "token": 5,
        },
    )

    assert filter_step(step, PrivacyLevel.REDACTED).tool_arguments == {
        "password": "[redacted]",
        "clientSecret": ["[redacted]", {"b": "[redacted]"}],
        "X-Api-Key": "[redacted]",
        "max_tokens": "12",
        "city": "Graz",
        "token": 5,
    }


@pytest.mark.rule("TR-12")
@pytest.mark.parametrize("length", [1999, 2000, 2001, 50_000])
def test_redacted_caps_each_string_at_two_thousand_characters(length: int) -> None:
    text = "ä" * length
    step = RunStep(
        kind="llm", content=text, raw={"a": [text]}, tool_artifacts=(Artifact("text", text, {"text": text}),)
    )  # pyright: ignore[reportArgumentType]
    filtered: Any = filter_step(step, PrivacyLevel.REDACTED)

    for kept in (filtered.content, filtered.raw["a"][0], filtered.tool_artifacts[0].data["text"]):
        assert len(kept) == min(length, 2000)
        assert (kept == text) is (length <= 2000)


@pytest.mark.rule("TR-12")
@given(
    st.lists(
        st.sampled_from(
            [
                "password=",
                "token: ",
                "sk-",
                "Bearer ",
                "a" * 990,
                "a" * 20,
                "x",
                " ",
                "[redacted",
                "]",
                "…",
                "://u:p@",
                "\n",
            ]
        ),
        max_size=12,
    ).map("".join)
)
def test_masking_twice_is_masking_once_wherever_the_cut_falls(text: str) -> None:
    once = mask_text(text)

    assert mask_text(once) == once
    assert len(once) <= 2000


@pytest.mark.rule("TR-12")
@given(steps(), st.sampled_from(PrivacyLevel))
def test_the_text_that_is_stored_is_that_of_the_filtered_step(step: RunStep, level: PrivacyLevel) -> None:
    text = text_writer(level)(step)

    assert json.loads(text) == step_to_json(filter_step(step, level))
    assert structure_step(text) == filter_step(step, level)


@pytest.mark.rule("TR-12")
def test_what_does_not_come_to_rest_is_masked_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trio_tools.trace._privacy._SECRETS", ((re.compile(r"\Z"), "x"),))

    assert mask_text("grows with every pass") == "[redacted]"


@pytest.mark.rule("ST-2", "TR-12")
@pytest.mark.parametrize("level", PrivacyLevel)
def test_numbers_that_python_does_not_print_are_stored(level: PrivacyLevel) -> None:
    step = RunStep(kind="llm", round=10**5000, content="x", total_tokens=-(10**4400))

    assert structure_step(text_writer(level)(step)) == filter_step(step, level)


@pytest.mark.rule("ST-2")
@pytest.mark.parametrize("level", PrivacyLevel)
def test_a_step_without_artifacts_has_no_key_for_them(level: PrivacyLevel) -> None:
    text = text_writer(level)(RunStep(kind="tool", tool_artifacts=()))

    assert text == '{"kind":"tool","round":0,"durationMs":0}'
