"""The pictures of the docs: bars of ratios on a logarithmic axis, and curves; SVG whose text is text."""

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from .compare import BODIES, Measured
from .curves import Curve

__all__ = ["bars", "lines"]

_STYLE: Final = """
.card { fill: #fbfaf7; }
.title { font-size: 17px; font-weight: 600; fill: #222222; }
.label { font-size: 13px; fill: #222222; }
.ours { font-weight: 700; }
.small { font-size: 11.5px; fill: #55524a; }
.grid { stroke: #e2dfd6; stroke-width: 1; }
.one { stroke: #55524a; stroke-width: 1.5; }
.band { fill: #f1ede2; }
.a { fill: #2f6db3; } .b { fill: #3d9a8b; } .c { fill: #d08a1d; }
.curve { fill: none; stroke: #2f6db3; stroke-width: 2; stroke-linejoin: round; }
@media (prefers-color-scheme: dark) {
.card { fill: #1d1f22; }
.title, .label { fill: #eceae4; }
.small { fill: #b3afa4; }
.grid { stroke: #383a3e; }
.one { stroke: #b3afa4; }
.band { fill: #272a2e; }
.a { fill: #6aa5e3; } .b { fill: #5fc2b1; } .c { fill: #e9b04f; }
.curve { stroke: #6aa5e3; }
}
"""

_SHOWN: Final = {"add": "add(a, b)", "pause": "one checkpoint", "echo": "2 KB of JSON in and out"}
_COLOURS: Final = dict(zip(BODIES, "abc", strict=True))


def _svg(width: int, height: int, title: str, description: str, parts: Iterable[str]) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"',
            'aria-labelledby="title desc" font-family="system-ui, sans-serif">',
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="desc">{escape(description)}</desc>',
            f"<style>{_STYLE}</style>",
            f'<rect class="card" width="{width}" height="{height}" rx="12"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


def _text(x: float, y: float, text: str, classes: str, anchor: str = "start") -> str:
    return f'<text class="{classes}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _line(classes: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{classes}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 20 else f"{value:.1f}" if value >= 2 else f"{value:.2f}"


def _plain(markdown: str) -> str:
    return markdown.replace("`", "")


def bars(measured: Sequence[Measured], machine: str) -> str:
    """Draw how many times a nursery by hand each way to call a tool costs; ours first, then by cost."""
    present = [each for each in measured if each.absent is None]
    ours, peers = present[:1], present[1:]
    shown = ours + sorted(peers, key=lambda each: each.ratios["add"].median)
    left, right, top, step, thick = 300, 920, 92, 44, 11
    values = [ratio.median for each in shown for ratio in each.ratios.values()]
    # The numbers beside the shortest and the longest bar need some room.
    lowest = min(math.log10(min(values)), 0) - 0.3
    highest = math.log10(max(values)) * 1.05
    bottom = top + step * len(shown)

    def at(value: float) -> float:
        return left + (math.log10(value) - lowest) / (highest - lowest) * (right - left)

    parts = [
        _text(28, 36, "What a tool call costs", "title"),
        _text(28, 56, "times a trio nursery with one child around the same body; logarithmic", "small"),
    ]
    x = 560.0
    for body, colour in _COLOURS.items():
        parts += [
            f'<rect class="{colour}" x="{x:.1f}" y="27" width="11" height="11" rx="2"/>',
            _text(x + 16, 37, _SHOWN[body], "label"),
        ]
        x += 34 + 7.2 * len(_SHOWN[body])
    parts.append(f'<rect class="band" x="14" y="{top}" width="952" height="{step}" rx="6"/>')
    for power in range(math.ceil(lowest), math.floor(highest) + 1):
        value = 10.0**power
        parts += [
            _line("one" if power == 0 else "grid", at(value), top - 6, at(value), bottom + 4),
            _text(at(value), bottom + 20, f"{value:g}", "small", "middle"),
        ]
    parts.append(_text(at(1), top - 11, "nursery and child by hand", "small", "middle"))
    for number, each in enumerate(shown):
        y = top + step * number
        name = "label ours" if number == 0 else "label"
        parts.append(_text(left - 16, y + step / 2 + 5, _plain(each.name), name, "end"))
        for row, body in enumerate(BODIES):
            value = each.ratios[body].median
            begin, end = sorted((at(1), at(value)))
            above = y + (step - 3 * thick - 2) / 2 + row * (thick + 1)
            parts.append(
                f'<rect class="{_COLOURS[body]}" x="{begin:.1f}" y="{above:.1f}" '
                f'width="{max(end - begin, 1):.1f}" height="{thick}" rx="2"/>'
            )
            beside, anchor = (end + 5, "start") if value >= 1 else (begin - 5, "end")
            parts.append(_text(beside, above + thick - 1.5, _number(value), "small", anchor))
    parts.append(_text(28, bottom + 44, machine, "small"))
    told = "; ".join(f"{_plain(each.name)} {_number(each.ratios['add'].median)}" for each in shown)
    return _svg(
        980, bottom + 60, "What a tool call costs", f"Times a nursery by hand, for add: {told}.", parts
    )


