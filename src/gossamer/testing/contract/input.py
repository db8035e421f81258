"""Bad input gets its stated outcome, and nothing else in the batch is lost."""

from __future__ import annotations

import math
from typing import Any

import pytest

from gossamer.errors import FrontierError, InvalidRequest, PolicyError
from gossamer.model import (
    AddOutcome,
    Counter,
    Ending,
    GroupPolicy,
    HostPolicy,
    LanePolicy,
    Request,
    SeenKind,
    SeenPolicy,
    Settlement,
)
from gossamer.testing.contract.crawl import ADDED, INVALID, SETTLED, Crawl, names

ODD_HOSTS = ["", "a b", "a\x00b", "\ud800", "tab\there", "new\nline", "\x7f", "x" * 300, None, b"bytes", 7]
FINE_HOSTS = ["bücher.example", "[::1]:8080", "日本語.example", "a{b}c", "UPPER", "x" * 255, "a:b:c", "%", "*"]
BAD: dict[str, dict[str, Any]] = {
    "negative fingerprint": {"fingerprint": -1},
    "fingerprint of 65 bits": {"fingerprint": 2**64},
    "fingerprint as text": {"fingerprint": "1"},
    "fraction as fingerprint": {"fingerprint": 1.5},
    "payload too large": {"payload": b"x" * 10_000_000},
    "text as payload": {"payload": "text"},
    "nan delay": {"delay": math.nan},
    "endless delay": {"delay": math.inf},
    "negative delay": {"delay": -1.0},
    "text as delay": {"delay": "1"},
    "nan priority": {"priority": math.nan},
    "text as priority": {"priority": "1"},
    "lane without a group": {"lane": "a"},
    "empty lane": {"lane": ""},
    "lane with surrogates": {"lane": "g.\ud800"},
    "no lane": {"lane": None},
    **{f"host {number}": {"host": host} for number, host in enumerate(ODD_HOSTS)},
}


