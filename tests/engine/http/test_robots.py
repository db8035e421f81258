from __future__ import annotations

import asyncio

import pytest
from tests.support.hard_server.server import HardServer

from gossamer.engine.http.aiohttp_fetcher import AiohttpFetcher
from gossamer.engine.http.robots import ALLOWED, FORBIDDEN, KEPT, KEPT_WITHOUT, LONGEST_AGAIN, Robots, RobotsVerdict
from gossamer.model.fetch import AGENT, FetchError
from gossamer.model.page import PageRequest, Response


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Watched:
    """Robots on the hard server, with what it asked for and which delays it reported."""

    def __init__(self, hard: HardServer, fetcher: AiohttpFetcher) -> None:
        self.hard, self.clock = hard, Clock()
        self.asked: list[str] = []
        self.delays: list[tuple[str, float]] = []
        self._fetcher = fetcher
        self.robots = Robots(self._fetch, self._tell, clock=self.clock)

    async def _tell(self, host: str, seconds: float) -> None:
        await asyncio.sleep(0)
        self.delays.append((host, seconds))

    async def _fetch(self, request: PageRequest) -> Response:
        self.asked.append(request.url)
        return await self._fetcher.fetch(request)

    async def says(self, host: str, path: str, agent: str = AGENT) -> RobotsVerdict:
        return await self.robots.ask(self.hard.url(path, host), agent)


@pytest.fixture
def watched(hard: HardServer, fetcher: AiohttpFetcher) -> Watched:
    return Watched(hard, fetcher)


async def test_rules_by_agent(watched: Watched) -> None:
    assert await watched.says("some.test", "/private") == ALLOWED
    assert await watched.says("some.test", "/secret/x") == FORBIDDEN
    assert await watched.says("some.test", "/private", "Other/1") == FORBIDDEN
    assert await watched.says("some.test", "/secret", "Other/1") == ALLOWED
    host = f"some.test:{watched.hard.ports['http']}"
    assert watched.asked == [f"http://{host}/robots.txt"]
    assert watched.delays == [(host, 2.0)]


async def test_a_delay_is_told_again_to_whoever_may_have_forgotten_it(watched: Watched) -> None:
    """Until that is done nothing is known of its host; the file is not fetched again."""
    page, plain = watched.hard.url("/private", "some.test"), watched.hard.url("/", "none.test")
    await watched.robots.ask(page, AGENT)
    await watched.robots.ask(plain, AGENT)
    asked, delays = len(watched.asked), list(watched.delays)
    watched.robots.rolled_back()
    assert watched.robots.known(page, AGENT) is None
    assert watched.robots.known(plain, AGENT) == ALLOWED
    first, second = await asyncio.gather(watched.robots.ask(page, AGENT), watched.robots.ask(page, AGENT))
    assert first == second == watched.robots.known(page, AGENT) == ALLOWED
    assert watched.delays == [*delays, delays[0]]
    assert len(watched.asked) == asked


@pytest.mark.parametrize("host", ["none.test", "forbidden.test", "garbage.test", "looped.test"])
async def test_no_file_forbids_nothing(watched: Watched, host: str) -> None:
    assert await watched.says(host, "/anything") == ALLOWED


@pytest.mark.parametrize("host", ["broken.test", "busy.test"])
async def test_a_file_that_cannot_be_had_forbids_everything_for_a_while(watched: Watched, host: str) -> None:
    assert await watched.says(host, "/anything") == RobotsVerdict(False, KEPT_WITHOUT)
    watched.clock.now += 100
    assert await watched.says(host, "/anything") == RobotsVerdict(False, KEPT_WITHOUT - 100)
    assert len(watched.asked) == 1
    watched.clock.now += KEPT_WITHOUT
    assert (await watched.says(host, "/anything")).after == KEPT_WITHOUT
    assert len(watched.asked) == 2


async def test_redirects_are_followed_politely(watched: Watched) -> None:
    assert await watched.says("moved.test", "/moved") == FORBIDDEN
    assert [url.rpartition("/")[2] for url in watched.asked] == ["robots.txt", "elsewhere.txt"]


async def test_only_the_beginning_of_a_large_file_counts(watched: Watched) -> None:
    assert await watched.says("large.test", "/private") == FORBIDDEN
    assert await watched.says("large.test", "/late") == ALLOWED


