"""A feed's file between two of its states: nothing that is in it is lost, doubled or forgotten."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import pytest
import scrapy
from scrapy.exporters import BaseItemExporter, CsvItemExporter, JsonItemExporter, JsonLinesItemExporter

from gossamer.errors import ExportStopped, FrontierUnavailable, SettingError
from gossamer.frontier import codec, item_stream
from gossamer.frontier.server import keys
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.items.export import ExportPlan, export
from gossamer.model import LanePolicy, Lease, Request, RoundInfo, Settlement, Token
from gossamer.scrapy.feeds.file import FeedFile
from gossamer.scrapy.feeds.position import FeedPosition, waiting
from gossamer.settings import load
from gossamer.testing.servers import Server


class Whole(BaseItemExporter):
    """Writes nothing before its end."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self.file, self.items = file, []  # type: ignore[var-annotated]

    def export_item(self, item: Any) -> None:
        self.items.append(item["n"])

    def finish_exporting(self) -> None:
        self.file.write(json.dumps(self.items).encode() + b"\n")


class Headless(CsvItemExporter):
    """As many projects have it: no header where there is one already."""

    def __init__(self, file: BytesIO, **more: Any) -> None:
        super().__init__(file, include_headers_line=file.tell() == 0, **more)
        self.places = [file.tell()]

    def export_item(self, item: Any) -> None:
        super().export_item(item)
        self.places.append(self.stream.buffer.tell())


class Picky(JsonLinesItemExporter):
    def export_item(self, item: Any) -> None:
        if item["n"] == 1:
            raise ValueError("not this one")
        super().export_item(item)


@pytest.fixture
def frontier(valkey_server: Server, crawl_name: str) -> Iterator[ValkeyFrontier]:
    given = {"GOSSAMER_URL": valkey_server.url, "GOSSAMER_CRAWL": crawl_name, "GOSSAMER_PARTITIONS": 2}
    with ValkeyFrontier.open(load(given, {})) as opened:
        opened.define("g", {"a": LanePolicy()})
        opened.new_round("g", 1)
        yield opened


def produce(frontier: ValkeyFrontier, *items: int) -> RoundInfo:
    """A page of each of two hosts brings these items; the round."""
    token = Token.fresh()
    leases: list[Lease] = []
    frontier.add([Request(n, f"h{n}", "g.a", b"x", dont_filter=True) for n in range(2)])
    while len(leases) < 2:
        leases += frontier.exchange(token, want=2).leases
        token = token.next()
    parts = [items[::2], items[1::2]]
    every = zip(leases, parts, strict=True)
    frontier.exchange(token, settle=[Settlement(one, items=[codec.encode({"n": n}) for n in of]) for one, of in every])
    return frontier.rounds("g", 1)[0]


def opened(
    frontier: ValkeyFrontier,
    path: Path,
    kind: Any = JsonLinesItemExporter,
    overwrite: bool = False,
    read: Callable[[bytes], Any] = codec.decode,
    store_empty: bool = True,
) -> FeedFile:
    return FeedFile(path, path.name, frontier.crawl, "g", overwrite, store_empty, kind, read, kind.__name__)


def bring(frontier: ValkeyFrontier, info: RoundInfo, file: FeedFile, over: bool = False) -> FeedFile:
    file.prepare(frontier, info)
    file.write(frontier)
    file.close(frontier, over)
    return file


def lines(path: Path) -> list[int]:
    return sorted(json.loads(line)["n"] for line in path.read_text().splitlines())


def test_an_export_to_a_feeds_file_is_refused_and_the_feed_goes_on(frontier: ValkeyFrontier, tmp_path: Path) -> None:
    """Whoever stops a crawl and wants the rest of its items may name the same file."""
    out = tmp_path / "out.jl"
    info = produce(frontier, 0, 1, 2, 3)
    for begun in (False, True):
        if begun:
            bring(frontier, info, opened(frontier, out, overwrite=True))
        else:
            file = opened(frontier, out, overwrite=True)
            file.prepare(frontier, info)  # killed before the first item was in it
        with pytest.raises(ExportStopped, match=r"out\.jl is a feed of group g of crawl"):
            export(frontier, ExportPlan("g", "", out, "jsonl"), print)
        if not begun:
            file.close(frontier, over=False)
    bring(frontier, produce(frontier, 4, 5), opened(frontier, out, overwrite=True), over=True)
    assert lines(out) == [0, 1, 2, 3, 4, 5]


