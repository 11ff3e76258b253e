"""The pure model, held against the rules one by one: each expectation is read off the rule book."""

import pytest
from attrs import evolve

from trio_tools.reference._call_cases import layers
from trio_tools.reference._call_predict import instants, predict
from trio_tools.reference._call_program import (
    Action,
    Ambient,
    ApproverScript,
    Attempt,
    CallProgram,
    CallSpec,
    CancelAt,
    CancelCaller,
    CancelNursery,
    Cleanup,
    Conclude,
    Defer,
    Fail,
    FailGroup,
    FinalizerScript,
    GateScript,
    GuardScript,
    Hold,
    LeaveOpen,
    MoveDeadline,
    Nested,
    ObserverScript,
    Proceed,
    Register,
    Return,
    ReviewScript,
    ScopeSpec,
    Shielded,
    Sleep,
    Spawn,
    Stray,
    ToolScript,
    Unregister,
    WrapperScript,
)
from trio_tools.reference._call_tables import Published, Trace
from trio_tools.reference._call_time import Cause

BEFORE = "ABORTED_BEFORE_DISPATCH"
SLOW = ToolScript("a", (Sleep(8),))


def run(*tools: ToolScript, calls: int = 1, **more: object) -> CallProgram:
    return CallProgram(tools=tools, calls=(CallSpec("a"),) * calls, **more)  # pyright: ignore[reportArgumentType]


def traces(program: CallProgram) -> tuple[Trace, ...]:
    prediction = predict(program)
    assert prediction.complete
    return prediction.traces


def only(program: CallProgram) -> Published:
    (trace,) = traces(program)
    return trace.published[-1]


def facts(program: CallProgram) -> tuple[str, str | None, str]:
    result = only(program)
    return result.outcome, result.code, result.settlement


def cause(program: CallProgram) -> tuple[str, str, float] | None:
    found = only(program).cause
    assert found is None or found.since == found.until
    return None if found is None else (found.kind, found.name, found.until)


def ends(program: CallProgram) -> str:
    (trace,) = traces(program)
    return trace.ends[-1][1]


@pytest.mark.rule("CA-10", "MA-8")
def test_refused_arguments_beat_a_cancelled_caller() -> None:
    program = CallProgram((SLOW,), (CallSpec("a", "lossy"),), scopes=(ScopeSpec(timeout=0),))

    assert facts(program) == ("failed", "NOT_JSON", "not_dispatched")
    assert cause(program) is None


@pytest.mark.rule("CA-11", "SC-6")
def test_a_caller_cancelled_at_entry_starts_nothing() -> None:
    program = run(SLOW, scopes=(ScopeSpec(timeout=0),), gates=(GateScript((Fail(),)),))

    assert facts(program) == ("cancelled", BEFORE, "not_dispatched")
    assert cause(program) == ("deadline", "caller", 0)


@pytest.mark.rule("CA-12", "GA-13", "GA-14")
@pytest.mark.parametrize(
    ("gate", "expected"),
    [
        (GateScript((Sleep(8),)), ("cancelled", BEFORE)),
        (GateScript((Shielded(8),)), ("cancelled", BEFORE)),
        (GateScript((Shielded(8),), "deny"), ("failed", "DENIED")),
        (GateScript((Shielded(8), Fail())), ("failed", "POLICY_ERROR")),
        (GateScript((Shielded(8), Fail("MINE"))), ("failed", "MINE")),
        (GateScript((Attempt((Sleep(8),)),), "deny"), ("failed", "DENIED")),
    ],
)
def test_a_caller_cancelled_in_the_gates(gate: GateScript, expected: tuple[str, str]) -> None:
    program = run(SLOW, gates=(gate,), cancels=(CancelAt(3),))

    assert facts(program)[:2] == expected


@pytest.mark.rule("GA-13", "CA-21")
def test_a_stray_cancelled_of_a_gate_is_an_error_of_the_policy() -> None:
    assert facts(run(SLOW, gates=(GateScript((Stray(),)),))) == ("failed", "POLICY_ERROR", "not_dispatched")


