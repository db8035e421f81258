"""The two sides: Gossamer's frontier, and the scheduler of scrapy-redis, behind the same four pieces of work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import scrapy
from bench.storage.workload import FIELDS
from scrapy.utils.request import fingerprint as scrapy_fingerprint
from scrapy.utils.request import request_from_dict
from scrapy_redis.connection import get_redis
from scrapy_redis.dupefilter import RFPDupeFilter
from scrapy_redis.scheduler import Scheduler

from gossamer.frontier.codec import decode_request, encode_request
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import (
    Feedback,
    HostPolicy,
    HostVerdict,
    LanePolicy,
    Request,
    Settlement,
    Token,
    fingerprint,
    host_of,
)
from gossamer.settings import load

GROUP, LANE = "forum", "forum.post"
ADD_BATCH = 100
EMPTY_MAX = 10_000


class Forum(scrapy.Spider):
    name = "forum"

    def parse_post(self, response: Any) -> None:
        """Callbacks are stored by name."""


class Peer(Protocol):
    """One client of one side. `ready` makes what the work starts from and is not measured."""

    def ready(self, urls: Sequence[str]) -> list[Any]: ...

    def add(self, requests: Sequence[Any]) -> int:
        """How many of them were new."""

    def drain(self, count: int) -> None:
        """Take so many and end them."""

    def crawl(self, pages: Sequence[Sequence[Any]]) -> None:
        """Take a request, add the links of its page and end it, for every page."""

    def close(self) -> None: ...


def scrapy_request(url: str, spider: Forum) -> scrapy.Request:
    return scrapy.Request(url, callback=spider.parse_post, meta={"depth": 3})


class ScrapyRedis:
    """scrapy-redis as its own scheduler uses it: one request at a time, from and to Scrapy's requests."""

    def __init__(self, url: str, batch: int = 1) -> None:
        self.spider = Forum()
        self.server = get_redis(url=url, socket_timeout=30, retry_on_timeout=True, encoding="utf-8")
        self.scheduler = Scheduler(
            self.server, persist=True, dupefilter=RFPDupeFilter(self.server, f"{self.spider.name}:dupefilter")
        )
        self.scheduler.open(self.spider)

    def ready(self, urls: Sequence[str]) -> list[Any]:
        return [scrapy_request(url, self.spider) for url in urls]

    def add(self, requests: Sequence[Any]) -> int:
        enqueue = self.scheduler.enqueue_request
        return sum(1 for request in requests if enqueue(request))

    def queue(self, requests: Sequence[Any]) -> None:
        """Without asking whether they were seen."""
        for request in requests:
            self.scheduler.queue.push(request)

    def drain(self, count: int) -> None:
        for _ in range(count):
            if self.scheduler.next_request() is None:
                raise RuntimeError("the queue of scrapy-redis ran empty")

    def crawl(self, pages: Sequence[Sequence[Any]]) -> None:
        for links in pages:
            self.drain(1)
            self.add(links)

    def close(self) -> None:
        self.server.close()


class Gossamer:
    """The frontier, from URLs and to the fields of requests, with the fingerprint of `gossamer.model`."""

    feedback: Feedback | None = None

    def __init__(self, url: str, batch: int = 64, crawl: str = "bench", host: HostPolicy | None = None) -> None:
        self.batch = batch
        self.frontier = ValkeyFrontier.open(load({"GOSSAMER_URL": url, "GOSSAMER_CRAWL": crawl}), host=host)
        self.frontier.define(GROUP, {"post": LanePolicy()})
        self.token = Token.fresh()

    def ready(self, urls: Sequence[str]) -> list[Any]:
        return list(urls)

    def request(self, given: Any) -> Request:
        return Request(fingerprint(given), host_of(given), LANE, encode_request(FIELDS | {"url": given}))

    def take(self, payload: bytes) -> Any:
        return decode_request(payload)

    def add(self, requests: Sequence[Any]) -> int:
        new = 0
        for first in range(0, len(requests), ADD_BATCH):
            outcomes, _, _ = self.frontier.add([self.request(one) for one in requests[first : first + ADD_BATCH]])
            new += sum(1 for outcome in outcomes if outcome.value == "a")
        return new

    def queue(self, requests: Sequence[Any]) -> None:
        """Without asking whether they were seen."""
        for first in range(0, len(requests), ADD_BATCH):
            batch = [self.request(one)._replace(dont_filter=True) for one in requests[first : first + ADD_BATCH]]
            self.frontier.add(batch)

    def drain(self, count: int) -> None:
        self._work(count, None)

    def crawl(self, pages: Sequence[Sequence[Any]]) -> None:
        self._work(len(pages), pages)

    def _work(self, count: int, pages: Sequence[Sequence[Any]] | None) -> None:
        settle: list[Settlement] = []
        sent: list[Settlement] = []
        done = empty = 0
        while done < count or settle or sent:
            answer = self.frontier.exchange(
                self.token, settle=settle, sent=[one.lease for one in sent], want=min(self.batch, count - done)
            )
            self.token = self.token.next()
            taken = []
            for lease in answer.leases:
                self.take(lease.payload)
                links = () if pages is None else [self.request(link) for link in pages[done]]
                taken.append(Settlement(lease, add=links, feedback=self.feedback))
                done += 1
            settle, sent = (sent, taken) if self.feedback else (taken, sent)
            empty = 0 if answer.leases else empty + 1
            if empty > EMPTY_MAX:
                raise RuntimeError(f"nothing could be leased: {answer.hints}")

    def close(self) -> None:
        self.frontier.close()


class GossamerTelling(Gossamer):
    """The same, but told everything a worker can tell: each lease when it was sent, and how its host answered."""

    feedback = Feedback(HostVerdict.OK, latency=0.2)


class GossamerScrapyFingerprint(Gossamer):
    """The same with Scrapy's own fingerprint, which needs Scrapy's request (made beforehand)."""

    def ready(self, urls: Sequence[str]) -> list[Any]:
        spider = Forum()
        return [scrapy_request(url, spider) for url in urls]

    def request(self, given: Any) -> Request:
        url = given.url
        number = int.from_bytes(scrapy_fingerprint(given)[:8], "big")
        return Request(number, host_of(url), LANE, encode_request(FIELDS | {"url": url}))


class GossamerScrapy(Gossamer):
    """From and to Scrapy's requests, with Scrapy's fingerprint: what a worker inside Scrapy does without fast paths."""

    def __init__(self, url: str, batch: int = 64, crawl: str = "bench", host: HostPolicy | None = None) -> None:
        super().__init__(url, batch, crawl, host)
        self.spider = Forum()

    def ready(self, urls: Sequence[str]) -> list[Any]:
        return [scrapy_request(url, self.spider) for url in urls]

    def request(self, given: Any) -> Request:
        number = int.from_bytes(scrapy_fingerprint(given)[:8], "big")
        return Request(number, host_of(given.url), LANE, encode_request(given.to_dict(spider=self.spider)))

    def take(self, payload: bytes) -> Any:
        return request_from_dict(decode_request(payload), spider=self.spider)


PEERS: dict[str, type[Any]] = {
    "scrapy-redis": ScrapyRedis,
    "gossamer": Gossamer,
    "gossamer, reports sent and answered": GossamerTelling,
    "gossamer, Scrapy's fingerprint": GossamerScrapyFingerprint,
    "gossamer, Scrapy's requests": GossamerScrapy,
}
