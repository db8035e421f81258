"""Which URLs are the same page."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from w3lib.url import canonicalize_url

from gossamer.model import fingerprint
from gossamer.model.page import Response
from gossamer.sites.compile import compile_site
from gossamer.sites.file.load import load_text
from gossamer.sites.format import Identity
from gossamer.sites.url.canonical import canonical, without_default_port
from gossamer.sites.url.identity import LONG, Identifier, _known

BASE = "http://a.example/p"


def identity(given: object) -> Identifier:
    return Identifier(Identity.model_validate(given))


@pytest.mark.parametrize(
    ("rule", "url", "result"),
    [
        ("all", f"{BASE}?b=2&a=1#x", f"{BASE}?a=1&b=2"),
        ("none", f"{BASE}?b=2&a=1", BASE),
        ("none", f"{BASE}?", BASE),
        (["id", "page"], f"{BASE}?utm_x=1&page=2&id=7&x", f"{BASE}?id=7&page=2"),
        ({"keep": "id*"}, f"{BASE}?id=1&idx=2&di=3", f"{BASE}?id=1&idx=2"),
        ({"drop": ["utm_*", "sid"]}, f"{BASE}?utm_source=a&b=1&sid=9&utm_x", f"{BASE}?b=1"),
        ({"drop": "*"}, f"{BASE}?a=1", BASE),
        ({"keep": ["a*"], "drop": ["ab"]}, f"{BASE}?ab=1&ac=2", f"{BASE}?ac=2"),
        ({"drop": ["a b", "é"]}, f"{BASE}?a+b=1&a%20b=2&%C3%A9=3&c=4", f"{BASE}?c=4"),
        ({"fragment": True}, f"{BASE}?b=1#top", f"{BASE}?b=1#top"),
        ({"fragment": True, "keep": []}, f"{BASE}?b=1#top?x=1", f"{BASE}#top?x=1"),
        ("all", "HTTP://A.example:80/p", BASE),
        ("all", "https://a.example:443", "https://a.example/"),
        ("all", "http://a.example:8080/", "http://a.example:8080/"),
        ("all", "http://[bad", "http://[bad"),
    ],
)
def test_what_does_not_count_is_cut_off(rule: object, url: str, result: str) -> None:
    found = identity(rule)
    assert found.canonical(url) == result
    assert found.fingerprint(url) == fingerprint(result)


def test_method_and_body_make_another_request() -> None:
    found = identity("all")
    numbers = {
        found.fingerprint(BASE),
        found.fingerprint(BASE, "POST"),
        found.fingerprint(BASE, "POST", b"x"),
        found.fingerprint(BASE, "GET", b"x"),
    }
    assert len(numbers) == 4
    assert found.fingerprint(BASE, "get") == found.fingerprint(BASE)


def test_long_urls_are_not_kept() -> None:
    found = identity("all")
    url = f"{BASE}?q={'x' * LONG}"
    assert found.fingerprint(url) == fingerprint(f"{BASE}?q={'x' * LONG}")
    before = _known.cache_info().misses
    found.fingerprint(url)
    found.fingerprint(f"{BASE}?of=this&test")
    found.fingerprint(f"{BASE}?of=this&test")
    assert _known.cache_info().misses == before + 1


def test_sites_do_not_take_each_others_numbers() -> None:
    assert identity("none").fingerprint(f"{BASE}?a") == fingerprint(BASE) != identity("all").fingerprint(f"{BASE}?a")


@pytest.mark.parametrize(
    ("said", "url", "compared"),
    [
        ({}, "http://a.example/x;jsessionid=1A2B?b=1&a=2", "http://a.example/x?a=2&b=1"),
        ({}, "http://a.example/x;JSESSIONID=1A2B.node/y", "http://a.example/x/y"),
        ({}, "http://a.example/x;v=1?q=;jsessionid=2", "http://a.example/x;v=1?q=%3Bjsessionid%3D2"),
        ({"drop": ["sid", "s_*"]}, "http://a.example/x;sid=1;v=2;s_a/y;sid?sid=3&b=1", "http://a.example/x;v=2/y?b=1"),
        ({"keep": ["b"]}, "http://a.example/x;v=2?a=1&b=2", "http://a.example/x;v=2?b=2"),
        (
            {"rewrite": [["^https?://m\\.", "https://"], ["/amp/?$", ""]]},
            "http://m.a.example/x/amp/",
            "https://a.example/x",
        ),
        (
            {"rewrite": [["/p/(\\d+)-[^/?]*", "/p/\\1"]], "keep": []},
            "http://a.example/p/7-red-lamp?x=1",
            "http://a.example/p/7",
        ),
    ],
)
def test_sessions_in_paths_and_rewritten_urls(said: dict[str, object], url: str, compared: str) -> None:
    found = Identifier(Identity.model_validate(said))
    assert found.canonical(url) == compared
    assert found.fingerprint(url) == fingerprint(compared)
    assert found.canonical(compared) == compared


def test_a_rewrite_that_takes_too_long_leaves_the_url(caplog: pytest.LogCaptureFixture) -> None:
    found = Identifier(Identity(rewrite=(("(a|aa)+$", ""),)))
    url = f"http://a.example/{'a' * 1500}!"
    assert found.canonical(url) == url
    assert "identity.rewrite" in caplog.text


@pytest.mark.parametrize(
    ("head", "headers", "own"),
    [
        ('<link rel="canonical" href="/p/7">', {}, "http://a.example/p/7"),
        (
            "<LINK href='http://www.a.example/p/7?a=1&amp;b=2#top' REL='shortlink Canonical'/>",
            {},
            "http://www.a.example/p/7?a=1&b=2",
        ),
        ("<base href='/deep/'><link rel=canonical href=7>", {}, "http://a.example/deep/7"),
        ("", {"link": '</x>; rel=next, </p/8>; title="a, b"; rel="canonical"'}, "http://a.example/p/8"),
        ("<link rel=canonical href=http://b.example/p/7>", {}, "http://a.example/x?sid=1"),
        ("<!-- <link rel=canonical href=/p/7> --><link rel=canonical href=''>", {}, "http://a.example/x?sid=1"),
        ("<!--><link rel=canonical href=/p/7>", {}, "http://a.example/p/7"),
        ("<body><link rel=canonical href=/p/7>", {}, "http://a.example/x?sid=1"),
        ("<link rel=canonical href='javascript:x'><link rel=next href=/canonical>", {}, "http://a.example/x?sid=1"),
        # On some sites all pages name the front page, or the list that leads to them.
        ("<link rel=canonical href=/>", {}, "http://a.example/x?sid=1"),
        ("<link rel=canonical href=/list/7>", {}, "http://a.example/x?sid=1"),
        ("<link rel=canonical href=/?id=7>", {}, "http://a.example/?id=7"),
    ],
)
def test_the_url_that_a_page_names_as_its_own(head: str, headers: dict[str, str], own: str) -> None:
    (site,) = load_text(
        "site: a\nseeds: http://a.example/\nidentity: {canonical: true}\nlayers: {p: {match: ^/x}, q: {identity: all}, list: {match: ^/list}}\n"
    )
    page = Response("http://a.example/x?sid=1", 200, headers, f"<html><head>{head}</head><body>".encode())
    compiled = compile_site(site)
    assert compiled.own_url("p", page) == own
    assert compiled.own_url("q", page) == page.url


words = st.text("abzAZ019-._~+!$'()*,;:@=/%é &?#[]|\\\"<>", max_size=12)
escapes = st.sampled_from(["%20", "%2f", "%2F", "%41", "%c3%a9", "%C3%A9", "%00", "%25", "%23", "%3B", "%7e", "%zz"])
parts = st.lists(words | escapes, max_size=5).map("".join)
hosts = st.sampled_from(
    [
        "a.example",
        "A.Example",
        "a.example:80",
        "a.example:443",
        "a.example:8080",
        "1.2.3.4",
        "[::1]",
        "é.example",
        "u:p@a.example",
        "a_b.example",
    ]
)


@settings(max_examples=500, deadline=None)
@given(st.sampled_from(["http", "https", "HTTP", "ftp"]), hosts, parts, st.none() | parts, st.none() | parts)
def test_the_short_way_gives_what_w3lib_gives(
    scheme: str, host: str, path: str, query: str | None, fragment: str | None
) -> None:
    url = (
        f"{scheme}://{host}/{path}"
        + ("" if query is None else f"?{query}")
        + ("" if fragment is None else f"#{fragment}")
    )
    try:
        expected = without_default_port(canonicalize_url(url))
    except ValueError:
        expected = url
    assert canonical(url) == expected


plain = st.text("abzAZ019-._~+", min_size=1, max_size=6)
arguments = st.lists(st.tuples(plain, plain | st.just("") | st.none()), min_size=1, max_size=6)


@settings(max_examples=300, deadline=None)
@given(arguments, st.randoms(use_true_random=False))
def test_the_order_of_arguments_does_not_count(pairs: list[tuple[str, str | None]], random: object) -> None:
    written = [name if value is None else f"{name}={value}" for name, value in pairs]
    shuffled = list(written)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = (f"http://a.example/?{'&'.join(words)}" for words in (written, shuffled))
    assert canonical(one) == canonical(other) == canonicalize_url(one)
    assert canonical(canonical(one)) == canonical(one)