@pytest.mark.rule("CA-13", "GA-7", "GA-8", "GA-9")
@pytest.mark.parametrize(
    ("approver", "cancelled", "expected"),
    [
        (None, False, ("failed", "DENIED")),
        (ApproverScript((), "rejected"), False, ("failed", "DENIED")),
        (ApproverScript((), "cancelled"), False, ("failed", "DENIED")),
        (ApproverScript((), "allowed_once"), False, ("ok", None)),
        (ApproverScript((), "malformed"), False, ("failed", "POLICY_ERROR")),
        (ApproverScript((Shielded(8),), "cancelled"), True, ("cancelled", BEFORE)),
        (ApproverScript((Shielded(8),), "rejected"), True, ("failed", "DENIED")),
        (ApproverScript((Shielded(8),), "allowed_once"), True, ("cancelled", BEFORE)),
        (ApproverScript((Sleep(8),), "allowed_once"), True, ("cancelled", BEFORE)),
    ],
)
def test_an_approval_and_its_caller(
    approver: ApproverScript | None, cancelled: bool, expected: tuple[str, str | None]
) -> None:
    program = run(
        ToolScript("a"),
        gates=(GateScript((), "ask"),),
        approver=approver,
        cancels=(CancelAt(3),) if cancelled else (),
    )

    assert facts(program)[:2] == expected


@pytest.mark.rule("GA-10", "CA-12")
def test_a_guard_denies_even_under_a_cancelled_caller() -> None:
    program = run(SLOW, gates=(GateScript((CancelCaller(),)),), guards=(GuardScript((), "deny"),))

    assert facts(program) == ("failed", "DENIED", "not_dispatched")


@pytest.mark.rule("CA-14", "WR-18")
@pytest.mark.parametrize(
    ("wrapper", "expected", "contexts"),
    [
        (WrapperScript((Sleep(8), Proceed())), ("cancelled", BEFORE), ()),
        (WrapperScript((Shielded(8), Proceed())), ("cancelled", BEFORE), ()),
        (WrapperScript((Shielded(8),), "success"), ("cancelled", BEFORE), ("w",)),
        (WrapperScript((Shielded(8),), "failure"), ("failed", "w"), ("w",)),
        (WrapperScript((Shielded(8), Fail())), ("failed", "POLICY_ERROR"), ()),
    ],
)
def test_a_caller_cancelled_before_a_wrapper_delegates(
    wrapper: WrapperScript, expected: tuple[str, str], contexts: tuple[str, ...]
) -> None:
    program = run(SLOW, wrappers=(wrapper,), cancels=(CancelAt(3),))

    assert facts(program) == (*expected, "not_dispatched")
    assert only(program).contexts == contexts


@pytest.mark.rule("CA-16", "BO-5", "BO-6", "BO-7", "BO-12")
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ((Sleep(8),), ("cancelled", "ABORTED", "cancelled")),
        ((Shielded(8),), ("cancelled", "ABORTED", "returned")),
        ((Shielded(8), Return(valid=False)), ("failed", "INVALID_TOOL_OUTPUT", "returned")),
        ((Shielded(8), Fail()), ("failed", "TOOL_ERROR", "raised")),
        ((Attempt((Sleep(8),), (Fail("MINE"),)),), ("failed", "MINE", "raised")),
        ((Attempt((Sleep(8),)),), ("cancelled", "ABORTED", "returned")),
        ((CancelCaller(),), ("cancelled", "ABORTED", "returned")),
    ],
)
def test_a_caller_cancelled_in_the_body(body: tuple[object, ...], expected: tuple[str, str, str]) -> None:
    tool = ToolScript("a", (Defer("x"), *body))  # pyright: ignore[reportArgumentType]
    program = run(tool, cancels=(CancelAt(3),))

    assert facts(program) == expected
    assert only(program).contexts == ("x",)


