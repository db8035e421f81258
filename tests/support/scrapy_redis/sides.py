"""scrapy-redis and our stand-in, addressed in the same way, so that one assertion holds both to it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import redis
from scrapy import Request, Spider, version_info
from scrapy.utils.test import get_crawler

from gossamer.testing.servers import Server

if version_info < (2, 14):
    # Its `get_crawler` asks which reactor there is.
    import twisted.internet.reactor  # noqa: F401

SIDES = ("scrapy_redis", "gossamer.scrapy_redis")
_HANDSHAKE = ("HELLO", "CLIENT", "SELECT", "AUTH", "ECHO", "PING")


class Sample(Spider):
    """A spider with a callback to find again."""

    name = "sample"

    def parse_it(self, response: Any) -> None: ...


def module(side: str, name: str) -> ModuleType:
    return importlib.import_module(f"{side}.{name}")


def client(server: Server, **more: Any) -> Any:
    return redis.Redis(host="127.0.0.1", port=server.port, **more)


def spider(name: str, settings: dict[str, Any] | None = None) -> Any:
    """A spider of its own name, with a crawler as Scrapy gives it one."""
    crawler = get_crawler(Sample, settings)
    made = Sample.from_crawler(crawler, name=name)
    crawler.spider = made
    return made


def request(url: str = "http://site/", **more: Any) -> Request:
    return Request(url, **more)


@contextmanager
def watched(server: Server) -> Iterator[Callable[[], list[str]]]:
    """What clients ask of a server, as MONITOR shows it; call what it gives to get the commands since the last call."""
    with client(server) as watcher, watcher.monitor() as monitor, client(server) as speaker:
        numbers = iter(range(1000))

        def since() -> list[str]:
            mark = f"mark-{next(numbers)}"
            speaker.echo(mark)
            seen: list[str] = []
            while True:
                command = str(monitor.next_command()["command"])
                if mark in command:
                    return seen
                if not command.upper().startswith(_HANDSHAKE):
                    seen.append(command)

        yield since
