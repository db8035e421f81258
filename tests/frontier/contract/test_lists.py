"""Lists of others where it is hardest: answers that get lost, workers that die between two calls, users with few rights."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import ormsgpack
import pytest

from gossamer.errors import FrontierError, PermissionDenied, PolicyError
from gossamer.frontier.connection import acl
from gossamer.frontier.connection.router import RoutedCommand, slot_of
from gossamer.frontier.server import keys
from gossamer.frontier.server.library import function
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.frontier.verbs.lists import CALL_BYTES, CALL_DATA
from gossamer.frontier.verbs.work.exchange import WorkVerbs
from gossamer.model import Lease, Settlement, Token
from gossamer.testing.contract import Crawl
from gossamer.testing.contract.crawl import LOST, SETTLED
from gossamer.testing.contract.guarantees.lists import data, key_of, pushed
from gossamer.testing.fault_proxy import FaultProxy
from gossamer.testing.servers import Cluster, Server

Opened = Callable[..., Crawl]


def verb_of(call: RoutedCommand) -> str:
    return str(call.command[1]).removeprefix(function(""))


def arguments_of(call: RoutedCommand) -> tuple[Any, ...]:
    """The header of a call, and what comes after it."""
    return call.command[3 + int(call.command[2]) :]


class TestOnACluster:
    """The list lies elsewhere: the call that settles the page keeps its data, and they are pushed from there."""

    @pytest.fixture
    def crawl(self, cluster: Cluster, opened: Opened) -> Crawl:
        crawl = opened(cluster.url, GOSSAMER_PARTITIONS=3)
        crawl.define()
        return crawl

    def test_a_worker_that_lost_its_lease_pushes_nothing(self, crawl: Crawl) -> None:
        crawl.add("page", "fine")
        first, second = crawl.worker(), crawl.worker()
        page = first.one()
        crawl.expire()
        [again] = [lease for lease in second.lease(2) if lease.id == page.id]
        assert first.settle(page, push=data(crawl, "late")) == [LOST]
        assert pushed(crawl) == []
        assert second.settle(again, push=data(crawl, "now")) == [SETTLED]
        assert pushed(crawl) == [b"now"]

    def test_many_data_follow_each_other_in_several_calls(self, crawl: Crawl) -> None:
        crawl.add("page")
        worker = crawl.worker()
        push = data(crawl, *(f"{n:04}" for n in range(2500)))
        told = {"settle": [Settlement(worker.one(), push=push)]}
        for _ in range(2):
            assert crawl.frontier.exchange(worker.token, settle=told["settle"]).settled == [SETTLED]
        assert [text.decode() for text in pushed(crawl)] == [f"{n:04}" for n in range(2500)]

    def test_a_list_that_takes_nothing_any_more_gets_its_data_when_it_does(self, crawl: Crawl) -> None:
        """It was looked at before the page was settled; what changed since keeps the data waiting, and loses none."""
        frontier = crawl.frontier
        assert isinstance(frontier, ValkeyFrontier)
        crawl.add("page")
        worker = crawl.worker()
        page = worker.one()
        talk = frontier.verbs.work.exchange(worker.token, settle=[Settlement(page, push=data(crawl, "1", "2"))])
        asks = next(talk)
        while verb_of(asks[0]) != "exchange":
            asks = talk.send(frontier.ask(asks))
        key = key_of(crawl)
        crawl.command(("SET", key, "x"), key)
        asks = talk.send(frontier.ask(asks))
        problem = frontier.ask(asks)
        with pytest.raises(PolicyError, match="is a string"):
            talk.send(problem)
        assert crawl.lane().done == 1
        crawl.expire()
        other = crawl.worker()
        other.exchange(want=frontier.partitions)
        assert crawl.group().open == 1
        crawl.command(("DEL", key), key)
        crawl.expire()
        other.exchange(want=frontier.partitions)
        assert (crawl.group().open, pushed(crawl)) == (0, [b"1", b"2"])

    def test_the_book_forgets_pages_after_a_week_and_itself_when_nobody_pushes(self, crawl: Crawl) -> None:
        key, book = keys.list_keys(key_of(crawl))
        crawl.add("a", "b")
        worker = crawl.worker()
        one, two = worker.lease(2)
        worker.settle(one, push=data(crawl, "1"))
        [member] = crawl.command(("ZRANGE", book, 0, -1), book)
        assert member.decode().startswith(worker.token.incarnation)
        assert 0 < crawl.command(("PTTL", book), book) <= 7 * 86400 * 1000
        day = 86400 * 2**20
        for name, age in (("six", 6), ("eight", 8)):
            crawl.command(("ZADD", book, (int(time.time()) * 2**20) - age * day, name), book)
        worker.settle(two, push=data(crawl, "2"))
        members = [name.decode() for name in crawl.command(("ZRANGE", book, 0, -1), book)]
        assert [name for name in members if worker.token.incarnation not in name] == ["six"]
        assert len(members) == 3
        assert pushed(crawl) == [b"1", b"2"]
        assert slot_of(key) == slot_of(book)

    def test_a_key_beside_which_no_book_can_lie_is_refused(self, crawl: Crawl) -> None:
        crawl.add("page")
        worker = crawl.worker()
        page = worker.one()
        with pytest.raises(PolicyError, match="braces that are no hash tag"):
            crawl.frontier.exchange(worker.token, settle=[Settlement(page, push=[("a{}b", b"x")])])
        assert crawl.lane().leased == 1

    def test_a_hash_tag_is_kept(self, crawl: Crawl) -> None:
        crawl.add("page")
        worker = crawl.worker()
        key = f"{{{crawl.frontier.crawl}}}:tagged"
        assert worker.settle(worker.one(), push=[(key, b"x")]) == [SETTLED]
        assert crawl.command(("LRANGE", key, 0, -1), key) == [b"x"]
        assert slot_of(keys.list_keys(key)[1]) == slot_of(key)


class TestCalls:
    """What is said, without a server."""

    def talk(self, slots: bool, push: list[tuple[str, bytes]]) -> list[list[RoutedCommand]]:
        """All rounds of questions of one exchange."""
        work = WorkVerbs("c", 3, payload_max=100, lease_seconds=60, send_seconds=5, strikes=3, slots=slots)
        token = Token.fresh()
        lease = Lease(0, 1, token.incarnation, "n", "g.a", "h", 0, 1, b"", 1, False, 0.0, 0.0)
        talk = work.exchange(token, settle=[Settlement(lease, push=push)])
        rounds = [next(talk)]
        answer = ormsgpack.packb(["s", [], [], [], -1, 0, "", "1", 0, -1, "n", 0, "e", 1, 1, []])
        answers: dict[str, Any] = {"owed": [ormsgpack.packb(1)], "exchange": [answer], "push": 1}
        while True:
            try:
                rounds.append(talk.send([answers[verb_of(ask)] for ask in rounds[-1]]))
            except StopIteration:
                return rounds

    def test_on_one_server_it_is_the_same_call(self) -> None:
        [[ask]] = self.talk(False, [("k", b"1"), ("l", b"2"), ("k", b"3")])
        header = ormsgpack.unpackb(arguments_of(ask)[0])
        assert header["lists"] == ["k", "l"]
        assert header["settle"][0][11:] == [3, ["k", 2, "l", 1]]
        assert arguments_of(ask)[4:] == (b"1", b"3", b"2")

    def test_without_data_nothing_is_said_of_lists(self) -> None:
        [[ask]] = self.talk(False, [])
        header = ormsgpack.unpackb(arguments_of(ask)[0])
        assert "lists" not in header
        assert header["settle"] == [["1", "n"]]
        assert [[verb_of(ask) for ask in asks] for asks in self.talk(True, [])] == [["exchange"]]

    def test_lists_go_side_by_side_and_no_call_carries_too_much(self) -> None:
        push = [("k", b"x")] * (CALL_DATA * 2 + 1) + [("l", b"x" * (CALL_BYTES // 2))] * 3
        rounds = [[ask for ask in asks if verb_of(ask) == "push"] for asks in self.talk(True, push)]
        made = [asks for asks in rounds if asks]
        sizes = [[len(arguments_of(ask)) - 1 for ask in asks] for asks in made]
        assert sizes == [[0, 0], [CALL_DATA, 2], [CALL_DATA, 1], [1]], "first both are looked at"
        firsts = [ormsgpack.unpackb(arguments_of(asks[0])[0])["pages"][0][1:] for asks in made[1:]]
        assert firsts == [[0, CALL_DATA], [CALL_DATA, CALL_DATA], [CALL_DATA * 2, 1]]

    def test_each_page_is_settled_before_its_data_are_pushed(self) -> None:
        said = [[verb_of(ask) for ask in asks] for asks in self.talk(True, [("k", b"1"), ("l", b"2")])]
        assert said == [["push", "push"], ["exchange"], ["push", "push"], ["owed"]]


@pytest.mark.parametrize("lose", ["lose_replies", "lose_requests"])
@pytest.mark.parametrize("client", ["blocking", "async"])
def test_a_lost_answer_doubles_nothing(
    fault_proxy: FaultProxy, valkey_server: Server, opened: Opened, client: str, lose: str
) -> None:
    behind = opened(fault_proxy.url, asynchronous=client == "async")
    behind.define()
    behind.add("page")
    worker = behind.worker()
    page = worker.one()
    getattr(fault_proxy, lose)(1, match=b"FCALL")
    assert worker.settle(page, push=data(behind, "1", "2")) == [SETTLED]
    assert fault_proxy.counters.lost == 1
    fault_proxy.heal()
    assert pushed(opened(valkey_server.url, behind.frontier.crawl)) == [b"1", b"2"]


@pytest.mark.parametrize("kind", ["valkey", "redis"])
def test_partitions_of_one_server_push_in_their_own_call(
    request: pytest.FixtureRequest, opened: Opened, kind: str
) -> None:
    server: Server = request.getfixturevalue(f"{kind}_server")
    crawl = opened(server.url, GOSSAMER_PARTITIONS=4)
    crawl.define()
    crawl.frontier.add([crawl.request(f"page {n}", host) for n, host in enumerate(crawl.spread(8))])
    worker, late = crawl.worker(), crawl.worker()
    pages = worker.lease(8)
    assert worker.settle(*pages, push=data(crawl, "x")) == [SETTLED] * 8
    assert late.settle(*pages, push=data(crawl, "x")) == [LOST] * 8
    assert pushed(crawl) == [b"x"] * 8


@pytest.mark.parametrize("kind", ["valkey", "redis"])
def test_a_user_without_the_right_to_push_changes_nothing(kind: Any, opened: Opened) -> None:
    """The server checks the rights of each command inside a function, and undoes nothing when one is refused."""
    with Server(kind) as server:
        granted = [f"+{name.lower()}" for name in acl.NEEDED]
        for user, extra in (("blind", ()), ("reads", ("%R~*",)), ("writes", ("%W~*",))):
            server.call("ACL", "SETUSER", user, "reset", "on", ">pw", "~gossamer:*", *extra, *granted)
        url = server.url
        crawl = opened(url)
        crawl.define()
        crawl.add("fine", "refused")
        token = Token.fresh()
        fine, refused = crawl.frontier.exchange(token, want=2).leases
        settle = [Settlement(fine, items=[b"item"]), Settlement(refused, push=[("theirs", b"1")])]
        for user in ("blind", "reads"):
            few = opened(url.replace("redis://", f"redis://{user}:pw@"), crawl.frontier.crawl)
            with pytest.raises(FrontierError) as problem:
                few.frontier.exchange(token.next(), settle=settle)
            assert (crawl.lane().leased, crawl.items(), crawl.group().open) == (2, [], 2)
            assert isinstance(problem.value, PermissionDenied)
            assert "push to the list 'theirs'" in str(problem.value)
        enough = opened(url.replace("redis://", "redis://writes:pw@"), crawl.frontier.crawl)
        assert enough.frontier.exchange(token.next(), settle=settle).settled == [SETTLED] * 2
        assert server.call("LRANGE", "theirs", "0", "-1") == ["1"]
