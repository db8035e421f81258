"""The shop of examples/sites/shop.yaml: lists with pages, and prices that change from day to day."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from gossamer.testing.examples.server import NOT_FOUND, Example, ExampleRequest, ExampleResponse, html

GOODS = {"lamps": 7, "chairs": 5}
"""Kinds of goods, and how many there are of each."""
PER_PAGE = 3
CHANGING = 4
"""Every fourth price is another one on the next day."""
TOMORROW = "/-/tomorrow"


class ShopExample(Example):
    """`POST /-/tomorrow` begins another day, as does `tomorrow()`."""

    name = "shop"
    port = 8102

    def __init__(self, port: int = 0) -> None:
        super().__init__(port)
        self.day = 1

    def tomorrow(self) -> list[str]:
        """Another day; returns what has another price now."""
        before = {one["sku"]: one["price"] for one in self.goods()}
        self.day += 1
        return [one["sku"] for one in self.goods() if one["price"] != before[one["sku"]]]

    def goods(self) -> list[dict[str, Any]]:
        """Everything that is sold, as a crawl should find it today."""
        return [self._one(kind, place) for kind, count in GOODS.items() for place in range(1, count + 1)]

    def answer(self, asked: ExampleRequest) -> ExampleResponse:
        if asked.path == TOMORROW and asked.method == "POST":
            changed = self.tomorrow()
            return ExampleResponse(f"day {self.day}: {len(changed)} prices have changed\n".encode(), "text/plain")
        match asked.path.strip("/").split("/"):
            case ["c", kind] if kind in GOODS:
                return ExampleResponse(self._list(kind, int(asked.query.get("page", 1))))
            case ["p", sku]:
                found = [one for one in self.goods() if one["sku"] == sku]
                return ExampleResponse(_page(found[0])) if found else NOT_FOUND
        return NOT_FOUND

    def _one(self, kind: str, place: int) -> dict[str, Any]:
        price = Decimal(place * 1250 + len(kind)) / 10 + 900
        if place % CHANGING == 1:
            price += 5 * (self.day - 1)
        return {
            "sku": f"{kind}-{place}",
            "name": f"{kind[:-1].title()} No. {place}",
            "price": price,
            "stock": 3 * place % 7,
            "kind": kind,
        }

    def _list(self, kind: str, page: int) -> bytes:
        every = [self._one(kind, place) for place in range(1, GOODS[kind] + 1)]
        rows = [
            f'<a class="item" href="/p/{one["sku"]}?ref=list-{page}">{one["name"]}</a>'
            for one in every[(page - 1) * PER_PAGE : page * PER_PAGE]
        ]
        turn = f'<a rel="next" href="/c/{kind}?page={page + 1}">next</a>' if page * PER_PAGE < len(every) else ""
        return html(kind, "".join(rows) + turn)


def _page(one: dict[str, Any]) -> bytes:
    # As they write it there: 1.025,60 €.
    price = f"{one['price']:,.2f}".translate(str.maketrans(",.", ".,"))
    stock = f"{one['stock']} in stock" if one["stock"] else "sold out"
    body = (
        f'<h1>{one["name"]}</h1><p class="sku">Article {one["sku"]}</p>'
        f'<p class="price">{price} €</p><p class="stock">{stock}</p>'
    )
    return html(one["name"], body)
