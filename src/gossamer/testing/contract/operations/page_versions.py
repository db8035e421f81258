"""Which version of its pages a group has read last."""

from __future__ import annotations

from gossamer.testing.contract.crawl import Crawl

MOST = 10_000


class TestPageVersions:
    """What one worker notes, every worker and every later run knows."""

    def test_what_was_noted_is_known_until_it_is_forgotten(self, crawl: Crawl) -> None:
        crawl.define()
        frontier, pages = crawl.frontier, [(host, f"p{n}") for n, host in enumerate(crawl.spread(6))]
        born, found = frontier.page_versions("g", pages)
        assert (bool(born), found) == (True, {})
        frontier.put_page_versions("g", born, {pages[0]: b"1", pages[5]: b"1"}, most=MOST)
        frontier.put_page_versions("g", born, {pages[0]: b"2", pages[3]: b"\0\xff"}, most=MOST)
        assert frontier.page_versions("g", pages)[1] == {pages[0]: b"2", pages[5]: b"1", pages[3]: b"\0\xff"}
        assert frontier.check_page_versions("g")
        frontier.new_round("g", 1)
        assert len(frontier.page_versions("g", pages)[1]) == 3, "they outlive rounds"
        frontier.forget_page_versions("g")
        assert frontier.page_versions("g", pages) == (born, {})

    def test_they_are_forgotten_when_other_rules_read_the_pages(self, crawl: Crawl) -> None:
        crawl.define()
        frontier, pages = crawl.frontier, [(host, "layer:1") for host in crawl.spread(6)]
        assert not frontier.check_page_versions("g", "a"), "who noted what is there is not known"
        born, _ = frontier.page_versions("g", pages)
        for edition, hold in (("a", True), ("b", False), ("b", True), ("a", False)):
            frontier.put_page_versions("g", born, dict.fromkeys(pages, b"1"), most=MOST)
            assert frontier.check_page_versions("g", edition) is hold
            assert len(frontier.page_versions("g", pages)[1]) == (len(set(pages)) if hold else 0)
        frontier.forget_page_versions("g")
        assert frontier.check_page_versions("g", "a"), "that is no change of the rules"

    def test_they_are_bounded_and_the_oldest_go(self, crawl: Crawl) -> None:
        crawl.define()
        many = {("h", f"{n}"): b"x" for n in range(1300)}
        born, _ = crawl.frontier.page_versions("g", [])
        born, _ = crawl.frontier.page_versions("g", [("h", "0")])
        crawl.frontier.put_page_versions("g", born, many, most=MOST)
        assert crawl.frontier.page_versions("g", list(many))[1] == many
        for _ in range(3):  # A bounded part of what is too much goes with each call.
            crawl.frontier.put_page_versions("g", born, {("h", "new"): b"y"}, most=3 * crawl.frontier.partitions)
        left = crawl.frontier.page_versions("g", [*many, ("h", "new")])[1]
        assert len(left) == 3
        assert left["h", "new"] == b"y"

    def test_their_bytes_are_bounded_too(self, crawl: Crawl) -> None:
        """A KiB for each, on average: what is large leaves less room for others."""
        crawl.define()
        born, _ = crawl.frontier.page_versions("g", [("h", "0")])
        most, large = 200 * crawl.frontier.partitions, {("h", f"{n}"): bytes(10_000) for n in range(100)}
        for _ in range(3):  # What is stored once more counts once.
            for page, version in large.items():
                crawl.frontier.put_page_versions("g", born, {page: version}, most=most)
        left = crawl.frontier.page_versions("g", list(large))[1]
        assert 0 < sum(map(len, left.values())) <= 200 * 1024
        assert ("h", "99") in left, "the oldest go"
        small = {("h", f"s{n}"): b"x" for n in range(150)}
        crawl.frontier.put_page_versions("g", born, {**dict.fromkeys(large, b""), **small}, most=most)
        assert len(crawl.frontier.page_versions("g", list(small))[1]) == 150, "what is forgotten takes no room"

    def test_they_go_with_their_group(self, crawl: Crawl) -> None:
        crawl.define()
        born, _ = crawl.frontier.page_versions("g", [("h", "p")])
        crawl.frontier.put_page_versions("g", born, {("h", "p"): b"1"}, most=MOST)
        list(crawl.frontier.drop_group("g"))
        crawl.frontier.put_page_versions("g", born, {("h", "p"): b"1"}, most=MOST)
        crawl.define()
        other, found = crawl.frontier.page_versions("g", [("h", "p")])
        assert (found, other == born) == ({}, False)
        # A worker that read the page for the former group.
        crawl.frontier.put_page_versions("g", born, {("h", "p"): b"1"}, most=MOST)
        assert crawl.frontier.page_versions("g", [("h", "p")])[1] == {}
