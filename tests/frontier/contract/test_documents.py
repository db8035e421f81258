"""Documents: small texts with versions, on every place (see conftest)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gossamer.errors import InvalidRequest, PolicyError, UnknownDocument, VersionConflict
from gossamer.frontier.server import keys
from gossamer.frontier.snapshot.export import Export
from gossamer.frontier.snapshot.file import SnapshotFile
from gossamer.frontier.snapshot.restore import Restore
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.frontier.verbs.documents import TEXT_BYTES
from gossamer.testing.contract import Crawl
from gossamer.testing.fault_proxy import FaultProxy
from gossamer.testing.servers import Server

Opened = Callable[..., Crawl]


def put(crawl: Crawl, text: str, name: str = "bbs", **more: object) -> int:
    return crawl.frontier.put_document("site", name, text, **more)  # type: ignore[arg-type]


class TestVersions:
    """Every put is a version; the last ones stay."""

    def test_each_put_is_the_next_version(self, crawl: Crawl) -> None:
        assert [put(crawl, text, who="ann", note=f"as {text}") for text in ("one", "two", "drei ü\n# bye\n")] == [
            1,
            2,
            3,
        ]
        newest = crawl.frontier.document("site", "bbs")
        assert (newest.version, newest.text, newest.who, newest.note) == (
            3,
            "drei ü\n# bye\n",
            "ann",
            "as drei ü\n# bye\n",
        )
        assert newest.digest == hashlib.sha256(newest.text.encode()).hexdigest()
        assert (newest.bytes, newest.deleted) == (14, False)
        assert crawl.frontier.document("site", "bbs", 1).text == "one"
        history = crawl.frontier.document_history("site", "bbs")
        assert [row.version for row in history] == [3, 2, 1]
        assert history[0] == newest[:-1]
        now = crawl.frontier.counts().now
        assert all(now - 60 < row.at <= now + 1 for row in history)

    def test_another_version_than_expected_is_a_conflict(self, crawl: Crawl) -> None:
        assert put(crawl, "one", expected=0) == 1
        with pytest.raises(VersionConflict, match="site bbs has version 1, not 0"):
            put(crawl, "other", expected=0)
        assert put(crawl, "two", expected=1) == 2
        with pytest.raises(VersionConflict, match="has version 2, not 1"):
            put(crawl, "late", expected=1)
        assert crawl.frontier.document("site", "bbs").text == "two"
        assert put(crawl, "three") == 3

    def test_the_oldest_go(self, crawl: Crawl) -> None:
        for number in range(1, 61):
            put(crawl, f"text {number}")
        history = crawl.frontier.document_history("site", "bbs")
        assert [row.version for row in history] == list(range(60, 10, -1))
        assert crawl.frontier.document("site", "bbs", 11).text == "text 11"
        with pytest.raises(UnknownDocument, match="no version 10 of site 'bbs'"):
            crawl.frontier.document("site", "bbs", 10)
        base = keys.base(crawl.frontier.crawl, 0)
        stored = crawl.command(("HLEN", f"{base}{keys.SUFFIXES['document']}site|bbs"), base)
        assert stored == 100, "a text and what is known of it, for each of 50"

    def test_gone_is_a_version_too(self, crawl: Crawl) -> None:
        put(crawl, "one")
        assert crawl.frontier.drop_document("site", "bbs", who="bob", note="closed down") == 2
        gone = crawl.frontier.document("site", "bbs")
        assert (gone.deleted, gone.text, gone.who, gone.note) == (True, "", "bob", "closed down")
        assert [(row.name, row.version, row.deleted) for row in crawl.frontier.documents("site")] == [("bbs", 2, True)]
        assert crawl.frontier.drop_document("site", "bbs") == 2, "it was gone already"
        assert put(crawl, crawl.frontier.document("site", "bbs", 1).text, expected=2) == 3
        assert not crawl.frontier.documents("site")[0].deleted

    def test_a_version_that_was_pushed_meanwhile_is_not_removed(self, crawl: Crawl) -> None:
        put(crawl, "one")
        put(crawl, "two")
        with pytest.raises(VersionConflict, match="site bbs has version 2, not 1"):
            crawl.frontier.drop_document("site", "bbs", expected=1)
        assert crawl.frontier.document("site", "bbs").text == "two"
        assert crawl.frontier.drop_document("site", "bbs", expected=2) == 3
        assert crawl.frontier.drop_document("site", "bbs", expected=2) == 3, "it was gone already"

    def test_many_are_read_together(self, crawl: Crawl) -> None:
        for number in range(120):
            crawl.frontier.put_document("site", f"s{number}", f"text {number}")
        crawl.frontier.put_document("site", "s7", "changed")
        crawl.frontier.drop_document("site", "s8")
        found = crawl.frontier.read_documents("site", [*(f"s{number}" for number in range(120)), "none"])
        assert [one.name for one in found] == [f"s{number}" for number in range(120)]
        assert (found[7].text, found[7].version, found[8].deleted, found[119].text) == ("changed", 2, True, "text 119")
        assert crawl.frontier.read_documents("site", []) == []

    def test_what_never_was(self, crawl: Crawl) -> None:
        assert crawl.frontier.documents("site") == []
        with pytest.raises(UnknownDocument, match="no site 'bbs'"):
            crawl.frontier.document("site", "bbs")
        with pytest.raises(UnknownDocument, match="never had one"):
            crawl.frontier.document_history("site", "bbs")
        with pytest.raises(UnknownDocument, match="no site bbs, and never had one"):
            crawl.frontier.drop_document("site", "bbs")
        assert crawl.frontier.documents_version() == 0

    def test_kinds_and_names_are_apart(self, crawl: Crawl) -> None:
        put(crawl, "a", name="b.two")
        put(crawl, "b", name="a:one")
        crawl.frontier.put_document("rule", "b.two", "c")
        assert [row.name for row in crawl.frontier.documents("site")] == ["a:one", "b.two"]
        assert [row.name for row in crawl.frontier.documents("rule")] == ["b.two"]
        assert crawl.frontier.documents("rul") == []
        assert crawl.frontier.document("rule", "b.two").text == "c"

    def test_what_cannot_be_kept(self, crawl: Crawl) -> None:
        for kind, name in (("Site", "x"), ("", "x"), ("a|b", "x"), ("site", ""), ("site", "a/b"), ("site", "a|b")):
            with pytest.raises(PolicyError):
                crawl.frontier.put_document(kind, name, "x")
        with pytest.raises(InvalidRequest, match="has 1,000,001 bytes"):
            put(crawl, "x" * (TEXT_BYTES + 1))
        with pytest.raises(InvalidRequest, match="character 2 is no text"):
            put(crawl, "a\ud800")
        with pytest.raises(PolicyError, match="note has 3,000 characters"):
            put(crawl, "x", note="n" * 3000)
        assert crawl.frontier.documents("site") == []
        large = "é" * (TEXT_BYTES // 2)
        put(crawl, large)
        assert crawl.frontier.document("site", "bbs").text == large
        assert put(crawl, "") == 2

    def test_a_crawl_on_the_way_is_not_disturbed(self, crawl: Crawl) -> None:
        crawl.define()
        crawl.add("one", "two")
        worker = crawl.worker()
        lease = worker.one()
        put(crawl, "text")
        worker.settle(lease)
        assert crawl.finish(worker) == ["two"]
        crawl.balanced()


class TestNews:
    """Everybody hears of a change without asking for it."""

    def test_the_number_grows_with_every_change(self, crawl: Crawl) -> None:
        seen = [crawl.frontier.documents_version()]
        put(crawl, "one")
        seen.append(crawl.frontier.documents_version())
        crawl.frontier.put_document("rule", "x", "y")
        seen.append(crawl.frontier.documents_version())
        crawl.frontier.drop_document("site", "bbs")
        seen.append(crawl.frontier.documents_version())
        with pytest.raises(VersionConflict):
            put(crawl, "late", expected=1)
        seen.append(crawl.frontier.documents_version())
        assert seen == [0, 1, 2, 3, 3]

    def test_a_workers_next_exchange_tells(self, crawl: Crawl) -> None:
        crawl.define()
        worker, want = crawl.worker(), crawl.frontier.partitions

        def heard() -> str:
            return worker.exchange(want=want).hints.config_version

        before = heard()
        assert heard() == before
        put(crawl, "one")
        after = heard()
        assert after != before
        assert heard() == after
        crawl.frontier.drop_document("site", "bbs")
        assert heard() not in (before, after)
        assert worker.exchange().hints.config_version != "", "also without want, partition 0 is asked"


@pytest.mark.parametrize("lose", ["lose_replies", "lose_requests"])
@pytest.mark.parametrize("client", ["blocking", "async"])
def test_a_lost_answer_makes_no_second_version(
    fault_proxy: FaultProxy, valkey_server: Server, opened: Opened, client: str, lose: str
) -> None:
    behind = opened(fault_proxy.url, asynchronous=client == "async")
    put(behind, "one")
    getattr(fault_proxy, lose)(1, match=b"FCALL")
    assert put(behind, "two", expected=1) == 2
    assert fault_proxy.counters.lost == 1
    fault_proxy.heal()
    plain = opened(valkey_server.url, behind.frontier.crawl).frontier
    assert [row.version for row in plain.document_history("site", "bbs")] == [2, 1]
    assert plain.documents_version() == 2


def test_a_repeated_put_answers_as_the_first_did(valkey_server: Server, opened: Opened) -> None:
    """Also when others have put theirs in between: what was lost was the answer, not the text."""
    crawl = opened(valkey_server.url)
    frontier = crawl.frontier
    assert isinstance(frontier, ValkeyFrontier)
    asks = next(frontier.verbs.documents.put_document("site", "bbs", "mine"))
    assert frontier.ask(asks) == [b"1"]
    assert put(crawl, "theirs") == 2
    assert frontier.ask(asks) == [b"1"]
    assert frontier.document("site", "bbs").text == "theirs"
    assert frontier.documents_version() == 2


def test_how_many_versions_are_kept_can_be_set(valkey_server: Server, opened: Opened) -> None:
    few = opened(valkey_server.url, GOSSAMER_DOCUMENT_VERSIONS=2)
    more = opened(valkey_server.url, few.frontier.crawl, GOSSAMER_DOCUMENT_VERSIONS=4)
    for number in range(1, 7):
        put(more, str(number))
    assert [row.version for row in few.frontier.document_history("site", "bbs")] == [6, 5, 4, 3]
    put(few, "7")
    assert [row.version for row in more.frontier.document_history("site", "bbs")] == [7, 6]
    put(more, "8")
    assert [row.version for row in more.frontier.document_history("site", "bbs")] == [8, 7, 6]


def test_of_many_who_expect_the_same_version_one_wins(valkey_server: Server, opened: Opened) -> None:
    crawl = opened(valkey_server.url)
    put(crawl, "first")

    def attempt(number: int) -> int:
        try:
            return put(crawl, f"by {number}", expected=1)
        except VersionConflict:
            return 0

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(attempt, range(16))) == [0] * 15 + [2]


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_snapshot_carries_documents_with_their_versions(
    valkey_server: Server, opened: Opened, tmp_path: Path, partitions: int
) -> None:
    crawl = opened(valkey_server.url, GOSSAMER_PARTITIONS=partitions)
    texts = ["site: a # ü\r\n", "site: a\n\tkept exactly", "three"]
    for number, text in enumerate(texts):
        put(crawl, text, who=f"w{number}", note=f"n{number}")
    put(crawl, "x", name="old")
    crawl.frontier.drop_document("site", "old", who="z")
    for number in range(60):
        crawl.frontier.put_document("rule", "many", str(number))
    file = tmp_path / "crawl.jsonl"
    original, copy = crawl.frontier, opened(valkey_server.url, f"{crawl.frontier.crawl}-copy").frontier
    assert isinstance(original, ValkeyFrontier)
    assert isinstance(copy, ValkeyFrontier)
    with file.open("w", encoding="utf-8") as out:
        Export(original, out).run()
    for _ in range(2):
        with file.open("rb") as lines:
            restored = Restore(copy, SnapshotFile("file", lines))
            restored.run()
        for name in ("bbs", "old"):
            assert copy.document_history("site", name) == original.document_history("site", name)
        assert copy.document_history("rule", "many") == original.document_history("rule", "many")
        assert [copy.document("site", "bbs", n + 1).text for n in range(3)] == texts
    assert copy.documents_version() > 0
    assert copy.put_document("site", "bbs", "four", expected=3) == 4


def test_a_snapshot_leaves_newer_versions_alone(valkey_server: Server, opened: Opened, tmp_path: Path) -> None:
    crawl, other = opened(valkey_server.url), opened(valkey_server.url, "newer-" + tmp_path.name)
    put(crawl, "mine")
    put(other, "one")
    put(other, "two")
    file = tmp_path / "crawl.jsonl"
    assert isinstance(crawl.frontier, ValkeyFrontier)
    assert isinstance(other.frontier, ValkeyFrontier)
    with file.open("w", encoding="utf-8") as out:
        Export(crawl.frontier, out).run()
    with file.open("rb") as lines:
        restore = Restore(other.frontier, SnapshotFile("file", lines))
        restore.run()
    assert other.frontier.document("site", "bbs").text == "two"
    assert restore.done["known"] == 1


def test_documents_survive_a_restart(opened: Opened) -> None:
    with Server().start(fsync="always") as server:
        crawl = opened(server.url)
        put(crawl, "one")
        put(crawl, "two")
        server.kill()
        server.restart()
        assert crawl.frontier.document("site", "bbs").text == "two"
        assert [row.version for row in crawl.frontier.document_history("site", "bbs")] == [2, 1]
        assert crawl.frontier.documents_version() == 2
