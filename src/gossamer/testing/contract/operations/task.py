"""Tasks of outside producers: leased like requests, from a list, a set or a sorted set."""

from __future__ import annotations

import pytest

from gossamer.errors import PolicyError, TokenReused
from gossamer.frontier.server import keys
from gossamer.testing.contract.crawl import Crawl, Worker

PUSH = {
    "list": lambda key, *tasks: ("RPUSH", key, *tasks),
    "set": lambda key, *tasks: ("SADD", key, *tasks),
    "sorted set": lambda key, *tasks: ("ZADD", key, *(word for n, task in enumerate(tasks) for word in (-n, task))),
}
KINDS = pytest.mark.parametrize("kind", PUSH)


def source_of(crawl: Crawl) -> str:
    return f"{crawl.frontier.crawl}:start_urls"


class TestTasks:
    """A task is gone only when it was settled."""

    @KINDS
    def test_every_task_is_leased_once(self, crawl: Crawl, kind: str) -> None:
        source, pushed = source_of(crawl), [f"http://h/{n}".encode() for n in range(7)]
        crawl.command(PUSH[kind](source, *pushed), source)
        first, second = crawl.worker(), crawl.worker()
        tasks = crawl.frontier.lease_tasks(first.token, source, 4)
        assert len(tasks) == 4
        tasks += crawl.frontier.lease_tasks(second.token, source, 10)
        assert sorted(task.data for task in tasks) == pushed
        if kind != "set":
            assert [task.data for task in tasks] == pushed
        assert {task.attempt for task in tasks} == {1}
        assert crawl.frontier.settle_tasks(first.token, source, done=tasks[:4]) == [True] * 4
        assert crawl.frontier.settle_tasks(second.token, source, done=tasks[4:]) == [True] * 3
        crawl.expire(source)
        assert crawl.frontier.lease_tasks(crawl.worker().token, source, 10) == []

    @KINDS
    def test_an_expired_task_goes_out_again_first(self, crawl: Crawl, kind: str) -> None:
        source = source_of(crawl)
        crawl.command(PUSH[kind](source, "one"), source)
        first, second = crawl.worker(), crawl.worker()
        [old] = crawl.frontier.lease_tasks(first.token, source, 1)
        crawl.command(PUSH[kind](source, "two"), source)
        crawl.expire(source)
        again = crawl.frontier.lease_tasks(second.token, source, 2)
        assert [(task.data, task.attempt) for task in again] == [(b"one", 2), (b"two", 1)]
        assert crawl.frontier.settle_tasks(first.token, source, done=[old]) == [False]
        assert crawl.frontier.settle_tasks(second.token, source, done=again) == [True, True]

    def test_a_repeated_call_leases_no_more(self, crawl: Crawl, worker: Worker) -> None:
        source = source_of(crawl)
        crawl.command(PUSH["list"](source, "one", "two", "three"), source)
        first = crawl.frontier.lease_tasks(worker.token, source, 1)
        assert crawl.frontier.lease_tasks(worker.token, source, 1) == first
        assert len(crawl.frontier.lease_tasks(worker.token.next(), source, 5)) == 2
        with pytest.raises(TokenReused):
            crawl.frontier.lease_tasks(worker.token, source, 1)

    def test_a_released_task_is_ready_at_once(self, crawl: Crawl) -> None:
        source = source_of(crawl)
        crawl.command(PUSH["list"](source, "one", "two"), source)
        first, second = crawl.worker(), crawl.worker()
        tasks = crawl.frontier.lease_tasks(first.token, source, 2)
        assert crawl.frontier.settle_tasks(first.token, source, release=tasks[1:]) == [True]
        assert crawl.frontier.settle_tasks(first.token, source, done=tasks[1:]) == [False]
        assert [task.data for task in crawl.frontier.lease_tasks(second.token, source, 5)] == [b"two"]

    def test_a_renewed_task_stays_leased(self, crawl: Crawl, worker: Worker) -> None:
        source = source_of(crawl)
        crawl.command(PUSH["list"](source, "one"), source)
        tasks = crawl.frontier.lease_tasks(worker.token, source, 1)
        for _ in range(3):
            crawl.advance(crawl.lease_seconds - 5, source)
            assert crawl.frontier.settle_tasks(worker.token, source, renew=tasks) == [True]
        assert crawl.frontier.lease_tasks(crawl.worker().token, source, 5) == []

    def test_done_release_and_renew_answer_in_this_order(self, crawl: Crawl, worker: Worker) -> None:
        source = source_of(crawl)
        crawl.command(PUSH["list"](source, "one", "two", "three"), source)
        one, two, three = crawl.frontier.lease_tasks(worker.token, source, 3)
        lost = one._replace(nonce="another")
        answers = crawl.frontier.settle_tasks(worker.token, source, done=[one, lost], release=[two], renew=[three])
        assert answers == [True, False, True, True]
        assert crawl.frontier.settle_tasks(worker.token, source) == []

    def test_a_task_that_kills_its_workers_is_tried_alone_and_then_poison(self, crawl: Crawl) -> None:
        source = source_of(crawl)
        crawl.command(PUSH["list"](source, "good", "bad"), source)
        for _ in range(crawl.strikes):
            tasks = crawl.frontier.lease_tasks(crawl.worker().token, source, 5)
            assert {task.data for task in tasks} == {b"good", b"bad"}
            crawl.expire(source)
        seen: dict[bytes, list[tuple[int, bool]]] = {b"good": [], b"bad": []}
        for _ in range(4):
            worker = crawl.worker()
            for task in crawl.frontier.lease_tasks(worker.token, source, 5):
                seen[task.data].append((task.attempt, task.poison))
                if task.data == b"good" or task.poison:
                    assert crawl.frontier.settle_tasks(worker.token, source, done=[task]) == [True]
            crawl.expire(source)
        tried = crawl.strikes + 1
        assert seen == {b"good": [(tried, False)], b"bad": [(tried, False), (tried + 1, True)]}

    def test_a_suspect_is_leased_with_no_other_task(self, crawl: Crawl) -> None:
        source = source_of(crawl)
        crawl.command(PUSH["list"](source, "one"), source)
        for _ in range(crawl.strikes):
            assert len(crawl.frontier.lease_tasks(crawl.worker().token, source, 5)) == 1
            crawl.expire(source)
        crawl.command(PUSH["list"](source, "two"), source)
        first, second = crawl.worker(), crawl.worker()
        assert [task.data for task in crawl.frontier.lease_tasks(first.token, source, 5)] == [b"one"]
        assert [task.data for task in crawl.frontier.lease_tasks(second.token, source, 5)] == [b"two"]

    def test_a_task_that_was_given_back_is_not_blamed(self, crawl: Crawl) -> None:
        source = source_of(crawl)
        crawl.command(PUSH["list"](source, "one", "two"), source)
        for attempt in range(1, 3 * crawl.strikes):
            worker = crawl.worker()
            tasks = crawl.frontier.lease_tasks(worker.token, source, 5)
            assert [(task.attempt, task.poison) for task in tasks] == [(attempt, False)] * 2
            assert crawl.frontier.settle_tasks(worker.token, source, release=tasks) == [True, True]

    def test_a_task_is_known_by_what_no_other_has(self, crawl: Crawl) -> None:
        source = source_of(crawl)
        crawl.command(PUSH["list"](source, "one"), source)
        [first] = crawl.frontier.lease_tasks(crawl.worker().token, source, 1)
        # As after a failover that lost the last moments: the book is as it was before.
        book = keys.task_keys(source)
        for key in book:
            crawl.command(("DEL", key), key)
        crawl.command(PUSH["list"](source, "two"), source)
        [second] = crawl.frontier.lease_tasks(crawl.worker().token, source, 1)
        assert first.id == second.id
        assert first.identity != second.identity
        crawl.expire(source)
        [again] = crawl.frontier.lease_tasks(crawl.worker().token, source, 1)
        assert again.identity == second.identity

    def test_a_key_of_another_kind_is_an_error(self, crawl: Crawl) -> None:
        source = source_of(crawl)
        crawl.command(("SET", source, "text"), source)
        with pytest.raises(PolicyError, match="list"):
            crawl.frontier.lease_tasks(crawl.worker().token, source, 1)

    @pytest.mark.parametrize("want", [0, -1, -100])
    def test_wanting_none_gives_none(self, crawl: Crawl, worker: Worker, want: int) -> None:
        source = source_of(crawl)
        crawl.command(PUSH["list"](source, "one"), source)
        crawl.frontier.lease_tasks(worker.token, source, 1)
        crawl.expire(source)
        assert crawl.frontier.lease_tasks(worker.token.next(), source, want) == []
        assert len(crawl.frontier.lease_tasks(worker.token.next().next(), source, 1)) == 1

    def test_an_empty_key_gives_none(self, crawl: Crawl) -> None:
        assert crawl.frontier.lease_tasks(crawl.worker().token, source_of(crawl), 5) == []
