"""Hooks and handlers that the site files of the conformance cases name. What they write down, the tests read."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from typing import Any


def tell(site: str, *said: Any) -> None:
    with open(os.environ["CONFORMANCE_TOLD"], "a") as file:
        file.write(json.dumps([site, *said]) + "\n")


def before_request(ask: Any) -> Any:
    if ask.url.endswith("/post/never"):
        return None
    return ask._replace(headers={**ask.headers, "X-Hook": "yes"})


async def after_download(document: Any) -> Any:
    return document._replace(body=document.body.replace(b"Title", b"TITLE"))


def after_extract(document: Any, reading: Any) -> Any:
    return reading


def before_store(record: Any) -> Any:
    if record.fields.get("title") == "unwanted":
        return None
    record.fields["stored"] = True
    return record


def on_fail(url: str, reason: str, detail: str) -> None:
    tell("hooks", "fail", url, reason)


async def after_round(site: str, number: int) -> None:
    tell(site, "round", number)


async def post(page: Any) -> AsyncIterator[Any]:
    yield {"title": page.css("h1::text").get().upper(), "depth": page.depth, "from": page.inherited.get("n")}
    for address in page.css("a::attr(href)").getall():
        yield page.follow(address, "post", inherited={"n": page.depth})


def broken(document: Any) -> Any:
    raise KeyError("oh")
