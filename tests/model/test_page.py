"""The values of a page on its way through an engine."""

from __future__ import annotations

from typing import Any

from gossamer.model.fetch import FetchOptions
from gossamer.model.page import TRAIL, PageRequest


def test_a_link_gets_its_place_in_the_crawl_and_nothing_else() -> None:
    link = PageRequest("http://s.example/a", layer="post", fingerprint=3, always=True, site="s", hops=("h",))
    assert link.on(["t"], 4, True) == link._replace(trail=["t"], round=4, dont_filter=True)


def test_the_trail_is_bounded_and_the_nearest_page_comes_last() -> None:
    page = PageRequest("http://s.example/9", trail=[f"http://s.example/{number}" for number in range(TRAIL)])
    assert page.after == [*page.trail[1:], page.url]
    assert (page.before, page._replace(hops=["http://s.example/hop"]).before) == (
        page.trail[-1],
        "http://s.example/hop",
    )
    assert PageRequest("http://s.example/").before == ""


def test_a_request_as_it_is_sent_differs_in_four_fields_only() -> None:
    link = PageRequest("http://s.example/a", layer="post", secrets=("KEY",), task={"id": 1}, row=("r",))
    options = FetchOptions(user_agent="someone")
    changed: dict[str, Any] = {"cookies": {"c": "d"}, "site": "s", "options": options, "referer": "http://s.example/"}
    assert link.sent_with({"c": "d"}, "s", options, "http://s.example/") == link._replace(**changed)