@pytest.mark.rule("BO-8", "BO-9", "BO-10", "BO-11", "BO-12")
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ((FailGroup((None,), cancelled=True),), ("failed", "TOOL_ERROR", "raised")),
        ((FailGroup(("MINE", "MINE")),), ("failed", "MINE", "raised")),
        ((FailGroup(("MINE", None)),), ("failed", "TOOL_ERROR", "raised")),
        ((Stray(),), ("failed", "TOOL_ERROR", "cancelled")),
        ((CancelNursery(), Sleep(8)), ("failed", "TOOL_ERROR", "cancelled")),
        ((Spawn((Sleep(8),)), CancelNursery()), ("ok", None, "returned")),
        ((LeaveOpen(), Return()), ("failed", "TOOL_ERROR", "returned")),
        ((Spawn((Sleep(8), Fail("MINE"))), Sleep(24)), ("failed", "MINE", "raised")),
    ],
)
def test_what_a_body_can_do_to_itself(
    body: tuple[object, ...], expected: tuple[str, str | None, str]
) -> None:
    assert facts(run(ToolScript("a", body))) == expected  # pyright: ignore[reportArgumentType]


@pytest.mark.rule("CA-17", "WR-17")
@pytest.mark.parametrize(
    ("wrapper", "expected"),
    [
        (WrapperScript((Proceed(), Shielded(8))), ("cancelled", "ABORTED")),
        (WrapperScript((Proceed(), Sleep(8))), ("cancelled", "ABORTED")),
        (WrapperScript((Proceed(), Shielded(8)), "success"), ("cancelled", "ABORTED")),
        (WrapperScript((Proceed(), Shielded(8)), "failure"), ("failed", "w")),
        (WrapperScript((Proceed(), Shielded(8), Fail())), ("failed", "POLICY_ERROR")),
    ],
)
def test_a_caller_cancelled_after_a_wrapper_delegated(
    wrapper: WrapperScript, expected: tuple[str, str]
) -> None:
    program = run(ToolScript("a"), wrappers=(wrapper,), cancels=(CancelAt(3),))

    assert facts(program) == (*expected, "returned")


@pytest.mark.rule("WR-18")
def test_the_latest_failure_stays_when_cancelled_leaves_the_wrappers() -> None:
    tool = ToolScript("a", (Defer("x"), Fail("MINE")))
    program = run(tool, wrappers=(WrapperScript((Proceed(), Sleep(8))),), cancels=(CancelAt(3),))

    assert facts(program) == ("failed", "MINE", "raised")
    assert only(program).contexts == ("x",)


@pytest.mark.rule("CA-18", "RE-6", "RE-7", "RE-8")
@pytest.mark.parametrize(
    ("decision", "expected", "contexts"),
    [
        ("accept", ("cancelled", "ABORTED"), ("x", "r")),
        ("block", ("failed", "BLOCKED"), ("r",)),
        ("malformed", ("failed", "POLICY_ERROR"), ()),
        ("invalid", ("failed", "INVALID_TOOL_OUTPUT"), ("x", "r")),
    ],
)
def test_a_caller_cancelled_in_review(
    decision: str, expected: tuple[str, str], contexts: tuple[str, ...]
) -> None:
    review = ReviewScript((Sleep(8),), decision, "r")  # pyright: ignore[reportArgumentType]
    program = run(ToolScript("a", (Defer("x"),)), reviewers=(review,), cancels=(CancelAt(3),))

    assert facts(program) == (*expected, "returned")
    assert only(program).contexts == contexts


@pytest.mark.rule("CA-19", "PU-7")
def test_a_cancellation_from_the_finalizer_or_an_observer_changes_nothing() -> None:
    tool = ToolScript("a", finalizer=FinalizerScript((CancelCaller(),)))

    assert facts(run(tool)) == ("ok", None, "returned")
    assert facts(run(ToolScript("a"), observers=(ObserverScript((CancelCaller(),)),))) == (
        "ok",
        None,
        "returned",
    )


@pytest.mark.rule("PU-3")
def test_a_finalizer_that_raises_drops_the_contexts() -> None:
    program = run(ToolScript("a", (Defer("x"),), finalizer=FinalizerScript((Fail(),))))

    assert facts(program) == ("failed", "POLICY_ERROR", "returned")
    assert only(program).contexts == ()


