"""`gossamer dead`: what failed for good, looked at, queued again, or let go."""

from __future__ import annotations

import pytest
from tests.support.command import Command

from gossamer.frontier import codec
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import AddOutcome, DeadLetter, Ending, GroupPolicy, LanePolicy, Request, Settlement, Token
from gossamer.status.dead import scan_dead
from gossamer.testing import clock
from gossamer.testing.servers import Cluster

TRACE = 'Traceback (most recent call last):\n  File "spider.py", line 3, in parse\nValueError: no title \x1b[31m'


def fail(
    frontier: ValkeyFrontier, number: int, lane: str = "news.post", reason: str = "callback", detail: str = TRACE
) -> None:
    url = f"http://h{number}.example/{number}"
    payload = codec.encode_request({"url": url, "meta": {"depth": number, "seen": {1}}, "body": b"\xff"})
    frontier.add([Request(number, f"h{number}.example", lane, payload)])
    token = Token.fresh()
    [lease] = frontier.exchange(token, want=2).leases
    frontier.exchange(token.next(), settle=[Settlement(lease, Ending.FAILED, reason=reason, detail=detail)])
    clock.advance(frontier, 1)


@pytest.fixture(autouse=True)
def _filled(frontier: ValkeyFrontier) -> None:
    """Six letters in two groups, each a second after the other."""
    frontier.define("news", {"list": LanePolicy(), "post": LanePolicy()})
    frontier.define("shop", {"all": LanePolicy()})
    fail(frontier, 1)
    fail(frontier, 2, "shop.all", "http_500", "")
    fail(frontier, 3, "news.list", "timeout", "after 30 s")
    fail(frontier, 4)
    frontier.bury("shop", b"not json", reason="bad_task", key="k", detail="it has no url")
    clock.advance(frontier, 1)
    fail(frontier, 6, "news.list")


def letters(frontier: ValkeyFrontier) -> list[DeadLetter]:
    return [letter for group in ("news", "shop") for letter in scan_dead(frontier, group)]


def id_of(frontier: ValkeyFrontier, number: int) -> str:
    letter = next(each for each in letters(frontier) if each.fingerprint == number)
    return f"{letter.partition}.{letter.id}"


def test_all_groups_are_listed_oldest_first(command: Command, frontier: ValkeyFrontier) -> None:
    rows = command("dead", "list", "--json").json
    assert [(row["lane"], row["reason"]) for row in rows] == [
        ("news.post", "callback"),
        ("shop.all", "http_500"),
        ("news.list", "timeout"),
        ("news.post", "callback"),
        ("", "bad_task"),
        ("news.list", "callback"),
    ]
    # A bad task is no request.
    assert [row["url"] for row in rows[3:5]] == ["http://h4.example/4", ""]
    assert (rows[0]["id"], rows[0]["fingerprint"]) == (id_of(frontier, 1), "0000000000000001")
    first = command("dead", "list").rows[0]
    assert [first[0], *first[2:]] == [
        id_of(frontier, 1),
        "news.post",
        "http://h1.example/1",
        "1",
        "callback",
        "ValueError: no title \\x1b[31m",
    ]


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        (("--group", "news"), [1, 3, 4, 6]),
        (("--group", "nobody"), []),
        (("--reason", "callback"), [1, 4, 6]),
        (("--lane", "news.list"), [3, 6]),
        (("--lane", "news.list", "--reason", "timeout"), [3]),
        (("--lane", "news.list", "--group", "shop"), []),
        (("--lane", "news.nope"), []),
    ],
)
def test_a_list_is_narrowed(command: Command, words: tuple[str, ...], numbers: list[int]) -> None:
    rows = command("dead", "list", "--json", *words).json
    assert [int(row["fingerprint"], 16) for row in rows] == numbers


def test_a_list_is_bounded_and_says_so(command: Command) -> None:
    said = command("dead", "list", "--limit", "2")
    assert len(said.rows) == 2
    assert said.err == "there are more than 2; raise --limit to see them\n"
    assert command("dead", "list", "--limit", "6").err == ""


