from __future__ import annotations

import pytest

from gossamer.engine.http.redirect import follow, location, next_method, same_place
from gossamer.model.fetch import FetchError
from gossamer.model.page import PageRequest, Response

HERE = "https://a.example/one/two?x=1"


def moved(to: str, status: int = 302, url: str = HERE, cookies: tuple[str, ...] = ()) -> Response:
    return Response(url, status, {"location": to}, b"", cookies=cookies)


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ("/three", "https://a.example/three"),
        ("three", "https://a.example/one/three"),
        ("../three", "https://a.example/three"),
        ("?y=2", "https://a.example/one/two?y=2"),
        ("//b.example/x", "https://b.example/x"),
        ("http://b.example/x#there", "http://b.example/x"),
        (" /blanks in it ", "https://a.example/blanks%20in%20it"),
        ("/caf\u00e9", "https://a.example/caf%C3%A9"),
        ("/caf\udce9", "https://a.example/caf%EF%BF%BD"),
    ],
)
def test_where_a_redirect_leads(said: str, means: str) -> None:
    assert location(moved(said)) == means


def test_what_is_no_redirect() -> None:
    assert location(Response(HERE, 200, {"location": "/x"}, b"")) is None
    assert location(Response(HERE, 304, {"location": "/x"}, b"")) is None
    assert location(Response(HERE, 302, {}, b"")) is None
    assert location(moved("  ")) is None
    assert follow(PageRequest(HERE), moved("/x"), limit=0) is None


@pytest.mark.parametrize("target", ["mailto:a@b", "javascript:void(0)", "ftp://h/x", "data:,x", "http://[::1/x"])
def test_a_redirect_to_what_is_no_page(target: str) -> None:
    with pytest.raises(FetchError) as caught:
        follow(PageRequest(HERE), moved(target))
    assert (caught.value.reason, caught.value.retriable) == ("protocol", False)


def test_the_method_of_the_next_hop() -> None:
    expected = {
        301: {"GET": "GET", "POST": "GET", "PUT": "PUT", "HEAD": "HEAD"},
        302: {"GET": "GET", "POST": "GET", "PUT": "PUT", "HEAD": "HEAD"},
        303: {"GET": "GET", "POST": "GET", "PUT": "GET", "HEAD": "HEAD"},
        307: {"GET": "GET", "POST": "POST", "PUT": "PUT", "HEAD": "HEAD"},
        308: {"GET": "GET", "POST": "POST", "PUT": "PUT", "HEAD": "HEAD"},
    }
    assert {
        status: {method: next_method(method, status) for method in methods} for status, methods in expected.items()
    } == expected


def test_a_body_goes_on_or_stays_with_everything_that_describes_it() -> None:
    ask = PageRequest(HERE, "POST", {"content-Type": "a/b", "X": "y"}, body=b"body")
    kept = follow(ask, moved("/x", 307))
    assert kept == ask._replace(url="https://a.example/x")
    turned = follow(ask, moved("/x", 303))
    assert turned == PageRequest("https://a.example/x", "GET", {"X": "y"})


def test_what_only_the_former_host_may_see_stays_behind() -> None:
    ask = PageRequest(HERE, headers={"AUTHORIZATION": "a", "Cookie": "b", "X": "y"}, cookies={"c": "d"})
    same = follow(ask, moved("/x"))
    assert same == ask._replace(url="https://a.example/x")
    for elsewhere in ("https://b.example/", "http://a.example/", "https://a.example:8443/", "https://sub.a.example/"):
        other = follow(ask, moved(elsewhere))
        assert other is not None
        assert (other.headers, other.cookies) == ({"X": "y"}, {})
    assert same_place("http://a.example/", "https://a.example/")
    assert not same_place("http://a.example:81/", "https://a.example/")


def test_loops_and_too_many_hops() -> None:
    with pytest.raises(FetchError, match="leads to itself") as caught:
        follow(PageRequest(HERE), moved(HERE))
    assert (caught.value.reason, caught.value.retriable) == ("redirect_loop", False)
    # By way of another page it may lead to itself once: that one may have looked for a cookie.
    back = PageRequest("https://a.example/2"), moved("/1", url="https://a.example/2")
    assert follow(*back, ["https://a.example/1"]) is not None
    with pytest.raises(FetchError, match="leads to itself"):
        follow(*back, ["https://a.example/1", "https://a.example/2", "https://a.example/1"])
    with pytest.raises(FetchError, match="more than 3 redirects"):
        follow(PageRequest(HERE), moved("/4"), ["1", "2", "3"], 3)
    assert follow(PageRequest(HERE), moved("/4"), ["1", "2"], 3) is not None
    # A form that leads back to its own page is no loop.
    assert follow(PageRequest(HERE, "POST"), moved(HERE, 303)) is not None


def test_a_page_may_lead_to_itself_while_it_sets_cookies_but_not_forever() -> None:
    ask, trail = PageRequest(HERE), list[str]()
    for _ in range(2):
        further = follow(ask, moved(HERE, cookies=("a=b",)), trail)
        assert further is not None
        trail.append(ask.url)
        ask = further
    with pytest.raises(FetchError, match="leads to itself"):
        follow(ask, moved(HERE, cookies=("a=b",)), trail)
