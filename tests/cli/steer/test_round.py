"""`gossamer round list`: what the passes over a site were like."""

from __future__ import annotations

from tests.support.command import Command

from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import GroupPolicy, LanePolicy, Request, SeenPolicy, SeenScope, Settlement, Token
from gossamer.testing.clock import advance


def crawl_round(frontier: ValkeyFrontier, pages: int, *, end: bool = True, **noted: object) -> None:
    token = Token.fresh()
    frontier.start("news", token)
    number = frontier.counts("news").groups[0].round
    frontier.add([Request(1000 * number + n, f"h{n}", "news.list", b"x") for n in range(pages)])
    frontier.started("news", token)
    leases = frontier.exchange(token, want=100).leases
    frontier.exchange(token.next(), settle=[Settlement(lease, items=[b"i"]) for lease in leases])
    advance(frontier, 130)
    if end:
        frontier.end_round("news", token)
        frontier.ended("news", token, noted)


def test_rounds_are_listed_newest_first(command: Command, frontier: ValkeyFrontier) -> None:
    frontier.define("news", {"list": LanePolicy()}, GroupPolicy(start=True))
    assert command("round", "list", "news").rows == []
    crawl_round(frontier, 5, late=True, note="hook\tdone")
    frontier.new_round("news", 1, trigger="schedule", who="w1")
    crawl_round(frontier, 3, end=False)
    frontier.new_round("news", 2, trigger="by hand", who="ann")
    crawl_round(frontier, 1, end=False)
    rows = command("round", "list", "news").rows
    assert [row[:2] for row in rows] == [["2", "drained"], ["1", "cut short"], ["0", "ended"]], "nobody noted its end"
    token = Token.fresh()
    frontier.add([Request(9, "h", "news.list", b"x")])
    assert command("round", "list", "news").rows[0][:2] == ["2", "running"]
    [lease] = frontier.exchange(token, want=1).leases
    frontier.exchange(token.next(), settle=[Settlement(lease)])
    assert [row[4:10] for row in rows] == [
        ["by hand", "ann", "1", "1", "0", "0"],
        ["schedule", "w1", "3", "3", "0", "0"],
        ["", "", "5", "5", "0", "0"],
    ]
    assert rows[2][10:] == ["", "late", "hook\\tdone"]
    assert all(row[2].endswith(" UTC") for row in rows)
    assert [row[3].partition(" ")[2][:3] for row in rows] == ["min", "", "min"], "of the one cut short nobody knows"
    assert [row[0] for row in command("round", "list", "news", "--limit", "1").rows] == ["2"]
    listed = command("round", "list", "news", "--json").json
    assert [(x["round"], x["state"], x["pages"], x["late"]) for x in listed] == [
        (2, "running", 2, False),
        (1, "cut short", 3, False),
        (0, "ended", 5, True),
    ]
    assert listed[1]["ended"] is None


def test_an_unknown_site_is_an_error(command: Command, frontier: ValkeyFrontier) -> None:
    assert "no site or spider 'nope' has run in this crawl" in command("round", "list", "nope", code=2).err
    assert "'--limit'" in command("round", "list", "nope", "--limit", "0", code=2).err


def test_a_round_is_begun_by_hand(command: Command, frontier: ValkeyFrontier) -> None:
    """As after `redis-cli del <spider>:dupefilter`, where pages are remembered over all rounds."""
    of_round = LanePolicy(seen=SeenPolicy(scope=SeenScope.ROUND))
    frontier.define("news", {"list": LanePolicy(), "index": of_round}, GroupPolicy(start=True))
    crawl_round(frontier, 3)
    frontier.add([Request(77, "h1", "news.index", b"x")])
    refused = command("round", "new", "news", code=1, given="n\n").err
    assert "Begin round 1 of news? 1 of round 0 are still open and stay so." in refused
    assert command("round", "new", "news", "--yes").out == "round 1 of news begins\n"
    assert frontier.seen("news.list", [0, 1]) == [True, True], "what is remembered for good stays"
    assert frontier.seen("news.index", [77]) == [False]
    assert frontier.counts("news").groups[0].start == "owed"
    said = command("round", "new", "news", "--forget", "--yes", "--json").json
    assert said == {"group": "news", "round": 2, "forgotten": 3}
    assert frontier.seen("news.list", [0, 1]) == [False, False]
    assert command("round", "list", "news").rows[0][4] == "by hand"
    assert "there is no group 'nope'" in command("round", "new", "nope", code=2).err
