"""Charts: every point is drawn inside the frame, and what is written is XML."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gossamer.status import chart

SVG = "{http://www.w3.org/2000/svg}"
points = st.lists(st.tuples(st.floats(0, 1e12), st.floats(0, 1e12)), min_size=1, max_size=20)


@given(st.dictionaries(st.text(min_size=1, max_size=10), points, min_size=1, max_size=12))
@example({"tiny": [(5e-324, 5e-324)]})
def test_every_point_lies_inside_the_frame(series: dict[str, list[tuple[float, float]]]) -> None:
    text = chart.line_chart("memory <of> posts", "days", "bytes & more", series)
    lines = list(ElementTree.fromstring(_printable(text)).iter(f"{SVG}polyline"))
    assert len(lines) == len(series)
    for line, row in zip(lines, series.values(), strict=True):
        drawn = [tuple(map(float, pair.split(","))) for pair in line.get("points", "").split()]
        assert len(drawn) == len(row)
        for x, y in drawn:
            assert chart.LEFT - 0.1 <= x <= chart.WIDTH - chart.RIGHT + 0.1
            assert chart.TOP - 0.1 <= y <= chart.HEIGHT - chart.BOTTOM + 0.1


def _printable(text: str) -> str:
    return "".join(letter for letter in text if letter in "\n\t" or letter.isprintable())


def test_higher_values_are_further_up() -> None:
    text = chart.line_chart("t", "x", "y", {"a": [(0, 0), (1, 10), (2, 5)]})
    line = next(ElementTree.fromstring(text).iter(f"{SVG}polyline"))
    low, high, middle = (float(pair.split(",")[1]) for pair in line.get("points", "").split())
    assert high < middle < low


def test_nothing_to_draw_is_said() -> None:
    with pytest.raises(ValueError, match="t: there is nothing to draw"):
        chart.line_chart("t", "x", "y", {"a": []})


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.25, "0.25"), (20_000, "20k"), (1_500_000, "1.5M"), (-3e9, "-3G")]
)
def test_numbers_of_an_axis_are_short(value: float, text: str) -> None:
    assert chart.number(value) == text
