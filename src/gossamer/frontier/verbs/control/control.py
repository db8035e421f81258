"""Control verbs: policies, pauses, blocks, starts, memories. Generators without I/O.

A verb that concerns the whole crawl goes to every partition. Each may get it twice without harm, so repeating a call whose
reply was lost is safe.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gossamer.errors import PolicyError
from gossamer.frontier.call import Verb, function_call, own, read, text
from gossamer.frontier.connection.router import RoutedCommand
from gossamer.frontier.server import keys
from gossamer.frontier.verbs.control.tables import group_table, host_table, lane_table
from gossamer.frontier.verbs.work.batch import RequestChecker, entry_of
from gossamer.model import GroupPolicy, HostPolicy, LanePolicy, StartState, Token
from gossamer.model.policy import group_name, lane_name

PURGE_BUDGET = 500
CALL_FINGERPRINTS = 5000


class ControlVerbs:
    """Builds and reads control calls for one crawl."""

    def __init__(
        self,
        crawl: str,
        partitions: int,
        checked: RequestChecker,
        *,
        lease_seconds: float,
        strikes: int,
    ) -> None:
        self.crawl, self.partitions, self.checked = crawl, partitions, checked
        self.lease_ms, self.strikes = round(lease_seconds * 1000), strikes
        self.bases = [keys.base(crawl, p) for p in range(partitions)]

    def everywhere(self, verb: str, header: Mapping[str, Any]) -> list[RoutedCommand]:
        return [function_call(verb, base, dict(header)) for base in self.bases]

    def base(self, partition: int) -> str:
        if not 0 <= partition < self.partitions:
            raise PolicyError(f"partition {partition} does not exist; this crawl has {self.partitions}.")
        return self.bases[partition]

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
        others = [base for p, base in enumerate(self.bases) if p != keys.home_of(group, self.partitions)]
        turned = not others
        while state == "granted" and number and not turned:
            # A partition that lost its last moments may not know of the round: it would take all of it for known.
            replies = yield [function_call("round_counts", base, {"group": group}) for base in others]
            epochs = [read(reply)[-1] for reply in replies]
            # Once more: if all of them went back meanwhile, it is of another round.
            state, number = yield from self._start(group, token, "take")
            if state != "granted":
                break
            turn = {"salt": secrets.token_hex(8), "group": group, "round": number, "home": False, "session": 0}
            replies = yield [
                function_call("new_round", base, {**turn, "epoch": epoch})
                for base, epoch in zip(others, epochs, strict=True)
            ]
            turned = all(read(reply) is not None for reply in replies)
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

    def seen(self, lane: str, fingerprints: Sequence[int]) -> Verb[list[bool]]:
        return (yield from self._seen(lane, fingerprints, probe=True))

    def forget(self, lane: str, fingerprints: Sequence[int]) -> Verb[list[bool]]:
        return (yield from self._seen(lane, fingerprints, probe=False))

    def forget_texts(self, lane: str, fingerprints: Sequence[int]) -> Verb[list[bool]]:
        return (yield from self._seen(lane, fingerprints, probe=False, unsettle=True))

    def _seen(self, lane: str, fingerprints: Sequence[int], *, probe: bool, unsettle: bool = False) -> Verb[list[bool]]:
        """A fingerprint lives in its host's partition; without the host, every partition must be asked."""
        entries = [entry_of(self.checked.fingerprint(fp)) for fp in fingerprints]
        found: list[bool] = []
        for first in range(0, len(entries), CALL_FINGERPRINTS):
            some = entries[first : first + CALL_FINGERPRINTS]
            replies = yield self.everywhere("forget", {"lane": lane, "fps": some, "probe": probe, "unsettle": unsettle})
            answers = [text(reply) for reply in replies]
            found += [any(letters[i] == "y" for letters in answers) for i in range(len(some))]
        return found

    def keep_items(self, group: str, consumer: str, positions: Mapping[int, str]) -> Verb[int]:
        waiting = dict.fromkeys(positions, 0)
        left = list(positions)
        while left:
            replies = yield [
                function_call("items", self.base(p), {"group": group, "consumer": consumer, "id": positions[p]})
                for p in left
            ]
            told = [read(reply) for reply in replies]
            waiting.update({p: number for p, (_, number, _) in zip(left, told, strict=True)})
            left = [p for p, (_, _, more) in zip(left, told, strict=True) if more]
        return sum(waiting.values())

    def drop_items(self, group: str, positions: Mapping[int, str]) -> Verb[int]:
        removed, left = 0, list(positions)
        while left:
            replies = yield [
                function_call("items", self.base(p), {"group": group, "consumer": "", "id": "", "drop": positions[p]})
                for p in left
            ]
            rows = [read(reply) for reply in replies]
            removed += sum(number for number, _, _ in rows)
            left = [p for p, (_, _, more) in zip(left, rows, strict=True) if more]
        return removed


def _scope(group: str, lane: str, host: str) -> tuple[str, str]:
    """What a pause is about, from the one name given; none means the crawl."""
    given = [(scope, name) for scope, name in (("group", group), ("lane", lane), ("host", host)) if name]
    if len(given) > 1:
        raise PolicyError("pause or resume one thing at a time: a group, a lane, a host, or the crawl.")
    return given[0] if given else ("crawl", "")
