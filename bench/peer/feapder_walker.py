"""feapder, in memory or with redis: follows every link. It gives no items: those of feapder go to a database or nowhere.

Run by an interpreter of its own (scripts/peers.sh): python bench/peer/feapder_walker.py URL CONCURRENT [HOST:PORT]
"""

import sys
from collections.abc import Iterator
from typing import Any, ClassVar

import feapder

URL, CONCURRENT = sys.argv[1], int(sys.argv[2])
SERVER = sys.argv[3] if len(sys.argv) > 3 else ""
COMMON: dict[str, Any] = {
    "SPIDER_THREAD_COUNT": CONCURRENT,
    "REQUEST_FILTER_ENABLE": True,
    "LOG_LEVEL": "ERROR",
    "RANDOM_HEADERS": False,
    "USE_SESSION": True,
    "SPIDER_MAX_RETRY_TIMES": 3,
}


class Walking:
    def start_requests(self) -> Iterator[Any]:
        yield feapder.Request(URL)

    def parse(self, request: Any, response: Any) -> Iterator[Any]:
        for link in response.xpath("//a/@href").extract():
            yield feapder.Request(link)


class InMemory(Walking, feapder.AirSpider):  # type: ignore[misc]
    # 4: a set of this process.
    __custom_setting__: ClassVar = {**COMMON, "REQUEST_FILTER_SETTING": {"filter_type": 4}}


class WithRedis(Walking, feapder.Spider):  # type: ignore[misc]
    # 3: a sorted set on the server, the kind that does not forget a page and does not invent one.
    __custom_setting__: ClassVar = {
        **COMMON,
        "REDISDB_IP_PORTS": SERVER,
        "REDISDB_DB": 0,
        "REQUEST_FILTER_SETTING": {"filter_type": 3, "expire_time": 2592000},
    }


if __name__ == "__main__":
    if SERVER:
        WithRedis(redis_key="bench:walker").start()
    else:
        InMemory().start()
