"""The demo forum has exactly the pages it says it has, and remembers who came."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from functools import partial
from http.client import HTTPConnection, HTTPResponse
from urllib.parse import urljoin, urlsplit

import pytest

from gossamer.testing.forum import Forum, ForumProcess, Layout, Trouble
from gossamer.testing.forum_pages import ForumPage
from gossamer.testing.process import wait_until

SMALL = Layout(boards=2, lists=2, posts=3, comments=2)
TROUBLED = Layout(
    boards=3,
    lists=2,
    posts=6,
    comments=2,
    trouble=Trouble(redirect=0.3, busy=0.1, unavailable=0.1, broken=0.3, missing=0.2, retry_after=7),
)


def get(
    url: str, connection: HTTPConnection | None = None, method: str = "GET", **headers: str
) -> tuple[HTTPResponse, bytes]:
    parts = urlsplit(url)
    own = connection or HTTPConnection(parts.netloc, timeout=30)
    try:
        own.request(method, parts.path + (f"?{parts.query}" if parts.query else ""), headers=headers)
        response = own.getresponse()
        return response, response.read()
    finally:
        if connection is None:
            own.close()


def crawl(seed: str) -> dict[str, list[int]]:
    """Follow every link from `seed`, patiently; the statuses that each URL was answered with."""
    seen: dict[str, list[int]] = {}
    connections: dict[str, HTTPConnection] = {}
    todo = [seed]
    while todo:
        url = todo.pop()
        if seen.get(url, [0])[-1] in (200, 302, 404):
            continue
        netloc = urlsplit(url).netloc
        response, body = get(url, connections.setdefault(netloc, HTTPConnection(netloc, timeout=30)))
        seen.setdefault(url, []).append(response.status)
        if response.status in (429, 503):
            todo.append(url)
        elif response.status == 302:
            todo.append(urljoin(url, response.headers["Location"]))
        else:
            todo.extend(urljoin(url, link) for link in re.findall(r'href="([^"]+)"', body.decode("utf-8", "replace")))
    for connection in connections.values():
        connection.close()
    return seen


def test_a_crawl_finds_exactly_the_expected_pages(forum: Forum) -> None:
    found = crawl(forum.url)
    assert set(found) == forum.expected_pages()
    assert len(found) == 1 + 4 * 3 * (1 + 10 * 3)
    assert all(statuses == [200] for statuses in found.values())
    assert {arrival.path for arrival in forum.arrivals()} == {url.removeprefix(forum.url[:-1]) for url in found}


def test_every_trouble_happens_and_hides_no_page() -> None:
    with Forum(TROUBLED) as forum:
        found = crawl(forum.url)
        assert {url for url, statuses in found.items() if statuses[-1] == 200} == forum.expected_pages()
        assert (
            {url for url, statuses in found.items() if statuses[-1] == 302} == forum.expected_redirects() != frozenset()
        )
        assert (
            {url for url, statuses in found.items() if statuses[-1] == 404} == forum.expected_missing() != frozenset()
        )
        assert {tuple(statuses) for statuses in found.values()} >= {(429, 200), (503, 200)}


def test_trouble_that_goes_away_comes_back_after_forget() -> None:
    with Forum(Layout(trouble=Trouble(busy=1.0, retry_after=7))) as forum:
        first, _ = get(forum.url)
        assert (first.status, first.headers["Retry-After"]) == (429, "7")
        assert get(forum.url)[0].status == 200
        forum.forget()
        assert forum.arrivals() == []
        assert get(forum.url)[0].status == 429


def test_broken_pages_are_of_both_kinds() -> None:
    layout = Layout(trouble=Trouble(broken=1.0))
    bodies = [layout.page(path).body for path in layout.paths()]

    def is_utf8(body: bytes) -> bool:
        try:
            body.decode()
        except UnicodeDecodeError:
            return False
        return True

    assert any(not is_utf8(body) for body in bodies)
    assert any(is_utf8(body) and b"\x00" in body for body in bodies)


def test_pages_depend_on_the_seed_alone() -> None:
    paths = list(SMALL.paths())
    assert len(paths) == len(set(paths))
    again = Layout(boards=2, lists=2, posts=3, comments=2)
    other = Layout(boards=2, lists=2, posts=3, comments=2, seed=2)
    assert [SMALL.page(path) for path in paths] == [again.page(path) for path in paths]
    assert SMALL.page("/").body != other.page("/").body
    assert SMALL.title("/post/0-1-0").encode() in SMALL.page("/post/0-1-0").body


def test_pages_are_about_two_kilobytes() -> None:
    sizes = [len(Layout().page(path).body) for path in Layout().paths()]
    assert 1_500 < sum(sizes) / len(sizes) < 2_500


@pytest.mark.parametrize("path", ["/nothing", "/go/post/0-1-0", "/board/99", "/post/0-1-99", "/board/x", "//", ""])
def test_an_unknown_path_is_not_found(path: str) -> None:
    assert SMALL.page(path).status == 404


def test_slow_pages_take_their_time() -> None:
    layout = Layout(trouble=Trouble(slow=1.0))
    assert all(0.2 <= layout.page(path).delay <= 1.0 for path in layout.paths())
    with Forum(layout) as forum:
        begin = time.monotonic()
        get(forum.url)
        assert time.monotonic() - begin >= layout.page("/").delay


class Endless(Layout):
    """A forum that never gets round to answering."""

    def page(self, path: str, elsewhere: tuple[str, ...] = ()) -> ForumPage:
        return ForumPage(200, b"", delay=3600)


def test_requests_in_flight_are_counted_per_host() -> None:
    with Forum(Endless()) as forum:
        address = urlsplit(forum.url)
        with ExitStack() as connections:
            for host, in_flight in [("a", 1), ("a", 2), ("b", 1), ("a", 3)]:
                connection = connections.enter_context(socket.create_connection((address.hostname, address.port), 30))
                connection.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
                wait_until(
                    partial(lambda host, n: forum.access.in_flight[host] == n, host, in_flight), "the request to arrive"
                )
        wait_until(lambda: len(forum.arrivals()) == 4, "the visitors to be seen leaving")
        assert [(arrival.host, arrival.in_flight, arrival.status) for arrival in forum.arrivals()] == [
            ("a", 1, 0),
            ("a", 2, 0),
            ("b", 1, 0),
            ("a", 3, 0),
        ]
        assert (forum.max_in_flight(), forum.max_in_flight("a"), forum.max_in_flight("b")) == (3, 3, 1)


def test_pipelined_requests_are_answered_in_order() -> None:
    with Forum(Layout(trouble=Trouble(slow=0.5))) as forum:
        address = urlsplit(forum.url)
        paths = list(forum.layout.paths())[:6]
        assert len({forum.layout.page(path).delay > 0 for path in paths}) == 2
        with socket.create_connection((address.hostname, address.port), 30) as connection:
            connection.sendall(
                b"".join(f"GET {path} HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode() for path in paths)
            )
            with connection.makefile("rb") as stream:
                for path in paths:
                    headers = list(iter(stream.readline, b"\r\n"))
                    length = next(int(line[16:]) for line in headers if line.startswith(b"Content-Length: "))
                    assert stream.read(length) == forum.layout.page(path).body


def test_hosts_are_told_apart_by_port_and_one_seed_reaches_all() -> None:
    with Forum(SMALL, hosts=3) as forum:
        assert len({urlsplit(url).port for url in forum.urls}) == 3
        assert set(crawl(forum.url)) == forum.expected_pages()
        assert {arrival.host for arrival in forum.arrivals()} == {url[7:-1] for url in forum.urls}
        assert len(forum.arrivals(forum.urls[1][7:-1])) == len(list(SMALL.paths()))


def test_hosts_are_told_apart_by_address() -> None:
    # Other systems than Linux have only the first address of the loopback network.
    with Forum(SMALL, hosts=3 if sys.platform == "linux" else 1, by="address") as forum:
        assert len({urlsplit(url).port for url in forum.urls}) == 1
        assert [urlsplit(url).hostname for url in forum.urls] == ["127.0.0.1", "127.0.0.2", "127.0.0.3"][
            : len(forum.urls)
        ]
        assert set(crawl(forum.url)) == forum.expected_pages()


@pytest.mark.parametrize("number", [0, 1])
def test_any_host_header_is_served_and_recorded(forum: Forum, number: int) -> None:
    get(forum.url, Host=f"board{number}.example")
    assert [(arrival.host, arrival.path, arrival.status) for arrival in forum.arrivals()] == [
        (f"board{number}.example", "/", 200)
    ]


def test_head_close_robots_and_other_methods(forum: Forum) -> None:
    response, body = get(forum.url, method="HEAD")
    assert (response.status, body) == (200, b"")
    assert int(response.headers["Content-Length"]) > 0
    assert get(forum.url, Connection="close")[0].headers["Connection"] == "close"
    assert b"Allow" in get(forum.url + "robots.txt")[1]
    assert get(forum.url, method="DELETE")[0].status == 405


def test_a_forum_in_its_own_process_answers_the_same_questions() -> None:
    with ForumProcess(TROUBLED, hosts=2) as forum:
        found = crawl(forum.url)
        assert {url for url, statuses in found.items() if statuses[-1] == 200} == forum.expected_pages()
        assert forum.expected_redirects() | forum.expected_missing() < set(found)
        host = forum.urls[1][7:-1]
        assert {arrival.host for arrival in forum.arrivals(host)} == {host}
        assert forum.max_in_flight() == 1
        assert len(forum.arrivals()) == sum(len(statuses) for statuses in found.values())
        forum.forget()
        assert forum.arrivals() == []


@pytest.mark.parametrize("how", ["stdin", "signal"])
def test_the_command_prints_its_url_and_serves_until_told_to_stop(how: str) -> None:
    command = [sys.executable, "-m", "gossamer.testing.forum", "--port", "0", "--boards", "1", "--busy", "1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin
        assert child.stdout
        url = child.stdout.readline().strip()
        assert get(url)[0].status == 429
        if how == "stdin":
            child.stdin.close()
        else:
            child.send_signal(signal.SIGTERM)
        assert child.wait(30) == 0
