"""Workers for some layers of a site alone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.cli.site.site_files import FORUM, write
from tests.support.command import Command
from tests.support.site import Reply, Site

from gossamer.engine.job import NativeEnd, NativeJob
from gossamer.engine.page.payload import pack
from gossamer.engine.worker import NativeWorker
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model.page import PageRequest
from gossamer.settings import Settings, load
from gossamer.status.depth import depths_of


class TestPools:
    async def run(self, **job: Any) -> NativeEnd:
        return await NativeWorker(self.settings(), NativeJob(**job)).run()

    async def test_one_layer_alone_is_a_round_too(self, command: Command, frontier: ValkeyFrontier, site: Site) -> None:
        site.on("/list/2", Reply(body="<p>the end</p>"))
        command("site", "push", write("forum.yaml", FORUM, site))
        ended = await self.run(stage=None, layer="list")
        assert ended.reason == "drained"
        assert site.paths() == ["/list/1", "/list/2"]
        assert [row.layers for _, row in depths_of(frontier, frontier.counts().lanes)] == [("list",), ("post",)]

    async def test_a_stage_is_served_by_its_own_workers(
        self, command: Command, frontier: ValkeyFrontier, site: Site
    ) -> None:
        text = FORUM.replace("  post:\n", "  post:\n    stage: details\n").replace("      - a.any\n", "")
        site.on("/list/2", Reply(body="<p>the end</p>"))
        command("site", "push", write("forum.yaml", text, site))
        general, details = (
            NativeWorker(self.settings(), NativeJob(forever=True)),
            NativeWorker(self.settings(), NativeJob(stage="details", forever=True)),
        )
        running = [asyncio.ensure_future(worker.run()) for worker in (general, details)]
        try:
            await asyncio.to_thread(site.reached, "/list/2")
            await asyncio.to_thread(site.reached, "/post/1")
            details.stop()
            await running[1]
            frontier.add([pack(PageRequest(f"{site.url}/post/9", fingerprint=9), "forum.post")])
            frontier.add([pack(PageRequest(f"{site.url}/list/9", fingerprint=10), "forum.list")])
            await asyncio.to_thread(site.reached, "/list/9")
            assert "/post/9" not in site.paths()
            stuck = [["forum", "1 page of post", "no worker serves the stage details"]]
            assert command("report", "stuck", code=1).rows == stuck
        finally:
            general.stop()
            details.stop()
            await asyncio.wait(running)
        assert frontier.counts("forum").groups[0].open == 1

    def settings(self) -> Settings:
        return load({"GOSSAMER_DATA_DIR": str(Path.cwd() / "data"), "GOSSAMER_LEASE_SECONDS": 5.0})