def test_show_tells_why_with_traceback_and_request(command: Command, frontier: ValkeyFrontier) -> None:
    name = id_of(frontier, 4)
    told = command("dead", "show", name, "--json").json
    assert (told["id"], told["reason"], told["detail"], told["lane"]) == (name, "callback", TRACE, "news.post")
    assert told["request"]["url"] == "http://h4.example/4"
    assert told["request"]["meta"] == {"depth": 4, "seen": {"$set": [1]}}
    shown = command("dead", "show", name).out
    assert f"id:          {name}\n" in shown
    assert "reason:      callback\n" in shown
    assert '\n  File "spider.py", line 3, in parse\nValueError: no title \\x1b[31m\n' in shown
    assert '\n  "url": "http://h4.example/4",\n' in shown


def test_show_of_what_is_no_request(command: Command, frontier: ValkeyFrontier) -> None:
    [row] = command("dead", "list", "--reason", "bad_task", "--json").json
    told = command("dead", "show", row["id"], "--json").json
    assert (told["text"], told["detail"]) == ("not json", "it has no url")
    frontier.bury("shop", b"\xff\xfe", reason="garbage", key="2")
    [row] = command("dead", "list", "--reason", "garbage", "--json").json
    assert command("dead", "show", row["id"], "--json").json["base64"] == "//4="


@pytest.mark.parametrize("verb", ["show", "replay", "drop"])
def test_an_unknown_letter_is_an_error_and_changes_nothing(
    command: Command, frontier: ValkeyFrontier, verb: str
) -> None:
    known = (id_of(frontier, 1),) if verb != "show" else ()
    assert "there is no dead letter 0.99999" in command("dead", verb, *known, "0.99999", code=2).err
    assert "partition 7 does not exist" in command("dead", verb, "7.1", code=2).err
    assert "'x' is not the id of a dead letter" in command("dead", verb, "x", code=2).err
    assert len(letters(frontier)) == 6


def test_replay_by_id(command: Command, frontier: ValkeyFrontier) -> None:
    said = command("dead", "replay", id_of(frontier, 1), id_of(frontier, 3), id_of(frontier, 1))
    assert said.out == "2 dead letters are queued again\n"
    leases = frontier.exchange(Token.fresh(), want=8).leases
    assert sorted(lease.fingerprint for lease in leases) == [1, 3]
    assert {lease.attempt for lease in leases} == {1}


def test_replay_forgives_the_retries_of_scrapy(command: Command, frontier: ValkeyFrontier) -> None:
    meta = {"retry_times": 2, "max_retry_times": 2, "depth": 7}
    payload = codec.encode_request({"url": "http://h.example/", "meta": meta})
    asked = [
        Request(number, f"h{number}.example", f"news.{lane}", payload, 3) for number, lane in ((7, "post"), (8, "list"))
    ]
    frontier.add(asked)
    token = Token.fresh()
    leases = frontier.exchange(token, want=2).leases
    frontier.exchange(token.next(), settle=[Settlement(lease, Ending.FAILED, reason="gave_up") for lease in leases])
    assert sum(frontier.drop_lane("news.list")) == 0
    said = command("dead", "replay", "--all", "--reason", "gave_up", code=1)
    assert said.out == "1 dead letter is queued again\n"
    [left] = [letter for letter in letters(frontier) if letter.reason == "gave_up"]
    assert left.fingerprint == 8
    [lease] = frontier.exchange(token.next().next(), want=2).leases
    found = codec.decode_request(lease.payload)["meta"]
    assert (found, lease.priority, lease.fingerprint) == ({"max_retry_times": 2, "depth": 7}, 5, 7)
    assert frontier.add(asked[:1])[0] == [AddOutcome.DUPLICATE]


def test_replay_all_of_a_reason(command: Command, frontier: ValkeyFrontier) -> None:
    assert command("dead", "replay", "--all", "--reason", "callback", "--json").json == {"replayed": 3, "left": 0}
    assert sorted(letter.fingerprint for letter in letters(frontier)) == [0, 2, 3]


