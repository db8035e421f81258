"""The whole engine against servers that misbehave: each fault ends in its stated settlement, the worker ends drained, and nothing of it
stays behind in the process."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import threading
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest
from tests.engine.http.test_fetcher_hard import NOT_AGAIN
from tests.support.hard_server.server import CASES, Case, HardServer
from tests.support.native_crawl import Crawl
from tests.support.servers.web_proxy import WebProxy
from tests.support.site import Site

from gossamer.frontier import codec
from gossamer.testing.process import open_sockets
from gossamer.testing.servers import Server

RETRIES = 1
HARD = """
    site: hard
    seeds: [SEEDS]
    politeness: {robots: ignore, hosts: {HOST: {concurrency: 24}}}
    request: {timeout: 60s, max_size: 300kB, retries: RETRIES, verify: VERIFY}
    layers:
      page:
        match: '^/'
        require: none
        fields: {title: {css: title, default: none}}
      slow: {like: page, request: {timeout: 1.5s, retries: 0}}
    store: {page: {table: pages, key: [url], add: [url]}}
"""
THROTTLED = "/status/429"
"""It makes the whole host wait, and has a test of its own."""
GOOD_TARGETS = {"/hops/3": "/hops/0", "/to/303?to=/ok": "/ok"}


@pytest.fixture
def crawl(valkey_server: Server, crawl_name: str, tmp_path: Path, site: Site) -> Crawl:
    return Crawl(valkey_server, crawl_name, tmp_path, site, GOSSAMER_ENGINE_CONCURRENCY=24, GOSSAMER_SITE_PATHS="/")


def hard_file(hard: HardServer, urls: list[str], retries: int = RETRIES, secure: bool = False) -> str:
    seeds = ", ".join(f'"{url}"' for url in urls if not _slow(url))
    seeds += "".join(f', {{url: "{url}", layer: slow}}' for url in urls if _slow(url))
    host = f"127.0.0.1:{hard.ports['https' if secure else 'http']}"
    text = HARD.replace("SEEDS", seeds.lstrip(", ")).replace("HOST", f'"{host}"')
    return text.replace("RETRIES", str(retries)).replace("VERIFY", f'"{hard.authority}"')


def _slow(url: str) -> bool:
    return any(case.path in url for case in CASES if not case.quick)


def ending(case: Case) -> str:
    """The reason of the dead letter that a page becomes, "" for one that is read, or gone."""
    match case.path, case.expect:
        case "/loop", _:
            return "redirect_loop"
        case "/nowhere", _:
            return "protocol"
        case "/empty", _:
            return "blocked"
        case _, int(status) if status >= 500:
            return f"http_{status}"
        case _, int():
            return ""
    return str(case.expect)


def dead(crawl: Crawl, group: str, prefix: str) -> dict[str, str]:
    with crawl.frontier() as frontier:
        letters = [
            (letter.reason, frontier.dead_letter(letter.partition, letter.id).payload)
            for letter in frontier.dead_letters(group, limit=1000)
        ]
    found = Counter(codec.decode_request(payload)["url"] for _, payload in letters)
    assert set(found.values()) <= {1}, "each is a dead letter once"
    return {codec.decode_request(payload)["url"].removeprefix(prefix): reason for reason, payload in letters}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
async def test_each_fault_ends_in_its_stated_settlement(crawl: Crawl, hard: HardServer, secure: bool) -> None:
    cases = [case for case in CASES if case.path != THROTTLED]
    prefix = hard.secure_url("") if secure else hard.url("")
    crawl.push(hard_file(hard, [prefix + case.path for case in cases], secure=secure))
    hard.forget()
    assert (await crawl.run()).reason == "drained"
    assert dead(crawl, "hard", prefix) == {case.path: ending(case) for case in cases if ending(case)}
    visits = Counter(target for _, target, _, _ in hard.visits())
    for case in cases:
        again = ending(case) and case.path not in NOT_AGAIN and case.quick and case.path not in ("/loop", "/nowhere")
        attempts = 1 + RETRIES if again else 1
        # A connection that was kept may have been closed meanwhile: then the fetcher asks once more over a fresh one.
        assert attempts <= visits[case.path] <= 2 * attempts + (case.path == "/ok"), case.path
    with crawl.frontier() as frontier:
        [lane] = [lane for lane in frontier.counts("hard").lanes if lane.lane == "hard.page"]
        assert (lane.queued, lane.delayed, lane.leased) == (0, 0, 0)


@pytest.mark.timeout(120)
async def test_one_that_is_busy_is_left_alone_and_then_given_up(crawl: Crawl, hard: HardServer) -> None:
    url = hard.url(f"{THROTTLED}?after=1")
    crawl.push(hard_file(hard, [url]))
    hard.forget()
    assert (await crawl.run()).reason == "drained"
    assert dead(crawl, "hard", "") == {url: "http_429"}
    assert len(hard.visits()) == 1 + RETRIES


@pytest.mark.timeout(120)
async def test_ways_that_lead_nowhere(crawl: Crawl, hard: HardServer) -> None:
    """An authority that nobody knows, a name that nobody has, a port where nobody listens, proxies that fail."""
    with socket.socket() as unused, WebProxy(fault="502") as refusing, WebProxy(fault="garbage") as odd:
        unused.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{unused.getsockname()[1]}"
        ways = {
            "tls": (hard.secure_url("/ok"), ""),
            "dns": ("http://no-such-host.invalid/", ""),
            "connect": (f"http://{nobody}/", ""),
            "proxy": (hard.url("/ok"), f"http://{nobody}"),
            "http_502": (hard.url("/ok"), refusing.url),
            "protocol": (hard.url("/ok"), odd.url),
        }
        for reason, (url, proxy) in ways.items():
            asking = f"retries: 0, proxy: '{proxy}'" if proxy else "retries: 0"
            crawl.push(
                f"""
                site: {reason}
                seeds: ["{url}"]
                politeness: {{robots: ignore}}
                request: {{{asking}}}
                layers: {{page: {{match: '^/'}}}}
                """,
                reason,
            )
        assert (await crawl.run()).reason == "drained"
        assert {name: dead(crawl, name, "") for name in ways} == {name: {url: name} for name, (url, _) in ways.items()}


def threads() -> set[str]:
    """Those that somebody has started, without the event loop's own pool, which is bounded."""
    return {thread.name for thread in threading.enumerate() if not thread.name.startswith("asyncio_")}


