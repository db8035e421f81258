"""A chart as SVG: a text, without a library, and with nothing to load from elsewhere."""

from __future__ import annotations

from html import escape

from gossamer.status.chart.line_chart import WIDTH, Chart, ChartLine, ChartText

INK = "#1e293b"


def svg(chart: Chart) -> str:
    size = f'viewBox="0 0 {WIDTH} {chart.height}" width="{WIDTH}" height="{chart.height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12" role="img">',
        f"<title>{escape(chart.title)}</title>",
        f'<rect width="{WIDTH}" height="{chart.height}" fill="#ffffff"/>',
        *map(_line, chart.lines),
        *map(_text, chart.texts),
        "</svg>",
        "",
    ]
    return "\n".join(parts)


def _line(line: ChartLine) -> str:
    style = f'stroke="{line.color}"' + (f' stroke-width="{line.width}"' if line.width != 1 else "")
    if line.dash:
        style += f' stroke-dasharray="{" ".join(map(str, line.dash))}"'
    if line.series:
        drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in line.points)
        return f'<polyline points="{drawn}" fill="none" {style}/>'
    (x1, y1), (x2, y2) = line.points
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {style}/>'


def _text(text: ChartText) -> str:
    turn = f' transform="rotate(-90 {text.x:g} {text.y:g})"' if text.turned else ""
    place = f'x="{text.x:g}" y="{text.y:g}" text-anchor="{text.anchor}" font-size="{text.size}"'
    return f'<text {place} fill="{INK}"{turn}>{escape(text.text)}</text>'
