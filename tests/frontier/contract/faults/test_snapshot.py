"""A server that is restarted or replaced while a crawl is exported or imported, and may have lost its last moments."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO

import pytest

from gossamer.errors import SnapshotError
from gossamer.frontier.inspection import RestoreTarget
from gossamer.frontier.server import keys
from gossamer.frontier.snapshot import restore
from gossamer.frontier.snapshot.export import Export
from gossamer.frontier.snapshot.file import SnapshotFile
from gossamer.frontier.snapshot.restore import Restore
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import GroupPolicy, HostPolicy, LanePolicy
from gossamer.testing.contract import Crawl
from gossamer.testing.contract.crawl import names
from gossamer.testing.contract.earlier_state import Picture, another_process, go_back, picture
from gossamer.testing.servers import Cluster, Server

Opened = Callable[..., Crawl]
PAGES = [f"page {n}" for n in range(12)]


def blocking(crawl: Crawl) -> ValkeyFrontier:
    assert isinstance(crawl.frontier, ValkeyFrontier)
    return crawl.frontier


def exported(crawl: Crawl, heard: Callable[[Export], None] | None = None) -> bytes:
    out = StringIO()
    Export(blocking(crawl), out, heard=heard).run()
    return out.getvalue().encode()


def imported(text: bytes, crawl: Crawl, heard: Callable[[Restore], None] | None = None) -> Restore:
    one = Restore(blocking(crawl), SnapshotFile("crawl.jsonl", iter(text.splitlines(keepends=True))), heard=heard)
    one.run()
    return one


def test_an_export_is_of_one_state_or_says_that_it_is_not(opened: Opened) -> None:
    """A fingerprint that was read may be one whose request is lost: an import would take it for known for ever."""
    with Server().start(fsync="always") as server:
        crawl = opened(server.url)
        crawl.define({"a": LanePolicy()})
        crawl.add(*PAGES)
        heard: list[int] = []

        def read(export: Export) -> None:
            heard.append(export.records)
            if len(heard) == 2:
                server.restart()

        with pytest.raises(SnapshotError, match=r"was restarted or replaced while it was read.* Export again"):
            exported(crawl, read)
        assert heard[1] == len(PAGES), "the memory had been read, and no queue"
        assert exported(crawl).count(b'"type":"request"') == len(PAGES)


def test_an_import_stops_at_a_server_that_may_have_lost_lines_and_goes_on_from_there(
    opened: Opened, valkey_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restore, "BATCH_ENTRIES", 3)
    one = opened(valkey_server.url)
    two = opened(valkey_server.url, f"{one.frontier.crawl}-two")
    one.define({"a": LanePolicy(), "b": LanePolicy()})
    one.add(*PAGES)
    one.add(*PAGES, lane="g.b", dont_filter=True)
    one.frontier.set_host("", HostPolicy(concurrency=0))
    text, earlier = exported(one), list[Picture]()

    def restored(step: Restore) -> None:
        earlier.append(picture(two))
        if len(earlier) == 6:
            go_back(two, earlier[3])
            another_process(two)

    with pytest.raises(SnapshotError, match=r"restarted or replaced.* Import again"):
        imported(text, two, restored)
    assert len(earlier) == 6, "nothing is restored after that"
    again = imported(text, two)
    assert again.complete
    assert again.done["before"]
    assert sorted(names(two.worker().lease(99))) == sorted([*PAGES, *PAGES])
    two.balanced()


def test_tasks_on_a_node_without_a_partition_are_not_lost_with_its_last_moments(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Partitions that have all their lines do not tell that another node has lost tasks."""
    monkeypatch.setattr(restore, "BATCH_ENTRIES", 3)
    with Cluster(2).start(fsync="always") as cluster:
        one, two = opened(cluster.url, "one"), opened(cluster.url, "two")
        homes = {cluster.master_of(keys.base(name, 0)).port for name in ("one", "two")}
        assert len(homes) == 1, "these names are chosen for it"
        source = next(name for n in range(99) if cluster.master_of(name := f"t{n}").port not in homes)
        node = cluster.master_of(source)
        one.frontier.define("g", {"a": LanePolicy()}, GroupPolicy(tasks=(source,)))
        one.command(("RPUSH", source, *PAGES), source)
        text = exported(one)
        node.call("FLUSHALL")
        target = RestoreTarget(blocking(two))
        target.tasks("other", source, [[1, "list", 0]], [b"seed"])
        target.check()

        def restored(step: Restore) -> None:
            if step.done["restored"] >= 9 and node.call("EXISTS", source):
                node.call("FLUSHALL")
                node.restart()
                cluster.wait_ok()

        with pytest.raises(SnapshotError, match=r"restarted or replaced.* Import again"):
            imported(text, two, restored)
        assert imported(text, two).complete
        assert two.command(("LRANGE", source, 0, -1), source) == [page.encode() for page in PAGES]
        with pytest.raises(SnapshotError, match="restarted or replaced"):
            target.check()
