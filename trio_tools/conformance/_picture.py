"""The picture of a run that shows a finding: a swim lane for each task, and the same run in words.

A tick stands for each step, the cancellation is a line across all lanes, and what went on after the call
had ended is red, thick and named. Whoever does not see the picture has the table below it.
"""

from collections.abc import Iterator
from html import escape
from typing import Any, Final, cast

__all__ = ["PICTURE_STYLE", "picture"]

PICTURE_STYLE: Final = """
figure { margin: 0; } .lanes { overflow-x: auto; } svg { display: block; font: 12px system-ui, sans-serif; }
svg text { fill: var(--ink); } svg .faint { fill: var(--faint); } svg .red { fill: var(--bad); }
.life { stroke: var(--accent); stroke-width: 2; } .late { stroke: var(--bad); stroke-width: 5; }
.tick { stroke: var(--accent); stroke-width: 2; }
.sent { fill: var(--open); stroke: var(--card); stroke-width: 1.5; }
.cancel { stroke: var(--bad); stroke-width: 1.5; stroke-dasharray: 4 3; }
.over { stroke: var(--faint); stroke-width: 1.5; } .after { fill: var(--bad); opacity: .07; }
figcaption { color: var(--faint); margin-top: .5rem; } figcaption span { margin-right: 1.25rem; }
figcaption i { display: inline-block; vertical-align: middle; margin-right: .4rem; }
i.k-step { width: 2px; height: 14px; background: var(--accent); }
i.k-sent { width: 10px; height: 10px; border-radius: 50%; background: var(--open); }
i.k-cancel { width: 0; height: 14px; border-left: 2px dashed var(--bad); }
i.k-late { width: 18px; height: 5px; background: var(--bad); }
"""

_MOST: Final = 400
"""Ticks that are drawn; a longer run is cut."""
_LABEL: Final = 170
_LANE: Final = 30
_TOP: Final = 36
_WIDTH: Final = 720
"""What all ticks together may take before they are drawn closer to each other."""
_TAIL: Final = 110

_HAPPENED: Final = {
    "start": "begins",
    "step": "waits",
    "sent": "is sent the cancellation",
    "end": "ends",
    "cancel": "the call is cancelled",
    "over": "the call has ended",
}


