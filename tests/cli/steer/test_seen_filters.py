"""`gossamer seen filters`, `clear-filter`, `copy-filter`: the memories of seen filters for plain Scrapy."""

from __future__ import annotations

from pathlib import Path

from tests.support.command import Command

from gossamer.frontier.connection import connect
from gossamer.frontier.seen import catalog
from gossamer.model import SeenKind
from gossamer.scrapy.seen.memory import open_memory
from gossamer.settings import Settings, load
from gossamer.testing.servers import Cluster, Server

PAGES = list(range(1, 2000, 3))


def settings(url: str, crawl: str, **more: object) -> Settings:
    return load({"GOSSAMER_URL": url, "GOSSAMER_CRAWL": crawl, "GOSSAMER_SEEN_WINDOW_SECONDS": 3600, **more}, {})


def test_memories_are_listed_cleared_and_copied(
    command: Command, valkey_server: Server, redis_server: Server, crawl_name: str
) -> None:
    here, there = settings(valkey_server.url, crawl_name), settings(redis_server.url, crawl_name)
    kinds = (SeenKind.EXACT, SeenKind.BLOOM, SeenKind.ROLLING, SeenKind.HITS)
    for kind in kinds:
        with open_memory("books", here, kind) as memory:
            memory.mark(PAGES)
    with open_memory("odd name", here) as memory:
        memory.mark([1])
    rows = command("seen", "filters", "--crawl", crawl_name, "--json").json
    assert {(row["spider"], row["kind"].partition("-")[0], row["known"]) for row in rows} == {
        ("books", kind.value, len(PAGES)) for kind in kinds
    }
    assert all(row["bytes"] > 0 for row in rows)
    assert "" in {row[0] for row in command("seen", "filters").rows}, "the odd name is a digest"

    copied = command(
        "seen", "copy-filter", "books", "--to-url", redis_server.url, "--to-spider", "novels", "--json"
    ).json
    assert len(copied["copied"]) == 4
    assert (
        "already"
        in command("seen", "copy-filter", "books", "--to-url", redis_server.url, "--to-spider", "novels", code=2).err
    )
    for kind in kinds:
        with open_memory("novels", there, kind) as memory:
            assert memory.count() == len(PAGES)
            assert all(memory.known(PAGES)), kind
            assert sum(memory.known([2, 5, 8, 11])) == 0
            assert memory.mark([2]) == [True], "it goes on like any other"

    assert "Forget all that books has seen" in command("seen", "clear-filter", "books", code=1, given="n\n").err
    assert command("seen", "clear-filter", "books", "--yes", "--json").json["forgotten"] == 4 * len(PAGES)
    assert command("seen", "clear-filter", "odd name", "--yes").out == "spider odd name has forgotten 1 page\n"
    with open_memory("books", here) as memory:
        assert memory.count() == 0
    wrong = command("seen", "clear-filter", "boks", "--yes", code=2).err
    assert "No seen filter of spider 'boks'" in wrong


def test_memories_are_found_on_every_node(cluster: Cluster, crawl_name: str) -> None:
    chosen = settings(cluster.url, crawl_name)
    for number in range(6):
        with open_memory(f"s{number}", chosen) as memory:
            memory.mark([number])
    with connect(chosen) as connection:
        mine = [name for name in catalog.names(connection) if name.startswith(f"{crawl_name}:")]
        assert mine == [f"{crawl_name}:s{number}:exact" for number in range(6)]
        assert catalog.copy(connection, mine[0], connection, f"{crawl_name}:s9:exact") == 2
    with open_memory("s9", chosen) as memory:
        assert memory.known([0, 1]) == [True, False]


def test_looking_makes_no_data_directory(command: Command, tmp_path: Path) -> None:
    said = command("seen", "filters", "--url", f"embedded:{tmp_path / 'none'}", code=2)
    assert "holds no data" in said.err
    assert not (tmp_path / "none").exists()
