"""A report as one page that needs nothing but itself: verdicts, findings, and a picture of each.

The picture is a swim lane diagram of the run that shows the finding: a lane for each task, a tick for
each step, the cancellation as a line across all lanes, and in red what went on after the call had
ended.
"""

import json
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, Final

__all__ = ["page"]

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1c2024; --paper: #fcfcfd; --faint: #60646c; --line: #d9d9e0;
  --good: #18794e; --bad: #ce2c31; --open: #ab6400; --accent: #0d74ce; --card: #f4f4f6; }
@media (prefers-color-scheme: dark) { :root { --ink: #edeef0; --paper: #111113; --faint: #b0b4ba;
  --line: #363a3f; --good: #3dd68c; --bad: #ff9592; --open: #ffca16; --accent: #70b8ff; --card: #1c1d20; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 68rem; padding: 2rem 1.25rem 4rem; background: var(--paper);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; } h2 { font-size: 1.25rem; margin: 2.5rem 0 .25rem; }
h3 { font-size: 1rem; margin: 0 0 .5rem; } p { margin: .25rem 0; }
.faint { color: var(--faint); } code, pre { font: 13px/1.45 ui-monospace, monospace; }
table { border-collapse: collapse; width: 100%; margin: .75rem 0; }
th, td { text-align: left; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; } th { font-weight: 600; }
td:first-child { white-space: nowrap; } td.verdict { white-space: nowrap; font-weight: 600; }
.pass { color: var(--good); } .fail { color: var(--bad); } .unresolved, .known { color: var(--open); }
.not_applicable { color: var(--faint); font-weight: 400; }
section.finding { background: var(--card); border: 1px solid var(--line); border-left: 4px solid var(--bad);
  border-radius: 6px; padding: 1rem; margin: 1rem 0; }
section.finding dl { display: grid; grid-template-columns: 7rem 1fr; gap: .2rem .75rem; margin: 0 0 .75rem; }
dt { color: var(--faint); } dd { margin: 0; overflow-wrap: anywhere; }
.picture { overflow-x: auto; } svg { display: block; font: 12px system-ui, sans-serif; }
svg text { fill: var(--ink); } svg .faint { fill: var(--faint); }
.life { stroke: var(--accent); stroke-width: 2; } .late { stroke: var(--bad); stroke-width: 4; }
.tick { stroke: var(--accent); stroke-width: 2; } .sent { fill: var(--open); }
.cancel { stroke: var(--bad); stroke-width: 1.5; stroke-dasharray: 4 3; }
.over { stroke: var(--faint); stroke-width: 1.5; } svg .red { fill: var(--bad); }
.legend span { margin-right: 1.25rem; }
"""


def page(reports: Sequence[dict[str, Any]]) -> str:
    """Return the page for reports in their JSON form."""
    return "\n".join(_page(reports)) + "\n"


def _page(reports: Sequence[dict[str, Any]]) -> Iterator[str]:
    broken = sum(report["verdict"] == "fail" for report in reports)
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>Conformance: {broken} of {len(reports)} tools fail</title>"
    yield f"<style>{_STYLE}</style></head><body>"
    yield "<h1>Conformance</h1>"
    yield f'<p class="faint">{len(reports)} tools checked, {broken} fail.</p>'
    if len(reports) > 1:
        yield "<table><tr><th>tool<th>verdict<th>findings<th>runs</tr>"
        for number, report in enumerate(reports):
            yield (
                f'<tr><td><a href="#tool-{number}">{escape(report["tool"])}</a>'
                f'<td class="verdict {report["verdict"]}">{_word(report["verdict"])}'
                f"<td>{len(report['findings'])}<td>{report['planned']}</tr>"
            )
        yield "</table>"
    for number, report in enumerate(reports):
        yield from _tool(number, report)
    yield "</body></html>"


def _word(verdict: str) -> str:
    return verdict.replace("_", " ")


def _tool(number: int, report: dict[str, Any]) -> Iterator[str]:
    kind = "every place, way and order up to the bound" if report["complete"] else "a sample"
    yield f'<h2 id="tool-{number}">{escape(report["tool"])}</h2>'
    yield (
        f'<p><span class="verdict {report["verdict"]}">{_word(report["verdict"])}</span> '
        f'<span class="faint">{report["planned"]} runs: {kind}; {report["arguments"]} arguments; '
        f"seed {report['seed']}</span></p>"
    )
    for stale in report["stale"]:
        yield f'<p class="fail">{escape(stale)}</p>'
    for found in report["findings"]:
        yield from _finding(found, report)
    yield "<table><tr><th>id<th>requirement<th>verdict<th>rules</tr>"
    for requirement in report["requirements"]:
        verdict = "known" if requirement["known"] else requirement["verdict"]
        note = requirement["known"] or requirement["reason"]
        yield (
            f'<tr><td>{requirement["id"]}<td title="{escape(requirement["sentence"])}">'
            f"{escape(requirement['title'])}<br><span class=faint>{escape(requirement['sentence'])}</span>"
            f'<td class="verdict {verdict}">{_word(verdict)}<br><span class="faint" style="font-weight:400;'
            f'white-space:normal">{escape(note)}</span>'
            f"<td class=faint>{escape(', '.join(requirement['rules']))}</tr>"
        )
    yield "</table>"


def _finding(found: dict[str, Any], report: dict[str, Any]) -> Iterator[str]:
    yield '<section class="finding">'
    yield f"<h3>{found['requirement']}: {escape(found['message'])}</h3><dl>"
    if found["where"]:
        yield f"<dt>at<dd><code>{escape(found['where'])}</code>"
    for left in found["left"]:
        yield f'<dt>left<dd class="fail"><code>{escape(left)}</code>'
    yield f"<dt>run<dd>{escape(found['case'])}; seen in {found['count']} of {report['planned']} runs"
    yield f"<dt>arguments<dd><code>{escape(json.dumps(found['arguments'], ensure_ascii=False))}</code>"
    yield f"<dt>replay<dd><code>{escape(found['token'])}</code></dl>"
    if found["ticks"]:
        yield from _picture(found)
    yield "</section>"


_LABEL: Final = 190
_LANE: Final = 30
_TOP: Final = 34
_GAP: Final = 26


def _picture(found: dict[str, Any]) -> Iterator[str]:
    ticks: list[list[Any]] = found["ticks"][:400]
    over = next((at for at, tick in enumerate(ticks) if tick[3] == "over"), len(ticks))
    lanes = [*found["lanes"]]
    left = [each for each in found["left"] if not each.startswith("task ")]
    rows = len(lanes) + len(left)
    right = _x(len(ticks)) + 90
    height = _TOP + rows * _LANE + 18
    yield '<div class="picture">'
    yield (
        f'<svg role="img" aria-label="swim lanes of the run" width="{right}" height="{height}" '
        f'viewBox="0 0 {right} {height}">'
    )
    for number, name in enumerate(lanes):
        yield from _lane(number, name, ticks, over, right)
    for number, each in enumerate(left, len(lanes)):
        y = _y(number)
        yield f'<text class="red" x="0" y="{y + 4}">{escape(_short(each))}</text>'
        yield _line("late", (_x(over), right), (y, y), each)
    for at, (_, _, time, what, _) in enumerate(ticks):
        if what in {"cancel", "over"}:
            word = "cancelled" if what == "cancel" else "call ended"
            x, y = _x(at), 12 if what == "cancel" else 26
            yield f'<line class="{what}" x1="{x}" x2="{x}" y1="{y + 3}" y2="{height - 12}"/>'
            shade = "red" if what == "cancel" else "faint"
            yield f'<text class="{shade}" x="{x + 3}" y="{y}">{word} at {time:g} s</text>'
    yield "</svg></div>"
    yield (
        '<p class="faint legend"><span>| a step</span><span style="color:var(--open)">&#9679; a cancellation '
        'is sent in</span><span class="fail">&#9473; outlives the call</span></p>'
    )


def _lane(number: int, name: str, ticks: list[list[Any]], over: int, right: int) -> Iterator[str]:
    y = _y(number)
    mine = [(at, tick) for at, tick in enumerate(ticks) if tick[0] == number]
    started = next((at for at, tick in mine if tick[3] == "start"), 0)
    ended = next((at for at, tick in mine if tick[3] == "end"), None)
    outlives = ended is None and over < len(ticks) + 1
    yield f'<text x="0" y="{y + 4}"{" class=red" if outlives else ""}>{escape(_short(name))}</text>'
    stop = over if ended is None else min(ended, over)
    yield f'<line class="life" x1="{_x(started)}" x2="{_x(stop)}" y1="{y}" y2="{y}"/>'
    if ended is None or ended > over:
        until = right if ended is None else _x(ended)
        yield _line("late", (_x(over), until), (y, y), "outlives the call")
    for at, (_, step, time, what, where) in mine:
        title = f"{what} {step} at {time:g} s" + (f"\n{where}" if where else "")
        if what == "sent":
            yield f'<circle class="sent" cx="{_x(at)}" cy="{y}" r="5"><title>{escape(title)}</title></circle>'
        elif what in {"step", "start", "end"}:
            half = 7 if what == "step" else 10
            yield _line("tick", (_x(at), _x(at)), (y - half, y + half), title)


def _line(kind: str, x: tuple[int, int], y: tuple[int, int], title: str) -> str:
    return (
        f'<line class="{kind}" x1="{x[0]}" x2="{x[1]}" y1="{y[0]}" y2="{y[1]}">'
        f"<title>{escape(title)}</title></line>"
    )


def _x(at: int) -> int:
    return _LABEL + at * _GAP


def _y(number: int) -> int:
    return _TOP + number * _LANE + _LANE // 2


def _short(name: str) -> str:
    return name if len(name) <= 28 else "..." + name[-25:]
