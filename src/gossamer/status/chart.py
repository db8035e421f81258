"""Line charts as SVG. Pure: series in, text out; no library, nothing to load from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import ceil, floor, log10

Series = Mapping[str, Sequence[tuple[float, float]]]

WIDTH, HEIGHT = 760, 380
LEFT, RIGHT, TOP, BOTTOM = 72, 190, 44, 48
COLORS = ("#0b6bcb", "#c2410c", "#15803d", "#7e22ce", "#ca8a04", "#0891b2", "#be123c", "#65a30d", "#475569")
DASHES = ("", "6 3", "2 3")
SMALLEST = 1e-300
"""No axis is shorter: its parts would be zero."""
TICKS = 6


def line_chart(title: str, x_label: str, y_label: str, series: Series) -> str:
    """A chart of each series' points, in the order of x, with a legend beside it. The y axis begins at 0."""
    points = [point for row in series.values() for point in row]
    if not points:
        raise ValueError(f"{title}: there is nothing to draw.")
    x_ticks = _ticks(min(x for x, _ in points), max(x for x, _ in points))
    y_ticks = _ticks(0.0, max(max(y for _, y in points), 0.0))
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def across(x: float) -> float:
        return LEFT + width * (x - x_ticks[0]) / (x_ticks[-1] - x_ticks[0])

    def down(y: float) -> float:
        return TOP + height * (1 - (y - y_ticks[0]) / (y_ticks[-1] - y_ticks[0]))

    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        _text(LEFT, 24, title, size=15),
        _text(LEFT + width / 2, HEIGHT - 10, x_label, anchor="middle"),
        f'<g transform="rotate(-90 16 {TOP + height / 2:g})">{_text(16, TOP + height / 2, y_label, anchor="middle")}</g>',
    ]
    for y in y_ticks:
        parts.append(_line(LEFT, down(y), LEFT + width, down(y), "#e2e8f0"))
        parts.append(_text(LEFT - 8, down(y) + 4, number(y), anchor="end"))
    for x in x_ticks:
        parts.append(_line(across(x), TOP + height, across(x), TOP + height + 4, "#94a3b8"))
        parts.append(_text(across(x), TOP + height + 18, number(x), anchor="middle"))
    for place, (name, row) in enumerate(series.items()):
        color, dash = COLORS[place % len(COLORS)], DASHES[place // len(COLORS) % len(DASHES)]
        style = f'fill="none" stroke="{color}" stroke-width="2"' + (f' stroke-dasharray="{dash}"' if dash else "")
        drawn = " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y in row)
        parts.append(f'<polyline points="{drawn}" {style}/>')
        at = TOP + 8 + place * 18
        parts.append(f'<path d="M{LEFT + width + 14} {at} h20" {style}/>')
        parts.append(_text(LEFT + width + 40, at + 4, name))
    return "\n".join([*parts, "</svg>", ""])


def number(value: float) -> str:
    """As people read it on an axis: 1.5M, 20k, 0.25."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.4g}{unit}"
    return f"{value:.4g}"


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers that hold `low` and `high`."""
    span = max(high - low or abs(high) or 1.0, SMALLEST)
    magnitude = 10 ** floor(log10(span / TICKS))
    step = next(each * magnitude for each in (1, 2, 5, 10) if span / (each * magnitude) <= TICKS)
    first, last = floor(low / step), ceil(high / step)
    return [tick * step for tick in range(first, max(last, first + 1) + 1)]


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}" fill="#1e293b">{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, color: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}"/>'
