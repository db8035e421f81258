"""Requests of a project's own classes: another worker gets what was yielded, whatever their constructors do."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import pytest
from scrapy import FormRequest, Request, Spider
from scrapy.http import JsonRequest

from gossamer.errors import EncodingError
from gossamer.frontier.codec import encode_request
from gossamer.model import Lease, SeenPolicy
from gossamer.scrapy.lanes import declared
from gossamer.scrapy.request.codec import RequestCodec

T = TypeVar("T")


class Browser(Request):
    """As packages for browsers have it: nothing says which of these belong to it."""

    def __init__(self, wait: int, *args: Any, **more: Any) -> None:
        self.wait = wait
        super().__init__(*args, **more)


class Proxied(Request):
    def __init__(self, url: str, *args: Any, **more: Any) -> None:
        super().__init__(f"http://proxy.example/?url={url}", *args, **more)


class Slotted(Browser):
    __slots__ = ("never", "tag")


class Counted(JsonRequest):
    count = 0


class Declared(Request):
    attributes = (*Request.attributes, "tag")

    def __init__(self, *args: Any, tag: str = "", **more: Any) -> None:
        self.tag, self.lock = tag, object()
        super().__init__(*args, **more)


class Named(Request):
    def __init__(self, *args: Any, named: str, **more: Any) -> None:
        self.named = named
        super().__init__(*args, **more)


class Waiting(JsonRequest):
    """What its constructor takes is not among the names that it has from Scrapy."""

    def __init__(self, *args: Any, wait: Any = None, **more: Any) -> None:
        self.wait = wait
        super().__init__(*args, **more)


class Signed(Request):
    """Sets what it is given in a form of its own, by an attribute that is there before."""

    def __init__(self, *args: Any, tag: str, **more: Any) -> None:
        self.tag = tag
        super().__init__(*args, **more)

    def _set_url(self, url: str) -> None:
        super()._set_url(f"{url}?{self.tag}")

    def _set_body(self, body: Any) -> None:
        super()._set_body(f"<{body}>")


class Twice(Slotted, Generic[T]):
    __slots__ = ("tag",)


class Plain(Spider):
    name = "plain"

    def parse_other(self, response: Any) -> None: ...


def codec() -> RequestCodec:
    spider = Plain()
    return RequestCodec(spider, "plain", declared(spider, SeenPolicy()), lambda _: 1, 1 << 20)


def made_of(payload: bytes, priority: int = 0) -> Request:
    values: dict[str, Any] = dict.fromkeys(Lease._fields, 0)
    return codec().decode(Lease(**{**values, "lane": "plain.main", "payload": payload, "priority": priority}))


def through(request: Request) -> Request:
    return made_of(codec().encode(request, "plain.main", 1).payload, request.priority)


def state(request: Request) -> tuple[Any, ...]:
    own = {name: getattr(request, name, None) for name in ("wait", "tag", "note", "count", "dumps_kwargs")}
    return (
        type(request),
        request.url,
        request.method,
        request.body,
        request.headers,
        request.meta,
        request.priority,
        own,
    )


def noted(request: Request, **attributes: Any) -> Request:
    for name, value in attributes.items():
        setattr(request, name, value)
    return request


@pytest.mark.parametrize(
    "request_",
    [
        Browser(3, "http://h.example/", meta={"a": 1}, priority=2),
        Proxied("http://h.example/", headers={"A": ["1", "2"]}),
        noted(Slotted(1, "http://h.example/"), tag={"x"}, note="n"),
        noted(Counted("http://h.example/", data={"a": 1}, dumps_kwargs={"indent": 1}), count=2),
        FormRequest("http://h.example/", formdata={"a": "1"}),
        Signed("http://h.example/", body="b", tag="t"),
        noted(Twice[int](1, "http://h.example/"), tag="t"),
        noted(Declared("http://h.example/", tag="t"), note="n"),
    ],
    ids=lambda request: type(request).__name__,
)
def test_it_has_all_that_it_had(request_: Request) -> None:
    assert state(through(request_)) == state(request_)


def test_what_cannot_be_stored_is_named_or_left_to_a_constructor_that_says_what_it_needs() -> None:
    with pytest.raises(EncodingError, match=r"attributes\['wait'\]: .*object cannot be stored"):
        through(Browser(object(), "http://h.example/"))  # type: ignore[arg-type]
    with pytest.raises(EncodingError, match=r"attributes\['wait'\]: function cannot be stored"):
        through(Waiting("http://h.example/", wait=lambda: 1))
    with pytest.raises(EncodingError, match=r"attributes\['note'\]: function cannot be stored"):
        through(noted(Declared("http://h.example/"), note=lambda: 1))
    made = through(Declared("http://h.example/", tag="t"))
    assert isinstance(made, Declared)
    assert made.tag == "t"
    assert made.lock is not None


def test_one_that_scrapy_redis_has_stored_is_made_by_its_constructor() -> None:
    made = made_of(encode_request({"url": "http://h.example/", "class": f"{__name__}.Named", "named": "n"}))
    assert isinstance(made, Named)
    assert made.named == "n"


def test_a_priority_that_is_too_large_is_said(caplog: pytest.LogCaptureFixture) -> None:
    made = codec()
    for priority in (2**31, 2**31 + 1, -(2**40)):
        made.encode(Request("http://h.example/", priority=priority), "plain.main", 1)
    assert [line.partition(", so")[0] for line in caplog.messages] == [
        "<GET http://h.example/> has the priority 2147483649: priorities beyond ±2147483648 count as that"
    ], "once"


def test_a_class_that_no_other_worker_could_find_is_refused() -> None:
    class Local(Request):
        pass

    with pytest.raises(EncodingError, match=r"Local cannot be found by its name.* top of a module"):
        through(Local("http://h.example/"))
