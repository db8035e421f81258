"""A frontier URL means exactly one thing, or is refused with the part, the remedy and no password."""

from __future__ import annotations

from typing import Any

import pytest

from gossamer.errors import UrlError
from gossamer.frontier.connection.url import FrontierUrl, parse, redact, server_of


def single(host: str, port: int = 6379, **rest: Any) -> FrontierUrl:
    return FrontierUrl("single", hosts=((host, port),), **rest)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("embedded:", FrontierUrl("embedded")),
        ("embedded", FrontierUrl("embedded")),
        ("embedded:/some/dir", FrontierUrl("embedded", path="/some/dir")),
        ("embedded:///some/dir", FrontierUrl("embedded", path="/some/dir")),
        ("embedded:here/dir", FrontierUrl("embedded", path="here/dir")),
        ("embedded:/with%20space", FrontierUrl("embedded", path="/with space")),
        ("redis://h", single("h")),
        (" redis://h ", single("h")),
        ("REDIS://h", single("h")),
        ("redis://h:1234/5", single("h", 1234, db=5)),
        ("redis://h/?db=5", single("h", db=5)),
        ("redis://h/", single("h")),
        ("valkey://h", single("h")),
        ("redis://:pw@h", single("h", password="pw")),
        ("redis://me:p%40%2F%25%3A@h", single("h", username="me", password="p@/%:")),
        ("redis://me:a:b@h", single("h", username="me", password="a:b")),
        ("redis://me:a@b@h", single("h", username="me", password="a@b")),
        ("redis://[::1]:7/1", single("::1", 7, db=1)),
        ("redis://[fe80::1%25eth0]", single("fe80::1%eth0")),
        ("rediss://h", single("h", tls=True)),
        ("valkeys://h", single("h", tls=True)),
        (
            "rediss://h?ca=/c%26a.pem&cert=/c.pem&key=/k.pem&verify=ca",
            single("h", tls=True, ca="/c&a.pem", cert="/c.pem", key="/k.pem", verify="ca"),
        ),
        ("rediss://h?verify=none", single("h", tls=True, verify="none")),
        ("unix:///run/v.sock", FrontierUrl("unix", path="/run/v.sock")),
        ("unix:///run/v.sock?db=3", FrontierUrl("unix", path="/run/v.sock", db=3)),
        ("unix://me:pw@/run/v.sock", FrontierUrl("unix", path="/run/v.sock", username="me", password="pw")),
        ("redis+sentinel://a,b:1/main", FrontierUrl("sentinel", hosts=(("a", 26379), ("b", 1)), service="main")),
        (
            "rediss+sentinel://u:p@a/main/2?sentinel_password=s&sentinel_username=w&verify=none",
            FrontierUrl(
                "sentinel", hosts=(("a", 26379),), service="main", db=2, username="u", password="p", tls=True,
                verify="none", sentinel_username="w", sentinel_password="s",
            ),
        ),
        ("redis+cluster://a,[::1]:2", FrontierUrl("cluster", hosts=(("a", 6379), ("::1", 2)))),
        ("redis+cluster://a/0", FrontierUrl("cluster", hosts=(("a", 6379),))),
        ("valkeys+cluster://a", FrontierUrl("cluster", hosts=(("a", 6379),), tls=True)),
    ],
)  # fmt: skip
def test_url_is_understood(url: str, address: FrontierUrl) -> None:
    assert parse(url) == address


@pytest.mark.parametrize(
    ("url", "part", "remedy"),
    [
        ("", "scheme", "redis://"),
        ("localhost:6379", "scheme", "redis://"),
        ("http://h", "scheme", "redis://"),
        ("redis:h", "scheme", "redis://"),
        ("redis://", "host", "host:port"),
        ("redis://:6379", "host", "host:port"),
        ("redis://::1", "host", "brackets"),
        ("redis://h:port", "port", "65535"),
        ("redis://h:", "port", "65535"),
        ("redis://h:70000", "port", "65535"),
        ("redis://h/one", "database", "number"),
        ("redis://h/-1", "database", "number"),
        ("redis://h/1?db=2", "database", "once"),
        ("redis://a,b", "host", "redis+cluster://"),
        ("redis://hunter2@h", "password", "user:password@host"),
        ("redis://:hunter2%zz@h", "password", "%25"),
        ("redis://:hunter2/x@h", "password", "%2F"),
        ("redis://:hunter2#x@h", "'#'", "%23"),
        ("redis://:hunter2@h?ca=/x", "option ca", "rediss://"),
        ("redis://h?timeout=3", "option timeout", "db"),
        ("rediss://h?verify=maybe", "option verify", "verify=none"),
        ("rediss://h?key=/k", "option key", "cert="),
        ("rediss://h?ca=", "option ca", "value"),
        ("unix://run/v.sock", "socket path", "three slashes"),
        ("unix://", "socket path", "three slashes"),
        ("redis+sentinel://a,b", "service name", "redis+sentinel://h1,h2/service"),
        ("redis+sentinel://a,/s", "host", "host:port"),
        ("redis+sentinel://a/s?sentinel_password=hunter2&x=1", "option x", "sentinel_password"),
        ("redis+cluster://a/3", "database", "cluster"),
        ("redis+cluster://a,a", "list of hosts", "once"),
        ("embedded://dir", "directory", "embedded:/some/dir"),
        ("embedded:/dir?x=1", "directory", "%3F"),
    ],
)
def test_wrong_url_names_the_part_and_the_remedy(url: str, part: str, remedy: str) -> None:
    with pytest.raises(UrlError) as caught:
        parse(url)
    message = str(caught.value)
    assert part in message
    assert remedy in message
    assert "hunter2" not in message
    assert "\n" not in message


def test_password_is_never_shown() -> None:
    address = parse("rediss+sentinel://me:hunter2@a,[::1]/main/2?sentinel_password=hunter2")
    assert address.safe == "rediss+sentinel://me:***@a:26379,[::1]:26379/main/2"
    assert "hunter2" not in repr(address)
    assert parse("redis://:hunter2@h").safe == "redis://:***@h:6379"
    assert parse("unix://:hunter2@/a.sock?db=1").safe == "unix://:***@/a.sock?db=1"
    assert "hunter2" not in redact("anything://x:hunter2@@@h?password=hunter2")


def test_people_are_told_which_server_is_meant() -> None:
    assert server_of("redis://:hunter2@h/3", "data") == "redis://:***@h:6379/3"
    assert [server_of(url, "data") for url in ("embedded:", "embedded:/x")] == ["embedded:data", "embedded:/x"]


@pytest.mark.parametrize("url", ["embedded:/d", "redis://h:1/2", "unix:///s?db=1", "redis+cluster://a:1,b:2"])
def test_safe_rendering_without_a_password_is_the_url(url: str) -> None:
    assert parse(parse(url).safe) == parse(url)
