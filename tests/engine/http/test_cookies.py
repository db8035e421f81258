from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.engine.http.cookies import LARGEST, LONGEST, CookieJar, is_public_suffix

NOW = 1_700_000_000.0


def jar_with(*lines: str, url: str = "http://www.a.example/dir/page", now: float = NOW) -> CookieJar:
    jar = CookieJar()
    jar.take(url, lines, now)
    return jar


def sent(jar: CookieJar, url: str, now: float = NOW) -> str:
    return jar.header(url, now=now)


def test_a_cookie_belongs_to_its_host_and_directory() -> None:
    jar = jar_with("a=1")
    assert sent(jar, "http://www.a.example/dir/other") == "a=1"
    assert sent(jar, "http://www.a.example/dir") == "a=1"
    assert sent(jar, "https://WWW.A.example:8080/dir/x?y") == "a=1"
    for elsewhere in (
        "http://www.a.example/",
        "http://www.a.example/directory",
        "http://a.example/dir/",
        "http://x.www.a.example/dir/",
    ):
        assert sent(jar, elsewhere) == ""


def test_a_domain_reaches_downwards_and_never_further_than_the_host_may() -> None:
    jar = jar_with("a=1; Domain=.A.example; Path=/")
    for url in ("http://a.example/", "http://www.a.example/", "http://x.y.a.example/"):
        assert sent(jar, url) == "a=1"
    assert sent(jar, "http://ba.example/") == ""
    for line in (
        "a=1; Domain=b.example",
        "a=1; Domain=x.www.a.example",
        "a=1; Domain=example",
        "a=1; Domain=ww.a.example",
    ):
        assert len(jar_with(line)) == 0
    assert len(jar_with("a=1; Domain=co.uk", url="http://shop.co.uk/")) == 0
    assert len(jar_with("a=1; Domain=shop.co.uk", url="http://www.shop.co.uk/")) == 1
    # A host that is a suffix by itself keeps its own.
    assert sent(jar_with("a=1; Domain=localhost", url="http://localhost/"), "http://localhost/") == "a=1"
    assert sent(jar_with("a=1; Domain=localhost", url="http://localhost/"), "http://x.localhost/") == ""


def test_addresses_have_no_domains() -> None:
    jar = jar_with("a=1; Domain=127.0.0.1; Path=/", url="http://127.0.0.1/")
    assert sent(jar, "http://127.0.0.1/") == "a=1"
    assert len(jar_with("a=1; Domain=0.0.1", url="http://127.0.0.1/")) == 0
    assert sent(jar_with("a=1; Path=/", url="http://[::1]:80/"), "http://[::1]/") == "a=1"


def test_secure_ones() -> None:
    jar = jar_with("a=1; Secure; Path=/", url="https://a.example/")
    assert sent(jar, "https://a.example/") == "a=1"
    assert sent(jar, "http://a.example/") == ""
    assert len(jar_with("a=1; Secure", url="http://a.example/")) == 0
    # Whoever speaks in the open cannot replace it.
    assert jar.take("http://a.example/", ["a=2; Path=/"], NOW) == 0
    assert sent(jar, "https://a.example/") == "a=1"
    assert (
        len(
            jar_with(
                "__Secure-a=1",
                "__Host-b=1; Secure; Path=/x",
                "__Host-c=1; Secure; Path=/; Domain=a.example",
                url="https://a.example/",
            )
        )
        == 0
    )
    assert len(jar_with("__Host-c=1; Secure; Path=/", url="https://a.example/")) == 1


@pytest.mark.parametrize(
    ("attributes", "lives"),
    [
        ("", LONGEST * 10),
        ("Max-Age=100", 100),
        ("Max-Age=100; Expires=Thu, 01 Jan 1970 00:00:00 GMT", 100),
        ("Expires=Tue, 14-Nov-2023 22:15:20 GMT", 120),
        ("Expires=Tue, 14 Nov 2023 22:15:20 GMT", 120),
        ("Max-Age=99999999999999999999", LONGEST),
        ("Expires=Fri, 31 Dec 9999 23:59:59 GMT", LONGEST),
        ("Expires=nonsense; Max-Age=x", LONGEST * 10),
    ],
)
def test_how_long_they_live(attributes: str, lives: float) -> None:
    url = "http://a.example/"
    assert sent(jar_with(f"a=1; {attributes}", url=url), url, NOW + lives - 1) == "a=1"
    if lives <= LONGEST:
        jar = jar_with(f"a=1; {attributes}", url=url)
        assert sent(jar, url, NOW + lives + 1) == ""
        assert len(jar) == 0