@pytest.mark.timeout(400)
async def test_nothing_stays_behind(crawl: Crawl, hard: HardServer, caplog: pytest.LogCaptureFixture) -> None:
    """Crawls of some hundreds of requests each, one after the other in this process."""
    caplog.set_level(logging.CRITICAL, "gossamer")  # pytest keeps every record, with all that hangs on it
    paths = [case.path for case in CASES if case.path != THROTTLED and case.quick]
    urls = [hard.url(path + ("&" if "?" in path else "?") + "n=[1-4]") for path in paths]
    urls += [hard.url(case.path) for case in CASES if not case.quick]
    crawl.push(hard_file(hard, urls, retries=0))
    before = open_sockets(), asyncio.all_tasks(), threads()
    used = []
    tracemalloc.start()
    try:
        for number in range(3):
            hard.forget()
            with crawl.frontier() as frontier:
                if number:
                    frontier.new_round("hard", number)
            assert (await crawl.run()).reason == "drained"
            assert len(hard.visits()) >= 4 * len(paths)
            for _ in range(500):
                if open_sockets() <= before[0] and asyncio.all_tasks() == before[1] and threads() <= before[2]:
                    break
                await asyncio.sleep(0.02)
            # What another test left behind may have ended meanwhile.
            assert open_sockets() <= before[0]
            assert asyncio.all_tasks() == before[1]
            assert threads() <= before[2]
            gc.collect()
            used.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    # The first one fills caches: of patterns, of names, of the pages of this server.
    assert used[2] - used[1] < 500_000, used
