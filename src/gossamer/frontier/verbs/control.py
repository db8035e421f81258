"""Control verbs: policies, pauses, blocks, starts, dead letters, tasks. Generators without I/O.

A verb that concerns the whole crawl goes to every partition. Each may get it twice without harm, so repeating a call whose
reply was lost is safe.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gossamer.errors import LaneKept, PolicyError, UnknownDeadLetter, UnknownGroup, UnknownLane
from gossamer.frontier.call import FunctionCall, Verb, function_call, own, read, text
from gossamer.frontier.server import keys
from gossamer.frontier.verbs.work.batch import RECORD, RequestChecker, entry_of
from gossamer.frontier.verbs.work.outbox import Outbox
from gossamer.model import (
    DeadLetter,
    GroupPolicy,
    HostPolicy,
    LanePolicy,
    RecordPolicy,
    SeenPolicy,
    SeenScope,
    StartState,
    Task,
    Token,
)
from gossamer.model.policy import group_name, lane_name

DROP_BUDGET = 500
DROP_DEAD = 1000
DROP_LANES = 16
PURGE_BUDGET = 500
CALL_FINGERPRINTS = 5000
CALL_TASKS = 1000

ANOTHER = 2
"""What `drop` knows of a lane that somebody has defined anew."""
DropStep = Verb[tuple[dict[int, str], int]]
"""One bounded step of a drop: on which partitions more is left, with the birth of the group there, and how many requests went."""


def seen_table(policy: SeenPolicy) -> dict[str, Any]:
    return {
        "kind": policy.kind.value, "scope": policy.scope.value, "spec": policy.spec, "capacity": policy.capacity,
        "error": policy.error, "window": round(policy.window * 1000), "window_count": policy.window_count,
        "window_rounds": policy.window_rounds,
    }  # fmt: skip


def lane_table(policy: LanePolicy) -> dict[str, Any]:
    table = {
        "order": policy.order.value, "tier": policy.tier, "weight": policy.weight, "max_queued": policy.max_queued,
        "max_leased": policy.max_leased, "stage": policy.stage, "seen": seen_table(policy.seen),
    }  # fmt: skip
    if policy.records is not None:
        table |= {
            "records": record_table(policy.records), "records_spec": repr(policy.records),
            # The records are its memory.
            "seen": seen_table(replace(policy.seen, scope=SeenScope.NEVER)),
        }  # fmt: skip
    return table


def record_table(policy: RecordPolicy) -> dict[str, Any]:
    """In milliseconds; a time that is None is left out."""
    times = {name: getattr(policy, name) for name in ("failed", "finished", "gone", "max_age")}
    table: dict[str, Any] = {name: round(seconds * 1000) for name, seconds in times.items() if seconds is not None}
    table |= {"newer": policy.newer, "max_pages": policy.max_pages}
    if (rules := policy.revisit) is not None:
        low, high = rules.bounds
        table["revisit"] = {
            "every": round(rules.every * 1000), "low": round(low * 1000), "high": round(high * 1000), "adaptive": rules.adaptive,
            "gone": rules.gone, "min": round(rules.min * 1000), "max": round(rules.max * 1000),
        }  # fmt: skip
    return table


def host_table(policy: HostPolicy) -> dict[str, Any]:
    milliseconds = {
        name: round(getattr(policy, name) * 1000)
        for name in ("delay", "min_delay", "max_delay", "block_base", "block_max")
    }
    plain = ("concurrency", "adaptive", "target", "crawl_delay")
    return {**milliseconds, **{name: getattr(policy, name) for name in plain}}


def group_table(policy: GroupPolicy) -> dict[str, Any]:
    return {
        "max_queued": policy.max_queued, "max_pages": policy.max_pages, "delay": round(policy.delay * 1000),
        "concurrency": policy.concurrency, "start": policy.start, "tasks": "\n".join(policy.tasks),
        "max_items": policy.max_items, "max_item_bytes": policy.max_item_bytes, "max_dead": policy.max_dead,
        "weight": policy.weight, "crawl_delay": policy.crawl_delay,
    }  # fmt: skip


class ControlVerbs:
    """Builds and reads control calls for one crawl."""

    def __init__(
        self,
        crawl: str,
        partitions: int,
        checked: RequestChecker,
        outbox: Outbox,
        *,
        lease_seconds: float,
        strikes: int,
    ) -> None:
        self.crawl, self.partitions, self.checked, self.outbox = crawl, partitions, checked, outbox
        self.lease_ms, self.strikes = round(lease_seconds * 1000), strikes
        self.bases = [keys.base(crawl, p) for p in range(partitions)]

    def everywhere(self, verb: str, header: Mapping[str, Any]) -> list[FunctionCall]:
        return [function_call(verb, base, dict(header)) for base in self.bases]

    def of_host(self, host: str) -> str:
        self.checked.host(host)
        return self.bases[keys.partition_of(host, self.partitions)]

    def define(
        self, group: str, lanes: Mapping[str, LanePolicy], policy: GroupPolicy | None = None
    ) -> Verb[list[tuple[str, int, str]]]:
        """Return, by partition, the birth of its group, its round, and the partition's epoch."""
        tables = {lane_name(name): lane_table(lane) for name, lane in lanes.items()}
        for source in policy.tasks if policy else ():
            keys.task_keys(source)
        home = keys.home_of(group_name(group), self.partitions)
        table = None if policy is None else group_table(policy)
        salt = secrets.token_hex(8)
        replies = yield [
            function_call(
                "define",
                base,
                {
                    "salt": salt,
                    "group": group,
                    "policy": table or False,
                    "fresh": group_table(GroupPolicy()),
                    "lanes": tables,
                    "home": p == home,
                },
            )
            for p, base in enumerate(self.bases)
        ]
        told = [read(reply) for reply in replies]
        yield from self.purge(p for p, (_, _, memories, *_) in enumerate(told) if memories)
        return [(born, number, epoch) for _, _, _, born, number, epoch in told]

    def pause(self, *, group: str = "", lane: str = "", host: str = "", reason: str = "paused") -> Verb[None]:
        yield from self._pause(*_scope(group, lane, host), reason or "paused")

    def resume(self, *, group: str = "", lane: str = "", host: str = "") -> Verb[None]:
        yield from self._pause(*_scope(group, lane, host), "")

    def _pause(self, scope: str, name: str, reason: str) -> Verb[None]:
        header = {"salt": secrets.token_hex(8), "scope": scope, "name": name, "reason": reason}
        yield (
            [function_call("pause", self.of_host(name), header)]
            if scope == "host"
            else self.everywhere("pause", header)
        )

    def set_host(self, host: str, policy: HostPolicy | None) -> Verb[None]:
        table = host_table(policy or HostPolicy()) if policy or host == "" else False
        header = {"salt": secrets.token_hex(8), "host": host, "policy": table, "change": True, "crawl_delay": False}
        yield (
            self.everywhere("host_policy", header)
            if host == ""
            else [function_call("host_policy", self.of_host(host), header)]
        )

    def set_crawl_delay(self, host: str, seconds: float) -> Verb[None]:
        milliseconds = self.checked.delay(seconds)
        yield [
            function_call(
                "host_policy",
                self.of_host(host),
                {"salt": "", "host": host, "policy": False, "change": False, "crawl_delay": milliseconds},
            )
        ]

    def block(self, host: str, seconds: float, reason: str = "blocked") -> Verb[float]:
        header = {"host": host, "for_ms": self.checked.delay(seconds), "reason": reason}
        [reply] = yield [function_call("block", self.of_host(host), header)]
        return int(reply) / 1000

    def start(self, group: str, token: Token) -> Verb[tuple[StartState, int]]:
        state, number = yield from self._start(group, token, "take")
        return StartState(state) if state in ("granted", "busy") else StartState.DONE, number

    def renew_start(self, group: str, token: Token) -> Verb[bool]:
        return (yield from self._start(group, token, "renew"))[0] == "granted"

    def release_start(self, group: str, token: Token) -> Verb[bool]:
        return (yield from self._start(group, token, "release"))[0] == "granted"

    def started(self, group: str, token: Token) -> Verb[bool]:
        return (yield from self._start(group, token, "done"))[0] == "done"

    def _start(self, group: str, token: Token, action: str) -> Verb[tuple[str, int]]:
        header = {"i": own(token.incarnation), "lease": self.lease_ms, "group": group, "action": action}
        home = keys.home_of(group, self.partitions)
        [reply] = yield [function_call("start", self.bases[home], header)]
        state, number, _ = read(reply)
        if state == "granted" and action == "take" and number:
            # A partition that lost its last moments may not know of the round: it would take all of it for known.
            turn = {"salt": secrets.token_hex(8), "group": group, "round": number, "home": False, "session": 0}
            if others := [function_call("new_round", base, turn) for p, base in enumerate(self.bases) if p != home]:
                yield others
        return state, number

    def gone(self, incarnation: str, silent: float, groups: Sequence[str]) -> Verb[int]:
        """The leases of a worker on every partition expire now."""
        header = {"i": incarnation, "silent": round(silent * 1000), "groups": list(groups)}
        cursors, count = dict.fromkeys(range(self.partitions), "0"), 0
        while cursors:
            replies = yield [
                function_call("gone", self.bases[p], {**header, "cursor": cursor}) for p, cursor in cursors.items()
            ]
            told = [read(reply) for reply in replies]
            count += sum(number for _, number in told)
            cursors = {p: cursor for p, (cursor, _) in zip(cursors, told, strict=True) if cursor != "0"}
        return count

    def purge(self, partitions: Iterable[int] | None = None) -> Verb[None]:
        """Unlink memories that no lane uses, in bounded steps; also what an interrupted purge left behind."""
        left = list(range(self.partitions) if partitions is None else partitions)
        while left:
            replies = yield [function_call("purge", self.bases[p], {"budget": PURGE_BUDGET}) for p in left]
            left = [p for p, reply in zip(left, replies, strict=True) if int(reply) != 1]

    def drop_lane(self, lane: str, left: Mapping[int, str] | None, *, force: bool = False) -> DropStep:
        """One bounded step on the partitions that are left, with the births of the lane there (None: the first step, on all of them): which are
        left then, and how many requests went. It is emptied everywhere before it goes anywhere. A partition that lacks it has dropped it
        before. LaneKept if somebody defines it meanwhile: it stays, with what is left in it. With `force`, what is leased does not end as
        usual first."""
        asked = dict.fromkeys(range(self.partitions), "") if left is None else dict(left)
        births = _births(asked)
        header = {
            "salt": secrets.token_hex(8), "lane": lane, "budget": DROP_BUDGET, "strikes": self.strikes, "force": force,
        }  # fmt: skip
        results = yield from self._drop_lane(asked, {**header, "births": births, "hold": True})
        dropped = sum(count for _, count, _, _ in results.values())
        if left is None:
            if not any(known for _, _, known, _ in results.values()):
                raise UnknownLane(
                    f"There is no lane {lane!r} in this crawl. `gossamer lane list` shows those there are."
                )
            # From now on only this one is meant: somebody may make another one of its name.
            asked = {p: " ".join(births) for p, (*_, births) in results.items()}
            births = _births(asked)
        elif not force and any(known == ANOTHER for _, _, known, _ in results.values()):
            yield from self._drop_lane(asked, {**header, "births": births, "hold": True, "reopen": True})
            raise _kept(lane)
        if any(done == 0 for done, *_ in results.values()):
            return asked, dropped
        results = yield from self._drop_lane(asked, {**header, "births": births, "hold": False})
        if not force and any(known == ANOTHER for _, _, known, _ in results.values()):
            raise _kept(lane)
        still = {p: asked[p] or births[0] for p, (done, *_) in results.items() if done != 1}
        purge = [p for p, (done, *_) in results.items() if done == 2]
        if purge:
            yield [function_call("purge", self.bases[p], {"budget": PURGE_BUDGET}) for p in purge]
        return still, dropped + sum(count for _, count, _, _ in results.values())

    def _drop_lane(
        self, asked: Iterable[int], header: Mapping[str, Any]
    ) -> Verb[dict[int, tuple[int, int, int, list[str]]]]:
        replies = yield [function_call("drop", self.bases[p], dict(header)) for p in asked]
        return dict(zip(asked, map(read, replies), strict=True))

    def drop_group(self, group: str, left: Mapping[int, str] | None, *, force: bool = False) -> DropStep:
        """One bounded step on the partitions that are left, with the births of the group there (None: the first step, on all of them): which
        are left then, and how many requests and dead letters went. Nothing but lanes goes before all lanes are gone everywhere: until
        then a page may still send children to another partition. With `force`, what is leased does not end as usual first."""
        asked = dict.fromkeys(range(self.partitions), "") if left is None else left
        salt = secrets.token_hex(8)
        header = {"salt": salt, "group": group, "lanes": DROP_LANES, "budget": DROP_DEAD, "births": []}
        found = {}
        pause = self._of_births("drop_group", {**header, "action": "pause"}, asked)
        for p, reply in zip(asked, (yield pause), strict=True):
            found[p] = read(reply)
        if left is None:
            if not any(known for known, *_ in found.values()):
                raise UnknownGroup(
                    f"There is no group {group!r} in this crawl. `gossamer status` lists those there are."
                )
            # From now on only this one is meant: somebody else may end the drop, and make another one of its name.
            asked = {p: born for p, (*_, born) in found.items()}
        lanes = [(p, lane) for p, (_, _, _, names, _) in found.items() for lane in names]
        if lanes:
            step = {"salt": salt, "budget": DROP_BUDGET, "strikes": self.strikes, "force": force}
            replies = yield [
                function_call("drop", self.bases[p], {**step, "lane": lane, **_only(asked[p])}) for p, lane in lanes
            ]
            return dict(asked), sum(read(reply)[1] for reply in replies)
        if (yield from self.outbox.complete_all(group, asked, dropped=True)):
            return dict(asked), 0
        births = sorted({*asked.values()} - {""})
        clear = self._of_births("drop_group", {**header, "action": "clear", "births": births}, asked)
        results = dict(zip(asked, map(read, (yield clear)), strict=True))
        still = {p: born for p, born in asked.items() if results[p][1] != 1}
        if still:
            yield [function_call("purge", self.bases[p], {"budget": PURGE_BUDGET}) for p in still]
        return still, sum(removed for _, _, removed, *_ in results.values())

    def _of_births(self, verb: str, header: Mapping[str, Any], births: Mapping[int, str]) -> list[FunctionCall]:
        return [function_call(verb, self.bases[p], {**header, **_only(born)}) for p, born in births.items()]

    def seen(self, lane: str, fingerprints: Sequence[int]) -> Verb[list[bool]]:
        return (yield from self._seen(lane, fingerprints, probe=True))

    def forget(self, lane: str, fingerprints: Sequence[int]) -> Verb[list[bool]]:
        return (yield from self._seen(lane, fingerprints, probe=False))

    def _seen(self, lane: str, fingerprints: Sequence[int], *, probe: bool) -> Verb[list[bool]]:
        """A fingerprint lives in its host's partition; without the host, every partition must be asked."""
        entries = [entry_of(self.checked.fingerprint(fp)) for fp in fingerprints]
        found: list[bool] = []
        for first in range(0, len(entries), CALL_FINGERPRINTS):
            some = entries[first : first + CALL_FINGERPRINTS]
            replies = yield self.everywhere("forget", {"lane": lane, "fps": some, "probe": probe})
            answers = [text(reply) for reply in replies]
            found += [any(letters[i] == "y" for letters in answers) for i in range(len(some))]
        return found

    def dead_letters(self, group: str, after: int = 0, limit: int = 100) -> Verb[list[DeadLetter]]:
        letters: list[DeadLetter] = []
        for partition, base in enumerate(self.bases):
            [reply] = yield [
                function_call("dead", base, {"action": "list", "group": group, "after": after, "limit": limit})
            ]
            letters += [_dead(partition, head, b"") for head in read(reply[0])]
        return sorted(letters, key=lambda letter: letter.at)

    def dead_letter(self, partition: int, number: int) -> Verb[DeadLetter]:
        [reply] = yield [
            function_call("dead", self._base(partition), {"action": "show", "group": "", "ids": [str(number)]})
        ]
        heads = read(reply[0])
        if not heads:
            raise UnknownDeadLetter(f"there is no dead letter {partition}.{number} in crawl {self.crawl!r}.")
        return _dead(partition, heads[0], reply[1])

    def replay(self, partition: int, numbers: Sequence[int]) -> Verb[int]:
        return (yield from self._change_dead(partition, numbers, "replay"))

    def drop_dead(self, partition: int, numbers: Sequence[int]) -> Verb[int]:
        return (yield from self._change_dead(partition, numbers, "drop"))

    def _change_dead(self, partition: int, numbers: Sequence[int], action: str) -> Verb[int]:
        [reply] = yield [
            function_call(
                "dead", self._base(partition), {"action": action, "group": "", "ids": [str(n) for n in numbers]}
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
            "key": key,
        }
        [reply] = yield [
            function_call("dead", self.bases[keys.home_of(group, self.partitions)], header, RECORD.pack(0, 0) + payload)
        ]
        return bool(read(reply[0]))

    def _base(self, partition: int) -> str:
        if not 0 <= partition < self.partitions:
            raise PolicyError(f"partition {partition} does not exist; this crawl has {self.partitions}.")
        return self.bases[partition]

    def lease_tasks(self, token: Token, source: str, want: int) -> Verb[list[Task]]:
        nonce = secrets.token_hex(8)
        want = max(0, min(want, CALL_TASKS))
        header = {
            "i": own(token.incarnation), "s": token.sequence, "n": nonce, "lease": self.lease_ms, "want": want,
            "strikes": self.strikes,
        }  # fmt: skip
        [reply] = yield [function_call("lease_tasks", keys.task_keys(source), header)]
        heads, nonce = read(reply[0])
        return [
            Task(source, number, nonce, data, attempt, taken, state == 2)
            for (number, attempt, taken, state), data in zip(heads, reply[1:], strict=True)
        ]

    def settle_tasks(
        self,
        token: Token,
        source: str,
        *,
        done: Sequence[Task] = (),
        release: Sequence[Task] = (),
        renew: Sequence[Task] = (),
    ) -> Verb[list[bool]]:
        header = {
            "i": token.incarnation,
            "done": _tasks(done),
            "release": _tasks(release),
            "renew": _tasks(renew),
            "lease": self.lease_ms,
        }
        [reply] = yield [function_call("settle_tasks", keys.task_keys(source), header)]
        return [letter == "s" for letter in read(reply)[0]]

    def keep_items(self, group: str, consumer: str, positions: Mapping[int, str]) -> Verb[int]:
        waiting = dict.fromkeys(positions, 0)
        left = list(positions)
        while left:
            replies = yield [
                function_call("items", self._base(p), {"group": group, "consumer": consumer, "id": positions[p]})
                for p in left
            ]
            told = [read(reply) for reply in replies]
            waiting.update({p: number for p, (_, number, _) in zip(left, told, strict=True)})
            left = [p for p, (_, _, more) in zip(left, told, strict=True) if more]
        return sum(waiting.values())


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


def _only(born: str) -> dict[str, str]:
    """Of groups that an older version has made, no birth is known."""
    return {"only": born} if born else {}


def _births(asked: Mapping[int, str]) -> list[str]:
    return sorted({born for births in asked.values() for born in births.split()})


def _kept(lane: str) -> LaneKept:
    return LaneKept(
        f"The lane {lane!r} was defined again while it was dropped, by a worker that starts perhaps: it stays, with what is left in it. "
        f"Drop it again, or stop the workers that define it first."
    )


def _tasks(tasks: Sequence[Task]) -> list[list[str]]:
    return [[str(task.id), task.nonce] for task in tasks]


def _scope(group: str, lane: str, host: str) -> tuple[str, str]:
    """What a pause is about, from the one name given; none means the crawl."""
    given = [(scope, name) for scope, name in (("group", group), ("lane", lane), ("host", host)) if name]
    if len(given) > 1:
        raise PolicyError("pause or resume one thing at a time: a group, a lane, a host, or the crawl.")
    return given[0] if given else ("crawl", "")
