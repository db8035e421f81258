"""The Grafana dashboard, from one list of panels. Pure data: `dashboard()` is what Grafana imports.

Every expression is evaluated against a real Prometheus in the tests, so a metric that is renamed cannot leave a panel empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

WIDTH = 24
RATE = "[$__rate_interval]"
CRAWL = 'crawl=~"$crawl"'
GROUP = f'{CRAWL}, group=~"$group"'
SERVING = f'{CRAWL}, group=~"($group)|"'
"""Workers of a group, and those of several, which have no label `group`."""
SOURCE = {"type": "prometheus", "uid": "${source}"}


class Query(NamedTuple):
    """An expression, and what its lines are called."""

    expr: str
    legend: str = ""


class Panel(NamedTuple):
    """One picture: `kind` is Grafana's, `unit` one of Grafana's units, `width` in columns of 24."""

    title: str
    queries: Sequence[Query]
    kind: str = "timeseries"
    unit: str = "short"
    width: int = 8
    help: str = ""
    stacked: bool = False


class PanelRow(NamedTuple):
    title: str
    height: int
    panels: Sequence[Panel]


def _rate(metric: str, by: str, where: str = GROUP) -> str:
    return f"sum by ({by}) (rate({metric}{{{where}}}{RATE}))"


def _quantile(part: float) -> str:
    return f"histogram_quantile({part}, {_rate('gossamer_fetch_latency_seconds_bucket', 'le')})"


def _stat(title: str, expr: str, unit: str = "short") -> Panel:
    return Panel(title, [Query(expr)], "stat", unit, 3)


_DONE = f'{GROUP}, outcome="done"'

ROWS: Sequence[PanelRow] = (
    PanelRow(
        "Now",
        4,
        (
            _stat("Pages", f"sum(rate(gossamer_pages_total{{{_DONE}}}{RATE}))", "reqps"),
            _stat("Items", f"sum(rate(gossamer_items_total{{{GROUP}}}{RATE}))", "ops"),
            _stat("Received", f"sum(rate(gossamer_response_bytes_total{{{GROUP}}}{RATE}))", "Bps"),
            _stat("Queued", f'sum(gossamer_requests{{{GROUP}, state="queued"}})'),
            _stat("Workers", f"sum(gossamer_worker_up{{{SERVING}}})"),
            _stat("Dead letters", f"sum(gossamer_dead_letters{{{GROUP}}})"),
            _stat("Hosts blocked", f"sum(gossamer_hosts_blocked{{{CRAWL}}})"),
            _stat("Frontier", f"min(gossamer_up{{{CRAWL}}})"),
        ),
    ),
    PanelRow(
        "Pages",
        8,
        (
            Panel("Pages by lane", [Query(_rate("gossamer_pages_total", "lane", _DONE), "{{lane}}")], unit="reqps"),
            Panel(
                "Pages by outcome",
                [Query(_rate("gossamer_pages_total", "outcome"), "{{outcome}}")],
                unit="reqps",
                stacked=True,
            ),
            Panel("Items by group", [Query(_rate("gossamer_items_total", "group"), "{{group}}")], unit="ops"),
        ),
    ),
    PanelRow(
        "Queues",
        8,
        (
            Panel(
                "Requests by state",
                [Query(f"sum by (state) (gossamer_requests{{{GROUP}}})", "{{state}}")],
                stacked=True,
            ),
            Panel(
                "Queued by lane",
                [Query(f'sum by (lane) (gossamer_requests{{{GROUP}, state="queued"}})', "{{lane}}")],
            ),
            Panel(
                "Tasks and seen",
                [
                    Query(f"sum by (group, state) (gossamer_tasks{{{GROUP}}})", "tasks {{state}} ({{group}})"),
                    Query(f"sum by (group) (gossamer_seen{{{GROUP}}})", "seen ({{group}})"),
                ],
            ),
        ),
    ),
    PanelRow(
        "Sites",
        8,
        (
            Panel(
                "Responses by status",
                [Query(_rate("gossamer_responses_total", "status"), "{{status}}")],
                unit="reqps",
                stacked=True,
            ),
            Panel(
                "Fetch latency",
                [Query(_quantile(0.5), "half"), Query(_quantile(0.95), "95 %"), Query(_quantile(0.99), "99 %")],
                unit="s",
            ),
            Panel(
                "Downloads without a response",
                [Query(_rate("gossamer_download_errors_total", "error"), "{{error}}")],
                unit="ops",
            ),
            Panel(
                "Sent and received",
                [
                    Query(f"sum(rate(gossamer_response_bytes_total{{{GROUP}}}{RATE}))", "received"),
                    Query(f"sum(rate(gossamer_request_bytes_total{{{GROUP}}}{RATE}))", "sent"),
                ],
                unit="Bps",
            ),
            Panel(
                "Requests sent",
                [Query(_rate("gossamer_requests_sent_total", "group"), "{{group}}")],
                unit="reqps",
                help="Redirects, retries and robots.txt are requests too.",
            ),
            Panel(
                "Hosts blocked, seconds left",
                [Query(f"gossamer_host_blocked_until_timestamp_seconds{{{CRAWL}}} - time()", "{{host}}")],
                "bargauge",
                "s",
                help="Those blocked longest from now.",
            ),
        ),
    ),
    PanelRow(
        "Workers and frontier",
        8,
        (
            Panel("In progress by worker", [Query(f"gossamer_worker_in_progress{{{SERVING}}}", "{{worker}}")]),
            Panel(
                "Leases that ran out",
                [
                    Query(f"sum by (group) (increase(gossamer_leases_expired_total{{{GROUP}}}{RATE}))", "{{group}}"),
                    Query(
                        f"sum by (group) (increase(gossamer_settlements_lost_total{{{GROUP}}}{RATE}))",
                        "settled too late ({{group}})",
                    ),
                ],
                help="A worker died, hung or lost the network.",
            ),
            Panel(
                "Answer time of the frontier",
                [
                    Query(
                        f"{_rate('gossamer_exchange_seconds_sum', 'group')} / {_rate('gossamer_exchange_seconds_count', 'group')}",
                        "{{group}}",
                    )
                ],
                unit="s",
            ),
            Panel(
                "Memory of the frontier",
                [
                    Query(f"gossamer_frontier_memory_bytes{{{CRAWL}}}", "{{node}}"),
                    Query(f"gossamer_frontier_memory_max_bytes{{{CRAWL}}} > 0", "limit of {{node}}"),
                ],
                unit="bytes",
            ),
            Panel("Dead letters by group", [Query(f"gossamer_dead_letters{{{GROUP}}}", "{{group}}")]),
            Panel(
                "Paused",
                [
                    Query(f"gossamer_group_paused{{{GROUP}}}", "{{group}}"),
                    Query(f"gossamer_lane_paused{{{GROUP}}} == 1", "{{lane}}"),
                    Query(f"gossamer_paused{{{CRAWL}}} == 1", "the whole crawl"),
                ],
            ),
        ),
    ),
)


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana reads it."""
    return {
        "uid": "gossamer",
        "title": "Gossamer",
        "tags": ["gossamer", "crawl"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": list(_variables())},
        "panels": list(_panels()),
    }


def _variables() -> Iterator[dict[str, Any]]:
    yield {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    for name, query in (
        ("crawl", "label_values(gossamer_up, crawl)"),
        ("group", f"label_values(gossamer_open{{{CRAWL}}}, group)"),
    ):
        yield {
            "name": name,
            "label": name.capitalize(),
            "type": "query",
            "datasource": SOURCE,
            "query": {"query": query, "refId": name},
            "refresh": 2,
            "sort": 1,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": "All", "value": "$__all"},
        }


def _panels() -> Iterator[dict[str, Any]]:
    top, number = 0, 0
    for row in ROWS:
        number += 1
        place = {"h": 1, "w": WIDTH, "x": 0, "y": top}
        yield {"id": number, "type": "row", "title": row.title, "collapsed": False, "gridPos": place, "panels": []}
        top += 1
        left = 0
        for panel in row.panels:
            if left + panel.width > WIDTH:
                left, top = 0, top + row.height
            number += 1
            place = {"h": row.height, "w": panel.width, "x": left, "y": top}
            yield {"id": number, "gridPos": place, **_panel(panel)}
            left += panel.width
        top += row.height


def _panel(panel: Panel) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0}
    options: dict[str, Any] = {}
    if panel.kind == "timeseries":
        stacking = "normal" if panel.stacked else "none"
        defaults["custom"] = {"fillOpacity": 25 if panel.stacked else 0, "stacking": {"mode": stacking}}
        options = {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}}
    elif panel.kind == "bargauge":
        options = {"orientation": "horizontal", "displayMode": "basic"}
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.help,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "expr": query.expr,
                "legendFormat": query.legend or "__auto",
                "datasource": SOURCE,
            }
            for index, query in enumerate(panel.queries)
        ],
    }
