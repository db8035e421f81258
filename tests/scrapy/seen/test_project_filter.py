"""A project's DUPEFILTER_CLASS does in a fleet what it does in Scrapy, or the worker says why it does not begin."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy import Request
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler
from tests.scrapy.spiders import twice
from tests.support.site import Site
from tests.support.workers.workers import Workers

from gossamer.errors import SettingError
from gossamer.scrapy.project import number_in
from gossamer.scrapy.seen.project_filter import check, check_memory, own_filter
from gossamer.testing.servers import Server

MODULE = twice.__name__


def test_it_does_what_it_does_in_scrapy() -> None:
    """What the site saw of a spider that finds a page three times, on plain Scrapy and in a fleet."""
    with Server() as server:
        for name, expected in (("Silent", 4), ("WithoutSession", 2), ("MadeWithFingerprinter", 2)):
            for addons in ({}, {"gossamer.Addon": 100}):
                chosen: Any = {"ADDONS": addons, "DUPEFILTER_CLASS": f"{MODULE}.{name}"}
                with Site() as site, Workers(server.url, name, **chosen) as workers:
                    worker = workers.start(twice.Twice, site=site.url)
                    assert worker.wait() == 0, worker.log
                    assert len(site.visits) == expected, (name, addons, worker.log)
                    if name == "MadeWithFingerprinter":
                        assert worker.stats()["dupefilter/filtered"] == 2
                    assert worker.log.count("Mine: a?session=") == (2 if name == "WithoutSession" else 0)
        with Site() as site, Workers(server.url, "own", DUPEFILTER_CLASS=f"{MODULE}.OfItsOwn") as workers:
            worker = workers.start(twice.Twice, site=site.url)
            assert worker.reason() == "SettingError"
            assert "OfItsOwn has request_seen of its own, which a fleet cannot use" in worker.log
            assert not site.visits


@pytest.mark.parametrize("name", ["OfItsOwn", "Unlike"])
def test_what_remembers_by_itself_is_refused_with_the_remedy(name: str) -> None:
    with pytest.raises(SettingError, match=f"{name} has request_seen .* REQUEST_FINGERPRINTER_CLASS"):
        check(Settings({"DUPEFILTER_CLASS": f"{MODULE}.{name}"}))


@pytest.mark.filterwarnings("ignore:Overriding RFPDupeFilter")
def test_what_knows_pages_when_it_is_made_is_refused_with_the_remedy() -> None:
    for name in ("MadeAlike", "SetsFingerprinter", "WithoutSession"):
        check_memory(own_filter(get_crawler(twice.Twice, {"DUPEFILTER_CLASS": f"{MODULE}.{name}"})))
    known = own_filter(get_crawler(twice.Twice, {"DUPEFILTER_CLASS": f"{MODULE}.Knowing"}))
    with pytest.raises(SettingError, match=r"Knowing has fingerprints of its own .* Leave out requests"):
        check_memory(known)


def test_a_filter_for_plain_scrapy_is_not_used_and_said(caplog: pytest.LogCaptureFixture) -> None:
    check(Settings({"DUPEFILTER_CLASS": "gossamer.scrapy.dupefilter.SeenFilter"}))
    assert "DUPEFILTER_CLASS SeenFilter is not used" in caplog.text


@pytest.mark.filterwarnings("ignore:Overriding RFPDupeFilter")
def test_commands_know_pages_as_the_projects_filter_does() -> None:
    def number(**settings: Any) -> set[int]:
        crawler = get_crawler(twice.Twice, settings)
        crawler.spider = twice.Twice.from_crawler(crawler)
        found = number_in(crawler)
        return {found(Request(f"https://site.example/a?session={one}")) for one in (1, 2)}

    assert len(number()) == 2
    assert number(DUPEFILTER_CLASS=f"{MODULE}.MadeAlike") == number()
    for name in ("WithoutSession", "MadeWithFingerprinter", "SetsFingerprinter"):
        assert len(number(DUPEFILTER_CLASS=f"{MODULE}.{name}")) == 1
