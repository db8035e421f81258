"""Tasks that a round begins with, from a file or a query: each is pushed once per round, whichever planner does it."""

from __future__ import annotations

import csv
import logging
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import IO, Any, NamedTuple

from gossamer.errors import GossamerError, NotLeader, PermissionDenied, SiteError, StoreError
from gossamer.frontier.client import FunctionClient
from gossamer.frontier.connection.presence import run_of
from gossamer.frontier.producer import Producer, batches, encoded
from gossamer.model.plan.task_row import task_of, task_of_cells
from gossamer.sites.check.grant import TABLES, database_refusals
from gossamer.sites.file.environment import REFERENCE, revealed
from gossamer.sites.file.grant import EVERYTHING, Grant
from gossamer.sites.format.spider import SpiderTasks

logger = logging.getLogger(__name__)

KNOWN = 86400.0
"""Seconds for which a task of a round is known: a planner that takes over goes on with what another has begun."""
MOST_ROWS = 1_000_000
"""A query that finds more fails; `gossamer task feed` is for tables of any size."""
LATELY = 60.0
"""Seconds for which it is looked whether the server that has the tasks was replaced, and may have lost them."""
KEPT = 4_000_000
"""Bytes of a round's tasks that are kept in memory meanwhile; more are in a temporary file."""


