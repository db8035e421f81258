"""Feeds the rows of a table as tasks and takes their state back, until the table is done.

Nothing is lost and nothing doubled, whoever is killed and when:

- A row is `waiting` in the table before its task is pushed. The server knows a pushed task by the row's key until its report is in the
  table, so pushing it again changes nothing. Rows that are open in the table are offered again and again: the server takes those that it
  does not know, since they never arrived, or since it went back to an older state.
- How a page ended is in a list of the server from the call that settles the page, and leaves the list when it is in the table.
- What is open in the table while the crawl has nothing left, neither a task nor a request nor a report, is a dead letter or lost. Lost rows are
  given out again.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from gossamer.courier.task.report import REPORT_KEY_MAX, TaskReport, read_end, report_in
from gossamer.errors import MemoryLimitReached
from gossamer.feeder.row_task import RowTask
from gossamer.frontier.producer import NEW, NO_ROOM, TAKEN, Producer
from gossamer.frontier.task_reports import TaskReports
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import DeadLetter
from gossamer.store.task_table import DONE, FAILED, RUNNING, WAITING, TaskEnding, TaskRow, TaskTable

logger = logging.getLogger(__name__)

STEP = 500
"""Rows per transaction and per call."""
AGAIN = 2 * STEP
REPORTS = 1000
LOOK_SECONDS = 1.0
OFFER_SECONDS = 10.0
"""How often open rows are offered again, and rows looked for that nobody has."""
UNTIL_FORGOTTEN = "*"
KEYS_NAMED = 10


class FeedCounts(NamedTuple):
    """What a feeder did: tasks pushed, rows that ended, rows whose task had to be pushed again, rows that were lost."""

    pushed: int = 0
    done: int = 0
    failed: int = 0
    pushed_again: int = 0
    lost: int = 0


class TableFeeder:
    """One table and one key. `reports`: the list to which the ends of its tasks are reported. `max_open`: rows that may wait or run at a time.
    `tries`: how often a row that gets lost is given out."""

    def __init__(
        self,
        frontier: ValkeyFrontier,
        table: TaskTable,
        key: str,
        row_task: RowTask,
        reports: TaskReports,
        *,
        max_waiting: int = 1000,
        max_open: int = 10_000,
        tries: int = 5,
        every: float = OFFER_SECONDS,
    ) -> None:
        self._frontier, self._table, self._key, self._row_task = frontier, table, key, row_task
        self._reports = reports
        self._producer = Producer(frontier, key, max_waiting=max_waiting, unique=0, key_of=self._task_key)
        self._max_open, self._tries, self._every = max_open, tries, every
        self._counts: Counter[str] = Counter()
        self._offered_at = float("-inf")
        self._offered_after = ""
        self._begun = False
        self._dead: dict[str, int] = {}
        self._judged: dict[str, frozenset[tuple[int, int, float]]] = {}
        """The dead letters of each group that were looked at: there may be many of them, and few are new."""
        self._untaken = 0
        """At how many looks no group took tasks from the key."""
        self._paused = ""
        """Why the rows wait, as it was said last."""

    @property
    def counts(self) -> FeedCounts:
        return FeedCounts(**self._counts)

    def step(self) -> bool:
        """One look at everything; whether something changed."""
        changed = self._take_reports()
        changed += self._feed()
        if time.monotonic() - self._offered_at >= self._every:
            changed += self._offer_again()
            changed += self._find_dead()
            changed += self._find_lost()
            self._offered_at = time.monotonic()
        return changed > 0

    # Reports.

    def _take_reports(self) -> int:
        """What workers have reported, into the table; only then out of the list."""
        taken = 0
        while reports := self._reports.first(REPORTS):
            endings: dict[str, TaskEnding] = {}
            for report in reports:
                end = read_end(report)
                if end is None:
                    logger.warning(
                        "Something in the list %s is no report, and is left out: %.200r", self._reports.name, report
                    )
                    continue
                # What is done stays done, also where another try of it failed.
                if end.key not in endings or endings[end.key].state != DONE:
                    endings[end.key] = TaskEnding(end.key, end.attempt, end.state, end.detail)
            self._end(list(endings.values()), reports)
            taken += len(reports)
            if len(reports) < REPORTS:
                break
        return taken

    def _end(self, endings: Sequence[TaskEnding], reports: Sequence[bytes] = ()) -> None:
        ended = self._table.end(endings)
        self._reports.end([ending.key for ending in endings if ending.key not in ended.tried_again], reports=reports)
        self._counts[DONE] += ended.done
        self._counts[FAILED] += ended.failed

    # Rows.

    def _feed(self) -> int:
        room = self._producer.state().room or 0
        room = min(room, self._max_open - self._table.open_count())
        fed = 0
        while room > 0 and (rows := self._table.claim(min(STEP, room))):
            self._offer(rows)
            fed, room = fed + len(rows), room - len(rows)
        return fed

    def _offer(self, rows: Sequence[TaskRow]) -> str:
        """Push the tasks of rows that the server does not know; returns a letter for each row."""
        tasks, offered, bad = [], [], []
        for row in rows:
            try:
                task = self._row_task.task(row.values)
                if len(row.key) > REPORT_KEY_MAX:
                    raise ValueError(f"its primary key has more than {REPORT_KEY_MAX:,} characters")
            except ValueError as problem:
                bad.append(TaskEnding(row.key, row.tries, FAILED, f"no task: {problem}"))
                continue
            report = TaskReport(self._reports.name, row.key, row.tries).fields()
            tasks.append(json.dumps({**task, "report": report}, ensure_ascii=False).encode())
            offered.append(row)
        if bad:
            self._end(bad)
        letters = ""
        if tasks:
            try:
                letters = self._producer.offer(tasks, UNTIL_FORGOTTEN).outcomes
            except MemoryLimitReached:
                letters = NO_ROOM * len(tasks)
        self._counts["pushed"] += letters.count(NEW)
        # What a worker has taken runs. What found no room stays `waiting` in the table, and is offered again.
        judged = list(zip(offered, letters, strict=True))
        self._table.change(
            [row for row, letter in judged if letter == TAKEN and row.state == WAITING], WAITING, RUNNING
        )
        self._table.change([row for row, letter in judged if letter == NEW and row.state == RUNNING], RUNNING, WAITING)
        return letters

    def _offer_again(self) -> int:
        """Offer open rows once more: all of them at first, then some at a time."""
        pushed, left = 0, AGAIN if self._begun else self._max_open
        while left > 0:
            rows = self._table.open_rows(self._offered_after, STEP)
            left -= STEP
            if rows:
                pushed += self._offer(rows).count(NEW)
            self._offered_after = rows[-1].key if len(rows) == STEP else ""
            if not self._offered_after:
                break
        self._begun = True
        if pushed:
            self._counts["pushed_again"] += pushed
            logger.warning(
                "%d open rows were not known to the server, which went back or never had them: pushed again.", pushed
            )
        return pushed

    # Rows that nobody has.

    def _groups(self) -> list[str]:
        """The groups that the key feeds."""
        return [group for group, sources in self._sources().items() if self._key in sources]

    def _sources(self) -> dict[str, list[str]]:
        """The keys that feed each group."""
        policies = self._frontier.counts().group_policies
        return {group: list(filter(None, str(policy["tasks"]).split("\n"))) for group, policy in policies.items()}

    def _note_untaken(self) -> None:
        """Say that nobody takes the tasks, once: not at the first look, when workers may have just been started."""
        self._untaken += 1
        if self._untaken == 2:
            others = sorted({key for sources in self._sources().values() for key in sources})
            logger.warning(
                "No site or spider that a worker of the crawl %s has served takes tasks from the key %s%s. The rows wait until one does.",
                self._frontier.crawl,
                self._key,
                f" (others do from {', '.join(others[:KEYS_NAMED])})" if others else "",
            )

    def _note_paused(self, groups: Sequence[str]) -> None:
        """Say that the rows wait since what takes them is paused, or has all pages that it may have; once as long as it stays the same."""
        counts = self._frontier.counts()
        held = {row.group: row.paused for row in counts.groups if row.group in groups}
        told = [f"{group} is paused: {why}" for group, why in held.items() if why] if all(held.values()) else []
        said = f"the crawl is paused: {counts.paused}" if counts.paused else "; ".join(told)
        if said and said != self._paused:
            logger.warning("The rows wait: %s.", said)
        self._paused = said

    def _find_dead(self) -> int:
        """Dead letters of our tasks that no worker could report: their workers died, or the tasks could not be used."""
        found = 0
        counts = {group.group: group.dead for group in self._frontier.counts().groups}
        for group in self._groups():
            if counts.get(group, 0) == self._dead.get(group):
                continue
            letters, known = self._letters(group), self._judged.get(group, frozenset())
            endings = self._endings([letter for letter in letters if _name(letter) not in known])
            fresh = {row.key: row for row in self._open() if endings}
            endings = [each for each in endings if each.key in fresh and fresh[each.key].tries <= each.tries]
            if endings:
                self._end(endings)
                found += len(endings)
            self._dead[group] = counts.get(group, 0)
            self._judged[group] = frozenset(map(_name, letters))
        return found

    def _letters(self, group: str) -> list[DeadLetter]:
        letters: list[DeadLetter] = []
        after = 0
        while page := self._frontier.dead_letters(group, after, REPORTS):
            letters += page
            after += REPORTS
        return letters

    def _endings(self, letters: Sequence[DeadLetter]) -> list[TaskEnding]:
        """How our tasks among them ended."""
        endings: list[TaskEnding] = []
        by_partition: dict[tuple[int, int], list[int]] = {}
        for place, letter in enumerate(letters):
            by_partition.setdefault((letter.partition, place // REPORTS), []).append(letter.id)
        for (partition, _), numbers in by_partition.items():
            # Some may have been replayed or dropped meanwhile.
            while numbers and (found := self._frontier.read_dead(partition, numbers)):
                numbers = numbers[numbers.index(found[-1].id) + 1 :]
                for letter in found:
                    report = report_in(letter.payload)
                    if report is not None and report.list == self._reports.name:
                        why = f"dead letter: {letter.reason}"
                        endings.append(TaskEnding(report.key, report.attempt, FAILED, why))
        return endings

    def _open(self) -> list[TaskRow]:
        found: list[TaskRow] = []
        after = ""
        while rows := self._table.open_rows(after, STEP):
            found += rows
            after = rows[-1].key
        return found

    def _find_lost(self) -> int:
        """Rows that are open although the crawl has nothing left."""
        groups = self._groups()
        if not groups:
            self._note_untaken()
            return 0
        self._untaken = 0
        self._note_paused(groups)
        if not self._nothing_left(groups):
            return 0
        # In this order: what is open, then whether anything is left, then what was reported meanwhile.
        rows = self._open()
        if not rows or not self._nothing_left(groups):
            return 0
        self._take_reports()
        self._dead.clear()
        self._judged.clear()
        self._find_dead()
        still = {(row.key, row.tries) for row in self._open()}
        rows = [row for row in rows if (row.key, row.tries) in still]
        lost: list[TaskRow] = []
        for first in range(0, len(rows), STEP):
            part = rows[first : first + STEP]
            letters = self._reports.end(lost=[row.key for row in part])
            lost += [row for row, letter in zip(part, letters, strict=True) if letter == "f"]
        if lost:
            self._table.lose(lost, self._tries)
            self._counts["lost"] += len(lost)
            logger.warning("%d rows were lost: no worker has them, and nothing of them is queued.", len(lost))
        return len(lost)

    def _nothing_left(self, groups: Sequence[str]) -> bool:
        return all(self._frontier.drained(group).drained for group in groups)

    def _task_key(self, task: bytes) -> str:
        row: str = json.loads(task)["report"]["key"]
        return self._reports.task_key(row)


def _name(letter: DeadLetter) -> tuple[int, int, float]:
    """What no other dead letter has: a server that went back gives out numbers again."""
    return letter.partition, letter.id, letter.at
