"""Which feeds the fleet writes as a whole."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.settings import Settings

from gossamer.errors import SettingError
from gossamer.scrapy.feeds.settings import OURS, check
from gossamer.settings import load


def looked_at(uri: str, options: dict[str, Any]) -> None:
    feeds = {uri: {"format": "jsonlines", **options}}
    check(load({}, {}), Crawler(Spider, Settings({"FEEDS": feeds, "EXTENSIONS": {OURS: 0}})))


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
