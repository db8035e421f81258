"""Servers that misbehave: each fault has its stated reason, over plain connections and over TLS."""

from __future__ import annotations

import asyncio
import socket

import pytest
from tests.support.hard_server.server import CASES, PAGE, Case, HardServer

from gossamer.engine.http.aiohttp_fetcher import AiohttpFetcher
from gossamer.engine.http.connection.dns import CachingResolver
from gossamer.model.fetch import REASONS, FetchError, FetchOptions
from gossamer.model.page import PageRequest, Response

EASY = FetchOptions(timeout=30, connect_timeout=10, stall_timeout=20, max_size=1_000_000)
NOT_AGAIN = {
    "/compress",
    "/huge",
    "/endless",
    "/endless-plain",
    "/bomb",
    "/bomb-br",
    "/bomb-zstd",
    "/header/100000",
    "/headers/2000",
}
OWN_BODY = {"/empty", "/echo", "/size/300000", "/nothing", "/loop", "/nowhere", "/hops/3", "/to/303?to=/ok"}


async def outcome(fetcher: AiohttpFetcher, ask: PageRequest) -> Response | FetchError:
    try:
        return await fetcher.fetch(ask)
    except FetchError as error:
        return error


@pytest.mark.parametrize("kept", [False, True], ids=["fresh", "kept"])
@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("case", CASES, ids=[case.path for case in CASES])
async def test_each_fault_has_its_reason(
    hard: HardServer, fetcher: AiohttpFetcher, case: Case, secure: bool, kept: bool
) -> None:
    """Over a connection of its own, and over one that served a page before."""
    url = hard.secure_url(case.path) if secure else hard.url(case.path)
    options = EASY._replace(verify=hard.authority)
    if not case.quick:
        options = options._replace(timeout=1.5, stall_timeout=1.0)
    if kept:
        assert (await fetcher.fetch(PageRequest(url.replace(case.path, "/ok"), options=options))).body == PAGE
    came = await outcome(fetcher, PageRequest(url, options=options))
    if isinstance(case.expect, int):
        assert isinstance(came, Response), came
        assert came.status == case.expect
        assert case.path in OWN_BODY or came.body == PAGE
    else:
        assert isinstance(came, FetchError), came
        assert came.reason == case.expect
        assert came.reason in REASONS
        assert came.retriable == (case.path not in NOT_AGAIN)
        assert came.detail
        assert len(came.detail) < 500
    # The fault stays where it is: the next page is whole.
    assert (await fetcher.fetch(PageRequest(url.replace(case.path, "/ok"), options=options))).body == PAGE


async def test_time_outs_say_what_was_waited_for(hard: HardServer, fetcher: AiohttpFetcher) -> None:
    details = {}
    for path in ("/loris-head", "/loris-body", "/silence", "/stops"):
        with pytest.raises(FetchError) as caught:
            await fetcher.fetch(PageRequest(hard.url(path), options=FetchOptions(timeout=1.5, stall_timeout=1.0)))
        details[path] = caught.value.detail
    assert details["/loris-head"] == details["/loris-body"] == "the response was not complete within 1.5 s (`timeout`)"
    assert details["/silence"] == details["/loris-head"]
    assert details["/stops"] == "the body stood still for 1 s"


