"""Fingerprints are Scrapy's, byte for byte, whichever way they were made."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Callable
from hashlib import sha1
from typing import Any

import pytest
from bench import fingerprint as bench
from bench.urls import Urls
from hypothesis import given, settings
from hypothesis import strategies as st
from scrapy import FormRequest, Request, Spider
from scrapy.crawler import Crawler
from scrapy.http import JsonRequest
from scrapy.utils.misc import build_from_crawler, load_object
from scrapy.utils.request import RequestFingerprinter
from scrapy.utils.request import fingerprint as scrapy_fingerprint
from w3lib.url import canonicalize_url

from gossamer.errors import InvalidRequest, SettingError
from gossamer.scrapy.seen.memory import number_of, number_of_custom
from gossamer.scrapy.speedups import fingerprint as module
from gossamer.scrapy.speedups.fingerprint import Fingerprinter, canonical, number_by
from gossamer.sites.url.canonical import fast_path, without_default_port

FACTOR = int(os.environ.get("MACHINE_FACTOR", "1"))
"""So many times as many examples: `make chaos` says ten."""
QUICK = [
    "http://example.com/",
    "https://www.example.com:8443/a/b.html",
    "http://127.0.0.1:54321/p",
    "http://xn--bcher-kva.example/",
    "http://a_b.example./",
    "http://example.com//a//b/",
    "http://example.com/a!$&'()*+,:@=b~c_d-e.f",
    "http://example.com/%20%22%3C%C3%A9%E9%FF%00%0A%2F%3F%5C%7F",
    "http://example.com/?a=1",
    "http://example.com/?a",
    "http://example.com/?a=",
    "http://example.com/?a=b+c%2Bd%26e%3Df%25g%27",
    "http://example.com/?caf%C3%A9=%E9",
    "http://example.com/?b=2&a=1",
    "http://example.com/?a=2&a=1&a=1&a&a=",
    "http://example.com/?a.b=1&a=2&a-b=3&a_b=4&A=5&a+b=6",
    "http://example.com/?a%5B%5D=2&a%5B%5D=1&a=3&a%21=4&a+=5",
    "http://example.com/?a=%C3%A9&a=z&a=%7B&a=%2B&a=+",
    "http://example.com/a#top",
    "http://example.com/a?b=1#?c=%zz;",
    "http://example.com/a#",
]
"""Taken the short way."""

LONG_WAY = [
    "http://example.com",
    "http://example.com?a=1",
    "http://example.com/?",
    "http://example.com/a?#b",
    "HTTP://example.com/",
    "http://Example.com/",
    "http://bücher.example/",
    "http://user:pa%20ss@example.com/",
    "http://example.com:/",
    "http://example.com:080/",
    "http://example.com:65535/",
    "http://[::1]/",
    "http://[0:0::1]:80/",
    "http://example.com/a;b",
    "http://example.com/a;",
    "http://example.com/a;b=1/c;d",
    "http://example.com/a/./b",
    "http://example.com/a/../b",
    "http://example.com/..",
    "http://example.com/.well-known/x",
    "http://example.com/%7Euser/%41",
    "http://example.com/%2f%c3%a9",
    "http://example.com/%2E%2E/a",
    "http://example.com/%25%23%3B",
    "http://example.com/%2541",
    "http://example.com/%",
    "http://example.com/%zz",
    "http://example.com/é ü",
    "http://example.com/[a]|b",
    "http://example.com/a\\b",
    'http://example.com/a"b',
    "http://example.com/\ta\n",
    "http://example.com/a\n",
    "http://example.com/?a=%20b",
    "http://example.com/?a=%7E",
    "http://example.com/?a=%e9",
    "http://example.com/?a=%00&a%00=1",
    "http://example.com/?a=b=c",
    "http://example.com/?=b&=",
    "http://example.com/?a=1&&b=2&",
    "http://example.com/?a=1;b=2",
    "http://example.com/?a=é",
    "http://example.com/?a=/b?c",
    "http://example.com/?a=[]'",
    "http://example.com/a#é",
    "http://example.com/a#b#c",
    "ftp://example.com/a?b=2&a=1",
    "data:text/html,<p>a/../b</p>",
    "data:,",
    "file:///tmp/a/../b",
    "mailto:a/../b@example.com",
    "/relative?b=1&a=2",
    "",
]
"""Taken the long way."""


SYMBOLS = [*map(chr, range(0x20, 0x7F)), *(f"%{byte:02X}" for byte in range(256))]
MEANINGFUL = [
    *"abA0-._~+%&=;?#/@:[]é\\'|,",
    "%2",
    "%2F",
    "%2f",
    "%C3%A9",
    "%41",
    "%20",
    "%00",
    "%25",
    "//",
    "/.",
    "/..",
]


def outcome(make: Callable[[str], str], url: str) -> object:
    try:
        return make(url)
    except Exception as error:
        return type(error)


@pytest.fixture
def cold() -> None:
    for kept in module._digests.values():
        kept.cache_clear()


@pytest.mark.parametrize("url", QUICK)
def test_a_url_of_plain_parts_takes_the_short_way_to_the_canonical_form(url: str) -> None:
    assert fast_path(url) == canonicalize_url(url)


@pytest.mark.parametrize("url", LONG_WAY)
def test_any_other_url_is_left_to_w3lib(url: str) -> None:
    assert fast_path(url) is None
    assert canonical(url) == canonicalize_url(url)


@pytest.mark.parametrize("part", range(4))
def test_generated_urls_have_the_canonical_form_that_w3lib_gives(part: int) -> None:
    quick, number = 0, 3_000 * FACTOR
    for url in Urls(part).wild(number):
        assert outcome(canonical, url) == outcome(canonicalize_url, url), url
        quick += fast_path(url) is not None
    # A generator that only ever takes one way would prove nothing.
    assert 0.3 < quick / number < 0.7


def test_generated_requests_have_the_digests_of_scrapy() -> None:
    fingerprinter, same = Fingerprinter(), 0
    number = 2_000 * FACTOR
    for url in Urls(99).wild(number):
        try:
            request = Request(url)
            expected = scrapy_fingerprint(request)
        except ValueError:
            continue
        assert fingerprinter.fingerprint(request) == expected, url
        same += 1
    assert same > 0.8 * number


@pytest.mark.parametrize("form", ["/a{}b", "/{}", "/?a={}", "/?a{}b", "/?{}=c", "/?z=1&a=%7B{}", "/#{}"])
def test_every_character_and_every_escape_is_judged_rightly_everywhere(form: str) -> None:
    for symbol in SYMBOLS:
        url = "http://example.com" + form.format(symbol)
        assert canonical(url) == canonicalize_url(url), url


@pytest.mark.parametrize("form", ["{}=1&{}=1", "a{}=1&a{}=1", "a={}&a={}", "a={}&a{}"])
def test_arguments_are_ordered_by_what_their_escapes_mean(form: str) -> None:
    admitted = [symbol for symbol in SYMBOLS if fast_path(f"http://a/?{symbol}") is not None]
    assert len(admitted) > 200
    for one in admitted:
        for other in ("+", "-", "0", "A", "_", "~", "%01", "%21", "%2C", "%7F", "%80", one):
            url = "http://a/?" + form.format(one, other)
            assert fast_path(url) == canonicalize_url(url), url


@given(st.lists(st.sampled_from(SYMBOLS), max_size=12), st.lists(st.sampled_from([*SYMBOLS, *"&&&&==="]), max_size=16))
@settings(max_examples=100 * FACTOR, deadline=None)
def test_no_row_of_symbols_leads_astray(path: list[str], query: list[str]) -> None:
    for url in ("http://a/" + "".join(path) + "?" + "".join(query), "https://a.example:81/?" + "".join(query)):
        assert outcome(canonical, url) == outcome(canonicalize_url, url)


@given(st.lists(st.sampled_from(MEANINGFUL), max_size=14))
@settings(max_examples=100 * FACTOR, deadline=None)
def test_no_row_of_characters_that_mean_something_leads_astray(pieces: list[str]) -> None:
    for front in ("http://example.com/", "https://example.com:81/p?", "http://"):
        url = front + "".join(pieces)
        assert outcome(canonical, url) == outcome(canonicalize_url, url)


def test_tidy_urls_need_no_w3lib(monkeypatch: pytest.MonkeyPatch, cold: None) -> None:
    urls, fingerprinter = Urls(5), Fingerprinter()
    monkeypatch.delattr(module, "canonicalize_url")
    digests = {fingerprinter.fingerprint(Request(urls.tidy())) for _ in range(200)}
    assert len(digests) > 190


@pytest.mark.parametrize(
    "request_",
    [
        Request("http://example.com/a?b=2&a=1", method="POST"),
        Request("http://example.com/", method="POST", body=b"\x00\xff body"),
        Request("http://example.com/", body=b"a body of a GET"),
        Request("http://Example.com", method="HEAD"),
        Request("http://example.com/", method='an "odd" méthod'),
        FormRequest("http://example.com/", formdata={"b": "2", "a": "1"}),
        FormRequest("http://example.com/?c=1", method="GET", formdata={"b": "2", "a": "é"}),
        JsonRequest("http://example.com/", data={"a": [1, "é"]}),
        Request("http://example.com/é?q=é", encoding="latin-1"),
        Request("http://example.com/", headers={"Accept": "x"}, cookies={"a": "b"}, dont_filter=True, priority=9),
        Request("http://example.com/b?b=1&a=2#c", meta={"verbatim_url": True}),
        Request("http://example.com/b?b=1&a=2#c", meta={"verbatim_url": True}, method="POST", body=b"x"),
        Request("http://example.com/b?b=1&a=2#c", meta={"verbatim_url": False}),
        Request("http://example.com/" + "a" * 5000 + "?b&a"),
        Request("data:text/plain;base64," + "QUJD" * 5000),
    ],
    ids=lambda r: f"{r.method[:4]}-{r.url[:40]}",
)
def test_methods_bodies_and_verbatim_urls_count_as_with_scrapy(request_: Request) -> None:
    fingerprinter = Fingerprinter()
    assert fingerprinter.fingerprint(request_) == scrapy_fingerprint(request_)
    assert fingerprinter.fingerprint(request_.copy()) == scrapy_fingerprint(request_)
    assert fingerprinter.number(request_) == int.from_bytes(scrapy_fingerprint(request_)[:8], "big")


def test_a_request_asked_twice_is_hashed_once(monkeypatch: pytest.MonkeyPatch, cold: None) -> None:
    hashed: list[bytes] = []

    def counted(data: bytes) -> Any:
        hashed.append(data)
        return sha1(data)

    monkeypatch.setattr(module, "sha1", counted)
    fingerprinter = Fingerprinter()
    posted = Request("http://example.com/x", method="POST", body=b"y" * 100_000)
    hashed.clear()
    assert fingerprinter.fingerprint(posted) is fingerprinter.fingerprint(posted)
    assert len(hashed) == 1
    plain, kept = Request("http://example.com/x"), module._digests[False]
    assert fingerprinter.fingerprint(plain) is fingerprinter.fingerprint(plain.copy())
    assert (kept.cache_info().misses, kept.cache_info().hits) == (1, 1)


def test_what_is_kept_is_bounded(cold: None) -> None:
    fingerprinter, kept = Fingerprinter(), module._digests[False]
    assert kept.cache_info().maxsize == module.REMEMBERED
    fingerprinter.fingerprint(Request("data:," + "a" * module.LONG))
    assert kept.cache_info().currsize == 0
    posted = Request("http://example.com/", method="POST", body=b"z")
    before = len(module._bodied[False])
    fingerprinter.fingerprint(posted)
    assert len(module._bodied[False]) == before + 1
    del posted
    gc.collect()
    assert len(module._bodied[False]) == before


def test_default_ports_count_unless_told_otherwise() -> None:
    plain, portless = Fingerprinter(), Fingerprinter(default_ports=True)
    pairs = [
        ("http://example.com:80/a?b=1", "http://example.com/a?b=1"),
        ("https://example.com:443", "https://example.com/"),
        ("HTTP://Example.com:080/", "http://example.com/"),
        ("http://u:80@example.com:80/", "http://u:80@example.com/"),
    ]
    for with_port, without in pairs:
        assert plain.fingerprint(Request(with_port)) == scrapy_fingerprint(Request(with_port))
        assert plain.fingerprint(Request(with_port)) != plain.fingerprint(Request(without))
        for method in ("GET", "POST"):
            one, other = Request(with_port, method=method), Request(without, method=method)
            assert portless.fingerprint(one) == portless.fingerprint(other) == scrapy_fingerprint(other)
    for url in ("http://example.com:443/", "https://example.com:80/", "http://e.com/:80/", "http://e.com/?a=http://b:80/", "http://u:80@e.com/"):  # fmt: skip
        assert portless.fingerprint(Request(url)) == scrapy_fingerprint(Request(url))
    # Not by a request: older versions of w3lib lose the brackets.
    for url in ("http://[::80]/", "http://u:80@[::1]/", "https://[::443]:80/"):
        assert without_default_port(url) == url
    assert without_default_port("http://u:80@[::80]:80/") == "http://u:80@[::80]/"


class Custom:
    """A fingerprinter whose answers all begin alike."""

    def fingerprint(self, request: Request) -> bytes:
        return b"https://www.example.com/" + request.url.encode()


class Wrong:
    def fingerprint(self, request: Request) -> Any:
        return request.url


def test_the_fingerprinter_of_a_project_is_honoured() -> None:
    one, other = Request("http://example.com/?a=1&b=2"), Request("http://example.com/?b=2&a=1")
    by_default = number_by(RequestFingerprinter())
    assert by_default(one) == by_default(other) == number_of(scrapy_fingerprint(one))
    assert number_by(Fingerprinter())(one) == by_default(one)
    custom = number_by(Custom())
    assert custom(one) != custom(other)
    assert custom(one) == number_of_custom(Custom().fingerprint(one)) < 2**64
    ported = Request("http://example.com:80/?a=1&b=2")
    assert number_by(RequestFingerprinter(), default_ports=True)(ported) == by_default(one)


def test_a_fingerprinter_that_returns_no_bytes_is_named() -> None:
    with pytest.raises(
        InvalidRequest, match=r"Wrong.fingerprint\(\) returned 'http://example.com/'.*must return bytes"
    ):
        number_by(Wrong())(Request("http://example.com/"))


def test_scrapy_uses_it_as_request_fingerprinter_class() -> None:
    path = f"{Fingerprinter.__module__}.{Fingerprinter.__qualname__}"

    def built(ports: str) -> Any:
        crawler = Crawler(Spider, {"GOSSAMER_FINGERPRINT_DEFAULT_PORTS": ports})
        return build_from_crawler(load_object(path), crawler)

    assert built("1").fingerprint(Request("http://a.example:80/")) == scrapy_fingerprint(Request("http://a.example/"))
    with pytest.raises(SettingError, match="GOSSAMER_FINGERPRINT_DEFAULT_PORTS from Scrapy settings: 'perhaps'"):
        built("perhaps")


def test_a_scrapy_with_other_fingerprints_is_followed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def other(request: Request) -> bytes:
        return json.dumps(request.url).encode()

    monkeypatch.setattr(module, "scrapy_fingerprint", other)
    module._agrees.cache_clear()
    try:
        fingerprinter = Fingerprinter()
    finally:
        monkeypatch.undo()
        module._agrees.cache_clear()
    assert fingerprinter.fingerprint(Request("http://example.com/")) == b'"http://example.com/"'
    assert "fingerprints of its own kind" in caplog.text
    assert module._agrees()


def test_the_benchmark_compares_and_times_every_kind_of_url() -> None:
    assert bench.compare(1, 200)["urls"] == 200
    rows = bench.speed(800)
    assert [row["urls"] for row in rows] == list(bench.kinds(1))
    assert all(row["scrapy cold"] > 0 and row["gossamer warm"] > 0 for row in rows)


def test_the_benchmark_would_find_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "fast_path", lambda url: "http://example.com/" if "topic" in url else None)
    with pytest.raises(AssertionError, match="canonical form of"):
        bench.compare(1, 200)


def test_a_url_inside_a_path_keeps_its_port() -> None:
    assert without_default_port("http://a:80/http://b:80/c") == "http://a/http://b:80/c"
    assert without_default_port("http://a/http://b:80/c") == "http://a/http://b:80/c"
