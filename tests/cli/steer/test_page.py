"""`gossamer page`: what is known of single pages."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.command import Command

from gossamer.courier.task.report import TaskReport, carrying
from gossamer.engine.page.payload import pack, unpack
from gossamer.engine.sites.groups import ONCE_MORE
from gossamer.frontier import codec
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import CounterChange, Ending, LanePolicy, PageVisit, RecordPolicy, Request, Settlement, Token
from gossamer.model.counter_names import ROBOTS_DENIED
from gossamer.model.page import PageRequest
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


def test_why_a_page_is_fetched_or_not(command: Command, frontier: ValkeyFrontier) -> None:
    Registry(frontier).push(SITE, "forum", who="me")
    [site] = load_text(SITE)
    compiled = compile_site(site)
    listing = "https://forum.example/list"
    assert "has not run in this crawl yet" in command("page", "why", URL).out
    frontier.define("forum", compiled.lanes())
    said = command("page", "explain", URL).out
    assert "no link of a page that was fetched has led to it" in said
    assert "no worker serves the site now" in said
    assert "is queued in forum.list, ahead of the rest" in command("page", "fetch", listing).out
    assert "is queued in forum.list already, ahead of the rest" in command("page", "fetch", listing).out
    assert [lease.lane for lease in frontier.exchange(Token.fresh(), want=5).leases] == ["forum.list"]
    assert "is not queued again: the worker" in command("page", "fetch", listing).out
    assert command("page", "fetch", listing, "--json").json["already"]
    assert not frontier.exchange(Token.fresh(), want=5).leases
    frontier.add([pack(compiled.link(url, "thread"), "forum.thread") for url in (URL + "0", URL)])
    assert "the worker" in command("page", "why", listing).out
    frontier.pause(group="forum", reason="holidays")
    frontier.block("forum.example", 600, "429")
    [told] = command("page", "why", URL, "--json").json
    scheduled, decision, place, site_paused, blocked = told["why"][:5]
    assert scheduled.startswith("scheduled since")
    assert decision.endswith("a link led to it for the first time, in round 0")
    assert place.endswith("number 2 of the host forum.example, in a layer with 2 queued")
    assert site_paused == "the site is paused: holidays"
    assert "forum.example is blocked until" in blocked
    assert blocked.endswith(": 429")
    frontier.resume(group="forum")
    frontier.block("forum.example", 0)
    token = Token.fresh()
    leases = frontier.exchange(token, want=5).leases
    frontier.exchange(
        token.next(), settle=[Settlement(lease, Ending.FAILED, reason="lack", detail="no title") for lease in leases]
    )
    said = command("page", "why", URL).out
    assert "it became a dead letter at" in said
    assert "lack: no title (`gossamer dead show" in said
    assert "failed since" in said
    beyond = "https://no-such-host.invalid/far"
    frontier.add([pack(compiled.link(beyond, "thread"), "forum.thread")])
    assert "site forum, layer thread" in command("page", "why", beyond, "--site", "forum").out, "a link led there"
    Registry(frontier).push(SITE.replace("thread", "topic"), "forum", who="me")
    assert "it is queued in forum.thread" in command("page", "why", beyond).out, "the layer is gone from the file"
    assert "thread is gone from the file of forum" in command("page", "fetch", beyond, code=2).err
    assert (
        "No layer of the sites of this crawl matches" in command("page", "fetch", "https://other.example/", code=2).err
    )


def test_a_page_is_told_of_where_it_is_known_whatever_layer_fits_it_now(
    command: Command, frontier: ValkeyFrontier
) -> None:
    """Nothing had led to pages of a layer that was renamed, nor to those that a rule leads to another layer than the one that fits."""
    text = "site: forum\nseeds: [https://forum.example/list]\nlayers:\n  list: {match: '^/', follow: [{css: a, to: item}]}\n"
    text += "  item: {page_records: {max: 100}, fields: {title: h1}}\n"
    Registry(frontier).push(text, "forum", who="me")
    [site] = load_text(text)
    compiled = compile_site(site)
    frontier.define("forum", compiled.lanes())
    frontier.add([pack(compiled.link(URL, "item"), "forum.item")])
    said = command("page", "why", URL).out
    assert "layer item" in said
    assert "it is queued in forum.item" in said
    assert "nothing has led" not in said
    Registry(frontier).push(text.replace("item", "thing"), "forum", who="me")
    said = command("page", "why", URL).out
    assert "layer item, which is gone from the site's file" in said
    assert "it is queued in forum.item" in said
    assert [place["layer"] for place in command("page", "show", URL, "--json").json] == ["item"]
    frontier.add([pack(compiled.link(URL, "list"), "forum.list")])
    assert [place["layer"] for place in command("page", "show", URL, "--json").json] == ["list", "item"]
    assert "is queued in forum.list" in command("page", "fetch", URL).out
    Registry(frontier).push(f"weight: 0\n{text}", "forum", who="me")
    for place in command("page", "why", URL, "--json").json:
        assert place["why"][-1] == "nothing of the site is fetched: its weight is 0"


def test_a_page_that_has_left_a_layer_which_is_gone_is_due_in_no_year(
    command: Command, frontier: ValkeyFrontier
) -> None:
    Registry(frontier).push(SITE.replace("thread", "post"), "forum", who="me")
    frontier.define("forum", {"thread": LanePolicy(records=RecordPolicy(ONCE_MORE))})
    [site] = load_text(SITE)
    frontier.add([pack(compile_site(site).link(URL, "thread"), "forum.thread")])
    token = Token.fresh()
    [lease] = frontier.exchange(token, want=2).leases
    frontier.exchange(token.next(), settle=[Settlement(lease, Ending.REPLACED)])
    said = command("page", "why", URL).out
    assert "it is not visited again in this layer, which is gone from the site's file" in said
    assert "due" not in said


def test_a_page_of_a_renamed_layer_that_waits_is_not_said_to_be_fetched(
    command: Command, frontier: ValkeyFrontier
) -> None:
    """The new layer has the memory of the old one, in which it is seen."""
    plain = SITE.replace("revisit: 1h, ", "")
    for text in (plain, plain.replace("thread", "topic")):
        Registry(frontier).push(text, "forum", who="me")
        [site] = load_text(text)
        compiled = compile_site(site)
        frontier.define("forum", compiled.lanes())
        if "thread" in text:
            frontier.add([pack(compiled.link(URL, "thread"), "forum.thread")])
    [told] = command("page", "why", URL, "--json").json
    assert told["layer"] == "thread"
    assert told["why"][0].startswith("it is queued in forum.thread")


def test_a_page_that_was_left_out_is_not_said_to_be_fetched(command: Command, frontier: ValkeyFrontier) -> None:
    """As one that robots.txt forbids."""
    Registry(frontier).push(SITE, "forum", who="me")
    [site] = load_text(SITE)
    compiled = compile_site(site)
    frontier.define("forum", compiled.lanes())
    listing = "https://forum.example/list/2"
    frontier.add(
        [pack(compiled.link(listing, "list"), "forum.list"), pack(compiled.link(URL, "thread"), "forum.thread")]
    )
    token = Token.fresh()
    while leases := frontier.exchange(token, want=2).leases:
        token = token.next()
        frontier.exchange(token, settle=[Settlement(lease) for lease in leases])
        token = token.next()
    assert "it was fetched: it was found" in command("page", "why", listing).out
    assert "it was not fetched: robots.txt forbids it" in command("page", "why", URL).out
    frontier.exchange(token.next(), counters=[CounterChange("forum", ROBOTS_DENIED, 2)])
    assert "kept 2 pages of the site from being fetched" in command("page", "why", listing).out.replace("\n  ", " ")


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ("seen: never", "whether it was fetched is not known, for its layer remembers nothing"),
        ("seen: round", "has led to it in this round; what tasks or `gossamer page fetch` asked for is not remembered"),
        ("seen: {policy: hits, rounds: 3}", "asked for and what the layer has forgotten since is not remembered"),
        ("page_records: {max: 9}", "has led to it; what the layer has forgotten since is not remembered"),
    ],
)
def test_what_is_not_remembered_is_not_said_to_be_unheard_of(
    command: Command, frontier: ValkeyFrontier, rules: str, says: str
) -> None:
    """A page of a task was fetched, and nothing was said to have led to it; where it failed, as well."""
    text = SITE.replace("revisit: 1h", rules)
    Registry(frontier).push(text, "forum", who="me")
    [site] = load_text(text)
    compiled = compile_site(site)
    frontier.define("forum", compiled.lanes())
    said = command("page", "why", URL, "--json").json[0]["why"]
    assert says in said[0], said
    frontier.add([pack(compiled.link(URL, "thread")._replace(dont_filter=True), "forum.thread")])
    token = Token.fresh()
    [lease] = frontier.exchange(token, want=2).leases
    frontier.exchange(token.next(), settle=[Settlement(lease, Ending.FAILED, reason="lack")])
    dead, *others = command("page", "why", URL, "--json").json[0]["why"]
    assert dead.startswith("it became a dead letter")
    assert not any("has led to it" in each for each in others), others


@pytest.mark.parametrize(
    ("rules", "ending", "status", "says"),
    [
        ("page_records: true", Ending.DONE, 200, "finished: never; `gossamer page fetch`"),
        ("rediscover: {gone: never}", Ending.DONE, 404, "gone: never; `gossamer page fetch`"),
        ("rediscover: {gone: now}", Ending.DONE, 404, "as soon as a link leads to it"),
        ("rediscover: {gone: 1h}", Ending.DONE, 404, "if a link leads to it after 20"),
        ("rediscover: {failed: never}", Ending.FAILED, 0, "failed: never; `gossamer page fetch`"),
        ("rediscover: {newer: true}", Ending.DONE, 200, "if a link leads to it in a later round, as"),
        ("rediscover: {newer: true, finished: 1d}", Ending.DONE, 200, "in a later round or after 20"),
    ],
)
def test_whether_a_link_counts(
    command: Command, frontier: ValkeyFrontier, rules: str, ending: Ending, status: int, says: str
) -> None:
    text = SITE.replace("revisit: 1h", rules)
    Registry(frontier).push(text, "forum", who="me")
    [site] = load_text(text)
    compiled = compile_site(site)
    frontier.define("forum", compiled.lanes())
    frontier.add([pack(compiled.link(URL, "thread"), "forum.thread")])
    token = Token.fresh()
    [lease] = frontier.exchange(token, want=2).leases
    frontier.exchange(
        token.next(),
        settle=[Settlement(lease, ending, reason="lack", visit=PageVisit(status, 7 if status == 200 else 0))],
    )
    told = [word for word in command("page", "why", URL).out.splitlines() if " since " in word]
    assert len(told) == 1
    assert says in told[0], told


def test_a_page_that_is_asked_for_is_fetched_with_what_led_to_it(command: Command, frontier: ValkeyFrontier) -> None:
    """As its record or dead letter has it: a row would lose what comes from the page that leads there."""
    text = SITE.replace("fields: {title: h1}", "fields: {title: h1, board: {from: parent.board}}")
    text = text.replace(
        "follow: [{css: a, to: thread}]", "fields: {board: h1}, follow: [{css: a, to: thread, pass: board}]"
    )
    text += "  post: {match: ^/p/, fields: {title: h1, board: {from: parent.board}}}\n"
    Registry(frontier).push(text, "forum", who="me")
    [site] = load_text(text)
    compiled = compile_site(site)
    frontier.define("forum", compiled.lanes())
    post = URL.replace("/t/", "/p/")
    for url in (URL, post):
        said = command("page", "fetch", url, "--without-parent")
        assert "it waits: no worker serves the site now" in said.err
        assert f"takes board from the page that leads to {url}" in command("page", "fetch", url, code=2).err

    def taken() -> list[PageRequest]:
        """What a worker gets, which it cannot read."""
        token = Token.fresh()
        leases = frontier.exchange(token, want=9).leases
        ends = [Settlement(x, Ending.FAILED, reason="lack", detail="no title") for x in leases]
        frontier.exchange(token.next(), settle=ends)
        return [unpack(lease) for lease in leases]

    assert sorted(page.url for page in taken()) == [post, URL]
    for url, layer in ((URL + "1", "thread"), (post + "1", "post")):
        link = compiled.link(url, layer)._replace(inherited={"board": "books"}, priority=3)
        frontier.add([pack(link, f"forum.{layer}")])
        assert [page.inherited for page in taken()] == [{"board": "books"}]
        frontier.pause(group="forum", reason="holidays")
        told = command("page", "fetch", url, "--json").json
        assert (told["lane"], told["waits"]) == (f"forum.{layer}", ["the site is paused: holidays"])
        frontier.resume(group="forum")
        [page] = taken()
        assert (page.url, page.inherited, page.always) == (url, {"board": "books"}, True)


def test_what_is_queued_or_in_progress_is_listed(command: Command, frontier: ValkeyFrontier) -> None:
    frontier.define("forum", {"list": LanePolicy(), "thread": LanePolicy(records=RecordPolicy())})

    def request(lane: str, host: str, number: int, **more: Any) -> Request:
        payload = codec.encode_request({"url": f"https://{host}/{number}"})
        return Request(number, host, f"forum.{lane}", payload, **more)

    token = Token.fresh()
    frontier.add([request("list", "a.example", 1)])
    [lease] = frontier.exchange(token, want=5).leases
    frontier.add([request("list", "a.example", 2, delay=60.0), request("list", "a.example", 3, priority=5)])
    frontier.add([request("list", "b.example", 4), request("thread", "a.example", 5)])
    more = [request("list", "c.example", number) for number in range(100, 1300)]
    frontier.add(more)

    def listed(*words: str) -> list[tuple[str, str]]:
        return sorted((row["url"], row["state"]) for row in command("page", "list", *words, "--json").json)

    here = [("https://a.example/1", "leased"), ("https://a.example/2", "delayed"), ("https://a.example/3", "queued")]
    assert listed("--host", "a.example") == [*here, ("https://a.example/5", "queued")]
    assert listed("forum.list", "--host", "a.example") == here
    assert listed("forum.list", "--state", "delayed") == here[1:2]
    assert listed("forum.thread", "--state", "queued") == [("https://a.example/5", "queued")]
    assert listed("forum.thread") == [("https://a.example/5", "scheduled")]
    assert len(listed("forum.list", "--limit", "5000")) == 4 + len(more)
    said = command("page", "list", "forum.list", "--limit", "2")
    assert len(said.out.splitlines()) == 3
    assert "There are more than these 2" in said.err
    frontier.exchange(token.next(), settle=[Settlement(lease)])
    assert listed("--host", "a.example", "--state", "leased") == []


def test_a_page_that_is_delayed_goes_ahead_once(command: Command, frontier: ValkeyFrontier) -> None:
    """Each time it was asked for, it was queued once more."""
    Registry(frontier).push(SITE, "forum", who="me")
    [site] = load_text(SITE)
    compiled = compile_site(site)
    frontier.define("forum", compiled.lanes())
    frontier.add([pack(compiled.link(URL, "thread"), "forum.thread")._replace(delay=60.0)])
    assert "a retry or a delay holds it" in command("page", "why", URL).out
    assert not command("page", "fetch", URL, "--json").json["already"]
    assert command("page", "fetch", URL, "--json").json["already"]
    assert "it is queued in forum.thread with priority" in command("page", "why", URL).out


def test_misuse_is_named(command: Command, frontier: ValkeyFrontier) -> None:
    frontier.define("forum", {"list": LanePolicy()})
    assert "failed is a state of page records" in command("page", "list", "forum.list", "--state", "failed", code=2).err
    assert "name a lane or a host" in command("page", "list", code=2).err
    assert "No layer of the sites of this crawl matches" in command("page", "show", URL, code=2).err
    assert "there is no state lost" in command("page", "list", "forum.thread", "--state", "lost", code=2).err
    assert "There is no lane 'forum.thread'" in command("page", "list", "forum.thread", code=2).err


def test_pages_of_spiders_are_found_by_their_records(command: Command, frontier: ValkeyFrontier) -> None:
    """The request is the one that the spider made; whose task it was is not told again."""
    url, made = "https://quotes.example/1", {"url": "https://quotes.example/1", "callback": "parse_quote"}
    frontier.define("quotes", {"thread": LanePolicy(records=RecordPolicy()), "other": LanePolicy()})
    request = Request(7, "quotes.example", "quotes.thread", codec.encode_request(made))
    frontier.add(
        [carrying(request, TaskReport("my:ended", "1", 1)), request._replace(fingerprint=8, payload=b"no request")]
    )
    assert "no spider has a page record of it" in command("page", "fetch", f"{url}0", code=2).err
    token = Token.fresh()
    leases = frontier.exchange(token, want=2).leases
    frontier.exchange(token.next(), settle=[Settlement(lease, visit=PageVisit(200, 7)) for lease in leases])
    assert "site quotes, layer thread" in command("page", "show", url).out
    assert "finished since" in command("page", "why", url, "--site", "quotes").out
    assert "is queued in quotes.thread" in command("page", "fetch", url).out
    [lease] = frontier.exchange(token.next().next(), want=2).leases
    assert (lease.lane, lease.fingerprint, codec.given_fields(lease.payload)) == (
        "quotes.thread",
        7,
        {"method": "GET", **made},
    )
