"""Python types as types of columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, NewType, NotRequired, Optional, TypedDict

import pytest
from pydantic import BaseModel

from gossamer.errors import SiteError
from gossamer.sites.python.columns import types_of

Sku = NewType("Sku", str)


@dataclass
class Inner:
    a: int


@dataclass
class Everything:
    kind: ClassVar[str] = "x"
    sku: Sku
    title: str | None
    count: int
    share: float
    price: Optional[Decimal]  # noqa: UP045
    new: bool
    day: date
    at: datetime
    raw: bytes
    tags: list[str]
    more: dict[str, int] | None
    inner: Inner
    noted: Annotated[int, "unit"]
    state: Literal["on", "off", None]
    number: int | float
    money: int | Decimal
    anything: Any
    left: str = "x"
    many: list[Inner] = field(default_factory=list)


class Typed(TypedDict):
    sku: str
    price: NotRequired[Decimal]


class Loose(TypedDict, total=False):
    sku: str


class Model(BaseModel):
    sku: str
    price: Decimal | None = None


class Named(NamedTuple):
    sku: str
    price: float


def test_a_dataclass() -> None:
    assert types_of(Everything) == {
        "sku": "text", "title": "text?", "count": "int", "share": "float", "price": "decimal?", "new": "bool", "day": "date",
        "at": "datetime", "raw": "bytes", "tags": "json", "more": "json?", "inner": "json", "noted": "int", "state": "text?",
        "number": "float", "money": "decimal", "anything": "json?", "left": "text", "many": "json",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("record", "types"),
    [
        (Typed, {"sku": "text", "price": "decimal?"}),
        (Loose, {"sku": "text?"}),
        (Model, {"sku": "text", "price": "decimal?"}),
        (Named, {"sku": "text", "price": "float"}),
        ({"sku": str, "price": Decimal | None}, {"sku": "text", "price": "decimal?"}),
    ],
)
def test_other_forms(record: Any, types: dict[str, str]) -> None:
    assert types_of(record) == types


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"a": complex}, "'a' is complex, which is no type of a column. Use str, int"),
        ({"a": int | str}, "'a' may be int or text; a column has one type"),
        ({"a": Literal["x", 1]}, "'a' may be int or text; a column has one type"),
        ("Lamp", "record is a str; it must be a class with annotations, or a mapping of names to types"),
        (object, "object has no annotations that could be columns"),
    ],
)
def test_what_cannot_be_a_column(record: Any, said: str) -> None:
    with pytest.raises(SiteError, match=said):
        types_of(record)
