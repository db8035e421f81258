"""What goes over the wire, and what comes back."""

from __future__ import annotations

import asyncio
import base64

import pytest
from tests.support.hard_server.server import PAGE, HardServer

import gossamer
from gossamer.engine.http.aiohttp_fetcher import AiohttpFetcher
from gossamer.engine.http.connection.dns import CachingResolver
from gossamer.engine.page.conditional import conditions, validators
from gossamer.model.fetch import FetchError, FetchOptions
from gossamer.model.page import PageRequest, Response

OWN = frozenset({"127.0.0.1", "a.test"})


async def head(fetcher: AiohttpFetcher, ask: PageRequest) -> list[str]:
    """The lines of the request as the server saw it; the last one is the body."""
    return (await fetcher.fetch(ask)).body.decode().split("\r\n")


async def test_an_ordinary_page(hard: HardServer, fetcher: AiohttpFetcher) -> None:
    got = await fetcher.fetch(PageRequest(hard.url("/ok")))
    assert got[:2] == (hard.url("/ok"), 200)
    assert got.headers["content-type"] == "text/html; charset=utf-8"
    assert got.body == PAGE
    assert got.seconds > 0
    assert (got.raw, got.sent, got.proxy, got.cookies) == (None, None, "", ())


async def test_what_every_request_says(hard: HardServer, fetcher: AiohttpFetcher) -> None:
    lines = await head(fetcher, PageRequest(hard.url("/echo?a=%7Eb&c=d+e")))
    assert lines[0] == "GET /echo?a=%7Eb&c=d+e HTTP/1.1"
    assert f"Host: 127.0.0.1:{hard.ports['http']}" in lines
    assert f"User-Agent: gossamer/{gossamer.__version__}" in lines
    assert "Accept-Encoding: gzip, deflate, br, zstd" in lines
    assert not any(line.startswith(("Cookie", "Authorization", "Content-")) for line in lines)


async def test_headers_keep_their_case_and_the_nearer_one_wins(hard: HardServer, fetcher: AiohttpFetcher) -> None:
    options = FetchOptions(
        user_agent="me/1", headers=(("X-LAYER", "layer"), ("accept-Language", "de"), ("x-both", "far"))
    )
    lines = await head(
        fetcher,
        PageRequest(hard.url("/echo"), headers={"x-MiNe": "1", "X-Both": "near", "Accept": "a/b"}, options=options),
    )
    for line in (
        "X-LAYER: layer",
        "accept-Language: de",
        "x-MiNe: 1",
        "X-Both: near",
        "Accept: a/b",
        "User-Agent: me/1",
    ):
        assert lines.count(line) == 1
    assert sum(line.lower().startswith("x-both") for line in lines) == 1
    # The layer's headers are as they were.
    assert "x-both: far" in await head(fetcher, PageRequest(hard.url("/echo"), options=options))


async def test_bodies_and_methods(hard: HardServer, fetcher: AiohttpFetcher) -> None:
    lines = await head(
        fetcher, PageRequest(hard.url("/echo"), "POST", {"Content-Type": "application/json"}, body=b'{"a": 1}')
    )
    assert lines[0].startswith("POST ")
    assert {"Content-Type: application/json", "Content-Length: 8"} <= set(lines)
    assert lines[-1] == '{"a": 1}'
    for method in ("PUT", "PATCH", "DELETE", "OPTIONS"):
        assert (await head(fetcher, PageRequest(hard.url("/echo"), method)))[0] == f"{method} /echo HTTP/1.1"
    got = await fetcher.fetch(PageRequest(hard.url("/ok"), "HEAD"))
    assert (got.status, got.body, got.headers["content-length"]) == (200, b"", str(len(PAGE)))
    # A length beyond the limit is no matter where there is no body.
    assert (
        await fetcher.fetch(PageRequest(hard.url("/size/5000000"), "HEAD", options=FetchOptions(max_size=10)))
    ).status == 200


