"""A worker of a version that does not note which rows its pages bring, on a crawl whose new site file says `gone: true`."""

from __future__ import annotations

import signal
import subprocess

import pytest
from tests.fleet.test_upgrade_texts import former, older, place
from tests.support.example_sites import Place
from tests.support.site import Site, links

__all__ = ["former", "older", "place"]

PAGES = [f"/page/{number}" for number in range(12)]
FILE = """
site: board
seeds: [{{url: "{url}/list", layer: list}}]
politeness: {{robots: ignore, concurrency: 2}}
layers:
  list: {{seen: round, follow: [{{css: a, to: page}}]}}
  page: {{seen: round, fields: {{title: title}}}}
store: {{page: {{table: page, key: [url]{gone}}}}}
"""


@pytest.fixture
def crawled(place: Place, site: Site) -> Site:
    """A round by a file without `gone`."""
    site.on("/list", links(*PAGES))
    place.crawl(place.write(FILE.format(url=site.url, gone="")))
    return site


@pytest.mark.timeout(300)
def test_no_row_is_gone_because_a_worker_of_the_version_before_would_have_brought_it(
    place: Place, crawled: Site, former: subprocess.Popen[bytes]
) -> None:
    former.send_signal(signal.SIGSTOP)
    place.write(FILE.format(url=crawled.url, gone=", gone: true"))
    place.crawl("site.yaml")
    crawled.visits.clear()
    crawled.hold(*PAGES)
    crawl = place.start("crawl", "site.yaml", "-w", "1")
    try:
        crawled.wait(lambda paths: len(paths) > 2, "the first pages")
        former.send_signal(signal.SIGCONT)
        assert former.wait(60) == 0, "it ends by itself"
        crawled.release(*PAGES)
        assert crawl.wait(120) == 0
    finally:
        crawl.kill()
    assert sorted(crawled.paths()) == sorted(["/list", *PAGES])
    assert place.rows("select count(*), count(gone_at) from page") == [(len(PAGES), 0)]
