"""The numbered properties of structured concurrency, each with the smallest programs that show it.

A property is a sentence, some programs in which nothing else is at stake, the family of programs in which
to look for a backend that breaks it, and a view: the part of an outcome that the sentence speaks of. A
backend diverges in a property when the view of what it did is the view of no outcome that is permitted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from attrs import field, frozen

from ._generate import Grammar
from ._program import (
    Cancel,
    CancelPoint,
    Catch,
    Caught,
    Checkpoint,
    Emit,
    Finally,
    MoveDeadline,
    Nursery,
    Program,
    Raise,
    SchedulePoint,
    Scope,
    SetShield,
    Sleep,
    Start,
    Started,
    StartSoon,
)
from ._views import (
    begun,
    cancels_before_entry,
    course,
    course_and_flags,
    ending,
    errors_that_came_out,
    events,
    events_of_others,
    everything,
    failure,
    has,
    has_deadline,
    has_shield,
    has_wrong_start,
    nurseries_are_outermost,
    nursery_flags,
    raises_in_cleanup,
    raises_late,
    scope_flags,
    shuffle,
    starts_with_sleep,
    tasks_begin_with_a_checkpoint,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from ._outcome import Outcome

    View: TypeAlias = Callable[[Program, Outcome], Hashable]


@frozen
class Property:
    """One numbered sentence about structured concurrency, and how it is shown."""

    id: str
    title: str
    statement: str
    shown_by: tuple[Program, ...]
    """The smallest programs that show it, in which nothing else is at stake."""
    grammar: Grammar = field(repr=False)
    view: View = field(repr=False)
    needs: Callable[[Program], bool] = field(repr=False, default=lambda _program: True)

    @property
    def interleaving(self) -> bool:
        """Whether the property speaks of the order of events between tasks."""
        return self.view is shuffle

    def covers(self, program: Program) -> bool:
        """Says whether a program is one in which this property, and little else, is at stake."""
        return self.needs(program) and all(type(op) in self.grammar.kinds for op in program.walk())


def _grammar(*kinds: type, **options: object) -> Grammar:
    plain: dict[str, object] = {
        "shields": False,
        "deadlines": False,
        "scopes_before_entry": False,
        "cancel_nurseries": False,
        "size": 8,
        "tasks": 3,
        "depth": 4,
    }
    return Grammar(kinds=frozenset(kinds), **(plain | options))  # pyright: ignore[reportArgumentType]


PROPERTIES: Final[tuple[Property, ...]] = (
    Property(
        "SCP-1",
        "tasks run uninterrupted between checkpoints",
        "A task runs uninterrupted from one schedule point to the next. A task that was just started begins "
        "only after the task that started it has passed a schedule point.",
        (Program(Nursery("n", StartSoon("n", Emit("child")), Emit("parent"))),),
        _grammar(Emit, Checkpoint, Nursery, StartSoon),
        shuffle,
        has(StartSoon),
    ),
    Property(
        "SCP-2",
        "a started task always begins",
        "A task that was started runs at least to its first cancel point, even if it is cancelled by then.",
        (
            Program(Nursery("n", Cancel("n"), StartSoon("n", Emit("begun"), Checkpoint(), Emit("no")))),
            Program(Nursery("n", StartSoon("n", Emit("begun")), Raise("x"))),
        ),
        _grammar(Emit, Raise, Checkpoint, Nursery, StartSoon, Scope, Cancel, cancel_nurseries=True),
        begun,
        has(StartSoon),
    ),
    Property(
        "SCP-3",
        "cancellation is a level, not an edge",
        "Inside a cancelled scope every cancel point raises Cancelled, not just the first: to catch it and "
        "go on waiting is to be interrupted again.",
        (
            Program(Scope("s", Cancel("s"), Catch("cancelled", (Checkpoint(),)), Checkpoint(), Emit("no"))),
            Program(Scope("s", Catch("cancelled", (Sleep(2),)), Sleep(1), Emit("no"), deadline=1)),
        ),
        _grammar(Emit, Checkpoint, Scope, Cancel, Catch, catches=(Caught.CANCELLED, Caught.ANY), depth=3),
        course,
        has(Catch, Cancel),
    ),
    Property(
        "SCP-4",
        "a checkpoint has two halves",
        "A schedule point lets others run and is never interrupted. A cancel point raises if the task is "
        "cancelled, and otherwise does nothing, so nobody else runs. A checkpoint is both.",
        (
            Program(Scope("s", Cancel("s"), SchedulePoint(), Emit("yes"), CancelPoint(), Emit("no"))),
            Program(Nursery("n", StartSoon("n", Emit("second")), CancelPoint(), Emit("first"))),
        ),
        _grammar(Emit, CancelPoint, SchedulePoint, Checkpoint, Scope, Cancel, Nursery, StartSoon),
        shuffle,
        lambda program: has(CancelPoint)(program) or has(SchedulePoint)(program),
    ),
    Property(
        "SCP-5",
        "the outermost cancelled scope absorbs",
        "Cancelled leaves the blocks on its way until it meets a scope that is cancelled itself and is "
        "inside no other that is: that scope absorbs it, and the program goes on after its block.",
        (
            Program(
                Scope(
                    "out",
                    Scope("in", Cancel("in"), Cancel("out"), Checkpoint()),
                    Emit("between"),
                    Checkpoint(),
                    Emit("no"),
                ),
                Emit("after"),
            ),
        ),
        _grammar(Emit, Checkpoint, Scope, Cancel),
        course_and_flags,
        has(Scope, Cancel, Checkpoint),
    ),
    Property(
        "SCP-6",
        "a deadline cancels, and wins a tie",
        "When its deadline has come a scope is cancelled as if by hand. What was to happen at that very "
        "moment is cancelled too: a sleep that ends at the deadline does not end well.",
        (
            Program(Scope("s", Sleep(2), Emit("no"), deadline=1), Emit("at 1")),
            Program(Scope("s", Sleep(1), Emit("no"), deadline=1)),
        ),
        _grammar(Emit, Sleep, Scope, deadlines=True),
        course_and_flags,
        lambda program: has_deadline(1, 3)(program) and not has_deadline(0, 0)(program),
    ),
    Property(
        "SCP-7",
        "a deadline of zero has passed",
        "A scope whose deadline has passed when it is entered is cancelled at once; its block runs to its "
        "first cancel point.",
        (
            Program(Scope("s", Emit("yes"), Checkpoint(), Emit("no"), deadline=0)),
            Program(Scope("s", deadline=0)),
        ),
        _grammar(Emit, Checkpoint, Scope, deadlines=True),
        course_and_flags,
        has_deadline(0, 0),
    ),
    Property(
        "SCP-8",
        "a shield hides what comes from outside",
        "Inside a shield the cancellation of scopes around it does not show; its own does. It shows again "
        "at the first cancel point behind the shield.",
        (
            Program(
                Scope(
                    "s",
                    Cancel("s"),
                    Scope("shield", Sleep(1), Emit("yes"), shield=True),
                    Emit("still"),
                    Checkpoint(),
                    Emit("no"),
                )
            ),
            Program(Scope("s", Scope("shield", Sleep(3), Emit("no"), deadline=2, shield=True), deadline=1)),
        ),
        _grammar(Emit, Checkpoint, Sleep, Scope, Cancel, shields=True, deadlines=True),
        course_and_flags,
        has_shield,
    ),
    Property(
        "SCP-9",
        "a nursery waits for its tasks",
        "The block of a nursery is left only when every task in it has ended; the end of the block cancels "
        "nothing.",
        (Program(Nursery("n", StartSoon("n", Sleep(2), Emit("at 2"))), Emit("at 2")),),
        _grammar(Emit, Sleep, Nursery, StartSoon),
        course,
        has(StartSoon),
    ),
    Property(
        "SCP-10",
        "one failure cancels the others",
        "When a task of a nursery, or its block, raises, the nursery is cancelled; it is still left only "
        "when all its tasks have ended.",
        (
            Program(Nursery("n", StartSoon("n", Sleep(1), Raise("x")), StartSoon("n", Sleep(2), Emit("no")))),
            Program(Nursery("n", StartSoon("n", Sleep(2), Emit("no")), Sleep(1), Raise("x"))),
            Program(Nursery("n", StartSoon("n", Raise("x")), Sleep(2), Emit("no"))),
        ),
        _grammar(Emit, Sleep, Raise, Nursery, StartSoon),
        failure,
        lambda program: has(StartSoon, Raise)(program) and raises_late(program),
    ),
    Property(
        "SCP-11",
        "a nursery raises groups",
        "What leaves a nursery is a group, of one error as of many; nurseries inside each other give groups "
        "inside each other, and no group is flattened.",
        (
            Program(Nursery("n", Sleep(1), Raise("x"))),
            Program(Nursery("out", Nursery("in", StartSoon("in", Sleep(1), Raise("x"))))),
        ),
        _grammar(Raise, Checkpoint, Sleep, Nursery, StartSoon),
        ending,
        lambda program: has(Nursery, Raise)(program) and raises_late(program),
    ),
    Property(
        "SCP-12",
        "Cancelled is taken out of groups",
        "A scope that absorbs takes every Cancelled out of a group, and every group that this leaves empty; "
        "the errors that are left stay in their groups.",
        (
            Program(
                Scope(
                    "s",
                    Nursery(
                        "n",
                        StartSoon("n", Finally((Sleep(2),), (Raise("x"),))),
                        Sleep(1),
                        Cancel("s"),
                        Sleep(2),
                    ),
                )
            ),
            Program(Scope("s", Nursery("n", StartSoon("n", Sleep(2)), Sleep(1), Cancel("s"), Sleep(2)))),
        ),
        _grammar(Raise, Sleep, Scope, Cancel, Nursery, StartSoon, Finally),
        ending,
        lambda program: has(Cancel, Nursery, StartSoon)(program) and raises_in_cleanup(program),
    ),
    Property(
        "SCP-13",
        "the end of a nursery is no cancel point",
        "Leaving a nursery is a schedule point, and raises no Cancelled of its own: if its tasks end well "
        "the program goes on behind it, cancelled or not.",
        (
            Program(Scope("s", Cancel("s"), Nursery("n"), Emit("yes"))),
            Program(Scope("s", Nursery("n", StartSoon("n", Cancel("s"))), Emit("yes"))),
        ),
        _grammar(Emit, Checkpoint, Scope, Cancel, Nursery, StartSoon),
        events,
        has(Cancel, Nursery),
    ),
    Property(
        "SCP-14",
        "no error is lost in a cancellation",
        "An error that is raised while a scope is being cancelled comes out of it.",
        (
            Program(Scope("s", Cancel("s"), Catch("cancelled", (Checkpoint(),), (Raise("x"),)))),
            Program(Scope("s", Nursery("n", StartSoon("n", Cancel("s"), Raise("x")), Sleep(1)))),
        ),
        _grammar(Raise, Checkpoint, Sleep, Scope, Cancel, Catch, Finally, Nursery, StartSoon),
        errors_that_came_out,
        has(Cancel, Raise),
    ),
    Property(
        "SCP-15",
        "start waits until its task is up",
        "Start returns when its task has said that it is up, and the task runs on. What the task raises "
        "before that, start raises, as it is and in no group; what it raises later the nursery raises.",
        (
            Program(Nursery("n", Start("n", Sleep(1), Started(), Sleep(2), Emit("at 3")), Emit("at 1"))),
            Program(Nursery("n", Catch("error", (Start("n", Raise("x")),), (Emit("caught"),)))),
        ),
        _grammar(Emit, Sleep, Raise, Nursery, Start, Started, Catch, catches=(Caught.ERROR,)),
        course,
        has(Start),
    ),
    Property(
        "SCP-16",
        "a task moves house when it is up",
        "Until a task says that it is up it is inside the scopes of the start that waits for it; from then "
        "on it is inside those of the nursery alone.",
        (
            Program(Nursery("n", Scope("s", Start("n", Sleep(2), Emit("no"), Started()), deadline=1))),
            Program(
                Nursery(
                    "n",
                    Scope("s", Start("n", Sleep(1), Started(), Sleep(2), Emit("at 3")), Sleep(3), deadline=2),
                )
            ),
            Program(
                Nursery(
                    "n",
                    Scope(
                        "s", Start("n", Scope("own", Started(), Sleep(2), Emit("at 2"))), Sleep(3), deadline=1
                    ),
                )
            ),
            Program(
                Nursery("n", Start("n", Scope("own", Started(), Sleep(2), Emit("no"))), Cancel("n")),
            ),
        ),
        _grammar(Emit, Sleep, Nursery, Start, Started, Scope, deadlines=True),
        course,
        lambda program: has(Start, Scope)(program) and starts_with_sleep(program),
    ),
    Property(
        "SCP-17",
        "a task says once that it is up",
        "A task that ends without saying that it is up makes its start raise an error; one that says it "
        "twice gets an error itself.",
        (
            Program(Nursery("n", Start("n"))),
            Program(Nursery("n", Start("n", Started(), Started(), Emit("no")))),
        ),
        _grammar(Emit, Checkpoint, Nursery, Start, Started),
        ending,
        has_wrong_start,
    ),
    Property(
        "SCP-18",
        "a nursery is open until its last task ends",
        "A nursery takes new tasks as long as its block or any task of it runs, cancelled or not. After "
        "that, to start a task in it is an error.",
        (
            Program(Nursery("n", StartSoon("n", Sleep(1), StartSoon("n", Emit("yes"))))),
            Program(
                Nursery("out", Nursery("in", StartSoon("out", Sleep(1), StartSoon("in", Emit("no"))))),
            ),
            Program(Nursery("out", Nursery("in", StartSoon("out", Sleep(1), Start("in", Started()))))),
            Program(Nursery("n", Catch("any", (Cancel("n"), Checkpoint())), StartSoon("n", Emit("yes")))),
            Program(
                Nursery(
                    "n",
                    StartSoon("n", Sleep(1), Raise("x")),
                    Catch("any", (Sleep(2),)),
                    StartSoon("n", Emit("yes")),
                )
            ),
        ),
        _grammar(Emit, Sleep, Raise, Nursery, StartSoon, Catch, catches=(Caught.ANY,)),
        failure,
        lambda program: sum(isinstance(op, StartSoon) for op in program.walk()) > 1 and raises_late(program),
    ),
    Property(
        "SCP-19",
        "a deadline can be moved until it has come",
        "A moved deadline replaces the old one, earlier or later, or takes it away. Before the block is "
        "entered it counts from the entry. A scope that is cancelled stays so, whatever its deadline.",
        (
            Program(Scope("s", MoveDeadline("s", 3), Sleep(2), Emit("yes"), deadline=1)),
            Program(Scope("s", MoveDeadline("s", 1), Sleep(2), Emit("no"), deadline=3)),
            Program(MoveDeadline("s", 1), Scope("s", Sleep(2), Emit("no"), deadline=3), Emit("at 1")),
            Program(Scope("s", Cancel("s"), MoveDeadline("s", 5), Checkpoint(), Emit("no"))),
        ),
        _grammar(Emit, Sleep, Scope, MoveDeadline, deadlines=True),
        course_and_flags,
        lambda program: has(Scope, MoveDeadline)(program) and not has_deadline(0, 0)(program),
    ),
    Property(
        "SCP-20",
        "a scope can be cancelled before its block",
        "A scope that was cancelled before it is entered is cancelled from its entry on: its block runs to "
        "the first cancel point.",
        (Program(Cancel("s"), Scope("s", Emit("yes"), Checkpoint(), Emit("no")), Emit("after")),),
        _grammar(Emit, Checkpoint, Scope, Cancel, scopes_before_entry=True),
        course_and_flags,
        cancels_before_entry,
    ),
    Property(
        "SCP-21",
        "asked for is one thing, absorbed another",
        "A scope says that it was cancelled as soon as somebody asked for it; it says that it absorbed "
        "something only if Cancelled reached its end. Behind the last cancel point there is none to absorb.",
        (
            Program(Scope("s", Checkpoint(), Cancel("s"))),
            Program(Scope("s", Cancel("s"), Catch("cancelled", (Checkpoint(),)))),
        ),
        _grammar(Checkpoint, Scope, Cancel),
        scope_flags,
        has(Scope, Cancel),
    ),
    Property(
        "SCP-22",
        "the scope of a nursery is like any other",
        "The scope of a nursery counts as cancelled once its block or a task of it has ended with an "
        "exception, Cancelled included, and not if all ended well. If others were cancelled by that, it has "
        "absorbed.",
        (
            Program(Nursery("n", StartSoon("n", Catch("any", (Raise("x"),))))),
            Program(Nursery("n", StartSoon("n", Raise("x")))),
            Program(Nursery("n", StartSoon("n", Sleep(1), Raise("x")), Sleep(2))),
            Program(Scope("s", Cancel("s"), Nursery("n", StartSoon("n", Checkpoint())))),
        ),
        _grammar(Checkpoint, Sleep, Raise, Nursery, StartSoon, Catch),
        nursery_flags,
        lambda program: sum(isinstance(op, Nursery) for op in program.walk()) == 1,
    ),
    Property(
        "SCP-23",
        "who cancels runs on",
        "To cancel a scope interrupts nobody on the spot, the task that does it included: it runs on to its "
        "next cancel point, and if there is none it ends its block in peace.",
        (
            Program(Scope("s", Cancel("s"), Emit("yes")), Emit("after")),
            Program(Scope("s", Nursery("n", Cancel("s"), Emit("yes"), Checkpoint(), Emit("no")))),
        ),
        _grammar(Emit, Checkpoint, Scope, Cancel, Nursery),
        events,
        has(Cancel),
    ),
    Property(
        "SCP-24",
        "start is no cancel point of its own",
        "A start that is cancelled waits for its task, which is what the cancellation reaches, and raises "
        "what the task raises; if the task says that it is up all the same, the start returns.",
        (Program(Scope("s", Cancel("s"), Nursery("n", Start("n", Started()), Emit("yes")))),),
        _grammar(Emit, Checkpoint, Scope, Cancel, Nursery, Start, Started),
        events,
        has(Start, Cancel),
    ),
    Property(
        "SCP-25",
        "cancellation reaches all tasks at once",
        "The moment a scope is cancelled every task inside it is, however deep: none of them passes another "
        "cancel point.",
        (
            Program(Scope("s", Nursery("n", StartSoon("n", Checkpoint(), Emit("no")), Cancel("s")))),
            Program(Nursery("n", StartSoon("n", Checkpoint(), Emit("no")), Raise("x"))),
        ),
        _grammar(Emit, Checkpoint, Raise, Scope, Cancel, Nursery, StartSoon),
        events_of_others,
        tasks_begin_with_a_checkpoint,
    ),
    Property(
        "SCP-26",
        "a shield can be raised and lowered",
        "To move a shield acts at once on all that is inside: when it is lowered, who waits behind it is "
        "interrupted. A sleep that was interrupted stays so, though a shield is raised before it wakes.",
        (
            Program(Scope("s", Cancel("s"), Scope("t", SetShield("t", True), Sleep(1), Emit("yes")))),
            Program(
                Nursery(
                    "n",
                    StartSoon("n", Scope("s", Scope("t", Sleep(3), Emit("no"), shield=True))),
                    Cancel("s"),
                    Sleep(2),
                    SetShield("t", False),
                )
            ),
            Program(
                Nursery(
                    "n",
                    StartSoon("n", Scope("s", Scope("t", Sleep(3), Emit("no")))),
                    Sleep(1),
                    Cancel("s"),
                    SetShield("t", True),
                )
            ),
        ),
        _grammar(Emit, Sleep, Scope, Cancel, SetShield, Nursery, StartSoon, shields=True),
        course_and_flags,
        lambda program: has(SetShield)(program) and nurseries_are_outermost(program),
    ),
    Property(
        "SCP",
        "all of it together",
        "In programs that mix everything, nothing happens that no schedule explains.",
        (),
        Grammar(size=12),
        everything,
    ),
)
"""The properties, in order; the last one is whatever a program shows, whichever property explains it."""
