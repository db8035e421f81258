from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from gossamer.engine.http.url import address, is_own, parts, referer
from gossamer.model.fetch import FetchError

HOSTS = st.sampled_from(
    ["h", "a.example", "A.Example", "[::1]", "127.0.0.1", "b\u00fccher.example", "u:p@h", "", "h:80", "h:x", "a b"]
)
URLS = st.builds(
    lambda scheme, host, rest: f"{scheme}{host}{rest}",
    st.sampled_from(["http://", "https://", "//", "ftp://", ""]),
    HOSTS,
    st.text(max_size=30),
)


@given(URLS)
def test_whatever_is_asked_for_fits_into_the_first_line_of_a_request_or_is_refused(url: str) -> None:
    refused = None
    try:
        made, login = address(url)
    except FetchError as error:
        refused = error.reason, error.retriable
    if refused:
        assert refused == ("bad_request", False)
        return
    line = f"GET {made.raw_path_qs} HTTP/1.1"
    assert line.isascii()
    assert line.isprintable()
    assert line.count(" ") == 2
    assert made.raw_path.startswith("/")
    assert made.raw_host
    assert not made.raw_fragment
    assert made.raw_user is None
    assert "@" in url or not login
    # What was made is plain, and stays as it is.
    assert address(str(made))[0] == made


@given(URLS)
def test_a_plain_url_is_sent_exactly_as_it_is(url: str) -> None:
    found = parts(url)
    if found is not None:
        origin, target = found
        assert origin + target == url
        assert str(address(url)[0]) == url
        assert address(url)[0].raw_path_qs == target


@pytest.mark.parametrize(
    ("url", "hosts", "own"),
    [
        ("http://a.test/", {"a.test"}, True),
        ("http://b.a.test/", {"a.test"}, True),
        ("http://a.test:81/", {"a.test"}, True),
        ("http://a.test:81/", {"a.test:81"}, True),
        ("http://b.a.test:81/", {"a.test:81"}, True),
        ("http://a.test/", {"a.test:80"}, True),
        ("http://a.test/", {"a.test:81"}, False),
        ("http://ba.test/", {"a.test"}, False),
        ("http://a.test/", {"b.a.test"}, False),
        ("http://10.0.0.1/", {"0.0.1"}, False),
        ("http://[::1]:81/", {"[::1]:81"}, True),
        ("http://a.test/", set(), False),
    ],
)
def test_own_hosts(url: str, hosts: set[str], own: bool) -> None:
    assert is_own(URL(url), frozenset(hosts)) == own


@pytest.mark.parametrize(
    ("before", "url", "said"),
    [
        ("", "http://a.example/", ""),
        ("http://a.example/x?y=1", "http://a.example/z", "http://a.example/x?y=1"),
        ("http://a.example:80/x", "http://a.example/z", "http://a.example:80/x"),
        ("http://me:secret@a.example/x#part", "http://a.example/z", "http://a.example/x"),
        ("http://a.example/é", "http://a.example/z", "http://a.example/%C3%A9"),
        ("http://a.example/x", "http://b.example/z", "http://a.example/"),
        ("http://a.example/x", "https://a.example/z", "http://a.example/"),
        ("https://a.example/x", "https://b.example/z", "https://a.example/"),
        ("https://me:secret@a.example/x", "https://b.example/z", "https://a.example/"),
        ("https://a.example/x", "http://a.example/z", ""),
        ("https://a.example:444/é", "http://a.example/z", ""),
        ("http://", "http://a.example/", ""),
    ],
)
def test_the_referer_is_that_of_browsers(before: str, url: str, said: str) -> None:
    assert referer(before, url) == said
