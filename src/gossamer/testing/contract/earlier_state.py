"""Partitions that go back: to what they held earlier, to another server process, to lanes defined one by one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from secrets import token_hex

from gossamer.frontier.call import function_call
from gossamer.frontier.server import keys
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.frontier.verbs.control.tables import lane_table
from gossamer.model import GroupPolicy, LanePolicy
from gossamer.testing.contract.crawl import Crawl

Picture = dict[str, bytes]


def picture(crawl: Crawl, partition: int = 0) -> Picture:
    """All that a partition has now."""
    base = keys.base(crawl.frontier.crawl, partition)
    found = [key.decode() for key in crawl.command(("KEYS", f"{base}*"), base)]
    dumped = {key: crawl.command(("DUMP", key), key) for key in found}
    return {key: value for key, value in dumped.items() if value is not None}  # some keys expire


def go_back(crawl: Crawl, earlier: Picture, partition: int = 0) -> None:
    """Let a partition have what it had earlier, and nothing else."""
    for key in picture(crawl, partition):
        crawl.command(("DEL", key), key)
    for key, value in earlier.items():
        crawl.command(("RESTORE", key, 0, value), key)


def another_process(crawl: Crawl, partition: int = 0) -> None:
    """As if what is there had been written by a server process that is gone."""
    key = keys.base(crawl.frontier.crawl, partition) + keys.SUFFIXES["meta"]
    crawl.command(("HSET", key, "run", "another"), key)


def define_apart(crawl: Crawl, group: str, lanes: Mapping[str, LanePolicy], partitions: Iterable[int]) -> None:
    """Define lanes on these partitions one by one, as workers that start at once do: each lane has another birth on each partition."""
    tables = {name: lane_table(policy) for name, policy in lanes.items()}
    for p in partitions:
        header = {"salt": token_hex(8), "group": group, "policy": False, "fresh": {}, "lanes": tables, "home": False}
        crawl.frontier.ask([function_call("define", keys.base(crawl.frontier.crawl, p), header)])  # type: ignore[attr-defined]


def forget_politeness(frontier: ValkeyFrontier, group: str, host: str) -> None:
    """As if the server had been replaced by one that had not heard yet what a worker of this group said when it started, nor what the
    robots.txt of a host asks for."""
    frontier.pause(host=host)
    frontier.set_crawl_delay(host, 0)
    frontier.define(group, {}, GroupPolicy(start=True))
    key = keys.meta(frontier.crawl)
    frontier.connection.execute("HSET", key, "run", "another", key=key)
    frontier.resume(host=host)
