"""Records in tables."""

from __future__ import annotations

from tests.engine.conformance.cases.case import case
from tests.engine.conformance.conformance import Came
from tests.support.site import Reply, Site

STORED = """
    seeds: [SITE/post/1, SITE/post/2, SITE/price/1, SITE/price/2, SITE/price/3]
    politeness: {robots: ignore, concurrency: 1}
    layers:
      post:
        match: '^/post/(?P<id>\\d+)'
        fields:
          id: {from: url, regex: '(\\d+)$', type: int}
          title: h1
          price: {css: i, type: decimal}
          at: {css: time, type: datetime}
          replies: {each: {css: li}, fields: {who: b, n: {css: u, type: int}}}
      price: {match: '^/price', fields: {title: h1, price: {css: i, type: decimal}}}
    store:
      price: {table: conformance_prices, key: [title], history: true}
      post: {table: conformance_posts, key: [id], add: [url, round, parent], children: {replies: {table: conformance_replies}}}
"""


def stored(site: Site, _: Site) -> None:
    for number in (1, 2):
        replies = "".join(f"<li><b>w{n}</b><u>{n}</u></li>" for n in range(number))
        body = f"<h1>T{number}</h1><i>{number}.50</i><time>2024-05-0{number}T10:00:00Z</time><ul>{replies}</ul>"
        site.on(f"/post/{number}", Reply(body=body))
    for number, price in enumerate((5, 5, 6), 1):
        site.on(f"/price/{number}", Reply(body=f"<h1>thing</h1><i>{price}</i>"))


@case(STORED, stored)
def records_in_tables(came: Came) -> None:
    assert came.items == []
    assert came.counters["site/records"] == 5
    found = came.rows("select id, title, round from conformance_posts order by id")
    assert found == [(1, "T1", 0), (2, "T2", 0)]
    assert came.rows("select parent_id, who, n from conformance_replies order by 1, 3") == [
        (1, "w0", 0), (2, "w0", 0), (2, "w1", 1),
    ]  # fmt: skip
    assert [float(price) for (price,) in came.rows("select price from conformance_prices order by price")] == [5, 6]
