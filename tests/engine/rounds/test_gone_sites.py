"""`gone: true` beside what else sites do: functions, stored rows that ask for pages, other sites in the table, groups that begin again."""

from __future__ import annotations

import signal

import pytest
from tests.engine.rounds.test_gone_rows import SHOP, crawl, gone, noted, place, serve, wait_for
from tests.support.example_sites import Place
from tests.support.site import Reply, Site, Visit, links

__all__ = ["place"]

pytestmark = pytest.mark.timeout(300)

PYTHON = """
from collections.abc import Iterator
from gossamer import Output, Page, Record, Site

shop = Site("shop", seeds=["SITE/list"], politeness={"robots": "ignore"}, request={"retries": 0}, seen="round",
    store={"item": {"table": "items", "key": ["name"], "gone": True}, "offer": {"table": "offers", "key": ["item", "seller"], "gone": True}})
shop.rules("list", {"match": "^/list", "follow": [{"css": "a", "to": "item"}]})


@shop.layer("item", match="^/item/", record={"name": str}SEEN)
def item(page: Page) -> Iterator[Output]:
    name = page.css("b::text").get()
    yield {"name": name}
    for seller in page.css("i::text").getall():
        yield Record("offer", {"item": name, "seller": seller})


@shop.layer("offer", record={"item": str, "seller": str})
def offer(page: Page) -> Iterator[Output]:
    yield None
"""
REFRESH = """
refresh: {table: items, layer: item}
"""


def offers(place: Place) -> dict[str, bool]:
    return {
        f"{item}{seller}": at is not None for item, seller, at in place.rows("select item, seller, gone_at from offers")
    }


def test_records_that_a_function_yields_for_its_page_are_gone_when_it_does_not(place: Place) -> None:
    with Site() as site:
        place.write(PYTHON.replace("SITE", site.url).replace("SEEN", ""), "shop.py")
        crawl(place, site, {"a": "xy", "b": "x", "c": "z"}, file="shop.py")
        assert offers(place) == {"ax": False, "ay": False, "bx": False, "cz": False}
        crawl(place, site, {"a": "x", "b": "x"}, file="shop.py", b=404)
        assert offers(place) == {"ax": False, "ay": True, "bx": True, "cz": True}
        assert gone(place) == {"a": False, "b": True, "c": True}
        # Another page fails: what a page that was read has not is gone all the same.
        crawl(place, site, {"a": "", "b": "x", "c": ""}, file="shop.py", c=500)
        assert offers(place) == {"ax": True, "ay": True, "bx": False, "cz": True}
        assert gone(place) == {"a": False, "b": False, "c": True}


def test_pages_of_stored_rows_that_do_not_exist_any_more(place: Place) -> None:
    """The layer is fetched once: no round can tell but by what they answer."""
    with Site() as site:
        text = SHOP.replace("SITE", site.url).replace("match: ^/item/\n    seen: round", "match: ^/item/") + REFRESH
        place.write(
            text.replace("{xpath: .}}}}", "{xpath: .}}}}", 1).replace(
                "item: {table: items,", "item: {table: items, add: [url],"
            )
        )
        crawl(place, site, {"a": "xy", "b": "x"})
        crawl(place, site, {"c": ""})
        assert gone(place) == {"a": False, "b": False, "c": False}, "nobody has said what became of them"
        site.on("/item/a", Reply(404))
        place.crawl("site.yaml")
        assert gone(place) == {"a": True, "b": False, "c": False}
        assert noted(place) == (1, "")
        site.on("/item/a", Reply(body="<b>a</b>"))
        place.crawl("site.yaml")
        assert not any(gone(place).values())


