"""Where the lines and texts of a chart are. Pure: series in, shapes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, floor, log10
from typing import Literal, NamedTuple

Series = Mapping[str, Sequence[tuple[float, float]]]

WIDTH, HEIGHT = 760, 380
LEFT, RIGHT, TOP, BOTTOM = 72, 190, 44, 48
COLORS = ("#0b6bcb", "#c2410c", "#15803d", "#7e22ce", "#ca8a04", "#0891b2", "#be123c", "#65a30d", "#475569")
DASHES: tuple[tuple[int, ...], ...] = ((), (6, 3), (2, 3))
SMALLEST = 1e-300
"""No axis is shorter: its parts would be zero."""
TICKS = 6
LEGEND = 18
"""The height of a line of the legend."""
GRID, TICK = "#e2e8f0", "#94a3b8"


class ChartLine(NamedTuple):
    """Straight lines from point to point. `dash`: how long the strokes and the gaps are; empty for none. `series`: it shows figures."""

    points: list[tuple[float, float]]
    color: str
    width: int = 1
    dash: tuple[int, ...] = ()
    series: bool = False


class ChartText(NamedTuple):
    """A text on the base line `y`, which begins, ends or has its middle at `x`. `turned`: it runs upwards."""

    x: float
    y: float
    text: str
    anchor: Literal["start", "middle", "end"] = "start"
    size: int = 12
    turned: bool = False


class Chart(NamedTuple):
    """A chart is WIDTH wide, and as high as its legend needs."""

    title: str
    height: int
    lines: list[ChartLine]
    texts: list[ChartText]


def number(value: float) -> str:
    """As people read it on an axis: 1.5M, 20k, 0.25."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.4g}{unit}"
    return f"{value:.4g}"


def line_chart(
    title: str, x_label: str, y_label: str, series: Series, x_name: Callable[[float], str] = number
) -> Chart:
    """A chart of each series' points, in the order of x, with a legend beside it. The y axis begins at 0. `x_name` is what the x axis
    calls a value."""
    points = [point for row in series.values() for point in row]
    if not points:
        raise ValueError(f"{title}: there is nothing to draw.")
    x_ticks = _ticks(min(x for x, _ in points), max(x for x, _ in points))
    y_ticks = _ticks(0.0, max(max(y for _, y in points), 0.0))
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    right, bottom = LEFT + width, TOP + height

    def across(x: float) -> float:
        return LEFT + width * (x - x_ticks[0]) / (x_ticks[-1] - x_ticks[0])

    def down(y: float) -> float:
        return TOP + height * (1 - (y - y_ticks[0]) / (y_ticks[-1] - y_ticks[0]))

    lines: list[ChartLine] = []
    texts = [
        ChartText(LEFT, 24, title, size=15),
        ChartText(LEFT + width / 2, HEIGHT - 10, x_label, "middle"),
        ChartText(16, TOP + height / 2, y_label, "middle", turned=True),
    ]
    for y in y_ticks:
        lines.append(ChartLine([(LEFT, down(y)), (right, down(y))], GRID))
        texts.append(ChartText(LEFT - 8, down(y) + 4, number(y), "end"))
    for x in x_ticks:
        lines.append(ChartLine([(across(x), bottom), (across(x), bottom + 4)], TICK))
        texts.append(ChartText(across(x), bottom + 18, x_name(x), "middle"))
    for place, (name, row) in enumerate(series.items()):
        color, dash = COLORS[place % len(COLORS)], DASHES[place // len(COLORS) % len(DASHES)]
        lines.append(ChartLine([(across(x), down(y)) for x, y in row], color, 2, dash, series=True))
        at = TOP + 8 + place * LEGEND
        lines.append(ChartLine([(right + 14, at), (right + 34, at)], color, 2, dash))
        texts.append(ChartText(right + 40, at + 4, name))
    return Chart(title, max(HEIGHT, TOP + LEGEND * (len(series) + 1)), lines, texts)


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers that hold `low` and `high`."""
    span = max(high - low or abs(high) or 1.0, SMALLEST)
    magnitude = 10 ** floor(log10(span / TICKS))
    step = next(each * magnitude for each in (1, 2, 5, 10) if span / (each * magnitude) <= TICKS)
    first, last = floor(low / step), ceil(high / step)
    return [tick * step for tick in range(first, max(last, first + 1) + 1)]
