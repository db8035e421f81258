"""`gossamer import neocrawler --state`: the URLs of an instance, with their times, in the layers of a crawl."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest
from tests.support.command import Command
from tests.support.neocrawler_instance import DAY, HOUR, NeoInstance

from gossamer.errors import BadRules, FrontierUnavailable, SourceUnreadable
from gossamer.frontier.codec import decode_request
from gossamer.frontier.snapshot import restore as snapshot_restore
from gossamer.frontier.snapshot.restore import Restore
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.migrate.neocrawler.state.instance import InstanceDatabase, instance_of
from gossamer.migrate.neocrawler.state.source import SsdbKeys
from gossamer.migrate.neocrawler.state.ssdb import answer, message
from gossamer.migrate.neocrawler.state.url_info import Fate, UrlInfo, fate_of
from gossamer.model import HostPolicy, PageState, Token
from gossamer.sites.compile import CompiledSite
from gossamer.sites.file.load import load_text
from gossamer.testing.servers import Server

SHOP, NEWS = "http://www.shop.example", "http://www.news.example"
NEWS_FILE = """
site: news.example
seeds: [http://www.news.example/]
layers:
  front: {match: '/$', seen: round}
  article: {match: '/a/', revisit: {every: 1d}}
"""


def url(number: int) -> str:
    return f"{SHOP}/detail/{number}"


@pytest.fixture
def instance(redis_server: Server) -> Iterator[NeoInstance]:
    now = int(time.time() * 1000)
    neo = NeoInstance(redis_server, now - 3 * DAY)
    neo.rule("shop.example", "list", url_pattern="/list/", type="branch", seed=[f"{SHOP}/list/1", f"{SHOP}/list/2"])
    neo.rule("shop.example", "detail", url_pattern="/detail/", id_parameter=["#"], drill_rules=[])
    neo.rule("shop.example", "old", url_pattern="/detail/old")
    neo.rule("news.example", "article", url_pattern="/a/")
    neo.rule("gone.example", "x", url_pattern="/x/")
    neo.reschedule("shop.example", "list")
    first = neo.take()
    neo.save_links(first, "shop.example", "detail", *map(url, range(1, 10)))
    neo.save_links(first, "shop.example", "old", url(90))
    neo.save_links(first, "news.example", "article", *(f"{NEWS}/a/{number}" for number in range(4)))
    neo.save_links(first, "gone.example", "x", "http://gone.example/x/1")
    neo.finish(first)
    neo.schedule("shop.example", "detail", 6)
    assert neo.take() == f"{SHOP}/list/2"
    neo.finish(neo.take())  # detail/1, three days ago
    neo.now = now - HOUR
    neo.finish(neo.take())  # detail/2
    neo.fail(neo.take())  # detail/3
    neo.stick(neo.take())  # detail/4
    assert neo.take() == url(5)  # its spider died
    # detail/6 is given to spiders, 7 to 9 wait in their list.
    neo.driller.rpush("urllib:driller:shop.example:detail", url(10))  # without anything known of it
    neo.driller.delete("driller:shop.example:old")
    for number, end in enumerate((neo.finish, neo.fail)):
        neo.driller.lpop("urllib:driller:news.example:article")
        end(f"{NEWS}/a/{number}")
    neo.driller.delete("urllib:driller:news.example:article")  # a/2 and a/3 are lost
    neo.urls.hset("0" * 32, mapping={"status": "hit"})
    yield neo
    neo.close()


def test_what_an_instance_knows_is_moved_with_its_times(
    command: Command, frontier: ValkeyFrontier, instance: NeoInstance, tmp_path: Path
) -> None:
    settings = instance.settings(tmp_path)
    before = instance.state()
    assert "has no site files to move URLs to" in command("import", "neocrawler", settings, "--state", code=2).err
    command("import", "neocrawler", settings, "-o", "sites")
    (tmp_path / "sites" / "news.example.yaml").write_text(NEWS_FILE)
    (tmp_path / "sites" / "gone.example.yaml").unlink()
    command("site", "push", "sites")

    foretold = command("import", "neocrawler", settings, "--state", "--dry-run", "--json", code=1).json
    assert frontier.counts().lanes == [], "nothing is changed"
    said = command("import", "neocrawler", settings, "--state", code=1)
    rows = {row[0]: row[1:] for row in said.rows if "." in row[0]}
    #                                          waits finished recorded seen comes again failed
    assert rows["shop.example.list"] == ["1", "1", "0", "0", "1", "0"]
    assert rows["shop.example.detail"] == ["8", "2", "0", "1", "1", "1"]
    assert rows["news.example.article"] == ["2", "1", "1", "0", "0", "1"]
    assert "the instance knows 18 URLs; moved: 11 that wait, 4 finished, 2 failed" in said.out
    assert {one["reason"]: one["examples"] for one in foretold["unplaced"]} == {
        "the crawl has no site gone.example, and no other matches it": ["http://gone.example/x/1"],
        "what is known of it cannot be used: it has no url": ["0" * 32],
    }
    assert "2 URLs have no place in the crawl" in said.err
    assert foretold["lanes"]["shop.example.detail"]["waits"] == 8
    assert instance.state() == before, "nothing is removed from the instance"
    _check_shop(frontier)
    _check_news(frontier, instance)

    again = command("import", "neocrawler", settings, "--state", code=1)
    assert "of these lines the crawl had already" in again.out
    assert [row.dead for row in frontier.counts("shop.example").groups] == [1], "nothing is there twice"
    instance.save_links(f"{SHOP}/list/1", "shop.example", "detail", url(11))
    refused = command("import", "neocrawler", settings, "--state", code=3).err
    assert "is in crawl" in refused
    assert "--again" in refused
    assert command("import", "neocrawler", "rules.json", "--state", code=2).err.startswith("error: ")


def test_a_move_that_was_cut_off_goes_on_however_late(
    command: Command, frontier: ValkeyFrontier, instance: NeoInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What becomes of a URL depends on the time. It is that of the first attempt: otherwise each would move another state."""
    settings = instance.settings(tmp_path)
    # Nothing says when it was read: it counts as read now.
    instance.urls.hdel(md5(f"{NEWS}/a/0".encode()).hexdigest(), "create", "last")
    command("import", "neocrawler", settings, "-o", "sites")
    (tmp_path / "sites" / "news.example.yaml").write_text(NEWS_FILE)
    command("site", "push", "sites")
    flush, left = Restore._flush, [12]

    def cut_off(self: Restore, upto: int) -> None:
        flush(self, upto)
        left[0] -= 1
        if not left[0]:
            raise FrontierUnavailable("The server is gone.")

    monkeypatch.setattr(snapshot_restore, "BATCH_ENTRIES", 2)
    monkeypatch.setattr(Restore, "_flush", cut_off)
    assert "The server is gone" in command("import", "neocrawler", settings, "--state", code=3).err
    assert sum(row.open for row in frontier.counts().groups) > 0
    monkeypatch.setattr(Restore, "_flush", flush)
    said = command("import", "neocrawler", settings, "--state", code=1).out
    assert "of these lines the crawl had already" in said
    _check_shop(frontier)
    [read] = frontier.page_records(
        "news.example.article", [_site(frontier, "news.example").fingerprint("article", f"{NEWS}/a/0")]
    )
    assert read is not None
    assert read.state is PageState.FINISHED


def _site(frontier: ValkeyFrontier, name: str) -> CompiledSite:
    [spec] = load_text(frontier.document("site", name).text, name)
    return CompiledSite(spec)


def _check_shop(frontier: ValkeyFrontier) -> None:
    site = _site(frontier, "shop.example")
    lane = "shop.example.detail"
    numbers = [site.fingerprint("detail", url(number)) for number in range(1, 12)]
    #                                  1      2     3      4..10 are queued
    assert frontier.seen(lane, numbers) == [False, True, False, *[True] * 7, False]
    frontier.set_host("www.shop.example", HostPolicy(concurrency=0))
    leases = frontier.exchange(Token.fresh(), want=50).leases
    leased = [(one.lane, decode_request(one.payload)) for one in leases if one.lane.startswith("shop")]
    found = [fields["url"] for where, fields in leased if where == lane]
    assert found[:6] == [url(number) for number in (6, 7, 8, 9, 10, 90)], "given to spiders, then the lists"
    assert set(found[6:]) == {url(4), url(5)}, "its data could not be stored; its spider died"
    assert {fields["meta"]["trail"][0] for where, fields in leased if "trail" in fields["meta"]} == {f"{SHOP}/list/1"}
    [letter] = frontier.dead_letters("shop.example")
    assert (letter.reason, letter.lane) == ("neocrawler_failed", lane)


def _check_news(frontier: ValkeyFrontier, instance: NeoInstance) -> None:
    site = _site(frontier, "news.example")
    urls = [f"{NEWS}/a/{number}" for number in range(4)]
    read, failed, *waiting = frontier.page_records(
        "news.example.article", [site.fingerprint("article", u) for u in urls]
    )
    info = instance.info(urls[0])
    assert read is not None
    assert (read.state, read.first, read.last) == (
        PageState.FINISHED,
        int(info["create"]) / 1000,
        int(info["last"]) / 1000,
    )
    assert read.due == pytest.approx(read.last + 86400)
    assert failed is not None
    assert failed.state is PageState.FAILED
    assert [one.state for one in waiting if one is not None] == [PageState.SCHEDULED] * 2


def test_what_becomes_of_a_url() -> None:
    def fate(status: str, ago: float = 0.0, **more: bool) -> Fate:
        known = {"scheduled": False, "listed": False, "stuck": False, **more}
        return fate_of(UrlInfo("u", "t", status, "", 0, 1000 - ago, 0), 100, 1000, **known)

    assert [fate(status) for status in ("hit", "schedule", "crawling")] == [Fate.WAITS] * 3
    assert [fate("crawled_finish"), fate("crawled_failure")] == [Fate.FINISHED, Fate.FAILED]
    assert fate("crawled_finish", listed=True) is Fate.FINISHED, (
        "NEOCrawler would take it out of the list and ignore it"
    )
    assert fate("crawled_finish", 100, listed=True) is Fate.WAITS
    assert fate("crawled_finish", 100) is Fate.FINISHED
    assert {fate("crawled_finish", scheduled=True), fate("crawled_finish", stuck=True)} == {Fate.WAITS}
    assert fate("crawled_failure", listed=True) is Fate.WAITS


def test_which_instance_is_meant(tmp_path: Path) -> None:
    found = instance_of("redis://u:p%40@host:7000")
    assert [place.db for place in found[:3]] == [0, 1, 2]
    assert found.rules.redis_url == "redis://u:p%40@host:7000/0"
    assert "p@" not in found.name
    assert instance_of("ssdb://host:8888").ssdb
    file = tmp_path / "settings.json"
    for text, wrong in (
        ("{,}", "is not JSON"),
        ('{"driller_info_redis_db": ["h", "6379", 0]}', "driller_info_redis_db is"),
        ("[]", "is not an object"),
    ):
        file.write_text(text)
        with pytest.raises(BadRules, match=wrong):
            instance_of(str(file))
    with pytest.raises(BadRules, match="three databases"):
        instance_of("redis://host/3")
    assert [instance_of(f"{scheme}://h").urls.port for scheme in ("redis", "ssdb")] == [6379, 8888]
    with pytest.raises(BadRules, match="names no server"):
        instance_of("redis://:x/")


def test_messages_of_ssdb_are_read_whole_and_in_parts() -> None:
    data = message("qslice", "urllib:a", 0, 499)
    assert data == b"6\nqslice\n8\nurllib:a\n1\n0\n3\n499\n\n"
    whole = b"2\nok\n4\na\nb\n\n0\n\n\n2\nok\n\n"
    assert answer(whole) == ([b"ok", b"a\nb\n", b""], len(whole) - 6)
    assert [answer(whole[:size]) for size in range(len(whole) - 6)] == [None] * (len(whole) - 6)
    with pytest.raises(ValueError, match="invalid literal"):
        answer(b"-ERR unknown\r\n")


def test_a_server_that_is_not_ssdb_is_told_from_one(redis_server: Server) -> None:
    with (
        closing(SsdbKeys.open(InstanceDatabase("127.0.0.1", redis_server.port, 0), 5)) as keys,
        pytest.raises(SourceUnreadable, match=r"does not answer as SSDB|closed the connection"),
    ):
        next(keys.names("list", "urllib:"))


def test_names_and_contents_of_ssdb_come_in_pages() -> None:
    """By what its commands mean: names after the first up to the second, in their order; places from 0 on."""
    lists = {f"urllib:driller:d:{number:04}": [str(n) for n in range(number)] for number in (3, 700)}
    hashes = {f"{number:032x}": {"url": f"u{number}"} for number in range(1100)}
    scores = {"fail:urllib:driller:d:a": [(f"u{number}", number) for number in range(600)]}

    begins_with, sizes = False, {name: len(members) for name, members in lists.items()}

    def ask(command: str, name: str | bytes, *more: Any) -> list[bytes]:
        name = name if isinstance(name, str) else name.decode()
        match command:
            case "qlist" | "hlist" | "zlist":
                last, limit = more
                there: list[str] = sorted({"qlist": [*lists], "hlist": [*hashes], "zlist": [*scores]}[command])
                after = [one for one in there if name < one or (begins_with and name == one)]
                rows = [one for one in after if one <= last][:limit]
            case "qsize":
                rows = [str(sizes[name])]
            case "qslice":
                rows = lists[name][more[0] : more[1] + 1]
            case "zrange":
                rows = [str(part) for pair in scores[name][more[0] : more[0] + more[1]] for part in pair]
            case "hscan":
                rows = [part for pair in hashes[name].items() for part in pair]
            case _:
                raise AssertionError(command)
        return [row.encode() for row in rows]

    keys = SsdbKeys(ask, lambda: None)
    assert {name: list(keys.listed(name)) for name in keys.names("list", "urllib:")} == lists
    assert {name: list(keys.ranked(name)) for name in keys.names("zset", "fail:")} == scores
    assert dict(keys.hashes("")) == hashes
    begins_with = True
    assert list(keys.names("list", "urllib:")) == sorted(lists), "as forks of SSDB do"
    assert dict(keys.hashes("")) == hashes
    sizes["urllib:driller:d:0003"] = 4
    with pytest.raises(SourceUnreadable, match="has 4 members, and only the first 3 can be read"):
        list(keys.listed("urllib:driller:d:0003"))