def test_pages_that_have_not_changed_bring_the_rows_of_where_they_are(place: Place) -> None:
    """A page redirects to another one, and comes back: both answer 304, each for its own row."""
    with Site() as site:
        place.write(SHOP.replace("SITE", site.url).replace("retries: 0", "retries: 0, conditional: true"))
        redirects, unchanged = set[str](), set[str]()

        def answer(visit: Visit) -> Reply | None:
            if not visit.path.startswith("/item/"):
                return None
            if visit.path in redirects:
                return Reply(301, headers={"Location": "/item/b"})
            tag = f'"{visit.path}"'
            if visit.headers.get("If-None-Match") == tag:
                unchanged.add(visit.path[-1])
                return Reply(304, body="")
            return Reply(body=f"<b>{visit.path[-1]}</b>", headers={"ETag": tag})

        site.answer(answer)
        for linked, leading, there in (
            ("abc", "", "abc"),
            ("ac", "a", "bc"),
            ("ac", "a", "bc"),
            ("ab", "", "ab"),
        ):
            redirects = {f"/item/{name}" for name in leading}
            crawl(place, site, dict.fromkeys(linked, ""))
            assert {name for name, is_gone in gone(place).items() if not is_gone} == set(there), (linked, leading)
            assert noted(place)[1] == ""
        assert unchanged == {"b", "c"}


TWICE = """
site: NAME
seeds: [SITE/list]
politeness: {robots: ignore}
request: {retries: 0, conditional: true}
seen: round
layers:
  list: {match: ^/list, follow: [{css: a, to: item}]}
  item: {match: ^/item/, fields: {name: b, price: i}}
store:
  item: {table: items, key: [name], gone: true, add: [url]}
"""


@pytest.mark.parametrize("how", ["absent", "unlisted", "of another site"])
def test_a_row_that_another_page_has_lost_is_read_again_from_the_page_that_has_it(place: Place, how: str) -> None:
    """Two pages bring a row, which has what the later one says. When that one is gone, the other, which has not changed, is read again."""
    with Site() as site, Site() as other:
        lost, listed, asked = set[str](), ["1", "2"], list[str]()

        def answer(visit: Visit) -> Reply | None:
            if not visit.path.startswith("/item/"):
                return links(*(f"/item/{name}" for name in listed))
            name = visit.path[-1]
            if name in lost:
                return Reply(404)
            asked.append(name + ("=" if visit.headers.get("If-None-Match") else ""))
            if asked[-1].endswith("="):
                return Reply(304, body="")
            return Reply(body=f"<b>lamp</b><i>{name}</i>", headers={"ETag": f'"{name}"'})

        def row() -> tuple[str, str, bool]:
            [(price, url, at)] = place.rows("select price, url, gone_at from items")
            return price, url[-1], at is not None

        site.answer(answer)
        other.answer(answer)
        place.write(TWICE.replace("SITE", site.url).replace("NAME", "shop"))
        place.write(TWICE.replace("SITE", other.url).replace("NAME", "other"), "other.yaml")
        if how == "of another site":
            listed[:] = ["1"]
            place.crawl("site.yaml")
            listed[:] = ["2"]
            place.crawl("other.yaml")
            latest, former = "2", "1"
            assert row() == ("2", "2", False)
            lost.add("2")
            place.crawl("other.yaml")
            listed[:] = ["1"]
        else:
            place.crawl("site.yaml")
            latest = row()[0]
            [former] = {"1", "2"} - {latest}
            if how == "absent":
                lost.add(latest)
            else:
                listed.remove(latest)
            asked.clear()
            place.crawl("site.yaml")
            assert asked == [f"{former}="]
        asked.clear()
        place.crawl("site.yaml")
        assert row() == (former, former, False)
        assert asked == [former]
        asked.clear()
        place.crawl("site.yaml")
        assert row() == (former, former, False)
        assert asked == [f"{former}="], "once"