def test_a_cookie_is_taken_back() -> None:
    url = "http://a.example/"
    for line in ("a=; Max-Age=0", "a=; Max-Age=-1", "a=; Expires=Thu, 01 Jan 1970 00:00:00 GMT"):
        jar = jar_with("a=1", "b=2", url=url)
        assert jar.take(url, [line], NOW) == 1
        assert sent(jar, url) == "b=2"
        assert len(jar_with(line, url=url)) == 0


def test_the_order_is_longer_paths_first_and_then_the_older() -> None:
    jar = CookieJar()
    for at, line in enumerate(["a=1; Path=/", "b=2; Path=/dir/", "c=3; Path=/", "d=4; Path=/dir/deep"]):
        jar.take("http://a.example/", [line], NOW + at)
    jar.take("http://a.example/", ["a=9; Path=/"], NOW + 10)
    assert sent(jar, "http://a.example/dir/deep/page", NOW + 11) == "d=4; b=2; a=9; c=3"


def test_names_and_values_as_servers_write_them() -> None:
    url = "http://a.example/"
    assert sent(jar_with('a="x y"; Path=/', url=url), url) == 'a="x y"'
    assert sent(jar_with("  a  =  b=c  ", url=url), url) == "a=b=c"
    assert sent(jar_with("lonely", url=url), url) == "lonely"
    for refused in ("", "=", ";", "a=b\x00c", "a=b\r\nX: y", f"a={'x' * LARGEST}"):
        assert len(jar_with(refused, url=url)) == 0


def test_numbers_are_bounded_and_the_oldest_goes() -> None:
    jar = CookieJar(most=20, most_of_domain=5)
    for number in range(100):
        jar.take("http://a.example/", [f"c{number}=x"], NOW + number)
    assert len(jar) == 5
    assert sent(jar, "http://a.example/", NOW + 100) == "c95=x; c96=x; c97=x; c98=x; c99=x"
    for number in range(100):
        jar.take(f"http://h{number}.example/", ["a=b"], NOW + 200 + number)
    assert len(jar) == 20
    assert len(list(jar)) == 20


def test_suffixes() -> None:
    assert all(map(is_public_suffix, ["com", "localhost", "co.uk", "com.br", "ac.jp"]))
    assert not any(map(is_public_suffix, ["a.com", "example.co.uk", "co.com", "t.co"]))


LABEL = st.sampled_from(["a", "b", "www", "co", "uk", "example", "com", "127", "0", "1"])
HOST = st.lists(LABEL, min_size=1, max_size=4).map(".".join)
PATH = st.lists(st.sampled_from(["", "a", "b", "ab"]), max_size=3).map(lambda parts: "/" + "/".join(parts))
URL = st.builds(lambda scheme, host, path: f"{scheme}://{host}{path}", st.sampled_from(["http", "https"]), HOST, PATH)
ATTRIBUTE = st.one_of(
    HOST.map(lambda host: f"Domain={host}"),
    PATH.map(lambda path: f"Path={path}"),
    st.sampled_from(["Secure", "HttpOnly", "Max-Age=0", "Max-Age=10", "Max-Age=-5", "Domain=", "SameSite=Lax"]),
    st.text(max_size=20),
)
LINE = st.builds(
    lambda name, value, attributes: "; ".join([f"{name}={value}", *attributes]),
    st.sampled_from(["a", "b", "__Host-c", "__Secure-d", ""]),
    st.text(max_size=10),
    st.lists(ATTRIBUTE, max_size=4),
)


@given(st.lists(st.tuples(URL, LINE), max_size=25), URL)
def test_whatever_comes_a_cookie_never_reaches_a_stranger(steps: list[tuple[str, str]], url: str) -> None:
    from gossamer.engine.http.cookies import place

    jar = CookieJar(most=12, most_of_domain=4)
    setters: dict[tuple[str, str, str], set[tuple[str, bool]]] = {}
    for number, (setter, line) in enumerate(steps):
        before = set(jar)
        jar.take(setter, [line], NOW + number)
        for cookie in set(jar) - before:
            setters.setdefault((cookie.domain, cookie.path, cookie.name), set()).add(place(setter)[::2])
        assert len(jar) == len(list(jar)) <= 12
    where = place(url)
    for cookie in jar.matching(url, NOW + 5):
        assert where.host == cookie.domain or (where.host.endswith("." + cookie.domain) and not cookie.host_only)
        assert where.path.startswith(cookie.path)
        assert where.secure or not cookie.secure
        assert cookie.expires > NOW + 5
        # Only hosts of that domain can have set it, and a secure one only over a secure connection.
        for host, secure in setters[cookie.domain, cookie.path, cookie.name]:
            assert host == cookie.domain or host.endswith("." + cookie.domain)
            assert secure or not cookie.secure
        if not cookie.host_only:
            assert not is_public_suffix(cookie.domain)
    header = jar.header(url, now=NOW + 5)
    assert not set(header) & set("\r\n\x00")
