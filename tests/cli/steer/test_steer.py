"""`gossamer group`, `lane`, `host` and `seen`: a crawl steered from outside."""

from __future__ import annotations

import pytest
from scrapy import Request as ScrapyRequest
from scrapy.utils.request import fingerprint
from tests.support.command import Command

from gossamer.cli import output, progress
from gossamer.errors import UnknownGroup, UnknownLane
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import (
    Ending,
    GroupPolicy,
    HostPolicy,
    LanePolicy,
    Order,
    Request,
    SeenKind,
    SeenPolicy,
    SeenScope,
    Settlement,
    Token,
)
from gossamer.registry import Registry


@pytest.fixture(autouse=True)
def _filled(frontier: ValkeyFrontier) -> None:
    seen = SeenPolicy(SeenKind.ROLLING, SeenScope.ROUND, window=3600)
    frontier.define(
        "news", {"list": LanePolicy(max_queued=50), "post": LanePolicy(seen=seen)}, GroupPolicy(tasks=("k",))
    )
    frontier.define("shop", {"all": LanePolicy()})
    frontier.add([Request(n, f"h{n % 5}", "news.list", b"x") for n in range(20)])
    frontier.add([Request(n, f"h{n % 5}", "news.post", b"x") for n in range(7)])


def leased(frontier: ValkeyFrontier, want: int = 80) -> list[str]:
    """The lanes of what a new worker gets."""
    token = Token.fresh()
    leases = frontier.exchange(token, want=want).leases
    frontier.release(token, leases)
    return [lease.lane for lease in leases]


class TestGroup:
    def test_list(self, command: Command) -> None:
        news, shop = command("group", "list", "--json").json
        assert (news["group"], news["open"], news["policy"]["tasks"], shop["open"]) == ("news", 27, ["k"], 0)
        assert command("group", "list").rows[0] == ["news", "0", "none", "27", "0", "0", "0", "0", "0", "k", ""]

    def test_pause_and_resume(self, command: Command, frontier: ValkeyFrontier) -> None:
        said = command("group", "pause", "news", "--reason", "their sale")
        assert said.out == "group news is paused: their sale\n"
        assert leased(frontier) == []
        assert command("group", "list", "--json").json[0]["paused"] == "their sale"
        assert command("group", "resume", "news").out == "group news is resumed\n"
        assert len(leased(frontier)) == 27

    def test_resume_says_what_else_holds_it(self, command: Command, frontier: ValkeyFrontier) -> None:
        frontier.define("news", {}, GroupPolicy(max_dead=1))
        token = Token.fresh()
        [lease] = frontier.exchange(token, want=1).leases
        frontier.exchange(token.next(), settle=[Settlement(lease, Ending.FAILED)])
        assert command("group", "resume", "news").out == "group news is still paused: dead_full\n"

    def test_an_unknown_group_is_an_error(self, command: Command) -> None:
        for verb in ("pause", "resume", "drop"):
            assert "no group 'nope'" in command("group", verb, "nope", code=2).err

    def test_drop_asks_first(self, command: Command, frontier: ValkeyFrontier) -> None:
        said = command("group", "drop", "news", code=1, given="no\n")
        assert said.err.startswith("Drop group news: 27 open, 0 items, 0 dead letters? [y/N] ")
        assert said.err.endswith("error: stopped at the question; nothing was changed.\n")
        assert command("group", "drop", "news", code=1).err.count("\n") == 2, "no answer is a no"
        assert frontier.counts("news").groups[0].open == 27

    def test_drop(self, command: Command, frontier: ValkeyFrontier) -> None:
        assert command("group", "drop", "news", "--yes", "--json").json == {"group": "news", "dropped": 27}
        assert [group.group for group in frontier.counts().groups] == ["shop"]
        with pytest.raises(UnknownGroup):
            frontier.pause(group="news")


