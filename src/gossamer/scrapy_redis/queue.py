"""The queues of scrapy-redis, for workers that share one with its workers while a fleet is moved.

The same keys, types and commands, and so the same weakness: what a worker has popped is lost when it dies. The
scheduler of this room uses them only when `SCHEDULER_QUEUE_CLASS` asks for one.

Better than the original where an old worker cannot tell: identical requests are all kept, equal priorities are first
in, first out, and clients that decode or speak RESP3 can be used.
"""

from __future__ import annotations

import secrets
import threading
import time
from typing import Any, Protocol

from scrapy import Request, Spider
from scrapy.utils.request import request_from_dict

from gossamer.scrapy.request.objects import ObjectCodec
from gossamer.scrapy.settings import loaded
from gossamer.scrapy_redis import picklecompat
from gossamer.scrapy_redis.connection import Client, undecoded

# How a pickle of the newest protocol begins when it has a frame, which one of a request always has.
_PROTOCOL, _FRAME = b"\x80\x05", b"\x95"
_BYTEARRAY8, _POP = b"\x96", b"0"


class Serializer(Protocol):
    """A module or object that turns plain data into bytes or text and back."""

    def loads(self, s: Any, /) -> Any: ...

    def dumps(self, obj: Any, /) -> Any: ...


class Base:
    """A queue of one spider's requests in `key` of `server`. To be subclassed: `__len__`, `push` and `pop` are missing."""

    decoding: Any = None
    """What was last read, so that it can be kept where reading failed."""

    def __init__(self, server: Client, spider: Spider, key: str, serializer: Serializer | None = None) -> None:
        if serializer is None:
            serializer = picklecompat
        for name in ("loads", "dumps"):
            if not hasattr(serializer, name):
                raise TypeError(f"serializer does not implement '{name}' function: {serializer}")
        self.server = server
        self.spider = spider
        self.key = key % {"spider": spider.name}
        self.serializer = serializer
        self._reader = undecoded(server)
        settings = getattr(getattr(spider, "crawler", None), "settings", None)
        more = loaded(settings)["GOSSAMER_OBJECT_MODULES"] if settings is not None else ""
        self._objects = ObjectCodec.of(spider, more)

    def _encode_request(self, request: Request) -> Any:
        return self._dumps(request.to_dict(spider=self.spider))

    def _dumps(self, fields: dict[str, Any]) -> Any:
        if self.serializer is picklecompat:
            return picklecompat.dumps(fields, self._objects.admits)
        return self.serializer.dumps(fields)

    def _decode_request(self, encoded_request: Any) -> Request:
        self.decoding = encoded_request
        if self.serializer is picklecompat:
            fields = picklecompat.loads(encoded_request, self._objects.make)
        else:
            fields = self.serializer.loads(encoded_request)
        return request_from_dict(fields, spider=self.spider)

    def __len__(self) -> int:
        raise NotImplementedError

    def push(self, request: Request) -> None:
        raise NotImplementedError

    def pop(self, timeout: int = 0) -> Request | None:
        """The next request, or None. Waits up to `timeout` seconds for one, where the queue can."""
        raise NotImplementedError

    def clear(self) -> None:
        """Empty the queue."""
        self.server.delete(self.key)

    def peek(self, first: int, count: int) -> list[bytes]:
        """The next `count` stored requests from a place on, in the order of popping; they stay."""
        raise NotImplementedError

    def remove(self, data: bytes) -> bool:
        """Take a stored request out; False if another worker has."""
        raise NotImplementedError


class _ListQueue(Base):
    def __len__(self) -> int:
        return int(self.server.llen(self.key))

    def push(self, request: Request) -> None:
        self.server.lpush(self.key, self._encode_request(request))

    def _request(self, data: Any) -> Request | None:
        # A blocking pop answers with the key as well: a tuple in RESP2, a list in RESP3.
        if isinstance(data, list | tuple):
            data = data[1]
        return self._decode_request(data) if data else None


class FifoQueue(_ListQueue):
    """First in, first out: a list, pushed on the left and popped on the right."""

    def pop(self, timeout: int = 0) -> Request | None:
        return self._request(self._reader.brpop(self.key, timeout) if timeout > 0 else self._reader.rpop(self.key))

    def peek(self, first: int, count: int) -> list[bytes]:
        return list(reversed(self._reader.lrange(self.key, -first - count, -first - 1)))

    def remove(self, data: bytes) -> bool:
        return bool(self._reader.lrem(self.key, -1, data))


class LifoQueue(_ListQueue):
    """Last in, first out: a list, pushed and popped on the left."""

    def pop(self, timeout: int = 0) -> Request | None:
        return self._request(self._reader.blpop(self.key, timeout) if timeout > 0 else self._reader.lpop(self.key))

    def peek(self, first: int, count: int) -> list[bytes]:
        return list(self._reader.lrange(self.key, first, first + count - 1))

    def remove(self, data: bytes) -> bool:
        return bool(self._reader.lrem(self.key, 1, data))


class PriorityQueue(Base):
    """Higher priorities first: a sorted set of requests scored by their negated priority. Never waits."""

    def __init__(self, server: Client, spider: Spider, key: str, serializer: Serializer | None = None) -> None:
        super().__init__(server, spider, key, serializer)
        self._turns = _Turns()

    def __len__(self) -> int:
        return int(self.server.zcard(self.key))

    def _encode_request(self, request: Request) -> Any:
        # A set keeps equal members once and orders those of equal score by their bytes. So each begins with its turn,
        # in a form that whoever reads it passes over: a key that is no field of a request, or an unused value of a pickle.
        fields = request.to_dict(spider=self.spider)
        turn = next(self._turns)
        if self.serializer is not picklecompat:
            return self.serializer.dumps({"_turn": turn.hex(), **fields})
        data = self._dumps(fields)
        if not data.startswith(_PROTOCOL + _FRAME):
            return data
        # The opcode comes after the one of a frame, so that what an old worker has queued goes first.
        return _PROTOCOL + _BYTEARRAY8 + len(turn).to_bytes(8, "little") + turn + _POP + data[len(_PROTOCOL) :]

    def push(self, request: Request) -> None:
        self.server.execute_command("ZADD", self.key, -request.priority, self._encode_request(request))

    def pop(self, timeout: int = 0) -> Request | None:
        with self._reader.pipeline(transaction=True) as pipe:
            pipe.zrange(self.key, 0, 0)
            pipe.zremrangebyrank(self.key, 0, 0)
            found, _ = pipe.execute()
        return self._decode_request(found[0]) if found else None

    def peek(self, first: int, count: int) -> list[bytes]:
        return list(self._reader.zrange(self.key, first, first + count - 1))

    def remove(self, data: bytes) -> bool:
        return bool(self._reader.zrem(self.key, data))


def can_be_looked_at(queue: Any) -> bool:
    """Whether what a queue pops is what its `peek` shows: not so where a project has a way of its own."""
    return getattr(type(queue), "pop", None) in (FifoQueue.pop, LifoQueue.pop, PriorityQueue.pop)


class _Turns:
    """Ever larger bytes of one length, no two alike in any process: the time, and who gives it."""

    def __init__(self) -> None:
        self._giver = secrets.token_bytes(4)
        self._last = 0
        self._lock = threading.Lock()

    def __next__(self) -> bytes:
        with self._lock:
            self._last = max(self._last + 1, time.time_ns())
            return self._last.to_bytes(8, "big") + self._giver


SpiderQueue = FifoQueue
SpiderStack = LifoQueue
SpiderPriorityQueue = PriorityQueue
