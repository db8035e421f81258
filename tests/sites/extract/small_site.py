"""A small site and short ways to read pages by it, for the tests of reading."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

import yaml  # type: ignore[import-untyped]
from w3lib.url import canonicalize_url

from gossamer.model.page import Response
from gossamer.sites.extract.layer import LayerReader, compile_layer
from gossamer.sites.format import Layer
from gossamer.sites.page import Reading

PAGES = Path(__file__).parent / "pages"
URL = "http://bbs.example/list/python/3"
MATCHES = {
    "list": r"/list/(?P<forum>\w+)/(?P<page>\d+)",
    "post": r"/post/(?P<id>\d+)",
    "product": r"/product",
    "keeping": r"/keeping",
}


class SmallSite:
    """Layers by pattern, identity by canonical URL; the layer `keeping` also by the fragment."""

    def __init__(self, depth: int = 0, **params: Any) -> None:
        self.params: Mapping[str, Any] = params
        self.limits_depth = depth

    def has_layer(self, name: str) -> bool:
        return name in MATCHES or name == "here"

    def layer_of(self, url: str) -> tuple[str, Mapping[str, str]] | None:
        for layer, pattern in MATCHES.items():
            if found := re.search(pattern, url):
                return layer, found.groupdict()
        return None

    def is_own(self, url: str) -> bool:
        return url.startswith("http://bbs.example/")

    def layer_there(self, site: str, url: str) -> str | None:
        return None

    def groups(self, layer: str, url: str) -> Mapping[str, str]:
        found = re.search(MATCHES.get(layer, "/list/(?P<forum>\\w+)/(?P<page>\\d+)"), url)
        return found.groupdict() if found else {}

    def shares_memory(self, one: str, other: str) -> bool:
        return True

    def fingerprint(self, layer: str, url: str, method: str = "GET", body: bytes = b"") -> int:
        return crc32(f"{method} {canonicalize_url(url, keep_fragments=layer == 'keeping')}".encode() + body)


def saved(name: str) -> bytes:
    return (PAGES / name).read_bytes()


def layer(text: str) -> Layer:
    return Layer.model_validate(yaml.safe_load(text))


def reader(text: str, name: str = "here", site: SmallSite | None = None) -> LayerReader:
    return compile_layer(name, layer(text), site or SmallSite())


def read(
    text: str,
    body: bytes | str = b"",
    url: str = URL,
    content_type: str = "text/html",
    site: SmallSite | None = None,
    name: str = "here",
    **rest: Any,
) -> Reading:
    headers = {"content-type": content_type, **rest.pop("headers", {})}
    body = body.encode() if isinstance(body, str) else body
    return reader(text, name, site).read(Response(url, rest.pop("status", 200), headers, body, **rest))


def fields(text: str, body: bytes | str = b"", **rest: Any) -> dict[str, Any]:
    """The fields of the page's only record."""
    (record,) = read(text, body, **rest).records
    return record.fields


def urls(reading: Reading) -> list[str]:
    return [link.url for link in reading.links]
