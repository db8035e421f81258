"""Safe URLs: what is let through at once is what w3lib would have given back."""

from __future__ import annotations

import os
import random
import re
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from w3lib.url import safe_url_string

from gossamer.scrapy.speedups.urls import install_fast_path, is_safe

FACTOR = int(os.environ.get("MACHINE_FACTOR", "1"))
"""So many times as many examples: `make chaos` says ten."""
PIECES = [
    "a",
    "Z",
    "9",
    "-",
    "_",
    "~",
    ".",
    "..",
    "/",
    "//",
    "?",
    "&",
    "=",
    "#",
    "%41",
    "%2f",
    " ",
    "é",
    ";",
    "+",
    ":",
    "@",
    "'",
]
HOSTS = ["example.com", "a.b-c.example", "127.0.0.1", "127.1", "0x7f.1", "1.2.3.256", "xn--a.example", "ab--c.example", "EXAMPLE.com",
         "exa_mple.com", "example.com.", "-a.example", "localhost", "1example", "example.1", "[::1]", "a" * 64 + ".example"]  # fmt: skip
PORTS = ["", ":80", ":443", ":8080", ":080", ":0", ":65535", ":65536", ":99999", ":"]


def addresses() -> st.SearchStrategy[str]:
    tail = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
    return st.builds(
        lambda scheme, host, port, slash, rest: f"{scheme}://{host}{port}{slash}{rest}",
        st.sampled_from(["http", "https", "HTTP", "ftp"]),
        st.sampled_from(HOSTS),
        st.sampled_from(PORTS),
        st.sampled_from(["/", "", "?"]),
        tail,
    )


@settings(max_examples=250 * FACTOR, deadline=None)
@given(addresses())
def test_a_safe_url_comes_back_as_it_went_in(url: str) -> None:
    if is_safe(url):
        assert safe_url_string(url) == url
        assert safe_url_string(url, "latin-1") == url


def test_real_looking_urls_are_safe_and_come_back() -> None:
    chance = random.Random(7)
    words = ["post", "list", "user", "2026", "a-b", "x_y", "Page", "index.html", "file.tar.gz", "v1.2"]
    taken = 0
    for _ in range(20_000):
        path = "/".join(chance.choice(words) for _ in range(chance.randint(0, 5)))
        query = "&".join(f"{chance.choice(words)}={chance.randint(0, 999)}" for _ in range(chance.randint(0, 4)))
        host = chance.choice(["example.com", "www.shop.example", "127.0.0.1", "forum.example.org"])
        url = f"https://{host}{chance.choice(['', ':8080', ':29009'])}/{path}" + (f"?{query}" if query else "")
        assert safe_url_string(url) == url
        taken += is_safe(url)
    assert taken > 19_000


@pytest.mark.parametrize(
    "url",
    ["http://example.com", "http://example.com/../a", "http://example.com/a b", "http://example.com:80/", "http://127.1/",
     "http://example.com/#a", "http://example.com/%7Ea", "data:text/plain,a", "http://xn--a.example/", "http://ab--c.example/"],
)  # fmt: skip
def test_anything_doubtful_goes_the_long_way(url: str) -> None:
    assert not is_safe(url)


def test_the_short_cut_asks_w3lib_for_the_rest() -> None:
    asked: list[Any] = []

    def long_way(url: Any, *more: Any, **named: Any) -> str:
        asked.append((url, more, named))
        return "made safe"

    module = cast(Any, SimpleNamespace(safe_url_string=long_way))
    install_fast_path(module)
    install_fast_path(module)
    assert module.safe_url_string("http://example.com/a", "utf-8") == "http://example.com/a"
    assert module.safe_url_string("http://example.com/é", "utf-8") == "made safe"
    assert module.safe_url_string(b"http://example.com/a") == "made safe"
    assert module.safe_url_string("http://example.com/a", encoding="utf-8") == "made safe"
    assert len(asked) == 3
    assert re.fullmatch("safe_url_string", module.safe_url_string.__name__)
