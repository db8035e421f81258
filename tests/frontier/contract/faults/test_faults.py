"""Answers that get lost, and how many calls a batch becomes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from gossamer.model import CounterChange, HostPolicy, Request, Settlement, StartState
from gossamer.testing.contract import Crawl
from gossamer.testing.contract.crawl import ADDED, SETTLED, names
from gossamer.testing.fault_proxy import FaultProxy


@pytest.fixture(params=["blocking", "async"])
def behind(request: pytest.FixtureRequest, fault_proxy: FaultProxy, opened: Callable[..., Crawl]) -> Iterator[Crawl]:
    """A crawl behind the fault proxy."""
    crawl: Crawl = opened(fault_proxy.url, asynchronous=request.param == "async")
    crawl.define()
    yield crawl
    fault_proxy.heal()


@pytest.fixture
def beside(behind: Crawl, opened: Callable[..., Crawl], valkey_server: object) -> Crawl:
    """The same crawl, without the proxy."""
    crawl: Crawl = opened(valkey_server.url, behind.frontier.crawl)  # type: ignore[attr-defined]
    return crawl


class TestLostAnswers:
    """A call whose answer was lost is asked again with its token, and has taken effect once."""

    @pytest.mark.parametrize("lose", ["lose_replies", "lose_requests"])
    def test_a_page_settles_once(self, behind: Crawl, beside: Crawl, fault_proxy: FaultProxy, lose: str) -> None:
        behind.add("page", "next")
        worker = behind.worker()
        page = worker.one()
        children = behind.requests(["child", "again"]) + behind.requests(["again"], dont_filter=True)
        getattr(fault_proxy, lose)(1, match=b"FCALL")
        answer = worker.exchange(
            settle=[Settlement(page, add=children, items=[b"item"])], counters=[CounterChange("g", "n", 1.0)], want=1
        )
        assert fault_proxy.counters.lost == 1
        assert answer.settled == [SETTLED]
        assert answer.children == [[ADDED] * 3]
        assert names(answer.leases) == ["next"]
        assert (beside.items(), beside.group().counters, beside.group().open) == ([b"item"], {"n": 1.0}, 4)
        assert (beside.lane().done, beside.lane().leased) == (1, 1)
        beside.balanced()

    def test_a_batch_is_added_once(self, behind: Crawl, beside: Crawl, fault_proxy: FaultProxy) -> None:
        requests = behind.requests([f"r{n}" for n in range(1500)]) + behind.requests(["x", "x"], dont_filter=True)
        fault_proxy.lose_replies(2, match=b"FCALL")
        assert behind.frontier.add(requests)[0] == [ADDED] * 1502
        assert fault_proxy.counters.lost == 2
        assert beside.lane().queued == 1502

    def test_many_children_arrive_once(self, behind: Crawl, beside: Crawl, fault_proxy: FaultProxy) -> None:
        behind.add("page")
        worker = behind.worker()
        page = worker.one()
        children = behind.requests([f"c{n}" for n in range(2500)], dont_filter=True)
        fault_proxy.lose_replies(3, match=b"FCALL")
        assert worker.exchange(settle=[Settlement(page, add=children)]).children == [[ADDED] * 2500]
        assert beside.group().open == 2500
        beside.frontier.set_host("", HostPolicy(concurrency=0))
        assert names(beside.worker().lease(2500)) == [f"c{n}" for n in range(2500)]

    def test_tasks_are_leased_once(self, behind: Crawl, beside: Crawl, fault_proxy: FaultProxy) -> None:
        source = f"{behind.frontier.crawl}:tasks"
        beside.command(("RPUSH", source, "one", "two"), source)
        worker = behind.worker()
        fault_proxy.lose_replies(1, match=b"FCALL")
        [task] = behind.frontier.lease_tasks(worker.token, source, 1)
        assert task.data == b"one"
        assert len(beside.frontier.lease_tasks(beside.worker().token, source, 5)) == 1

    def test_control_verbs_may_be_repeated(self, behind: Crawl, fault_proxy: FaultProxy) -> None:
        behind.add("1")
        worker = behind.worker()

        def lost() -> None:
            fault_proxy.lose_replies(1, match=b"FCALL")

        lost()
        behind.frontier.pause(group="g", reason="why")
        lost()
        behind.frontier.resume(group="g")
        lost()
        permit, _ = behind.frontier.permit(worker.token, behind.host)
        assert permit is not None
        lost()
        assert behind.frontier.start("g", worker.token)[0] is StartState.DONE
        lost()
        assert behind.frontier.new_round("g", 1) == 1
        lost()
        assert behind.frontier.bury("g", b"x", reason="bad", key="1") in (True, False)
        assert len(behind.frontier.dead_letters("g")) == 1
        assert behind.frontier.hosts([behind.host])[0].in_flight == 1

    def test_a_lane_is_dropped_whichever_answers_are_lost(self, behind: Crawl, fault_proxy: FaultProxy) -> None:
        behind.add(*(f"r{n}" for n in range(100)))
        steps = behind.frontier.drop_lane("g.a")
        next(steps)
        for _ in range(20):
            fault_proxy.lose_replies(1, match=b"FCALL")
            if next(steps, None) is None:
                break
        else:
            raise AssertionError("the drop does not end")
        assert behind.group().open == 0


class TestBoundedCalls:
    """A batch becomes as many calls as it needs, none of them large."""

    def test_a_hundred_thousand_requests_are_split(self, behind: Crawl, fault_proxy: FaultProxy) -> None:
        requests = [Request(n, f"h{n % 100}", "g.a", b"") for n in range(100_000)]
        before = fault_proxy.counters
        assert behind.frontier.add(requests)[0] == [ADDED] * 100_000
        after = fault_proxy.counters
        assert after.requests - before.requests == 100
        assert (after.bytes_up - before.bytes_up) / 100 < 100_000

    def test_large_payloads_are_split_by_size(self, behind: Crawl, fault_proxy: FaultProxy) -> None:
        requests = [Request(n, "h", "g.a", b"x" * 500_000) for n in range(40)]
        before = fault_proxy.counters.requests
        assert behind.frontier.add(requests)[0] == [ADDED] * 40
        assert 4 <= fault_proxy.counters.requests - before <= 8

    def test_an_exchange_is_one_call(self, behind: Crawl, fault_proxy: FaultProxy) -> None:
        behind.add(*(f"r{n}" for n in range(20)))
        worker = behind.worker()
        leases = worker.lease(8)
        before = fault_proxy.counters.requests
        worker.exchange(
            settle=[Settlement(lease, add=behind.requests([f"c{lease.id}"]), items=[b"i"]) for lease in leases], want=8
        )
        assert fault_proxy.counters.requests - before == 1

    def test_nothing_to_say_is_no_call(self, behind: Crawl, fault_proxy: FaultProxy) -> None:
        before = fault_proxy.counters.requests
        worker = behind.worker()
        behind.frontier.add([])
        behind.frontier.release(worker.token, [])
        behind.frontier.hosts([])
        assert fault_proxy.counters.requests == before