def test_rows_of_another_site_and_of_a_former_group_stay_with_them(place: Place) -> None:
    with Site() as site, Site() as other:
        text = SHOP.replace("SITE", site.url)
        place.write(text)
        place.write(SHOP.replace("SITE", other.url).replace("site: shop", "site: other"), "other.yaml")
        crawl(place, other, {"o": "", "p": ""}, file="other.yaml")
        for round in range(2):
            crawl(place, site, {"a": "", "b": ""})
            assert gone(place) == dict.fromkeys("opab", False), round
        # The group begins again with round 0: what it does not bring is gone, and what it brings is not.
        place.run("group", "drop", "shop", "--yes")
        crawl(place, site, {"a": "", "c": ""})
        assert gone(place) == {"o": False, "p": False, "a": False, "b": True, "c": False}
        assert noted(place) == (1, "")
        crawl(place, site, {"b": ""}, "--fresh", "--yes")
        assert gone(place) == {"o": False, "p": False, "a": True, "b": False, "c": True}
        crawl(place, other, {"p": ""}, file="other.yaml")
        assert gone(place) == {"o": True, "p": False, "a": True, "b": False, "c": True}


def test_a_table_that_says_gone_later_knows_the_rows_that_come_then(place: Place) -> None:
    with Site() as site:
        text = SHOP.replace("SITE", site.url)
        place.write(text.replace("gone: true, ", ""))
        crawl(place, site, {"a": "", "b": ""})
        place.write(text)
        crawl(place, site, {"a": "", "c": "xy"})
        assert gone(place) == {"a": False, "b": False, "c": False}
        # For a round, the site says nothing of it.
        place.write(text.replace("gone: true, ", ""))
        crawl(place, site, {"c": "x"})
        assert gone(place) == {"a": False, "b": False, "c": False}
        place.write(text)
        crawl(place, site, {"b": "", "c": ""})
        assert gone(place) == {"a": True, "b": False, "c": False}


@pytest.mark.parametrize("conditional", [False, True])
def test_a_row_that_came_by_a_redirect_is_gone_when_its_own_page_is(place: Place, conditional: bool) -> None:
    with Site() as site:
        rules = SHOP.replace("SITE", site.url)
        place.write(rules.replace("{retries: 0}", f"{{retries: 0, conditional: {str(conditional).lower()}}}"))
        for name in "abc":
            site.on(f"/item/{name}", Reply(body=f"<b>{name}</b>", headers={"ETag": f'"{name}"'}))
        for name in "ab":
            site.on(f"/item/old-{name}", Reply(302, headers={"Location": f"/item/{name}"}))
        site.on("/list", links("/item/old-a", "/item/old-b", "/item/c"))
        place.crawl("site.yaml")
        assert gone(place) == {"a": False, "b": False, "c": False}
        # The list has learnt the new addresses; one page does not exist. Another fails, so that the round says nothing.
        site.on("/list", links("/item/a", "/item/b", "/item/c"))
        site.on("/item/a", Reply(404))
        site.on("/item/c", Reply(500))
        place.crawl("site.yaml")
        assert gone(place) == {"a": True, "b": False, "c": False}
        # It is there again, by its old address, which is then gone with it.
        site.on("/list", links("/item/old-a", "/item/b", "/item/c"))
        site.on("/item/a", Reply(body="<b>a</b>"))
        place.crawl("site.yaml")
        assert gone(place) == {"a": False, "b": False, "c": False}
        site.on("/item/a", Reply(404))
        place.crawl("site.yaml")
        assert gone(place) == {"a": True, "b": False, "c": False}
        assert noted(place)[1] == "which rows are gone is unknown in item: 1 failed"


def test_layers_that_are_not_fetched_whole_lose_nothing_by_a_round(place: Place) -> None:
    once = "which rows are gone is unknown in item: pages of item are fetched once and never again (seen)"
    with Site() as site:
        text = SHOP.replace("SITE", site.url)
        for number, (before, after, note) in enumerate(
            (
                ("match: ^/item/\n    seen: round", "match: ^/item/", once),
                ("match: ^/item/\n    seen: round", "match: ^/item/\n    seen: round\n    revisit: {every: 1h}", ""),
            )
        ):
            changed = (
                text.replace(before, after)
                .replace("site: shop", f"site: shop{number}")
                .replace("table: ", f"table: n{number}_")
            )
            assert changed != text
            place.write(changed)
            crawl(place, site, {"a": "", "b": ""})
            crawl(place, site, {"a": ""})
            assert gone(place, f"n{number}_items") == {"a": False, "b": False}
            assert noted(place, f"shop{number}") == (0, note)