async def test_headers_that_come_twice_and_bytes_that_are_no_text(hard: HardServer, fetcher: AiohttpFetcher) -> None:
    got = await fetcher.fetch(PageRequest(hard.url("/odd-header")))
    assert got.headers["x-two"] == "a, b"
    assert got.headers["x-odd"].startswith("caf")
    got.headers["x-odd"].encode()


async def test_one_hop_only(hard: HardServer, fetcher: AiohttpFetcher) -> None:
    got = await fetcher.fetch(PageRequest(hard.url("/hops/3")))
    assert (got.status, got.headers["location"]) == (302, "../hops/2#there")


@pytest.mark.parametrize(
    ("url", "line"),
    [
        ("/echo#fragment", "GET /echo HTTP/1.1"),
        ("/echo?q=a b", "GET /echo?q=a%20b HTTP/1.1"),
        ("/echo?q=\u00e4&r=%e4", "GET /echo?q=%C3%A4&r=%e4 HTTP/1.1"),
        ("/a/../echo", "GET /echo HTTP/1.1"),
        ("/echo/.?q=/../", "GET /echo/?q=/../ HTTP/1.1"),
        ("/a/./b//c/../../../../echo/d/..", "GET /echo/ HTTP/1.1"),
        ("/echo?u=http://h/../x", "GET /echo?u=http://h/../x HTTP/1.1"),
        ("/echo?x=|{}", "GET /echo?x=|{} HTTP/1.1"),
    ],
)
async def test_urls_as_they_are_asked_for(hard: HardServer, fetcher: AiohttpFetcher, url: str, line: str) -> None:
    await fetcher.fetch(PageRequest(hard.url(url)))
    _, target, _, _ = hard.visits()[-1]
    assert f"GET {target} HTTP/1.1".replace("%7C", "|").replace("%7B", "{").replace("%7D", "}") == line


async def test_a_url_without_a_path_and_hosts_of_other_scripts(hard: HardServer, fetcher: AiohttpFetcher) -> None:
    port = hard.ports["http"]
    assert (await fetcher.fetch(PageRequest(f"http://127.0.0.1:{port}"))).status == 404
    assert (await fetcher.fetch(PageRequest(f"http://127.0.0.1:{port}?x=1"))).status == 404
    targets = [target for _, target, headers, _ in hard.visits() if headers["host"] == f"127.0.0.1:{port}"]
    assert {"/", "/?x=1"} <= set(targets)
    lines = await head(fetcher, PageRequest(f"http://b\u00fccher.test:{port}/echo"))
    assert f"Host: xn--bcher-kva.test:{port}" in lines
    assert f"Host: a.test:{port}" in await head(fetcher, PageRequest(f"HTTP://A.Test:{port}/echo"))


async def test_ipv6(hard: HardServer, fetcher: AiohttpFetcher) -> None:
    if not hard.ports["ipv6"]:
        with pytest.raises(FetchError, match="connect"):
            await fetcher.fetch(PageRequest("http://[::1]:9/echo"))
        return
    lines = await head(fetcher, PageRequest(f"http://[::1]:{hard.ports['ipv6']}/echo"))
    assert f"Host: [::1]:{hard.ports['ipv6']}" in lines


