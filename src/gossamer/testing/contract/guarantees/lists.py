"""Guarantee 2, for lists of others: what a page pushes to an ordinary list is there once, and only if the page was settled."""

from __future__ import annotations

from typing import Any

import pytest

from gossamer.errors import FrontierError, InvalidRequest, PolicyError
from gossamer.model import Ending, Settlement
from gossamer.testing.contract.crawl import ADDED, LOST, SETTLED, Crawl, Worker
from gossamer.testing.contract.guarantees.fence import given_away

ENDINGS = pytest.mark.parametrize("ending", [Ending.DONE, Ending.REPLACED, Ending.FAILED, Ending.RETRY])


def key_of(crawl: Crawl, name: str = "items") -> str:
    return f"{crawl.frontier.crawl}:{name}"


def pushed(crawl: Crawl, name: str = "items") -> list[bytes]:
    """All that is in a list."""
    key = key_of(crawl, name)
    found: list[bytes] = crawl.command(("LRANGE", key, 0, -1), key)
    return found


def data(crawl: Crawl, *texts: str, name: str = "items") -> list[tuple[str, bytes]]:
    return [(key_of(crawl, name), text.encode()) for text in texts]


class TestLists:
    """Data for ordinary lists arrive with the page that brought them."""

    @ENDINGS
    def test_they_arrive_with_their_page(self, crawl: Crawl, worker: Worker, ending: Ending) -> None:
        crawl.add("page")
        both = [*data(crawl, "1", "2"), *data(crawl, "a", name="other"), *data(crawl, "3"), (key_of(crawl), b"\0\xff")]
        settlement = Settlement(worker.one(), ending, add=crawl.requests(["child"]), items=[b"item"], push=both)
        answer = worker.exchange(settle=[settlement])
        assert (answer.settled, answer.children) == ([SETTLED], [[ADDED]])
        assert pushed(crawl) == [b"1", b"2", b"3", b"\0\xff"]
        assert pushed(crawl, "other") == [b"a"]
        assert crawl.items() == [b"item"]
        crawl.balanced()

    def test_a_page_may_bring_nothing_else(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("page")
        assert worker.settle(worker.one(), push=data(crawl, "1")) == [SETTLED]
        assert (pushed(crawl), crawl.lane().done, crawl.group().open) == ([b"1"], 1, 0)

    def test_pages_of_all_partitions_push_in_their_order(self, crawl: Crawl, worker: Worker) -> None:
        hosts = crawl.spread(12)
        crawl.frontier.add([crawl.request(f"page {n}", host) for n, host in enumerate(hosts)])
        leases = worker.lease(12)
        settle = [
            Settlement(
                page, items=[b"item"] * (n % 3), push=data(crawl, *(f"{n}.{m}" for m in range(n % 4))) if n % 5 else ()
            )
            for n, page in enumerate(leases)
        ]
        assert worker.exchange(settle=settle).settled == [SETTLED] * 12
        assert len(crawl.items()) == 12
        for n in range(12):
            mine = [text.decode() for text in pushed(crawl) if text.decode().startswith(f"{n}.")]
            assert mine == [f"{n}.{m}" for m in range(n % 4 if n % 5 else 0)]

    def test_a_lost_lease_pushes_nothing(self, crawl: Crawl) -> None:
        first, second, old, new = given_away(crawl)
        push = data(crawl, "1", "2")
        assert first.exchange(settle=[old._replace(push=push)]).settled == [LOST]
        assert pushed(crawl) == []
        assert crawl.group().refused_items == 3, "the item and both data"
        assert second.exchange(settle=[new._replace(push=push)]).settled == [SETTLED]
        assert pushed(crawl) == [b"1", b"2"]
        assert first.exchange(settle=[old._replace(push=push)]).settled == [LOST]
        assert pushed(crawl) == [b"1", b"2"]

    def test_a_repeated_call_pushes_nothing_more(self, crawl: Crawl, worker: Worker) -> None:
        hosts = crawl.spread(6)
        crawl.frontier.add([crawl.request(f"page {n}", host) for n, host in enumerate(hosts)])
        pages = worker.lease(6)
        told: dict[str, Any] = {
            "settle": [Settlement(page, items=[b"item"], push=data(crawl, "x", "y")) for page in pages],
            "want": 1,
        }
        first = crawl.frontier.exchange(worker.token, **told)
        assert first.settled == [SETTLED] * 6
        for _ in range(2):
            assert crawl.frontier.exchange(worker.token, **told)._replace(states=first.states) == first
        assert sorted(pushed(crawl)) == [b"x"] * 6 + [b"y"] * 6
        # Under another token: the leases are settled, so the pages are no longer its own.
        again = crawl.frontier.exchange(worker.token.next(), **told)
        assert again.settled == [LOST] * 6
        assert len(pushed(crawl)) == 12

    def test_an_attempt_after_a_retry_is_another_page(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("page")
        for attempt in range(3):
            ending = Ending.RETRY if attempt < 2 else Ending.DONE
            assert worker.settle(worker.one(), ending=ending, push=data(crawl, f"attempt {attempt}")) == [SETTLED]
        assert pushed(crawl) == [b"attempt 0", b"attempt 1", b"attempt 2"]

    @pytest.mark.parametrize("kind", ["string", "set", "hash"])
    def test_a_key_of_another_kind_refuses_the_call_and_changes_nothing(self, crawl: Crawl, kind: str) -> None:
        crawl.add("fine", "bad")
        worker = crawl.worker()
        fine, bad = worker.lease(2)
        key = key_of(crawl, "other")
        fill = {"string": ("SET", key, "x"), "set": ("SADD", key, "x"), "hash": ("HSET", key, "x", "y")}
        crawl.command(fill[kind], key)
        told: dict[str, Any] = {
            "settle": [
                Settlement(fine, items=[b"item"], push=data(crawl, "1")),
                Settlement(bad, items=[b"item"], push=[*data(crawl, "2"), *data(crawl, "3", name="other")]),
            ]
        }
        with pytest.raises(FrontierError) as refused:
            crawl.frontier.exchange(worker.token, **told)
        assert (crawl.lane().leased, crawl.items()) == (2, [])
        assert isinstance(refused.value, PolicyError)
        assert f"is a {kind}" in str(refused.value)
        crawl.command(("DEL", key), key)
        assert crawl.frontier.exchange(worker.token, **told).settled == [SETTLED] * 2
        assert (pushed(crawl), pushed(crawl, "other"), crawl.items()) == ([b"1", b"2"], [b"3"], [b"item"] * 2)

    def test_many_data_all_arrive_in_their_order(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("page", "next")
        many = [f"{n:05}" for n in range(9001)]
        settle = [Settlement(page, push=data(crawl, *many)) for page in worker.lease(2)]
        assert worker.exchange(settle=settle).settled == [SETTLED] * 2
        assert [text.decode() for text in pushed(crawl)] == many * 2

    def test_large_data_all_arrive(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("page")
        large = [(key_of(crawl), bytes([n]) * 900_000) for n in range(12)]
        assert worker.settle(worker.one(), push=large) == [SETTLED]
        assert pushed(crawl) == [content for _, content in large]

    @pytest.mark.parametrize(
        "push",
        [
            [("", b"x")],
            [("gossamer:mine", b"x")],
            [("key\ud800", b"x")],
            [(b"key", b"x")],
            [("key", "text")],
            [("key", None)],
        ],
        ids=str,
    )
    def test_what_cannot_be_pushed_is_refused_before_anything_is_sent(self, crawl: Crawl, push: Any) -> None:
        crawl.add("page")
        worker = crawl.worker()
        page = worker.one()
        with pytest.raises(InvalidRequest, match="push"):
            crawl.frontier.exchange(worker.token, settle=[Settlement(page, push=push)])
        assert crawl.lane().leased == 1
        assert worker.settle(page) == [SETTLED]
