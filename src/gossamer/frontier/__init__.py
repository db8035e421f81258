"""The shared state of a crawl: what to fetch, what is being fetched, what was seen."""

from gossamer.frontier.contract import Frontier
from gossamer.frontier.seen.memory import ValkeyMemory
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.frontier.valkey_async import AsyncValkeyFrontier

__all__ = ["AsyncValkeyFrontier", "Frontier", "ValkeyFrontier", "ValkeyMemory"]