async def test_no_delay_is_longer_than_an_hour(watched: Watched) -> None:
    await watched.says("greedy.test", "/")
    assert watched.delays == [(f"greedy.test:{watched.hard.ports['http']}", 3600.0)]


async def test_a_file_is_asked_for_once_at_a_time_and_once_a_day(watched: Watched) -> None:
    url = watched.hard.url("/secret", "some.test")
    assert watched.robots.known(url, AGENT) is None
    words = await asyncio.gather(*(watched.says("some.test", "/secret") for _ in range(50)))
    assert words == [FORBIDDEN] * 50
    assert watched.robots.known(url, AGENT) == FORBIDDEN
    assert len(watched.asked) == 1
    watched.clock.now += KEPT - 1
    assert watched.robots.known(url, AGENT) == FORBIDDEN
    watched.clock.now += 2
    assert watched.robots.known(url, AGENT) is None
    await watched.says("some.test", "/secret")
    assert len(watched.asked) == 2


async def test_who_gives_up_waiting_harms_nobody_and_memory_is_bounded() -> None:
    go_on, asked = asyncio.Event(), list[str]()

    async def fetch(ask: PageRequest) -> Response:
        asked.append(ask.url)
        await go_on.wait()
        return Response(ask.url, 200, {}, b"User-agent: *\nDisallow: /x\n")

    robots = Robots(fetch, most=3)
    waiting = [asyncio.create_task(robots.ask("http://a.test/x", "me")) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.wait([waiting[0]])
    go_on.set()
    assert await asyncio.gather(*waiting[1:]) == [FORBIDDEN] * 2
    for number in range(9):
        assert await robots.ask(f"http://h{number}.test/x", "me") == FORBIDDEN
    assert len(robots._known) == 3
    assert len(asked) == 10
    # Schemes, ports and users make a difference, or none.
    await robots.ask("https://H8.test/x", "me")
    await robots.ask("http://me:pw@h8.test/x", "me")
    assert asked[10:] == ["https://h8.test/robots.txt"]


async def test_a_close_while_waiting() -> None:
    async def never(ask: PageRequest) -> Response:
        await asyncio.Event().wait()
        raise AssertionError

    robots = Robots(never)
    waiting = asyncio.create_task(robots.ask("http://a.test/", "me"))
    await asyncio.sleep(0)
    await robots.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_connection_that_broke_is_tried_again_soon_and_then_less_and_less_often() -> None:
    clock, asked = Clock(), list[float]()

    async def broken(ask: PageRequest) -> Response:
        asked.append(clock.now)
        if len(asked) < 10:
            raise FetchError("reset", "the connection was closed")
        return Response(ask.url, 404, {}, b"")

    robots = Robots(broken, clock=clock)
    waits = []
    while not (word := await robots.ask("http://a.test/x", "me")).allowed:
        waits.append(word.after)
        clock.now += word.after + 0.001
    assert waits[:3] == pytest.approx([5.0, 10.0, 20.0])
    assert waits[-1] == pytest.approx(LONGEST_AGAIN)
    assert len(asked) == 10


@pytest.mark.parametrize(
    "wall",
    [
        Response("http://a.test/robots.txt", 403, {"cf-mitigated": "challenge"}, b"<title>Just a moment...</title>"),
        Response("http://a.test/robots.txt", 200, {"cf-mitigated": "challenge"}, b"<title>Just a moment...</title>"),
        Response("http://a.test/robots.txt", 302, {"location": "/cdn-cgi/challenge-platform/x"}, b""),
    ],
    ids=["status", "header", "redirect"],
)
async def test_a_wall_in_its_place_allows_nothing_until_the_file_can_be_read(wall: Response) -> None:
    clock = Clock()
    walls = [wall]

    async def fetch(request: PageRequest) -> Response:
        if "cdn-cgi" in request.url:
            return Response(request.url, 200, {}, b"<title>Just a moment...</title>")
        return walls.pop() if walls else Response(request.url, 200, {}, b"User-agent: *\nDisallow: /private")

    robots = Robots(fetch, clock=clock)
    assert await robots.ask("http://a.test/private", AGENT) == RobotsVerdict(False, KEPT_WITHOUT)
    clock.now += KEPT_WITHOUT
    assert await robots.ask("http://a.test/private", AGENT) == FORBIDDEN
    assert await robots.ask("http://a.test/", AGENT) == ALLOWED
