"""A group's items for one reader: from where it stopped, and what it has written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from gossamer.frontier import item_stream
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.items import rows as item_rows

Item = Mapping[str, Any]


class ItemConsumer:
    """Registers a named consumer. `positions` is where it stands, which is the later of what the server and the file (`known`) say: each
    may have missed the other's last word. One without a name ("") holds nothing, and stands where its file says."""

    def __init__(
        self,
        frontier: ValkeyFrontier,
        group: str,
        consumer: str,
        known: Mapping[int, str],
        noticed: Callable[[], None] = lambda: None,
    ) -> None:
        self._frontier, self.group, self.consumer = frontier, group, consumer
        self._noticed = noticed
        partitions = range(frontier.partitions)
        self.waiting = frontier.keep_items(group, consumer, dict.fromkeys(partitions, ""))
        kept = item_stream.consumers(frontier, group).get(consumer, {}) if consumer else {}
        self.positions = {
            p: max(kept.get(p, item_stream.START), known.get(p, item_stream.START), key=item_stream.place)
            for p in partitions
        }
        self.has_begun = any(at != item_stream.START for at in self.positions.values())
        """Whether it has written items before."""
        self.lacks = False
        """Items that came after those it has written went before it read them. `noticed` is called when that is found, before any that
        come after them are written: nothing shows it later."""
        late = {p: at for p, at in self.positions.items() if at != kept.get(p, item_stream.START)}
        if late:
            self.keep(late)

    def pages(self, until: Mapping[int, str] | None = None) -> Iterator[tuple[int, list[tuple[str, Item]]]]:
        """Partition, and a page of positions and items; up to `until`, or to where the streams end. Where it stands does
        not change."""
        for partition, after in list(self.positions.items()):
            end = None if until is None else until.get(partition, item_stream.START)
            if end is None or item_stream.place(end) > item_stream.place(after):
                begun = self.has_begun
                for rows in item_stream.pages(self._frontier, self.group, partition, after, end):
                    if begun:
                        self._notice_gap(partition, after, rows[0][0])
                    after, begun = rows[-1][0], True
                    yield partition, [(position, item_rows.fields(data)) for position, data in rows]
                if begun and end is None:
                    self._notice_gap(partition, after, None)

    def _notice_gap(self, partition: int, after: str, first: str | None) -> None:
        """Items between two that were read may have gone, since another reader had written them."""
        _, last = item_stream.gone(self._frontier, self.group, partition)
        is_between = first is None or item_stream.place(first) > item_stream.place(last)
        if not self.lacks and is_between and item_stream.place(after) < item_stream.place(last):
            self.lacks = True
            self._noticed()

    def columns(self, look: int) -> tuple[str, ...]:
        """The fields of the first `look` items (0: of all) in the order in which they are met."""
        items = (item for _, page in self.pages() for _, item in page)
        return tuple(dict.fromkeys(name for item in islice(items, look or None) for name in item))

    def keep(self, positions: Mapping[int, str]) -> None:
        """Acknowledge the items up to these positions: they are on disk."""
        self._frontier.keep_items(self.group, self.consumer, positions)
        self.positions.update(positions)
