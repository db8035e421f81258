"""`hold`: a round in which fields have too few values is paused before it replaces more rows."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.support.native_crawl import Crawl
from tests.support.site import Reply, Site, Visit

from gossamer import Page, Record
from gossamer.engine.rounds.hold import RoundHolds

PAGES = 120
FILE = """
    site: shop
    seeds: ['SITE/item/[1-NUMBER]']
    politeness: {robots: ignore, hosts: {HOST: {concurrency: 4}}}
    seen: round
    hold: {coverage: 80%}
    layers:
      item: {match: '^/item/', fields: {id: {from: url, regex: '(\\\\d+)$'}, name: h1, price: b, sale: s}}
    database: 'sqlite:///FOLDER/rows.db'
    store: {item: {table: items}}
"""


def push(crawl: Crawl, number: int = PAGES) -> None:
    crawl.push(FILE.replace("FOLDER", str(crawl.folder)).replace("NUMBER", str(number)))


def serve(site: Site, price: str) -> None:
    def answer(visit: Visit) -> Reply | None:
        return Reply(body=f"<h1>lamp</h1>{price}") if visit.path.startswith("/item/") else None

    site.answer(answer)


def prices(crawl: Crawl) -> dict[str | None, int]:
    with sqlite3.connect(crawl.folder / "rows.db") as database:
        return dict(database.execute("select price, count(*) from items group by price"))


def next_round(crawl: Crawl, number: int) -> None:
    with crawl.frontier() as frontier:
        frontier.new_round("shop", number)


def paused(crawl: Crawl) -> str:
    with crawl.frontier() as frontier:
        return frontier.counts("shop").groups[0].paused


def note(crawl: Crawl) -> str:
    with crawl.frontier() as frontier:
        return frontier.rounds("shop")[0].note


@pytest.fixture
async def first(crawl: Crawl, site: Site) -> Crawl:
    """After a first round, in which nothing was on sale: it was held once, and resumed."""
    serve(site, "<b>9</b>")
    push(crawl)
    await crawl.run()
    assert paused(crawl).startswith("held: item.sale has a value in 0 of 2")
    with crawl.frontier() as frontier:
        frontier.resume(group="shop")
    await crawl.run()
    assert (paused(crawl), prices(crawl)) == ("", {"9": PAGES})
    return crawl


@pytest.mark.parametrize("workers", [1, 3])
async def test_a_round_is_held_before_it_replaces_more_rows(first: Crawl, site: Site, workers: int) -> None:
    serve(site, "")
    next_round(first, 1)
    ends = await asyncio.gather(*(first.run() for _ in range(workers)))
    assert {end.reason for end in ends} == {"drained"}
    lost = prices(first)[None]
    assert lost <= 19 + 10 * (workers - 1), (
        "those that are read before there are enough, and what workers do not know yet"
    )
    assert paused(first).startswith("held: item.price has a value in 0 of 2")
    assert "gossamer group resume shop" in paused(first)
    assert note(first) == paused(first)
    assert first.dead("shop") == []
    # It stays so, until somebody has looked.
    await first.run()
    assert prices(first)[None] == lost
    with first.frontier() as frontier:
        frontier.resume(group="shop")
    await asyncio.gather(*(first.run() for _ in range(workers)))
    assert (paused(first), prices(first)) == ("", {None: PAGES})
    serve(site, "<b>7</b>")
    next_round(first, 2)
    await first.run()
    assert (paused(first), prices(first)) == ("", {"7": PAGES})


async def test_pages_without_any_value_hold_the_round_and_stay(first: Crawl, site: Site) -> None:
    """A wall without a sign: all that it meets would become dead letters."""
    site.answer(lambda visit: Reply(body="<i>Checking your browser</i>"))
    next_round(first, 1)
    await first.run()
    assert paused(first).startswith("held: item.")
    assert prices(first) == {"9": PAGES}
    assert len(first.dead("shop")) <= 19
    serve(site, "<b>8</b>")
    with first.frontier() as frontier:
        frontier.resume(group="shop")
    await first.run()
    next_round(first, 2)
    await first.run()
    assert (prices(first), first.dead("shop")) == ({"8": PAGES}, [])


async def test_who_resumes_a_round_has_looked_at_one_layer(crawl: Crawl, site: Site) -> None:
    """The other layer is held, too, when its fields have too few values."""
    text = FILE.replace("[1-NUMBER]'", "[1-40]', 'SITE/user/[1-40]'").replace(
        "    database:", "      user: {match: '^/user/', fields: {name: h1}}\n    database:"
    )
    text = text.replace("item: {table: items}", "item: {table: items}, user: {table: users}").replace(", sale: s", "")
    crawl.push(text.replace("FOLDER", str(crawl.folder)))
    serve_users = "<h1>lamp</h1>"

    def answer(visit: Visit) -> Reply | None:
        name = "<h1>lamp</h1>" if visit.path.startswith("/item/") else serve_users
        return Reply(body=f"{name}{price}<title>{visit.path}</title>")

    price = "<b>9</b>"
    site.answer(answer)
    await crawl.run()
    assert (paused(crawl), prices(crawl)) == ("", {"9": 40})
    price, serve_users = "", ""
    next_round(crawl, 1)
    held = []
    for _ in range(2):
        await crawl.run()
        held.append(paused(crawl))
        with crawl.frontier() as frontier:
            frontier.resume(group="shop")
    assert sorted(one.split(" has")[0] for one in held) == ["held: item.price", "held: user.name"]
    assert all(one in note(crawl) for one in held)
    await crawl.run()
    assert (paused(crawl), prices(crawl)) == ("", {None: 40})


async def test_a_round_of_few_pages_excuses_no_field(crawl: Crawl, site: Site) -> None:
    """A small round without prices comes before a large one: that one is held all the same."""
    serve(site, "<b>9</b><s>8</s>")
    push(crawl)
    await crawl.run()
    serve(site, "<s>8</s>")
    push(crawl, 10)
    next_round(crawl, 1)
    await crawl.run()
    assert (paused(crawl), prices(crawl)) == ("", {"9": PAGES - 10, None: 10})
    push(crawl)
    next_round(crawl, 2)
    await crawl.run()
    assert paused(crawl).startswith("held: item.price has a value in 0 of 2")
    assert prices(crawl)["9"] >= PAGES - 10 - 19


async def test_a_field_that_was_on_half_of_the_pages_is_held_when_it_is_on_none(crawl: Crawl, site: Site) -> None:
    """So it is after a round that was held, whose rules were mended before it went on."""
    push(crawl, 60)
    held = []
    for number, among in enumerate((1, 2, 3, 0)):
        if number:
            next_round(crawl, number)

        def answer(visit: Visit, among: int = among) -> Reply | None:
            has_price = among and int(visit.path.rpartition("/")[2]) % among == 0
            return Reply(body=f"<h1>lamp</h1><s>1</s>{'<b>9</b>' if has_price else ''}")

        site.answer(answer)
        await crawl.run()
        held.append(paused(crawl).partition(" has")[0])
        with crawl.frontier() as frontier:
            frontier.resume(group="shop")
        if among:
            await crawl.run()
    assert held == ["", "held: item.price", "", "held: item.price"]
    assert prices(crawl)["9"] >= 10


def posts(page: Page) -> Iterator[Record | dict[str, object]]:
    """A layer's function: the thread, and its posts as records of another layer."""
    yield {"id": page.url, "name": page.css("h1::text").get()}
    yield Record("post", {"id": page.url, "text": page.css("b::text").get()})


