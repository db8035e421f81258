"""`gossamer page`: what is known of single pages."""

from __future__ import annotations

import json

from tests.support.command import Command

from gossamer.engine.page.payload import pack
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import PageVisit, Settlement, Token
from gossamer.registry import Registry
from gossamer.sites.compile import compile_site
from gossamer.sites.file.load import load_text

SITE = """
site: forum
seeds: [https://forum.example/list]
layers:
  list: {match: ^/list, seen: round, follow: [{css: a, to: thread}]}
  thread: {match: ^/t/, revisit: 1h, fields: {title: h1}}
"""
URL = "https://forum.example/t/1"


def test_pages_are_shown_with_their_records(command: Command, frontier: ValkeyFrontier) -> None:
    Registry(frontier).push(SITE, "forum", who="me")
    [site] = load_text(SITE)
    compiled = compile_site(site)
    frontier.define("forum", compiled.lanes())
    assert "not known" in command("page", "show", URL).out
    frontier.add(
        [pack(compiled.link(URL, "thread"), "forum.thread"), pack(compiled.link(f"{URL}0", "thread"), "forum.thread")]
    )
    token = Token.fresh()
    [lease] = frontier.exchange(token, want=2).leases
    frontier.exchange(token.next(), settle=[Settlement(lease, visit=PageVisit(200, 7))])
    said = command("page", "show", URL).out
    for part in ("site forum, layer thread", "finished since", "status 200, changed 0 times", "every 1 h", "found 20"):
        assert part in said, said
    [told] = json.loads(command("page", "show", URL, "--json").out)
    assert (told["record"]["state"], told["record"]["url"]) == ("finished", URL)
    assert "not known" in command("page", "show", "https://forum.example/list").out
    assert URL in command("page", "list", "forum.thread", "--state", "finished").out
    assert [row["state"] for row in json.loads(command("page", "list", "forum.thread", "--json").out)].count(
        "scheduled"
    ) == 1


def test_misuse_is_named(command: Command, frontier: ValkeyFrontier) -> None:
    frontier.define("forum", {})
    assert "No layer of the sites of this crawl matches" in command("page", "show", URL, code=2).err
    assert "there is no state lost" in command("page", "list", "forum.thread", "--state", "lost", code=2).err
    assert "There is no lane 'forum.thread'" in command("page", "list", "forum.thread", code=2).err
