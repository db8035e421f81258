from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from gossamer.engine.http.connection.dns import CachingResolver


class Names:
    """Name servers that can be away, and that count the questions."""

    def __init__(self) -> None:
        self.known = {"a.example": ["192.0.2.1", "192.0.2.2"]}
        self.asked: list[str] = []
        self.away = False
        self.go_on = threading.Event()
        self.go_on.set()

    def __call__(self, host: str, family: int) -> list[tuple[int, str]]:
        self.asked.append(host)
        assert self.go_on.wait(30)
        if self.away or host not in self.known:
            raise socket.gaierror(socket.EAI_NONAME, "nobody knows")
        return [(socket.AF_INET, address) for address in self.known[host]]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def addresses(resolver: CachingResolver, host: str) -> list[str]:
    return [found["host"] for found in await resolver.resolve(host, 80)]


async def test_answers_are_believed_for_a_while() -> None:
    names, clock = Names(), Clock()
    resolver = CachingResolver(kept=300, lookup=names, clock=clock)
    try:
        for _ in range(3):
            assert await addresses(resolver, "a.example") == ["192.0.2.1", "192.0.2.2"]
        assert names.asked == ["a.example"]
        clock.now = 301
        names.known["a.example"] = ["192.0.2.9"]
        assert await addresses(resolver, "a.example") == ["192.0.2.9"]
    finally:
        await resolver.close()


async def test_failures_are_believed_for_a_shorter_while() -> None:
    names, clock = Names(), Clock()
    resolver = CachingResolver(kept_failure=10, lookup=names, clock=clock)
    try:
        for _ in range(3):
            with pytest.raises(OSError, match="nobody knows"):
                await resolver.resolve("b.example")
        assert names.asked == ["b.example"]
        clock.now = 11
        names.known["b.example"] = ["192.0.2.3"]
        assert await addresses(resolver, "b.example") == ["192.0.2.3"]
    finally:
        await resolver.close()


async def test_an_old_answer_is_better_than_none() -> None:
    names, clock = Names(), Clock()
    resolver = CachingResolver(kept=300, kept_failure=10, lookup=names, clock=clock)
    try:
        await resolver.resolve("a.example")
        names.away, clock.now = True, 1000
        assert await addresses(resolver, "a.example") == ["192.0.2.1", "192.0.2.2"]
        clock.now = 1011
        names.away, names.known["a.example"] = False, ["192.0.2.9"]
        assert await addresses(resolver, "a.example") == ["192.0.2.9"]
    finally:
        await resolver.close()


async def test_one_question_for_all_who_wait_and_who_gives_up_harms_nobody() -> None:
    names = Names()
    names.go_on.clear()
    resolver = CachingResolver(lookup=names)
    try:
        waiting = [asyncio.create_task(resolver.resolve("a.example")) for _ in range(20)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.wait([waiting[0]])
        names.go_on.set()
        assert [len(found) for found in await asyncio.gather(*waiting[1:])] == [2] * 19
        assert names.asked == ["a.example"]
    finally:
        await resolver.close()


async def test_memory_is_bounded_and_given_names_need_no_question() -> None:
    names = Names()
    names.known |= {f"h{number}": ["192.0.2.1"] for number in range(50)}
    resolver = CachingResolver(lookup=names, most=10, hosts={"mine.test": "::1"})
    try:
        for number in range(50):
            await resolver.resolve(f"h{number}")
        assert len(resolver._known) == 10
        found = (await resolver.resolve("mine.test", 81))[0]
        assert (found["host"], found["port"], found["family"]) == ("::1", 81, socket.AF_INET6)
        assert "mine.test" not in names.asked
    finally:
        await resolver.close()


async def test_the_systems_own_names() -> None:
    resolver = CachingResolver()
    try:
        assert await addresses(resolver, "localhost") in (["127.0.0.1"], ["127.0.0.1", "127.0.0.1"])
    finally:
        await resolver.close()