def test_a_feed_says_that_the_server_has_lost_what_is_in_it(
    frontier: ValkeyFrontier, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not where items have been dropped, or where nothing has come."""
    file = opened(frontier, tmp_path / "out.jl")
    for number in range(3):
        info = produce(frontier, number, number + 10)
        file.prepare(frontier, info)
        file.write(frontier)
    ends = item_stream.ends(frontier, "g")
    for partition, at in ends.items():
        key = keys.items(frontier.crawl, partition, "g")
        frontier.connection.execute("XDEL", key, at, key=key)
    assert "has lost" not in caplog.text
    for _ in range(2):
        file.write(frontier)
        assert caplog.text.count("has lost what it knew last") == len(ends)
    produce(frontier, 3, 13)
    file.write(frontier)
    frontier.drop_items("g", item_stream.ends(frontier, "g"))
    for _ in range(2):
        file.write(frontier)
        produce(frontier, 4, 14)
    file.close(frontier, over=True)
    assert caplog.text.count("has lost what it knew last") == len(ends)


@pytest.mark.parametrize("gone", [False, True], ids=["killed", "removed"])
def test_nothing_waits_for_a_name_that_a_process_has_left(
    frontier: ValkeyFrontier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    """A process was killed before it noted the name, or the file was removed with its note."""
    out = tmp_path / "out.jl"
    info = produce(frontier, 0, 1)
    if gone:
        bring(frontier, info, opened(frontier, out))
        out.unlink()
        Path(f"{out}.position").unlink()
    else:
        with monkeypatch.context() as killed:
            killed.setattr(FeedPosition, "write", lambda *_: 1 / 0)
            first = opened(frontier, out)
            with pytest.raises(ZeroDivisionError):
                first.prepare(frontier, info)
            assert first._file is not None
            first._file.close()
    [before] = waiting(frontier, "g")
    other = opened(frontier, tmp_path / "other.jl")
    other.prepare(frontier, info)
    file = bring(frontier, info, opened(frontier, out))
    now = waiting(frontier, "g")
    assert len(now) == 2
    assert before not in now
    bring(frontier, info, file, over=True)
    assert waiting(frontier, "g") == [other.consumer]
    assert lines(out) == [0, 1]
    other.close(frontier, over=True)


def test_what_others_have_added_to_a_file_stays(frontier: ValkeyFrontier, tmp_path: Path) -> None:
    """A file that is added to (-o) and was closed has no bytes behind its end that are not somebody's."""
    for kind, path in ((JsonLinesItemExporter, tmp_path / "all.jl"), (JsonItemExporter, tmp_path / "all.json")):
        bring(frontier, produce(frontier, 0, 1), opened(frontier, path, kind))
        with path.open("a") as more:
            more.write('{"n": 100}\n')
        bring(frontier, produce(frontier, 2, 3), opened(frontier, path, kind))
        bring(frontier, produce(frontier, 4, 5), opened(frontier, path, kind), over=True)
        frontier.drop_items("g", item_stream.ends(frontier, "g"))
        assert path.read_text().count('"n"') == 7
        assert path.read_text().count('{"n": 100}\n') == 1
    assert lines(tmp_path / "all.jl") == [0, 1, 2, 3, 4, 5, 100]
    ours = (tmp_path / "all.json").read_text().split('{"n": 100}\n')
    assert [sorted(item["n"] for item in json.loads(part)) for part in ours] == [[0, 1], [2, 3, 4, 5]]


def test_an_exporter_that_writes_at_its_end_adds_to_a_file_without_what_is_in_it(
    frontier: ValkeyFrontier, tmp_path: Path
) -> None:
    out = tmp_path / "all.whole"
    bring(frontier, produce(frontier, 0, 1), opened(frontier, out, Whole), over=True)
    frontier.new_round("g", 2)
    info = produce(frontier, 2, 3)
    bring(frontier, info, opened(frontier, out, Whole))  # stopped, and run again
    bring(frontier, info, opened(frontier, out, Whole), over=True)
    assert [sorted(json.loads(line)) for line in out.read_text().splitlines()] == [[0, 1], [2, 3]]


def test_an_item_that_could_not_be_written_is_told_by_who_goes_on_after_a_kill(
    frontier: ValkeyFrontier, tmp_path: Path
) -> None:
    out = tmp_path / "out.jl"
    info = produce(frontier, 0, 1, 2)
    killed = opened(frontier, out, Picky)
    killed.prepare(frontier, info)
    killed.write(frontier)
    assert killed._file is not None
    killed._file.close()  # as the kernel does
    assert bring(frontier, info, opened(frontier, out, Picky)).failed == 1
    assert bring(frontier, info, opened(frontier, out, Picky), over=True).failed == 0, "once"
    assert lines(out) == [0, 2]


def test_an_item_that_a_filter_fails_on_is_named(
    frontier: ValkeyFrontier, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def read(data: bytes) -> Any:
        raise ValueError("the filter fails")

    info = produce(frontier, 7)
    assert bring(frontier, info, opened(frontier, tmp_path / "out.jl", read=read)).failed == 1
    assert "out.jl: {'n': 7}" in caplog.text


def test_an_end_that_the_server_did_not_hear_is_written_once(
    frontier: ValkeyFrontier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.json"
    file = opened(frontier, out, JsonItemExporter)
    file.prepare(frontier, produce(frontier, 0, 1))
    file.write(frontier)

    def away(*_words: Any) -> None:
        raise FrontierUnavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(frontier, "keep_items", away)
        with pytest.raises(FrontierUnavailable):
            file.close(frontier, over=True)
    file.close(frontier, over=True)
    assert sorted(item["n"] for item in json.loads(out.read_text())) == [0, 1]
    assert item_stream.consumers(frontier, "g") == {}


def test_a_file_that_is_resumed_with_o_keeps_its_items_in_every_later_round(
    frontier: ValkeyFrontier, tmp_path: Path
) -> None:
    """Begun with -O, whose consumer is forgotten with its round."""
    out = tmp_path / "out.jl"
    bring(frontier, produce(frontier, 0, 1), opened(frontier, out, overwrite=True))
    for number in (2, 3, 4):
        frontier.new_round("g", number)
        file = opened(frontier, out)
        file.prepare(frontier, produce(frontier, number))
        assert list(item_stream.consumers(frontier, "g")) == [file.consumer]
        assert waiting(frontier, "g") == [file.consumer]
        bring(frontier, frontier.rounds("g", 1)[0], file)
    assert lines(out) == [0, 1, 2, 3, 4]


def test_a_new_round_of_an_exporter_that_writes_at_its_end_keeps_no_other_file_waiting(
    frontier: ValkeyFrontier, tmp_path: Path
) -> None:
    out = tmp_path / "all.whole"
    file, other = opened(frontier, out, Whole), opened(frontier, out, Whole)
    file.prepare(frontier, produce(frontier, 0, 1))
    file.write(frontier)
    frontier.new_round("g", 2)
    info = produce(frontier, 2, 3)
    file.prepare(frontier, info)
    other.prepare(frontier, info)
    assert other.ready(frontier, info)
    assert file._file is not None
    file._file.close()  # killed
    other.prepare(frontier, info)
    other.write(frontier)
    assert other.lacking(info) == 0
    other.close(frontier, over=True)
    assert sorted(json.loads(out.read_text())) == [0, 1, 2, 3]


def test_what_a_late_file_lacks_is_counted_while_items_come(
    frontier: ValkeyFrontier, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    info = produce(frontier, 0, 1)
    bring(frontier, info, opened(frontier, tmp_path / "early.jl"), over=True)
    frontier.drop_items("g", item_stream.ends(frontier, "g"))
    produce(frontier, 2, 3)
    bring(frontier, info, opened(frontier, tmp_path / "late.jl"))
    assert "late.jl begins in the middle of round 1: 2 items of the round" in caplog.text
    assert lines(tmp_path / "late.jl") == [2, 3]


@pytest.mark.parametrize("reader", [None, "", "lake", "feed"])
def test_a_feed_warns_of_items_of_earlier_rounds_that_nobody_has_written(
    frontier: ValkeyFrontier, tmp_path: Path, caplog: pytest.LogCaptureFixture, reader: str | None
) -> None:
    """They go at the limit as soon as a feed has come beyond them."""
    info = produce(frontier, 0, 1)
    if reader == "feed":
        bring(frontier, info, opened(frontier, tmp_path / "first.jl", overwrite=True), over=True)
    elif reader is not None:
        export(frontier, ExportPlan("g", reader, tmp_path / "export.jsonl", "jsonl"), print)
    frontier.new_round("g", 2)
    info = frontier.rounds("g", 1)[0]
    assert info.began is not None
    # So much later that the items are older, however unsure the server's clock is.
    info = info._replace(began=info.began + 60)
    for name in ("second.jl", "third.jl"):
        bring(frontier, info, opened(frontier, tmp_path / name, overwrite=True))
    assert (tmp_path / "second.jl").read_text() == ""
    warnings = [line for line in caplog.messages if "Nobody has written the items of earlier rounds of g" in line]
    assert len(warnings) == (reader is None)


def test_a_file_goes_on_where_the_class_of_its_first_item_is_not_known(
    frontier: ValkeyFrontier, tmp_path: Path
) -> None:
    """A function made it, in a process that was killed."""

    class Row(scrapy.Item):
        n = scrapy.Field()
        title = scrapy.Field()

    def known(data: bytes) -> Any:
        return Row(**codec.decode(data))

    def unknown(data: bytes) -> Any:
        if codec.decode(data)["n"] < 2:
            raise LookupError("this process does not find its class")
        return Row(**codec.decode(data), title="t")

    def unwanted(data: bytes) -> Any:
        return None if codec.decode(data)["n"] < 2 else unknown(data)

    kinds: list[tuple[str, Any]] = [("json", JsonItemExporter), ("csv", CsvItemExporter)]
    for later in (unknown, unwanted):
        files = [(tmp_path / f"{later.__name__}.{name}", kind) for name, kind in kinds]
        for read, items in ((known, (0, 1)), (later, (2, 3))):
            info = produce(frontier, *items)
            every = [FeedFile(path, path.name, frontier.crawl, "g", False, True, kind, read) for path, kind in files]
            for file in every:
                file.prepare(frontier, info)
            for file in every:
                bring(frontier, info, file)
        found = json.loads(files[0][0].read_text())
        assert [row for row in found if "title" in row] == [{"n": n, "title": "t"} for n in (2, 3)]
        assert len(found) == 4
        rows = files[1][0].read_text().split()
        assert rows[0] == "n,title"
        assert sorted(rows[1:]) == ["0,", "1,", "2,t", "3,t"]
        frontier.new_round("g", frontier.rounds("g", 1)[0].round + 1)


def test_a_file_is_not_gone_on_with_in_another_form(frontier: ValkeyFrontier, tmp_path: Path) -> None:
    """Columns or a format that were changed between Ctrl-C and the next run would break it without a word."""
    out, info = tmp_path / "out", produce(frontier, 0)
    anew = opened(frontier, out, CsvItemExporter, overwrite=True)
    anew.prepare(frontier, info)
    anew.write(frontier)
    for overwrite in (True, False):
        beside = opened(frontier, out, overwrite=overwrite)
        with pytest.raises(
            SettingError, match=r"begun with other options: CsvItemExporter.*would be broken: JsonLines"
        ):
            beside.prepare(frontier, info)
    anew.close(frontier, over=False)
    with pytest.raises(SettingError, match="Go on with the options it was begun with, or name another file"):
        opened(frontier, out).prepare(frontier, info)
    bring(frontier, produce(frontier, 1), opened(frontier, out, CsvItemExporter), over=True)
    assert out.read_text().split() == ["n", "0", "1"]
    frontier.new_round("g", 2)
    bring(frontier, produce(frontier, 2), opened(frontier, out, JsonItemExporter), over=True)
    bring(frontier, produce(frontier, 3), opened(frontier, out, JsonItemExporter), over=True)
    assert out.read_text() == 'n\n0\n1\n[{"n": 2},{"n": 3}]', "added behind what is there, as Scrapy does"


def test_nothing_is_kept_for_a_file_whose_name_never_comes_again(frontier: ValkeyFrontier, tmp_path: Path) -> None:
    """%(time)s names one for each round, and a job of scrapyd has its own: for one that was cut short items would pile up for ever."""
    kind: Any = JsonLinesItemExporter
    for number in (2, 3, 4):
        path = tmp_path / f"{number}.jl"
        frontier.new_round("g", number)
        info, over = produce(frontier, number), number == 4
        for _ in range(2):  # stopped, and gone on with
            file = FeedFile(path, "%(time)s.jl", frontier.crawl, "g", False, True, kind, codec.decode, "", True)
            file.prepare(frontier, info)
            assert waiting(frontier, "g") == [file.consumer]
            bring(frontier, info, file, over)
        assert lines(path) == [number]
    assert item_stream.consumers(frontier, "g") == {}


@pytest.mark.parametrize("stays", [False, True])
def test_a_name_that_comes_again_after_all_keeps_its_items_in_every_later_round(
    frontier: ValkeyFrontier, tmp_path: Path, stays: bool
) -> None:
    """A job of scrapyd with an id that people choose, or a function of the project's own that makes `%(time)s` a day."""
    kind: Any = JsonLinesItemExporter
    file = None
    for number in (2, 3, 4, 5):
        frontier.new_round("g", number)
        info = produce(frontier, number)
        if file is None or not stays:
            path = tmp_path / "nightly.jl"
            file = FeedFile(path, "%(time)s.jl", frontier.crawl, "g", False, True, kind, codec.decode, "", True)
        file.prepare(frontier, info)
        assert list(item_stream.consumers(frontier, "g")) == [file.consumer]
        assert waiting(frontier, "g") == [file.consumer]
        file.write(frontier)
        if not stays or number == 5:
            file.close(frontier, over=False)
    assert lines(path) == [2, 3, 4, 5]


@pytest.mark.parametrize("before", ["", "n\n7\n"])
def test_an_exporter_sees_where_in_the_file_it_is(frontier: ValkeyFrontier, tmp_path: Path, before: str) -> None:
    """Behind what plain Scrapy has left there, after a stop, and in the next round."""
    out = tmp_path / "out.csv"
    out.write_text(before)
    for number in (2, 4):
        info = produce(frontier, number)
        bring(frontier, info, opened(frontier, out, Headless))
        file = opened(frontier, out, Headless)
        file.prepare(frontier, produce(frontier, number + 1))
        file.write(frontier)
        assert file._export is not None
        assert file._export._exporter.places[-1] == out.stat().st_size
        file.close(frontier, over=True)
        frontier.new_round("g", number)
    assert out.read_text() == (before or "n\n") + "2\n3\n4\n5\n"


@pytest.mark.parametrize("kind", [JsonItemExporter, Whole])
@pytest.mark.parametrize("overwrite", [True, False])
def test_a_file_that_shall_not_be_empty_stays_as_it_was_until_an_item_comes(
    frontier: ValkeyFrontier, tmp_path: Path, overwrite: bool, kind: Any
) -> None:
    """As in Scrapy: what the last good run has left is not given up for a run that finds nothing."""
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text("[8]")
    for over in (False, True):  # stopped, and gone on with
        for path in (old, new):
            file = opened(frontier, path, kind, overwrite, store_empty=False)
            bring(frontier, frontier.rounds("g", 1)[0], file, over)
    assert old.read_text() == "[8]"
    assert not new.exists()
    for number, over in ((2, False), (3, True)):
        info = produce(frontier, number)
        files = [opened(frontier, path, kind, overwrite, store_empty=False) for path in (old, new)]
        for file in files:
            file.prepare(frontier, info)
        for file in files:
            bring(frontier, info, file, over)
    found = new.read_text()
    assert [item if kind is Whole else item["n"] for item in json.loads(found)] == [2, 3]
    assert old.read_text() == ("" if overwrite else "[8]") + found
