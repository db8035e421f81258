"""The contract of the frontier: what callers may rely on, whatever carries it.

Guarantees, in short (docs/explanation/guarantees.md tells them in full, each with the test that would fail without it):
nothing is lost, a page is atomic, seen means stored, leases are fenced, poison is contained, order is exact, hosts are
treated politely by the whole crawl, everything is bounded, starts run once and drained is definite, only server time counts, and
everything survives a restart.

`AsyncFrontier` has the same verbs as coroutines, with the same meaning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from gossamer.model import (
    Added,
    CounterChange,
    Counts,
    DeadLetter,
    Document,
    DocumentInfo,
    Drained,
    EndState,
    ExchangeReply,
    Fetched,
    GroupPolicy,
    HostInfo,
    HostPolicy,
    LanePolicy,
    Lease,
    PartitionState,
    Request,
    RoundInfo,
    ScanPage,
    SeenInfo,
    Selection,
    Sent,
    Settlement,
    StartState,
    Task,
    Token,
    WorkerInfo,
)


class Frontier(Protocol):
    """The shared state of one crawl."""

    crawl: str
    partitions: int

    def exchange(
        self,
        token: Token,
        *,
        settle: Sequence[Settlement] = (),
        fetched: Sequence[Fetched] = (),
        sent: Sequence[Lease | Sent] = (),
        add: Sequence[Request] = (),
        counters: Sequence[CounterChange] = (),
        want: int = 0,
        selection: Selection | None = None,
        info: Mapping[str, str] | None = None,
        relies: Mapping[int, PartitionState] | None = None,
        session: str = "",
        everywhere: bool = False,
    ) -> ExchangeReply:
        """A worker's one hot call, atomic within a partition: ends leases with all that their pages produced, frees the
        slots of hosts that answered, notes what was sent, adds requests (limits apply), applies counters, and leases up to
        `want` requests from the lanes selected (0: none; fewer than asked means that no more may be leased now).

        A call repeated with the same token changes nothing and answers as the first did; its leases are those still held.
        `info` describes the worker for people; send it with the first call.

        `relies` has, by partition, the state that the caller's knowledge is from (`ExchangeReply.states`) by which it left children out.
        A partition that is in another state changes nothing until the call is repeated with the `withheld` children: that happens
        in here, and `ExchangeReply.states` says it.

        `session` is the group of which `Hints.session` tells the version of the shared cookies. With `everywhere` all partitions are
        asked, also those that are told nothing and lease nothing: `ExchangeReply.states` has them all.
        """

    def add(
        self,
        requests: Sequence[Request],
        *,
        bound: bool = True,
        key: str | Sequence[str] = "",
        token: Token | None = None,
    ) -> Added:
        """Add requests from a producer, in as many bounded calls as they need. One outcome per request; none of them
        keeps another from being added. With `bound`, limits apply. With `key`, the unfiltered ones are added once per key
        and place in the list, however often this is called; with a list of keys, one for each request, once per key. With
        `token`, a repeated call answers as the first did."""

    def renew(self, token: Token, leases: Sequence[Lease]) -> list[Lease | None]:
        """Leases with a new deadline; None where one was given away: stop working on it. Without leases it only says that the worker
        lives."""

    def release(self, token: Token, leases: Sequence[Lease | Sent]) -> list[bool]:
        """Give back what was not sent; it goes ahead of other work and nothing counts against it. `Sent`: its host was asked for
        something else in its place, and the delay counts from then. False: was
        lost, or had been given back by a call whose answer was lost."""

    def permit(self, token: Token, host: str) -> tuple[Lease | None, float | None]:
        """A slot of a host for a download that is not a request (robots.txt, media). Settle it or let it run out.
        None and seconds to wait when there is none now; None and None: until a slot is freed."""

    def define(self, group: str, lanes: Mapping[str, LanePolicy], policy: GroupPolicy | None = None) -> None:
        """Make or change a group and some of its lanes; the others stay. Queued work stays where it is. A new group
        without a policy gets the default one. A lane with another seen policy begins with an empty memory, unless other lanes of
        the group have that policy; the old memory goes when no lane uses it."""

    def pause(self, *, group: str = "", lane: str = "", host: str = "", reason: str = "paused") -> None:
        """Lease nothing from a group, a lane (full name), a host, or with none of them the crawl. Work in progress goes
        on and adding goes on."""

    def resume(self, *, group: str = "", lane: str = "", host: str = "") -> None:
        """Undo a pause."""

    def set_host(self, host: str, policy: HostPolicy | None) -> None:
        """How the fleet treats a host from now on; None: as the default. For host "", the default itself."""

    def set_crawl_delay(self, host: str, seconds: float) -> None:
        """The delay that robots.txt asks for: the host's delay is never shorter. 0: none."""

    def block(self, host: str, seconds: float, reason: str = "blocked") -> float:
        """Lease nothing from a host for so long; answers the server time until which. 0 seconds unblocks it."""

    def start(self, group: str, token: Token) -> tuple[StartState, int]:
        """Ask for the right to run the group's start in its present round, and that round's number."""

    def renew_start(self, group: str, token: Token) -> bool:
        """Keep the right; False: it was given away."""

    def release_start(self, group: str, token: Token) -> bool:
        """Give the right back without having used it up: the next worker that asks runs the start from its beginning."""

    def started(self, group: str, token: Token) -> bool:
        """The start has run to its end and its requests are added. False: the right had been given away."""

    def new_round(self, group: str, number: int, *, trigger: str = "", who: str = "") -> int:
        """Begin round `number` (one more than the present one): starts are owed again, memories of scope `round` are
        empty, counting begins anew, and the log says when, why and by whom. Answers the round in force; an older number changes
        nothing."""

    def end_round(self, group: str, token: Token) -> tuple[EndState, int]:
        """Ask for the right to do what comes after the group's present round, and that round's number. Granted once the
        group is drained, to one worker for each round, until the next round begins."""

    def renew_end(self, group: str, token: Token) -> bool:
        """Keep the right; False: it was given away, or another round has begun."""

    def release_end(self, group: str, token: Token) -> bool:
        """Give the right back without having used it up, for instance because there is more to fetch in this round."""

    def ended(self, group: str, token: Token, summary: Mapping[str, Any] | None = None) -> bool:
        """All is done that comes after the round. `summary` is noted as by `round_note`; the counts are those of the round
        unless it has others. False: the right had been given away."""

    def round_note(self, group: str, number: int, fields: Mapping[str, Any]) -> bool:
        """Note something about a round: began, ended (server time in seconds), trigger, who, pages, items, failed, dead, late,
        note. What was noted first stays for began, ended, trigger and who; of the rest the last counts. False: there is no such
        round yet, or it is too long ago to be kept."""

    def rounds(self, group: str, limit: int = 100) -> list[RoundInfo]:
        """The last rounds of a group, newest first; of the present one with what it has brought so far. 1,000 are kept."""

    def drop_lane(self, lane: str) -> Iterator[int]:
        """Empty a lane and take it away, in bounded steps: yields how many requests each step dropped. Leased ones end
        as usual first; until then the steps go on. What is dropped is no longer seen; a memory that no other lane of the group
        uses goes too."""

    def drop_group(self, group: str) -> Iterator[int]:
        """Drop every lane of a group, then all that is kept of it: dead letters, items and their consumers, counters,
        memories, rounds, start and policy; in bounded steps: yields how many requests and dead letters each step dropped.
        Nothing is leased from it meanwhile. Steps not taken are made up for by calling again. Task keys belong to their
        producers and stay; keys given to `add` and `bury` are the crawl's and stay known."""

    def drained(self, group: str) -> Drained:
        """Whether nothing is queued, delayed, leased, waiting as a task or owed as a start."""

    def seen(self, lane: str, fingerprints: Sequence[int]) -> list[bool]:
        """Which fingerprints a lane's memory knows."""

    def forget(self, lane: str, fingerprints: Sequence[int]) -> list[bool]:
        """Make fingerprints new again; False: was not known."""

    def dead_letters(self, group: str, after: int = 0, limit: int = 100) -> list[DeadLetter]:
        """A page of dead letters, oldest first, without payloads; `after` so many on each partition."""

    def dead_letter(self, partition: int, number: int) -> DeadLetter:
        """One dead letter with its payload."""

    def replay(self, partition: int, numbers: Sequence[int]) -> int:
        """Queue dead letters again, with their attempts forgiven. Answers how many could be: their lane must exist."""

    def drop_dead(self, partition: int, numbers: Sequence[int]) -> int:
        """Let dead letters go for good."""

    def bury(
        self, group: str, payload: bytes, *, reason: str, key: str, detail: str = "", lane: str = "", host: str = ""
    ) -> bool:
        """Keep something from outside (a bad task) as a dead letter, once per key."""

    def lease_tasks(self, token: Token, source: str, want: int) -> list[Task]:
        """Up to `want` tasks from a producer's list, set or sorted set; those whose lease ran out come first. One that ran out
        GOSSAMER_POISON_STRIKES times is leased alone; should it run out then too, it comes marked as `poison`."""

    def settle_tasks(
        self,
        token: Token,
        source: str,
        *,
        done: Sequence[Task] = (),
        release: Sequence[Task] = (),
        renew: Sequence[Task] = (),
    ) -> list[bool]:
        """End, give back or keep tasks, in this order; False: was lost, or had been done by a call whose answer was lost."""

    def task_counts(self, sources: Sequence[str]) -> list[tuple[int, int]]:
        """How many tasks wait in each producer's key, and how many are leased."""

    def read_items(self, group: str, partition: int, after: str = "0-0", limit: int = 100) -> list[tuple[str, bytes]]:
        """Items after a position, with theirs."""

    def keep_items(self, group: str, consumer: str, positions: Mapping[int, str]) -> int:
        """A consumer has stored the items up to these positions (by partition); what all consumers have is trimmed.
        Answers how many wait. Position "" only registers the consumer, "gone" ends it."""

    def counts(self, group: str = "") -> Counts:
        """Lanes and groups in numbers; O(lanes), whatever is queued."""

    def hosts(self, names: Sequence[str]) -> list[HostInfo]:
        """What is known of hosts."""

    def workers(self, most: int = 0) -> list[WorkerInfo]:
        """Who has called, longest silent first; with `most` at most that many, those who called last. A worker that says `leave` is
        not listed any more, and one that was silent for an hour and holds nothing soon is not."""

    def workers_count(self) -> int:
        """How many workers are listed; of several partitions, the most that one of them lists."""

    def silent_workers(self, least: float, most: float) -> tuple[float, list[WorkerInfo]]:
        """The server's time, and who was not heard of for at least and at most so many seconds; of many, those who called
        last."""

    def gone(self, incarnation: str, silent: float, groups: Sequence[str] = ()) -> int:
        """A worker is known to be gone: what it holds goes to others now instead of at its deadlines, and so does the right to run the
        start of one of `groups`, or to do what comes after its round. If it has called within the last `silent` seconds, nothing
        changes. Answers how many leases run out, those rights among them."""

    def leave(self, incarnation: str) -> None:
        """A worker has ended: it is struck from the list, unless it holds something."""

    def drain_worker(self, incarnation: str, draining: bool = True) -> None:
        """Ask a worker to take nothing more: its exchanges answer with `paused` = draining."""

    def forget_workers(self, silent: float) -> int:
        """Strike workers that hold nothing and were silent for `silent` seconds; a bounded number. Answers how many; 0: none is left."""

    def put_cookies(self, group: str, cookies: Mapping[str, bytes], *, most: int) -> tuple[int, int]:
        """Share cookies with the other workers of a group, by names; b"": it is gone. Beyond `most` those that changed longest ago are
        forgotten. A new round begins without any. Answers the versions before and after: who knew the one before knows all."""

    def cookies(self, group: str, after: int = 0) -> tuple[int, dict[str, bytes], int]:
        """The present version, what has changed since another, and the version with which the present round began without any: what
        was known before that counts no more. 0: none had been shared before."""

    def seen_counts(self) -> list[SeenInfo]:
        """The memories of the crawl."""

    def scan(
        self, partition: int, what: str, cursor: str = "0", limit: int = 500, place: str = "", snapshot: str = ""
    ) -> ScanPage:
        """A page of what the crawl holds (`what`: leased, delayed, suspect, dead, hosts, list, journal). A `snapshot`, any
        name of its own, says begin first and end last: between, what is queued anew is kept for it in the journal."""

    def put_document(
        self, kind: str, name: str, text: str, *, expected: int | None = None, who: str = "", note: str = ""
    ) -> int:
        """Keep a text under a name, as the next version of what is there; answers its number. `VersionConflict` when
        `expected` (0: none yet) is not the present version. So many versions as GOSSAMER_DOCUMENT_VERSIONS says are kept; a text has
        at most 1 MB. Every worker's `config_version` changes with it."""

    def drop_document(self, kind: str, name: str, *, who: str = "", note: str = "") -> int:
        """Say that a document is gone, as its next version; older ones stay, so that it can be put again. Answers the
        version that says so."""

    def document(self, kind: str, name: str, version: int | None = None) -> Document:
        """A document in its present version, or in another that is kept; `UnknownDocument` if there is none. One that is
        gone has no text."""

    def documents(self, kind: str) -> list[DocumentInfo]:
        """The present versions of all documents of a kind, by name, with those that are gone."""

    def document_history(self, kind: str, name: str) -> list[DocumentInfo]:
        """The versions of a document that are kept, newest first; `UnknownDocument` if there never was one."""

    def documents_version(self) -> int:
        """A number that grows with every change of any document; O(1). Worth asking when `config_version` has changed."""