@pytest.mark.parametrize(
    "ask",
    [
        PageRequest("http://127.0.0.1/a\r\nX: y"),
        PageRequest("http://127.0.0.1/a\nb"),
        PageRequest("http://127.0.0.1/\x00"),
        PageRequest("http://127.0.0.1/\ud800"),
        PageRequest("http://127.0.0.1/", headers={"X": "\ud800"}),
        PageRequest("http://127.0.0.1\r\nX: y/"),
        PageRequest("ftp://127.0.0.1/"),
        PageRequest("http:///nothing"),
        PageRequest("http://127.0.0.1:99999/"),
        PageRequest("http://127.0.0.1:x/"),
        PageRequest("http://[::1/"),
        PageRequest("http://a b/"),
        PageRequest("/relative"),
        PageRequest(""),
        PageRequest("http://127.0.0.1/" + "a" * 70_000),
        PageRequest("http://127.0.0.1/", headers={"X": "a\r\nY: b"}),
        PageRequest("http://127.0.0.1/", headers={"X\r\nY": "a"}),
        PageRequest("http://127.0.0.1/", headers={"X": "a\x00"}),
        PageRequest("http://127.0.0.1/", headers={"": "a"}),
        PageRequest("http://127.0.0.1/", headers={"Content-Length": "5"}),
        PageRequest("http://127.0.0.1/", headers={"transfer-encoding": "chunked"}),
        PageRequest("http://127.0.0.1/", cookies={"a": "b\r\nX: y"}),
        PageRequest("http://127.0.0.1/", cookies={"a\nb": "c"}),
        PageRequest("http://127.0.0.1/", "GET / HTTP/1.1\r\nX: y\r\n\r\nGET"),
        PageRequest("http://127.0.0.1/", "CONNECT"),
        PageRequest("http://127.0.0.1/", options=FetchOptions(user_agent="a\nb")),
        PageRequest("http://127.0.0.1/", options=FetchOptions(headers=(("X", "a\nb"),))),
        PageRequest("http://127.0.0.1/", options=FetchOptions(auth=("a", "b"))),
    ],
)
async def test_what_could_smuggle_or_cannot_be_is_refused_before_it_is_sent(
    fetcher: AiohttpFetcher, ask: PageRequest
) -> None:
    with pytest.raises(FetchError) as caught:
        await fetcher.fetch(ask)
    assert (caught.value.reason, caught.value.retriable) == ("bad_request", False)


async def test_passwords_go_to_the_sites_own_hosts_only(hard: HardServer, fetcher: AiohttpFetcher) -> None:
    options = FetchOptions(auth=("me", "s\u00e9cret"), hosts=OWN)
    line = f"Authorization: Basic {base64.b64encode(':'.join(options.auth or ()).encode()).decode()}"
    for host in ("127.0.0.1", "a.test", "b.a.test"):
        assert line in await head(fetcher, PageRequest(hard.url("/echo", host), options=options))
    assert not any(
        part.startswith("Authorization")
        for part in await head(fetcher, PageRequest(hard.url("/echo", "other.test"), options=options))
    )
    narrow = options._replace(hosts=frozenset({f"127.0.0.1:{hard.ports['http']}"}))
    assert line in await head(fetcher, PageRequest(hard.url("/echo"), options=narrow))
    assert line not in await head(
        fetcher, PageRequest(hard.url("/echo"), options=options._replace(hosts=frozenset({"127.0.0.1:1"})))
    )


async def test_a_password_in_the_url_becomes_a_header(hard: HardServer, fetcher: AiohttpFetcher) -> None:
    lines = await head(fetcher, PageRequest(hard.url("/echo", "u%40x:p%3A@127.0.0.1")))
    assert lines[0] == "GET /echo HTTP/1.1"
    assert f"Authorization: Basic {base64.b64encode(b'u@x:p:').decode()}" in lines
    assert f"Host: 127.0.0.1:{hard.ports['http']}" in lines


