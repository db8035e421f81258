"""`gossamer crawl FILE.yaml -O shop.csv`: the records of a site's round in one file.

While the round goes on, its items are copied to FILE.items, beside which FILE.items.position says how far that has come. When the command ends, FILE is
written of them as a whole, and appears under its name when it is complete. What a command that was interrupted has copied, --resume goes on with.
A command locks FILE.items until it ends: two that write one file would each discard what the other has copied.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import socket
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import typer

from gossamer.cli import output
from gossamer.errors import ExportStopped, FrontierError, GossamerError, SettingError
from gossamer.frontier import codec, item_stream
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.items import lines, parquet
from gossamer.items import rows as item_rows
from gossamer.items.consumer import Item, ItemConsumer
from gossamer.items.position import PositionFile, held, sync
from gossamer.model import RoundInfo
from gossamer.settings import Settings
from gossamer.sites.format import SiteSpec, stored_fields

Form = Literal["json", "jsonl", "csv", "parquet"]
FORMS: dict[str, Form] = {
    ".json": "json", ".jsonl": "jsonl", ".jl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".parquet": "parquet", ".pq": "parquet"
}  # fmt: skip
POLL_SECONDS = 1.0
ROUNDS = 20
"""Among so many of the last rounds is the one that is copied."""
STREAM = {"GOSSAMER_ITEMS": "stream"}
"""The setting by which workers put all records into the stream, also those that they store."""


class FeedResult(NamedTuple):
    """How many records FILE has, how many of the round it lacks, at least (a page that has not changed counts as one), and how many it has
    more than the round, at least: they came again after the server had lost what it knew last."""

    written: int
    lacking: int
    doubled: int


def checked(overwrite: Sequence[str], sites: Sequence[SiteSpec], settings: Settings, repeat: bool) -> Path:
    """The file that `-O` names, if the sites can be written to it; typer.BadParameter or SettingError says why not."""
    if len(overwrite) > 1 or len(sites) > 1:
        raise typer.BadParameter("-O writes the records of one site to one file; crawl the sites one by one")
    if repeat:
        raise typer.BadParameter("-O writes the records of one round; leave --repeat out")
    path = Path(overwrite[0])
    if path.suffix.lower() not in FORMS:
        raise typer.BadParameter(f"{str(path)!r} does not show the format; it ends in .json, .jsonl, .csv or .parquet")
    if path.suffix.lower() in (".parquet", ".pq"):
        parquet.package()
    if not path.absolute().parent.is_dir() or path.is_dir():
        raise typer.BadParameter(f"{path} cannot be written: there is no such folder, or it is one itself")
    if settings["GOSSAMER_ITEMS"] == "off":
        raise SettingError("-O is written from the item stream, and GOSSAMER_ITEMS is off. Leave it unset.")
    [site] = sites
    for name, layer in site.layers.items():
        asked = (layer.request, site.request)
        said = next((one.conditional for one in asked if one is not None and one.conditional is not None), False)
        if said and name not in site.store and (stored_fields(layer.fields) or layer.handler):
            raise typer.BadParameter(
                f"the layer {name} has `conditional: true` and no table: the records of a page that has not changed could not be written to {path}. "
                f"Give it one by store.{name}, or leave `conditional` or -O out"
            )
    return path


class SiteFeed:
    """The file of a site's present round, while a fleet crawls it."""

    def __init__(self, settings: Settings, site: str, path: Path) -> None:
        self._settings, self._site, self._path = settings, site, path
        self._spool = Path(f"{path}.items")
        self._position = Path(f"{self._spool}.position")
        self._consumer_end = blake2b(f"{socket.gethostname()} {path.absolute()}".encode(), digest_size=8).hexdigest()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        self._first: int | None = None
        """The round that was there when the command began; it may have begun since."""
        self._round: tuple[int, float | None] | None = None
        """The round that is copied, and when it began."""
        self._begins: dict[int, str] = {}
        """Positions, by partition, at which no item was copied: the round begins there."""

    @property
    def is_unfinished(self) -> bool:
        """Whether a command that was interrupted has left something to write."""
        return self._position.exists() or not self._path.exists()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else writes FILE meanwhile; ExportStopped if another command does."""
        with self._locked():
            try:
                yield
            finally:
                if not self._position.exists():
                    self._spool.unlink(missing_ok=True)  # nothing was copied

    def _locked(self) -> IO[bytes]:
        while True:
            spool = self._spool.open("ab")
            try:
                fcntl.flock(spool, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._spool.stat().st_ino == os.fstat(spool.fileno()).st_ino:
                    return spool
            except BlockingIOError:
                spool.close()
                raise ExportStopped(
                    f"{self._path} is being written by another command. Wait for it, or name another file. --workers N gives a crawl more workers."
                ) from None
            except FileNotFoundError:
                pass
            spool.close()  # the command that has just ended has removed it

    def __enter__(self) -> SiteFeed:
        with ValkeyFrontier.open(self._settings) as frontier:
            self._copy(frontier)
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._ended.set()
        self._thread.join()

    def finish(self) -> FeedResult:
        """Write FILE of the round's records that are there. GossamerError if that fails."""
        try:
            with ValkeyFrontier.open(self._settings) as frontier:
                return self._finish(frontier)
        except OSError as error:
            raise ExportStopped(
                f"{self._path} was not written: {error.strerror or error}. What was not copied is on the server; "
                "the same command with --resume writes the file."
            ) from error

    def _finish(self, frontier: ValkeyFrontier) -> FeedResult:
        info = self._copy(frontier)
        if info is None:
            return FeedResult(0, 0, 0)
        with self._held(frontier, info):
            written = self._write()
            if info.ended is None and not frontier.drained(self._site).drained:
                return FeedResult(written, 0, 0)
            gone = dict.fromkeys(range(frontier.partitions), "gone")
            frontier.keep_items(self._site, self._consumer(info), gone)
            self._spool.unlink(missing_ok=True)
            self._position.unlink(missing_ok=True)
        info = next((one for one in frontier.rounds(self._site, ROUNDS) if one.round == info.round), info)
        rows = [row for row in frontier.coverage([self._site]) if row.round == info.round]
        lacking, doubled = max(0, info.items - written), max(0, written - info.items)
        return FeedResult(written, lacking + sum(row.unstreamed for row in rows), doubled)

    def report(self, result: FeedResult) -> None:
        """Say what FILE has."""
        output.write_notice(f"{output.counted(result.written, 'record')} written to {self._path}")
        if result.lacking:
            output.write_notice(
                f"{self._path} lacks {result.lacking:,} of the records of the round: they were brought before -O was given, or by workers without "
                f"it. For all of them, crawl {self._site} again with -O"
            )

        if result.doubled:
            output.write_notice(
                f"{self._path} has {result.doubled:,} records more than the round: the server has lost what it knew last, and pages were read once "
                f"more. Some records are twice, and others may be missing. To have each once, crawl {self._site} again with -O"
            )

    def _run(self) -> None:
        said = False
        with ValkeyFrontier.open(self._settings) as frontier:
            while not self._ended.wait(POLL_SECONDS):
                try:
                    self._copy(frontier)
                except FrontierError:
                    continue  # the workers say so, too
                except GossamerError:
                    return  # the end meets it again
                except OSError as error:
                    if not said:
                        output.write_notice(
                            f"{self._path} cannot be written now ({error.strerror or error}); its records wait on the server"
                        )
                    said = True

    def _consumer(self, info: RoundInfo) -> str:
        where = re.sub(r"[^A-Za-z0-9_.]+", "_", f"{socket.gethostname()}_{self._path.name}")[:60]
        return f"feed-r{info.round}-{where}-{self._consumer_end}"

    def _copy(self, frontier: ValkeyFrontier) -> RoundInfo | None:
        """Copy what is new; the round, None if none has begun. ExportStopped if the round that was copied is not there any more."""
        from gossamer.scrapy.feeds.position import are_unwritten, forget_past, starts

        known_groups = {row.group for row in frontier.counts(brief=True).groups}
        rounds = frontier.rounds(self._site, ROUNDS) if self._site in known_groups else []
        is_first = self._round is None
        if self._round is None:
            if self._first is None:
                self._first = rounds[0].round if rounds else 0
            present = min((one for one in rounds if one.round >= self._first), key=lambda one: one.round, default=None)
            if present is None or present.began is None:
                return None
            self._round = present.round, present.began
            self._discard_other_rounds(self._owner(frontier, present))
        later = [one for one in rounds if one.round > self._round[0] and one.began is not None]
        info = next((one for one in rounds if (one.round, one.began) == self._round), None)
        if info is None:
            raise ExportStopped(
                f"round {self._round[0]} of {self._site} is not on the server any more (was it dropped?); {self._path} was not written."
            )
        forget_past(frontier, self._site, info.round)
        with held(self._spool, self._owner(frontier, info)) as marks:
            self._go_back(frontier, info, marks)
            known = marks.mark.positions
            if not known:
                if is_first:
                    # What was copied before is not there any more.
                    gone = dict.fromkeys(range(frontier.partitions), "gone")
                    frontier.keep_items(self._site, self._consumer(info), gone)
                known = starts(frontier, info)
                if is_first and are_unwritten(frontier, self._site, known):
                    output.write_notice(
                        f"nobody has written the items of earlier rounds of {self._site}, and {self._path} does not get them: they go first when the "
                        f"stream is at GOSSAMER_ITEMS_MAX; `gossamer items export {self._site} FILE` writes them"
                    )
            source = _PlacedItems(frontier, self._site, self._consumer(info), known)
            source.positions = dict(known)  # the spool is right, whatever the server knows
            # What a round brings that has begun meanwhile is not for this file.
            until = starts(frontier, min(later, key=lambda one: one.round)) if later else None
            lines.write(source, self._spool, marks, _Spooled(), lambda _: None, until)
        return info

    def _go_back(self, frontier: ValkeyFrontier, info: RoundInfo, marks: PositionFile) -> None:
        """Where the server has lost items that were copied, discard them: their pages are read once more, and bring them again."""
        from gossamer.scrapy.feeds.position import starts

        found: dict[int, str] = {}
        for partition, at in marks.mark.positions.items():
            if self._begins.get(partition) == at or not item_stream.is_lost(frontier, self._site, partition, at):
                continue
            copied = [one for p, one, _ in self._copied(marks.mark.size) if p == partition]
            if not copied:
                self._begins[partition] = at  # no item stands there
                continue
            while copied and item_stream.is_lost(frontier, self._site, partition, copied[-1]):
                copied.pop()
            found[partition] = copied[-1] if copied else starts(frontier, info)[partition]
        if found:
            with self._spool.open("r+b") as spool:
                spool.truncate(marks.mark.size)
                spool.seek(marks.mark.size)
                spool.writelines(b"%d %s\n" % (partition, at.encode()) for partition, at in found.items())
                sync(spool)
                marks.set(marks.mark._replace(size=spool.tell(), positions={**marks.mark.positions, **found}))

    def _owner(self, frontier: ValkeyFrontier, info: RoundInfo) -> dict[str, str]:
        return {
            "crawl": frontier.crawl, "group": self._site, "consumer": self._consumer(info), "format": "placed items", "began": f"{info.began}",
        }  # fmt: skip

    def _held(self, frontier: ValkeyFrontier, info: RoundInfo) -> Any:
        return held(self._spool, self._owner(frontier, info))

    def _discard_other_rounds(self, owner: dict[str, str]) -> None:
        """What was copied of an earlier round, or for another crawl."""
        try:
            with self._position.open("rb") as note:
                is_ours = json.loads(note.readline() or b"{}") == owner
        except (FileNotFoundError, ValueError):
            is_ours = False
        if not is_ours:
            self._position.unlink(missing_ok=True)
            os.truncate(self._spool, 0)

    def _write(self) -> int:
        part, form = Path(f"{self._path}.part"), FORMS[self._path.suffix.lower()]
        try:
            with part.open("wb") as stream:
                written = _WRITERS[form](stream, self._items)
                sync(stream)
            part.replace(self._path)
        finally:
            part.unlink(missing_ok=True)
        folder = os.open(self._path.absolute().parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return written

    def _items(self) -> Iterator[Item]:
        for _, _, data in self._copied(None):
            yield codec.decode(b64decode(data))

    def _copied(self, size: int | None) -> Iterator[tuple[int, str, bytes]]:
        """Partition, position and data of what was copied and not discarded. `size`: of what is finished in the spool."""
        back: dict[int, list[tuple[int, str]]] = {}
        for end, partition, position, data in self._lines(size):
            if not data:
                back.setdefault(partition, []).append((end, position))
        for end, partition, position, data in self._lines(size):
            later = [at for place, at in back.get(partition, ()) if place >= end]
            if data and not any(item_stream.place(position) > item_stream.place(at) for at in later):
                yield partition, position, data

    def _lines(self, size: int | None) -> Iterator[tuple[int, int, str, bytes]]:
        """The lines of the spool, with where they end. One without data says that what was copied of the partition behind the position
        does not count."""
        end = 0
        with self._spool.open("rb") as spool:
            for line in spool:
                end += len(line)
                if size is not None and end > size:
                    return
                partition, position, *data = line.split()
                yield end, int(partition), position.decode(), data[0] if data else b""


class _PlacedItems(ItemConsumer):
    """Items with where they stand."""

    def pages(self, until: Mapping[int, str] | None = None) -> Iterator[tuple[int, list[tuple[str, Item]]]]:
        for partition, rows in super().pages(until):
            yield partition, [(at, {"partition": partition, "position": at, "item": item}) for at, item in rows]


class _Spooled:
    """Items as lines that keep their types, and where they stood."""

    fields: tuple[str, ...] | None = None

    def head(self) -> bytes:
        return b""

    def line(self, item: Item) -> bytes:
        data = b64encode(codec.encode(dict(item["item"])))
        return b"%d %s %s\n" % (item["partition"], item["position"].encode(), data)


def _json(stream: IO[bytes], items: Callable[[], Iterator[Item]]) -> int:
    written = 0
    for item in items():
        stream.write((b",\n" if written else b"[\n") + item_rows.line(item).rstrip(b"\n"))
        written += 1
    stream.write(b"\n]\n" if written else b"[]\n")
    return written


def _jsonl(stream: IO[bytes], items: Callable[[], Iterator[Item]]) -> int:
    return sum(bool(stream.write(item_rows.line(item))) for item in items())


def _csv(stream: IO[bytes], items: Callable[[], Iterator[Item]]) -> int:
    columns = tuple(dict.fromkeys(name for item in items() for name in item))
    if not columns:
        return 0
    form = lines.CsvLines(columns, chosen=True)
    stream.write(form.head())
    return sum(bool(stream.write(form.line(item))) for item in items())


_WRITERS: dict[Form, Callable[[IO[bytes], Callable[[], Iterator[Item]]], int]] = {
    "json": _json, "jsonl": _jsonl, "csv": _csv, "parquet": parquet.write_whole
}  # fmt: skip
