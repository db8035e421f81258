"""The keys of an instance, read from Redis or from SSDB. Nothing is changed there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Protocol, Self

from gossamer.errors import FrontierError, SourceUnreadable
from gossamer.frontier.connection import reach
from gossamer.migrate.neocrawler.state.instance import Instance, InstanceDatabase
from gossamer.migrate.neocrawler.state.ssdb import SsdbClient

PAGE = 500
LAST = "\x7f"
"""Behind every name of NEOCrawler's in SSDB's order of names."""
INFO = re.compile(r"[0-9a-f]{32}")
"""The name of what is known of a URL: the MD5 of the URL."""
RULES, QUEUE, LIBRARY, FAILED, STUCK = "driller:", "queue:scheduled:all", "urllib:", "fail:", "stuck:"
Hash = dict[str, str]


class Keys(Protocol):
    """One database of an instance. Names come in no certain order, some perhaps twice."""

    def hashes(self, prefix: str) -> Iterator[tuple[str, Hash]]: ...
    def names(self, kind: str, prefix: str) -> Iterator[str]: ...
    def listed(self, name: str) -> Iterator[str]: ...
    def ranked(self, name: str) -> Iterator[tuple[str, float]]: ...
    def close(self) -> None: ...


class RedisKeys:
    """`kind` of names is list or zset."""

    def __init__(self, place: InstanceDatabase, seconds: float) -> None:
        self._place = place
        self._connection = reach(place.redis_url, seconds)

    def _run(self, *command: Any) -> Any:
        return self._connection.execute(*command)

    def _kinds(self, names: list[bytes]) -> list[str]:
        found = self._connection.execute_together(*(("TYPE", name) for name in names)) if names else []
        return [_text(one) for one in found]

    def _named(self, kind: str, prefix: str) -> Iterator[list[bytes]]:
        pattern = re.sub(r"([*?\[\]\\])", r"\\\1", prefix) + "*"
        cursor: Any = b"0"
        while True:
            cursor, names = self._run("SCAN", cursor, "MATCH", pattern, "COUNT", PAGE)
            yield [name for name, one in zip(names, self._kinds(names), strict=True) if one == kind]
            if int(cursor) == 0:
                return

    def hashes(self, prefix: str) -> Iterator[tuple[str, Hash]]:
        for names in self._named("hash", prefix):
            found = self._connection.execute_together(*(("HGETALL", name) for name in names)) if names else []
            for name, flat in zip(names, found, strict=True):
                if isinstance(flat, FrontierError):
                    raise SourceUnreadable(f"{self._place.url}: {_text(name)} cannot be read: {flat}")
                yield _text(name), _pairs(flat)

    def names(self, kind: str, prefix: str) -> Iterator[str]:
        for names in self._named(kind, prefix):
            yield from map(_text, names)

    def listed(self, name: str) -> Iterator[str]:
        at = 0
        while rows := self._run("LRANGE", name, at, at + PAGE - 1):
            yield from map(_text, rows)
            at += len(rows)

    def ranked(self, name: str) -> Iterator[tuple[str, float]]:
        at = 0
        while rows := self._run("ZRANGE", name, at, at + PAGE - 1, "WITHSCORES"):
            yield from ((_text(rows[i]), float(rows[i + 1])) for i in range(0, len(rows), 2))
            at += len(rows) // 2

    def close(self) -> None:
        self._connection.close()


class SsdbKeys:
    """SSDB keeps hashes, lists and sorted sets apart, each in the order of their names. `ask` sends a request and returns its answer."""

    def __init__(self, ask: Callable[..., list[bytes]], close: Callable[[], None]) -> None:
        self._ask, self.close = ask, close

    @classmethod
    def open(cls, place: InstanceDatabase, seconds: float) -> Self:
        client = SsdbClient(place.host, place.port, seconds, place.password)
        return cls(client.ask, client.close)

    def _all(self, command: str, prefix: str) -> Iterator[str]:
        after = prefix.encode()
        while names := self._ask(command, after, prefix + LAST, PAGE):
            # SSDB begins after the name that is given; some of its forks begin with it.
            names = names[1:] if names[0] == after else names
            if not names:
                return
            yield from map(_text, names)
            after = names[-1]

    def hashes(self, prefix: str) -> Iterator[tuple[str, Hash]]:
        for name in self._all("hlist", prefix):
            yield name, _pairs(self._ask("hscan", name, "", "", PAGE))

    def names(self, kind: str, prefix: str) -> Iterator[str]:
        return self._all("qlist" if kind == "list" else "zlist", prefix)

    def listed(self, name: str) -> Iterator[str]:
        at = 0
        while rows := self._ask("qslice", name, at, at + PAGE - 1):
            yield from map(_text, rows)
            at += len(rows)
        # A slice ends at the first member that is missing: a list with a hole would seem to be short.
        if at < (size := int((self._ask("qsize", name) or [b"0"])[0])):
            raise SourceUnreadable(
                f"SSDB's list {name} has {size:,} members, and only the first {at:,} can be read: it is damaged, or a process still takes from it. Stop the instance, and have SSDB repair the list (qfix)."
            )

    def ranked(self, name: str) -> Iterator[tuple[str, float]]:
        at = 0
        while rows := self._ask("zrange", name, at, PAGE):
            yield from ((_text(rows[i]), float(rows[i + 1])) for i in range(0, len(rows), 2))
            at += len(rows) // 2


class InstanceKeys:
    """All databases of an instance, open."""

    def __init__(self, instance: Instance, seconds: float) -> None:
        self.instance = instance
        self._stack = ExitStack()
        make: Callable[[InstanceDatabase, float], Keys] = SsdbKeys.open if instance.ssdb else RedisKeys
        try:
            self.rules, self.urls, self.reports = (self._opened(make, place, seconds) for place in instance[:3])
        except FrontierError as error:
            self._stack.close()
            raise SourceUnreadable(f"The instance cannot be read: {error}") from None
        except BaseException:
            self._stack.close()
            raise

    def _opened(self, make: Callable[[InstanceDatabase, float], Keys], place: Any, seconds: float) -> Keys:
        keys = make(place, seconds)
        self._stack.callback(keys.close)
        return keys

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def _text(data: Any) -> str:
    return data.decode("utf-8", "replace") if isinstance(data, bytes) else str(data)


def _pairs(flat: Any) -> Hash:
    pairs = flat.items() if isinstance(flat, dict) else zip(flat[::2], flat[1::2], strict=True)
    return {_text(name): _text(value) for name, value in pairs}