def test_a_lane_that_is_dropped_takes_no_rows_with_it(place: Place) -> None:
    with Site() as site:
        place.write(SHOP.replace("SITE", site.url).replace("robots: ignore", "robots: ignore, concurrency: 1"))
        crawl(place, site, {"a": "", "b": ""})
        serve(site, {"a": "", "b": ""})
        site.hold("/item/a", "/item/b")
        crawling = place.start("crawl", "site.yaml", "-w", "1")
        try:
            site.wait(lambda paths: len(paths) > 1, "an item to be asked for")
            crawling.send_signal(signal.SIGINT)
            wait_for("Stopping: pages in progress", place)
            site.release("/item/a", "/item/b")
            crawling.wait(120)
        finally:
            crawling.kill()
        place.run("lane", "drop", "shop.item", "--yes")
        place.run("crawl", "site.yaml", "--resume")
        assert len(site.paths()) == 2, "one item was dropped"
        assert gone(place) == {"a": False, "b": False}
        crawl(place, site, {"a": ""})
        assert gone(place) == {"a": False, "b": True}


@pytest.mark.parametrize("conditional", [False, True])
def test_a_row_that_two_sites_bring_is_gone_when_both_have_lost_it(place: Place, conditional: bool) -> None:
    """Whichever was first, and however many rounds each has had."""
    with Site() as site, Site() as other:
        rules = SHOP.replace(
            "gone: true, children: {offers: {table: offers, key: [seller]}}", "gone: true, key: [name]"
        )
        rules = rules.replace("{retries: 0}", f"{{retries: 0, conditional: {str(conditional).lower()}}}")
        place.write(rules.replace("SITE", site.url))
        place.write(rules.replace("SITE", other.url).replace("site: shop", "site: other"), "other.yaml")
        crawl(place, other, {"a": "", "c": ""}, file="other.yaml")
        crawl(place, site, {"a": "", "b": ""})
        crawl(place, site, {"a": "", "b": ""}, a=404)
        assert gone(place) == {"a": False, "b": False, "c": False}
        crawl(place, site, {"a": "", "b": ""})
        crawl(place, site, {"b": ""})
        assert gone(place) == {"a": False, "b": False, "c": False}
        crawl(place, other, {"c": ""}, file="other.yaml")
        assert gone(place) == {"a": True, "b": False, "c": False}
        assert (noted(place), noted(place, "other")) == ((0, ""), (1, ""))


def test_a_broken_page_that_keeps_a_row_is_named(place: Place) -> None:
    with Site() as site:
        place.write(
            f"""
site: shop
seeds: [{site.url}/list]
politeness: {{robots: ignore}}
seen: round
layers: {{rows: {{format: csv, records: {{jmespath: "[]"}}, fields: {{name: {{jmespath: name}}}}}}}}
store: {{rows: {{table: items, key: [name], gone: true}}}}
"""
        )
        for body, count, note in (
            ("a,1\nb,1\nc,1\n", 0, ""),
            (
                "b,1\nc,1,9\n",
                0,
                "which rows are gone is unknown in rows: pages that are not well-formed, or lack required fields, keep the rows that they had",
            ),
            ("b,1\nc,1\n", 1, ""),
            ("b,1\nc,1,9\n", 0, ""),
        ):
            site.on("/list", Reply(body="name,size\n" + body, headers={"Content-Type": "text/csv"}))
            place.crawl("site.yaml")
            assert noted(place) == (count, note)