class TestLane:
    def test_list(self, command: Command) -> None:
        rows = {row["lane"]: row for row in command("lane", "list", "--json").json}
        assert (rows["news.list"]["queued"], rows["news.list"]["policy"]["max_queued"]) == (20, 50)
        assert rows["news.post"]["policy"]["seen"]["kind"] == "rolling"
        assert [row[0] for row in command("lane", "list", "--group", "shop").rows] == ["shop.all"]
        listed = command("lane", "list").rows[0]
        assert listed == ["news.list", "20", "0", "0", "fifo", "0", "1", "", "50", "", "exact forever", ""]
        assert "no group 'nope'" in command("lane", "list", "--group", "nope", code=2).err

    def test_pause_and_resume(self, command: Command, frontier: ValkeyFrontier) -> None:
        assert command("lane", "pause", "news.post").out == "lane news.post is paused: paused\n"
        assert set(leased(frontier)) == {"news.list"}
        command("lane", "resume", "news.post")
        assert set(leased(frontier)) == {"news.list", "news.post"}
        assert "no lane 'news.nope'" in command("lane", "pause", "news.nope", code=2).err

    def test_set_changes_what_is_named_and_nothing_else(self, command: Command, frontier: ValkeyFrontier) -> None:
        words = ("--tier", "-1", "--weight", "2.5", "--order", "lifo", "--max-leased", "3", "--stage", "slow")
        said = command("lane", "set", "news.list", *words)
        assert said.out == "lane news.list: order lifo, tier -1, weight 2.5, max_leased 3, stage slow\n"
        policy = command("lane", "list", "--json").json[0]["policy"]
        assert (policy["tier"], policy["weight"], policy["order"], policy["stage"]) == (-1, 2.5, "lifo", "slow")
        assert (policy["max_leased"], policy["max_queued"]) == (3, 50)
        assert command("lane", "set", "news.post", "--weight", "9", "--json").json["policy"]["seen"]["window"] == 3600
        # Told again as it was, the lane is what the operator made of it, not what the test defined.
        frontier.define("news", {"list": LanePolicy(Order.LIFO, -1, 2.5, max_queued=50, max_leased=3, stage="slow")})
        assert frontier.counts("news").lanes[0].queued == 20

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ((), "nothing to change"),
            (("--weight", "0"), "lane: weight is 0.0; it must be a finite number"),
            (("--weight", "nan"), "lane: weight is nan"),
            (("--max-queued", "-1"), "lane: max_queued is -1"),
            (("--stage", "a b"), "lane: stage 'a b' must be a plain name"),
            (("--order", "random"), "'random' is not one of"),
        ],
    )
    def test_set_refuses_what_cannot_be(self, command: Command, words: tuple[str, ...], said: str) -> None:
        assert said in command("lane", "set", "news.list", *words, code=2).err
        assert command("lane", "list", "--json").json[0]["policy"]["weight"] == 1

    def test_set_says_that_a_site_file_undoes_it(self, command: Command, frontier: ValkeyFrontier) -> None:
        """A worker that started set the weight as the file had it, and nobody knew."""
        text = "site: news\nseeds: [https://news.example/]\nlayers: {list: {match: ^/, fields: {title: h1}}}\n"
        assert "site file" not in command("lane", "set", "news.list", "--weight", "3").err
        Registry(frontier).push(text, "papers", who="me")
        said = command("lane", "set", "news.list", "--weight", "4")
        assert "a worker that starts sets it as the site file papers says" in said.err

    def test_set_makes_no_lane(self, command: Command) -> None:
        assert "no lane 'news.lits'" in command("lane", "set", "news.lits", "--tier", "1", code=2).err

    def test_drop(self, command: Command, frontier: ValkeyFrontier) -> None:
        assert command("lane", "drop", "news.post", code=1, given="n\n").err.startswith(
            "Drop lane news.post with 7 requests?"
        )
        assert (
            command("lane", "drop", "news.post", given="yes\n").out
            == "lane news.post is gone, and with it 7 requests\n"
        )
        with pytest.raises(UnknownLane):
            frontier.pause(lane="news.post")
        assert "no lane 'news.post'" in command("lane", "drop", "news.post", "--yes", code=2).err

    def test_drop_waits_for_pages_in_progress_and_says_so(
        self, command: Command, frontier: ValkeyFrontier, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        token, notices = Token.fresh(), list[str]()
        held = [lease for lease in frontier.exchange(token, want=80).leases if lease.lane == "news.post"]

        def hear(text: str) -> None:
            notices.append(text)
            frontier.exchange(token.next(), settle=[Settlement(lease) for lease in held])

        monkeypatch.setattr(progress, "WAIT_SECONDS", 0.0)
        monkeypatch.setattr(output, "write_notice", hear)
        assert command("lane", "drop", "news.post", "--yes").out == "lane news.post is gone, and with it 0 requests\n"
        assert [notice.partition(":")[0] for notice in notices] == ["waiting for pages in progress"]


class TestHost:
    def test_block_and_unblock(self, command: Command, frontier: ValkeyFrontier) -> None:
        said = command("host", "block", "h0", "--for", "90m", "--reason", "asked us to")
        assert said.out == "host h0 is blocked for 1 h 30 min: asked us to\n"
        [host] = command("host", "show", "h0", "--json").json
        assert (host["reason"], round(host["blocked_until"] - host["now"], -1)) == ("asked us to", 5400)
        assert command("host", "show", "h0").rows[0][6].endswith(": asked us to")
        command("host", "unblock", "h0")
        assert command("host", "show", "h0", "--json").json[0]["blocked_until"] == 0
        assert "of no length" in command("host", "block", "h0", "--for", "0", code=2).err

    def test_slow_changes_what_is_named(self, command: Command, frontier: ValkeyFrontier) -> None:
        frontier.set_host("", HostPolicy(concurrency=6, block_base=30))
        assert command("host", "slow", "h1", "--delay", "2.5").out == "host h1: 2.5 s between requests, 6 at a time\n"
        said = command("host", "slow", "h1", "--concurrency", "0", "--json").json
        assert (said["own_policy"], said["policy"]["delay"], said["policy"]["concurrency"]) == (True, 2.5, 0)
        assert said["policy"]["block_base"] == 30
        assert command("host", "slow", "h1", "--default").out == "host h1: 0 s between requests, 6 at a time\n"
        assert command("host", "show", "h1", "--json").json[0]["own_policy"] is False

    def test_the_operators_delay_goes_before_robots_and_default_forgets_it(
        self, command: Command, frontier: ValkeyFrontier
    ) -> None:
        frontier.set_crawl_delay("h1", 30)
        said = command("host", "slow", "h1", "--concurrency", "2").out
        assert said == "host h1: 0 s between requests, 2 at a time; 30 s for those who obey its robots.txt\n"
        assert command("host", "slow", "h1", "--delay", "1").out == "host h1: 1 s between requests, 2 at a time\n"
        assert command("host", "show", "h1").rows[0][4] == "30 s overruled"
        command("host", "slow", "h1", "--default")
        assert command("host", "show").rows == []

    @pytest.mark.parametrize("words", [(), ("--default", "--delay", "1")])
    def test_slow_needs_to_be_told_one_thing(self, command: Command, words: tuple[str, ...]) -> None:
        assert "--default alone" in command("host", "slow", "h1", *words, code=2).err

    @pytest.mark.parametrize(
        ("words", "said"), [(("--delay", "-1"), "host: delay"), (("--concurrency", "-2"), "host: concurrency")]
    )
    def test_slow_refuses_what_cannot_be(self, command: Command, words: tuple[str, ...], said: str) -> None:
        assert said in command("host", "slow", "h1", *words, code=2).err

    def test_pause_and_resume(self, command: Command, frontier: ValkeyFrontier) -> None:
        for number in range(5):
            command("host", "pause", f"h{number}", "--reason", "why\x1b[31m")
        assert leased(frontier) == []
        assert command("host", "show", "h3").rows[0][7] == "why\\x1b[31m"
        command("host", "resume", "h3")
        assert len(leased(frontier)) == 5

    def test_without_a_name_those_treated_specially_are_shown(self, command: Command, frontier: ValkeyFrontier) -> None:
        assert command("host", "show").rows == []
        command("host", "pause", "h0")
        command("host", "block", "h1")
        command("host", "slow", "h2", "--delay", "1")
        frontier.set_crawl_delay("h3", 7)
        assert sorted(row[0] for row in command("host", "show").rows) == ["h0", "h1", "h2", "h3"]
        assert len(command("host", "show", "--limit", "2", "--json").json) == 2

    def test_a_host_nobody_knows_is_at_rest(self, command: Command) -> None:
        [host] = command("host", "show", "nobody", "--json").json
        assert (host["in_flight"], host["paused"], host["policy"]["concurrency"]) == (0, "", 8)


class TestSeen:
    def test_stats(self, command: Command) -> None:
        rows = {row["name"]: row for row in command("seen", "stats", "--json").json}
        assert {name: row["known"] for name, row in rows.items() if row["known"]} == {
            "news|exact@forever": 20,
            "news|rolling:3600:0@round|0": 7,
        }
        assert ["news", "exact@forever", "20"] in [row[:3] for row in command("seen", "stats").rows]
        assert command("seen", "stats", "--group", "shop").rows == []

    def test_forgotten_fingerprints_are_new_again(self, command: Command, frontier: ValkeyFrontier) -> None:
        assert command("seen", "forget", "news.list", "3", "0xff", code=1, given="\n").err.startswith(
            "Make 1 of 2 pages of lane news.list new again?"
        )
        assert frontier.seen("news.list", [3]) == [True]
        said = command("seen", "forget", "news.list", "0000000000000003", "ff", "--yes")
        assert said.out == "0000000000000003 is new again\nff was not known\n"
        assert frontier.seen("news.list", [3, 4]) == [False, True]

    def test_a_url_is_known_by_scrapys_fingerprint(self, command: Command, frontier: ValkeyFrontier) -> None:
        url = "http://h1/b?z=1&a=2"
        number = int.from_bytes(fingerprint(ScrapyRequest("http://h1/b?a=2&z=1#here"))[:8])
        frontier.add([Request(number, "h1", "news.list", b"x")])
        assert command("seen", "forget", "news.list", url, "--yes").out == f"{url} is new again\n"
        assert frontier.seen("news.list", [number]) == [False]

    def test_nothing_known_is_exit_1_and_no_question(self, command: Command) -> None:
        said = command("seen", "forget", "news.list", "ff", "--json", code=1)
        assert said.json == [{"page": "ff", "fingerprint": "00000000000000ff", "was_known": False}]

    def test_a_url_is_one_of_a_request_with_method_and_body(self, command: Command, frontier: ValkeyFrontier) -> None:
        number = int.from_bytes(fingerprint(ScrapyRequest("http://h1/form", method="POST", body="q=1"))[:8])
        frontier.add([Request(number, "h1", "news.list", b"x")])
        words = ("seen", "forget", "news.list", "http://h1/form", "--yes")
        command(*words, code=1)
        command(*words, "--method", "POST", "--body", "q=1")
        assert frontier.seen("news.list", [number]) == [False]

    def test_a_group_forgets_all_it_has_seen(self, command: Command, frontier: ValkeyFrontier) -> None:
        before = frontier.counts("news")
        queued = [(lane.lane, lane.queued) for lane in before.lanes]
        assert "Forget 27 pages that group news has seen?" in command("seen", "clear", "news", code=1, given="n\n").err
        assert frontier.seen("news.list", [3]) == [True]
        assert command("seen", "clear", "news", "--yes", "--json").json == {"group": "news", "forgotten": 27}
        after = frontier.counts("news")
        assert [(lane.lane, lane.queued) for lane in after.lanes] == queued, "what is queued stays"
        assert after.lane_policies == before.lane_policies
        assert sum(each.known for each in frontier.seen_counts() if each.name.startswith("news|")) == 0
        assert frontier.add([Request(3, "h3", "news.list", b"x")])[0][0].name == "ADDED"
        assert "there is no group 'nope'" in command("seen", "clear", "nope", code=2).err

    @pytest.mark.parametrize("text", ["xyz", "", "1" * 17, "-1"])
    def test_what_is_no_fingerprint_is_refused(self, command: Command, text: str) -> None:
        assert (
            "is neither a URL nor a fingerprint"
            in command("seen", "forget", "--yes", "--", "news.list", text, code=2).err
        )


@pytest.mark.parametrize(
    "words", [("group", "list"), ("lane", "list"), ("host", "show"), ("seen", "stats"), ("worker", "list")]
)
def test_a_crawl_that_does_not_exist_is_not_made(
    command: Command, frontier: ValkeyFrontier, words: tuple[str, ...]
) -> None:
    said = command(*words, "--crawl", "nowhere-to-be-found", code=2)
    assert said.err.startswith("error: there is no crawl 'nowhere-to-be-found' on redis://")
