"""What the add-on puts in place, and where it leaves a project alone."""

from __future__ import annotations

import pytest
from scrapy.extensions.feedexport import FeedExporter
from scrapy.extensions.throttle import AutoThrottle
from scrapy.settings import Settings
from scrapy.statscollectors import MemoryStatsCollector

from gossamer.scrapy.addon import NOTES, THROTTLE, Addon
from gossamer.scrapy.feeds.settings import OURS, SCRAPYS
from gossamer.scrapy.setting_notes import SCHEDULER, notes
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
    assert settings.getdict("EXTENSIONS") == {NOTES: 0, THROTTLE: None, SCRAPYS: None, OURS: 0}
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


@pytest.mark.parametrize("name", ["scrapy.core.scheduler.BaseScheduler", "scrapy.core.scheduler.Scheduler"])
@pytest.mark.parametrize("by", ["project", "addon"])
def test_a_scheduler_of_anothers_making_is_left_alone_and_said(name: str, by: str) -> None:
    settings = Settings()
    settings.set("SCHEDULER", name, by)
    Addon().update_settings(settings)
    assert settings["SCHEDULER"] == name
    assert settings.getdict("EXTENSIONS") == {NOTES: 0}
    [note] = notes(settings)
    assert note.startswith(f"SCHEDULER is {name}, so this project does not take part in the crawl")


def test_the_fleets_scheduler_under_another_name_takes_part() -> None:
    settings = updated(SCHEDULER="gossamer.scrapy_redis.scheduler.Scheduler", SCHEDULER_PERSIST=True)
    assert settings["SCHEDULER"] == "gossamer.scrapy_redis.scheduler.Scheduler"
    assert not list(notes(settings))
    assert settings.getdict("EXTENSIONS")[THROTTLE] is None
