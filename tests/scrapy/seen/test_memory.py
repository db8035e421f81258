"""A spider's memory: how it is named, what its policy is, what is known without asking, and what a JOBDIR brings along."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from scrapy.dupefilters import RFPDupeFilter
from scrapy.utils.request import fingerprint
from tests.support import fork_server

from gossamer.errors import SettingError, SnapshotError
from gossamer.frontier.server import keys
from gossamer.model import SeenKind, SeenPolicy
from gossamer.scrapy.dupefilter import FingerprintCache
from gossamer.scrapy.seen.memory import (
    ImportCounts,
    RequestsSeen,
    import_requests_seen,
    memory_name,
    number_of,
    number_of_custom,
    open_memory,
    policy_of,
)
from gossamer.scrapy.speedups.fingerprint import Fingerprinter
from gossamer.settings import Settings, load
from gossamer.testing.servers import Server

URLS = [f"http://example.com/page/{number}" for number in range(2500)]
DIGESTS = [fingerprint(Request(url)) for url in URLS]
LINES = b"".join(digest.hex().encode() + b"\n" for digest in DIGESTS)
SIZED = b"".join(len(digest).to_bytes(2, "big") + digest for digest in DIGESTS)


def given(**values: Any) -> Settings:
    return load({f"GOSSAMER_{name.upper()}": value for name, value in values.items()}, environ={})


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("kind", [SeenKind.EXACT, SeenKind.BLOOM])
def test_what_is_seen_for_good_is_known_for_good(kind: SeenKind) -> None:
    clock = Clock()
    known = FingerprintCache(SeenPolicy(kind), 10, clock)
    known.put(1, new=True)
    known.put(2, new=False)
    clock.now += 1e9
    assert [known.has(1), known.has(2), known.has(3)] == [True, True, False]


def test_under_rolling_an_own_mark_is_known_for_the_window_and_a_found_one_shortly() -> None:
    clock = Clock()
    known = FingerprintCache(SeenPolicy(SeenKind.ROLLING, window=1000.0), 10, clock)
    known.put(1, new=True)
    known.put(2, new=False)
    clock.now += 9
    assert [known.has(1), known.has(2)] == [True, True]
    clock.now += 2
    assert [known.has(1), known.has(2)] == [True, False]
    clock.now += 989
    assert not known.has(1)


def test_under_hits_sightings_are_told_again_soon() -> None:
    clock = Clock()
    known = FingerprintCache(SeenPolicy(SeenKind.HITS, window=1000.0), 10, clock)
    known.put(1, new=True)
    clock.now += 9
    assert known.has(1)
    clock.now += 2
    assert not known.has(1)


def test_a_window_of_fingerprints_is_measured_in_fingerprints() -> None:
    known = FingerprintCache(SeenPolicy(SeenKind.ROLLING, window_count=300), 10)
    known.put(1, new=True)
    known.put(2, new=True)
    known.put(3, new=False)
    known.put(4, new=True)
    assert known.has(2)
    known.put(5, new=True)
    assert not known.has(1)
    assert known.has(5)


def test_only_so_many_are_kept_and_the_useful_ones_longest() -> None:
    known = FingerprintCache(SeenPolicy(), 3)
    for number in (1, 2, 3):
        known.put(number, new=True)
    assert known.has(1)
    known.put(4, new=True)
    assert [known.has(number) for number in (1, 2, 3, 4)] == [True, False, True, True]
    nothing = FingerprintCache(SeenPolicy(), 0)
    nothing.put(1, new=True)
    assert not nothing.has(1)


def test_no_two_spiders_share_a_memory() -> None:
    crawls = ("main", "main:a", "a", "spider:", "c" * 100)
    spiders = ("a", "a:a", "books", "books ", "Bücher", "exact", "", "x" * 100, "a.b-c_d", "\ud800")
    policies = (SeenPolicy(), SeenPolicy(SeenKind.BLOOM), SeenPolicy(SeenKind.BLOOM, capacity=5000), SeenPolicy(SeenKind.BLOOM, error=1e-6), SeenPolicy(SeenKind.HITS, window=9.0))  # fmt: skip
    names = [memory_name(*each) for each in product(crawls, spiders, policies)]
    assert len(set(names)) == len(names)
    assert [keys.crawl_name(name) for name in names] == names
    assert memory_name("main", "books", SeenPolicy()) == "main:books:exact"


def test_a_window_may_change_and_the_memory_stays(valkey_server: Server, crawl_name: str) -> None:
    def opened(**window: Any) -> Any:
        return open_memory("s", given(url=valkey_server.url, crawl=crawl_name, seen_kind="rolling", **window))

    with opened(seen_window_seconds=3600) as memory:
        assert memory.mark([1, 2]) == [True, True]
    with opened(seen_window_seconds=86400) as memory:
        assert memory.mark([1, 2, 3]) == [False, False, True]
    with opened(seen_window_count=1000) as memory:
        assert memory.mark([1, 2, 3]) == [False, False, False]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"seen_kind": "rolling"}, "either GOSSAMER_SEEN_WINDOW_SECONDS or GOSSAMER_SEEN_WINDOW_COUNT"),
        (
            {"seen_kind": "hits", "seen_window_seconds": 9, "seen_window_count": 9},
            "either GOSSAMER_SEEN_WINDOW_SECONDS",
        ),
        ({"seen_kind": "rolling", "seen_window_seconds": 0.5}, "at least one second"),
        ({"seen_kind": "bloom", "seen_error_rate": 0.5}, "error 0.5 must lie between"),
        ({"seen_kind": "bloom", "seen_capacity": 5}, "capacity 5 must lie between"),
        ({"seen_scope": "round"}, "GOSSAMER_SEEN_SCOPE: rounds need the scheduler of Gossamer"),
    ],
)
def test_a_policy_that_cannot_be_is_a_setting_error(values: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        policy_of(given(**values))


def test_a_kind_given_in_code_wins_and_needs_only_its_own_settings() -> None:
    settings = given(seen_kind="exact", seen_window_seconds=60)
    assert policy_of(settings) == SeenPolicy()
    assert policy_of(settings, SeenKind.ROLLING) == SeenPolicy(SeenKind.ROLLING, window=60.0)


def written_by_scrapy(directory: Path) -> bytes:
    dupefilter = RFPDupeFilter(str(directory))
    for url in URLS:
        dupefilter.request_seen(Request(url))
    dupefilter.close("finished")
    return (directory / "requests.seen").read_bytes()


def test_the_file_of_the_installed_scrapy_is_read(tmp_path: Path) -> None:
    assert list(RequestsSeen(io.BytesIO(written_by_scrapy(tmp_path)))) == DIGESTS


@pytest.mark.parametrize(
    ("data", "found", "cut"),
    [
        (b"", 0, False),
        (LINES, 2500, False),
        (LINES.replace(b"\n", b"\r\n"), 2500, False),
        (SIZED, 2500, False),
        (LINES + SIZED, 5000, False),
        (LINES[:-1], 2500, False),
        (LINES[:-2], 2499, True),
        (LINES[:-30], 2499, True),
        (SIZED[:-1], 2499, True),
        (SIZED + b"\x00", 2500, True),
        (b"\x00\x01a\x00\x00\x01\x2c" + b"b" * 300, 3, False),
    ],
)
def test_both_forms_are_read_and_an_incomplete_end_is_told(data: bytes, found: int, cut: bool) -> None:
    source = RequestsSeen(io.BytesIO(data))
    assert len(list(source)) == source.number == found
    assert source.cut is cut


@pytest.mark.parametrize(
    "data",
    [b"hello\n", b"abc\n", b"a" * 20_000, b"{}\n", LINES + b"xyz", b"abcd efgh\n", b"\xff\xff", b"SQLite format 3\0"],
)
def test_another_file_is_refused(data: bytes) -> None:
    source = RequestsSeen(io.BytesIO(data), "some.file")
    if data.startswith(LINES):
        # After what was read this may be the beginning of something that Scrapy was about to write.
        assert len(list(source)) == 2500
        assert source.cut
        return
    with pytest.raises(SnapshotError, match=r"some.file: fingerprint 1 cannot be read. Give the requests.seen"):
        list(source)


@pytest.mark.parametrize("kind", list(SeenKind))
def test_an_imported_file_makes_its_requests_seen(valkey_server: Server, crawl_name: str, kind: SeenKind) -> None:
    settings = given(url=valkey_server.url, crawl=crawl_name, seen_window_seconds=3600)
    heard: list[int] = []
    with open_memory("books", settings, kind) as memory:
        assert import_requests_seen(RequestsSeen(io.BytesIO(LINES)), memory, heard=heard.append) == ImportCounts(
            2500, 0, False
        )
        assert import_requests_seen(RequestsSeen(io.BytesIO(SIZED)), memory) == ImportCounts(0, 2500, False)
        number = Fingerprinter().number
        assert all(memory.known([number(Request(url)) for url in URLS]))
        assert memory.count() == 2500
    assert heard[-1] == len(LINES)
    with open_memory("films", settings, kind) as memory:
        assert memory.count() == 0


def run(*words: str, cwd: Path, code: int = 0, **environ: str) -> tuple[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GOSSAMER_")}
    done = fork_server.run("gossamer", ["import", "requests-seen", *words], {**kept, **environ}, cwd, 100)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout, done.stderr


def test_an_import_notices_a_server_that_may_have_lost_some_of_it(crawl_name: str) -> None:
    with Server().start(fsync="always") as server:
        settings = load({"GOSSAMER_URL": server.url, "GOSSAMER_CRAWL": crawl_name}, environ={})
        with open_memory("spider", settings) as memory:
            read: list[int] = []

            def heard(count: int) -> None:
                read.append(count)
                if len(read) == 1:
                    server.restart()

            with pytest.raises(SnapshotError, match=r"may have lost fingerprints\. Import again"):
                import_requests_seen(RequestsSeen(io.BytesIO(LINES)), memory, heard=heard)
            assert import_requests_seen(RequestsSeen(io.BytesIO(LINES)), memory) == ImportCounts(0, 2500, False)


def test_the_command_line_imports_a_jobdir(valkey_server: Server, crawl_name: str, tmp_path: Path) -> None:
    written_by_scrapy(tmp_path)
    at = ("--url", valkey_server.url, "--crawl", crawl_name)
    assert run("requests.seen", "--spider", "books", *at, cwd=tmp_path)[0] == (
        "books: 2,500 new, 0 known already, 2,500 remembered\n"
    )
    said = json.loads(run("requests.seen", "--spider", "books", "--json", *at, cwd=tmp_path)[0])
    assert said == {"spider": "books", "new": 0, "known": 2500, "cut": False, "remembered": 2500}
    said = json.loads(run("requests.seen", "--spider", "books", "--custom", "--json", *at, cwd=tmp_path)[0])
    assert (said["new"], said["remembered"]) == (2500, 5000)
    settings = given(url=valkey_server.url, crawl=crawl_name)
    with open_memory("books", settings) as memory:
        assert memory.known([number_of(DIGESTS[7]), number_of_custom(DIGESTS[7]), 7]) == [True, True, False]


def test_the_command_line_names_what_is_wrong(valkey_server: Server, crawl_name: str, tmp_path: Path) -> None:
    at = ("--spider", "books", "--url", valkey_server.url, "--crawl", crawl_name)
    (tmp_path / "half").write_bytes(LINES[:-3])
    (tmp_path / "other").write_bytes(b"something else")
    assert "the last fingerprint is cut off and was left out" in run("half", *at, cwd=tmp_path)[1]
    assert "error: other: fingerprint 1 cannot be read" in run("other", *at, cwd=tmp_path, code=3)[1]
    assert "error: absent: No such file or directory" in run("absent", *at, cwd=tmp_path, code=1)[1]
    assert "either GOSSAMER_SEEN_WINDOW_SECONDS" in run("half", *at, "--kind", "rolling", cwd=tmp_path, code=2)[1]
    away = ("half", "--spider", "books", "--url", "redis://127.0.0.1:1")
    assert "127.0.0.1:1" in run(*away, cwd=tmp_path, code=3, GOSSAMER_OUTAGE_SECONDS="0")[1]


def test_the_spider_must_be_named(tmp_path: Path) -> None:
    assert "--spider" in run("requests.seen", cwd=tmp_path, code=2)[1]


@pytest.fixture
def piped() -> Callable[[bytes, str, str], str]:
    def run_piped(data: bytes, url: str, crawl: str) -> str:
        words = ["import", "requests-seen", "-", "--spider", "books", "--url", url, "--crawl", crawl]
        done = fork_server.run("gossamer", words, os.environ, Path.cwd(), 100, say=data)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run_piped


def test_standard_input_will_do(
    valkey_server: Server, crawl_name: str, piped: Callable[[bytes, str, str], str]
) -> None:
    assert piped(SIZED, valkey_server.url, crawl_name).startswith("books: 2,500 new")