@pytest.mark.rule("TI-11", "TI-10", "TI-12", "TI-16", "TI-4", "TI-5")
@pytest.mark.parametrize(
    ("program", "settlement", "contexts"),
    [
        (run(ToolScript("a", (Defer("x"), Sleep(24)), timeout=5)), "cancelled", ("x",)),
        (run(ToolScript("a", (Shielded(8), Fail("MINE")), timeout=5)), "raised", ()),
        (run(ToolScript("a", (Hold(8),), timeout=5)), "returned", ()),
        (
            run(ToolScript("a", timeout=5), wrappers=(WrapperScript((Shielded(8), Proceed())),)),
            "not_dispatched",
            (),
        ),
        (
            run(
                ToolScript("a", (Defer("x"),), timeout=5),
                wrappers=(WrapperScript((Proceed(), Shielded(8)), "context"),),
            ),
            "returned",
            ("x",),
        ),
        (
            run(
                ToolScript("a", (Defer("x"),), timeout=5),
                wrappers=(WrapperScript((Proceed(), Sleep(8)), "context"),),
            ),
            "returned",
            ("x",),
        ),
    ],
)
def test_the_budget_alone(program: CallProgram, settlement: str, contexts: tuple[str, ...]) -> None:
    assert facts(program) == ("failed", "TOOL_TIMEOUT", settlement)
    assert cause(program) == ("deadline", "timeout", 5)
    assert only(program).contexts == contexts


@pytest.mark.rule("TI-13", "TI-14", "TI-15")
@pytest.mark.parametrize(
    ("at", "expected", "found"),
    [
        (3, ("cancelled", "ABORTED"), ("caller", "caller", 3)),
        (7, ("failed", "TOOL_TIMEOUT"), ("deadline", "timeout", 5)),
    ],
)
def test_the_budget_and_the_caller(at: int, expected: tuple[str, str], found: tuple[str, str, float]) -> None:
    program = run(ToolScript("a", (Shielded(8),), timeout=5), cancels=(CancelAt(at),))

    assert facts(program)[:2] == expected
    assert cause(program) == found


@pytest.mark.rule("TI-15", "TI-17", "WR-6")
def test_at_one_instant_the_caller_wins() -> None:
    program = run(ToolScript("a", (Sleep(8),), timeout=5), scopes=(ScopeSpec(timeout=5),))

    assert facts(program) == ("cancelled", "ABORTED", "cancelled")
    assert cause(program) == ("deadline", "caller", 5)


@pytest.mark.rule("TI-18", "WR-19")
@pytest.mark.parametrize(
    ("finish", "expected"),
    [("last", ("cancelled", "ABORTED", "cancelled")), ("translate", ("failed", "w", "cancelled"))],
)
def test_an_added_deadline_before_the_budget(finish: str, expected: tuple[str, str, str]) -> None:
    wrapper = WrapperScript((Proceed(timeout=3),), finish)  # pyright: ignore[reportArgumentType]
    program = run(ToolScript("a", (Sleep(8),), timeout=5), wrappers=(wrapper,))

    assert facts(program) == expected
    assert cause(program) == ("deadline", "w", 3)


@pytest.mark.rule("TI-19", "NE-4", "NE-5", "NE-8")
def test_the_budget_of_an_enclosing_call_ends_a_nested_one() -> None:
    program = run(ToolScript("a", (Nested("b"), Defer("never")), timeout=5), ToolScript("b", (Sleep(8),)))
    (trace,) = traces(program)
    timeout = Cause("deadline", "timeout", 5, 5)

    assert trace.published == (
        Published("c0/b", "cancelled", "ABORTED", "cancelled", timeout),
        Published("c0", "failed", "TOOL_TIMEOUT", "cancelled", timeout),
    )


@pytest.mark.rule("NE-6", "NE-7", "WR-21")
def test_contexts_and_conclusion_of_a_nested_call_join_the_enclosing_one() -> None:
    outer = ToolScript("a", (Defer("1"), Nested("b"), Defer("3")))
    program = run(outer, ToolScript("b", (Defer("2"), Conclude())))
    result = only(program)

    assert result.contexts == ("1", "2", "3")
    assert result.concludes


