"""The part of the docs that a run writes: tables, pictures and data.

``python -m benchmarks.page docs`` redoes it from the stored data, without measuring.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from .compare import BODIES, Measured
from .curves import Curve
from .data import Circumstances, Figures, read, write
from .guarantees import GUARANTEES
from .harness import Ratio
from .pictures import bars, lines
from .rows import Row

__all__ = ["BEGIN", "DATA", "END", "PAGE", "files_of", "publish", "text_of"]

BEGIN: Final = "<!-- measured: begin -->"
END: Final = "<!-- measured: end -->"
PAGE: Final = "benchmarks.md"
DATA: Final = "_static/benchmarks.json"
_BARS, _LINES = "_static/benchmarks-calls.svg", "_static/benchmarks-scale.svg"


def _table(head: Sequence[str], right: Sequence[int], rows: Sequence[Sequence[str]]) -> str:
    rule = ["--:" if number in right else "---" for number in range(len(head))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, rule, *rows])


def _measure(value: float, unit: str = "") -> str:
    return f"{value:.2f} {unit}".strip()


def _row(row: Row) -> list[str]:
    sign = ">=" if row.at_least else "<="
    return [
        row.what,
        row.against,
        _measure(row.value, row.unit),
        "" if row.spread is None else f"{row.spread:.0%}",
        "" if row.goal is None else f"{sign} {_measure(row.goal, row.unit)}",
        {True: "yes", False: "**no**", None: ""}[row.reached],
    ]


def goals_of(figures: Figures) -> list[Row]:
    """Return all rows with goals, those among peers and curves included."""
    rows = list(figures.rows)
    rows += [
        Row(
            f"how much faster than {each.name}",
            "`add`",
            each.slower["add"].median,
            each.slower["add"].spread,
            each.goal,
            at_least=True,
        )
        for each in figures.peers
        if each.goal is not None and each.absent is None
    ]
    rows += [
        Row(
            f"cancel, per call: {curve.points[-1].size:,} in flight",
            f"1,000 in flight; bare tasks: {_grown(curve, own=False):.2f}",
            _grown(curve, own=True),
            goal=1.3,
        )
        for curve in figures.curves
        if curve.name == "cancel" and curve.points[-1].size > curve.since
    ]
    return rows


def _grown(curve: Curve, *, own: bool) -> float:
    first = next(point for point in curve.points if point.size >= curve.since)
    last = curve.points[-1]
    return last.own / first.own if own else last.by_hand / first.by_hand


def _circumstances(given: Circumstances) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in given.versions.items())
    mood = (
        "The machine was quiet."
        if given.quiet
        else "**The machine was busy with other work, so the last digits mean nothing.**"
    )
    before, after = given.load
    return (
        f"Measured on {given.date}: {given.python}, {versions}; {given.machine}, load {before} before and "
        f"{after} after. Medians of {given.rounds} rounds; the spread is the distance of the quartiles as a "
        f"part of the median. {mood}"
    )


def _where(given: Circumstances) -> str:
    load = "" if given.quiet else ", on a busy machine"
    return f"{given.python}, trio {given.versions['trio']}, {given.date}{load}"


def _ratio(ratio: Ratio | None) -> str:
    return "" if ratio is None else f"{ratio.median:.2f}"


def _peer(each: Measured) -> list[str]:
    if each.absent is not None:
        return [each.name, f"not measured: {each.absent}", *([""] * (len(BODIES) - 1 + len(GUARANTEES)))]
    name = f"**{each.name}**" if each.package == "trio-tools" else each.name
    return [
        name,
        *(_ratio(each.ratios.get(body)) for body in BODIES),
        *("✓" if each.guarantees[name] else "-" for name in GUARANTEES),
    ]


def _curve(curve: Curve) -> list[str]:
    points = " · ".join(f"{point.size:,}: {point.value:.2f}" for point in curve.points)
    return [
        curve.title,
        f"{curve.axis}, {curve.unit}",
        points,
        "" if curve.limit is None or curve.growth is None else f"{curve.growth:.2f}",
        {True: "yes", False: "**no**", None: ""}[curve.flat],
    ]


def text_of(figures: Figures) -> str:
    """Return the tables as Markdown, without the pictures."""
    return "\n\n".join(_sections(figures, pictures=False))


def _sections(figures: Figures, *, pictures: bool) -> list[str]:
    head = ("what", "against", "measured", "spread", "goal", "reached")
    sections = [
        _circumstances(figures.circumstances),
        "### Goals",
        _table(head, (2, 3, 4), [_row(row) for row in goals_of(figures)]),
    ]
    if figures.peers:
        sections.append("### Other ways to call a tool")
        if pictures:
            sections.append(f"![Bars of what a tool call costs, ours and others]({_BARS})")
        columns = ("way", "`add`", "checkpoint", "2 KB", *GUARANTEES)
        versions = {each.package: each.version for each in figures.peers if each.absent is None}
        sections += [
            _table(columns, (1, 2, 3), [_peer(each) for each in figures.peers]),
            "\n".join(f"- **{name}**: {text}." for name, text in GUARANTEES.items()),
            f"Versions: {', '.join(f'{package} {number}' for package, number in versions.items())}.",
        ]
    sections.append("### Curves")
    if pictures:
        sections.append(f"![Curves of what a call costs as there is more of something]({_LINES})")
    sections.append(
        _table(
            ("what", "over, in", "cost", "growth", "flat"), (3,), [_curve(curve) for curve in figures.curves]
        )
    )
    if figures.elsewhere:
        sections.append("### Record and conformance")
        sections += figures.elsewhere.values()
    return sections


def files_of(figures: Figures, page: str) -> dict[str, str]:
    """Return what the docs are to hold, by path: the page with its measured part redone, and the pictures."""
    begin, end = page.index(BEGIN), page.index(END)
    measured = "\n\n".join([BEGIN, *_sections(figures, pictures=True), ""])
    where = _where(figures.circumstances)
    files = {PAGE: page[:begin] + measured + page[end:], _LINES: lines(figures.curves, where)}
    if figures.peers:
        files[_BARS] = bars(figures.peers, where)
    return files


def publish(figures: Figures, docs: Path) -> None:
    """Write data, pictures and page, all from the data as it is stored."""
    write(figures, docs / DATA)
    for name, text in files_of(read(docs / DATA), (docs / PAGE).read_text(encoding="utf-8")).items():
        (docs / name).write_text(text, encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__)
    parser.add_argument("docs", type=Path)
    docs: Path = parser.parse_args(arguments).docs
    publish(read(docs / DATA), docs)


if __name__ == "__main__":
    main()
