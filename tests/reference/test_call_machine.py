"""A state machine that writes a program rule by rule; its teardown runs it and asks the model.

Nothing is asserted while a program runs: it runs whole, in one `trio.run`, once it is written. A failure
prints the rules that wrote the program and the program itself, which can be pasted.
"""

from typing import Literal

from attrs import evolve
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from trio_tools.reference._call_predict import instants
from trio_tools.reference._call_strategies import call_parts
from trio_tools.reference.calls import (
    Ambient,
    ApproverScript,
    At,
    CallProgram,
    CallSpec,
    CancelAt,
    CancelAtStep,
    Defer,
    GateScript,
    GuardScript,
    Lift,
    MoveDeadline,
    Proceed,
    Register,
    Restrict,
    ReviewScript,
    ToolScript,
    Unregister,
    WrapperScript,
    judge,
)

LEAVES = ("b", "c")
TOOLS = ("a", *LEAVES)
seconds = st.integers(1, 30)
layers = st.integers(0, 1)


class CallMachine(RuleBasedStateMachine):
    """Registers, wraps, calls and cancels; what follows is compared with what must follow."""

    program: CallProgram
    now: int

    @initialize(outer=call_parts(lambda maker: maker.tool("a", LEAVES)))
    def register_the_tools(self, outer: ToolScript) -> None:
        self.program = CallProgram((outer, *map(ToolScript, LEAVES)), (), layers=2)
        self.now = 1

    def happens(self, action: MoveDeadline | Unregister | Register | Restrict | Lift) -> None:
        self.program = evolve(self.program, events=(*self.program.events, At(self.now, action)))

    @rule()
    def advance_to_the_next_event(self) -> None:
        """Move on to the next time at which something happens in what is written so far."""
        self.now = next((int(at) for at in instants(self.program) if at > self.now), self.now + 1)

    @rule(by=seconds)
    def advance(self, by: int) -> None:
        self.now += by

    @rule(name=st.sampled_from(LEAVES), layer=layers, timeout=st.none() | seconds)
    def register_another_of_the_name_in_the_layer(self, name: str, layer: int, timeout: int | None) -> None:
        tools = [tool for tool in self.program.tools if (tool.name, tool.layer) != (name, layer)]
        made = ToolScript(name, (Defer(f"layer {layer}"),), timeout=timeout, layer=layer)
        self.program = evolve(self.program, tools=(*tools, made))

    @rule(name=st.sampled_from(TOOLS), allow=st.booleans())
    def restrict_the_layer(self, name: str, allow: bool) -> None:
        self.happens(Restrict((name,), allow))

    @rule()
    def lift_the_last_restriction(self) -> None:
        self.happens(Lift())

    @rule(name=st.sampled_from(TOOLS), layer=layers, back=st.booleans())
    def unregister_a_tool_or_register_it_again(self, name: str, layer: int, back: bool) -> None:
        self.happens(Register(name, layer) if back else Unregister(name, layer))

    @rule(by=seconds)
    def move_the_deadline_of_the_running_calls(self, by: int) -> None:
        self.happens(MoveDeadline(by))

    @rule(leaf_name=st.sampled_from(LEAVES), leaf=call_parts(lambda maker: maker.tool("leaf", ())))
    def redefine_an_inner_tool(self, leaf_name: str, leaf: ToolScript) -> None:
        tools = [tool for tool in self.program.tools if (tool.name, tool.layer) != (leaf_name, 0)]
        self.program = evolve(self.program, tools=(*tools, evolve(leaf, name=leaf_name)))

    @rule(name=st.sampled_from(TOOLS), where=st.sampled_from(LEAVES))
    def unregister_a_tool_from_a_body(self, name: str, where: str) -> None:
        tools = tuple(
            evolve(tool, body=(Unregister(name), *tool.body)) if tool.name == where else tool
            for tool in self.program.tools
        )
        self.program = evolve(self.program, tools=tools)

    @precondition(lambda self: not self.program.gates)
    @rule(
        gate=call_parts(lambda maker: maker.gate(last=True)),
        approver=call_parts(lambda maker: maker.approver()),
    )
    def add_the_gate(self, gate: GateScript, approver: ApproverScript | None) -> None:
        self.program = evolve(self.program, gates=(gate,), approver=approver)

    @rule(guard=call_parts(lambda maker: maker.guard()), layer=layers)
    def add_a_guard(self, guard: GuardScript, layer: int) -> None:
        self.program = evolve(self.program, guards=(*self.program.guards, evolve(guard, layer=layer)))

    @precondition(lambda self: len(self.program.wrappers) < 2)
    @rule(wrapper=call_parts(lambda maker: maker.wrapper(1)))
    def add_a_wrapper(self, wrapper: WrapperScript) -> None:
        wrappers = self.program.wrappers
        self.program = evolve(self.program, wrappers=(*wrappers, evolve(wrapper, name=f"w{len(wrappers)}")))

    @precondition(lambda self: len(self.program.wrappers) < 2)
    @rule(timeout=seconds, finish=st.sampled_from(("last", "translate")), layer=layers)
    def add_a_wrapper_with_a_deadline(
        self, timeout: int, finish: Literal["last", "translate"], layer: int
    ) -> None:
        wrappers = self.program.wrappers
        wrapper = WrapperScript((Proceed(timeout=timeout),), finish, f"w{len(wrappers)}", layer=layer)
        self.program = evolve(self.program, wrappers=(*wrappers, wrapper))

    @precondition(lambda self: not self.program.reviewers)
    @rule(reviewer=call_parts(lambda maker: maker.reviewer(last=True)))
    def add_the_reviewer(self, reviewer: ReviewScript) -> None:
        self.program = evolve(self.program, reviewers=(reviewer,))

    @rule(timeout=seconds, place=st.sampled_from(("outer", "inner")))
    def surround_the_calls(self, timeout: int, place: str) -> None:
        self.program = evolve(self.program, **{place: Ambient(timeout)})

    @rule(timeout=seconds)
    def move_the_deadline_of_the_scope(self, timeout: int) -> None:
        self.program = evolve(self.program, scopes=(evolve(self.program.scopes[0], timeout=timeout),))

    @precondition(lambda self: len(self.program.calls) < 3)
    @rule(
        name=st.sampled_from(TOOLS),
        arguments=st.sampled_from(("fine", "fine", "invalid", "lossy")),
        layer=layers,
    )
    def start_a_call(self, name: str, arguments: Literal["fine", "invalid", "lossy"], layer: int) -> None:
        call = CallSpec(name, arguments, layer=layer)
        self.program = evolve(self.program, calls=(*self.program.calls, call))

    @rule(fail_fast=st.booleans(), max_parallel=st.integers(1, 3), safe=st.booleans())
    def start_a_batch(self, fail_fast: bool, max_parallel: int, safe: bool) -> None:
        self.program = evolve(
            self.program,
            mode="batch",
            fail_fast=fail_fast,
            max_parallel=max_parallel,
            tools=tuple(evolve(tool, parallel=safe) for tool in self.program.tools),
        )

    @precondition(lambda self: len(self.program.cancels) < 2)
    @rule()
    def cancel_now(self) -> None:
        self.program = evolve(self.program, cancels=(*self.program.cancels, CancelAt(self.now)))

    @precondition(lambda self: len(self.program.cancels) < 2)
    @rule(step=st.integers(1, 10))
    def cancel_at_a_step(self, step: int) -> None:
        self.program = evolve(self.program, cancels=(*self.program.cancels, CancelAtStep(step)))

    def teardown(self) -> None:
        program = getattr(self, "program", None)
        if program is None or not program.calls:
            return
        judgement = judge(program)
        for cell in judgement.cells:
            event(f"{cell.row} {cell.column} {cell.kind}")

        assert judgement.agrees or judgement.open, f"\n{judgement}"


CallMachine.TestCase.settings = settings(
    max_examples=80,
    stateful_step_count=14,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestCallMachine = CallMachine.TestCase
