"""Proxies: in turn, rested after failures, healed by success, read again from their file; and real ones that fail."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.hard_server.server import PAGE, HardServer
from tests.support.servers.web_proxy import WebProxy

from gossamer.engine.http.aiohttp_fetcher import AiohttpFetcher
from gossamer.engine.http.connection.proxies import ProxyGroup, ProxyPool, parse
from gossamer.model.fetch import FetchError, FetchOptions
from gossamer.model.page import PageRequest

EASY = FetchOptions(timeout=30, connect_timeout=10, stall_timeout=20)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def proxy() -> Iterator[WebProxy]:
    with WebProxy("me:secret") as running:
        yield running


def test_urls_of_proxies() -> None:
    assert parse("127.0.0.1:8080").url == "http://127.0.0.1:8080"
    assert parse("https://h.example").url == "https://h.example:443"
    assert parse("http://[::1]:3128").url == "http://[::1]:3128"
    login = parse("http://u%40x:p%3A@h:1")
    assert (login.url, login.authorization) == ("http://h:1", "Basic dUB4OnA6")
    for bad in ("socks5://h:1", "http://", "http://h:0", "http://h:99999", "http://a b:1", "", "http://h:x"):
        with pytest.raises(ValueError, match=r"proxy|[Pp]ort"):
            parse(bad)


def test_they_are_used_in_turn_and_rested() -> None:
    clock = Clock()
    group = ProxyGroup("g", ["a:1", "b:1", "c:1"], fails=2, rest=60, clock=clock)
    assert [group.choose().url[7] for _ in range(6)] == list("abcabc")
    bad = group.choose()
    group.vote(bad, False)
    group.vote(bad, True)
    group.vote(bad, False)
    assert not group.resting()
    group.vote(bad, False)
    assert group.resting() == [bad]
    assert [group.choose().url[7] for _ in range(4)] == list("bcbc")
    clock.now += 60
    assert not group.resting()
    assert {group.choose().url[7] for _ in range(3)} == set("abc")
    # Back from its rest, one more failure is enough.
    group.vote(bad, False)
    assert group.resting() == [bad]


def test_when_all_rest_it_is_said_for_how_long() -> None:
    clock = Clock()
    group = ProxyGroup("g", ["a:1", "b:1"], fails=1, rest=60, clock=clock)
    group.vote(group.choose(), False)
    clock.now += 10
    group.vote(group.choose(), False)
    with pytest.raises(FetchError, match="all 2 proxies of g rest") as caught:
        group.choose()
    assert (caught.value.reason, caught.value.retriable, caught.value.after) == ("proxy", True, 50.0)
    clock.now += 50
    assert group.choose().url == "http://a:1"


def test_a_file_is_read_again_when_it_changes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock, file = Clock(), tmp_path / "proxies"
    group = ProxyGroup("g", file=file, clock=clock)
    with pytest.raises(FetchError, match="has none") as caught:
        group.choose()
    assert caught.value.retriable
    file.write_text("# ours\na:1\n\nb:1 # the slow one\nsocks5://user:secret@c:1\na:1\n")
    clock.now += 1
    assert [group.choose().url for _ in range(3)] == ["http://a:1", "http://b:1", "http://a:1"]
    assert "is skipped" in caplog.text
    assert "secret" not in caplog.text
    old = group.choose()
    old.fails = 2
    file.write_text("b:1\nd:1\n")
    os.utime(file, ns=(1, 1))
    clock.now += 1
    assert {group.choose().url for _ in range(4)} == {"http://b:1", "http://d:1"}
    # What was known of those that are still there is known.
    assert old.url == "http://b:1"
    assert next(one for one in (group.choose(), group.choose()) if one.url == "http://b:1").fails == 2
    file.unlink()
    clock.now += 1
    assert {group.choose().url for _ in range(4)} == {"http://b:1", "http://d:1"}


def test_groups_belong_to_sites() -> None:
    proxies = ProxyPool()
    proxies.define("one", "fast", ["a:1"])
    proxies.define("two", "fast", ["b:1"])
    assert proxies.choose("one", "fast").url == "http://a:1"
    assert proxies.choose("two", "fast").url == "http://b:1"
    assert proxies.choose("two", "http://c:1").url == "http://c:1"
    proxies.forget("one")
    # A page that was under way while its site's file changed may find its group gone: the next try knows better.
    for site, name, again in (("one", "fast", True), ("two", "slow", True), ("two", "socks5://c:1", False)):
        with pytest.raises(FetchError) as caught:
            proxies.choose(site, name)
        assert (caught.value.reason, caught.value.retriable) == ("proxy", again)


def test_what_is_known_of_a_proxy_outlives_a_change_of_its_group() -> None:
    clock = Clock()
    proxies = ProxyPool(clock)
    proxies.define("one", "fast", ["a:1", "b:1"], fails=1, rest=100)
    under_way = proxies.choose("one", "fast")
    proxies.vote(proxies.choose("one", "fast"), False)
    proxies.keep("one", ["fast"])
    proxies.define("one", "fast", ["b:1", "a:1", "c:1"], fails=1, rest=50)
    assert {proxies.choose("one", "fast").url for _ in range(4)} == {"http://a:1", "http://c:1"}
    proxies.vote(under_way, False)
    assert {proxies.choose("one", "fast").url for _ in range(4)} == {"http://c:1"}
    clock.now += 51
    assert {proxies.choose("one", "fast").url for _ in range(4)} == {"http://a:1", "http://c:1"}
    proxies.keep("one", [])
    proxies.define("one", "fast", ["b:1"])
    assert proxies.choose("one", "fast").url == "http://b:1"


async def test_plain_and_secure_pages_through_a_proxy_with_a_password(
    hard: HardServer, fetcher: AiohttpFetcher, proxy: WebProxy
) -> None:
    options = EASY._replace(proxy=proxy.url, verify=hard.authority)
    for url in (hard.url("/ok"), hard.secure_url("/ok"), hard.url("/gzip"), hard.secure_url("/chunked")):
        for _ in range(2):
            got = await fetcher.fetch(PageRequest(url, options=options))
            assert got.body == PAGE
            assert got.proxy == proxy.bare_url
    asked = proxy.asked()
    assert ("GET", hard.url("/ok"), True) in asked
    assert ("CONNECT", f"127.0.0.1:{hard.ports['https']}", True) in asked
    # The server never sees what was meant for the proxy.
    lines = (await fetcher.fetch(PageRequest(hard.secure_url("/echo"), options=options))).body
    assert b"Proxy-" not in lines


async def test_a_wrong_password(hard: HardServer, fetcher: AiohttpFetcher, proxy: WebProxy) -> None:
    options = EASY._replace(proxy=proxy.bare_url, verify=hard.authority)
    for url in (hard.url("/ok"), hard.secure_url("/ok")):
        with pytest.raises(FetchError, match="407") as caught:
            await fetcher.fetch(PageRequest(url, options=options))
        assert caught.value.reason == "proxy"
    assert fetcher.sessions.proxies.choose("", proxy.bare_url).fails == 2


async def test_a_proxy_that_is_spoken_to_securely(hard: HardServer, fetcher: AiohttpFetcher) -> None:
    with WebProxy("me:secret", certificate=hard.certificate) as running:
        options = EASY._replace(proxy=running.url, verify=hard.authority)
        assert (await fetcher.fetch(PageRequest(hard.url("/ok"), options=options))).body == PAGE
        assert (await fetcher.fetch(PageRequest(hard.secure_url("/ok"), options=options))).body == PAGE
        with pytest.raises(FetchError) as caught:
            await fetcher.fetch(PageRequest(hard.url("/ok"), options=options._replace(verify=True)))
        assert (caught.value.reason, caught.value.retriable) == ("tls", False)


@pytest.mark.parametrize("fault", ["hang", "close", "garbage", "502"])
async def test_a_proxy_that_fails(hard: HardServer, fetcher: AiohttpFetcher, fault: str) -> None:
    with WebProxy(fault=fault) as running:
        for url in (hard.url("/ok"), hard.secure_url("/ok")):
            options = EASY._replace(proxy=running.url, verify=hard.authority, timeout=1.0)
            if fault == "502" and url.startswith("http:"):
                # Whose it is, the proxy's or the server's, nobody can tell.
                assert (await fetcher.fetch(PageRequest(url, options=options))).status == 502
                continue
            with pytest.raises(FetchError) as caught:
                await fetcher.fetch(PageRequest(url, options=options))
            assert caught.value.retriable
            assert (
                caught.value.reason
                in {"hang": ["timeout"], "close": ["reset"], "garbage": ["protocol"], "502": ["proxy"]}[fault]
            )
        fails = fetcher.sessions.proxies.choose("", running.url).fails
        assert fails == (0 if fault == "502" else 2)


async def test_a_killed_proxy_is_left_out_and_pages_go_on(
    hard: HardServer, fetcher: AiohttpFetcher, proxy: WebProxy
) -> None:
    with WebProxy() as doomed:
        group = fetcher.sessions.proxies.define("site", "both", [doomed.url, proxy.url], fails=2, rest=3600)
        ask = PageRequest(hard.url("/ok"), site="site", options=EASY._replace(proxy="both"))
        assert {(await fetcher.fetch(ask)).proxy for _ in range(4)} == {doomed.bare_url, proxy.bare_url}
        doomed.kill()
        ends = []
        for _ in range(12):
            try:
                ends.append((await fetcher.fetch(ask)).proxy)
            except FetchError as error:
                ends.append(error.reason)
        # A connection to it was kept, perhaps: that its end is seen as a reset makes no difference.
        failures = [end for end in ends if not end.startswith("http")]
        assert len(failures) == 2
        assert set(failures) <= {"proxy", "reset"}
        assert ends.count(proxy.bare_url) == 10
        assert [one.url for one in group.resting()] == [doomed.bare_url]
    fetcher.sessions.proxies.forget("site")
    fetcher.sessions.proxies.define("site", "both", [doomed.url], fails=1, rest=3600)
    for expected in ("cannot be reached", "all 1 proxies of both rest"):
        with pytest.raises(FetchError, match=expected) as caught:
            await fetcher.fetch(ask)
        assert (caught.value.reason, caught.value.retriable) == ("proxy", True)
    assert 3590 < caught.value.after <= 3600
