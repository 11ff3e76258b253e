"""A report as one page that needs nothing but itself: verdicts, findings, and a picture of each."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, Final

from ._picture import PICTURE_STYLE, picture

__all__ = ["page"]

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1c2024; --paper: #fcfcfd; --faint: #60646c; --line: #d9d9e0;
  --good: #18794e; --bad: #ce2c31; --open: #ab6400; --accent: #0d74ce; --card: #f4f4f6; }
@media (prefers-color-scheme: dark) { :root { --ink: #edeef0; --paper: #111113; --faint: #b0b4ba;
  --line: #363a3f; --good: #3dd68c; --bad: #ff9592; --open: #ffca16; --accent: #70b8ff; --card: #1c1d20; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 68rem; padding: 2rem 1.25rem 4rem; background: var(--paper);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
a { color: var(--accent); } :focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; } h2 { font-size: 1.25rem; margin: 2.5rem 0 .25rem; }
h3 { font-size: 1rem; margin: 0 0 .5rem; } p { margin: .25rem 0; overflow-wrap: anywhere; }
.faint { color: var(--faint); } code, pre { font: 13px/1.45 ui-monospace, monospace; }
table { border-collapse: collapse; width: 100%; margin: .75rem 0; }
th, td { text-align: left; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
td { overflow-wrap: anywhere; } th { font-weight: 600; }
td.id, td.verdict, th.verdict { white-space: nowrap; } .verdict { font-weight: 600; }
td .faint { font-weight: 400; white-space: normal; }
.pass { color: var(--good); } .fail { color: var(--bad); } .unresolved, .known { color: var(--open); }
.not_applicable { color: var(--faint); font-weight: 400; }
section.finding { background: var(--card); border: 1px solid var(--line); border-left: 4px solid var(--bad);
  border-radius: 6px; padding: 1rem; margin: 1rem 0; }
section.finding dl { display: grid; grid-template-columns: 6rem 1fr; gap: .2rem .75rem; margin: 0 0 .75rem; }
dt { color: var(--faint); } dd { margin: 0; overflow-wrap: anywhere; }
summary { cursor: pointer; padding: .25rem 0; }
@media (max-width: 40rem) { body { padding: 1rem .75rem 3rem; } .rules { display: none; }
  section.finding { padding: .75rem; } section.finding dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: .4rem; } }
@media print { details > * { display: block; } }
"""

_MARKS: Final = {"pass": "✓", "fail": "✗", "unresolved": "?", "not_applicable": "-", "known": "!"}


def page(reports: Sequence[dict[str, Any]]) -> str:
    """Return the page for reports in their JSON form."""
    return "\n".join(_page(reports)) + "\n"


def _page(reports: Sequence[dict[str, Any]]) -> Iterator[str]:
    broken = sum(report["verdict"] == "fail" for report in reports)
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>Conformance: {broken} of {_counted(len(reports), 'tool')} fail</title>"
    yield f"<style>{_STYLE}{PICTURE_STYLE}</style></head><body><main>"
    yield "<h1>Conformance</h1>"
    yield f'<p class="faint">{_counted(len(reports), "tool")} checked, {broken} fail.</p>'
    if len(reports) > 1:
        yield '<table><thead><tr><th scope="col">tool</th><th scope="col">verdict</th>'
        yield '<th scope="col">findings</th><th scope="col">runs</th></tr></thead><tbody>'
        for number, report in enumerate(reports):
            yield (
                f'<tr><td><a href="#tool-{number}">{escape(report["tool"])}</a></td>'
                f'<td class="verdict {report["verdict"]}">{_verdict(report["verdict"])}</td>'
                f"<td>{len(report['findings'])}</td><td>{report['planned']}</td></tr>"
            )
        yield "</tbody></table>"
    for number, report in enumerate(reports):
        yield from _tool(number, report, alone=len(reports) == 1)
    yield "</main></body></html>"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _word(verdict: str) -> str:
    return verdict.replace("_", " ")


def _verdict(verdict: str) -> str:
    return f'<span aria-hidden="true">{_MARKS[verdict]}</span> {_word(verdict)}'


def _tool(number: int, report: dict[str, Any], *, alone: bool) -> Iterator[str]:
    kind = "every place, way and order up to the bound" if report["complete"] else "a sample"
    yield f'<h2 id="tool-{number}">{escape(report["tool"])}</h2>'
    yield (
        f'<p><span class="verdict {report["verdict"]}">{_verdict(report["verdict"])}</span> '
        f'<span class="faint">{_counted(report["planned"], "run")}: {kind}; '
        f"{report['arguments']} arguments; seed {report['seed']}</span></p>"
    )
    for stale in report["stale"]:
        yield f'<p class="fail">{escape(stale)}</p>'
    for place, found in enumerate(report["findings"]):
        yield from _finding(f"finding-{number}-{place}", found, report)
    counts = Counter(_shown(requirement) for requirement in report["requirements"])
    told = ", ".join(f"{count} {_word(verdict)}" for verdict, count in sorted(counts.items()))
    yield f"<details{' open' if alone else ''}>"
    yield f"<summary>{_counted(len(report['requirements']), 'requirement')}: {told}</summary>"
    yield '<table><thead><tr><th scope="col">id</th><th scope="col">requirement</th>'
    yield '<th scope="col">verdict</th><th scope="col" class="rules">rules</th></tr></thead><tbody>'
    for requirement in report["requirements"]:
        yield from _requirement(requirement)
    yield "</tbody></table></details>"


def _shown(requirement: dict[str, Any]) -> str:
    return "known" if requirement["known"] else requirement["verdict"]


def _requirement(requirement: dict[str, Any]) -> Iterator[str]:
    verdict = _shown(requirement)
    note = requirement["known"] or requirement["reason"]
    yield (
        f'<tr><td class="id">{requirement["id"]}</td>'
        f"<td>{escape(requirement['title'])}<br>"
        f'<span class="faint">{escape(requirement["sentence"])}</span></td>'
        f'<td class="verdict {verdict}">{_verdict(verdict)}'
        f'<br><span class="faint">{escape(note)}</span></td>'
        f'<td class="rules faint">{escape(", ".join(requirement["rules"]))}</td></tr>'
    )


def _finding(name: str, found: dict[str, Any], report: dict[str, Any]) -> Iterator[str]:
    yield f'<section class="finding" aria-labelledby="{name}">'
    yield f'<h3 id="{name}">{found["requirement"]}: {escape(found["message"])}</h3><dl>'
    if found["where"]:
        yield f"<dt>at</dt><dd><code>{escape(found['where'])}</code></dd>"
    for left in found["left"]:
        yield f'<dt>left</dt><dd class="fail"><code>{escape(left)}</code></dd>'
    count = f"seen in {found['count']} of {report['planned']} runs"
    yield f"<dt>run</dt><dd>{escape(found['case'])}; {count}</dd>"
    arguments = json.dumps(found["arguments"], ensure_ascii=False)
    yield f"<dt>arguments</dt><dd><code>{escape(arguments)}</code></dd>"
    yield f"<dt>replay</dt><dd><code>{escape(found['token'])}</code></dd></dl>"
    if found["ticks"]:
        yield from picture(name, found)
    yield "</section>"
