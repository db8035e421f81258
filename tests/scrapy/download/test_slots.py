"""Download slots that a project names where a fleet has counted the request already: refused or said, never left out silently."""

from __future__ import annotations

from tests.scrapy.spiders import slotted
from tests.support.site import Reply, Site
from tests.support.workers.workers import Workers

from gossamer.testing.servers import Server

MODULE = slotted.__name__
SETTINGS = {
    "DOWNLOADER": f"{MODULE}.SlotAlike",
    "DOWNLOADER_MIDDLEWARES": {f"{MODULE}.SlotSetter": 500},
    "ROBOTSTXT_OBEY": True,
}


def test_a_slot_that_comes_too_late_is_said_once(valkey_server: Server, crawl_name: str) -> None:
    with Site() as site, Workers(valkey_server.url, crawl_name) as workers:
        site.on("/robots.txt", Reply(404))
        worker = workers.start(slotted.Slotted, settings=SETTINGS, site=site.url)
        assert worker.reason() == "finished"
        marks = {event.what: event.more["slot"] for event in worker.events if event.kind == "mark"}
        log = worker.log
    assert marks == {"a": "mine", "b": "mine", "c": "said", "robots.txt": "apart robots"}
    host = site.url.partition("//")[2]
    assert log.count("A downloader middleware set meta") == 1
    assert f"to 'mine', which does not count: the fleet has kept the delay of {host} for it already." in log


def test_a_downloader_with_slots_of_its_own_is_refused_with_the_remedy(valkey_server: Server, crawl_name: str) -> None:
    with Site() as site, Workers(valkey_server.url, crawl_name) as workers:
        worker = workers.start(slotted.Slotted, settings={"DOWNLOADER": f"{MODULE}.SlotByPath"}, site=site.url)
        assert worker.reason() == "SettingError"
        assert "SlotByPath has get_slot_key of its own, which a fleet cannot use" in worker.log
        assert 'Set meta["download_slot"] on requests before they are yielded' in worker.log
        assert not site.visits