def test_what_cannot_be_replayed_stays_and_is_told(command: Command, frontier: ValkeyFrontier) -> None:
    assert sum(frontier.drop_lane("news.list")) == 0
    said = command("dead", "replay", "--all", "--group", "news", code=1)
    assert said.out == "2 dead letters are queued again\n"
    assert said.err == "2 could not be queued: they are not requests, or their lanes do not exist\n"
    assert sorted(letter.fingerprint for letter in letters(frontier)) == [0, 2, 3, 6]


def test_drop_asks(command: Command, frontier: ValkeyFrontier) -> None:
    said = command("dead", "drop", "--all", "--lane", "news.post", code=1, given="n\n")
    assert said.err.startswith("Drop 2 dead letters for good? [y/N] ")
    assert len(letters(frontier)) == 6
    assert command("dead", "drop", "--all", "--lane", "news.post", given="y\n").out == "2 dead letters dropped\n"
    assert command("dead", "drop", id_of(frontier, 2), "--yes", "--json").json == {"dropped": 1}
    assert sorted(letter.fingerprint for letter in letters(frontier)) == [0, 3, 6]
    assert command("dead", "drop", "--all", "--yes").out == "3 dead letters dropped\n"
    assert command("dead", "drop", "--all").out == "0 dead letters dropped\n", "and no question about nothing"


@pytest.mark.parametrize("verb", ["replay", "drop"])
@pytest.mark.parametrize("words", [(), ("--reason", "x"), ("0.1", "--all"), ("0.1", "--reason", "x")])
def test_which_ones_must_be_said_one_way(
    command: Command, frontier: ValkeyFrontier, verb: str, words: tuple[str, ...]
) -> None:
    assert "or give --all, with --group, --reason or --lane" in command("dead", verb, *words, code=2).err
    assert len(letters(frontier)) == 6


def test_a_group_that_was_full_goes_on_after_a_drop(command: Command, frontier: ValkeyFrontier) -> None:
    frontier.define("news", {}, GroupPolicy(max_dead=1))
    assert frontier.counts("news").groups[0].paused == "dead_full"
    command("dead", "drop", "--all", "--yes")
    assert frontier.counts("news").groups[0].paused == ""


def test_many_on_a_cluster(
    command: Command, cluster: Cluster, crawl_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOSSAMER_PARTITIONS", "3")
    monkeypatch.setenv("GOSSAMER_URL", cluster.url)
    with ValkeyFrontier.open() as frontier:
        frontier.define("g", {"a": LanePolicy()})
        requests = [Request(n, f"h{n % 50}", "g.a", b"x") for n in range(1500)]
        frontier.add(requests)
        token, failed = Token.fresh(), 0
        while leases := frontier.exchange(token, want=600).leases:
            token = token.next()
            frontier.exchange(token, settle=[Settlement(lease, Ending.FAILED) for lease in leases])
            token, failed = token.next(), failed + len(leases)
        assert failed == 1500
        assert command("dead", "replay", "--all").out == "1,500 dead letters are queued again\n"
        assert frontier.counts().lanes[0].queued == 1500


def test_secrets_of_a_request_are_shown_only_when_asked_for(command: Command, frontier: ValkeyFrontier) -> None:
    payload = codec.encode_request(
        {"url": "http://me:hidden1@h9.example/", "headers": {"Authorization": "hidden2"}, "cookies": {"a": "hidden3"}}
    )
    frontier.add([Request(9, "h9.example", "news.post", payload)])
    token = Token.fresh()
    [lease] = frontier.exchange(token, want=2).leases
    said = "no answer from http://me:hidden4@h9.example/"
    frontier.exchange(token.next(), settle=[Settlement(lease, Ending.FAILED, reason="callback", detail=said)])
    number = id_of(frontier, 9)
    for words in (("list",), ("list", "--json"), ("show", number), ("show", number, "--json")):
        assert "hidden" not in command("dead", *words).out
    told = command("dead", "show", number, "--secrets").out
    assert all(f"hidden{one}" in told for one in (1, 2, 3, 4))
