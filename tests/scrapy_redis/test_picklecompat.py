"""Objects in the pickles of scrapy-redis: read without running them, written so that it reads them."""

from __future__ import annotations

import pickle
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import pytz  # type: ignore[import-untyped]
from dateutil import tz  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st
from scrapy import Request
from scrapy.http.headers import Headers
from scrapy.selector import Selector
from tests.scrapy.request import test_objects as kinds
from tests.support.scrapy_redis.sides import SIDES, client, module

from gossamer.errors import DecodingError, EncodingError, UnknownClass
from gossamer.frontier import codec
from gossamer.scrapy.request.objects import ObjectCodec
from gossamer.scrapy_redis import picklecompat
from gossamer.scrapy_redis.transfer.requests import StoredRequestReader, payload_of
from gossamer.testing.servers import Server

OBJECTS = ObjectCodec(["tests"])
SHARED = kinds.Product(name="s")
VALUES = [
    kinds.Product(name="a", parts=[kinds.Product(price=kinds.Offer("c"))]),
    kinds.Special(name="x"),
    kinds.Visit(kinds.Place(1)),
    kinds.Point(1, 2),
    {"p": (kinds.Place(1, kinds.Point(3)), [kinds.Place(2)])},
    {kinds.Colour.BLUE: kinds.Size.SMALL, "points": {kinds.Point(1), kinds.Point(2)}},
    kinds.Shop("s", 7, [kinds.Label("l"), kinds.Open("o")]),
    kinds.MODEL,
    [SHARED, SHARED],
    kinds.Product,
    *kinds.KEPT,
    {b"": b"", "path": Path("/a/b")},
    defaultdict(None, a=1),
    Headers({"Set-Cookie": ["a=1", "é"], "X": None}, encoding="latin-1"),
    kinds.Product(price=Headers({"A": "b"}), parts=[Counter(a=0, b=-1), defaultdict(dict, a=kinds.Tags())]),
    Path("/a/b"),
]
MOMENT = datetime(2026, 10, 25, 2, 30)
"""An hour that comes twice in Berlin."""
BERLIN = pytz.timezone("Europe/Berlin")
DATES = [
    MOMENT.replace(tzinfo=ZoneInfo("Asia/Tokyo")),
    MOMENT.replace(tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
    MOMENT.replace(tzinfo=pytz.utc),
    MOMENT.replace(tzinfo=pytz.FixedOffset(-90)),
    BERLIN.localize(MOMENT, is_dst=True),
    BERLIN.localize(MOMENT, is_dst=False),
    BERLIN.localize(datetime(2026, 7, 1)),
    MOMENT.replace(tzinfo=tz.tzutc()),
    MOMENT.replace(tzinfo=tz.tzoffset("HERE", 5400)),
    MOMENT.replace(tzinfo=tz.tzoffset(None, -1800)),
]
"""As many projects have them: dates that dateparser, dateutil or pytz have made."""


class Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


class OwnState:
    """A class that would run something when it is unpickled."""

    def __setstate__(self, state: Any) -> None:
        raise AssertionError("it ran")


@pytest.mark.parametrize("protocol", [2, 4, -1])
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_what_scrapy_redis_has_pickled_comes_out(value: Any, protocol: int) -> None:
    kinds.RAN.clear()
    data = pickle.dumps({"meta": {"it": value}}, protocol)
    found = picklecompat.loads(data, OBJECTS.make)["meta"]["it"]
    assert type(found) is type(value)
    assert found == value
    assert kinds.RAN == []
    # And as the import keeps it, which has no class at hand.
    kept = payload_of(picklecompat.loads(data, lambda stored: stored))
    assert codec.decode_request(kept, build=OBJECTS.make)["meta"]["it"] == value


@settings(max_examples=40 * kinds.FACTOR, deadline=None)
@given(kinds.FIELDS, st.sampled_from([2, 4, 5]))
def test_any_nesting_comes_out_of_a_pickle(value: Any, protocol: int) -> None:
    data = pickle.dumps({"url": "http://site/", "meta": {"it": value}}, protocol)
    kept = payload_of(StoredRequestReader(True).fields(data))
    written = picklecompat.dumps({"meta": {"it": value}}, OBJECTS.admits)
    for found in (
        picklecompat.loads(data, OBJECTS.make), codec.decode_request(kept, build=OBJECTS.make),
        picklecompat.loads(written, OBJECTS.make), pickle.loads(written),
    ):  # fmt: skip
        assert repr(found["meta"]["it"]) == repr(value)


@pytest.mark.parametrize("protocol", [2, 5])
@pytest.mark.parametrize("value", DATES, ids=repr)
def test_dates_in_zones_of_other_packages_are_the_same_moment(value: datetime, protocol: int) -> None:
    data = pickle.dumps({"url": "http://site/", "meta": {value: [value], "item": kinds.Product(price=value)}}, protocol)
    kept = payload_of(StoredRequestReader(True).fields(data))
    written = picklecompat.dumps(pickle.loads(data), OBJECTS.admits)
    value = pickle.loads(data)["meta"]["item"]["price"]  # old protocols leave `fold` out
    plain = picklecompat.loads(pickle.dumps({"meta": {value: [value], "item": {"price": value}}}, protocol))
    for found in (
        picklecompat.loads(data, OBJECTS.make), codec.decode_request(kept, build=OBJECTS.make),
        picklecompat.loads(written, OBJECTS.make), pickle.loads(written), plain,
    ):  # fmt: skip
        [(key, [one]), (_, item)] = found["meta"].items()
        for moment in (key, one, item["price"]):
            assert type(moment.tzinfo) in (ZoneInfo, timezone)
            assert (moment.replace(tzinfo=None), moment.utcoffset()) == (value.replace(tzinfo=None), value.utcoffset())
            assert type(moment.tzinfo) is ZoneInfo or value.tzinfo not in (BERLIN, ZoneInfo("Asia/Tokyo"))


def test_zones_that_are_not_read_are_refused() -> None:
    for zone in (pytz.utc, BERLIN, tz.tzutc(), MOMENT.replace(tzinfo=tz.tzlocal())):
        with pytest.raises(DecodingError, match=r"time zone alone|dateutil"):
            picklecompat.loads(pickle.dumps({"meta": [zone]}, -1), OBJECTS.make)
    no_zone = b"\x80\x04\x8c\x08zoneinfo\x8c\x08ZoneInfo\x93\x8c\x09../passwd\x85R."
    other = b"\x80\x04\x8c\x08builtins\x8c\x07getattr\x93\x8c\x08zoneinfo\x8c\x08ZoneInfo\x93\x8c\x08__init__\x86R."
    for data, said in ((no_zone, "not the key of a time zone"), (other, "attribute '__init__'")):
        with pytest.raises(DecodingError, match=said):
            picklecompat.loads(data, OBJECTS.make)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_scrapy_redis_reads_what_is_written(value: Any) -> None:
    found = pickle.loads(picklecompat.dumps(value, OBJECTS.admits))
    assert found == value


def test_objects_stand_in_every_container_and_in_two_places() -> None:
    value = {"o": OrderedDict(a=kinds.Colour.RED), "d": deque([kinds.Colour.BLUE]), "f": frozenset({kinds.Point(1)})}
    assert picklecompat.loads(pickle.dumps(value, -1), OBJECTS.make) == value
    first, second = picklecompat.loads(pickle.dumps([SHARED, SHARED], -1), OBJECTS.make)
    assert first is second


def test_nothing_runs(tmp_path: Path) -> None:
    evil = Evil(tmp_path / "made")
    for value in (evil, [kinds.Product(name=evil)], OwnState()):
        with pytest.raises(DecodingError):
            picklecompat.loads(pickle.dumps({"meta": {"x": value}}, -1), OBJECTS.make)
    called = b"\x80\x04\x8c$tests.scrapy_redis.test_picklecompat\x8c\x04Evil\x93\x8c\x01x\x85R."
    with pytest.raises(UnknownClass, match="Evil is no class"):
        picklecompat.loads(called, OBJECTS.make)
    with pytest.raises(DecodingError, match="not plain data"):
        picklecompat.loads(pickle.dumps(kinds.Product(name="a"), -1))
    assert list(tmp_path.iterdir()) == []


def test_what_is_refused_is_named_by_its_path() -> None:
    data = pickle.dumps({"meta": {"a": [kinds.Unknown()]}}, -1)
    with pytest.raises(
        UnknownClass,
        match=r"\['meta'\]\['a'\]\[0\]: tests.scrapy.request.test_objects.Unknown is no class whose objects are made",
    ):
        picklecompat.loads(data, OBJECTS.make)
    for value, said in (
        (kinds.Unknown(), "meta['a'][0]: tests.scrapy.request.test_objects.Unknown is not plain data"),
        (kinds.Product(parts=[kinds.Unknown()]), "meta['a'][0]['parts'][0]: tests.scrapy.request.test_objects.Unknown"),
        (kinds.Offer("x", [print]), "meta['a'][0].tags[0]: builtins.print is not plain data"),  # type: ignore[list-item]
        (
            kinds.ProductLoader(selector=Selector(text="x")),
            "meta['a'][0]: tests.scrapy.request.test_objects.ProductLoader",
        ),
    ):
        with pytest.raises(EncodingError) as refused:
            picklecompat.dumps({"url": "u", "meta": {"a": [value]}}, OBJECTS.admits)
        assert str(refused.value).startswith(said)


class Text(str):
    """Made of text, by the project."""


class Whole(int):
    """Made of a number."""


LINK = Selector(text="<a href='/'>more</a>").root.xpath("string(//a)")
"""A link's text as a CrawlSpider puts it into every request that it makes."""
SCALARS = {"link": LINK, "own": Text("own"), LINK: {"price": kinds.Product(price=LINK)}, "ints": [Whole(3)]}


def test_what_is_made_of_text_or_a_number_comes_along_as_such() -> None:
    assert type(LINK).__module__ == "lxml.etree"
    data = pickle.dumps({"url": "http://site/", "meta": SCALARS}, -1)
    kept = codec.decode_request(codec.encode_request(StoredRequestReader(True).fields(data)), build=OBJECTS.make)
    written = pickle.loads(picklecompat.dumps({"meta": SCALARS}, OBJECTS.admits))
    read = picklecompat.loads(picklecompat.dumps({"meta": SCALARS}, OBJECTS.admits), OBJECTS.make)
    for found in (picklecompat.loads(data, OBJECTS.make), kept, written, read):
        assert found["meta"] == SCALARS
        inner = found["meta"]["more"]["price"]["price"]
        assert {type(found["meta"][name]) for name in ("link", "own")} | {type(inner)} == {str}
        assert [type(one) for one in found["meta"]["ints"]] == [int]


def test_a_remedy_is_named_only_if_it_works() -> None:
    foreign = ObjectCodec(["shop"])
    for value, remedy in (
        (kinds.Product(), "send plain data, or name its module in GOSSAMER_OBJECT_MODULES"),
        (kinds.Unknown(), "send plain data"),
    ):
        with pytest.raises(UnknownClass) as refused:
            picklecompat.loads(pickle.dumps(value, -1), foreign.make)
        assert str(refused.value).endswith(f"is of a package that is not the project's own (shop); {remedy}")
    with pytest.raises(UnknownClass, match=r"no_such.Thing is of .*MODULES if it is an item, a dataclass,"):
        picklecompat.loads(b"cno_such\nThing\n)\x81.", foreign.make)


@pytest.mark.parametrize(("writer", "reader"), [SIDES, SIDES[::-1]])
def test_old_and_new_queues_exchange_items(writer: str, reader: str, valkey_server: Server, crawl_name: str) -> None:
    with client(valkey_server) as server:
        spider = kinds.Shops(crawl_name)
        pushing, popping = (
            module(side, "queue").PriorityQueue(server, spider, "%(spider)s:requests") for side in (writer, reader)
        )
        pushing.push(Request("http://site/", meta={"it": VALUES, "link_text": LINK}, cb_kwargs={"item": SHARED}))
        found = popping.pop()
        assert found.meta == {"it": VALUES, "link_text": "more"}
        assert found.cb_kwargs["item"] == SHARED
