"""Messages about servers: one line each, clipped, and stripped of what could steer a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_tools.mcp._faults import answer_fault, gone_fault, malformed_fault, remote_text, start_fault


@pytest.mark.rule("TP-8")
@given(st.text(alphabet=st.characters(exclude_categories=()), max_size=1000))
def test_remote_text_is_one_short_line_without_control_characters(text: str) -> None:
    shown = remote_text(text)

    assert len(shown) <= 200
    assert shown.isprintable()
    shown.encode()


@pytest.mark.rule("TP-8")
def test_remote_text_keeps_what_is_harmless() -> None:
    assert remote_text("no such file: 'naïve 漢字'") == "no such file: 'naïve 漢字'"
    assert remote_text("\x1b[31mred\x07 \u202eover\r\nline\t\ttab") == "[31mred over line tab"
    assert remote_text("x" * 200) == "x" * 200
    assert remote_text("x" * 201) == "x" * 199 + "…"


@pytest.mark.rule("TP-2")
def test_each_fault_names_the_server_and_says_what_happened() -> None:
    assert str(start_fault("git", "there is no git-mcp", "install it")) == (
        'server "git" did not start: there is no git-mcp; install it'
    )
    assert str(start_fault("git", "it sulks")) == 'server "git" did not start: it sulks'
    assert (
        str(answer_fault("git", "show", "bad\nref")) == 'server "git" answered "show" with an error: bad ref'
    )
    assert str(answer_fault("git", "show", "\0")) == 'server "git" answered "show" with an error'
    assert (
        str(malformed_fault("git", "show", "no\nJSON"))
        == 'server "git" gave a malformed answer to "show": no JSON'
    )
    assert str(gone_fault("git", "show", "ended", sent=False)) == 'server "git" ended; "show" was not sent'


@pytest.mark.rule("TP-1", "TP-7")
def test_no_fault_says_that_a_call_was_cancelled_and_none_guesses_its_effect() -> None:
    gone = gone_fault("git", "commit", "ended (exit status 1)", sent=True)

    assert "whether it took effect is unknown" in str(gone)
    assert not gone.cancelled
    assert not answer_fault("git", "show", "Request cancelled").cancelled
