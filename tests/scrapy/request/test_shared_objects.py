"""Requests that share an object are told of: each has a copy in the queue."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest
from scrapy import Item, Request
from scrapy.link import Link

from gossamer.model import Lease
from gossamer.scrapy.page.page import LeasedPage
from gossamer.scrapy.request.shared_objects import SharedObjects


@dataclass(frozen=True)
class Fixed:
    x: int = 1


class Colour(Enum):
    RED = 1


class Counter:
    left = 3


URL = "http://h.example/"


def page() -> LeasedPage:
    values: dict[str, Any] = dict.fromkeys(Lease._fields, 0)
    return LeasedPage(Lease(**values), Request(URL))


@pytest.mark.parametrize(
    ("value", "level", "name"),
    [
        (Item(), logging.WARNING, "meta['it'] of <GET http://h.example/> is the same scrapy.item.Item"),
        (Counter(), logging.WARNING, "is the same tests.scrapy.request.test_shared_objects.Counter"),
        ({}, logging.INFO, "is the same dict"),
        ([1], logging.INFO, "is the same list"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_one_object_of_two_requests_is_told_once(
    value: Any, level: int, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for where in (page(), None):
        shared = SharedObjects()
        caplog.clear()
        for _ in range(3):
            shared.look(Request(URL, meta={"it": value, "depth": 1}), where)
        [record] = caplog.records
        assert record.levelno == level
        assert name in record.getMessage()
    inner = SharedObjects()
    inner.look(Request(URL, meta={"a": {"b": {"c": value}}}), where := page())
    inner.look(Request(URL, cb_kwargs={"c": value}), where)
    assert len(caplog.records) == 2


def test_what_cannot_change_and_what_others_have_is_not(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    shared = SharedObjects()
    same = {
        "text": "a" * 50,
        "fixed": Fixed(),
        "red": Colour.RED,
        "class": Counter,
        "link": Link(URL),
        "redirect_urls": [URL],
    }
    for one in (where := page(), where, None, None):
        shared.look(Request(URL, meta={**same, "own": [1], "item": Item()}), one)
    item = Item()
    shared.look(Request(URL, meta={"item": item}, cb_kwargs={"item": item}), None)
    for another in (page(), page()):
        shared.look(Request(URL, meta={"item": item}), another)
    assert not caplog.records
