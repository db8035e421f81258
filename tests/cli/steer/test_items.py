"""`gossamer items`: followed, and written to files that have each item once."""

from __future__ import annotations

import csv
import errno
import json
import os
import signal
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.support import fork_server
from tests.support.command import Command
from tests.support.fork_server import Program

from gossamer.frontier import codec, item_stream
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.items import lines as item_lines
from gossamer.items import position
from gossamer.items.consumer import ItemConsumer
from gossamer.items.export import SUFFIXES, ExportPlan, export
from gossamer.model import GroupPolicy, LanePolicy, Lease, Request, Settlement, Token
from gossamer.testing.process import wait_until
from gossamer.testing.servers import Server


def produce(frontier: ValkeyFrontier, items: list[Any], hosts: int = 4) -> None:
    """Pages on several hosts bring these items home."""
    frontier.define("g", {"a": LanePolicy()})
    share = -(-len(items) // hosts)
    payloads = [item if isinstance(item, bytes) else codec.encode(item) for item in items]
    token = Token.fresh()
    frontier.add([Request(n, f"h{n}", "g.a", b"x", dont_filter=True) for n in range(hosts)])
    leases: list[Lease] = []
    while len(leases) < hosts:
        leases += frontier.exchange(token, want=hosts).leases
        token = token.next()
    settle = [Settlement(lease, items=payloads[n * share : (n + 1) * share]) for n, lease in enumerate(leases)]
    frontier.exchange(token, settle=settle)


def numbered(first: int, count: int) -> list[Any]:
    return [{"n": n, "title": f'ti,tle "{n}"\n'} for n in range(first, first + count)]


def numbers(file: Path) -> list[int]:
    """What a file has, in any order but each as often as it is there."""
    if file.suffix == ".parquet":
        import pyarrow.parquet as parquet  # type: ignore[import-untyped]

        return sorted(parquet.read_table(file)["n"].to_pylist())
    with file.open(encoding="utf-8", newline="") as lines:
        if file.suffix == ".csv":
            rows = list(csv.DictReader(lines))
            assert all(row["title"] == f'ti,tle "{row["n"]}"\n' for row in rows)
        else:
            rows = [json.loads(line) for line in lines]
    return sorted(int(row["n"]) for row in rows)


FILES = pytest.mark.parametrize("name", ["out.jsonl", "out.csv", "out.parquet"])


class TestTail:
    def test_the_last_items_as_lines(self, command: Command, frontier: ValkeyFrontier) -> None:
        produce(frontier, [{"n": 1, "at": datetime(2026, 5, 1, tzinfo=UTC), "raw": b"\xff", "tags": {"b", "a"}}], 1)
        produce(frontier, numbered(2, 6))
        lines = command("items", "tail", "g", "-n", "100").out.splitlines()
        assert json.loads(lines[0]) == {"n": 1, "at": "2026-05-01T00:00:00+00:00", "raw": "/w==", "tags": ["a", "b"]}
        assert sorted(json.loads(line)["n"] for line in lines) == list(range(1, 8))
        assert len(command("items", "tail", "g", "-n", "3").out.splitlines()) == 3
        assert command("items", "tail", "g", "-n", "0").out == ""
        told = json.loads(command("items", "tail", "g", "-n", "1", "--json").out)
        assert sorted(told) == ["item", "partition", "position"]

    def test_what_is_no_item_of_ours_is_told_too(self, command: Command, frontier: ValkeyFrontier) -> None:
        produce(frontier, [b"plain bytes", [1, 2], "te\ud800xt", {1: float("nan"), "e": float("inf")}], 1)
        lines = [json.loads(line) for line in command("items", "tail", "g").out.splitlines()]
        assert lines == [{"payload": "plain bytes"}, {"value": [1, 2]}, {"value": "te\ud800xt"}, {"1": None, "e": None}]

    def test_an_unknown_group_is_an_error(self, command: Command, frontier: ValkeyFrontier) -> None:
        for verb in (["tail", "g"], ["export", "g", "f.csv"], ["consumers", "g"], ["forget", "g", "c"]):
            assert "there is no group 'g'" in command("items", *verb, code=2).err

    def test_it_follows(self, frontier: ValkeyFrontier, valkey_server: Server, tmp_path: Path) -> None:
        produce(frontier, numbered(0, 3))
        words = ["items", "tail", "g", "-f", "--url", valkey_server.url, "--crawl", frontier.crawl]
        told = 0
        with Program("gossamer", words, clean(), tmp_path) as tail:

            def more(count: int) -> list[int]:
                """So many more lines, as soon as they are there."""
                nonlocal told
                wait_until(lambda: tail.output().count("\n") >= told + count, f"{count} lines", 60)
                lines = tail.output().splitlines()[told:]
                told += len(lines)
                return sorted(json.loads(line)["n"] for line in lines)

            assert more(3) == [0, 1, 2]
            for first in (3, 10):
                produce(frontier, numbered(first, 5))
                assert more(5) == list(range(first, first + 5))
            tail.send_signal(signal.SIGINT)
            assert tail.wait(60) == 130


def clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("GOSSAMER_")}


