"""A chart as PNG, for mail and chat, which show no SVG. Needs Pillow, which brings a font of its own: the system may have none."""

from __future__ import annotations

from importlib import import_module
from io import BytesIO
from itertools import pairwise
from math import dist
from typing import Any

from gossamer.errors import PackageMissing
from gossamer.status.chart.line_chart import WIDTH, Chart, ChartLine, ChartText
from gossamer.status.chart.svg import INK

SCALE = 2
"""Pixels for each unit of the chart: it is read on screens that have more than one."""
ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}


def png(chart: Chart) -> bytes:
    """PackageMissing without Pillow."""
    try:
        image, draw, font = (import_module(f"PIL.{name}") for name in ("Image", "ImageDraw", "ImageFont"))
    except ImportError:
        raise PackageMissing("Charts as PNG need the package Pillow: pip install 'gossamer[chart]'.") from None
    drawn = image.new("RGB", (WIDTH * SCALE, chart.height * SCALE), "#ffffff")
    pen = draw.Draw(drawn)
    for line in chart.lines:
        _draw_line(pen, line)
    for text in chart.texts:
        face = font.load_default(text.size * SCALE)
        if text.turned:
            _draw_turned(image, draw, drawn, text, face)
        else:
            pen.text((text.x * SCALE, text.y * SCALE), text.text, INK, face, ANCHORS[text.anchor])
    file = BytesIO()
    drawn.save(file, "PNG", optimize=True)
    return file.getvalue()


def _draw_line(pen: Any, line: ChartLine) -> None:
    points = [(x * SCALE, y * SCALE) for x, y in line.points]
    width = line.width * SCALE
    if not line.dash:
        pen.line(points, line.color, width, "curve")
        return
    for first, last in pairwise(points):
        for begin, end in _strokes(dist(first, last), *(part * SCALE for part in line.dash)):
            pen.line([_between(first, last, begin), _between(first, last, end)], line.color, width)


def _strokes(length: float, stroke: float, gap: float) -> list[tuple[float, float]]:
    """Where the strokes of a dashed line begin and end, as parts of the line."""
    count = int(length // (stroke + gap)) + 1 if length else 0
    starts = [place * (stroke + gap) for place in range(count)]
    return [(start / length, min(start + stroke, length) / length) for start in starts]


def _between(first: tuple[float, float], last: tuple[float, float], part: float) -> tuple[float, float]:
    return first[0] + (last[0] - first[0]) * part, first[1] + (last[1] - first[1]) * part


def _draw_turned(image: Any, draw: Any, drawn: Any, text: ChartText, face: Any) -> None:
    """A text that runs upwards is drawn lying down, and turned."""
    width, height = round(face.getlength(text.text)) + 1, text.size * SCALE * 2
    lying = image.new("L", (width, height))
    draw.Draw(lying).text((width / 2, text.size * SCALE * 1.5), text.text, 255, face, "ms")
    mask = lying.rotate(90, expand=True)
    place = round(text.x * SCALE - text.size * SCALE * 1.5), round(text.y * SCALE - width / 2)
    drawn.paste(INK, (*place, place[0] + mask.width, place[1] + mask.height), mask)
