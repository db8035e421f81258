"""Reports of tasks: what a page says of the end of its task, and whose list that goes to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gossamer.courier.task.report import carrying, reported, split_report
from gossamer.errors import BadTask, TableMismatch
from gossamer.feeder import ReportList
from gossamer.frontier import codec
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import Ending, Lease, Request, Settlement


def test_the_reports_of_a_table_are_those_of_one_database(frontier: ValkeyFrontier) -> None:
    """A table of the same name in another one had its rows done by them, and was never fetched."""
    key = f"{frontier.crawl}:tasks"
    one, same, other = (ReportList(frontier, key, "pages", f"sqlite:///{name}.db") for name in ("a", "a", "b"))
    ReportList(frontier, key, "others", "sqlite:///b.db").keep()
    one.keep()
    same.keep()
    other.give_up()
    with pytest.raises(TableMismatch, match=r"sqlite:///a\.db.*--moved"):
        other.keep()
    other.take()
    other.keep()
    with pytest.raises(TableMismatch, match=r"sqlite:///b\.db"):
        one.keep()
    assert one.reports.name == same.reports.name == other.reports.name, (
        "tasks of a table that has moved report where they were told to"
    )
    other.give_up()
    one.keep()


def test_what_is_reported_later_is_said_of_the_table_that_it_is_of(frontier: ValkeyFrontier) -> None:
    """A dead letter of a table that had ended was replayed, and a row of another database with that key was done, and never fetched."""
    key = f"{frontier.crawl}:tasks"
    lists = [ReportList(frontier, key, "pages", f"sqlite:///{name}.db") for name in ("a", "b", "a")]
    for each in lists:
        each.keep()
        each.give_up()
    assert lists[0].reports.name == lists[2].reports.name != lists[1].reports.name


@pytest.mark.parametrize(
    "report", [1, {}, {"list": "gossamer:x", "key": "k", "try": 1}, {"list": "l", "key": "", "try": 1}]
)
def test_a_report_that_cannot_be_made_is_a_bad_task(report: Any) -> None:
    with pytest.raises(BadTask, match="report"):
        split_report(json.dumps({"url": "http://h", "report": report}).encode())


def test_only_the_end_of_a_page_is_reported() -> None:
    assert split_report(b"http://h/report") == (b"http://h/report", None)
    assert split_report(b'{"url": "report"}') == (b'{"url": "report"}', None)
    request = Request(1, "h", "g.a", codec.encode_request({"url": "http://h", "meta": {"a": 1}}))
    _, report = split_report(b'{"url": "u", "report": {"list": "l", "key": "k", "try": 2}}')
    assert report is not None
    page = carrying(request, report)
    lease = Lease(0, 1, "i", "n", "g.a", "h", 0, 1, page.payload, 1, False, 0.0, 0.0)
    done = reported(Settlement(lease, add=[page, request], push=[("other", b"x")]))
    assert done.push == [("other", b"x"), ("l", b'{"key": "k", "try": 2, "state": "done"}')]
    assert list(done.add) == [request, request]
    for ending in (Ending.RETRY, Ending.REPLACED):
        again = Settlement(lease, ending, add=[page])
        assert reported(again) == again
    for ending in (Ending.DONE, Ending.REPLACED):
        visited = reported(Settlement(lease._replace(visit=True), ending, add=[page]))
        assert (list(visited.push), visited.add) == ([], [request]), (
            "another visit of a page with a record is of no task"
        )
    failed = reported(Settlement(lease, Ending.FAILED, reason="status_500"))
    assert json.loads(failed.push[0][1]) == {"key": "k", "try": 2, "state": "failed", "detail": "status_500"}


def test_a_page_that_asks_for_itself_again_reports_the_end_of_its_last_try() -> None:
    """As a callback does with `get_retry_request`: its row was done before, whatever became of the page."""
    _, report = split_report(b'{"url": "u", "report": {"list": "l", "key": "k", "try": 2}}')
    assert report is not None
    request = Request(1, "h", "g.a", codec.encode_request({"url": "http://h"}), dont_filter=True)
    page = carrying(request, report)
    lease = Lease(0, 1, "i", "n", "g.a", "h", 0, 1, page.payload, 1, False, 0.0, 0.0)
    link = page._replace(fingerprint=2)
    again = reported(Settlement(lease, add=[link, page]))
    assert list(again.push) == []
    assert list(again.add) == [request._replace(fingerprint=2), page]
    filtered = reported(Settlement(lease, add=[page._replace(dont_filter=False)]))
    assert [name for name, _ in filtered.push] == ["l"]
    failed = reported(Settlement(lease, Ending.FAILED, add=[page], reason="callback"))
    assert json.loads(failed.push[0][1])["state"] == "failed"
    assert list(failed.add) == [request]