@pytest.mark.rule("PU-8", "SC-9", "SC-11")
@pytest.mark.parametrize(("place", "end"), [("outer", "raised"), ("inner", "raised"), (0, "returned")])
def test_execute_raises_only_where_ambient_scopes_are_cancelled(place: str | int, end: str) -> None:
    program = run(
        SLOW,
        outer=Ambient(),
        inner=Ambient(),
        cancels=(CancelAt(3, place),),  # pyright: ignore[reportArgumentType]
    )
    name = "caller" if place == 0 else "ambient"

    assert facts(program) == ("cancelled", "ABORTED", "cancelled")
    assert cause(program) == (name, name, 3)
    assert ends(program) == end


@pytest.mark.rule("WR-8")
def test_a_shield_hides_ambient_scopes_and_neither_the_scope_nor_its_owner() -> None:
    def under_shield(place: str | int) -> set[str]:
        program = run(
            SLOW,
            outer=Ambient(),
            inner=Ambient(),
            wrappers=(WrapperScript((Proceed(shield=True),)),),
            cancels=(CancelAt(3, place),),  # pyright: ignore[reportArgumentType]
        )
        return {trace.published[-1].settlement for trace in traces(program)}

    assert under_shield("inner") == {"returned"}
    assert under_shield("outer") == {"cancelled"}
    assert under_shield(0) == {"cancelled"}


@pytest.mark.rule("WR-7")
@pytest.mark.parametrize(
    ("timeout", "body", "expected"),
    [
        pytest.param(4, (Shielded(1), MoveDeadline(20), Sleep(8)), (None, "returned", None), id="away"),
        pytest.param(20, (MoveDeadline(4), Sleep(8)), ("ABORTED", "cancelled", 4), id="closer"),
        pytest.param(20, (MoveDeadline(0), Sleep(8)), ("ABORTED", "cancelled", 0), id="now"),
        pytest.param(4, (Hold(8), MoveDeadline(20), Sleep(8)), ("ABORTED", "cancelled", 4), id="too late"),
    ],
)
def test_a_deadline_is_moved_under_a_running_body(
    timeout: int, body: tuple[Action, ...], expected: tuple[str | None, str, float | None]
) -> None:
    """SC-7: at once, and either way; SC-8: one that has passed is final."""
    program = CallProgram((ToolScript("a", body),), (CallSpec("a"),), scopes=(ScopeSpec("turn", timeout),))
    (trace,) = predict(program).traces
    (result,) = trace.published

    assert (result.code, result.settlement, result.cause and result.cause.until) == expected


@pytest.mark.parametrize(
    ("script", "code"), [((Unregister("a"),), "UNKNOWN_TOOL"), ((Unregister("a"), Register("a")), None)]
)
def test_a_tool_is_looked_up_afresh_at_dispatch(script: tuple[Action, ...], code: str | None) -> None:
    program = CallProgram((ToolScript("a"),), (CallSpec("a"),), gates=(GateScript(script, "allow"),))
    (trace,) = predict(program).traces

    assert trace.published[0].code == code


def test_what_a_shield_hides_may_count_and_be_named_and_need_not() -> None:
    """WR-8 hides the ambient deadline from the body, CA-1 is asked outside of the shield: both may hold."""
    hiding = WrapperScript((Attempt((Sleep(8),)), Proceed(shield=True)))
    program = CallProgram(
        (ToolScript("a", (Sleep(8),)),),
        (CallSpec("a"),),
        wrappers=(hiding,),
        inner=Ambient(timeout=3),
        scopes=(ScopeSpec("turn", 4),),
    )
    causes = {
        (result.code, str(result.cause)) for trace in predict(program).traces for result in trace.published
    }

    assert causes == {
        (BEFORE, str(Cause("ambient", "ambient", 3, 3))),
        ("ABORTED", str(Cause("ambient", "ambient", 3, 3))),
        ("ABORTED", str(Cause("deadline", "turn", 4, 4))),
    }
    assert predict(evolve(program, scopes=(ScopeSpec(),))).traces[0].published[0].settlement == "returned"


