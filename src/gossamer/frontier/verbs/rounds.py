"""Rounds: how one begins, who may do what comes after it, and the log of the last ones. Generators without I/O.

The log and the right to end a round live on the group's home partition. What a round has brought is counted on every partition, from
what had been counted there when the round began.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, cast

from gossamer.errors import PolicyError
from gossamer.frontier.call import Verb, function_call, read
from gossamer.frontier.connection.router import RoutedCommand
from gossamer.frontier.server import keys
from gossamer.frontier.verbs.control.control import ControlVerbs
from gossamer.frontier.verbs.control.drop import DROP_BUDGET
from gossamer.frontier.verbs.counts import ReadVerbs
from gossamer.model import EndState, RoundInfo, Token

COUNTS = ("pages", "items", "failed", "dead")
TIMES = ("began", "ended", "closed")
NOTED = ("began", "ended", "trigger", "who", *COUNTS, "late", "note", "tasks", "obstacle", "gone")
WORDS = 2000
AGAIN = "seeded again"
EMPTY = 3
"""What `drop` says of a lane that is empty and stays."""

Counted = tuple[int, int, int, int]
"""Pages, items, failed, dead."""
NONE: Counted = (0, 0, 0, 0)


class RoundVerbs:
    """Builds and reads the calls about rounds of one crawl."""

    def __init__(self, control: ControlVerbs, reading: ReadVerbs) -> None:
        self.control, self.reading = control, reading
        self.partitions, self.bases, self.lease_ms = control.partitions, control.bases, control.lease_ms

    def home(self, group: str) -> int:
        return keys.home_of(group, self.partitions)

    def new_round(
        self,
        group: str,
        number: int | None,
        *,
        trigger: str = "",
        who: str = "",
        term: int = 0,
        again: bool = False,
        after: float | None = None,
    ) -> Verb[int]:
        known = {} if after is None else {"after": round(after * 1000)}
        told = {"trigger": _words("trigger", trigger), "who": _words("who", who), "again": again}
        present = None
        while present is None:
            present = yield from self._begun(group, number, term, known, told)
        return present

    def _begun(
        self, group: str, number: int | None, term: int, known: Mapping[str, Any], told: Mapping[str, Any]
    ) -> Verb[int | None]:
        """The current round; None: a partition went back to an older state meanwhile, perhaps to before the rounds that the others
        were told of."""
        home, others = self.home(group), NONE
        replies = yield self._counting(group)
        looks = [(present, epoch) for present, *_, epoch in map(read, replies)]
        wanted = max(present for present, _ in looks) if number is None else number
        header = {"salt": secrets.token_hex(8), "group": group, "round": wanted, "term": term}

        def turn(p: int, more: Mapping[str, Any]) -> list[RoutedCommand]:
            return [function_call("new_round", self.bases[p], {**header, "epoch": looks[p][1], **more})]

        # Cookies first: whoever gets a page of the new round hears that those of the last one are no more.
        [reply] = yield turn(home, {**known, "jar": True})
        if (answer := cast("tuple[int, int] | None", read(reply))) is None:
            return None
        session, present = answer
        if session < 0:
            return present
        # The home partition last: only when every memory has turned may the start run again.
        for p in [*(p for p in range(self.partitions) if p != home), home]:
            more = {"home": True, "others": others, **told} if p == home else {"home": False, "session": session}
            [reply] = yield turn(p, more)
            if (turned := cast("tuple[int, list[int]] | None", read(reply))) is None:
                return None
            present, counts = turned
            others = _sum(others, counts)
        yield from self.control.purge()
        return present

    def drop_round(self, group: str, number: int, *, term: int = 0) -> Verb[tuple[bool, int]]:
        replies = yield [function_call("counts", base, {"group": group}) for base in self.bases]
        lanes = [(base, row[0]) for base, reply in zip(self.bases, replies, strict=True) for row in read(reply)[4]]
        header = {
            "salt": secrets.token_hex(8), "budget": DROP_BUDGET, "strikes": self.control.strikes, "force": False, "hold": True,
            "replaces": number, "term": term,
        }  # fmt: skip
        if not lanes:
            return True, 0
        replies = yield [function_call("drop", base, {**header, "lane": lane}) for base, lane in lanes]
        told = [read(reply) for reply in replies]
        return all(done == EMPTY for done, *_ in told), sum(dropped for _, dropped, *_ in told)

    def counts(self, group: str) -> Verb[tuple[int, Counted]]:
        """The present round of a group and what it has brought so far."""
        replies = yield self._counting(group)
        return self._counted(group, replies)

    def _counting(self, group: str) -> list[RoutedCommand]:
        return [function_call("round_counts", base, {"group": group}) for base in self.bases]

    def _counted(self, group: str, replies: list[Any]) -> tuple[int, Counted]:
        parts = [read(reply) for reply in replies]
        counted = NONE
        for _, *counts, _ in parts:
            counted = _sum(counted, counts)
        return parts[self.home(group)][0], counted

    def end_round(self, group: str, token: Token) -> Verb[tuple[EndState, int]]:
        """The round's number is read first: if the group is drained after that, it is in this round, or in a later one, which is
        not granted."""
        while True:
            replies = yield self._counting(group)
            number, counts = self._counted(group, replies)
            epoch = read(replies[self.home(group)])[-1]
            drained = (yield from self.reading.drained(group)).drained
            answer = yield from self._asked(
                group, token, "take", epoch=epoch, round=number, drained=drained, counts=counts
            )
            if answer is not None:
                return EndState(answer[0]), answer[1]

    def renew_end(self, group: str, token: Token) -> Verb[bool]:
        return (yield from self._end(group, token, "renew"))[0] == "granted"

    def release_end(self, group: str, token: Token) -> Verb[bool]:
        return (yield from self._end(group, token, "release"))[0] == "granted"

    def ended(self, group: str, token: Token, summary: Mapping[str, Any] | None = None) -> Verb[bool]:
        fields = _fields(summary or {})
        _, counts = yield from self.counts(group)
        state, _ = yield from self._end(group, token, "done", counts=counts, fields=fields)
        return state == "done"

    def _end(self, group: str, token: Token, action: str, **more: Any) -> Verb[tuple[str, int]]:
        answer = yield from self._asked(group, token, action, **more)
        assert answer is not None
        return answer

    def _asked(self, group: str, token: Token, action: str, **more: Any) -> Verb[tuple[str, int] | None]:
        """The answer; None: the partition went back to an older state meanwhile."""
        header = {"i": token.incarnation, "lease": self.lease_ms, "group": group, "action": action, **more}
        [reply] = yield [function_call("end_round", self.bases[self.home(group)], header)]
        answer = read(reply)
        return None if answer is None else (answer[0], answer[1])

    def round_note(self, group: str, number: int, fields: Mapping[str, Any]) -> Verb[bool]:
        header = {"group": group, "round": number, "fields": _fields(fields)}
        [reply] = yield [function_call("round_note", self.bases[self.home(group)], header)]
        return int(reply) == 1

    def rounds(self, group: str, limit: int = 100) -> Verb[list[RoundInfo]]:
        logged = function_call("rounds", self.bases[self.home(group)], {"group": group, "limit": max(1, limit)})
        reply, *replies = yield [logged, *self._counting(group)]
        present, rows = read(reply)
        number, counts = self._counted(group, replies)
        # Two rounds can lie between the answers; then neither is reported with the counts of the other.
        live = counts if number == present else None
        return [_info(group, row, present, live) for row in rows]


def _info(group: str, row: Mapping[str, Any], present: int, live: Counted | None) -> RoundInfo:
    number = row["round"]
    counts = {name: row.get(name, 0) for name in COUNTS}
    if number == present and live is not None:
        told = dict(zip(COUNTS, live, strict=True))
        if "closed" in row:
            # What comes after its end (replayed dead letters) counts too, and so does what somebody has noted.
            told |= {name: max(told[name], counts[name]) for name in COUNTS}
        counts = told
    if "closed" in row or ("ended" in row and number < present):
        state = "ended"
    elif number < present:
        state = AGAIN if row.get("again") else "cut short"
    else:
        state = "ending" if "ended" in row else "running"
    began, ended, closed = (row[name] / 1000 if name in row else None for name in TIMES)
    return RoundInfo(
        group, number, state, began, ended, closed, row.get("trigger", ""), row.get("who", ""), counts["pages"], counts["items"],
        counts["failed"], counts["dead"], row.get("late", False), row.get("note", ""), bool(row.get("tasks")), row.get("obstacle", ""),
        row.get("gone"),
    )  # fmt: skip


def stored(info: RoundInfo) -> dict[str, Any]:
    """The fields of a round as they are kept."""
    times = {name: round(value * 1000) for name in TIMES if (value := getattr(info, name)) is not None}
    again = {name: True for name, holds in (("again", info.state == AGAIN), ("tasks", info.tasks)) if holds}
    gone = {} if info.gone is None else {"gone": info.gone}
    return {
        **times,
        **again,
        **gone,
        **{name: getattr(info, name) for name in (*COUNTS, "late", "trigger", "who", "note")},
    }


def _fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """What is to be noted, in milliseconds and plain types, or PolicyError."""
    fields: dict[str, Any] = {}
    for name, value in given.items():
        if name not in NOTED:
            raise PolicyError(f"round: {name!r} cannot be noted; these can: {', '.join(NOTED)}.")
        try:
            if name in TIMES:
                fields[name] = round(float(value) * 1000)
            elif name in (*COUNTS, "gone"):
                fields[name] = int(value)
            else:
                fields[name] = bool(value) if name in ("late", "tasks") else _words(name, str(value))
        except (TypeError, ValueError, OverflowError):
            raise PolicyError(f"round: {name} is {value!r}; it must be a number.") from None
    return fields


def _words(what: str, said: str) -> str:
    if len(said) > WORDS:
        raise PolicyError(f"round: {what} has {len(said):,} characters; use at most {WORDS:,}.")
    return said


def _sum(a: Counted, b: list[int] | Counted) -> Counted:
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3])
