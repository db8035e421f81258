"""The shop of shop.yaml, in Python: the same pages, the same rows.

python -m gossamer.testing.examples shop &
gossamer crawl examples/sites/shop_in_python.py        # or: python examples/sites/shop_in_python.py
sqlite3 .gossamer/items.db 'select sku, price, valid_from from prices order by sku, valid_from'
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from decimal import Decimal

from gossamer import Output, Page, Site


@dataclass
class Product:
    """The columns of the table."""

    sku: str
    name: str
    kind: str | None
    price: Decimal
    stock: int


shop = Site(
    "shop-in-python",
    params={"base": "http://127.0.0.1:8102", "kind": ["lamps", "chairs"]},
    seeds=["{base}/c/{kind}"],
    schedule={"cron": "0 6 * * *", "tz": "Europe/Berlin", "deadline": "1h"},
    politeness={"delay": "20ms", "concurrency": 2, "adaptive": True},
    seen="round",
    store={"item": {"history": True}},
)


@shop.layer("list", match=r"^/c/(?P<kind>\w+)")
async def goods(page: Page) -> AsyncIterator[Output]:
    for link in page.css("a.item"):
        yield page.follow(link, to="item", inherited={"kind": page.groups["kind"]})
    for link in page.css("a[rel=next]"):
        yield page.follow(link, to="list")


@shop.layer(
    "item",
    match="^/p/",
    identity={"drop": ["ref"]},
    valid={"lacks": ["are you a robot"]},
    table="prices",
    key=["sku"],
    record=Product,
)
async def product(page: Page) -> Product:
    price = page.css(".price::text").re_first(r"[\d.,]+") or ""
    stock = page.css(".stock::text").re_first(r"\d+")
    return Product(
        sku=(page.css(".sku::text").get() or "").removeprefix("Article "),
        name=page.css("h1::text").get(default=""),
        kind=page.inherited.get("kind"),
        price=Decimal(re.sub(r"[^\d,]", "", price).replace(",", ".")),
        stock=int(stock or 0),
    )


if __name__ == "__main__":
    shop.run(workers=2)