@pytest.mark.rule("WR-6", "SC-14")
@pytest.mark.parametrize("delegation", [Proceed(timeout=3), Proceed(lexical=3)])
def test_a_request_from_outside_may_come_too_late_at_the_instant_of_an_own_source(
    delegation: Proceed,
) -> None:
    """Who waits for the body is interrupted once: by the own source, and not again by the ambient scope."""
    lingering = CallProgram(
        (ToolScript("a", (Shielded(8),)),),
        (CallSpec("a"),),
        wrappers=(WrapperScript((delegation,)),),
        inner=Ambient(),
        cancels=(CancelAt(3, "inner"),),
    )
    ((own, ambient), *other) = (
        {str(trace.published[0].cause and trace.published[0].cause.name) for trace in traces(program)}
        for program in (
            lingering,
            # Where one of the three is different, there is one answer.
            evolve(lingering, cancels=(CancelAt(2, "inner"),)),
            evolve(lingering, cancels=(CancelAt(4, "inner"),)),
            evolve(lingering, inner=Ambient(timeout=3), cancels=()),
            evolve(lingering, cancels=(CancelAt(3),)),
        )
    )

    name = "w" if delegation.timeout else "wrapper"
    assert {own, ambient} == {name, "ambient"}
    assert other == [{"ambient"}, {name}, {"ambient"}, {"caller"}]


@pytest.mark.rule("SC-9", "SC-14")
def test_a_request_from_outside_after_an_own_source_may_be_observed_at_the_end_of_the_body() -> None:
    program = CallProgram(
        (ToolScript("a", (Shielded(8),)),),
        (CallSpec("a"),),
        wrappers=(WrapperScript((Proceed(timeout=2), Sleep(8)), "success"),),
        inner=Ambient(),
        cancels=(CancelAt(3, "inner"),),
    )

    assert {trace.published[0].cause for trace in traces(program)} == {
        # Whether a cancelled result counts as the latest failure of WR-18 is open too.
        Cause("deadline", "w", 2, 2),
        Cause("ambient", "ambient", 3, 3),
        Cause("ambient", "ambient", 3, 8),
    }


def test_a_scope_of_a_wrapper_may_absorb_before_a_deadline_that_passed_while_the_loop_was_held() -> None:
    inner = WrapperScript((Cleanup((Sleep(8),), (Hold(8),)),))
    program = run(
        SLOW, wrappers=(WrapperScript((Proceed(lexical=1),)), inner), scopes=(ScopeSpec(timeout=3),)
    )

    assert {trace.published[0].code for trace in traces(program)} == {"w", BEFORE}


@pytest.mark.rule("SC-9", "WR-11")
def test_what_one_delegation_read_of_the_scope_of_a_wrapper_need_not_count_in_the_next() -> None:
    retry = WrapperScript((Proceed(attempts=2),))
    program = run(ToolScript("a", (Hold(8),)), wrappers=(WrapperScript((Proceed(lexical=3),)), retry))

    assert only(program).cause == Cause("ambient", "wrapper", 3, 8)


def test_others_may_run_between_two_commits_of_a_batch() -> None:
    program = CallProgram(
        (ToolScript("a", (Sleep(1),), parallel=True),),
        (CallSpec("a"), CallSpec("a")),
        mode="batch",
        reviewers=(ReviewScript((Hold(1),)),),
        cancels=(CancelAt(2),),
    )
    causes = {(first.code, second.cause) for first, second in (trace.published for trace in traces(program))}

    assert (None, Cause("caller", "caller", 2, 2)) in causes


def test_a_scope_that_a_wrapper_opens_is_ambient_by_name_of_the_wrapper() -> None:
    program = run(SLOW, wrappers=(WrapperScript((Proceed(lexical=3),)),))

    assert facts(program) == ("cancelled", "ABORTED", "cancelled")
    assert cause(program) == ("ambient", "wrapper", 3)


