"""Objects in requests: what a project puts into meta and cb_kwargs comes out again, or is refused with the path to it."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from enum import Enum, Flag, IntEnum, IntFlag, auto
from functools import cached_property, partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from itemloaders import ItemLoader as PlainLoader
from pydantic import AnyUrl, BaseModel, ConfigDict, Field, HttpUrl, PrivateAttr, field_validator
from scrapy import Field as ItemField
from scrapy import Item, Request, Spider
from scrapy.http.headers import Headers
from scrapy.link import Link
from scrapy.loader import ItemLoader
from scrapy.selector import Selector
from scrapy.utils.datatypes import LocalCache
from scrapy_playwright.page import PageMethod  # type: ignore[import-untyped]

from gossamer.errors import DecodingError, EncodingError, UnknownClass
from gossamer.frontier import codec
from gossamer.frontier.codec import StoredObject
from gossamer.model import Lease, SeenPolicy
from gossamer.scrapy.lanes import declared, lane
from gossamer.scrapy.request.codec import RequestCodec
from gossamer.scrapy.request.objects import ObjectCodec

T = TypeVar("T")
RAN: list[str] = []
"""What constructors and validators have done."""


class Product(Item):
    name = ItemField()
    price = ItemField()
    parts = ItemField()


class Placed:
    __slots__ = ("_place",)


class Shelved(Placed, Product):
    """Has a slot beside its fields."""


class Answering:
    """Has no room for attributes but one, and an answer to every question."""

    __slots__ = ("a",)

    a: int

    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)


class Special(Product):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        RAN.append("Special")
        self._origin = "here"


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Size(IntEnum):
    SMALL = 1


class Right(Flag):
    READ = auto()
    WRITE = auto()


class Bits(IntFlag):
    ONE = 1
    FOUR = 4


class Tags(dict[str, Any]):
    def __init__(self, **given: Any) -> None:
        RAN.append("Tags")
        super().__init__(**given)
        self.note = "n"


class Loud(str):
    __slots__ = ()

    def loud(self) -> str:
        return self.upper()


class Visit:
    """As most people write a class."""

    kind = "visit"

    def __init__(self, at: Any) -> None:
        RAN.append("Visit")
        self.at, self.more = at, [Loud("x")]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Visit({self.at!r})"


class Tight(Generic[T]):
    __slots__ = ("_left", "_right", "unset")

    def __init__(self, left: T, right: Any) -> None:
        self._left, self._right = left, right


@dataclass
class Cached(Tight[int]):
    """Has a slot that is no field."""

    name: str

    def __post_init__(self) -> None:
        self._left = len(self.name)


class Counts(OrderedDict[str, int]):
    pass


class Address(BaseModel):
    url: HttpUrl
    more: list[AnyUrl] = []


class Place(NamedTuple):
    x: int
    y: Any = None


@dataclass
class Offer:
    name: str
    tags: list[str] = field(default_factory=list)
    hidden: Any = field(init=False, repr=False, compare=False)
    kind: ClassVar[str] = "offer"

    def __post_init__(self) -> None:
        RAN.append("Offer")
        self.length = len(self.name)

    @cached_property
    def loud(self) -> str:
        return self.name.upper()


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0


@dataclass
class Box(Generic[T]):
    inside: T


@attrs.define
class Shop:
    name: str = attrs.field(validator=lambda *_: RAN.append("Shop"))
    _secret: int = 3
    stock: list[Any] = attrs.Factory(list)


@attrs.frozen(cache_hash=True)
class Label:
    text: str


@attrs.define(slots=False)
class Open:
    text: str


class Model(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str
    price: float = 0.0
    when: list[int] = Field(default_factory=list)
    _cache: dict[str, int] = PrivateAttr(default_factory=dict)

    @field_validator("name")
    @classmethod
    def checked(cls, name: str) -> str:
        RAN.append("Model")
        return name


class ProductLoader(ItemLoader):
    default_item_class = Product
    name_in = staticmethod(lambda values: [value.strip() for value in values])


@dataclass
class Failing(Exception):
    why: str


class Shops(Spider):
    name = "shops"

    @lane("book")
    def parse_book(self, response: Any, **more: Any) -> None: ...

    def parse_other(self, response: Any, b: Any = None) -> None: ...

    @staticmethod
    def parse_static(response: Any, b: Any = None) -> None: ...

    @classmethod
    def parse_class(cls, response: Any) -> None: ...


def request_codec(spider: Spider, more: str = "") -> RequestCodec:
    objects = ObjectCodec.of(spider, more)
    return RequestCodec(spider, spider.name, declared(spider, SeenPolicy()), lambda _: 1, 1 << 20, objects)


def stored(value: Any, more: str = "") -> bytes:
    made: RequestCodec = request_codec(Shops(), more)
    return made.encode(Request("http://h.example/", meta={"it": value}), "shops.main", 1).payload


def back(payload: bytes, spider: Spider | None = None) -> Any:
    return request_codec(spider or Shops()).decode(_lease(payload)).meta["it"]


def _lease(payload: bytes) -> Lease:
    values: dict[str, Any] = dict.fromkeys(Lease._fields, 0)
    return Lease(**{**values, "lane": "shops.main", "host": "h", "payload": payload})


def through(value: Any) -> Any:
    """As another worker gets it, and as a snapshot keeps it."""
    payload = stored(value)
    fields = codec.given_fields(payload)
    assert codec.given_fields(codec.encode_request(fields)) == fields
    assert codec.from_json(json.loads(json.dumps(codec.to_json(fields)))) == fields
    RAN.clear()
    return back(payload)


MODEL = Model.model_construct(name="n", price=2.5, more=[Place(1)])
MODEL._cache["a"] = 1


KEPT: list[Any] = [
    Product(name="a", parts=[Product(name="b", price=Offer("c"))]),
    Special(name="x"),
    Point(1, 2),
    [Place(1, Point(3)), (Place(2),)],
    {"colour": Colour.RED, Colour.BLUE: Size.SMALL},
    {Point(1), Point(2)},
    [Right.READ, Right.READ | Right.WRITE, Right(0), Bits.ONE | Bits.FOUR, Bits(2)],
    OrderedDict(b=1, a=Point(1)),
    Counter("aab"),
    deque([1, Point(2)], maxlen=3),
    defaultdict(list, a=[Colour.RED]),
    Box(Point(1)),
    Shop("s", 7, [Label("l"), Open("o")]),
    Label("l"),
    Open("o"),
    Model.model_validate({"name": "n", "price": 1.0, "extra": [Colour.BLUE]}),
    MODEL,
    Product,
    [Offer, Colour, Visit],
    Visit(Place(1)),
    Tags(a=Point(1)),
    [Loud("a"), {Loud("b"): Loud("c")}],
    Link("http://h.example/", "text", nofollow=True),
    Address(url="http://h.example/a?b=é", more=["ftp://u@h.example"]),  # type: ignore[arg-type, list-item]
]
"""What comes back the same, also out of pickles of scrapy-redis."""


@pytest.mark.parametrize("value", KEPT, ids=repr)
def test_objects_of_the_project_come_back_the_same(value: Any) -> None:
    found = through(value)
    assert type(found) is type(value)
    assert found == value
    assert RAN == [], "no constructor and no validator ran"


def test_containers_are_what_they_were_or_plain_as_it_is_said(caplog: pytest.LogCaptureFixture) -> None:
    found = through([defaultdict(list), defaultdict(None), deque(maxlen=2), OrderedDict(b=1, a=2)])
    assert found[0]["new"] == []
    assert found[1].default_factory is None
    assert found[2].maxlen == 2
    assert list(found[3]) == ["b", "a"]
    headers = through(Headers({"Set-Cookie": ["a=1", "é"], "X": None}, encoding="latin-1"))
    assert (type(headers), headers.encoding) == (Headers, "latin-1")
    assert (headers.getlist("set-cookie"), "x" in headers) == ([b"a=1", b"\xe9"], True)
    assert not caplog.records
    found = through([Counts(a=1), Counts(b=2)])
    assert [type(one) for one in found] == [dict, dict]
    assert through([defaultdict(Product, a=2), LocalCache()]) == [{"a": 2}, {}]
    assert [line.partition(": other workers get a plain dict. ")[0] for line in caplog.messages] == [
        f"Requests hold a {HERE}.Counts",
        f"Requests hold a defaultdict whose defaults come from {Product!r}",
        "Requests hold a scrapy.utils.datatypes.LocalCache",
    ], "once"


def test_the_state_of_an_object_is_what_it_was() -> None:
    offer = Offer("abc", ["t"])
    assert offer.loud == "ABC"
    offer.length = 99
    found = through(offer)
    assert (found, found.length, vars(found)["loud"]) == (offer, 99, "ABC")
    assert not hasattr(found, "hidden"), "a field that was never set is not set"
    assert through(Special(name="x"))._origin == "here"
    shop = through(Shop("s", 9))
    assert shop._secret == 9
    label = Label("l")
    assert hash(label) == hash(through(label))
    model = through(MODEL)
    assert (model.model_extra, model.model_fields_set) == (MODEL.model_extra, MODEL.model_fields_set)
    assert model._cache == {"a": 1}
    assert type(through(Box[int](3))) is Box
    cached = through(Cached("abc"))
    assert (cached, cached._left, hasattr(cached, "_right")) == (Cached("abc"), 3, False)
    tight = through(Tight[int](1, Place(2)))
    assert (type(tight), tight._left, tight._right, hasattr(tight, "unset")) == (Tight, 1, Place(2), False)
    shelved = Shelved(name="x")
    shelved._place = Point(1)
    assert through(shelved)._place == Point(1)
    answering = Answering()
    answering.a = 1
    assert through(answering).a == 1
    tags = through(Tags(a=1))
    assert (tags, tags.note) == ({"a": 1}, "n")
    [method] = through([PageMethod("click", "a.next", timeout=3)])
    assert (method.method, method.args, method.kwargs, method.result) == ("click", ("a.next",), {"timeout": 3}, None)


FACTOR = int(os.environ.get("MACHINE_FACTOR", "1"))
"""So many times as many examples: `make chaos` says ten."""
FIELDS = st.recursive(
    st.none() | st.integers() | st.text(max_size=5) | st.sampled_from([*Colour, Size.SMALL]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(max_size=4), inner, max_size=3),
        st.builds(lambda *parts: parts, inner, inner),
        st.builds(Place, st.integers(), inner),
        st.builds(lambda name, parts: Product(name=name, parts=parts), inner, inner),
        st.builds(Box, inner),
        st.builds(Point, st.integers(), inner),
        st.builds(Open, inner),
        st.builds(lambda name, extra: Model.model_construct(name=name, extra=extra), inner, inner),
    ),
    max_leaves=8,
)


@settings(max_examples=30 * FACTOR, deadline=None)
@given(FIELDS)
def test_any_nesting_comes_back_the_same(value: Any) -> None:
    found = back(stored(value))
    assert found == value
    assert repr(found) == repr(value)


def test_a_loader_brings_its_item_and_values_but_no_page() -> None:
    loader = ProductLoader(item=Product(price=3), selector=Selector(text="<b> x </b>"), currency="EUR")
    loader.add_css("name", "b::text")
    found = through(loader)
    assert type(found) is ProductLoader
    assert (found.context["currency"], found.selector, found.context["response"]) == ("EUR", None, None)
    found.add_value("parts", "later")
    with pytest.raises(RuntimeError, match="selector"):
        found.add_css("name", "b::text")
    assert found.load_item() == Product(name=["x"], price=[3], parts=["later"])
    plain = PlainLoader()
    plain.add_value("a", 1)
    assert through(plain).load_item() == {"a": [1]}


def test_methods_and_partials_of_the_spider() -> None:
    spider, other = Shops(), Shops()
    made = request_codec(spider)
    request = Request(
        "http://h.example/",
        partial(spider.parse_book, shelf=Place(1)),
        cb_kwargs={"then": spider.parse_other, "or": partial(spider.parse_other, 1, b=Point(2))},
    )
    lane_name = made.lane_of(request)
    assert lane_name == "shops.book"
    found = request_codec(other).decode(_lease(made.encode(request, lane_name, 1).payload))
    assert isinstance(found.callback, functools.partial)
    assert (found.callback.func, found.callback.keywords) == (other.parse_book, {"shelf": Place(1)})
    assert found.cb_kwargs["then"] == other.parse_other
    assert (found.cb_kwargs["or"].func, found.cb_kwargs["or"].args) == (other.parse_other, (1,))


def test_static_and_class_methods_of_the_spider() -> None:
    spider, other = Shops(), Shops()
    request = Request("http://h.example/", spider.parse_static, errback=spider.parse_class)
    request.cb_kwargs["then"] = partial(spider.parse_static, b=1)
    found = request_codec(other).decode(_lease(request_codec(spider).encode(request, "shops.main", 1).payload))
    assert (found.callback, found.errback) == (Shops.parse_static, Shops.parse_class)
    assert (found.cb_kwargs["then"].func, found.cb_kwargs["then"].keywords) == (Shops.parse_static, {"b": 1})
    with pytest.raises(EncodingError, match="is not a method of the spider"):
        request_codec(spider).encode(Request("http://h.example/", through), "shops.main", 1)


class Unknown:
    """Says itself how it is copied."""

    def __getstate__(self) -> object:
        return {}


class Session(Link):
    """On top of a class of another package."""


def local() -> Any:
    @dataclass
    class Local:
        x: int = 1

    return Local()


def nested() -> Any:
    outer = ItemLoader(selector=Selector(text="<b>x</b>"))
    return outer.nested_css("b")


def endless() -> Any:
    product = Product()
    product["parts"] = [product]
    return product


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": [Unknown()]}, "meta['it']['a'][0]: tests.scrapy.request.test_objects.Unknown cannot be stored"),
        (Product(parts=[{"b": Unknown()}]), "meta['it']['parts'][0]['b']: tests.scrapy.request.test_objects.Unknown"),
        (Offer("x", [Unknown()]), "meta['it']['tags'][0]: tests.scrapy.request.test_objects.Unknown"),  # type: ignore[list-item]
        (Place(1, Unknown()), "meta['it'][1]: tests.scrapy.request.test_objects.Unknown"),
        (Unknown(), "Unknown cannot be stored: it has __getstate__ of its own. Make it a dataclass"),
        (Session("x"), "Session cannot be stored: it is made of scrapy.link.Link, which is not the project's own"),
        (Visit(at=[Unknown()]), "meta['it']['at'][0]: tests.scrapy.request.test_objects.Unknown cannot be stored"),
        (local(), "Local cannot be found by its name, so another worker could not make it"),
        (HTTPStatus.OK, "meta['it']: http.HTTPStatus is of a package that is not the project's own (tests"),
        (partial(len, "x"), "meta['it']: <built-in function len> is not a method of the spider"),
        (Shops().parse_other, "is not a method of the spider"),
        (nested(), "is nested in another loader; send the outer one"),
        (Failing("x"), "Failing is built on a class of another kind"),
        (endless(), "nested deeper than"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_cannot_be_carried_is_named_by_its_path(value: Any, said: str) -> None:
    with pytest.raises(EncodingError) as refused:
        stored(value)
    assert said in str(refused.value)


def test_more_modules_may_be_allowed() -> None:
    payload = stored(HTTPStatus.OK, more="http, elsewhere.package")
    with pytest.raises(UnknownClass, match=r"meta\['it'\]: http.HTTPStatus is of a package .* GOSSAMER_OBJECT_MODULES"):
        back(payload)
    found = request_codec(Shops(), "http").decode(_lease(payload)).meta["it"]
    assert found is HTTPStatus.OK


HERE = __name__


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (StoredObject("item", f"{HERE}:Product", ({"gone": 1},)), "Product has no field 'gone' any more"),
        (StoredObject("fields", f"{HERE}:Offer", ({"name": "a", "gone": 1},)), "Offer has no field 'gone' any more"),
        (StoredObject("fields", f"{HERE}:Point", ({"y": 1},)), "Point now has a field 'x' without a default"),
        (
            StoredObject("model", f"{HERE}:Model", ({"price": 1.0}, {})),
            "Model now has a field 'name' without a default",
        ),
        (StoredObject("model", f"{HERE}:Model", ({"name": "", "gone": 1}, {})), "Model has no field 'gone' any more"),
        (StoredObject("member", f"{HERE}:Colour", ("GREEN",)), "Colour has no member 'GREEN' any more"),
        (StoredObject("member", f"{HERE}:Right", (8,)), "Right has no member 8 any more"),
        (
            StoredObject("container", "collections:defaultdict", ({}, "eval")),
            "defaultdict cannot be made again: KeyError",
        ),
        (StoredObject("container", "collections:ChainMap", ({},)), "collections.ChainMap is of a package"),
        (StoredObject("values", f"{HERE}:Place", ([1],)), "Place has 2 fields, what was stored has 1"),
        (StoredObject("fields", f"{HERE}:Product", ({},)), "Product is not what was stored under its name"),
        (StoredObject("fields", f"{HERE}:Unknown", ({},)), "Unknown is no class whose objects are made again"),
        (StoredObject("fields", f"{HERE}:Nothing", ({},)), "Nothing is no class of this worker's code"),
        (StoredObject("fields", f"{HERE}:carrier.__globals__", ({},)), "is no class of this worker's code"),
        (StoredObject("object", f"{HERE}:Session", ({}, None)), "Session is no class whose objects are made again"),
        (StoredObject("object", f"{HERE}:Shops", ({}, None)), "Shops is no class whose objects are made again"),
        (StoredObject("object", f"{HERE}:Visit", ([1], 1)), "Visit cannot be made again: AttributeError"),
        (StoredObject("object", f"{HERE}:Tight", ({"x": 1}, None)), "Tight has no room for 'x'"),
        (StoredObject("text", "pydantic.networks:HttpUrl", ("x",)), "HttpUrl cannot be made again: ValidationError"),
        (StoredObject("class", f"{HERE}:Unknown"), "Unknown is no class whose objects are made again"),
        (StoredObject("fields", "subprocess:Popen", ({},)), "subprocess.Popen is of a package"),
        (StoredObject("item", f"{HERE}:Product"), "Product cannot be made again: IndexError"),
        (StoredObject("item", f"{HERE}:Product", (7,)), "Product cannot be made again: TypeError"),
        (StoredObject("method", "__init__"), "the spider has no method '__init__'"),
        (StoredObject("method", "name"), "the spider has no method 'name'"),
        (StoredObject("partial", "parse_gone", ((), {})), "the spider has no method 'parse_gone'"),
        (StoredObject("unheard", f"{HERE}:Product", ({},)), "Product is not what was stored under its name"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_class_that_is_not_what_it_was_is_said(written: StoredObject, said: str) -> None:
    payload = codec.encode_request({"url": "http://h.example/", "meta": {"it": {"a": [written]}}})
    with pytest.raises(UnknownClass) as refused:
        back(payload)
    assert str(refused.value).startswith("meta['it']['a'][0]: ")
    assert said in str(refused.value)
    assert refused.value.reason == "unknown_class"
    assert codec.decode_request(payload)["meta"] == {"it": {"a": [written]}}, "people can look at it without the class"


def test_a_field_that_was_added_has_its_default() -> None:
    payload = codec.encode_request(
        {
            "url": "http://h.example/",
            "meta": {
                "it": [
                    StoredObject("fields", f"{HERE}:Offer", ({"name": "a"},)),
                    StoredObject("fields", f"{HERE}:Shop", ({"name": "a"},)),
                    StoredObject("model", f"{HERE}:Model", ({"name": "a"}, {})),
                    StoredObject("item", f"{HERE}:Product", ({},)),
                ]
            },
        }
    )
    offer, shop, model, product = back(payload)
    assert (offer.tags, shop._secret, shop.stock, model.price, model.when) == ([], 3, [], 0.0, [])
    assert product == Product()


def test_only_a_module_that_defines_the_class_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "carried_project"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "items.py").write_text("import scrapy\n\nclass Late(scrapy.Item):\n    name = scrapy.Field()\n")
    (package / "script.py").write_text("raise SystemExit('the script ran')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    objects = ObjectCodec(["carried_project"])
    assert objects.make(StoredObject("item", "carried_project.items:Late", ({"name": 1},)))["name"] == 1
    with pytest.raises(Exception, match="is no class of this worker's code"):
        objects.make(StoredObject("item", "carried_project.script:Late", ({},)))
    assert "carried_project.script" not in sys.modules


@pytest.mark.parametrize("cut", [0.3, 0.6, 0.95])
def test_broken_bytes_raise_nothing_else(cut: float) -> None:
    payload = stored(Product(name=Offer("x"), parts=[MODEL, Place(1)]))
    length = int(len(payload) * cut)
    for data in (payload[:length], payload[:length] + b"\xc1" + payload[length + 1 :], payload + b"x"):
        with pytest.raises(DecodingError):
            back(data)


def test_old_bytes_of_an_object_stay_readable() -> None:
    payload = bytes.fromhex(
        "819400b1687474703a2f2f682e6578616d706c652f0581a26974c77b0f93a46974656dd92974657374732e7363726170"
        "792e726571756573742e746573745f6f626a656374733a50726f6475637482a46e616d65a161a5706172747391c7380f"
        "93a66669656c6473d92774657374732e7363726170792e726571756573742e746573745f6f626a656374733a506f696e"
        "7482a17801a17902"
    )
    assert payload == stored(Product(name="a", parts=[Point(1, 2)]))
    assert back(payload) == Product(name="a", parts=[Point(1, 2)])
