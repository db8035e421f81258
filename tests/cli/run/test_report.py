"""What `gossamer crawl` says when its fleet has ended."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

from tests.support.example_sites import Place
from tests.support.site import Site

from gossamer.cli import exit_codes
from gossamer.cli.run.report import run_fleet
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import LanePolicy
from gossamer.settings import load
from gossamer.status.overview import hasty
from gossamer.status.progress import read_progress_of
from gossamer.testing.process import wait_until
from gossamer.testing.servers import Server

OUTAGE = 1.0


def test_a_server_that_is_away_when_the_last_worker_ends_is_waited_for(tmp_path: Path, crawl_name: str) -> None:
    with Server().start(fsync="always") as server:
        given = {"GOSSAMER_URL": server.url, "GOSSAMER_CRAWL": crawl_name, "GOSSAMER_DATA_DIR": str(tmp_path)}
        settings = load(given, {})
        with ValkeyFrontier.open(hasty(settings)) as frontier:
            frontier.define("g", {"a": LanePolicy()})
            then = {"g": read_progress_of(frontier, ["g"])}
            # This worker's last act is to kill the server.
            worker = [sys.executable, "-c", f"import os; os.kill({server.pid}, 9)"]

            def restart() -> None:
                wait_until(lambda: not server.running, "the server to die")
                threading.Event().wait(OUTAGE)
                server.restart()

            restarting = threading.Thread(target=restart)
            restarting.start()
            try:
                report = run_fleet(frontier, settings, [worker], os.devnull, then)
            finally:
                restarting.join()
            assert report.drained == {"g": True}
            assert report.code("") == 0


def test_a_hook_that_fails_after_a_round_is_reported(tmp_path: Path, valkey_server: Server, crawl_name: str) -> None:
    """The crawl is not well, although all pages were read. What failed in an earlier crawl is not told again."""
    place = Place(tmp_path, valkey_server, crawl_name)
    place.write("def tell(site, number):\n    if not number:\n        raise RuntimeError('no mail')\n", "afterwards.py")
    with Site() as site:
        place.write(f"""
site: pages
seeds: [{site.url}/page]
politeness: {{robots: ignore}}
layers: {{page: {{match: ^/page, seen: round, fields: {{title: title}}}}}}
hooks: {{after_round: 'afterwards:tell'}}
""")
        told, beside = place.said("crawl", "site.yaml", "-w", "1", "--json", code=exit_codes.FAILED)
        [figures] = json.loads(told)["sites"]
        assert (figures["drained"], figures["left"]) == (True, 0)
        assert figures["after_round_failed"] == {"0": "after_round failed: RuntimeError: no mail"}
        assert "pages: round 0: after_round failed: RuntimeError: no mail" in beside
        assert "no mail" in place.run("round", "list", "pages")
        [figures] = json.loads(place.run("crawl", "site.yaml", "-w", "1", "--json"))["sites"]
        assert (figures["round"], figures["after_round_failed"]) == (1, {})