@pytest.mark.rule("BA-6", "BA-8", "BA-10", "BA-11")
def test_a_failing_neighbour_cancels_what_runs_and_skips_the_rest() -> None:
    program = CallProgram(
        (
            ToolScript("a", (Sleep(24),), parallel=True),
            ToolScript("b", (Sleep(8), Fail()), parallel=True),
            ToolScript("c", parallel=True, finalizer=FinalizerScript((Fail(),))),
        ),
        (CallSpec("a"), CallSpec("b"), CallSpec("c")),
        mode="batch",
        max_parallel=2,
        fail_fast=True,
    )
    ((first, second, third),) = (trace.published for trace in traces(program))
    sibling = Cause("sibling", "batch", 8, 8)

    assert first == Published("c0", "cancelled", "ABORTED", "cancelled", sibling)
    assert second == Published("c1", "failed", "TOOL_ERROR", "raised")
    # The place of `b` is free only once the batch knows that it failed.
    assert third == Published("c2", "cancelled", BEFORE, "not_dispatched", sibling)


@pytest.mark.rule("LA-2", "LA-7", "LA-9", "NE-2")
def test_a_layer_has_tools_hooks_and_restrictions_of_its_own() -> None:
    """What the rule book says about each case is written out; the vectors hold the same cases."""
    expected = {
        "both-through-each": [("c0", None, ("farther", "x")), ("c1", None, ("nearer",))],
        "both-nested-through-1": [("c0/a", None, ("nearer",)), ("c0", None, ("nearer",))],
        "below-nested-through-0": [("c0/a", "UNKNOWN_TOOL", ()), ("c0", None, ())],
        "hooks-of-the-registry-stand-outside": [
            ("c0", None, ("farther", "x", "w1", "w1", "w0", "below")),
            ("c1", None, ("farther", "x", "w0")),
        ],
        "denied-inherited": [("c0", "UNKNOWN_TOOL", ()), ("c1", None, ("farther", "x"))],
        "denied-own": [("c0", None, ("nearer",)), ("c1", "UNKNOWN_TOOL", ())],
        "nothing-allowed-inherited": [("c0", "UNKNOWN_TOOL", ()), ("c1", None, ("farther", "x"))],
    }
    found = {
        name: [(result.call, result.code, result.contexts) for result in traces(program)[0].published]
        for _, name, program in layers()
        if name in expected
    }

    assert found == expected


@pytest.mark.rule("LA-6", "LA-10")
def test_what_happens_to_a_layer_counts_at_dispatch_and_spares_the_body() -> None:
    expected = {
        "denied-while-gates-wait": "UNKNOWN_TOOL",
        "lifted-while-gates-wait": None,
        "one-of-two-lifted": "UNKNOWN_TOOL",
        "comes-under-a-deny": None,
        "comes-under-an-allow": "UNKNOWN_TOOL",
        "hidden-by-a-nearer-one-while-the-body-runs": None,
    }
    found = {name: only(program).code for _, name, program in layers() if name in expected}

    assert found == expected


def test_the_instants_of_a_program_are_the_times_at_which_something_happens() -> None:
    program = run(SLOW, calls=2, cancels=(CancelAt(11),), scopes=(ScopeSpec(timeout=13),))

    assert instants(program) == (0, 8, 11)


@pytest.mark.rule("BA-12")
def test_a_batch_raises_only_if_ambient_scopes_ended_a_call() -> None:
    calls = (CallSpec("a"), CallSpec("a"))
    ambient = CallProgram((SLOW,), calls, mode="batch", inner=Ambient(timeout=3))
    scope = CallProgram((SLOW,), calls, mode="batch", cancels=(CancelAt(3),))

    assert ends(ambient) == "raised"
    assert ends(scope) == "returned"


@pytest.mark.rule("BO-7", "SC-4")
def test_what_trio_leaves_open_gives_a_set() -> None:
    """At one instant a body fails or its caller is cancelled: it depends on who is first."""
    program = run(ToolScript("a", (Sleep(8), Fail())), cancels=(CancelAt(8),))
    found = {trace.published[0].code for trace in traces(program)}

    assert found == {"TOOL_ERROR", "ABORTED"}


def test_a_program_prints_as_what_evaluates_to_it() -> None:
    program = run(ToolScript("a", (Attempt((Sleep(8),), (Fail("MINE"),)),), timeout=5), calls=2)
    names = {cls.__name__: cls for cls in (ToolScript, Attempt, Sleep, Fail, CallProgram, CallSpec)}

    assert eval(repr(program), names) == program
