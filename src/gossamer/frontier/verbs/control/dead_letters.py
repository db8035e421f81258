"""Dead letters: listed, shown, replayed, dropped, and written. Generators without I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gossamer.errors import UnknownDeadLetter
from gossamer.frontier.call import Verb, function_call, read
from gossamer.frontier.server import keys
from gossamer.frontier.verbs.control.control import ControlVerbs
from gossamer.frontier.verbs.work.batch import RECORD
from gossamer.model import DeadLetter
from gossamer.model.policy import group_name
from gossamer.model.request import stored_key

MOST_BYTES = 4 * 1024 * 1024
"""A call reads no further dead letter after so many bytes."""


class DeadLetterVerbs:
    """Builds and reads the calls about dead letters of one crawl."""

    def __init__(self, control: ControlVerbs) -> None:
        self._control = control

    def dead_letters(self, group: str, after: int = 0, limit: int = 100) -> Verb[list[DeadLetter]]:
        letters: list[DeadLetter] = []
        for partition, base in enumerate(self._control.bases):
            [reply] = yield [
                function_call("dead", base, {"action": "list", "group": group, "after": after, "limit": limit})
            ]
            letters += [_dead(partition, head, b"") for head in read(reply[0])]
        return sorted(letters, key=lambda letter: letter.at)

    def dead_letter(self, partition: int, number: int) -> Verb[DeadLetter]:
        found = yield from self.read_dead(partition, [number])
        if not found:
            raise UnknownDeadLetter(f"there is no dead letter {partition}.{number} in crawl {self._control.crawl!r}.")
        return found[0]

    def read_dead(self, partition: int, numbers: Sequence[int]) -> Verb[list[DeadLetter]]:
        header = {"action": "show", "group": "", "ids": [str(number) for number in numbers], "bytes": MOST_BYTES}
        [reply] = yield [function_call("dead", self._control.base(partition), header)]
        return [_dead(partition, head, record) for head, record in zip(read(reply[0]), reply[1:], strict=True)]

    def replay(self, partition: int, numbers: Sequence[int]) -> Verb[int]:
        return (yield from self._change_dead(partition, numbers, "replay"))

    def drop_dead(self, partition: int, numbers: Sequence[int]) -> Verb[int]:
        return (yield from self._change_dead(partition, numbers, "drop"))

    def _change_dead(self, partition: int, numbers: Sequence[int], action: str) -> Verb[int]:
        [reply] = yield [
            function_call(
                "dead", self._control.base(partition), {"action": action, "group": "", "ids": [str(n) for n in numbers]}
            )
        ]
        return int(read(reply[0]))

    def bury(
        self, group: str, payload: bytes, *, reason: str, key: str, detail: str = "", lane: str = "", host: str = ""
    ) -> Verb[bool]:
        header = {
            "action": "bury",
            "group": group_name(group),
            "lane": lane,
            "host": host,
            "priority": 0,
            "reason": reason,
            "detail": detail,
            "key": stored_key(key),
        }
        [reply] = yield [
            function_call(
                "dead",
                self._control.bases[keys.home_of(group, self._control.partitions)],
                header,
                RECORD.pack(0, 0) + payload,
            )
        ]
        return bool(read(reply[0]))


def _dead(partition: int, head: Sequence[Any], record: bytes) -> DeadLetter:
    number, group, lane, host, priority, attempt, reason, detail, at, fingerprint = head
    return DeadLetter(
        partition,
        number,
        group,
        lane,
        host,
        priority,
        int(fingerprint, 16),
        attempt,
        reason,
        detail,
        at / 1000,
        record[9:],
    )
