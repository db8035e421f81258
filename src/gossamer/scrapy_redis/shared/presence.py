"""Which workers share a key, so that one that ends does not clear up what others still use."""

from __future__ import annotations

import secrets
import time

from gossamer.scrapy_redis.connection import Client

STAY_SECONDS = 10.0
GONE_SECONDS = 120

# KEYS    1: sorted set of workers by when they were last heard of
# ARGV    1: the worker; 2: stay or leave; 3: seconds after which a silent one has gone
# Returns how many others are there
SCRIPT = """
local now = tonumber(redis.call('TIME')[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - tonumber(ARGV[3]))
redis.call('ZREM', KEYS[1], ARGV[1])
local others = redis.call('ZCARD', KEYS[1])
if ARGV[2] == 'stay' then
  redis.call('ZADD', KEYS[1], now, ARGV[1])
  redis.call('EXPIRE', KEYS[1], 86400)
end
return others
"""


class Presence:
    """This worker among those of `key`. Workers of scrapy-redis itself are not known here."""

    def __init__(self, server: Client, key: str) -> None:
        # Not beside the project's own keys, which may be called anything.
        self._server, self._key = server, f"gossamer:workers-of:{key}"
        self._name = secrets.token_hex(8)
        self._told = -STAY_SECONDS

    def stay(self) -> int | None:
        """Be heard of, if it is time to; to be called often. How many others there are, None if it was not asked."""
        now = time.monotonic()
        if now - self._told < STAY_SECONDS:
            return None
        self._told = now
        return self._ask("stay")

    def leave(self) -> bool:
        """Leave; True if no worker is left."""
        return self._ask("leave") == 0

    def _ask(self, what: str) -> int:
        return int(self._server.eval(SCRIPT, 1, self._key, self._name, what, GONE_SECONDS))
