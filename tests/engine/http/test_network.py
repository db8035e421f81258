"""Pages of public hosts do not lead a worker into its own network.

A server of the tests at 127.0.0.2 stands for a public one: its network is allowed by setting, and it is called by a public name.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.native_crawl import Crawl
from tests.support.site import Reply, Site

from gossamer.engine.http.aiohttp_fetcher import AiohttpFetcher
from gossamer.engine.http.connection.dns import CachingResolver
from gossamer.model.fetch import FetchError, FetchOptions
from gossamer.model.network import PRIVATE_ADDRESS, NetworkGuard, guard_of
from gossamer.model.page import PageRequest
from gossamer.testing.servers import Server

PUBLIC, NETWORK = "127.0.0.2", "127.0.0.2/32"
NAMES = {"shop.example": PUBLIC, "inside.example": "127.0.0.1", "both.example": "127.0.0.1"}
KNOWN = f"""
import socket

known, real = {NAMES!r}, socket.getaddrinfo
socket.getaddrinfo = lambda host, *args, **named: real(known.get(host, host), *args, **named)
"""
STRICT = guard_of(NETWORK, None, ["shop.example"])

SHOP = """
    site: shop
    seeds: ["http://shop.example:PORT/"]
    politeness: {robots: ROBOTS}
    layers: {page: {match: '^/', fields: {title: title}, follow: [{css: a, to: page}]}}
"""


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Names that the system's resolver knows besides, for as long as the test runs."""
    known, real = dict(NAMES), socket.getaddrinfo

    def getaddrinfo(host: Any, port: Any, *args: Any, **named: Any) -> Any:
        return real(known.get(host, host), port, *args, **named)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return known


@pytest.fixture
def public() -> Iterator[Site]:
    with Site(address=PUBLIC) as site:
        yield site


@pytest.fixture
def crawl(valkey_server: Server, crawl_name: str, tmp_path: Any, public: Site, names: dict[str, str]) -> Crawl:
    return Crawl(valkey_server, crawl_name, tmp_path, public, GOSSAMER_PRIVATE_ADDRESSES=NETWORK)


def shop(crawl: Crawl, more: str = "", robots: str = "ignore") -> None:
    port = crawl.site.url.rpartition(":")[2]
    crawl.push(SHOP.replace("PORT", port).replace("ROBOTS", robots).rstrip() + "\n" + more)


def page(*links: str) -> Reply:
    return Reply(body="<title>t</title>" + "".join(f"<a href='{link}'>a</a>" for link in links))


def port(site: Site) -> str:
    return site.url.rpartition(":")[2]


async def test_links_to_private_addresses_are_dead_letters_that_say_so(crawl: Crawl, public: Site, site: Site) -> None:
    inside = [
        f"http://{host}:{port(site)}/" for host in ("127.0.0.1", "localhost", "inside.example", "[::ffff:7f00:1]")
    ]
    public.on("/", page("/2", *inside, "http://169.254.169.254/latest/meta-data/"))
    public.on("/2", page())
    shop(crawl)
    await crawl.run()
    assert site.visits == []
    dead = crawl.dead("shop")
    assert {reason for reason, _ in dead} == {PRIVATE_ADDRESS}
    assert len(dead) == 5
    assert sum("private_addresses: true" in detail for _, detail in dead) == 4
    assert sum("metadata" in detail for _, detail in dead) == 1
    assert crawl.counters("shop")["engine/failed/private_address"] == 5
    assert public.paths() == ["/", "/2"]


@pytest.mark.parametrize("robots", ["ignore", "obey"])
async def test_so_are_redirects_and_no_robots_txt_is_asked_for_there(
    crawl: Crawl, public: Site, site: Site, robots: str
) -> None:
    public.on("/", Reply(302, headers={"Location": f"http://inside.example:{port(site)}/x"}))
    public.on("/robots.txt", Reply(404))
    shop(crawl, robots=robots)
    await crawl.run()
    assert site.visits == []
    [(reason, detail)] = crawl.dead("shop")
    assert reason == PRIVATE_ADDRESS
    assert "inside.example leads to 127.0.0.1" in detail


async def test_a_name_that_has_another_address_later_is_no_way_round_it(
    crawl: Crawl, public: Site, site: Site, names: dict[str, str]
) -> None:
    public.on("/", page(f"http://both.example:{port(site)}/"))
    names["both.example"] = PUBLIC
    fetcher = AiohttpFetcher(resolver=CachingResolver(kept=0.0))
    try:
        with pytest.raises(FetchError):
            await fetcher.fetch(PageRequest(f"http://both.example:{port(site)}/", options=FetchOptions(guard=STRICT)))
        names["both.example"] = "127.0.0.1"
        with pytest.raises(FetchError) as refused:
            await fetcher.fetch(PageRequest(f"http://both.example:{port(site)}/", options=FetchOptions(guard=STRICT)))
        assert refused.value.reason == PRIVATE_ADDRESS
        assert not refused.value.retriable
    finally:
        await fetcher.close()
    assert site.visits == []


