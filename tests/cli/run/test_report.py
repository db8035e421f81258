"""What `gossamer crawl` says when its fleet has ended."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

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
