"""Which feeds the fleet writes as a whole."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.extensions.feedexport import FileFeedStorage
from scrapy.settings import Settings

from gossamer.errors import SettingError
from gossamer.scrapy.feeds.settings import OURS, SCRAPYS, check
from gossamer.settings import load


class Storage(FileFeedStorage):
    """One of a project's own."""


def looked_at(uri: str, options: dict[str, Any], **more: Any) -> None:
    feeds = {uri: {"format": "jsonlines", **options}}
    check(load({}, {}), Crawler(Spider, Settings({"FEEDS": feeds, "EXTENSIONS": {OURS: 0}, **more})))


@pytest.mark.parametrize(
    ("uri", "options", "why"),
    [
        ("ftp://host/out.json", {}, "it is not a local file"),
        ("out.gz", {"postprocessing": ["scrapy.extensions.postprocessing.GzipPlugin"]}, "it has postprocessing"),
        ("%(batch_id)d.jl", {"batch_item_count": 9}, "it is written in batches"),
        ("%(worker)s.jl", {}, r"%\(worker\)s names a file for each worker"),
    ],
)
def test_what_the_fleet_cannot_write_together_is_refused(uri: str, options: dict[str, Any], why: str) -> None:
    with pytest.raises(SettingError, match=f"{why}.*GOSSAMER_FEEDS=worker"):
        looked_at(uri, options)


def test_a_storage_of_the_projects_own_is_not_left_aside() -> None:
    """Each scheme has its own: that of `file:` is not asked for a name without one."""
    for scheme, uri, other in (("", "out.json", "file:///tmp/out.json"), ("file", "file:///tmp/out.json", "out.json")):
        storages = {scheme: Storage}
        with pytest.raises(
            SettingError, match=r"its storage is .*test_settings.Storage of FEED_STORAGES.*FEEDS=worker"
        ):
            looked_at(uri, {}, FEED_STORAGES=storages)
        looked_at(other, {}, FEED_STORAGES=storages)
    with pytest.raises(SettingError, match="FEED_STORAGES has no storage for the scheme ''"):
        looked_at("out.json", {}, FEED_STORAGES={"": None})


def test_local_files_and_standard_output_are_taken() -> None:
    for uri in ("out.json", "file:///tmp/%(name)s-%(time)s.csv", "stdout:"):
        looked_at(uri, {})


def test_a_format_that_no_exporter_has_is_refused() -> None:
    """Scrapy would crawl without any feed."""
    with pytest.raises(
        SettingError, match=r"The feed out.txt has the format 'txt', which no exporter has. Known are csv, "
    ):
        looked_at("out.txt", {"format": "txt"})
    for mode in ("worker", "fleet"):
        settings = Settings({"FEEDS": {"stdout:": {"format": None}}, "GOSSAMER_FEEDS": mode})
        with pytest.raises(SettingError, match="The feed stdout: has the format None"):
            check(load({"GOSSAMER_FEEDS": mode}, {}), Crawler(Spider, settings))


def test_feeds_that_nobody_writes_are_said_to_be_so(caplog: pytest.LogCaptureFixture) -> None:
    looked_at("out.json", {}, EXTENSIONS={SCRAPYS: None})
    assert "FeedExporter is off in EXTENSIONS: neither Scrapy nor the fleet writes them" in caplog.text
    assert "Each worker writes FEEDS by itself" not in caplog.text
