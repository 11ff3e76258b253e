"""A replay token says everything about a run, and nothing else is taken for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_tools.conformance import Case, Kind, Mode, TokenError, Way
from trio_tools.conformance._case import named_in, read_token, token_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
CASES = st.builds(
    Case,
    kind=st.sampled_from(Kind),
    arguments=JSON,
    way=st.sampled_from(Way),
    mode=st.sampled_from(Mode),
    step=st.integers(-1, 10_000),
    second=st.none() | st.tuples(st.sampled_from(Mode), st.integers(0, 99)),
    deviations=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 9)), max_size=3).map(tuple),
)


@given(CASES)
def test_a_token_is_read_back_as_the_case_it_was_made_of(case: Case) -> None:
    token = token_of(case)

    assert read_token(token) == case
    assert token.isascii()
    assert not set(token) & set(" \t\n'\"\\$`")


@given(CASES, st.text(min_size=1))
def test_a_token_may_tell_which_tool_it_is_for(case: Case, name: str) -> None:
    token = token_of(case, name)

    assert (read_token(token), named_in(token)) == (case, name)
    assert named_in(token_of(case)) is None
    assert named_in(token[:-3]) is None


@given(st.text() | st.text().map("tt1-{}".format) | CASES.map(lambda case: token_of(case)[:-3]))
def test_anything_else_is_refused_as_a_token(text: str) -> None:
    with pytest.raises(TokenError, match="no replay token"):
        read_token(text)


@pytest.mark.parametrize("way", Way)
def test_a_second_cancellation_comes_another_way_than_the_first(way: Way) -> None:
    case = Case(kind=Kind.CANCEL, arguments={}, way=way, step=1, second=(Mode.RESUME, 3))

    assert case.second_way is not way
    assert str(case).endswith(f"by {way} at step 1 (block), and by {case.second_way} at step 3 (resume)")