async def test_cookies_are_kept_for_a_site_and_for_no_other(hard: HardServer, fetcher: AiohttpFetcher) -> None:
    got = await fetcher.fetch(PageRequest(hard.url("/set?c=a%3D1%3B%20Path%3D/&c=b%3D2%3B%20Path%3D/else"), site="one"))
    assert got.cookies == ("a=1; Path=/", "b=2; Path=/else")
    assert "Cookie: a=1" in await head(fetcher, PageRequest(hard.url("/echo"), site="one"))
    assert "Cookie: x=y; a=1" in await head(fetcher, PageRequest(hard.url("/echo"), site="one", cookies={"x": "y"}))
    assert "Cookie: a=mine" in await head(fetcher, PageRequest(hard.url("/echo"), site="one", cookies={"a": "mine"}))
    without = FetchOptions(session=False)
    for ask in (
        PageRequest(hard.url("/echo"), site="two"),
        PageRequest(hard.url("/echo"), site="one", options=without),
        PageRequest(hard.url("/echo", "a.test"), site="one"),
    ):
        assert not any(line.startswith("Cookie") for line in await head(fetcher, ask))
    assert "Cookie: x=y" in await head(
        fetcher, PageRequest(hard.url("/echo"), cookies={"x": "y"}, site="one", options=without)
    )
    await fetcher.fetch(PageRequest(hard.url("/set?c=z%3D1"), site="three", options=without))
    assert "three" not in fetcher.sessions.jars


async def test_cookies_that_are_no_text_do_no_harm(hard: HardServer, fetcher: AiohttpFetcher) -> None:
    got = await fetcher.fetch(PageRequest(hard.url("/set?c=a%3Dcaf%E9%3B%20Path%3D/"), site="one"))
    assert got.cookies
    lines = (await fetcher.fetch(PageRequest(hard.url("/echo"), site="one"))).body.split(b"\r\n")
    assert any(line.startswith(b"Cookie: a=caf") for line in lines)


async def test_a_connection_that_was_closed_meanwhile_is_replaced_unseen(hard: HardServer) -> None:
    fetcher = AiohttpFetcher(concurrency=1)
    hard.forget()
    try:
        for _ in range(3):
            assert (await fetcher.fetch(PageRequest(hard.url("/once")))).body == PAGE
        visits = [number for _, target, _, number in hard.visits() if target == "/once"]
        # Each time but the first: on the old connection in vain, then on a fresh one.
        assert visits == [1, 2, 1, 2, 1]
        # What changes something is not done twice by ourselves.
        with pytest.raises(FetchError) as caught:
            await fetcher.fetch(PageRequest(hard.url("/once"), "POST", body=b"x"))
        assert (caught.value.reason, caught.value.retriable) == ("reset", True)
    finally:
        await fetcher.close()


async def test_however_many_connections_were_closed_one_more_attempt_is_enough(
    hard: HardServer, fetcher: AiohttpFetcher
) -> None:
    for method in ("GET", "HEAD"):
        await asyncio.gather(*(fetcher.fetch(PageRequest(hard.url("/ok", "a.test"))) for _ in range(20)))
        hard.forget()
        # Each connection that is reused for this is closed without an answer.
        assert (await fetcher.fetch(PageRequest(hard.url("/once", "a.test"), method))).status == 200
        assert [min(number, 2) for _, target, _, number in hard.visits() if target == "/once"] == [2, 1]


