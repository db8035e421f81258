"""Texts of lists in a snapshot: what is fetched after an import is what would have been fetched without it."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest

from gossamer.frontier.call import function_call
from gossamer.frontier.snapshot.export import Export
from gossamer.frontier.snapshot.file import SnapshotFile
from gossamer.frontier.snapshot.restore import Restore
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import Ending, LanePolicy, SeenKind
from gossamer.testing.contract import Crawl
from gossamer.testing.contract.crawl import ADDED, DUPLICATE
from gossamer.testing.contract.guarantees.pages.change_texts import LANES, add
from gossamer.testing.contract.guarantees.pages.recorded_lane import fed, leads
from gossamer.testing.servers import Server

Opened = Callable[..., Crawl]
EVERY = pytest.mark.parametrize("policy", LANES.values(), ids=LANES)


def moved(crawl: Crawl, other: Crawl, policy: LanePolicy) -> None:
    """The crawl as a file, and the file into the other."""
    out = StringIO()
    assert isinstance(crawl.frontier, ValkeyFrontier)
    assert isinstance(other.frontier, ValkeyFrontier)
    Export(crawl.frontier, out).run()
    lines = iter(out.getvalue().encode().splitlines(keepends=True))
    Restore(other.frontier, SnapshotFile("crawl.jsonl", lines)).run()
    other.define({"a": policy, "twin": policy})


def both(opened: Opened, server: Server, policy: LanePolicy) -> tuple[Crawl, Crawl]:
    one = opened(server.url)
    one.define({"a": policy, "twin": policy})
    return one, opened(server.url, f"{one.frontier.crawl}-two")


@EVERY
def test_the_last_fetch_the_request_under_way_and_what_waits_for_it(
    opened: Opened, valkey_server: Server, policy: LanePolicy
) -> None:
    one, two = both(opened, valkey_server, policy)
    for name in ("same", "other", "leased", "dead"):
        add(one, name, "A")
    worker = one.worker()
    leases = {lease.payload: lease for lease in worker.lease(4)}
    for done in (b"same A", b"other A", b"leased A"):
        worker.settle(leases[done])
    worker.settle(leases[b"dead A"], ending=Ending.FAILED, reason="http_500")
    add(one, "leased", "B")
    worker.one()
    add(one, "leased", "C")
    add(one, "other", "B")
    moved(one, two, policy)
    assert [add(two, name, text) for name, text in (("same", "A"), ("dead", "A"), ("other", "B"))] == [[DUPLICATE]] * 3
    fetched = two.finish()
    assert sorted(set(fetched)) in (["leased B", "leased C", "other B"], ["leased C", "other B"])
    assert fetched.index("leased C") == max(place for place, name in enumerate(fetched) if name.startswith("leased"))
    assert [add(two, name, text) for name, text in (("leased", "C"), ("other", "B"))] == [[DUPLICATE]] * 2
    for name in ("same", "other", "leased", "dead"):
        assert add(two, name, "D") == [ADDED]
    assert sorted(two.finish()) == ["dead D", "leased D", "other D", "same D"]
    [letter] = two.frontier.dead_letters("g")
    two.frontier.replay(letter.partition, [letter.id])
    assert two.finish() == ["dead A"]
    assert add(two, "dead", "D") == [ADDED], "the dead letter had its text"
    two.balanced()


def test_pages_that_wait_for_a_planner(opened: Opened, valkey_server: Server) -> None:
    one, two = both(opened, valkey_server, LANES["visits"])
    leads(one)
    add(one, "one", "A", "B")
    moved(one, two, LANES["visits"])
    leader = leads(two)
    two.advance(1)
    assert fed(two, 9, term=leader.term) == 1
    assert two.finish() == ["one B"]
    assert add(two, "one", "B") == [DUPLICATE]


def test_a_memory_that_lanes_share_is_written_once(opened: Opened, valkey_server: Server) -> None:
    for name in ("exact", "hits by age", "bloom"):
        one = opened(valkey_server.url, f"shared-{SeenKind(LANES[name].seen.kind).value}")
        one.define(dict.fromkeys(("a", "b", "c"), LANES[name]))
        add(one, "one", "A")
        one.finish()
        out = StringIO()
        assert isinstance(one.frontier, ValkeyFrontier)
        Export(one.frontier, out).run()
        assert out.getvalue().count('"type":"page_texts"') == 1


@EVERY
def test_a_worker_that_knows_no_texts_drains_when_its_group_has_some(
    opened: Opened, valkey_server: Server, policy: LanePolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would not lead to the page turns that a text stands for, too. Those of other groups go on."""

    def of_the_version_before(verb: str, base: str, header: dict[str, Any], *records: bytes) -> Any:
        assert header.pop("knows_texts")
        return function_call(verb, base, header, *records)

    crawl = opened(valkey_server.url)
    crawl.define({"a": policy})
    crawl.frontier.define("other", {"a": policy})
    with monkeypatch.context() as patched:
        patched.setattr("gossamer.frontier.verbs.work.exchange.function_call", of_the_version_before)
        former, elsewhere = crawl.worker("g"), crawl.worker("other")
        add(crawl, "one", "")
        lease = former.one()
        add(crawl, "two", "A")
        assert former.lease() == []
        assert former.exchange(want=1).hints.paused == "draining"
        former.settle(lease)
        crawl.add("three", lane="other.a")
        assert elsewhere.one().payload == b"three"
    assert crawl.finish() == ["two A"]
