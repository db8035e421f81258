"""`gossamer acl`: its user can do the whole job on its own keys, and nothing else."""

from __future__ import annotations

import io
import os
import subprocess
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from tests.cli.setup.test_doctor import crawl_a_little
from tests.support import fork_server

from gossamer.cli import exit_codes, main
from gossamer.doctor import Check, CheckState, examine
from gossamer.errors import FrontierError, PermissionDenied
from gossamer.frontier.connection import connect
from gossamer.frontier.seen.memory import ValkeyMemory
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import LanePolicy, Request, SeenPolicy, Selection, Settlement, Token
from gossamer.settings import load
from gossamer.testing.forum import Forum, Layout
from gossamer.testing.servers import Cluster, Server

SPIDER = """
    import gossamer


    class Fed(gossamer.FleetSpider):
        name = "fed"
        tasks = "TASKS"

        def parse(self, response):
            yield {"url": response.url}
            for link in response.css("a::attr(href)").getall():
                yield response.follow(link)
"""
SITE = """
    site: forum
    seeds: [SITE]
    politeness: {robots: ignore}
    layers:
      page:
        follow: [{css: a, to: page}]
        fields: {title: title}
"""
FORBIDDEN: tuple[tuple[str, ...], ...] = (
    ("FLUSHALL",), ("FLUSHDB",), ("SWAPDB", "0", "1"), ("FUNCTION", "FLUSH"), ("FUNCTION", "RESTORE", "x"), ("KEYS", "*"),
    ("CONFIG", "SET", "appendonly", "no"), ("CONFIG", "GET", "requirepass"), ("ACL", "LIST"), ("SHUTDOWN", "NOSAVE"),
    ("EVAL", "return 1", "0"), ("DEBUG", "SLEEP", "0"), ("REPLICAOF", "127.0.0.1", "1"), ("CLIENT", "KILL", "TYPE", "normal"),
    ("MONITOR",), ("SCAN", "0"), ("RANDOMKEY",), ("MIGRATE", "127.0.0.1", "1", "k", "0", "1"), ("SAVE",), ("SELECT", "1"),
)  # fmt: skip


