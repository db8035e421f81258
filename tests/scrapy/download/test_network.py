"""Pages of public hosts do not lead a spider's worker into its own network.

A server of the tests at 127.0.0.2 stands for a public one: its network is allowed by setting, and it is called by a public name.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.scrapy.spiders.leading import Leading
from tests.support.site import Reply, Site, links
from tests.support.workers.variants import FIRST, LAST, Variant, some
from tests.support.workers.workers import Left, Workers, left

from gossamer.testing.servers import Server

PUBLIC = "127.0.0.2"
ENVIRON = {"NAMES": f"shop.example={PUBLIC},inside.example=127.0.0.1"}
PATCHES = ["tests.scrapy.spiders.leading.names"]
SETTINGS = {"GOSSAMER_PRIVATE_ADDRESSES": f"{PUBLIC}/32", "ROBOTSTXT_OBEY": True}


@pytest.fixture
def inside() -> Iterator[Site]:
    with Site() as site:
        yield site


@pytest.fixture
def public() -> Iterator[Site]:
    with Site(address=PUBLIC) as site:
        yield site.on("/robots.txt", Reply(404))


def port(site: Site) -> str:
    return site.url.rpartition(":")[2]


def crawled(server: Server, crawl: str, first: str, variant: Variant, vouch: str = "") -> Left:
    with Workers(server.url, crawl, variant) as workers:
        worker = workers.start(Leading, settings=SETTINGS, environ=ENVIRON, patches=PATCHES, first=first, vouch=vouch)
        assert worker.reason() == "finished"
        with workers.frontier() as frontier:
            return left(frontier, Leading.name)


@pytest.mark.parametrize(
    "variant", some((FIRST, "asyncio"), (LAST, "uvloop"), (LAST, "select"), (LAST, "reactorless")), ids=str
)
def test_links_and_redirects_of_public_pages_to_private_addresses_are_dead_letters(
    variant: Variant, public: Site, inside: Site, valkey_server: Server, crawl_name: str
) -> None:
    shop = f"http://shop.example:{port(public)}"
    ways = [f"http://{host}:{port(inside)}/x" for host in ("127.0.0.1", "localhost", "inside.example")]
    public.on("/", links(f"{shop}/moved", f"{shop}/next", *ways, "http://169.254.169.254/latest"))
    public.on("/moved", Reply(302, headers={"Location": f"http://inside.example:{port(inside)}/y"}))
    public.on("/next", links())
    found = crawled(valkey_server, crawl_name, f"{shop}/", variant)
    assert inside.visits == []
    assert found.ids() == {"": 1, "next": 1}
    assert found.reasons() == {"private_address": 5}
    assert sum("metadata" in letter.detail for letter in found.dead) == 1
    remedy = (
        'meta={"private_addresses": True} in the spider\'s request, or for all with GOSSAMER_PRIVATE_ADDRESSES=always'
    )
    assert all(remedy in letter.detail or "metadata" in letter.detail for letter in found.dead)


def test_what_a_spider_starts_with_or_vouches_for_and_what_private_pages_lead_to_is_fetched(
    public: Site, inside: Site, valkey_server: Server, crawl_name: str, tmp_path: Path
) -> None:
    [variant] = some((LAST, "uvloop"))[:1]
    shop = f"http://shop.example:{port(public)}"
    inside.on("/a", links("/b"))
    inside.on("/b", links())
    inside.on("/d", links())
    local = tmp_path / "local"
    local.write_text(f"<a href='{inside.url}/d'>d</a>")
    found = crawled(valkey_server, crawl_name, f"{inside.url}/a {local.as_uri()}", variant)
    assert (found.ids(), found.dead) == ({"a": 1, "b": 1, "local": 1, "d": 1}, [])
    public.on("/", links(f"{inside.url}/c"))
    inside.on("/c", links())
    found = crawled(valkey_server, f"{crawl_name}-2", f"{shop}/", variant, vouch="yes")
    assert (found.ids(), found.dead) == ({"": 1, "c": 1}, [])
