"""Page records: read, and moved into the queues when they are due. Generators without I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gossamer.errors import PolicyError
from gossamer.frontier.call import Verb, function_call, read, text
from gossamer.frontier.server import keys
from gossamer.frontier.verbs.work.batch import RequestChecker, entry_of
from gossamer.model import LaneFeed, PageEvent, PageInfo, PageState, RequestPlace
from gossamer.model.plan.page_record import FeedLane

STATES = (
    PageState.FOUND, PageState.SCHEDULED, PageState.FINISHED, PageState.FAILED, PageState.GONE,
)  # fmt: skip
"""As the server numbers them, from 1 on."""
EVENTS = (
    PageEvent.FOUND, PageEvent.DUE, PageEvent.SIGHTED, PageEvent.READ, PageEvent.CHANGED, PageEvent.UNCHANGED, PageEvent.MISSING,
    PageEvent.FAILED, PageEvent.REPLACED, PageEvent.DROPPED,
)  # fmt: skip
EVENT_BYTES = 5
CALL_PAGES = 1000
LOOK = 10_000
"""Requests of each kind that `locate` looks at."""


class PageRecordVerbs:
    """Builds and reads the calls about page records of one crawl."""

    def __init__(self, crawl: str, partitions: int, checked: RequestChecker) -> None:
        self.checked = checked
        self.bases = [keys.base(crawl, p) for p in range(partitions)]

    def feed(
        self,
        partition: int,
        lanes: Sequence[FeedLane],
        *,
        term: int = 0,
        log: tuple[int, int] | None = None,
    ) -> Verb[list[LaneFeed]]:
        rows = [[lane, most, -1 if limit is None else limit, *due] for lane, most, limit, *due in lanes]
        header = {"term": term, "lanes": rows, **({} if log is None else {"log": log})}
        [reply] = yield [function_call("feed", self._base(partition), header)]
        return [LaneFeed(*row) for row in read(reply)[1]]

    def page_records(self, lane: str, fingerprints: Sequence[int]) -> Verb[list[PageInfo | None]]:
        entries = [entry_of(self.checked.fingerprint(fp)) for fp in fingerprints]
        found: list[PageInfo | None] = [None] * len(entries)
        for first in range(0, len(entries), CALL_PAGES):
            header = {"lane": lane, "fps": entries[first : first + CALL_PAGES]}
            replies = yield [function_call("page", base, header) for base in self.bases]
            for partition, (told, *records) in enumerate(replies):
                for place, (head, record) in enumerate(zip(read(told)[1], records, strict=True), first):
                    if head:
                        found[place] = page_info(partition, head, record)
        return found

    def scan_page_records(
        self, lane: str, partition: int, cursor: str = "0", limit: int = 500, state: PageState | None = None
    ) -> Verb[tuple[str, list[PageInfo]]]:
        header = {"lane": lane, "cursor": cursor, "limit": limit, "state": state.value if state else ""}
        [(told, *records)] = yield [function_call("pages", self._base(partition), header)]
        cursor, _, heads = read(told)
        return text(cursor), [page_info(partition, head, record) for head, record in zip(heads, records, strict=True)]

    def locate(
        self, lane: str, host: str, fingerprint: int, *, dead_since: float | None = None, look: int = LOOK
    ) -> Verb[RequestPlace]:
        partition = keys.partition_of(host, len(self.bases))
        header: dict[str, Any] = {
            "lane": lane, "host": host, "fp": entry_of(self.checked.fingerprint(fingerprint)), "look": look,
        }  # fmt: skip
        if dead_since is not None:
            header["since"] = -1 if dead_since < 0 else int(dead_since * 1000)
        [reply] = yield [function_call("locate", self._base(partition), header)]
        _, state, priority, ahead, at, worker, queued, whole, letter = read(reply)
        return RequestPlace(partition, state, int(priority), ahead, at / 1000, worker, queued, bool(whole), letter)

    def _base(self, partition: int) -> str:
        if not 0 <= partition < len(self.bases):
            raise PolicyError(f"partition {partition} does not exist; this crawl has {len(self.bases)}.")
        return self.bases[partition]


def page_info(partition: int, head: Sequence[Any], record: bytes) -> PageInfo:
    (
        lane, name, state, first, last, since, interval, version, status, signature, changes, misses, priority, trail, host, due,
    ) = head  # fmt: skip
    events = bytes.fromhex(trail)
    return PageInfo(
        partition, lane, int(name, 16), STATES[state - 1], first / 1000, last / 1000, since / 1000, due / 1000, interval / 1000, version,
        status, int(signature, 16), changes, misses, priority, host,
        tuple(
            (EVENTS[events[at] - 1], float(int.from_bytes(events[at + 1 : at + EVENT_BYTES], "big")))
            for at in range(0, len(events), EVENT_BYTES)
        ),
        record[9:],
    )  # fmt: skip
