"""`gossamer site reconcile`: parents whose children are missing are fetched again."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.cli.site.site_files import STORED, write
from tests.support.command import Command
from tests.support.site import Reply, Site

from gossamer.engine.job import NativeEnd, NativeJob
from gossamer.engine.worker import NativeWorker
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import Selection, Token
from gossamer.settings import load


class TestReconcile:
    @pytest.fixture
    async def crawled(self, command: Command, frontier: ValkeyFrontier, site: Site) -> Any:
        """A shop with two lists: one without items, and one with two items of which one has a review."""
        self.pages(site)
        site.on("/list/1", Reply(body="<h1>one</h1><a href=/item/a>a</a><a href=/item/b>b</a>"))
        command("site", "push", write("shop.yaml", STORED, site))
        await self.run(frontier)
        return frontier

    def pages(self, site: Site) -> None:
        site.on("/item/a", Reply(body="<h1>A</h1><a href=/review/1>r</a><div class=o><b>1</b></div>"))
        site.on("/item/b", Reply(body="<h1>B</h1>"))
        site.on("/review/1", Reply(body="<p>fine</p>"))

    async def run(self, frontier: ValkeyFrontier) -> NativeEnd:
        given = {"GOSSAMER_DATA_DIR": str(Path.cwd() / "data"), "GOSSAMER_LEASE_SECONDS": 5.0}
        return await NativeWorker(load(given), NativeJob(sites=("shop",), stage=None)).run()

    def reconcile(self, command: Command, *words: str, code: int = 0) -> Any:
        return command("site", "reconcile", "shop", "--json", *words, code=code).json

    async def test_parents_without_children_are_fetched_again_once(
        self, command: Command, crawled: ValkeyFrontier, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GOSSAMER_DATA_DIR", str(Path.cwd() / "data"))
        both = self.reconcile(command, "--dry-run")
        assert [(x["parent"], x["child"], x["missing"], x["queued"]) for x in both] == [
            ("list", "item", 0, 0),
            ("item", "review", 1, 0),
        ]
        assert self.reconcile(command, "--parent", "item")[0] == {
            "parent": "item", "child": "review", "missing": 1, "queued": 1, "waiting": 0, "full": 0, "refused": [],
        }  # fmt: skip
        said = command("site", "reconcile", "shop", "--child", "review")
        assert said.rows == [["item", "review", "1", "0", "1"]], "it waits already"
        site.on("/item/b", Reply(body="<h1>B</h1><a href=/review/2>r</a>"))
        site.on("/review/2", Reply(body="<p>late</p>"))
        before = len(site.paths())
        await self.run(crawled)
        assert sorted(site.paths()[before:]) == ["/item/b", "/review/2"]
        assert [x["missing"] for x in self.reconcile(command)] == [0, 0]
        with sqlite3.connect("data/items.db") as database:
            rows = database.execute("select title, list from shop_item order by title").fetchall()
        database.close()
        assert rows == [("A", "one"), ("B", "one")], "what it inherited it has again"

    async def test_children_whose_rows_are_gone_come_back_although_they_were_seen(
        self, command: Command, crawled: ValkeyFrontier, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GOSSAMER_DATA_DIR", str(Path.cwd() / "data"))
        site.on("/item/b", Reply(body="<h1>B</h1><a href=/review/1>r</a>"))
        with sqlite3.connect("data/items.db") as database:
            database.execute("delete from shop_review")
        database.close()
        assert [x["queued"] for x in self.reconcile(command, "--child", "review")] == [2]
        await self.run(crawled)
        assert site.paths().count("/review/1") > 1
        with sqlite3.connect("data/items.db") as database:
            assert database.execute("select text from shop_review").fetchall() == [("fine",)]
        database.close()

    async def test_what_is_still_missing_afterwards_is_queued_again(
        self, command: Command, crawled: ValkeyFrontier, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GOSSAMER_DATA_DIR", str(Path.cwd() / "data"))
        for _ in range(2):
            assert [x["queued"] for x in self.reconcile(command, "--child", "review")] == [1]
            await self.run(crawled)
        assert site.paths().count("/item/b") == 3
        assert [x["queued"] for x in self.reconcile(command, "--child", "review")] == [1]
        assert [x["queued"] for x in self.reconcile(command, "--child", "review")] == [0]
        assert [x["queued"] for x in self.reconcile(command, "--child", "review", "--again")] == [1]

    async def test_nested_records_are_children_too(
        self, command: Command, crawled: ValkeyFrontier, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GOSSAMER_DATA_DIR", str(Path.cwd() / "data"))
        [told] = self.reconcile(command, "--parent", "item", "--child", "offers", "--dry-run")
        assert told["missing"] == 1
        assert (
            "no table of its own"
            in command("site", "reconcile", "shop", "--parent", "item", "--child", "title", code=2).err
        )

    async def test_a_full_layer_takes_the_rest_later(
        self, command: Command, crawled: ValkeyFrontier, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GOSSAMER_DATA_DIR", str(Path.cwd() / "data"))
        command("lane", "set", "shop.item", "--max-queued", "1")
        with sqlite3.connect("data/items.db") as database:
            database.execute("delete from shop_review")
        database.close()
        assert [
            (x["missing"], x["queued"], x["full"]) for x in self.reconcile(command, "--child", "review", code=1)
        ] == [(2, 1, 1)]
        token = Token.fresh()
        leases = crawled.exchange(token, want=9, selection=Selection(groups=("shop",))).leases
        assert len(leases) == 1
        assert [(x["queued"], x["waiting"]) for x in self.reconcile(command, "--child", "review")] == [(1, 1)]

    async def test_a_url_that_cannot_be_queued_is_told_and_the_others_are(
        self, command: Command, crawled: ValkeyFrontier, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GOSSAMER_DATA_DIR", str(Path.cwd() / "data"))
        monkeypatch.setenv("GOSSAMER_PAYLOAD_MAX_BYTES", "4096")
        with sqlite3.connect("data/items.db") as database:
            database.execute("delete from shop_review")
            database.execute("update shop_item set url = url || ? where title = 'B'", ("x" * 5000,))
        database.close()
        said = command("site", "reconcile", "shop", "--child", "review", code=1)
        assert said.rows == [["item", "review", "2", "1", "0"]]
        assert "cannot be queued: http://127.0.0.1" in said.err

    def test_what_is_needed_is_said(self, command: Command, frontier: ValkeyFrontier, site: Site) -> None:
        command("site", "push", write("shop.yaml", STORED, site))
        run = ("site", "reconcile", "shop")
        assert "has never run in this crawl" in command(*run, "--parent", "item", code=2).err
        assert "did you mean item?" in command(*run, "--parent", "itme", code=2).err
        assert "no site file 'nope'" in command("site", "reconcile", "nope", code=2).err

        def after(old: str, new: str) -> str:
            command("site", "push", write("shop.yaml", STORED.replace(old, new), site))
            return command(*run, "--parent", "item", "--child", "review", code=2).err

        assert "add url to store.item.add" in after("add: [url, parent]", "add: [parent]")
        assert "add parent to store.review.add" in after("{add: [parent]}", "{}")
        assert "the layer review are not stored; write store.review" in after("  review: {add: [parent]}\n", "")
        assert "the layer item are not stored" in after("  item: {key: [title], add: [url, parent]}\n", "")
        write("shop.yaml", "site: shop\nseeds: [http://x.example/]\nlayers: {a: {}}\n")
        command("site", "push", "shop.yaml")
        assert "no layer follows links to another" in command(*run, code=2).err