_PANEL_WIDTH, _PANEL_HEIGHT, _COLUMNS = 312, 212, 3


def lines(curves: Sequence[Curve], machine: str) -> str:
    """Draw each curve in a panel of its own."""
    parts = [
        _text(28, 36, "What a call costs as there is more of something", "title"),
        _text(28, 56, "a flat line is what one wants; costs begin at zero", "small"),
    ]
    for number, curve in enumerate(curves):
        row, column = divmod(number, _COLUMNS)
        parts += _panel(curve, 22 + column * _PANEL_WIDTH, 76 + row * _PANEL_HEIGHT)
    height = 76 + math.ceil(len(curves) / _COLUMNS) * _PANEL_HEIGHT + 34
    parts.append(_text(28, height - 16, machine, "small"))
    told = "; ".join(f"{curve.title}: {_number(curve.points[-1].value)} {curve.unit}" for curve in curves)
    return _svg(980, height, "What a call costs as there is more of something", f"At the end: {told}.", parts)


def _size(size: int) -> str:
    return f"{size // 1000}k" if size >= 1000 and size % 1000 == 0 else str(size)


def _panel(curve: Curve, x: float, y: float) -> list[str]:
    left, right, top, bottom = x + 42, x + _PANEL_WIDTH - 30, y + 50, y + _PANEL_HEIGHT - 42
    highest = _step_above(max(1.0, *(point.value for point in curve.points)))
    first, last = curve.points[0].size, curve.points[-1].size
    logarithmic = 0 < first * 100 <= last
    sizes = [math.log10(point.size) if logarithmic else float(point.size) for point in curve.points]

    def at(size: float, value: float) -> tuple[float, float]:
        across = (size - sizes[0]) / ((sizes[-1] - sizes[0]) or 1)
        return left + across * (right - left), bottom - value / highest * (bottom - top)

    parts = [
        _text(x + 8, y + 18, curve.title, "label"),
        _text(x + 8, y + 34, curve.unit, "small"),
        _text((left + right) / 2, bottom + 32, curve.axis, "small", "middle"),
    ]
    for part in range(3):
        value = highest * part / 2
        height = at(sizes[0], value)[1]
        parts += [
            _line("grid", left, height, right, height),
            _text(left - 6, height + 4, f"{value:g}", "small", "end"),
        ]
    places = [at(size, max(point.value, 0)) for size, point in zip(sizes, curve.points, strict=True)]
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
    parts.append(f'<polyline class="curve" points="{path}"/>')
    for number, ((a, b), point) in enumerate(zip(places, curve.points, strict=True)):
        # A number never stands on the axis.
        anchor = "start" if number == 0 else "end" if number == len(places) - 1 else "middle"
        parts += [
            f'<circle class="a" cx="{a:.1f}" cy="{b:.1f}" r="3"/>',
            _text(a, b - 8, _number(point.value), "small", anchor),
            _text(a, bottom + 16, _size(point.size), "small", "middle"),
        ]
    return parts


def _step_above(value: float) -> float:
    """Return the least of 1, 2, 4, 6, 8 and their tenfolds with room above a value."""
    scale = 10.0 ** math.floor(math.log10(value))
    return next(each * scale for each in (1, 2, 4, 6, 8, 10, 20) if each * scale >= value * 1.1)
