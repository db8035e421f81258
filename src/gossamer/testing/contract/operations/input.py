"""Bad input gets its stated outcome, and nothing else in the batch is lost."""

from __future__ import annotations

import math
from typing import Any

import pytest

from gossamer.errors import FrontierError, InvalidRequest, PolicyError
from gossamer.model import (
    AddOutcome,
    CounterChange,
    Ending,
    GroupPolicy,
    HostPolicy,
    LanePolicy,
    Request,
    SeenKind,
    SeenPolicy,
    Settlement,
)
from gossamer.testing.contract.crawl import ADDED, INVALID, SETTLED, Crawl, Worker, names

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

    def batch(self, crawl: Crawl, name: str) -> list[Request]:
        """Every bad request, each between two good ones."""
        batch = [crawl.request(f"{name} first")]
        for number, change in enumerate(BAD.values()):
            batch += [crawl.request(f"{name} bad {number}")._replace(**change), crawl.request(f"{name} good {number}")]
        return batch

    def check(self, outcomes: list[AddOutcome], why: list[str]) -> None:
        assert outcomes[::2] == [ADDED] * (len(BAD) + 1)
        assert dict(zip(BAD, outcomes[1::2], strict=True)) == dict.fromkeys(BAD, INVALID)
        assert len(why) == len(BAD)
        assert all(why)

    def test_a_bad_request_is_refused_and_nothing_else(self, crawl: Crawl) -> None:
        crawl.define()
        batch = self.batch(crawl, "made")
        outcomes, why, _ = crawl.frontier.add(batch)
        self.check(outcomes, list(why.values()))
        assert list(why) == list(range(1, len(batch), 2))
        assert crawl.lane().queued == len(BAD) + 1

    def test_a_bad_child_is_refused_and_nothing_else_of_its_page(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("page")
        children, made = self.batch(crawl, "child"), self.batch(crawl, "made")
        answer = worker.exchange(settle=[Settlement(worker.one(), add=children, items=[b"item"])], add=made)
        assert answer.settled == [SETTLED]
        self.check(answer.children[0], [text for place, text in answer.invalid.items() if isinstance(place, tuple)])
        self.check(answer.added, [text for place, text in answer.invalid.items() if isinstance(place, int)])
        assert (crawl.items(), crawl.group().open) == ([b"item"], 2 * len(BAD) + 2)

    def test_an_unknown_lane_is_told(self, crawl: Crawl) -> None:
        batch = [crawl.request("1"), crawl.request("2", lane="g.unknown"), crawl.request("3", lane="who.a")]
        unknown = AddOutcome.UNKNOWN_LANE
        assert crawl.frontier.add([*batch, crawl.request("4")])[0] == [ADDED, unknown, unknown, ADDED]
        assert crawl.finish() == ["1", "4"]
        assert crawl.frontier.dead_letters("g") == []

    def test_priorities_are_clamped(self, crawl: Crawl) -> None:
        given = [0, -1, -(2**31), 2**31, -(2**70), 2**70, 10**400]
        crawl.frontier.add([crawl.request(f"{n}", priority=priority) for n, priority in enumerate(given)])
        leases = crawl.worker().lease(7)
        assert names(leases) == ["3", "5", "6", "0", "1", "2", "4"]
        assert [lease.priority for lease in leases] == [2**31] * 3 + [0, -1] + [-(2**31)] * 2

    def test_unusual_hosts_are_hosts(self, crawl: Crawl, worker: Worker) -> None:
        for host in FINE_HOSTS:
            crawl.frontier.set_host(host, HostPolicy(concurrency=1))
            crawl.frontier.add([crawl.request(f"{host} {n}", host) for n in (1, 2)])
            lease = worker.one()
            assert lease.host == host
            assert worker.lease(1) == []
            assert crawl.frontier.hosts([host])[0].in_flight == 1
            worker.settle(lease)
            [second] = worker.lease(1)
            assert second.payload == f"{host} 2".encode()
            worker.settle(second)

    def test_control_verbs_refuse_odd_hosts(self, crawl: Crawl) -> None:
        for host in ODD_HOSTS[1:8]:
            assert isinstance(host, str)
            with pytest.raises(InvalidRequest):
                crawl.frontier.block(host, 1)
            with pytest.raises(InvalidRequest):
                crawl.frontier.set_host(host, HostPolicy())
            with pytest.raises(InvalidRequest):
                crawl.frontier.set_crawl_delay(host, 1)
            with pytest.raises(InvalidRequest):
                crawl.frontier.permit(crawl.worker().token, host)
            with pytest.raises(InvalidRequest):
                crawl.frontier.pause(host=host)

    def test_empty_batches_are_fine(self, crawl: Crawl) -> None:
        crawl.define()
        assert crawl.frontier.add([]) == ([], {}, None)
        answer = crawl.worker().exchange()
        assert (answer.leases, answer.settled, answer.added, answer.children) == ([], [], [], [])
        assert crawl.frontier.seen("g.a", []) == []
        assert crawl.frontier.replay(0, []) == 0

    @pytest.mark.parametrize("want", [0, -1, -(10**9)])
    def test_wanting_none_leases_none(self, crawl: Crawl, want: int) -> None:
        crawl.add("1")
        assert crawl.worker().exchange(want=want).leases == []
        assert crawl.lane().leased == 0

    def test_an_empty_payload_is_a_payload(self, crawl: Crawl) -> None:
        crawl.define()
        crawl.frontier.add([Request(5, crawl.host, "g.a")])
        assert crawl.worker().one().payload == b""

    def test_every_byte_is_carried(self, crawl: Crawl, worker: Worker) -> None:
        crawl.define()
        payload = bytes(range(256)) * 40
        crawl.frontier.add([Request(5, crawl.host, "g.a", payload)])
        lease = worker.one()
        assert lease.payload == payload
        worker.exchange(settle=[Settlement(lease, items=[payload, b""])])
        assert crawl.items() == [payload, b""]

    @pytest.mark.parametrize("delay", [math.nan, math.inf, -1.0, 1e12])
    def test_a_bad_retry_delay_refuses_the_call_and_changes_nothing(self, crawl: Crawl, delay: float) -> None:
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
        crawl.add("1")
        worker = crawl.worker()
        lease = worker.one()
        with pytest.raises(InvalidRequest):
            worker.exchange(settle=[Settlement(lease)], counters=[CounterChange("g", "n", value)])
        assert crawl.lane().leased == 1
        assert worker.settle(lease) == [SETTLED]

    def test_text_that_cannot_be_sent_is_an_error_of_ours(self, crawl: Crawl, worker: Worker) -> None:
        with pytest.raises(InvalidRequest):
            crawl.frontier.pause(group="\ud800")
        with pytest.raises(InvalidRequest):
            crawl.frontier.pause(group="g", reason="\ud800")
        crawl.add("1")
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
