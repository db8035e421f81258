"""Whatever becomes of a page, it is settled exactly once, and not before everything it produced is through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.scrapy.spiders.orderings import BEACON, SLOW, Orderings
from tests.support.site import Reply, Site
from tests.support.workers.variants import VARIANTS, Variant
from tests.support.workers.workers import Event, Left, Worker, Workers, left, of

from gossamer.testing.servers import Cluster, Server

pytestmark = pytest.mark.timeout(300)

NO_WAIT = {"Retry-After": "0"}
ENDINGS = {
    "/plain": ("done", "", 2, 1),
    "/async-pipeline": ("done", "", 1, 1),
    "/deferred-pipeline": ("done", "", 1, 1),
    "/several": ("done", "", 1, 3),
    "/redirect": ("replaced", "", 1, 0),
    "/retried": ("replaced", "", 1, 0),
    "/errback": ("done", "", 1, 1),
    "/errback-http": ("done", "", 1, 1),
    "/raises": ("failed", "callback", 1, 0),
    "/drops": ("done", "", 0, 1),
    "/item-fails": ("failed", "pipeline", 1, 0),
    "/inline": ("done", "", 2, 1),
    "/inline-self": ("done", "", 1, 2),
    "/asyncgen": ("done", "", 2, 1),
    "/missing": ("done", "", 0, 0),
    "/twice": ("done", "", 3, 0),
    "/ignored": ("done", "", 0, 0),
    "/made": ("done", "", 2, 1),
    "/replaced": ("replaced", "", 1, 0),
    "/again": ("replaced", "", 1, 0),
    "/after": ("replaced", "", 1, 0),
    "/after-ignored": ("done", "", 0, 0),
    "/coroutine": ("done", "", 0, 1),
    "/list": ("done", "", 1, 1),
    "/nothing": ("done", "", 0, 0),
    "/errback-raises": ("failed", "callback", 0, 0),
    "/input-raises": ("failed", "callback", 0, 0),
    "/rescued": ("done", "", 0, 2),
    "/asyncgen-raises": ("failed", "callback", 1, 0),
    "/unscheduled": ("done", "", 30, 1),
    "/files": ("done", "", 1, 1),
    "/unstorable": ("failed", "unserializable", 0, 0),
    BEACON: ("done", "", 0, 0),
}
"""How the first settlement of each page reads: ending, reason, children, items."""

LAST_ENDINGS = {
    "/redirect/target": ("done", ""),
    "/retried": ("done", ""),
    "/gives-up": ("failed", "http_503"),
    "/broken": ("failed", "download"),
    "/again": ("done", ""),
    "/after/then": ("done", ""),
    "/replaced/by-another": ("done", ""),
}
"""How the last one does, where the first was replaced."""

TIMES = {
    "/retried": 2,
    "/gives-up": 3,
    "/broken": 3,
    "/again": 2,
    "/inline-self": 2,
    "/twice/b": 2,
    "/ignored": 0,
    "/made": 0,
    "/replaced": 0,
}
"""How often the site was asked, where it was not once. RETRY_TIMES is 2."""

DEAD = Counter({"unserializable": 1, "callback": 4, "pipeline": 1, "http_503": 1, "download": 1})


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        running.on("/redirect", Reply(302, headers={"Location": "/redirect/target"}))
        running.on("/retried", Reply(500, times=1))
        running.on("/gives-up", Reply(503, headers=NO_WAIT))
        running.on("/broken", Reply(drop=True))
        running.on("/errback", Reply(drop=True))
        running.on("/errback-raises", Reply(drop=True))
        running.on("/errback-http", Reply(404))
        running.on("/missing", Reply(404))
        running.on("/unstorable", Reply(500))
        running.on("/files/gone", Reply(404))
        yield running


def check_order(events: Sequence[Event]) -> None:
    """Nothing of a page comes after its settlement, and every lease has exactly one."""
    leased, settled = Counter(of(events, "leased")), Counter(of(events, "settle"))
    assert leased == settled, f"leases without a settlement: {leased - settled}, settled without: {settled - leased}"
    over: set[str] = set()
    for event in events:
        page = event.more.get("page") or event.more.get("parent")
        assert event.kind not in ("child", "item", "item_error") or page not in over, (
            f"{event} came after {page} was settled"
        )
        if event.kind == "settle" and event.more["ending"] != "replaced":
            over.add(event.what)
    assert Counter(event.what for event in events if event.kind == "answered") == settled


def check_endings(events: Sequence[Event]) -> None:
    first: dict[str, tuple[object, ...]] = {}
    last: dict[str, tuple[object, ...]] = {}
    for event in events:
        if event.kind == "settle":
            more = event.more
            first.setdefault(event.what, (more["ending"], more["reason"], more["children"], more["items"]))
            last[event.what] = (more["ending"], more["reason"])
    assert {page: first.get(page) for page in ENDINGS} == ENDINGS
    assert {page: last.get(page) for page in LAST_ENDINGS} == LAST_ENDINGS


def check_slow(events: Sequence[Event]) -> None:
    """The slow items were in the pipelines when the beacon's page was settled, and their pages were settled after them."""
    order = [(event.kind, event.what) for event in events]
    beacon = order.index(("answered", BEACON))
    for item, page in zip(SLOW, ("/async-pipeline", "/deferred-pipeline", "/several"), strict=True):
        assert (
            order.index(("mark", f"in {item}")) < beacon < order.index(("item", item)) < order.index(("settle", page))
        )


