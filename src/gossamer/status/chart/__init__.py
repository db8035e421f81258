"""Line charts: laid out once, written as SVG or PNG."""

from gossamer.status.chart.line_chart import Series, line_chart
from gossamer.status.chart.png import png
from gossamer.status.chart.svg import svg

__all__ = ["Series", "line_chart", "png", "svg"]
