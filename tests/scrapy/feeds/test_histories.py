"""Random histories of a feed's file: writers come, go and are killed between any two of their steps, over several rounds, while others
export the same items and drop them, and the stream is at its limit. In the end every item is in the file once, and an export has all
that was there, or says that it lacks some."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scrapy.exporters import CsvItemExporter, JsonItemExporter, JsonLinesItemExporter
from tests.scrapy.feeds.test_file import Whole, opened, produce

from gossamer.frontier import codec, item_stream
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.items.export import ExportPlan, export
from gossamer.model import GroupPolicy, LanePolicy
from gossamer.scrapy.feeds.file import FeedFile
from gossamer.settings import load
from gossamer.testing.servers import Server

FACTOR = int(os.environ.get("MACHINE_FACTOR", "1"))
SEEDS = sorted({*range(6 * FACTOR), 15, 30})
"""In the history 15 an export finds that items had gone at the limit before it could write them; in 30 a writer is killed before it noted
under which name the server keeps its items."""
KINDS = (JsonLinesItemExporter, JsonItemExporter, CsvItemExporter, Whole)
ROUNDS, WRITERS = 3, 3
LIMIT = 7
EXPORTS = (("", "a"), ("", "b"), ("lake", "monday"), ("lake", "tuesday"))
"""Who exports, and into which file."""


class Killed(BaseException):
    """The process ends here."""


class Fate:
    """When the process that writes now is killed: in so many of its steps; None: not at all."""

    def __init__(self) -> None:
        self.steps: int | None = None

    def watch(self, step: Callable[..., Any], after: bool) -> Callable[..., Any]:
        def watched(*given: Any, **named: Any) -> Any:
            if not after:
                self._one()
            answer = step(*given, **named)
            if after:
                self._one()
            return answer

        return watched

    def _one(self) -> None:
        if self.steps is not None:
            self.steps -= 1
            if self.steps < 0:
                raise Killed


class History:
    def __init__(self, frontier: ValkeyFrontier, folder: Path, choice: random.Random, fate: Fate) -> None:
        self.frontier, self.choice, self.fate = frontier, choice, fate
        self.kind, self.overwrite = choice.choice(KINDS), choice.random() < 0.5
        self.unwanted = choice.choice((0, 0, 2, 5))
        """So many items of a round are not for this feed."""
        self.wanted_from = 0
        self.folder, self.path = folder, folder / "out"
        self.writers: list[FeedFile | None] = [None] * WRITERS
        self.items: Counter[int] = Counter()
        self.next = 0
        self.limit = LIMIT if self.kind is not Whole and choice.random() < 0.5 else 0
        frontier.define("g", {}, GroupPolicy(max_items=self.limit))
        self.dropped: set[int] = set()
        self.gone_before: dict[str, set[int]] = {}
        """Of each export that has begun, by its name or file: what had gone at the limit when it ran last."""
        self.story: list[str] = [
            f"{self.kind.__name__}, {'-O' if self.overwrite else '-o'}, {f'limit {LIMIT}' if self.limit else 'no limit'}"
        ]

    def produce(self) -> None:
        self.make_room()
        given = range(self.next, self.next + self.choice.randint(1, 4))
        self.next = given.stop
        produce(self.frontier, *given)
        self.items.update(n for n in given if n >= self.wanted_from)
        self.story.append(f"items {[*given]}")

    def make_room(self) -> None:
        """What the feed has written goes; a writer that was killed is followed by another one."""
        while self.paused():
            for who in range(WRITERS):
                self.write(who)

    def paused(self) -> bool:
        return any(row.paused for row in self.frontier.counts("g").groups)

    def there(self) -> set[int]:
        pages = (item_stream.pages(self.frontier, "g", p, item_stream.START) for p in range(self.frontier.partitions))
        return {codec.decode(data)["n"] for found in pages for rows in found for _, data in rows}

    def drop(self) -> None:
        """Only what the feed has: the file of a round is checked for all others."""
        if self.write(self.choice.randrange(WRITERS)) and all(file is None or file.writes for file in self.writers):
            there = self.there()
            self.frontier.drop_items("g", item_stream.ends(self.frontier, "g"))
            self.dropped |= there
            self.story.append(f"drop {sorted(there)}")

    def export(self) -> None:
        """One export, killed perhaps, and again until it is through."""
        name, file = self.choice.choice(EXPORTS)
        if not name and self.choice.random() < 0.1:
            (self.folder / file).unlink(missing_ok=True)
            self.gone_before.pop(file, None)
            self.story.append(f"rm {file}")
        plan, lacking = ExportPlan("g", name, self.folder / file, "jsonl"), list[str]()
        while True:
            self.fate.steps = self.choice.randint(0, 4) if self.choice.random() < 0.4 else None
            try:
                export(self.frontier, plan, lambda _: None, lambda: lacking.append(name or file))
                break
            except Killed:
                self.story.append(f"export {name or file} killed")
            finally:
                self.fate.steps = None
        # Also where the export that found it was killed: it has said so.
        lacks = bool(lacking)
        self.story.append(f"export {name or file} {file}, lacks: {lacks}")
        every = [one for known, one in EXPORTS if (known or one) == (name or file)]
        paths = [self.folder / one for one in every if (self.folder / one).exists()]
        lines = [line for path in paths for line in path.read_text().splitlines()]
        found = Counter(json.loads(line)["n"] for line in lines)
        told = "\n".join(self.story)
        there = self.there()
        assert not [n for n, count in found.items() if count > 1], told
        assert found.keys() >= there, told
        gone = set(range(self.next)) - there - self.dropped
        if (name or file) in self.gone_before:
            missing = gone - self.gone_before[name or file] - found.keys()
            assert lacks or not missing, f"{missing} {told}"
        if found:
            self.gone_before[name or file] = gone

    def read(self, data: bytes) -> Any:
        item = codec.decode(data)
        # Of a round before this one, what is wanted was so then, too.
        return item if item["n"] in self.items else None

    def act(self, number: int, what: Callable[[FeedFile], None], name: str) -> bool:
        """What one writer does; False: it was its last."""
        self.fate.steps = self.choice.randint(0, 6) if self.choice.random() < 0.4 else None
        file = self.writers[number] = self.writers[number] or opened(
            self.frontier, self.path, self.kind, self.overwrite, self.read
        )
        try:
            what(file)
            self.story.append(f"{number} {name}")
            return True
        except Killed:
            self.story.append(f"{number} killed: {name}")
            self.writers[number] = None
            if file._file is not None:
                # What was not flushed is lost, and the lock is free.
                nowhere = os.open(os.devnull, os.O_RDWR)
                os.dup2(nowhere, file._file.fileno())
                os.close(nowhere)
                file._file.close()
            return False
        finally:
            self.fate.steps = None

    def write(self, number: int) -> bool:
        info = self.frontier.rounds("g", 1)[0]

        def both(file: FeedFile) -> None:
            file.prepare(self.frontier, info)
            file.write(self.frontier)

        return self.act(number, both, "writes")

    def close(self, number: int, over: bool) -> bool:
        if self.writers[number] is None:
            return True
        name = "closes, the round is over" if over else "closes"
        survived = self.act(number, lambda file: file.close(self.frontier, over), name)
        self.writers[number] = None
        return survived

    def run_round(self, number: int) -> None:
        self.frontier.new_round("g", number)
        self.story.append(f"round {number}")
        self.wanted_from = self.next + self.unwanted
        if self.overwrite:
            self.items.clear()
        # Somebody is there before the first item, as a worker with a feed is.
        while not any(file is not None and file.writes for file in self.writers):
            self.write(self.choice.randrange(WRITERS))
        for _ in range(self.choice.randint(4, 12)):
            who = self.choice.randrange(WRITERS)
            match self.choice.randrange(6):
                case 0 | 1:
                    self.produce()
                case 2:
                    self.write(who)
                case 3:
                    self.export()
                case 4 if self.kind is not Whole:
                    self.drop()
                case _:
                    self.close(who, over=False)
        while not self.end():
            pass

    def end(self) -> bool:
        """The round is over: all bring the rest and close. Whether nobody was killed on the way, and the file is whole."""
        order = self.choice.sample(range(WRITERS), WRITERS)
        survived = [self.write(who) for who in order]
        survived += [self.close(who, True) for who in order]
        return all(survived)

    def found(self) -> Counter[int]:
        text = self.path.read_text()
        if self.kind is CsvItemExporter:
            return Counter(int(line) for line in text.split() if line != "n")
        if self.kind is Whole:
            return Counter(n for line in text.splitlines() for n in json.loads(line))
        if self.kind is JsonItemExporter:
            return Counter(item["n"] for item in json.loads(text or "[]"))
        return Counter(json.loads(line)["n"] for line in text.splitlines())


@pytest.mark.parametrize("seed", SEEDS)
def test_every_item_is_in_the_file_once(
    seed: int, valkey_server: Server, crawl_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice, fate = random.Random(seed), Fate()
    for place, name in ((os, "fsync"), (Path, "replace"), (ValkeyFrontier, "keep_items")):
        monkeypatch.setattr(place, name, fate.watch(getattr(place, name), choice.random() < 0.5))
    given = {"GOSSAMER_URL": valkey_server.url, "GOSSAMER_CRAWL": crawl_name, "GOSSAMER_PARTITIONS": 2}
    with ValkeyFrontier.open(load(given, {})) as frontier:
        frontier.define("g", {"a": LanePolicy()})
        history = History(frontier, tmp_path, choice, fate)
        for number in range(1, ROUNDS + 1):
            history.run_round(number)
            assert history.found() == history.items, "\n".join(history.story)
