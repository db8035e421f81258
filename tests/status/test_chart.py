"""Charts: every point is drawn inside the frame; what is written is XML, or a picture with the same lines."""

from __future__ import annotations

import sys
from io import BytesIO
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from gossamer.errors import PackageMissing
from gossamer.status.chart import Series, line_chart, png, svg
from gossamer.status.chart.line_chart import BOTTOM, COLORS, HEIGHT, LEFT, RIGHT, TOP, WIDTH, number

SVG = "{http://www.w3.org/2000/svg}"
points = st.lists(st.tuples(st.floats(0, 1e12), st.floats(0, 1e12)), min_size=1, max_size=20)


@given(st.dictionaries(st.text(min_size=1, max_size=10), points, min_size=1, max_size=12))
@example({"tiny": [(5e-324, 5e-324)]})
def test_every_point_lies_inside_the_frame(series: dict[str, list[tuple[float, float]]]) -> None:
    text = svg(line_chart("memory <of> posts", "days", "bytes & more", series))
    lines = list(ElementTree.fromstring(_printable(text)).iter(f"{SVG}polyline"))
    assert len(lines) == len(series)
    for line, row in zip(lines, series.values(), strict=True):
        drawn = [tuple(map(float, pair.split(","))) for pair in line.get("points", "").split()]
        assert len(drawn) == len(row)
        for x, y in drawn:
            assert LEFT - 0.1 <= x <= WIDTH - RIGHT + 0.1
            assert TOP - 0.1 <= y <= HEIGHT - BOTTOM + 0.1


def _printable(text: str) -> str:
    return "".join(letter for letter in text if letter in "\n\t" or letter.isprintable())


def test_higher_values_are_further_up() -> None:
    text = svg(line_chart("t", "x", "y", {"a": [(0, 0), (1, 10), (2, 5)]}))
    line = next(ElementTree.fromstring(text).iter(f"{SVG}polyline"))
    low, high, middle = (float(pair.split(",")[1]) for pair in line.get("points", "").split())
    assert high < middle < low


def test_nothing_to_draw_is_said() -> None:
    with pytest.raises(ValueError, match="t: there is nothing to draw"):
        line_chart("t", "x", "y", {"a": []})


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.25, "0.25"), (20_000, "20k"), (1_500_000, "1.5M"), (-3e9, "-3G")]
)
def test_numbers_of_an_axis_are_short(value: float, text: str) -> None:
    assert number(value) == text


def picture(series: Series) -> Image.Image:
    return Image.open(BytesIO(png(line_chart("pages a day", "day", "pages", series)))).convert("RGB")


def test_a_picture_has_the_lines_of_the_chart_and_texts() -> None:
    many = {f"site.{number}": [(0.0, number), (1.0, number + 1.0)] for number in range(12)}
    drawn = picture(many)
    assert drawn.size == (2 * WIDTH, 2 * HEIGHT)
    colors = {color for _, color in drawn.getcolors(1 << 24) or ()}
    assert {tuple(bytes.fromhex(color[1:])) for color in COLORS} <= colors
    frame = drawn.crop((2 * LEFT, 2 * TOP, 2 * (WIDTH - RIGHT), 2 * (HEIGHT - BOTTOM)))
    assert len({color for _, color in frame.getcolors(1 << 24) or ()} & colors) > len(COLORS)
    for box in ((0, 2 * TOP, 48, 2 * (HEIGHT - BOTTOM)), (2 * LEFT, 0, 700, 2 * TOP), (1200, 90, 2 * WIDTH, 500)):
        assert len(drawn.crop(box).getcolors(1 << 24) or ()) > 2, f"texts in {box}"


def test_a_long_legend_makes_the_chart_higher() -> None:
    series = {f"site.{number}": [(0.0, 1.0), (1.0, 2.0)] for number in range(40)}
    chart = line_chart("t", "x", "y", series)
    assert chart.height > max(text.y for text in chart.texts) > HEIGHT
    assert f'height="{chart.height}"' in svg(chart)
    assert picture(series).size[1] == 2 * chart.height


def test_a_picture_without_pillow_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.ImageFont", None)
    with pytest.raises(PackageMissing, match=r"gossamer\[chart\]"):
        png(line_chart("t", "x", "y", {"a": [(0, 0)]}))
