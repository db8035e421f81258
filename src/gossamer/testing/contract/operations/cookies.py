"""Cookies that the workers of a group share."""

from __future__ import annotations

from gossamer.model import LanePolicy, Token
from gossamer.testing.contract.crawl import Crawl

MOST = 100


class TestCookies:
    """What one worker notes, the others have, and hear of with their next exchange."""

    def test_what_changed_since_a_version_is_told(self, crawl: Crawl) -> None:
        crawl.define()
        put, get = crawl.frontier.put_cookies, crawl.frontier.cookies
        assert get("g") == (0, {}, 0)
        before, first = put("g", {"a": b"1", "b": b"1"}, most=MOST)
        again, second = put("g", {"b": b"2", "c": b""}, most=MOST)
        assert (before, again) == (0, first)
        assert second > first > 0
        assert get("g") == (second, {"a": b"1", "b": b"2", "c": b""}, 0)
        assert get("g", first) == (second, {"b": b"2", "c": b""}, 0)
        assert get("g", second) == (second, {}, 0)

    def test_every_exchange_tells_the_version(self, crawl: Crawl) -> None:
        crawl.frontier.define("h", {"a": LanePolicy()})
        for name, host in enumerate(crawl.spread(4)):
            crawl.add(f"{name}", host=host)
        worker, token = crawl.worker(), Token.fresh()
        assert worker.exchange(session="g").hints.session == 0
        _, version = crawl.frontier.put_cookies("g", {"a": b"1"}, most=MOST)
        for want in (0, 1, 4):
            assert worker.exchange(want=want, session="g").hints.session == version
        assert worker.exchange(session="h").hints.session == worker.exchange().hints.session == 0
        first = crawl.frontier.exchange(token, session="g")
        assert crawl.frontier.exchange(token, session="g").hints.session == first.hints.session == version

    def test_they_are_bounded_and_the_oldest_go(self, crawl: Crawl) -> None:
        crawl.define()
        many = {f"{number}": b"x" for number in range(1300)}
        before, version = crawl.frontier.put_cookies("g", many, most=5000)
        assert (before, crawl.frontier.cookies("g")) == (0, (version, many, 0))
        crawl.frontier.put_cookies("g", {"new": b"y"}, most=3)
        _, left, _ = crawl.frontier.cookies("g")
        assert len(left) == 3
        assert left["new"] == b"y"

    def test_a_new_round_begins_without_them(self, crawl: Crawl) -> None:
        for host in crawl.spread(4):
            crawl.add(host, host=host)
        worker, put, get = crawl.worker(), crawl.frontier.put_cookies, crawl.frontier.cookies
        crawl.frontier.new_round("g", 1)
        assert get("g") == (0, {}, 0), "there was none to be forgotten"
        _, last = put("g", {"a": b"1"}, most=MOST)
        for _ in range(2):
            crawl.frontier.new_round("g", 2)
            version, found, began = get("g", last)
            assert (found, began > last) == ({}, True)
            for want in (0, 1, 4):
                assert worker.exchange(want=want, session="g").hints.session == version == began, "workers hear of it"
        before, after = put("g", {"a": b"2"}, most=MOST)
        assert before == began < after
        crawl.frontier.new_round("g", 2)
        assert get("g") == (after, {"a": b"2"}, began), "the round had begun"