class KeptTasks:
    """The tasks of a round, one a line: their file or query may have others by the time a server has lost them. Where there is no room
    for them on the disk, they are not kept."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = tempfile.SpooledTemporaryFile(KEPT)  # noqa: SIM115

    def add(self, tasks: Sequence[bytes]) -> None:
        if self._file is not None:
            try:
                self._file.writelines(task + b"\n" for task in tasks)
            except OSError as error:
                logger.warning("Tasks of a round are not kept, in case that the server loses them: %s", error)
                self.close()

    def read(self) -> Iterator[bytes] | None:
        if self._file is None:
            return None
        self._file.seek(0)
        return (line[:-1] for line in self._file)

    def close(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None

    def __del__(self) -> None:
        self.close()


class PushedTasks(NamedTuple):
    """Tasks that were pushed lately: by which rule, to which server process, until when to look after them, and the tasks."""

    rule: SpiderTasks
    run: str
    until: float
    kept: KeptTasks


class RoundTasks:
    """`grant` says which files and databases may be read: anyone who can write to the server can name one. `store_url`
    is the database of queries that name none."""

    def __init__(
        self,
        function_client: FunctionClient,
        grant: Grant,
        store_url: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._function_client, self._grant, self._store_url, self._clock = function_client, grant, store_url, clock
        self._lately: dict[str, PushedTasks] = {}
        """By the name of the round."""

    def push(self, name: str, rule: SpiderTasks, between: Callable[[], object]) -> int:
        """Push the tasks of a round, each once by the round's `name`; how many were new. `between` is called between two batches.
        SiteError or StoreError if they cannot be read."""
        kept = KeptTasks()
        try:
            return self._push(name, rule, map(encoded, self._rows(rule)), kept, between, adds=True)
        except BaseException:
            kept.close()
            raise

    def _push(
        self,
        name: str,
        rule: SpiderTasks,
        tasks: Iterable[bytes],
        kept: KeptTasks,
        between: Callable[[], object],
        *,
        adds: bool = False,
    ) -> int:
        def key_of(task: bytes) -> str:
            return f"{name}:{blake2b(task, digest_size=16).hexdigest()}"

        # Before the first batch: what is lost between two of them is missed, too.
        run = self._run(rule)
        producer = Producer(self._function_client, rule.key, unique=KNOWN, key_of=key_of)
        new = 0
        for batch in batches(tasks):
            if adds:
                kept.add(batch)
            new += producer.push(batch).new
            between()
        # Not before: what broke off half way is pushed again.
        if name in self._lately and self._lately[name].kept is not kept:
            self._forget(name)
        self._lately[name] = PushedTasks(rule, run, self._clock() + LATELY, kept)
        return new

    def _forget(self, name: str) -> None:
        self._lately.pop(name).kept.close()

    def push_lost(self, is_noted: Callable[[str], bool], between: Callable[[], object]) -> None:
        """Push again what was pushed lately to servers that were replaced since: in a cluster, the node that has the tasks may have lost
        its last second, and the one that has the round may not. `is_noted` says whether the round of a name is there, and is noted to have
        its tasks: otherwise they are pushed when it is. Raises what is in the way of some, after the others were pushed; these are tried
        again with the next call."""
        problem: GossamerError | None = None
        for name, (rule, run, until, kept) in list(self._lately.items()):
            try:
                if self._run(rule) != run:
                    self._push_again(name, rule, kept, is_noted, between)
                elif self._clock() >= until:
                    self._forget(name)
            except NotLeader:
                raise
            except GossamerError as error:
                # Those of other rounds do not wait for it.
                problem = problem or error
        if problem is not None:
            raise problem

    def _push_again(
        self,
        name: str,
        rule: SpiderTasks,
        kept: KeptTasks,
        is_noted: Callable[[str], bool],
        between: Callable[[], object],
    ) -> None:
        if not is_noted(name):
            self._forget(name)
            return
        # Those of the round, and not what the file or the query has by now, which is for the next one.
        tasks = kept.read()
        if lost := self.push(name, rule, between) if tasks is None else self._push(name, rule, tasks, kept, between):
            logger.warning(
                "The server of %s was restarted or replaced, and has lost %d tasks of a round: pushed again.",
                rule.key,
                lost,
            )

    def _run(self, rule: SpiderTasks) -> str:
        try:
            return run_of(self._function_client.connection, rule.key)
        except PermissionDenied:
            return ""

    def check(self, rule: SpiderTasks, between: Callable[[], object]) -> None:
        """SiteError or StoreError if the tasks cannot be read."""
        for _ in batches(map(encoded, self._rows(rule))):
            between()

    def _rows(self, rule: SpiderTasks) -> Iterator[dict[str, Any]]:
        return self._lines(rule.csv) if rule.csv is not None else self._found(rule)

    def _lines(self, path: str) -> Iterator[dict[str, Any]]:
        if not self._grant.reaches(path):
            raise SiteError(
                f"{path}: this planner may not read it. Put it below GOSSAMER_DATA_DIR, or allow its folder with GOSSAMER_SITE_PATHS."
            )
        try:
            with open(path, encoding="utf-8-sig", newline="") as file:
                reader = csv.reader(file, strict=True)
                names = [name.strip() for name in next(reader, [])]
                for row in reader:
                    if any(row):
                        yield self._task(path, reader.line_num, names, row)
        except (OSError, csv.Error, UnicodeError) as error:
            raise SiteError(f"{path}: {error}. Its tasks cannot be read.") from None

    @staticmethod
    def _task(path: str, line: int, names: Sequence[str], row: Sequence[str]) -> dict[str, Any]:
        try:
            return task_of_cells(names, row)
        except ValueError as error:
            raise SiteError(f"{path}:{line}: {error}. Its tasks cannot be read.") from None

    def _found(self, rule: SpiderTasks) -> Iterator[dict[str, Any]]:
        # Imported here: SQLAlchemy takes long to load, and few planners need it.
        from gossamer.store import Store

        assert rule.sql is not None
        if refused := query_refusal(rule, self._grant):
            raise SiteError(f"The tasks of {rule.key}: {refused}")
        url = self._store_url if rule.database is None else revealed(rule.database, self._grant.environment())
        is_foreign = rule.database is not None and not REFERENCE.fullmatch(rule.database)
        if not url:
            raise SiteError(
                f"The tasks of {rule.key} are those of a query, and no database is named. Add database: to them, or set "
                "GOSSAMER_STORE_URL where planners run."
            )
        with Store.open(url, is_foreign) as store:
            rows = store.query(rule.sql, MOST_ROWS)
        try:
            for row in rows:
                yield task_of(row)
        except ValueError as error:
            raise StoreError(f"The tasks of {rule.key}: {error}. Name the columns of the query otherwise.") from None


def query_refusal(rule: SpiderTasks, grant: Grant) -> str:
    """Why a planner with this grant does not run the query of a file of the crawl, and the remedy; "" if it does."""
    if not set(EVERYTHING).intersection(grant.tables):
        return f"a query may read any table, which this planner does not allow. Allow it with {TABLES}=*, and let GOSSAMER_STORE_URL name a user of the database who may only read what tasks need."
    if rule.database is None:
        return ""
    for name in REFERENCE.findall(rule.database):
        if not grant.knows(name):
            return f"{name} is not a variable that this planner lets files of the crawl read. Call it SITE_{name}, or allow it with GOSSAMER_SITE_VARIABLES."
    refused = database_refusals(rule.database, grant, grant.environment())
    return "; ".join(f"{said} ({hint})" for said, hint in refused)
