"""A state machine that writes a program rule by rule; its teardown runs it and asks the model.

Nothing is asserted while a program runs: it runs whole, in one `trio.run`, once it is written. A failure
prints the rules that wrote the program and the program itself, which can be pasted.
"""

from attrs import evolve
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from trio_tools.reference._call_strategies import call_parts
from trio_tools.reference.calls import (
    Ambient,
    ApproverScript,
    CallProgram,
    CallSpec,
    CancelAt,
    CancelAtStep,
    GateScript,
    GuardScript,
    Proceed,
    ReviewScript,
    ToolScript,
    Unregister,
    WrapperScript,
    judge,
)

LEAVES = ("b", "c")
seconds = st.integers(1, 30)


class CallMachine(RuleBasedStateMachine):
    """Registers, wraps, calls and cancels; what follows is compared with what must follow."""

    program: CallProgram

    @initialize(outer=call_parts(lambda maker: maker.tool("a", LEAVES)))
    def register_the_tools(self, outer: ToolScript) -> None:
        self.program = CallProgram((outer, *map(ToolScript, LEAVES)), ())

    @rule(index=st.integers(0, 1), leaf=call_parts(lambda maker: maker.tool("leaf", ())))
    def redefine_an_inner_tool(self, index: int, leaf: ToolScript) -> None:
        tools = list(self.program.tools)
        tools[index + 1] = evolve(leaf, name=LEAVES[index])
        self.program = evolve(self.program, tools=tuple(tools))

    @rule(name=st.sampled_from(("a", *LEAVES)), where=st.sampled_from(("b", "c")))
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

    @rule(guard=call_parts(lambda maker: maker.guard()))
    def add_a_guard(self, guard: GuardScript) -> None:
        self.program = evolve(self.program, guards=(*self.program.guards, guard))

    @precondition(lambda self: len(self.program.wrappers) < 2)
    @rule(wrapper=call_parts(lambda maker: maker.wrapper(1)))
    def add_a_wrapper(self, wrapper: WrapperScript) -> None:
        wrappers = self.program.wrappers
        self.program = evolve(self.program, wrappers=(*wrappers, evolve(wrapper, name=f"w{len(wrappers)}")))

    @precondition(lambda self: len(self.program.wrappers) < 2)
    @rule(timeout=seconds, finish=st.sampled_from(("last", "translate")))
    def add_a_wrapper_with_a_deadline(self, timeout: int, finish: str) -> None:
        wrappers = self.program.wrappers
        script = (Proceed(timeout=timeout),)
        wrapper = WrapperScript(script, finish, f"w{len(wrappers)}")  # pyright: ignore[reportArgumentType]
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
        name=st.sampled_from(("a", *LEAVES)), arguments=st.sampled_from(("fine", "fine", "invalid", "lossy"))
    )
    def start_a_call(self, name: str, arguments: str) -> None:
        call = CallSpec(name, arguments)  # pyright: ignore[reportArgumentType]
        self.program = evolve(self.program, calls=(*self.program.calls, call))

    @rule(fail_fast=st.booleans(), max_parallel=st.integers(1, 3), safe=st.booleans())
    def make_it_a_batch(self, fail_fast: bool, max_parallel: int, safe: bool) -> None:
        self.program = evolve(
            self.program,
            mode="batch",
            fail_fast=fail_fast,
            max_parallel=max_parallel,
            tools=tuple(evolve(tool, parallel=safe) for tool in self.program.tools),
        )

    @precondition(lambda self: len(self.program.cancels) < 2)
    @rule(at=seconds)
    def cancel_at_a_time(self, at: int) -> None:
        self.program = evolve(self.program, cancels=(*self.program.cancels, CancelAt(at)))

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