class TestBadInput:
    """Each bad request is refused by itself, with the reason."""

    @pytest.mark.parametrize("change", BAD.values(), ids=BAD)
    def test_a_bad_request_is_refused_and_nothing_else(self, crawl: Crawl, change: dict[str, Any]) -> None:
        crawl.define()
        good = crawl.requests(["before", "after"])
        batch = [good[0], crawl.request("bad")._replace(**change), good[1]]
        outcomes, why, _ = crawl.frontier.add(batch)
        assert outcomes == [ADDED, INVALID, ADDED]
        assert list(why) == [1]
        assert why[1]
        worker = crawl.worker()
        page, _ = worker.lease(2)
        children = [crawl.request("child"), batch[1], crawl.request("last")]
        answer = worker.exchange(settle=[Settlement(page, add=children, items=[b"item"])], add=[batch[1]])
        assert answer.settled == [SETTLED]
        assert answer.children == [[ADDED, INVALID, ADDED]]
        assert answer.added == [INVALID]
        assert set(answer.invalid) == {(0, 1), 0}
        assert crawl.items() == [b"item"]

    def test_an_unknown_lane_is_told(self, crawl: Crawl) -> None:
        crawl.define()
        batch = [crawl.request("1"), crawl.request("2", lane="g.unknown"), crawl.request("3", lane="who.a")]
        unknown = AddOutcome.UNKNOWN_LANE
        assert crawl.frontier.add([*batch, crawl.request("4")])[0] == [ADDED, unknown, unknown, ADDED]
        assert crawl.finish() == ["1", "4"]
        assert crawl.frontier.dead_letters("g") == []

    @pytest.mark.parametrize("priority", [-1, -(2**31), 2**31, -(2**70), 2**70, 10**400])
    def test_priorities_are_clamped(self, crawl: Crawl, priority: int) -> None:
        crawl.define()
        crawl.add("extreme", priority=priority)
        crawl.add("usual")
        leases = crawl.worker().lease(2)
        assert names(leases) == (["extreme", "usual"] if priority > 0 else ["usual", "extreme"])
        [extreme] = [lease for lease in leases if lease.payload == b"extreme"]
        assert extreme.priority == max(-(2**31), min(2**31, priority))

    @pytest.mark.parametrize("host", FINE_HOSTS)
    def test_unusual_hosts_are_hosts(self, crawl: Crawl, host: str) -> None:
        crawl.define()
        crawl.frontier.set_host(host, HostPolicy(concurrency=1))
        crawl.frontier.add([Request(1, host, "g.a", b"1"), Request(2, host, "g.a", b"2")])
        worker = crawl.worker()
        lease = worker.one()
        assert lease.host == host
        assert worker.lease(1) == []
        assert crawl.frontier.hosts([host])[0].in_flight == 1
        worker.settle(lease)
        assert names(worker.lease(1)) == ["2"]

    @pytest.mark.parametrize("host", ODD_HOSTS[1:8])
    def test_control_verbs_refuse_odd_hosts(self, crawl: Crawl, host: str) -> None:
        for verb in (
            lambda: crawl.frontier.block(host, 1),
            lambda: crawl.frontier.set_host(host, HostPolicy()),
            lambda: crawl.frontier.set_crawl_delay(host, 1),
            lambda: crawl.frontier.permit(crawl.worker().token, host),
            lambda: crawl.frontier.pause(host=host),
        ):
            with pytest.raises(InvalidRequest):
                verb()

    def test_empty_batches_are_fine(self, crawl: Crawl) -> None:
        crawl.define()
        assert crawl.frontier.add([]) == ([], {}, None)
        answer = crawl.worker().exchange()
        assert (answer.leases, answer.settled, answer.added, answer.children) == ([], [], [], [])
        assert crawl.frontier.seen("g.a", []) == []
        assert crawl.frontier.replay(0, []) == 0

    @pytest.mark.parametrize("want", [0, -1, -(10**9)])
    def test_wanting_none_leases_none(self, crawl: Crawl, want: int) -> None:
        crawl.define()
        crawl.add("1")
        assert crawl.worker().exchange(want=want).leases == []
        assert crawl.lane().leased == 0

    def test_an_empty_payload_is_a_payload(self, crawl: Crawl) -> None:
        crawl.define()
        crawl.frontier.add([Request(5, crawl.host, "g.a")])
        assert crawl.worker().one().payload == b""

    def test_every_byte_is_carried(self, crawl: Crawl) -> None:
        crawl.define()
        payload = bytes(range(256)) * 40
        crawl.frontier.add([Request(5, crawl.host, "g.a", payload)])
        worker = crawl.worker()
        lease = worker.one()
        assert lease.payload == payload
        worker.exchange(settle=[Settlement(lease, items=[payload, b""])])
        assert crawl.items() == [payload, b""]

    @pytest.mark.parametrize("delay", [math.nan, math.inf, -1.0, 1e12])
    def test_a_bad_retry_delay_refuses_the_call_and_changes_nothing(self, crawl: Crawl, delay: float) -> None:
        crawl.define()
        crawl.add("1", "2")
        worker = crawl.worker()
        one, two = worker.lease(2)
        settle = [Settlement(one), Settlement(two, Ending.RETRY, delay=delay)]
        with pytest.raises(InvalidRequest):
            worker.exchange(settle=settle)
        assert crawl.lane().leased == 2
        assert worker.settle(one, two) == [SETTLED, SETTLED]

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    def test_a_bad_counter_refuses_the_call_and_changes_nothing(self, crawl: Crawl, value: float) -> None:
        crawl.define()
        crawl.add("1")
        worker = crawl.worker()
        lease = worker.one()
        with pytest.raises(InvalidRequest):
            worker.exchange(settle=[Settlement(lease)], counters=[Counter("g", "n", value)])
        assert crawl.lane().leased == 1
        assert worker.settle(lease) == [SETTLED]

    def test_text_that_cannot_be_sent_is_an_error_of_ours(self, crawl: Crawl) -> None:
        crawl.define()
        with pytest.raises(InvalidRequest):
            crawl.frontier.pause(group="\ud800")
        with pytest.raises(InvalidRequest):
            crawl.frontier.pause(group="g", reason="\ud800")
        crawl.add("1")
        worker = crawl.worker()
        assert worker.settle(worker.one(), ending=Ending.FAILED, reason="\ud800") == [SETTLED]

    @pytest.mark.parametrize("value", [-1, 2**64, 1.5, "1"])
    def test_fingerprints_are_checked_wherever_they_go(self, crawl: Crawl, value: Any) -> None:
        crawl.define()
        for verb in (crawl.frontier.seen, crawl.frontier.forget):
            with pytest.raises(InvalidRequest):
                verb("g.a", [1, value])

    @pytest.mark.parametrize("seconds", [math.nan, math.inf, -1.0])
    def test_a_bad_block_is_refused(self, crawl: Crawl, seconds: float) -> None:
        with pytest.raises(InvalidRequest):
            crawl.frontier.block("h", seconds)

    def test_an_unknown_part_of_a_snapshot_is_refused(self, crawl: Crawl) -> None:
        with pytest.raises(FrontierError):
            crawl.frontier.scan(0, "everything")

    def test_a_hundred_thousand_requests_are_added(self, crawl: Crawl) -> None:
        crawl.define()
        hosts = crawl.spread(50)
        requests = [Request(n, hosts[n % 50], "g.a", b"") for n in range(100_000)]
        requests[500] = requests[500]._replace(priority="no")  # type: ignore[arg-type]
        outcomes, why, _ = crawl.frontier.add(requests)
        assert outcomes.count(ADDED) == 99_999
        assert list(why) == [500]
        assert crawl.lane().queued == 99_999


LIMITS: list[tuple[Any, str]] = [
    *((LanePolicy, name) for name in ("max_queued", "max_leased")),
    *((GroupPolicy, name) for name in ("max_queued", "max_pages", "concurrency", "max_items", "max_dead")),
    (HostPolicy, "concurrency"),
]


class TestBadPolicies:
    """A policy that makes no sense cannot be made."""

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0, "1", True])
    @pytest.mark.parametrize("name", ["delay", "min_delay", "max_delay", "block_base", "block_max", "target"])
    def test_hosts(self, name: str, value: Any) -> None:
        with pytest.raises(PolicyError):
            HostPolicy(**{name: value})

    @pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
    def test_lanes_and_groups(self, value: float) -> None:
        with pytest.raises(PolicyError):
            LanePolicy(weight=value)
        with pytest.raises(PolicyError):
            GroupPolicy(delay=value)
        with pytest.raises(PolicyError):
            SeenPolicy(SeenKind.ROLLING, window=value)
        with pytest.raises(PolicyError):
            HostPolicy(min_delay=2, max_delay=1)

    @pytest.mark.parametrize("value", [math.nan, -1, 1.5, "1", True, 2**60])
    @pytest.mark.parametrize(("kind", "name"), LIMITS, ids=lambda given: getattr(given, "__name__", given))
    def test_limits(self, kind: Any, name: str, value: Any) -> None:
        with pytest.raises(PolicyError):
            kind(**{name: value})