async def test_a_host_that_takes_no_connection_is_a_time_out(fetcher: AiohttpFetcher) -> None:
    """A listener whose queue is full: the kernel lets further ones wait."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = []
        try:
            for _ in range(8):
                client = socket.socket()
                client.setblocking(False)
                client.connect_ex(listener.getsockname())
                waiting.append(client)
            with pytest.raises(FetchError, match="no connection within") as caught:
                await fetcher.fetch(
                    PageRequest(
                        f"http://127.0.0.1:{listener.getsockname()[1]}/", options=FetchOptions(connect_timeout=0.5)
                    )
                )
            assert caught.value.reason == "timeout"
        finally:
            for client in waiting:
                client.close()


async def test_nobody_listens(fetcher: AiohttpFetcher) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        came = await outcome(fetcher, PageRequest(f"http://127.0.0.1:{unused.getsockname()[1]}/"))
    assert isinstance(came, FetchError)
    assert (came.reason, came.retriable) == ("connect", True)


@pytest.mark.parametrize(
    ("told", "again"),
    [
        (socket.gaierror(socket.EAI_NONAME, "not known"), False),
        (UnicodeError("label too long"), False),
        (socket.gaierror(socket.EAI_AGAIN, "no answer"), True),
    ],
)
async def test_a_host_that_does_not_exist_or_nobody_can_say(told: Exception, again: bool) -> None:
    def lookup(host: str, family: int) -> list[tuple[int, str]]:
        raise told

    fetcher = AiohttpFetcher(resolver=CachingResolver(lookup=lookup))
    try:
        came = await outcome(fetcher, PageRequest("http://no-such-host.invalid/"))
    finally:
        await fetcher.close()
    assert isinstance(came, FetchError)
    assert (came.reason, came.retriable) == ("dns", again)
    assert "no-such-host.invalid" in came.detail


async def test_an_unknown_authority_is_no_case_for_another_try(hard: HardServer, fetcher: AiohttpFetcher) -> None:
    came = await outcome(fetcher, PageRequest(hard.secure_url("/ok")))
    assert isinstance(came, FetchError)
    assert (came.reason, came.retriable) == ("tls", False)
    assert "request.verify" in came.detail
    assert (await fetcher.fetch(PageRequest(hard.secure_url("/ok"), options=EASY._replace(verify=False)))).body == PAGE
    assert (
        await fetcher.fetch(PageRequest(hard.secure_url("/ok"), options=EASY._replace(verify=hard.authority)))
    ).body == PAGE


async def test_a_certificate_for_another_name_and_an_authority_that_cannot_be_read(
    hard: HardServer, fetcher: AiohttpFetcher
) -> None:
    known = EASY._replace(verify=hard.authority)
    came = await outcome(fetcher, PageRequest(hard.secure_url("/ok", "b.a.test"), options=known))
    assert isinstance(came, FetchError)
    assert (came.reason, came.retriable) == ("tls", False)
    came = await outcome(fetcher, PageRequest(hard.secure_url("/ok"), options=EASY._replace(verify="/no/such/file")))
    assert isinstance(came, FetchError)
    assert (came.reason, came.retriable) == ("tls", False)
    assert "/no/such/file" in came.detail


async def test_tls_spoken_to_a_plain_server(hard: HardServer, fetcher: AiohttpFetcher) -> None:
    """Which waits for the end of what it takes for a request."""
    options = EASY._replace(connect_timeout=0.5)
    came = await outcome(fetcher, PageRequest(hard.url("/ok").replace("http:", "https:"), options=options))
    assert isinstance(came, FetchError)
    assert (came.reason, came.retriable) == ("timeout", True)


async def test_the_limit_counts_for_both_sizes(hard: HardServer, fetcher: AiohttpFetcher) -> None:
    exact = EASY._replace(max_size=len(PAGE))
    for path in ("/ok", "/chunked", "/gzip", "/br", "/zstd", "/deflate", "/gzip-members", "/closed"):
        assert (await fetcher.fetch(PageRequest(hard.url(path), options=exact))).body == PAGE, path
        came = await outcome(fetcher, PageRequest(hard.url(path), options=exact._replace(max_size=len(PAGE) - 1)))
        assert isinstance(came, FetchError), path
        assert (came.reason, came.retriable) == ("too_large", False)
        cut = exact._replace(max_size=len(PAGE) - 1, cut=True)
        assert (await fetcher.fetch(PageRequest(hard.url(path), options=cut))).body == PAGE[:-1], path


async def test_a_larger_header_is_a_matter_of_settings(hard: HardServer) -> None:
    fetcher = AiohttpFetcher(max_header=200_000)
    try:
        got = await fetcher.fetch(PageRequest(hard.url("/header/100000")))
        assert len(got.headers["x-large"]) == 100_000
    finally:
        await fetcher.close()


async def test_whoever_is_cancelled_leaves_nothing_behind(hard: HardServer, fetcher: AiohttpFetcher) -> None:
    asking = [
        asyncio.create_task(fetcher.fetch(PageRequest(hard.url(path))))
        for path in ("/silence", "/stops", "/loris-body") * 5
    ]
    done, _ = await asyncio.wait(asking, timeout=0.5)
    assert not done
    for task in asking:
        task.cancel()
    assert all(isinstance(end, asyncio.CancelledError) for end in await asyncio.gather(*asking, return_exceptions=True))
    assert not fetcher._connector._acquired
    assert not fetcher._connector.fresh
    assert not fetcher._connector.insisting
    assert (await fetcher.fetch(PageRequest(hard.url("/ok")))).body == PAGE
