"""One reading of a crawl as families of metrics. Pure: the same reading gives the same page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from math import inf

from prometheus_client.core import Metric as Family

from gossamer import __version__
from gossamer.exporter import metrics, user_metric
from gossamer.model import GroupCounts, WorkerInfo, counter_names
from gossamer.model.counter_names import ERRORS, RESPONSES
from gossamer.status.overview import SILENT_SECONDS, Overview

GONE_SECONDS = 3600.0
"""A worker that was silent for longer is left out."""
WORKERS_MAX = 1000
STATS_MAX = 500
LABEL_MAX = 200

_STATUS = re.compile(r"[1-9][0-9]{2}\Z")
_ERROR = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,99}\Z")
_SUMS: Mapping[str, str] = {
    counter_names.FILTERED: "gossamer_filtered_total",
    counter_names.REQUESTS: "gossamer_requests_sent_total",
    counter_names.REQUEST_BYTES: "gossamer_request_bytes_total",
    counter_names.RESPONSE_BYTES: "gossamer_response_bytes_total",
    counter_names.RETRIES: "gossamer_retries_total",
}


class MetricsPage:
    """Families in the order in which metrics are declared. A sample of a metric that is not declared is a mistake here."""

    def __init__(self, crawl: str) -> None:
        self.crawl = crawl
        self.skipped: Counter[str] = Counter()
        self._samples: dict[str, list[tuple[str, dict[str, str], float]]] = {}

    def put(self, name: str, value: float, *labels: str, suffix: str = "") -> None:
        metric = metrics.BY_NAME[name]
        pairs = zip(("crawl", *metric.labels), (self.crawl, *map(_plain, labels)), strict=True)
        self._samples.setdefault(name, []).append((name + suffix, dict(pairs), value))

    def put_sample(self, name: str, sample: user_metric.Sample) -> None:
        """A sample of a histogram that workers gathered."""
        labels = {"crawl": self.crawl, **dict(sample.labels)}
        self._samples.setdefault(name, []).append((name + sample.suffix, labels, sample.value))

    def families(self) -> Iterator[Family]:
        for metric in metrics.METRICS:
            samples = self._samples.get(metric.name)
            if samples:
                yield family(metric.name, metric.kind, metric.help, samples)


def family(name: str, kind: str, text: str, samples: Iterable[tuple[str, dict[str, str], float]]) -> Family:
    made = Family(name.removesuffix("_total") if kind == metrics.COUNTER else name, text, kind)
    for sample in samples:
        made.add_sample(*sample)
    return made


def unreachable(crawl: str, seconds: float) -> list[Family]:
    """The page while the frontier is unreachable."""
    page = MetricsPage(crawl)
    _about(page, 0, seconds)
    return list(page.families())


def families(view: Overview, seconds: float, hosts: int = 20, stats: Sequence[str] = ()) -> list[Family]:
    """The page of a reading that took `seconds`. `hosts` of the blocked ones are named; `stats` are patterns of
    other counters to export."""
    page = MetricsPage(view.crawl)
    _about(page, 1, seconds)
    page.put("gossamer_paused", bool(view.paused))
    _lanes(page, view)
    for group in view.groups:
        _group(page, group)
        _downloads(page, group.group, group.counters)
    for tasks in view.tasks:
        page.put("gossamer_tasks", tasks.waiting, tasks.group, "waiting")
        page.put("gossamer_tasks", tasks.leased, tasks.group, "leased")
        page.put(
            "gossamer_tasks_drain_seconds", inf if tasks.drain_seconds is None else tasks.drain_seconds, tasks.group
        )
    _memories(page, view)
    page.put("gossamer_hosts_blocked", view.blocked_count)
    for host in view.blocked[:hosts]:
        page.put("gossamer_host_blocked", 1, host.host)
        page.put("gossamer_host_blocked_until_timestamp_seconds", host.blocked_until, host.host)
    _workers(page, view)
    for server in view.servers:
        page.put("gossamer_frontier_memory_bytes", server.memory_used, server.node)
        page.put("gossamer_frontier_memory_max_bytes", server.memory_max, server.node)
        page.put("gossamer_frontier_log_on_disk", server.aof, server.node)
    _stats(page, view.groups, stats)
    users = list(_user_metrics(page, view.groups))
    for reason, count in sorted(page.skipped.items()):
        page.put("gossamer_export_skipped", count, reason)
    return [*page.families(), *users]


def _about(page: MetricsPage, up: int, seconds: float) -> None:
    page.put("gossamer_up", up)
    page.put("gossamer_build_info", 1, __version__)
    page.put("gossamer_read_seconds", seconds)


def _lanes(page: MetricsPage, view: Overview) -> None:
    for lane in view.lanes:
        names = lane.lane.rpartition(".")[0], lane.lane
        for state in ("queued", "delayed", "leased", *(("found",) if lane.pages else ())):
            page.put("gossamer_requests", getattr(lane, state), *names, state)
        for outcome in ("done", "replaced", "retried", "failed"):
            page.put("gossamer_pages_total", getattr(lane, outcome), *names, outcome)
        page.put("gossamer_added_total", lane.added, *names)
        page.put("gossamer_duplicates_total", lane.duplicates, *names)
        page.put("gossamer_overflow_total", lane.overflow, *names)
        page.put("gossamer_leases_expired_total", lane.expired, *names)
        page.put("gossamer_lane_paused", bool(lane.paused), *names)


def _group(page: MetricsPage, group: GroupCounts) -> None:
    name = group.group
    page.put("gossamer_group_paused", bool(group.paused), name)
    page.put("gossamer_open", group.open, name)
    page.put("gossamer_round", group.round, name)
    page.put("gossamer_items_total", group.items, name)
    page.put("gossamer_items_waiting", group.items_waiting, name)
    page.put("gossamer_dead_letters", group.dead, name)
    page.put("gossamer_settlements_lost_total", group.lost, name)
    page.put("gossamer_items_refused_total", group.refused_items, name)
    page.put("gossamer_children_refused_total", group.refused_children, name)


def _downloads(page: MetricsPage, group: str, counted: Mapping[str, float]) -> None:
    for counter, value in counted.items():
        if counter in _SUMS:
            page.put(_SUMS[counter], value, group)
        elif counter.startswith(RESPONSES) and _STATUS.match(status := counter.removeprefix(RESPONSES)):
            page.put("gossamer_responses_total", value, group, status)
        elif counter.startswith(ERRORS) and _ERROR.match(error := counter.removeprefix(ERRORS)):
            page.put("gossamer_download_errors_total", value, group, error)
    if counter_names.EXCHANGES in counted:
        page.put("gossamer_exchange_seconds", counted.get(counter_names.EXCHANGE_SECONDS, 0.0), group, suffix="_sum")
        page.put("gossamer_exchange_seconds", counted[counter_names.EXCHANGES], group, suffix="_count")


def _memories(page: MetricsPage, view: Overview) -> None:
    known: dict[tuple[str, str], list[int]] = {}
    for memory in view.memories:
        # A memory of one round has the round in its name, which would make a new series every time.
        total = known.setdefault((memory.name.partition("|")[0], memory.kind), [0, 0])
        total[0] += memory.known
        total[1] += memory.bytes
    for (group, kind), (count, size) in known.items():
        page.put("gossamer_seen", count, group, kind)
        page.put("gossamer_seen_bytes", size, group, kind)


def _workers(page: MetricsPage, view: Overview) -> None:
    named: dict[tuple[str, str], list[WorkerInfo]] = {}
    recent = [worker for worker in view.workers if view.now - worker.seen < GONE_SECONDS or worker.held]
    for worker in sorted(recent, key=lambda each: -each.seen)[:WORKERS_MAX]:
        # A worker that was started again under its name is one series.
        named.setdefault((worker.info.get("group", ""), worker.name), []).append(worker)
    for name, lives in named.items():
        last = lives[0]
        page.put("gossamer_worker_up", view.now - last.seen < SILENT_SECONDS, *name)
        page.put("gossamer_worker_last_seen_timestamp_seconds", last.seen, *name)
        page.put("gossamer_worker_in_progress", sum(life.held for life in lives), *name)
        page.put("gossamer_worker_draining", last.draining, *name)
    alive: Counter[str] = Counter({group.group: 0 for group in view.groups})
    for worker in view.workers:
        if view.alive(worker):
            alive.update(group for group in worker.groups if group in alive)
    for group, count in alive.items():
        page.put("gossamer_group_workers", count, group)


def _stats(page: MetricsPage, groups: Iterable[GroupCounts], patterns: Sequence[str]) -> None:
    for group in groups:
        told = 0
        for counter, value in sorted(group.counters.items()):
            if not any(fnmatchcase(counter, pattern) for pattern in patterns):
                continue
            if "://" in counter:
                page.skipped["url"] += 1
            elif told >= STATS_MAX:
                page.skipped["stats"] += 1
            else:
                told += 1
                page.put("gossamer_stat", value, group.group, counter)


def _user_metrics(page: MetricsPage, groups: Iterable[GroupCounts]) -> Iterator[Family]:
    found, skipped = user_metric.gathered((group.group, group.counters) for group in groups)
    page.skipped.update(skipped)
    for metric in found:
        declared = metrics.BY_NAME.get(metric.name)
        if declared and declared.kind == metric.kind == metrics.HISTOGRAM:
            for sample in metric.samples:
                page.put_sample(metric.name, sample)
        elif metric.name.startswith("gossamer_"):
            page.skipped["name"] += 1
        else:
            rows = [(metric.name + s.suffix, {"crawl": page.crawl, **dict(s.labels)}, s.value) for s in metric.samples]
            name = metric.name + ("_total" if metric.kind == metrics.COUNTER else "")
            yield family(name, metric.kind, f"A {metric.kind} of the crawl's own.", rows)


def _plain(text: str) -> str:
    """Text from outside as a label: what UTF-8 lacks is replaced, what is long is cut."""
    return text.encode("utf-8", "replace").decode("utf-8")[:LABEL_MAX]