def made(*words: str, code: int = 0) -> tuple[str, str]:
    """What the command wrote, to standard output and to standard error."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        assert main(["acl", *words]) == code
    return out.getvalue(), err.getvalue()


def checked(url: str, crawl: str) -> dict[str, Check]:
    """What doctor finds."""
    return {check.name: check for check in examine(load({"GOSSAMER_URL": url, "GOSSAMER_CRAWL": crawl}, {}))}


class Place(NamedTuple):
    """A server that knows nobody but the users of its ACL file, and one who may do everything there."""

    server: Server
    directory: Path

    def url(self, name: str, password: str) -> str:
        return self.server.url.replace("redis://", f"redis://{name}:{quote(password)}@")

    def run(
        self, *words: str, code: int = 0, environ: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GOSSAMER_", "SCRAPY_"))}
        done = fork_server.run("gossamer", words, kept | dict(environ or {}), self.directory, 200, options=["-P"])
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def user(self, name: str, *words: str) -> str:
        """The URL of a user that the command made."""
        out, err = made(name, *words)
        with (self.directory / "users.acl").open("a") as file:
            file.write(out)
        self.server.call("ACL", "LOAD")
        return self.url(name, err.strip().rpartition(" ")[2])


@pytest.fixture(params=["valkey", "redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    (tmp_path / "users.acl").write_text("user default off\nuser root on >root ~* &* +@all\n")
    config: dict[str, Any] = {"maxmemory": "100mb", "aclfile": tmp_path / "users.acl"}
    with Server(request.param, auth=("root", "root")).start(config, fsync="everysec") as server:
        yield Place(server, tmp_path)


@pytest.mark.timeout(600)
def test_a_worker_and_an_operator_can_do_the_whole_job(place: Place, crawl_name: str) -> None:
    """Scrapy with tasks, the native engine, items, dead letters, a memory of its own, export, doctor."""
    tasks, pushed = f"{crawl_name}:start_urls", f"{crawl_name}:pages"
    keys_of = ["--crawl", crawl_name, "--tasks", tasks, "--list", pushed, "--seen", crawl_name]
    worker, operator = place.user("worker", *keys_of), place.user("operator", "--operator", *keys_of)
    environ = {"GOSSAMER_URL": worker, "GOSSAMER_CRAWL": crawl_name}
    with Forum(Layout(boards=1, lists=1, posts=3, comments=1)) as site:
        (place.directory / "fed.py").write_text(textwrap.dedent(SPIDER).replace("TASKS", tasks))
        (place.directory / "forum.yaml").write_text(textwrap.dedent(SITE).replace("SITE", site.url))
        place.run("task", "push", tasks, site.url, environ=environ)
        place.run("crawl", "fed.py", "--workers", "1", environ=environ)
        place.run("crawl", "forum.yaml", "--workers", "1", environ=environ)
        expected = len(list(site.expected_pages()))
    given = load(environ, {})
    with ValkeyFrontier.open(given) as frontier:
        assert len(frontier.read_items("fed", 0, limit=1000)) >= expected
        assert len(frontier.read_items("forum", 0, limit=1000)) >= expected
        frontier.define("g", {"a": LanePolicy()})
        token = Token.fresh()
        frontier.add([Request(7, "h", "g.a", b"x")])
        [lease] = frontier.exchange(token, want=1, selection=Selection(groups=("g",))).leases
        frontier.exchange(token.next(), settle=[Settlement(lease, push=[(pushed, b"data")])])
    with ValkeyMemory.open(crawl_name, SeenPolicy(), given) as memory:
        assert memory.mark([1, 1]) == [True, False]
    place.run("status", environ=environ)
    rights = checked(worker, crawl_name)["rights"]
    assert (rights.state, rights.found.split(": ")[0]) == (CheckState.DOUBTFUL, "workers can work; this user may not")
    environ["GOSSAMER_URL"] = operator
    assert [check for check in checked(operator, crawl_name).values() if check.state is not CheckState.GOOD] == []
    place.run("export", "out", environ=environ)
    place.run("items", "tail", "fed", environ=environ)
    place.run("items", "export", "fed", "fed.jsonl", environ=environ)


def test_a_worker_can_do_nothing_else(place: Place, crawl_name: str) -> None:
    url = place.user("worker", "--crawl", crawl_name)
    with connect(load({"GOSSAMER_URL": url}, {})) as connection:
        for words in FORBIDDEN:
            with pytest.raises(PermissionDenied):
                connection.execute(*words)


def test_the_keys_of_others_are_out_of_reach(place: Place, crawl_name: str) -> None:
    url = place.user("one", "--crawl", crawl_name)
    place.user("two", "--crawl", f"{crawl_name}2")
    crawl_a_little(url, crawl_name)
    for other in (f"{crawl_name}2", f"x{crawl_name}", crawl_name[:-1]):
        with pytest.raises(PermissionDenied):
            ValkeyFrontier.open(load({"GOSSAMER_URL": url, "GOSSAMER_CRAWL": other}, {}))
        assert checked(url, other)["rights"].remedy == f"ACL SETUSER name ~gossamer:{{{other}/*"
    with connect(load({"GOSSAMER_URL": url}, {})) as connection, pytest.raises(PermissionDenied):
        connection.execute("GET", f"{crawl_name}:start_urls")


def test_without_the_right_to_load_functions_those_that_are_there_serve(place: Place, crawl_name: str) -> None:
    url = place.user("plain", "--no-functions", "--crawl", crawl_name)
    with pytest.raises(PermissionDenied):
        ValkeyFrontier.open(load({"GOSSAMER_URL": url, "GOSSAMER_CRAWL": crawl_name}, {}))
    assert "+function|load" in checked(url, crawl_name)["rights"].remedy
    crawl_a_little(place.user("full", "--crawl", crawl_name), crawl_name)
    frontier = ValkeyFrontier.open(load({"GOSSAMER_URL": url, "GOSSAMER_CRAWL": crawl_name}, {}))
    frontier.close()
    assert checked(url, crawl_name)["rights"].state is CheckState.DOUBTFUL
    with connect(load({"GOSSAMER_URL": url}, {})) as connection, pytest.raises(FrontierError):
        connection.execute("FUNCTION", "LOAD", "#!lua name=x\n")


def test_on_a_cluster(cluster: Cluster, crawl_name: str) -> None:
    out, err = made("worker", "--crawl", crawl_name, "--operator")
    for node in cluster.nodes:
        node.call("ACL", "SETUSER", *out.split()[1:])
    try:
        url = cluster.url.replace(
            "redis+cluster://", f"redis+cluster://worker:{quote(err.strip().rpartition(' ')[2])}@"
        )
        settings = load({"GOSSAMER_URL": url, "GOSSAMER_CRAWL": crawl_name, "GOSSAMER_PARTITIONS": 3}, {})
        with ValkeyFrontier.open(settings) as frontier:
            frontier.define("g", {"a": LanePolicy()})
        checks = checked(url, crawl_name)
        assert checks["rights"].state is CheckState.GOOD
        assert {check.name for check in checks.values() if check.state is CheckState.BAD} == {"persistence"}
    finally:
        for node in cluster.nodes:
            node.call("ACL", "DELUSER", "worker")


def test_a_password_of_ones_own_and_names_with_a_meaning_to_patterns(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hush\n")
    file = str(tmp_path / "secret")
    out, err = made("u", "--crawl", "c", "--tasks", "a[b]*", "--password-file", file, "--url", "redis://h/3")
    assert (err, "hush" in out) == ("", False)
    words = out.split()
    assert r"~a\[b\]\*" in words
    assert r"~gossamer:tasks:{a\[b\]\*}:a\[b\]\**" in words
    assert "+select" in words
    made("two words", code=exit_codes.MISUSED)
