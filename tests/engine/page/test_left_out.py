"""Pages that nobody asks for, though their lists say that they have changed."""

from __future__ import annotations

import pytest
from tests.engine.rounds.test_gone_rows import place
from tests.support.example_sites import Place
from tests.support.site import Reply, Site

__all__ = ["place"]

pytestmark = pytest.mark.timeout(300)

FORUM = """
site: forum
seeds: [SITE/list]
HOOKS
layers:
  list:
    match: ^/list
    seen: round
    records: p
    fields: {at: i}
    follow: [{css: a, to: thread, changed: "{at}"}]
  thread: {match: ^/t, SEEN, fields: {title: b}}
store: {thread: {table: threads}}
"""
HOOKS = """
import pathlib

def before_request(request):
    return None if pathlib.Path("left_out").exists() and "/t" in request.url else request
"""
SEEN = ["seen: forever", "revisit: 100d"]


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("by", ["robots", "hook"])
def test_a_change_of_a_page_that_is_left_out_is_read_when_it_is_not(place: Place, seen: str, by: str) -> None:
    hooks = 'hooks: {before_request: "own:before_request"}' if by == "hook" else ""
    place.write(HOOKS, "own.py")
    with Site() as site:
        place.write(FORUM.replace("SITE", site.url).replace("HOOKS", hooks).replace("SEEN", seen))

        def asked(at: int, *, left_out: bool) -> list[str]:
            site.visits.clear()
            rules = "Disallow: /t" if left_out and by == "robots" else "Allow: /"
            site.on("/robots.txt", Reply(body=f"User-agent: *\n{rules}\n", headers={"Content-Type": "text/plain"}))
            if by == "hook":
                (place.directory / "left_out").touch() if left_out else (place.directory / "left_out").unlink(True)
            site.on("/list", Reply(body=f"<p><a href=/t>x</a><i>{at}</i></p>"))
            site.on("/t", Reply(body=f"<b>title {at}</b>"))
            place.crawl("site.yaml")
            return [path for path in site.paths() if path != "/robots.txt"]

        assert asked(1, left_out=False) == ["/list", "/t"]
        for at in (2, 2, 3):
            assert asked(at, left_out=True) == ["/list"]
        assert asked(3, left_out=False) == ["/list", "/t"]
        assert place.rows("select title from threads") == [("title 3",)]
        assert asked(3, left_out=False) == ["/list"]
