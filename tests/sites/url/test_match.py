"""Which layer a URL belongs to."""

from __future__ import annotations

import pytest

from gossamer.sites.url.match import Matcher, is_whole, path_and_query
from gossamer.sites.url.pattern import LONG

HOSTS = frozenset({"a.example", "b.example:8080"})


def matcher(**patterns: str) -> Matcher:
    return Matcher(patterns.items(), HOSTS)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://a.example/x/1?p=2#f", "/x/1?p=2#f"),
        ("http://a.example", "/"),
        ("http://a.example?q=1", "/?q=1"),
        ("http://a.example/", "/"),
        ("/only/path", "/only/path"),
    ],
)
def test_path_and_query(url: str, expected: str) -> None:
    assert path_and_query(url) == expected


def test_the_pattern_that_takes_up_most_of_the_url_counts() -> None:
    found = matcher(any=r"^/list", one=r"^/list/(?P<n>\d+)", exact=r"^/list/\d+\?all=1")
    assert found.layer_of("http://a.example/list") == ("any", {})
    assert found.layer_of("http://a.example/list/17") == ("one", {"n": "17"})
    assert found.layer_of("http://a.example/list/17?all=1") == ("exact", {})
    assert found.layer_of("http://a.example/other") is None


def test_then_the_longer_pattern_then_the_first() -> None:
    assert matcher(a=r"^/\w+$", b=r"^/[a-z]+\w*$").layer_of("http://a.example/abc") == ("b", {})
    assert matcher(a=r"^/\w\w\w", b=r"^/abc\b").layer_of("http://a.example/abc") == ("a", {})
    assert matcher(b=r"^/[a]bc", a=r"^/a[b]c").layer_of("http://a.example/abc") == ("b", {})


def test_paths_match_on_the_own_hosts_with_or_without_www() -> None:
    found = matcher(a="^/a", w=r"^https?://(?P<host>[^/]+)/w")
    for url in ("http://a.example/a", "https://www.a.example/a", "http://b.example:8080/a", "http://A.EXAMPLE:80/a"):
        assert found.layer_of(url) == ("a", {}), url
    for url in ("http://c.example/a", "http://b.example/a", "http://x.a.example/a", "http://[bad/a", ""):
        assert found.layer_of(url) is None, url


def test_patterns_of_whole_urls_match_on_any_host() -> None:
    found = matcher(a="^/a", w=r"^https?://(?P<host>[^/]+)/w")
    assert found.layer_of("https://c.example/w?x=1") == ("w", {"host": "c.example"})
    assert is_whole("http://x")
    assert is_whole("^https?://x")
    assert not is_whole("/http")


def test_a_site_without_hosts_matches_on_any() -> None:
    for hosts in (None, frozenset[str]()):
        assert Matcher([("a", "^/a")], hosts).layer_of("http://anywhere.example/a") == ("a", {})


def test_groups_of_one_layer_are_told_wherever_the_url_belongs() -> None:
    found = matcher(a=r"^/(?P<x>\w+)(?:/(?P<y>\w+))?", b=r"^/one/two/three")
    assert found.groups("a", "http://elsewhere.example/one#f") == {"x": "one"}
    assert found.groups("a", "http://a.example/one/two/three") == {"x": "one", "y": "two"}
    assert found.groups("b", "http://a.example/") == {}
    assert found.groups("nobody", "http://a.example/") == {}


def test_what_follows_the_hash_is_never_looked_at() -> None:
    found = matcher(a=r"^/a$")
    assert found.layer_of("http://a.example/a#b") == ("a", {})


def test_endless_urls_belong_nowhere() -> None:
    assert matcher(a="^/").layer_of(f"http://a.example/{'x' * LONG}") is None