async def test_records_of_other_layers_count_as_those_of_the_layer_whose_function_yields_them(
    crawl: Crawl, site: Site
) -> None:
    layers = "item: {match: '^/item/', handler: 'tests.engine.rounds.test_hold:posts'}\n      post: {handler: 'tests.engine.rounds.test_hold:posts'}"
    text = FILE.replace("NUMBER", "30").replace("FOLDER", str(crawl.folder))
    first = text.index("item: {match")
    text = text[:first] + layers + text[text.index("\n    database:") :]
    crawl.push(text.replace("item: {table: items}", "item: {table: items, key: [id]}, post: {table: posts, key: [id]}"))

    def answer(visit: Visit) -> Reply | None:
        has_text = int(visit.path.rpartition("/")[2]) % 2
        return Reply(body=f"<h1>lamp</h1>{'<b>9</b>' if has_text else ''}")

    site.answer(answer)
    held = []
    for number in range(3):
        if number:
            next_round(crawl, number)
        await crawl.run()
        held.append(paused(crawl).partition(" has")[0])
        with crawl.frontier() as frontier:
            frontier.resume(group="shop")
        if held[-1]:
            await crawl.run()
    assert held == ["held: post.text", "", ""]


async def test_few_pages_say_nothing(crawl: Crawl, site: Site) -> None:
    serve(site, "")
    push(crawl, 19)
    await crawl.run()
    assert (paused(crawl), prices(crawl)) == ("", {None: 19})


async def test_pages_that_show_it_at_once_hold_the_round_once(crawl: Crawl, site: Site) -> None:
    """Else one would write over the other's note, and its layer would be held again."""
    serve(site, "<b>9</b>")
    push(crawl, 1)
    await crawl.run()

    async def ask(verb: Any, *given: Any, **named: Any) -> Any:
        with crawl.frontier() as frontier:
            return await asyncio.to_thread(getattr(frontier, verb.__name__), *given, **named)

    holds = RoundHolds(cast(Any, ask), cast(Any, None))
    shop = SimpleNamespace(name="shop", keeps_gone=False)
    layers: list[Any] = [SimpleNamespace(hold=0.8, name=name, site=shop) for name in ("item", "user")]
    for _ in range(19):
        for layer in layers:
            assert await holds.refusal(layer, 0, {f"{layer.name}.price": (1, 0)}) == ""
    said = await asyncio.gather(*(holds.refusal(layer, 0, {f"{layer.name}.price": (1, 0)}) for layer in layers))
    assert set(said) == {paused(crawl)} == {note(crawl)}