@pytest.mark.parametrize("more", ["    private_addresses: true\n", ""])
async def test_a_key_allows_it_and_a_setting_forbids_it_all_the_same(
    crawl: Crawl, public: Site, site: Site, more: str
) -> None:
    public.on("/", page(f"{site.url}/x"))
    site.on("/x", page())
    shop(crawl, more)
    await crawl.run()
    assert site.paths() == (["/x"] if more else [])
    assert [reason for reason, _ in crawl.dead("shop")] == ([] if more else [PRIVATE_ADDRESS])


async def test_a_private_task_is_fetched_and_so_are_its_links_but_not_those_of_public_pages(
    crawl: Crawl, public: Site, site: Site
) -> None:
    key = f"{crawl.settings['GOSSAMER_CRAWL']}:tasks"
    shop(crawl)
    crawl.push(SHOP.replace('["http://shop.example:PORT/"]', f"[{{tasks: '{key}'}}]").replace("ROBOTS", "ignore"))
    crawl.server.call("RPUSH", key, f"{site.url}/start", f"http://shop.example:{port(public)}/start")
    site.on("/start", page("/next"))
    site.on("/next", page(f"http://shop.example:{port(public)}/from-inside"))
    public.on("/start", page(f"{site.url}/never"))
    public.on("/from-inside", page(f"{site.url}/never-again"))
    await crawl.run()
    assert sorted(site.paths()) == ["/next", "/start"]
    assert sorted(public.paths()) == ["/from-inside", "/start"]
    assert [reason for reason, _ in crawl.dead("shop")] == [PRIVATE_ADDRESS] * 2


async def test_a_connection_that_another_site_keeps_open_is_no_way_in(site: Site) -> None:
    site.on("/x", page())
    fetcher = AiohttpFetcher()
    try:
        for _ in range(2):
            assert (
                await fetcher.fetch(PageRequest(f"{site.url}/x", options=FetchOptions(guard=NetworkGuard(True))))
            ).status == 200
        for _ in range(2):
            with pytest.raises(FetchError, match="private_address"):
                await fetcher.fetch(PageRequest(f"{site.url}/x", options=FetchOptions(guard=STRICT)))
        assert (
            await fetcher.fetch(PageRequest(f"{site.url}/x", options=FetchOptions(guard=NetworkGuard(True))))
        ).status == 200
    finally:
        await fetcher.close()
    assert len(site.visits) == 3


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "0177.0.0.1", "127.1", "0", "[::1]", "[::ffff:127.0.0.1]"])
async def test_no_way_to_write_an_address_is_a_way_round_it(site: Site, host: str) -> None:
    fetcher = AiohttpFetcher()
    try:
        with pytest.raises(FetchError) as refused:
            await fetcher.fetch(PageRequest(f"http://{host}:{port(site)}/", options=FetchOptions(guard=STRICT)))
        assert not refused.value.retriable
    finally:
        await fetcher.close()
    assert site.visits == []


async def test_a_proxy_may_be_private_but_is_not_sent_to_what_is(site: Site) -> None:
    site.on("/x", page())
    fetcher = AiohttpFetcher()
    options = FetchOptions(guard=STRICT, proxy=site.url)
    try:
        for host in ("127.0.0.1", "localhost", "2130706433", "169.254.169.254", "metadata.google.internal"):
            with pytest.raises(FetchError, match="private_address"):
                await fetcher.fetch(PageRequest(f"http://{host}/x", options=options))
        assert site.visits == []
        await fetcher.fetch(PageRequest("http://shop.example/x", options=options))
    finally:
        await fetcher.close()
    assert len(site.visits) == 1


@pytest.mark.parametrize("way", ["link", "redirect"])
def test_a_site_that_scrapy_fetches_keeps_to_it_too(
    way: str, valkey_server: Server, crawl_name: str, tmp_path: Path, public: Site, site: Site
) -> None:
    inside = f"http://inside.example:{port(site)}/x"
    public.on("/", page(inside) if way == "link" else Reply(302, headers={"Location": inside}))
    crawl = Crawl(valkey_server, crawl_name, tmp_path, public, GOSSAMER_PRIVATE_ADDRESSES=NETWORK)
    shop(crawl, "    engine: scrapy\n")
    root = str(Path(__file__).parents[3])
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "sitecustomize.py").write_text(KNOWN)
    words = [sys.executable, "-P", "-m", "gossamer", "work", "--sites", "shop", "--all-stages", "--drained"]
    words += [word for name, value in crawl.given.items() for word in ("-s", f"{name}={value}")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "first"), root])}
    done = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    [(reason, detail)] = crawl.dead("shop")
    assert (reason, site.visits, public.paths()) == (PRIVATE_ADDRESS, [], ["/"])
    assert "inside.example leads to 127.0.0.1" in detail
