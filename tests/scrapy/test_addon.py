"""What the add-on puts in place, and where it leaves a project alone."""

from __future__ import annotations

import logging

import pytest
from scrapy.extensions.feedexport import FeedExporter
from scrapy.extensions.throttle import AutoThrottle
from scrapy.settings import Settings
from scrapy.statscollectors import MemoryStatsCollector

from gossamer.scrapy.addon import SCHEDULER, THROTTLE, Addon
from gossamer.scrapy.feeds.settings import OURS, SCRAPYS
from gossamer.scrapy.settings import is_on
from gossamer.scrapy.stats import FleetStatsCollector, FleetStatsMixin


def updated(**given: object) -> Settings:
    settings = Settings({"GOSSAMER_TUNING": "none", **given})
    Addon().update_settings(settings)
    return settings


def test_one_line_puts_the_fleets_parts_in_place() -> None:
    settings = updated(AUTOTHROTTLE_ENABLED=True)
    assert settings["SCHEDULER"] == SCHEDULER
    assert settings["STATS_CLASS"] is FleetStatsCollector
    assert settings.getdict("EXTENSIONS")[THROTTLE] is None
    assert settings.getbool("AUTOTHROTTLE_ENABLED"), "the frontier reads it"
    assert not settings.getbool("REMOTE_CONTROL_ENABLED")


def test_a_project_may_give_components_as_classes() -> None:
    settings = updated(EXTENSIONS={AutoThrottle: 5, FeedExporter: 7})
    assert settings.getdict("EXTENSIONS") == {THROTTLE: None, SCRAPYS: None, OURS: 0}
    settings = updated(EXTENSIONS={FeedExporter: None})
    one_key = hasattr(Settings, "get_component_priority_dict_with_base")  # else Scrapy leaves the one by its path on
    assert is_on(settings, "EXTENSIONS", OURS) is not one_key
    assert not is_on(settings, "EXTENSIONS", SCRAPYS)


class Own(MemoryStatsCollector):
    pass


def test_a_projects_own_stats_are_kept_and_counted_for_the_fleet() -> None:
    kind = updated(STATS_CLASS=Own)["STATS_CLASS"]
    assert issubclass(kind, Own)
    assert issubclass(kind, FleetStatsMixin)


def test_remote_control_stays_where_the_project_asks_for_it() -> None:
    assert updated(REMOTE_CONTROL_ENABLED=True).getbool("REMOTE_CONTROL_ENABLED")


def test_a_scheduler_that_cannot_be_loaded_is_an_error() -> None:
    with pytest.raises(ImportError):
        updated(SCHEDULER="no.such.Scheduler")


def test_a_scheduler_of_anothers_making_is_left_alone_and_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        settings = updated(SCHEDULER="scrapy.core.scheduler.BaseScheduler")
    assert settings["SCHEDULER"] == "scrapy.core.scheduler.BaseScheduler"
    assert "does not take part" in caplog.text
    assert settings.getdict("EXTENSIONS").get(THROTTLE, 0) is not None


def test_the_fleets_scheduler_under_another_name_takes_part(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        settings = updated(SCHEDULER="gossamer.scrapy_redis.scheduler.Scheduler")
    assert settings["SCHEDULER"] == "gossamer.scrapy_redis.scheduler.Scheduler"
    assert caplog.text == ""
    assert settings.getdict("EXTENSIONS")[THROTTLE] is None


OWN = "tests.scrapy.test_addon.Own"


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
def test_a_setting_that_is_not_used_is_said(
    given: dict[str, str], said: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        updated(**given)
    assert [record.levelname for record in caplog.records] == ["WARNING"] * bool(said)
    assert all(part in caplog.text for part in said)