def check_left(found: Left, events: Sequence[Event], site: Site) -> None:
    failed = {event.what for event in events if event.kind == "settle" and event.more["ending"] == "failed"}
    passed = Counter(e.what for e in events if e.kind == "item" and e.more["page"] not in failed)
    assert found.ids() == passed, "the stream has what left the pipelines, once, but for pages that failed"
    assert found.reasons() == DEAD
    details = {letter.reason: letter.detail for letter in found.dead}
    assert "on purpose" in details["callback"]
    assert "Traceback" in details["callback"]
    assert "the pipeline fails on purpose" in details["pipeline"]
    assert "cb_kwargs['browser']: object cannot be stored" in details["unserializable"]
    asked = Counter(site.paths())
    for path in (*ENDINGS, *LAST_ENDINGS):
        assert asked[path] == TIMES.get(path, 1), f"{path} was asked for {asked[path]} times"
    assert sum(1 for path in asked if path.startswith("/unscheduled/")) == 30, "what was refused left the rest alone"
    [files] = [item["files"] for item in found.items if item["page"] == "/files"]
    assert [file["url"] for file in files] == [f"{site.url}/files/one"], "the item waited for its files"
    assert asked["/inline/b"] == 1, "the slot of an inline download is no host"
    assert asked["/twice/b"] == TIMES["/twice/b"], "identical unfiltered requests are all kept"


def check_worker(worker: Worker) -> None:
    stats, events, log = worker.stats(), worker.events, worker.log
    assert stats["finish_reason"] == "finished"
    assert stats["dupefilter/filtered"] == 1
    assert sorted(of(events, "dropped")) == ["/twice/a", "/unstorable"]
    assert stats["scheduler/dequeued"] == len(of(events, "leased"))
    for complaint in (
        "Unhandled error",
        "never awaited",
        "was destroyed",
        "Scraper bug",
        "Error while removing request",
    ):
        assert complaint not in log, log[log.index(complaint) - 1000 :][:3000]
    for line in log.splitlines():
        assert not ("Warning:" in line and "/src/gossamer/" in line), line


def check(workers: Workers, site: Site, files: Path) -> None:
    worker = workers.start(Orderings, site=site.url, settings={"FILES_STORE": str(files)})
    assert worker.result()["failures"] == []
    events = worker.events
    check_order(events)
    check_endings(events)
    check_slow(events)
    with workers.frontier() as frontier:
        check_left(left(frontier, Orderings.name), events, site)
    check_worker(worker)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_every_page_is_settled_once_after_all_it_produced(
    variant: Variant, site: Site, valkey_server: Server, crawl_name: str, tmp_path: Path
) -> None:
    with Workers(valkey_server.url, crawl_name, variant) as workers:
        check(workers, site, tmp_path)


def test_nor_otherwise_where_its_children_lie_on_other_partitions(
    site: Site, cluster: Cluster, crawl_name: str, tmp_path: Path
) -> None:
    with Workers(cluster.url, crawl_name) as workers:
        workers.environ["GOSSAMER_PARTITIONS"] = "3"
        check(workers, site, tmp_path)
