"""Every metric, declared once as data: the collector exports these and no others, the reference page is written from them.

Names are in base units and end as Prometheus asks: counters in `_total`, times in `_seconds`, sizes in `_bytes`. Labels are bounded by
what is configured (groups, lanes, nodes), by the protocol (statuses) or by a setting (hosts); none is ever a URL.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

GAUGE, COUNTER, SUMMARY, HISTOGRAM, UNKNOWN = "gauge", "counter", "summary", "histogram", "unknown"


class Metric(NamedTuple):
    """One metric; `labels` beside `crawl`, which all have."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()


_LANE = ("group", "lane")
_GROUP = ("group",)
_NODE = ("node",)
_WORKER = ("group", "worker")
"""`group` is empty for a worker of several."""

METRICS: tuple[Metric, ...] = (
    Metric("gossamer_up", GAUGE, "Whether the frontier answered and the crawl exists; if 0, nothing else is exported."),
    Metric("gossamer_build_info", GAUGE, "Always 1; the exporter's version is a label.", ("version",)),
    Metric("gossamer_read_seconds", GAUGE, "How long the frontier took to answer what this page is made from."),
    Metric(
        "gossamer_export_skipped",
        GAUGE,
        "Counters that are not on this page though they should be, by the rule they break; see user metrics.",
        ("reason",),
    ),
    Metric("gossamer_paused", GAUGE, "Whether nothing is leased anywhere in the crawl."),
    Metric("gossamer_group_paused", GAUGE, "Whether nothing is leased from the group.", _GROUP),
    Metric("gossamer_lane_paused", GAUGE, "Whether nothing is leased from the lane.", _LANE),
    Metric("gossamer_tasks", GAUGE, "Tasks of the group's producers: waiting or leased.", (*_GROUP, "state")),
    Metric(
        "gossamer_tasks_drain_seconds",
        GAUGE,
        "Seconds in which these tasks are done at the pace of the last minutes; +Inf: there are some, and no worker takes any.",
        _GROUP,
    ),
    Metric(
        "gossamer_requests",
        GAUGE,
        "Requests in the frontier: queued, delayed or leased; of lanes that keep page records also found, which wait to be queued.",
        (*_LANE, "state"),
    ),
    Metric("gossamer_open", GAUGE, "What keeps the group from being drained, tasks aside.", _GROUP),
    Metric("gossamer_round", GAUGE, "The group's present round.", _GROUP),
    Metric("gossamer_added_total", COUNTER, "Requests that were new and are or were queued.", _LANE),
    Metric(
        "gossamer_duplicates_total",
        COUNTER,
        "Requests that the frontier had seen before. Workers spare it most: see gossamer_filtered_total.",
        _LANE,
    ),
    Metric("gossamer_filtered_total", COUNTER, "Requests that workers found and did not queue: seen before.", _GROUP),
    Metric("gossamer_overflow_total", COUNTER, "Children of pages that were queued beyond the lane's limit.", _LANE),
    Metric(
        "gossamer_pages_total",
        COUNTER,
        "Leases that were settled, by outcome: done, replaced (by a redirect or retry of the worker's own), retried or failed.",
        (*_LANE, "outcome"),
    ),
    Metric("gossamer_leases_expired_total", COUNTER, "Leases that ran out because their worker fell silent.", _LANE),
    Metric(
        "gossamer_items_total",
        COUNTER,
        "Items of pages that were settled, wherever they are kept: stream, file, list or database.",
        _GROUP,
    ),
    Metric("gossamer_items_waiting", GAUGE, "Items that are on the server.", _GROUP),
    Metric("gossamer_dead_letters", GAUGE, "Requests that failed for good and can be replayed.", _GROUP),
    Metric(
        "gossamer_settlements_lost_total",
        COUNTER,
        "Settlements that came after their lease was given to another worker.",
        _GROUP,
    ),
    Metric("gossamer_items_refused_total", COUNTER, "Items of settlements that came too late.", _GROUP),
    Metric("gossamer_children_refused_total", COUNTER, "Requests of settlements that came too late.", _GROUP),
    Metric("gossamer_seen", GAUGE, "Fingerprints that the group's memories know, by policy.", (*_GROUP, "policy")),
    Metric("gossamer_seen_bytes", GAUGE, "What these memories take on the server (estimated).", (*_GROUP, "policy")),
    Metric("gossamer_requests_sent_total", COUNTER, "Requests that workers sent, robots.txt and retries too.", _GROUP),
    Metric("gossamer_request_bytes_total", COUNTER, "Bytes of requests sent.", _GROUP),
    Metric("gossamer_responses_total", COUNTER, "Responses by HTTP status.", (*_GROUP, "status")),
    Metric("gossamer_response_bytes_total", COUNTER, "Bytes of responses.", _GROUP),
    Metric(
        "gossamer_download_errors_total", COUNTER, "Downloads without a response, by error class.", (*_GROUP, "error")
    ),
    Metric("gossamer_retries_total", COUNTER, "Requests that are sent again after a failure.", _GROUP),
    Metric("gossamer_fetch_latency_seconds", HISTOGRAM, "From when a request was sent until its response.", _GROUP),
    Metric("gossamer_exchange_seconds", SUMMARY, "How long workers waited for the frontier's answers.", _GROUP),
    Metric(
        "gossamer_hosts_blocked",
        GAUGE,
        "Hosts that are blocked for the whole fleet and have nothing in flight; at most 500 in a partition are counted.",
    ),
    Metric(
        "gossamer_host_blocked",
        GAUGE,
        "1 for each of the hosts blocked longest from now; GOSSAMER_EXPORT_HOSTS limits how many.",
        ("host",),
    ),
    Metric("gossamer_host_blocked_until_timestamp_seconds", GAUGE, "Until when these hosts are blocked.", ("host",)),
    Metric(
        "gossamer_group_workers",
        GAUGE,
        "Workers that serve the group and called within the last 30 seconds; one of many groups counts in each.",
        _GROUP,
    ),
    Metric("gossamer_worker_up", GAUGE, "Whether the worker called within the last 30 seconds.", _WORKER),
    Metric("gossamer_worker_last_seen_timestamp_seconds", GAUGE, "When the worker called last.", _WORKER),
    Metric("gossamer_worker_in_progress", GAUGE, "Leases that the worker holds.", _WORKER),
    Metric("gossamer_worker_draining", GAUGE, "Whether the worker was asked to take nothing more.", _WORKER),
    Metric("gossamer_frontier_memory_bytes", GAUGE, "Memory in use on the frontier's server.", _NODE),
    Metric("gossamer_frontier_memory_max_bytes", GAUGE, "The server's limit (maxmemory); 0: none.", _NODE),
    Metric("gossamer_frontier_log_on_disk", GAUGE, "Whether the server keeps an append-only log.", _NODE),
    Metric(
        "gossamer_stat",
        UNKNOWN,
        "Any other counter of the group whose name fits a pattern of GOSSAMER_EXPORT_STATS.",
        (*_GROUP, "name"),
    ),
)

BY_NAME: Mapping[str, Metric] = {metric.name: metric for metric in METRICS}
