"""Guarantee 2: settlement, children, items and counters of a page are one step."""

from __future__ import annotations

from typing import Any

import pytest

from gossamer.errors import TokenReused
from gossamer.frontier.verbs import arguments, lists
from gossamer.model import AddOutcome, CounterChange, CounterOp, Ending, HostPolicy, LanePolicy, Settlement, Token
from gossamer.model.counter_names import ITEMS
from gossamer.testing.contract.crawl import ADDED, DUPLICATE, LOST, SETTLED, Crawl, Worker, names


class TestAtomicPage:
    """Atomic page: all that a page produced arrives with its settlement, once."""

    def test_everything_of_a_page_arrives_in_one_call(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("page")
        page = worker.one()
        children = crawl.requests(["child 1", "child 2"])
        answer = worker.exchange(
            settle=[Settlement(page, add=children, items=[b"item 1", b"item 2"])],
            counters=[CounterChange("g", "bytes", 100.0)],
            want=2,
        )
        assert answer.settled == [SETTLED]
        assert answer.children == [[ADDED, ADDED]]
        assert crawl.items() == [b"item 1", b"item 2"]
        group = crawl.group()
        assert (group.counters, group.pages, group.items, group.open) == ({"bytes": 100.0}, 1, 2, 2)

    def test_items_that_others_keep_count_with_their_page(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("page", "failing", "again", "late")
        page, failing, again, late = worker.lease(4)
        answer = worker.exchange(
            settle=[
                Settlement(page, items=[b"item"], push=[("test:kept", b"datum")], kept=2),
                Settlement(failing, Ending.FAILED, kept=3),
                Settlement(again._replace(nonce="another's"), kept=1000),
            ]
        )
        assert answer.settled == [SETTLED, SETTLED, LOST]
        assert (crawl.group().items, crawl.group().refused_items, crawl.items()) == (6, 0, [b"item"])
        # Those of no page come as a counter that is none.
        worker.exchange(
            settle=[Settlement(late, kept=1)], counters=[CounterChange("g", ITEMS, 5), CounterChange("none", ITEMS, 5)]
        )
        assert (crawl.group().items, crawl.group().counters) == (12, {})
        assert [row.items for row in crawl.frontier.counts().groups] == [12]

    @pytest.mark.parametrize("what", ["item", "datum", "data"])
    def test_a_page_that_no_server_takes_becomes_a_dead_letter(
        self, crawl: Crawl, monkeypatch: pytest.MonkeyPatch, what: str
    ) -> None:
        """The limits are lowered here; a real page would take a quarter of a gigabyte."""
        monkeypatch.setattr(arguments, "ITEM_MAX", 1000)
        monkeypatch.setattr(lists, "DATA_MAX", 3)
        crawl.add("large", "fits")
        worker = crawl.worker()
        large, fits = worker.lease(2)
        key = f"test:{{{crawl.frontier.crawl}}}:large"
        large_ones: dict[str, dict[str, Any]] = {
            "item": {"items": [b"small", b"x" * 1001]},
            "datum": {"push": [(key, b"x" * 1001)]},
            "data": {"push": [(key, b"x")] * 4},
        }
        children = crawl.requests(["child 1", "child 2"])
        most: dict[str, Any] = {"items": [b"x" * 1000], "push": [(key, b"y")] * 3, "add": crawl.requests(["child 3"])}
        answer = worker.exchange(
            settle=[Settlement(large, add=children, **large_ones[what]), Settlement(fits, **most)],
            want=crawl.frontier.partitions,
        )
        assert answer.settled == [SETTLED, SETTLED]
        assert answer.children == [[AddOutcome.INVALID] * 2, [ADDED]]
        assert [lease.payload for lease in answer.leases] == [b"child 3"], "its children do not come without it"
        assert crawl.items() == [b"x" * 1000]
        assert crawl.command(("LRANGE", key, 0, -1), key) == [b"y"] * 3
        [letter] = crawl.frontier.dead_letters("g")
        assert (letter.reason, crawl.frontier.dead_letter(letter.partition, letter.id).payload) == (
            "too_large",
            b"large",
        )
        assert ("1,001 bytes" if what != "data" else "4 data") in letter.detail
        assert crawl.frontier.replay(letter.partition, [letter.id]) == 1, "it can be tried again"

    def test_pages_answer_in_the_order_they_were_told(self, crawl: Crawl, worker: Worker) -> None:
        hosts = crawl.spread(6)
        crawl.frontier.add([crawl.request(f"page {n}", host) for n, host in enumerate(hosts)])
        pages = sorted(worker.lease(6), key=lambda lease: lease.payload)
        settle = [
            Settlement(
                page, add=[crawl.request("known", hosts[0]), crawl.request(f"new {n}", hosts[n])], items=[b"%d" % n]
            )
            for n, page in enumerate(pages)
        ]
        answer = worker.exchange(settle=settle)
        assert answer.settled == [SETTLED] * 6
        assert sum(outcomes[0] is ADDED for outcomes in answer.children) == 1
        assert [outcomes[1] for outcomes in answer.children] == [ADDED] * 6
        assert sorted(crawl.items()) == [b"%d" % n for n in range(6)]
        crawl.balanced()

    def test_a_repeated_call_changes_nothing_and_answers_the_same(self, crawl: Crawl, worker: Worker) -> None:
        hosts = crawl.spread(6)
        crawl.frontier.add([crawl.request(f"page {n}", host) for n, host in enumerate(hosts)])
        pages = worker.lease(6)
        crawl.add("more", "and more")
        settle = [
            Settlement(page, add=[crawl.request("same", hosts[0], dont_filter=True), crawl.request(f"c{page.id}", hosts[1])],
                       items=[b"item"])
            for page in pages[:3]
        ]  # fmt: skip
        told: dict[str, Any] = {
            "settle": settle,
            "add": [crawl.request("made")],
            "counters": [CounterChange("g", "n", 1.0)],
            "want": 1,
        }
        first = crawl.frontier.exchange(worker.token, **told)
        before = crawl.frontier.counts()
        for _ in range(3):
            again = crawl.frontier.exchange(worker.token, **told)
            assert again._replace(states=first.states) == first, "but for the state of the server, which may be later"
        after = crawl.frontier.counts()
        assert (after.lanes, after.groups) == (before.lanes, before.groups)
        assert len(crawl.items()) == 3
        crawl.balanced()

    @pytest.mark.parametrize("want", [1, 2, 4])
    def test_a_repeated_call_leases_no_more(self, crawl: Crawl, want: int) -> None:
        crawl.frontier.add([crawl.request(f"r{n}", host) for n, host in enumerate(crawl.spread(12))])
        token = Token.fresh()
        first = crawl.frontier.exchange(token, want=want)
        assert len(first.leases) == want
        for _ in range(4):
            assert crawl.frontier.exchange(token, want=want) == first
        assert crawl.lane().leased == want

    def test_a_repeated_call_tells_only_the_leases_still_held(self, crawl: Crawl) -> None:
        crawl.add("one", "two")
        token = Token.fresh()
        first = crawl.frontier.exchange(token, want=2 * crawl.frontier.partitions)
        crawl.frontier.release(token, first.leases[:1])
        again = crawl.frontier.exchange(token, want=2 * crawl.frontier.partitions)
        assert again.leases == first.leases[1:]

    def test_an_older_token_is_refused(self, crawl: Crawl) -> None:
        crawl.add("one")
        token = Token.fresh()
        crawl.frontier.exchange(token.next(), want=0)
        with pytest.raises(TokenReused):
            crawl.frontier.exchange(token, want=crawl.frontier.partitions)
        assert crawl.lane().leased == 0

    def test_children_go_to_other_partitions_once(self, crawl: Crawl) -> None:
        crawl.add("page")
        hosts = crawl.spread(7)
        children = [crawl.request("again", host, dont_filter=True) for host in hosts]
        children += [crawl.request(f"at {host}", host) for host in hosts]
        first, second = crawl.worker(), crawl.worker()
        page = first.one()
        answer = first.exchange(settle=[Settlement(page, add=children)])
        assert answer.children == [[ADDED] * 14]
        assert crawl.group().open == 14
        # The same page told again, under another token: all of it is there already.
        answer = first.exchange(settle=[Settlement(page, add=children)])
        assert answer.settled == [LOST]
        assert ADDED not in answer.children[0]
        assert crawl.group().open == 14
        assert len(crawl.finish(second)) == 14

    def test_many_children_keep_their_order(self, crawl: Crawl, worker: Worker) -> None:
        crawl.frontier.set_host("", HostPolicy(concurrency=0))
        crawl.add("page")
        children = crawl.requests((f"c{n}" for n in range(3500)), dont_filter=True)
        assert worker.exchange(settle=[Settlement(worker.one(), add=children)]).children == [[ADDED] * 3500]
        assert names(worker.lease(3500)) == [f"c{n}" for n in range(3500)]

    def test_more_children_than_a_call_holds_all_arrive(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("page")
        children = [crawl.request(f"c{n}", host) for n, host in enumerate(crawl.spread(3500))]
        answer = worker.exchange(settle=[Settlement(worker.one(), add=children, items=[b"item"])])
        assert answer.settled == [SETTLED]
        assert answer.children == [[ADDED] * 3500]
        assert (crawl.group().open, crawl.items()) == (3500, [b"item"])

    def test_more_bytes_than_a_call_holds_all_arrive(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("page")
        children = [crawl.request(f"c{n}")._replace(payload=b"x" * 900_000) for n in range(12)]
        answer = worker.exchange(settle=[Settlement(worker.one(), add=children)])
        assert answer.children == [[ADDED] * 12]
        assert sum(len(lease.payload) for lease in worker.lease(8)) == 8 * 900_000

    def test_a_failed_page_keeps_what_it_produced(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("page")
        page = worker.one()
        settlement = Settlement(
            page, Ending.FAILED, add=crawl.requests(["child"]), items=[b"item"], reason="broken", detail="a trace"
        )
        assert worker.exchange(settle=[settlement]).settled == [SETTLED]
        assert (crawl.group().open, crawl.items()) == (1, [b"item"])
        [letter] = crawl.frontier.dead_letters("g")
        assert (letter.reason, letter.detail) == ("broken", "a trace")

    def test_children_may_go_to_other_lanes_and_groups(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(), "b": LanePolicy()})
        crawl.frontier.define("other", {"a": LanePolicy()})
        crawl.add("page")
        worker = crawl.worker("g", "other")
        children = [crawl.request("child", lane=lane) for lane in ("g.b", "other.a")]
        # Each group remembers for itself what it has seen.
        assert worker.exchange(settle=[Settlement(worker.one(), add=children)]).children == [[ADDED, ADDED]]
        assert (crawl.group("g").open, crawl.group("other").open) == (1, 1)
        again = [crawl.request("child", lane=lane) for lane in ("g.b", "other.a")]
        assert crawl.frontier.add(again)[0] == [DUPLICATE, DUPLICATE]

    def test_counters_join_as_they_say(self, crawl: Crawl, worker: Worker) -> None:
        crawl.define()
        for value in (3.0, 5.0, 4.0):
            worker.exchange(counters=[CounterChange("g", op.value, value, op) for op in CounterOp])
        assert crawl.group().counters == {"add": 12.0, "set": 4.0, "max": 5.0, "min": 3.0}
        worker.exchange(counters=[CounterChange("g", "add", -0.5), CounterChange("g", "min", -1e18, CounterOp.MIN)])
        assert crawl.group().counters == {"add": 11.5, "set": 4.0, "max": 5.0, "min": -1e18}
