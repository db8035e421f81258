"""What waits at each depth of a site, in `gossamer status`."""

from __future__ import annotations

import pytest
from tests.cli.site.site_files import STORED, write
from tests.support.command import Command
from tests.support.site import Site

from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import LanePolicy, Request, Selection, Token
from gossamer.sites.file.load import load_kept
from gossamer.sites.format import SiteSpec as SiteFile
from gossamer.status import depth


class TestDepths:
    def test_status_has_a_table_of_what_waits_at_each_depth(
        self, command: Command, frontier: ValkeyFrontier, site: Site
    ) -> None:
        frontier.define("plain", {"all": LanePolicy()})
        assert "DEPTH" not in command("status").out
        command("site", "push", write("shop.yaml", STORED, site))
        assert "DEPTH" not in command("status").out, "it has not run yet"
        lanes = {"list": LanePolicy(), "item": LanePolicy(), "review": LanePolicy(), "gone": LanePolicy()}
        frontier.define("shop", lanes)
        frontier.add([Request(n, f"h{n}", "shop.item", b"x") for n in range(7)])
        frontier.add([Request(n + 100, f"h{n}", "shop.gone", b"x", delay=60.0) for n in range(2)])
        frontier.exchange(Token.fresh(), want=3, selection=Selection(lanes=("shop.item",)))
        rows = [
            ["shop", "0", "list", "0", "0"],
            ["shop", "1", "item", "4", "3"],
            ["shop", "2", "review", "0", "0"],
            ["shop", "", "gone", "2", "0"],
        ]
        said = command("status").out.splitlines()
        head = said.index("SITE\tDEPTH\tLAYERS\tWAITING\tIN PROGRESS")
        assert [line.split("\t") for line in said[head + 1 : head + 5]] == rows
        told = command("status", "--json", "--group", "shop").json["depths"]
        assert [(x["site"], x["depth"], x["waiting"], x["in_progress"]) for x in told] == [
            ("shop", 0, 0, 0),
            ("shop", 1, 4, 3),
            ("shop", 2, 0, 0),
            ("shop", -1, 2, 0),
        ]
        assert command("status", "--json", "--group", "plain").json["depths"] == []

    def test_no_more_files_are_read_than_are_needed(
        self, command: Command, frontier: ValkeyFrontier, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(depth.MANY + 1):
            write(f"many/s{number}.yaml", f"site: s{number}\nseeds: [http://x.example/]\nlayers: {{all: {{}}}}\n")
            frontier.define(f"s{number}", {"all": LanePolicy()})
        command("site", "push", "many")
        read: list[str] = []

        def reads(text: str, name: str) -> list[SiteFile]:
            read.append(name)
            return load_kept(text, name)

        monkeypatch.setattr(depth, "load_kept", reads)
        assert command("status", "--json").json["depths"] == []
        assert read == []
        frontier.add([Request(1, "x.example", "s7.all", b"x")])
        assert [row["site"] for row in command("status", "--json").json["depths"]] == ["s7"]
        assert [row["site"] for row in command("status", "--json", "--group", "s9").json["depths"]] == ["s9"]
        assert read == ["s7", "s9"]

    def test_a_file_that_cannot_be_read_any_more_is_passed_over(
        self, command: Command, frontier: ValkeyFrontier
    ) -> None:
        frontier.put_document("site", "bad", "site: bad\n")
        frontier.define("bad", {"all": LanePolicy()})
        assert "DEPTH" not in command("status").out
