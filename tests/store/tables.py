"""The tables that the tests of the store write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gossamer.store import Column, Row, Store, Table

POSTS = Table("posts", (Column("url", "text"), Column("title", "text"), Column("views", "int")), ("url",))
REPLIES = Table("replies", (Column("body", "text"),), parent="posts")
VOTES = Table("votes", (Column("who", "text"), Column("stars", "int")), ("who",), parent="replies")
FORUM = [POSTS, REPLIES, VOTES]

SHOPS = Table("shops", (Column("id", "int"), Column("name", "text")), ("id",))
GOODS = Table("goods", (Column("sku", "int"), Column("name", "text")), ("sku",), parent="shops")

PRICES = Table(
    "prices",
    (
        Column("url", "text"),
        Column("price", "decimal"),
        Column("tags", "json"),
        Column("fetched_at", "datetime", counts=False),
    ),
    ("url",),
    history=True,
)


def post(url: str, title: str = "", replies: Sequence[Row] | None = None, **values: Any) -> Row:
    children = {} if replies is None else {"replies": replies}
    return Row("posts", {"url": url, "title": title, **values}, children)


def reply(body: str, **votes: int) -> Row:
    given = {"votes": [Row("votes", {"who": who, "stars": stars}) for who, stars in votes.items()]} if votes else {}
    return Row("replies", {"body": body}, given)


def shop(number: int, name: str = "", goods: dict[int, str] | None = None) -> Row:
    children = {} if goods is None else {"goods": [Row("goods", {"sku": s, "name": n}) for s, n in goods.items()]}
    return Row("shops", {"id": number, "name": name}, children)


def titles(store: Store) -> dict[str, Any]:
    return {row["url"]: row["title"] for row in store.read("posts")}


def bodies(store: Store) -> dict[tuple[str, int], str]:
    return {(row["parent_url"], row["place"]): row["body"] for row in store.read("replies")}


def votes(store: Store) -> dict[tuple[str, int, str], int]:
    return {(row["parent_parent_url"], row["parent_place"], row["who"]): row["stars"] for row in store.read("votes")}


def goods(store: Store) -> dict[tuple[int, int], str]:
    return {(row["parent_id"], row["sku"]): row["name"] for row in store.read("goods")}