class _Scene:
    """Where things are in one picture."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.ticks: Final[list[list[Any]]] = found["ticks"][:_MOST]
        self.lanes: Final[list[str]] = list(found["lanes"])
        self.left: Final[list[str]] = [each for each in found["left"] if not each.startswith("task ")]
        self.over: Final = next((at for at, tick in enumerate(self.ticks) if tick[3] == "over"), None)
        self._gap: Final = max(7, min(26, _WIDTH // max(1, len(self.ticks))))
        self.end: Final = self.x(len(self.ticks)) + (_TAIL if self.late else 20)
        self.right: Final = max(self.end, self.x(len(self.ticks)) + _TAIL)
        self.height: Final = _TOP + (len(self.lanes) + len(self.left)) * _LANE + 8

    @property
    def late(self) -> list[str]:
        """Names of all that outlived the call."""
        if self.over is None:
            return []
        lasting = [name for number, name in enumerate(self.lanes) if self.ended(number) is None]
        return [*map(_short, lasting), *self.left]

    def ended(self, lane: int) -> int | None:
        """Return at which tick a lane ended, None if it did not before the call had."""
        at = next((at for at, tick in enumerate(self.ticks) if tick[0] == lane and tick[3] == "end"), None)
        return None if at is None or (self.over is not None and at > self.over) else at

    def x(self, at: int) -> int:
        return _LABEL + at * self._gap

    def y(self, row: int) -> int:
        return _TOP + row * _LANE + _LANE // 2


def picture(name: str, found: dict[str, Any]) -> Iterator[str]:
    """Yield the picture of the run of a finding in its JSON form, as HTML.

    Args:
        name: what no other picture of the page is called.
    """
    scene = _Scene(found)
    yield (
        f'<figure><div class="lanes" tabindex="0" role="region" aria-label="the run, as swim lanes">'
        f'<svg role="img" aria-labelledby="{name}-what" width="{scene.right}" height="{scene.height}" '
        f'viewBox="0 0 {scene.right} {scene.height}"><title id="{name}-what">{escape(_told(scene))}</title>'
    )
    if scene.over is not None and scene.late:
        x = scene.x(scene.over)
        yield (
            f'<rect class="after" x="{x}" y="{_TOP}" width="{scene.right - x}" '
            f'height="{scene.height - _TOP - 8}"/>'
        )
    for number, lane in enumerate(scene.lanes):
        yield from _lane(scene, number, lane)
    for row, each in enumerate(scene.left, len(scene.lanes)):
        y = scene.y(row)
        yield (
            f'<text class="red" x="0" y="{y + 4}">{escape(_short(each))}<title>{escape(each)}</title></text>'
        )
        yield from _outlives(scene, y)
    for at, (_, _, time, what, _) in enumerate(scene.ticks):
        if what in {"cancel", "over"}:
            word = "cancelled" if what == "cancel" else "call ended"
            x, y = scene.x(at), 12 if what == "cancel" else 27
            yield f'<line class="{what}" x1="{x}" x2="{x}" y1="{y + 3}" y2="{scene.height - 4}"/>'
            shade = "red" if what == "cancel" else "faint"
            yield f'<text class="{shade}" x="{x + 3}" y="{y}">{word} at {time:g} s</text>'
    yield "</svg></div><figcaption>"
    yield '<span><i class="k-step"></i>a step</span>'
    yield '<span><i class="k-cancel"></i>the call is cancelled</span>'
    yield '<span><i class="k-sent"></i>a task is sent the cancellation</span>'
    yield '<span><i class="k-late"></i>outlives the call</span></figcaption></figure>'
    yield from _in_words(scene)


def _told(scene: _Scene) -> str:
    tasks = "1 task" if len(scene.lanes) == 1 else f"{len(scene.lanes)} tasks"
    late = f"; outlived by {', '.join(scene.late)}" if scene.late else ""
    happened = [
        f"{_HAPPENED[what]} at {time:g} s"
        for _, _, time, what, _ in scene.ticks
        if what in {"cancel", "over"}
    ]
    return f"{tasks}; {'; '.join(happened) or 'the call did not end'}{late}"


def _lane(scene: _Scene, number: int, name: str) -> Iterator[str]:
    y = scene.y(number)
    mine = [(at, tick) for at, tick in enumerate(scene.ticks) if tick[0] == number]
    started = next((at for at, tick in mine if tick[3] == "start"), 0)
    ended = scene.ended(number)
    outlives = ended is None and scene.over is not None
    shade = ' class="red"' if outlives else ""
    yield f'<text x="0" y="{y + 4}"{shade}>{escape(_short(name))}<title>{escape(name)}</title></text>'
    last = scene.over if ended is None else ended
    stop = scene.right if last is None else scene.x(last)
    yield f'<line class="life" x1="{scene.x(started)}" x2="{stop}" y1="{y}" y2="{y}"/>'
    if outlives:
        yield from _outlives(scene, y)
    for at, (_, step, time, what, where) in mine:
        title = f"{_HAPPENED[what]}, step {step}, {time:g} s" + (f"\n{where}" if where else "")
        x = scene.x(at)
        if what == "sent":
            yield f'<circle class="sent" cx="{x}" cy="{y}" r="5.5"><title>{escape(title)}</title></circle>'
        elif what in {"step", "start", "end"}:
            half = 7 if what == "step" else 10
            yield (
                f'<line class="tick" x1="{x}" x2="{x}" y1="{y - half}" y2="{y + half}">'
                f"<title>{escape(title)}</title></line>"
            )


def _outlives(scene: _Scene, y: int) -> Iterator[str]:
    assert scene.over is not None
    x = scene.x(scene.over)
    yield f'<line class="late" x1="{x}" x2="{scene.right}" y1="{y}" y2="{y}"/>'
    yield f'<text class="red" x="{scene.right}" y="{y - 6}" text-anchor="end">outlives the call</text>'


def _in_words(scene: _Scene) -> Iterator[str]:
    yield "<details><summary>The run in words</summary>"
    yield '<table><thead><tr><th scope="col">time</th><th scope="col">step</th><th scope="col">task</th>'
    yield '<th scope="col">what</th><th scope="col">where</th></tr></thead><tbody>'
    for lane, step, time, what, where in cast("list[tuple[int, int, float, str, str]]", scene.ticks):
        task = "" if what in {"cancel", "over"} or lane < 0 else _short(scene.lanes[lane])
        yield (
            f"<tr><td>{time:g} s</td><td>{step}</td><td>{escape(task)}</td><td>{_HAPPENED[what]}</td>"
            f"<td><code>{escape(where)}</code></td></tr>"
        )
    for each in scene.late:
        yield (
            f'<tr class="fail"><td></td><td></td><td>{escape(each)}</td><td>outlives the call</td>'
            "<td></td></tr>"
        )
    yield "</tbody></table></details>"


def _short(name: str) -> str:
    name = name.rpartition("<locals>.")[2]
    return name if len(name) <= 26 else "..." + name[-23:]
