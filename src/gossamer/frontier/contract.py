"""The contract of the frontier: what callers may rely on, whatever carries it.

The guarantees in short (docs/explanation/guarantees.md states them in full, each with the test that fails without it):
nothing is lost, a page is atomic, seen means stored, leases are fenced, poison is contained, order is exact, the whole crawl
is polite to each host, everything is bounded, starts run once and drained is final, only server time counts, and everything
survives a restart.

`AsyncFrontier` has the same verbs as coroutines, with the same meaning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from gossamer.model import (
    Added,
    CounterChange,
    Counts,
    DailyCounts,
    DeadLetter,
    Document,
    DocumentInfo,
    Drained,
    DueLane,
    EndState,
    ExchangeReply,
    Fetched,
    FieldCoverage,
    GroupPolicy,
    HostInfo,
    HostPolicy,
    LaneFeed,
    LanePolicy,
    Leader,
    Lease,
    PageInfo,
    PageName,
    PageState,
    PartitionState,
    PlanCycle,
    PlanState,
    Request,
    RequestPlace,
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
from gossamer.model.plan.page_record import FeedLane
from gossamer.model.reply import TaskQueueSize


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
        """The one call a worker makes all the time; atomic within a partition. It settles leases together with
        everything their pages produced, frees the slots of hosts that answered, records what was sent, adds requests
        (limits apply), applies counters, and leases up to `want` requests from the selected lanes. Fewer leases than
        `want` mean that no more may be leased now.

        Repeating a call with the same token changes nothing and returns what the first call returned; its leases are
        those still held. `info` describes the worker for people; send it with the first call.

        `relies` maps a partition to the state (`ExchangeReply.states`) that the caller relied on when it left children
        out. A partition in another state changes nothing until it gets the `withheld` children too; this method sends
        them, and `ExchangeReply.states` shows the new state.

        `session` names the group whose shared cookies `Hints.session` is about. With `everywhere`, the call goes to all
        partitions, also to those that have nothing to do, so that `ExchangeReply.states` has all of them.
        """

    def add(
        self,
        requests: Sequence[Request],
        *,
        bound: bool = True,
        key: str | Sequence[str] = "",
        token: Token | None = None,
    ) -> Added:
        """Add requests from a producer, in as many bounded calls as they need. Return one outcome per request; an
        invalid request does not keep the others from being added. With `bound`, limits apply. With `key`, unfiltered
        requests are added once per key and position in the list, however often you call this; with a list of keys, one
        per request, once per key; a key may be any text, and never meets those that Gossamer makes. With `token`, a repeated call returns what the first one returned."""

    def renew(self, token: Token, leases: Sequence[Lease]) -> list[Lease | None]:
        """Return the leases with a new deadline; None for a lease that another worker holds by now: stop working
        on it. Without leases, this only reports that the worker is alive."""

    def release(self, token: Token, leases: Sequence[Lease | Sent]) -> list[bool]:
        """Give back leases whose requests were not sent. They go ahead of other work, and the attempt does not
        count. Use `Sent` if the host was asked for something else instead: its delay counts from then. False: the lease
        was lost, or an earlier call whose reply was lost has released it."""

    def permit(self, token: Token, host: str) -> tuple[Lease | None, float | None]:
        """Take a slot of a host for a download that is not a request (robots.txt, media). Settle it, or let it
        expire. Without a free slot, return None and the seconds to wait, or None and None: wait until one is freed."""

    def define(self, group: str, lanes: Mapping[str, LanePolicy], policy: GroupPolicy | None = None) -> None:
        """Create or change a group and some of its lanes; other lanes stay as they are, and so does queued work. A
        new group without a policy gets the default one. A lane whose seen policy changes starts with an empty memory,
        unless other lanes of the group have that policy; the old memory is deleted when no lane uses it."""

    def pause(self, *, group: str = "", lane: str = "", host: str = "", reason: str = "paused") -> None:
        """Lease nothing from a group, a lane (full name), a host, or, with none of them, the crawl. Work in progress
        continues, and requests can still be added."""

    def resume(self, *, group: str = "", lane: str = "", host: str = "") -> None:
        """Undo a pause."""

    def set_host(self, host: str, policy: HostPolicy | None) -> None:
        """Set how the fleet treats a host; None: as the default. For host "", set the default itself."""

    def set_crawl_delay(self, host: str, seconds: float) -> None:
        """Set the delay that robots.txt asks for; the host's delay is never shorter. 0: none."""

    def block(self, host: str, seconds: float, reason: str = "blocked") -> float:
        """Lease nothing from a host for some seconds; 0 unblocks it. Return the server time at which the block
        ends."""

    def start(self, group: str, token: Token) -> tuple[StartState, int]:
        """Ask for the right to run the group's start in its current round. Return the state and the round."""

    def renew_start(self, group: str, token: Token) -> bool:
        """Keep the right to run the start; False: it was given to another worker."""

    def release_start(self, group: str, token: Token) -> bool:
        """Give the right back unused: the next worker that asks runs the start from its beginning."""

    def started(self, group: str, token: Token) -> bool:
        """Report that the start has run to its end and its requests are added. False: the right had been given to
        another worker."""

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
    ) -> int:
        """Begin round `number`, which is one more than the current round: starts are due again, memories of scope
        `round` are empty, counts begin at 0, and the log records when, why and by whom. Return the current round; an
        older number changes nothing. With None, only partitions that are in an earlier round than others follow them. A planner gives its `term` (see `lead`). With `again`, the log
        says of a round that is not over that it was seeded again, and not that it was cut short. `after` is when the current round
        began, as the caller knows it: if that is another one, nothing changes."""

    def end_round(self, group: str, token: Token) -> tuple[EndState, int]:
        """Ask for the right to do what follows the group's current round. Return the state and the round. The
        right is granted once the group is drained, to one worker per round, until the next round begins."""

    def renew_end(self, group: str, token: Token) -> bool:
        """Keep the right to end the round; False: it was given away, or another round has begun."""

    def release_end(self, group: str, token: Token) -> bool:
        """Give the right back unused, for instance because there is more to fetch in this round."""

    def ended(self, group: str, token: Token, summary: Mapping[str, Any] | None = None) -> bool:
        """Report that everything that follows the round is done. `summary` is recorded as by `round_note`; counts not
        in it are those of the round. False: the right had been given away."""

    def round_note(self, group: str, number: int, fields: Mapping[str, Any]) -> bool:
        """Record fields of a round: began, ended (server time in seconds), trigger, who, pages, items, failed,
        dead, late, note, tasks, obstacle, gone. For began, ended, trigger and who the first value stays; for the rest the last one counts. False:
        there is no such round yet, or it is too old to be kept."""

    def rounds(self, group: str, limit: int = 100) -> list[RoundInfo]:
        """The last rounds of a group, newest first; the current one with its counts so far. 1,000 are kept."""

    def daily_counts(self, group: str, days: int = 400) -> list[DailyCounts]:
        """What each lane of a group brought on each of the last days (of UTC), today so far; by day and lane. Days and lanes that
        brought nothing are left out, and 400 days are kept."""

    def coverage(self, groups: Sequence[str]) -> list[FieldCoverage]:
        """What the fields of these groups' layers had in the last 10 rounds, by group, round, layer and field. Workers send it as counters
        `coverage/ROUND|LAYER|n` (pages; `v`: with records or links, `b`: walls, `u`: unchanged
        and not in the stream) and `coverage/ROUND|LAYER.FIELD|n` (asked; `v`: with a value)."""

    def drop_lane(self, lane: str) -> Iterator[int]:
        """Empty a lane and delete it, in bounded steps; yield how many requests each step dropped. Leased requests
        end as usual first, and the steps go on until they have. Dropped requests count as not seen; a memory that no other
        lane of the group uses is deleted. LaneKept if somebody defines the lane meanwhile: it stays, with what is left
        in it and what is added then."""

    def drop_round(self, group: str, number: int, *, term: int = 0) -> tuple[bool, int]:
        """Drop what waits of a group's round `number`, one bounded step of it: return whether nothing is left, and how many
        requests went. From the first step on the lanes of the group take nothing more, and leased requests end as usual first; the
        next round opens the lanes again: begin it when nothing is left. If no step comes for ten seconds, or for twice as long as the
        planner leads, they open with what is left in them: whoever made the steps has died, or wants it no more. Dropped requests count as not seen. If another round
        has begun, nothing happens. A planner gives its `term` (see `lead`)."""

    def drop_group(self, group: str) -> Iterator[int]:
        """Drop every lane of a group, then everything kept of it: dead letters, items and their consumers,
        counters, memories, rounds, start and policy. Works in bounded steps and yields how many requests and dead letters
        each step dropped. Nothing is leased from the group meanwhile. If the steps break off, call this again to finish.
        Task keys belong to their producers and stay; keys given to `add` and `bury` belong to the crawl and stay."""

    def drained(self, group: str) -> Drained:
        """Whether nothing is queued, delayed, leased, waiting as a task or due as a start."""

    def seen(self, lane: str, fingerprints: Sequence[int]) -> list[bool]:
        """Which fingerprints are in a lane's memory."""

    def forget(self, lane: str, fingerprints: Sequence[int]) -> list[bool]:
        """Remove fingerprints from a lane's memory; False: it was not there."""

    def forget_texts(self, lane: str, fingerprints: Sequence[int]) -> list[bool]:
        """Forget what lists said of pages when these were last fetched: the next text fetches them again, whatever it is. The pages stay
        seen. False: no text was known."""

    def dead_letters(self, group: str, after: int = 0, limit: int = 100) -> list[DeadLetter]:
        """A page of dead letters, oldest first, without payloads. `after` skips that many on each partition."""

    def dead_letter(self, partition: int, number: int) -> DeadLetter:
        """One dead letter with its payload."""

    def read_dead(self, partition: int, numbers: Sequence[int]) -> list[DeadLetter]:
        """Dead letters with their payloads, in the order of `numbers`, without those that are not there any more. After 4 MB no
        further one is read: ask again for those behind the last one."""

    def replay(self, partition: int, numbers: Sequence[int]) -> int:
        """Queue dead letters again, with their attempts reset. Return how many were queued: their lane must exist."""

    def drop_dead(self, partition: int, numbers: Sequence[int]) -> int:
        """Delete dead letters for good. Return how many were there."""

    def bury(
        self, group: str, payload: bytes, *, reason: str, key: str, detail: str = "", lane: str = "", host: str = ""
    ) -> bool:
        """Keep something from outside (a bad task) as a dead letter, once per key. False: the key was used before."""

    def lease_tasks(self, token: Token, source: str, want: int) -> list[Task]:
        """Lease up to `want` tasks from a producer's list, set or sorted set; those whose lease expired come first.
        A task whose lease expired GOSSAMER_POISON_STRIKES times is leased alone; if it expires once more, it comes marked as
        `poison`."""

    def settle_tasks(
        self,
        token: Token,
        source: str,
        *,
        done: Sequence[Task] = (),
        release: Sequence[Task] = (),
        renew: Sequence[Task] = (),
    ) -> list[bool]:
        """Finish, give back or renew tasks, in this order; False: the lease was lost, or an earlier call whose
        reply was lost has done it."""

    def task_counts(self, sources: Sequence[str]) -> list[TaskQueueSize]:
        """How many tasks wait in each producer's key, how many are leased, and how fast they are settled."""

    def read_items(self, group: str, partition: int, after: str = "0-0", limit: int = 100) -> list[tuple[str, bytes]]:
        """Items after a position, each with its own position."""

    def keep_items(self, group: str, consumer: str, positions: Mapping[int, str]) -> int:
        """Report that a consumer has written the items up to these positions, by partition ("": an export that has no name). They may go then
        if there must be room. Return how many items are there. Position "" only registers the consumer, "gone" removes it."""

    def drop_items(self, group: str, positions: Mapping[int, str]) -> int:
        """Remove the items up to these positions, by partition, whoever has written them. Return how many there were."""

    def counts(self, group: str = "", *, brief: bool = False) -> Counts:
        """Lanes and groups in numbers. Costs O(lanes), however much is queued. `brief` leaves out the counters of groups and the
        policies of lanes but for their stage, which cost most."""

    def hosts(self, names: Sequence[str]) -> list[HostInfo]:
        """The state of hosts."""

    def workers(self, most: int = 0) -> list[WorkerInfo]:
        """The workers that have called, longest silent first; with `most`, at most that many, those that called last. A
        worker that has left is not listed; neither, after a while, is one that holds nothing and was silent for an hour."""

    def workers_count(self) -> int:
        """How many workers are listed; with several partitions, the most that one of them lists."""

    def silent_workers(self, least: float, most: float) -> tuple[float, list[WorkerInfo]]:
        """The server time, and the workers silent for at least `least` and at most `most` seconds."""

    def turn_to_look(self, seconds: float) -> bool:
        """Whether it is the caller's turn to look for workers that are gone: True for one caller in so many seconds."""

    def gone(self, incarnation: str, silent: float, groups: Sequence[str] = ()) -> int:
        """Report that a worker is gone: its leases expire now instead of at their deadlines, and so do its rights to run
        the start or to end the round of `groups`. If the worker has called within the last `silent` seconds, nothing
        changes; 0: its supervisor saw it die. Return how many leases and rights expired."""

    def leave(self, incarnation: str) -> None:
        """Remove a worker that has ended from the list, unless it holds something."""

    def drain_worker(self, incarnation: str, draining: bool = True) -> None:
        """Ask a worker to take nothing more: its exchanges return `paused` = draining."""

    def forget_workers(self, silent: float) -> int:
        """Remove workers that hold nothing and were silent for `silent` seconds, a bounded number per call. Return
        how many; 0: none is left."""

    def put_cookies(self, group: str, cookies: Mapping[str, bytes], *, most: int) -> tuple[int, int]:
        """Share cookies with the other workers of a group, by name; b"" deletes one. Beyond `most`, those that changed
        longest ago are deleted. A new round begins without cookies. Return the versions before and after: a worker that
        knew the version before knows everything."""

    def cookies(self, group: str, after: int = 0) -> tuple[int, dict[str, bytes], int]:
        """The current version, the cookies that changed since version `after`, and the version at which the current
        round began without cookies: forget what you knew before that one. 0: none had been shared before."""

    def page_versions(self, group: str, pages: Sequence[PageName]) -> tuple[str, dict[PageName, bytes]]:
        """The versions of pages (host and name) that were read last, as far as they are known, and the birth of the group."""

    def put_page_versions(self, group: str, born: str, versions: Mapping[PageName, bytes], *, most: int) -> None:
        """Note versions of pages for all workers and later runs; `born` is what `page_versions` told when they were asked for: for
        another group of that name nothing is noted. Beyond `most`, or `most` KiB, those noted longest ago are forgotten. Note a version
        only when its page is settled: a page whose version is known is not read again."""

    def forget_page_versions(self, group: str) -> None:
        """Forget the versions of all pages of a group: each is fetched whole the next time."""

    def check_page_versions(self, group: str, edition: str = "") -> bool:
        """Forget the versions of a group's pages if a partition has gone back to an older state since they were noted, as what the pages
        led to may be lost (one partition alone takes the versions along); or if the pages are read by another `edition` of rules than at
        the last call. Return whether they still hold."""

    def seen_counts(self) -> list[SeenInfo]:
        """The seen memories of the crawl."""

    def scan(
        self, partition: int, what: str, cursor: str = "0", limit: int = 500, place: str = "", snapshot: str = ""
    ) -> ScanPage:
        """A page of what the crawl holds (`what`: leased, delayed, suspect, dead, hosts, list, journal). A `snapshot`, under
        any name of its own, begins with `begin` and finishes with `end`: what is queued in between is also kept in its
        journal."""

    def put_document(
        self, kind: str, name: str, text: str, *, expected: int | None = None, who: str = "", note: str = ""
    ) -> int:
        """Store a text under a name, as its next version. Return that version's number. Raise `VersionConflict` if
        `expected` (0: none yet) is not the current version. GOSSAMER_DOCUMENT_VERSIONS versions are kept; a text has at
        most 1 MB. Every worker's `config_version` changes with it."""

    def drop_document(self, kind: str, name: str, *, expected: int | None = None, who: str = "", note: str = "") -> int:
        """Mark a document as deleted, as its next version; older versions stay, so that it can be restored. Return the
        number of that version. Raise `VersionConflict` if it is there in another version than `expected`."""

    def document(self, kind: str, name: str, version: int | None = None) -> Document:
        """A document in its current version, or in another that is kept. Raise `UnknownDocument` if there is none. A deleted
        document has no text."""

    def read_documents(self, kind: str, names: Sequence[str]) -> list[Document]:
        """Several documents in their current versions, in few calls; those that there are not are left out."""

    def documents(self, kind: str) -> list[DocumentInfo]:
        """The current versions of all documents of a kind, by name, deleted ones included."""

    def document_history(self, kind: str, name: str) -> list[DocumentInfo]:
        """The versions of a document that are kept, newest first. Raise `UnknownDocument` if there never was one."""

    def documents_version(self) -> int:
        """A number that grows with every change of any document; O(1). Read it when `config_version` has changed."""

    def lead(self, token: Token, name: str, seconds: float, term: int = 0) -> Leader:
        """Ask for the lead of the crawl's planners for some seconds; with the `term` that was given, keep it. Not granted: another
        planner leads, or the term is over. A term that was given is later than all that were given before, also after a
        partition went back to an older state; whenever a call grants the lead, the term is the one that it returns. When it is granted, all
        partitions know of it: they raise `NotLeader` for calls with another term, and for those of a leader whose lead ran out."""

    def resign(self, token: Token, term: int) -> bool:
        """Give the lead back; another planner may have it at once. False: the term was over before, or an earlier
        call whose reply was lost has given it back."""

    def due_lanes(self, partition: int) -> list[DueLane]:
        """The lanes that keep page records, with what is due and queued on one partition."""

    def feed(
        self,
        partition: int,
        lanes: Sequence[FeedLane],
        *,
        term: int = 0,
        log: tuple[int, int] | None = None,
    ) -> list[LaneFeed]:
        """Move due pages of lanes that keep records into their queues, on one partition: of each lane (full name) at most the number
        given, the oldest first (LIFO lanes: the newest), and none beyond the given number of queued and delayed requests there (None: the
        lane's own limits alone). A lane that gets none, and whose number of due pages is given, is not looked at: the answer has these, and
        that many queued. From the first call of a planner with its `term` on, pages that are found wait for it, as long as it leads.
        Otherwise workers' exchanges move what is due. `log`, the limit and what was scheduled, is kept for `plan_cycles` with what came of it."""

    def page_records(self, lane: str, fingerprints: Sequence[int]) -> list[PageInfo | None]:
        """The records of pages; None for one that the lane does not know."""

    def scan_page_records(
        self, lane: str, partition: int, cursor: str = "0", limit: int = 500, state: PageState | None = None
    ) -> tuple[str, list[PageInfo]]:
        """Some records of a lane, all or those in one state, and the cursor of the next ones; "" at the end. A record that is there all
        the while is returned at least once."""

    def locate(
        self, lane: str, host: str, fingerprint: int, *, dead_since: float | None = None, look: int = 10_000
    ) -> RequestPlace:
        """Where the request of a page is: in the queue of its host and behind how many, or in whose hands. With `dead_since` also its last dead
        letter: of those since then (server time), or -1 for the newest. Looks at no more than `look` of each, from the head of the
        queue on, and says whether that was all."""

    def plan_cycles(self, limit: int = 20) -> list[PlanCycle]:
        """The last cycles of planners in which pages were due, on all partitions, newest first; 500 are kept on each."""

    def plan_state(self, *, lanes: bool = False) -> PlanState:
        """Who leads, and of all groups what planners decide by: their present rounds and what waits, with `lanes` in each lane. Costs
        O(groups); where nothing has changed since this client asked last, next to nothing, and the groups are the same object."""

    def alert_entries(self, names: Sequence[str] | None = None) -> tuple[float, dict[str, bytes]]:
        """The server time, and what leaders of the planners have kept of alerts: these entries, or all, as far as they are there."""

    def put_alert_entries(self, entries: Mapping[str, bytes | None], *, term: int) -> None:
        """Keep entries about alerts, all of them at once; None deletes one. A planner gives its `term` (see `lead`): raises `NotLeader`, and
        keeps nothing, once another leads."""