def dies_after(times: int) -> Callable[[int], None]:
    """os.fsync, which fails when it has been called so often."""
    steps, sync = iter(range(times)), os.fsync

    def one(file: int) -> None:
        if next(steps, None) is None:
            raise ZeroDivisionError
        sync(file)

    return one


class TestExport:
    def test_an_empty_export_says_why(self, command: Command, frontier: ValkeyFrontier) -> None:
        produce(frontier, numbered(0, 3), 1)
        assert command("items", "drop", "g", "--yes").out == "3 items are dropped\n"
        said = command("items", "export", "g", "out.jsonl").err
        assert "none of the 3 items that g has scraped is in its stream" in said
        assert "or they were dropped" in said
        produce(frontier, numbered(3, 3), 1)
        command("items", "export", "g", "out.jsonl")
        assert "nothing came into its stream since" in command("items", "export", "g", "out.jsonl").err

    @FILES
    def test_a_file_goes_on_where_it_stopped(self, command: Command, frontier: ValkeyFrontier, name: str) -> None:
        produce(frontier, numbered(0, 10))
        assert command("items", "export", "g", name).out == f"10 items written to {name}\n"
        assert command("items", "export", "g", name).out == f"0 items written to {name}\n"
        assert frontier.counts("g").groups[0].items_waiting == 10, "they stay"
        assert item_stream.consumers(frontier, "g") == {}, "and are kept for nobody"
        produce(frontier, numbered(10, 15))
        said = command("items", "export", "g", name, "--json").json
        assert (said["items"], said["format"], said["consumer"]) == (15, name.partition(".")[2], "")
        assert numbers(Path(name)) == list(range(25))

    @FILES
    def test_another_file_and_one_that_is_gone_begin_with_the_first_item(
        self, command: Command, frontier: ValkeyFrontier, name: str
    ) -> None:
        produce(frontier, numbered(0, 10))
        command("items", "export", "g", "before.jsonl")
        assert command("items", "export", "g", name).out == f"10 items written to {name}\n"
        Path(name).unlink()
        produce(frontier, numbered(10, 5))
        assert command("items", "export", "g", name).out == f"15 items written to {name}\n"
        assert numbers(Path(name)) == list(range(15))
        command("items", "export", "g", "before.jsonl")
        assert numbers(Path("before.jsonl")) == list(range(15))

    @pytest.mark.parametrize("name", ["out.jsonl", "out.csv"])
    @pytest.mark.parametrize("end", ["", "\n"])
    @pytest.mark.parametrize("killed", [None, 0, 1, 2])
    def test_what_another_program_adds_to_a_file_stays(
        self, command: Command, frontier: ValkeyFrontier, name: str, end: str, killed: int | None
    ) -> None:
        """Also where the export that comes after it is killed."""
        line = {"out.jsonl": '{"n":100}', "out.csv": '100,"ti,tle ""100""\n"'}[name]
        for first in (0, 10):
            produce(frontier, numbered(first, 10), 1)
            if first and killed is not None:
                with pytest.MonkeyPatch.context() as fate:
                    fate.setattr(os, "fsync", dies_after(killed))
                    with pytest.raises(ZeroDivisionError):
                        export(frontier, ExportPlan("g", "", Path(name), SUFFIXES[Path(name).suffix]), lambda _: None)
            said = command("items", "export", "g", name).err
            assert ("another program has added to" in said) is (
                first > 0 and (killed is None or (not killed and not end))
            )
            if not first:
                with Path(name).open("a") as file:
                    file.write(line + end)
        text = Path(name).read_text()
        assert text.count(line + "\n") == 1
        assert numbers(Path(name)) == [*range(20), 100]
        # What a killed export had begun goes, and nothing else.
        produce(frontier, numbered(20, 10), 1)
        command("items", "export", "g", name)
        assert Path(name).read_text().startswith(text)

    def test_a_file_without_items_to_which_another_program_has_added_is_refused(
        self, command: Command, frontier: ValkeyFrontier
    ) -> None:
        frontier.define("g", {"a": LanePolicy()})
        command("items", "export", "g", "out.jsonl")
        Path("out.jsonl").write_text("mine\n")
        produce(frontier, numbered(0, 3), 1)
        assert "another program's" in command("items", "export", "g", "out.jsonl", code=1).err
        assert Path("out.jsonl").read_text() == "mine\n"

    def test_a_file_of_an_earlier_version_goes_on(self, command: Command, frontier: ValkeyFrontier) -> None:
        produce(frontier, numbered(0, 10))
        command("items", "export", "g", "out.jsonl")
        note = Path("out.jsonl.position")
        note.write_text(note.read_text().replace('"consumer": ""', '"consumer": "export"'))
        produce(frontier, numbered(10, 5))
        command("items", "export", "g", "out.jsonl")
        assert numbers(Path("out.jsonl")) == list(range(15))

    def test_what_has_gone_at_the_limit_is_said(self, command: Command, frontier: ValkeyFrontier) -> None:
        """Nothing is missing without a word: neither in a file that goes on nor in a new one."""
        frontier.define("g", {"a": LanePolicy()}, GroupPolicy(max_items=50))
        produce(frontier, numbered(0, 20), 1)
        command("items", "export", "g", "first.jsonl")
        produce(frontier, numbered(20, 25), 1)
        said = command("items", "export", "g", "second.jsonl", "--as", "second")
        assert ("went" in said.err, numbers(Path("second.jsonl"))) == (False, list(range(45)))
        produce(frontier, numbered(45, 40), 1)
        assert frontier.counts("g").groups[0].items_waiting == 45, "of what the second has written, the oldest went"
        said = command("items", "export", "g", "first.jsonl", code=4)
        assert "first.jsonl lacks items: 40 items that had been written, or came before" in said.err
        assert numbers(Path("first.jsonl")) == [*range(20), *range(40, 85)]
        assert "lacks" not in command("items", "export", "g", "first.jsonl").err
        said = command("items", "export", "g", "second.jsonl", "--as", "second")
        assert ("went" in said.err, numbers(Path("second.jsonl"))) == (False, list(range(85)))
        said = command("items", "export", "g", "new.jsonl")
        assert "40 items that had been written, or came before" in said.err
        assert numbers(Path("new.jsonl")) == list(range(40, 85))
        assert "40 items that had been written, or came before" in command("items", "consumers", "g").err

    def test_lines_are_plain_json(self, command: Command, frontier: ValkeyFrontier) -> None:
        produce(frontier, [{"n": 1, "name": "żółw", "price": Decimal("1.50"), "parts": [{"a": (1, 2)}]}], 1)
        command("items", "export", "g", "out.jsonl")
        text = Path("out.jsonl").read_text(encoding="utf-8")
        assert text == '{"n":1,"name":"żółw","price":"1.50","parts":[{"a":[1,2]}]}\n'

    def test_columns_are_all_fields_met(self, command: Command, frontier: ValkeyFrontier) -> None:
        items = [{"a": 1, "b": None}, {"b": True, "c": [1, {"d": "é"}]}, {"a": 1.5, "e": date(2026, 1, 2)}]
        produce(frontier, items, 1)
        command("items", "export", "g", "out.csv")
        text = Path("out.csv").read_text(encoding="utf-8")
        assert text == 'a,b,c,e\n1,,,\n,true,"[1,{""d"":""é""}]",\n1.5,,,2026-01-02\n'

    def test_chosen_columns_leave_the_rest_out(self, command: Command, frontier: ValkeyFrontier) -> None:
        produce(frontier, [{"a": 1, "b": 2, "c": 3}, {"b": 4, "z": 5}], 1)
        assert command("items", "export", "g", "out.csv", "--fields", " b, a,x,b").out == "2 items written to out.csv\n"
        assert Path("out.csv").read_text() == "b,a,x\n2,1,\n4,,\n"
        said = command("items", "export", "g", "out.csv", "--fields", "a", code=1)
        assert "out.csv has the columns b,a,x. Give the same --fields" in said.err

    def test_a_field_that_comes_late_stops_before_it_and_loses_nothing(
        self, command: Command, frontier: ValkeyFrontier
    ) -> None:
        produce(frontier, [*numbered(0, 5), {"n": 5, "title": 'ti,tle "5"\n', "new": 1}, *numbered(6, 4)], 1)
        said = command("items", "export", "g", "out.csv", "--look", "3", code=1)
        assert "an item has the field 'new', which is none of the columns" in said.err
        assert numbers(Path("out.csv")) == list(range(5))
        command("items", "export", "g", "more.csv")
        assert numbers(Path("more.csv")) == list(range(10))

    def test_parquet_keeps_types_and_takes_new_ones_in(self, command: Command, frontier: ValkeyFrontier) -> None:
        import pyarrow as arrow
        import pyarrow.parquet as parquet

        moment = datetime(2026, 5, 1, 12, tzinfo=UTC)
        first = {"i": 1, "f": 1.5, "s": "x", "b": True, "raw": b"\xff", "at": moment, "day": date(2026, 1, 2)}
        second = {"tags": ["a", None], "ids": (1, 2), "deep": {"k": [1]}, "big": 2**70, "id": UUID(int=5), "none": None}
        produce(frontier, [first, second], 1)
        command("items", "export", "g", "out.parquet")
        table = parquet.read_table("out.parquet")
        types = {field.name: str(field.type) for field in table.schema}
        assert types == {
            "i": "int64", "f": "double", "s": "string", "b": "bool", "raw": "binary", "at": "timestamp[us, tz=UTC]",
            "day": "date32[day]", "tags": "list<element: string>", "ids": "list<element: int64>", "deep": "string",
            "big": "string", "id": "string", "none": "string",
        }  # fmt: skip
        one, two = table.to_pylist()
        assert {name: one[name] for name in first} == first
        assert (two["tags"], two["ids"], two["deep"], two["big"]) == (["a", None], [1, 2], '{"k":[1]}', str(2**70))
        produce(frontier, [{"i": 0.5, "s": 7, "none": 3, "tags": "x", "new": datetime(2026, 5, 1)}], 1)
        command("items", "export", "g", "out.parquet")
        table = parquet.read_table("out.parquet")
        assert table["i"].to_pylist() == [1.0, None, 0.5]
        assert table["s"].to_pylist() == ["x", None, "7"]
        assert table["none"].to_pylist() == [None, None, 3]
        assert table["tags"].to_pylist() == [None, '["a",null]', "x"]
        assert table.schema.field("new").type == arrow.timestamp("us")
        assert table["at"].to_pylist() == [moment, None, None]

    def test_parquet_without_its_package_says_what_to_install(
        self, command: Command, frontier: ValkeyFrontier, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        produce(frontier, numbered(0, 1), 1)
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        said = command("items", "export", "g", "out.parquet", code=2)
        assert said.err == "error: Parquet needs the package pyarrow: pip install 'gossamer[parquet]'.\n"
        assert list(Path().iterdir()) == []
        assert item_stream.consumers(frontier, "g") == {}

    def test_each_consumer_gets_everything(self, command: Command, frontier: ValkeyFrontier) -> None:
        produce(frontier, numbered(0, 6))
        command("items", "export", "g", "a.jsonl", "--as", "a")
        produce(frontier, numbered(6, 6))
        command("items", "export", "g", "b.jsonl", "--as", "b")
        command("items", "export", "g", "a2.jsonl", "--as", "a")
        assert numbers(Path("a.jsonl")) + numbers(Path("a2.jsonl")) == list(range(12))
        assert numbers(Path("b.jsonl")) == list(range(12)), "also what came before its first call"

    def test_a_full_group_goes_on(self, command: Command, frontier: ValkeyFrontier) -> None:
        produce(frontier, numbered(0, 8))
        frontier.define("g", {}, GroupPolicy(max_items=2))
        assert frontier.counts("g").groups[0].paused == "items_full"
        command("items", "export", "g", "out.jsonl")
        assert frontier.counts("g").groups[0].paused == ""

    @pytest.mark.parametrize(
        ("words", "code", "said"),
        [
            (("out",), 2, "'out' does not show the format; give --format"),
            (("out.jsonl", "--fields", "a"), 2, "--fields is for CSV and Parquet"),
            (("out.jsonl", "--as", "a b"), 2, "must be a plain name"),
            (("out.jsonl", "--as", "feed-a"), 2, "must be a plain name"),
            (("there.jsonl",), 1, "there.jsonl exists and was not written by an export"),
            (("there.parquet",), 1, "there.parquet exists and was not written by an export"),
            (("absent/out.jsonl",), 1, "absent/out.jsonl.position: No such file"),
        ],
    )
    def test_misuse_changes_nothing(
        self,
        frontier: ValkeyFrontier,
        valkey_server: Server,
        tmp_path: Path,
        words: tuple[str, ...],
        code: int,
        said: str,
    ) -> None:
        for name in ("there.jsonl", "there.parquet"):
            (tmp_path / name).write_text("mine")
        produce(frontier, numbered(0, 3))
        where = ("--url", valkey_server.url, "--crawl", frontier.crawl)
        done = fork_server.run("gossamer", ["items", "export", "g", *words, *where], clean(), tmp_path, 60)
        assert (done.returncode, said in done.stderr) == (code, True), done.stderr
        assert sorted(path.name for path in tmp_path.iterdir()) == ["there.jsonl", "there.parquet"]
        assert frontier.counts("g").groups[0].items_waiting == 3

    def test_a_file_of_others_items_is_not_touched(self, command: Command, frontier: ValkeyFrontier) -> None:
        produce(frontier, numbered(0, 3))
        command("items", "export", "g", "out.jsonl")
        before = Path("out.jsonl").read_bytes()
        said = command("items", "export", "g", "out.jsonl", "--as", "other", code=1)
        assert "out.jsonl has other items: crawl" in said.err
        assert Path("out.jsonl").read_bytes() == before

    def test_a_file_that_was_changed_is_not_written_over(self, command: Command, frontier: ValkeyFrontier) -> None:
        produce(frontier, numbered(0, 3))
        command("items", "export", "g", "out.jsonl")
        Path("out.jsonl").write_bytes(b"{}")
        assert "out.jsonl is shorter than it was" in command("items", "export", "g", "out.jsonl", code=1).err
        Path("out.jsonl").unlink()
        command("items", "export", "g", "out.jsonl")
        assert numbers(Path("out.jsonl")) == list(range(3))

    @FILES
    def test_a_full_disk_is_named_by_the_file_and_loses_nothing(
        self, command: Command, frontier: ValkeyFrontier, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        produce(frontier, numbered(0, 3))

        def full(*told: Any) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as small:
            small.setattr(*((os, "fsync") if name.endswith(".parquet") else (item_lines, "sync")), full)
            form = SUFFIXES[Path(name).suffix]
            with pytest.raises(OSError, match=f"No space left on device: '{name}'"):
                export(frontier, ExportPlan("g", "", Path(name), form), print)
        command("items", "export", "g", name)
        assert numbers(Path(name)) == list(range(3))

    @FILES
    def test_one_export_at_a_time(self, command: Command, frontier: ValkeyFrontier, name: str) -> None:
        produce(frontier, numbered(0, 3))
        owner = {"crawl": frontier.crawl, "group": "g", "consumer": "", "format": name.partition(".")[2]}
        with position.held(Path(name), owner):
            assert "is being written by another export" in command("items", "export", "g", name, code=1).err
        assert command("items", "export", "g", name).out.startswith("3 items")


class Killed(BaseException):
    """The process ends here."""


STEPS: dict[str, tuple[Any, str]] = {
    "before the file is on disk": (item_lines, "sync"),
    "before it is marked": (position.PositionFile, "set"),
    "before it is acknowledged": (ItemConsumer, "keep"),
    "parquet": (Path, "replace"),
}


class TestKilled:
    """Whatever happens between two steps, the file has every item once when the export is called again."""

    @FILES
    @pytest.mark.parametrize("when", list(STEPS)[:3])
    @pytest.mark.parametrize("page", [1, 3])
    def test_between_two_steps(
        self,
        command: Command,
        frontier: ValkeyFrontier,
        monkeypatch: pytest.MonkeyPatch,
        name: str,
        when: str,
        page: int,
    ) -> None:
        monkeypatch.setattr(item_stream, "PAGE", 10)
        produce(frontier, numbered(0, 60))
        place, verb = STEPS[when if not name.endswith(".parquet") or "acknowledged" in when else "parquet"]
        left = 1 if name.endswith(".parquet") else page
        real = getattr(place, verb)

        def end(*told: Any) -> Any:
            nonlocal left
            left -= 1
            if left <= 0:
                raise Killed
            return real(*told)

        with monkeypatch.context() as broken:
            broken.setattr(place, verb, end)
            with pytest.raises(Killed):
                command("items", "export", "g", name)
        produce(frontier, numbered(60, 7))
        command("items", "export", "g", name)
        assert numbers(Path(name)) == list(range(67))
        assert frontier.counts("g").groups[0].items_waiting == 67

    def test_a_mark_that_was_cut_off_does_not_count(self, command: Command, frontier: ValkeyFrontier) -> None:
        produce(frontier, numbered(0, 5))
        command("items", "export", "g", "out.jsonl")
        marks = Path("out.jsonl.position")
        # An export that was killed had begun to write.
        whole = marks.read_bytes().replace(b', "closed": true', b"")
        marks.write_bytes(whole + b'{"size": 99')
        with Path("out.jsonl").open("ab") as stream_:
            stream_.write(b'{"n": ')
        produce(frontier, numbered(5, 5))
        command("items", "export", "g", "out.jsonl")
        assert numbers(Path("out.jsonl")) == list(range(10))
        assert marks.read_bytes().startswith(whole)

    @FILES
    @pytest.mark.timeout(180)
    def test_kill_9_again_and_again(
        self, frontier: ValkeyFrontier, valkey_server: Server, tmp_path: Path, name: str
    ) -> None:
        count = 30_000
        for first in range(0, count, 10_000):
            produce(frontier, numbered(first, 10_000))
        words = ["items", "export", "g", name, "--url", valkey_server.url, "--crawl", frontier.crawl]
        file = tmp_path / name
        watched = tmp_path / (f"{name}.part" if name.endswith(".parquet") else name)
        growth, killed = Growth(watched), 0
        for _ in range(30):
            with Program("gossamer", words, clean(), tmp_path) as process:
                wait_until(partial(growth, process), "a file that grows", 60, pause=0.001)
                process.kill()
            if process.returncode == -signal.SIGKILL:
                killed += 1
            else:  # it was quicker: from the beginning again
                for left in tmp_path.glob(f"{name}*"):
                    left.unlink()
                growth = Growth(watched)
            if killed == 3:
                break
        assert killed
        done = fork_server.run("gossamer", words, clean(), tmp_path, 120)
        assert done.returncode == 0, done.stderr
        assert numbers(file) == list(range(count))


class Growth:
    """True when the file is larger than at the last look, or the process has ended."""

    def __init__(self, file: Path) -> None:
        self._file, self._size = file, 0

    def __call__(self, process: Program) -> bool:
        before, self._size = self._size, self._file.stat().st_size if self._file.exists() else 0
        return self._size > before or process.poll() is not None


class TestConsumers:
    def test_they_are_listed_and_forgotten(self, command: Command, frontier: ValkeyFrontier) -> None:
        produce(frontier, numbered(0, 6))
        command("items", "export", "g", "a.jsonl", "--as", "a")
        frontier.keep_items("g", "slow", {0: "", 1: ""})
        produce(frontier, numbered(6, 6))
        command("items", "export", "g", "a.jsonl", "--as", "a")
        told = command("items", "consumers", "g", "--json").json
        assert (told["waiting"], told["consumers"]["slow"]) == (12, {"0": "0-0", "1": "0-0"})
        assert [row[:2] for row in command("items", "consumers", "g").rows] == [
            ["a", "0"],
            ["a", "1"],
            ["slow", "0"],
            ["slow", "1"],
        ]
        assert "Forget consumer slow" in command("items", "forget", "g", "slow", code=1, given="n\n").err
        said = command("items", "forget", "g", "slow", "--yes").out
        assert said == "consumer slow is forgotten; 12 items are on the server\n"
        assert "no consumer 'slow'" in command("items", "forget", "g", "slow", "--yes", code=2).err

    def test_forgetting_may_drop_what_only_that_consumer_lacks(
        self, command: Command, frontier: ValkeyFrontier
    ) -> None:
        produce(frontier, numbered(0, 6))
        command("items", "export", "g", "a.jsonl", "--as", "a")
        frontier.keep_items("g", "slow", {0: "", 1: ""})
        produce(frontier, numbered(6, 2))
        forget = ["items", "forget", "g"]
        assert "are removed" in command(*forget, "slow", "--drop", code=1, given="n\n").err
        told = command(*forget, "slow", "--drop", "--yes")
        assert (told.out, told.err) == ("consumer slow is forgotten; 2 items are on the server\n", ""), "a lacks them"
        assert command(*forget, "a", "--drop", "--yes").out == "consumer a is forgotten; 0 items are on the server\n"

    def test_items_are_dropped_when_that_is_confirmed(self, command: Command, frontier: ValkeyFrontier) -> None:
        produce(frontier, numbered(0, 6))
        frontier.keep_items("g", "slow", {0: "", 1: ""})
        asked = command("items", "drop", "g", code=1, given="n\n").err
        assert "Drop 6 items of group g? slow has not written all of them." in asked
        assert frontier.counts("g").groups[0].items_waiting == 6
        assert command("items", "drop", "g", "--yes", "--json").json == {"group": "g", "dropped": 6}
        assert frontier.counts("g").groups[0].items_waiting == 0
        assert "drop items" in command("site", "log").out
        produce(frontier, numbered(6, 2))
        assert command("items", "export", "g", "a.jsonl").out == "2 items written to a.jsonl\n"
