"""What a project is told of settings that have another effect in a fleet, and when."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from scrapy import signals
from scrapy.core.scheduler import Scheduler
from scrapy.settings import Settings
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler

from gossamer.errors import SettingError
from gossamer.scrapy.addon import Addon
from gossamer.scrapy.process.run import look_up
from gossamer.scrapy.scheduler import FleetScheduler
from gossamer.scrapy.setting_notes import notes
from gossamer.scrapy.stats import FleetStatsMixin


def updated(**given: object) -> Settings:
    settings = Settings({"GOSSAMER_TUNING": "none", **given})
    Addon().update_settings(settings)
    return settings


def test_it_is_logged_when_the_spider_is_opened(caplog: pytest.LogCaptureFixture) -> None:
    crawler = get_crawler(settings_dict={"ADDONS": {Addon: 100}, "GOSSAMER_TUNING": "none", "AUTOTHROTTLE_DEBUG": True})
    with caplog.at_level(logging.WARNING):
        assert "AUTOTHROTTLE_DEBUG" not in caplog.text
        crawler.signals.send_catch_log(signals.spider_opened)
    assert "AUTOTHROTTLE_DEBUG is not used" in caplog.text


def test_a_scheduler_that_another_addon_sets_later_is_said() -> None:
    settings = updated()
    assert not list(notes(settings))
    settings.set("SCHEDULER", Scheduler, "addon")
    [note] = notes(settings)
    assert note.startswith("SCHEDULER is scrapy.core.scheduler.Scheduler, so")


def test_a_stats_collector_that_another_addon_sets_later_is_said() -> None:
    settings = updated(STATS_CLASS=MemoryStatsCollector)
    assert not list(notes(settings))
    settings.set("STATS_CLASS", "scrapy.statscollectors.MemoryStatsCollector", "cmdline")
    [note] = notes(settings)
    assert (
        "STATS_CLASS is scrapy.statscollectors.MemoryStatsCollector, which an add-on has set after Gossamer's" in note
    )
    assert "smaller number in ADDONS" in note


class OwnScheduler(Scheduler):
    pass


class OwnFleetScheduler(FleetScheduler):
    pass


@pytest.mark.parametrize("priority", ["command", "addon", "project"])
def test_a_scheduler_is_not_replaced_whoever_names_it(priority: str) -> None:
    settings = Settings({"GOSSAMER_TUNING": "none", "JOBDIR": "job"})
    settings.set("SCHEDULER", OwnScheduler, priority)
    Addon().update_settings(settings)
    [note] = notes(settings)
    assert "OwnScheduler, so this project does not take part" in note
    settings.set("SCHEDULER", OwnFleetScheduler, priority)
    Addon().update_settings(settings)
    [note] = notes(settings)
    assert note.startswith("JOBDIR job keeps no requests")
    assert settings["SCHEDULER"] is OwnFleetScheduler
    assert issubclass(settings["STATS_CLASS"], FleetStatsMixin)


OWN = "tests.support.site.Site"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"JOBDIR": "job"}, ["JOBDIR job keeps no requests", "GOSSAMER_SEEN_SCOPE=forever"]),
        ({"SCHEDULER_PRIORITY_QUEUE": OWN}, [f"SCHEDULER_PRIORITY_QUEUE {OWN} is not used"]),
        ({"SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue"}, []),
        (
            {"SCHEDULER_START_MEMORY_QUEUE": None},
            ["SCHEDULER_START_MEMORY_QUEUE is not used: start requests are ordered as all others (last in, first out"],
        ),
        (
            {"SCHEDULER_PERSIST": True, "SCHEDULER_QUEUE_KEY": "mine"},
            ["SCHEDULER_PERSIST, SCHEDULER_QUEUE_KEY have no effect without scrapy-redis's scheduler"],
        ),
        ({"SCHEDULER_PERSIST": False}, []),
        ({"AUTOTHROTTLE_DEBUG": True}, ["AUTOTHROTTLE_DEBUG is not used", "`gossamer host show`"]),
        ({"CONCURRENT_REQUESTS_PER_IP": 2}, ["CONCURRENT_REQUESTS_PER_IP counts for each host"]),
        ({"RANDOMIZE_DOWNLOAD_DELAY": "True"}, ["Delays are not varied at random"]),
        ({"RANDOMIZE_DOWNLOAD_DELAY": False, "DOWNLOAD_DELAY_JITTER": 0}, []),
        ({"DOWNLOAD_SLOTS": {"a": {"jitter": 0.3}}}, ["Delays are not varied at random"]),
        ({"SCHEDULER_MEMORY_QUEUE": OWN}, [f"SCHEDULER_MEMORY_QUEUE {OWN} is not used", "last in, first out"]),
        (
            {"SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue"},
            ["PickleFifoDiskQueue is not used", "(last in, first out now)"],
        ),
        (
            {
                "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
                "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
            },
            [],
        ),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:The CONCURRENT_REQUESTS_PER_IP")
def test_a_setting_that_is_not_used_is_said(given: dict[str, str], said: list[str]) -> None:
    found = list(notes(updated(**given)))
    assert len(found) == bool(said)
    assert all(part in "".join(found) for part in said)


def test_a_worker_is_not_started_with_a_scheduler_that_keeps_it_out(tmp_path: Path) -> None:
    spider = tmp_path / "one.py"
    spider.write_text("import scrapy\n\nclass One(scrapy.Spider):\n    name = 'one'\n")
    assert look_up(str(spider), {}, {}).group == "one"
    with pytest.raises(SettingError, match=r"Scheduler, which is not on the frontier\. Leave SCHEDULER unset"):
        look_up(str(spider), {}, {"SCHEDULER": "scrapy.core.scheduler.Scheduler"})