async def test_over_a_kept_connection_the_same_goes_over_the_wire(
    hard: HardServer, fetcher: AiohttpFetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the short way: aiohttp's own is not taken."""
    options = FetchOptions(
        user_agent="me/1", headers=(("X-LAYER", "layer"),), auth=("a", "b"), hosts=OWN, verify=hard.authority
    )
    await fetcher.fetch(PageRequest(hard.url("/set?c=a%3D1%3B%20Path%3D/"), site="one"))
    asks = [
        PageRequest(hard.url("/echo?a=%7Eb"), site="two"),
        PageRequest(hard.url("/echo"), site="one", cookies={"x": "y"}),
        PageRequest(hard.url("/echo"), headers={"X-Mine": "1", "host": "b.a.test"}, options=options),
        PageRequest(hard.secure_url("/echo"), options=options),
        PageRequest(hard.url("/echo"), site="one", cookies={"x": "y"}, headers={"cookie": "m=n"}),
        PageRequest(hard.url("/echo"), site="one", options=FetchOptions(headers=(("Cookie", "k=l"),))),
    ]
    for ask in asks:
        single = AiohttpFetcher(keep_alive=0)
        single.sessions.jars = fetcher.sessions.jars
        try:
            expected = (await head(single, ask._replace(options=ask.options._replace(raw=True)))) + [""]
        finally:
            await single.close()
        await fetcher.fetch(ask._replace(url=ask.url.replace("/echo", "/ok")))
        with monkeypatch.context() as patched:
            patched.setattr(fetcher._session, "_request", None)
            got = await head(fetcher, ask)
        assert [*got, ""] == [line for line in expected if line != "Connection: close"]


async def test_a_fresh_connection_that_breaks_is_not_tried_again_unseen(
    hard: HardServer, fetcher: AiohttpFetcher
) -> None:
    hard.forget()
    for path in ("/reset", "/silent-close"):
        with pytest.raises(FetchError):
            await fetcher.fetch(PageRequest(hard.url(path, "a.test")))
        assert sum(target == path for _, target, _, _ in hard.visits()) == 1


async def test_connections_are_kept_limited_and_given_up(hard: HardServer) -> None:
    fetcher = AiohttpFetcher(concurrency=3)
    hard.forget()
    try:
        await asyncio.gather(*(fetcher.fetch(PageRequest(hard.url("/ok"))) for _ in range(60)))
        numbers = [number for _, target, _, number in hard.visits() if target == "/ok"]
        assert numbers.count(1) <= 3
    finally:
        await fetcher.close()
    single = AiohttpFetcher(keep_alive=0)
    hard.forget()
    try:
        for _ in range(3):
            await single.fetch(PageRequest(hard.url("/ok")))
        assert [number for _, target, _, number in hard.visits() if target == "/ok"] == [1, 1, 1]
    finally:
        await single.close()


async def test_idle_connections_to_many_hosts_are_given_up(hard: HardServer) -> None:
    names = [f"h{number}.test" for number in range(30)]
    fetcher = AiohttpFetcher(idle_hosts=10, resolver=CachingResolver(hosts=dict.fromkeys(names, "127.0.0.1")))
    try:
        for name in names:
            await fetcher.fetch(PageRequest(hard.url("/ok", name)))
        assert len(fetcher._connector._conns) == 10
    finally:
        await fetcher.close()


async def test_a_page_that_has_not_changed_is_an_answer(hard: HardServer, fetcher: AiohttpFetcher) -> None:
    first = await fetcher.fetch(PageRequest(hard.url("/version")))
    known = validators(first.headers)
    assert known == ('"v1"', "Mon, 02 Jan 2023 00:00:00 GMT")
    again = await fetcher.fetch(PageRequest(hard.url("/version"), headers=conditions(known)))
    assert (again.status, again.body) == (304, b"")
    assert validators({"etag": "x" * 600, "last-modified": "caf\u00e9"}) == ("", "")
    assert conditions(validators({})) == {}


async def test_both_directions_as_bytes(hard: HardServer, fetcher: AiohttpFetcher) -> None:
    got: Response = await fetcher.fetch(
        PageRequest(hard.url("/gzip"), "GET", {"X-Mine": "1"}, options=FetchOptions(raw=True))
    )
    assert got.body == PAGE
    assert got.raw is not None
    assert got.sent is not None
    assert got.raw.startswith(
        b"HTTP/1.1 200 Whatever\r\nContent-Type: text/html; charset=utf-8\r\nContent-Encoding: gzip\r\n"
    )
    assert got.raw.partition(b"\r\n\r\n")[2].startswith(b"\x1f\x8b")
    assert got.sent.startswith(b"GET /gzip HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"\r\nX-Mine: 1\r\n" in got.sent
    assert got.sent.endswith(b"\r\n\r\n")
    plain = await fetcher.fetch(PageRequest(hard.url("/chunked"), options=FetchOptions(raw=True)))
    assert plain.raw is not None
    assert plain.raw.endswith(b"\r\n\r\n" + PAGE)
    assert b"\r\nTransfer-Encoding" not in plain.raw
    assert b"X-Archive-Orig-Transfer-Encoding: chunked" in plain.raw
