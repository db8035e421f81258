"""A crawl of a site that is stopped from the terminal, or whose fleet is killed, goes on where it was."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import fork_server
from tests.support.example_sites import Place
from tests.support.site import Reply, Site

from gossamer.testing.process import wait_until
from gossamer.testing.servers import Server

FILE = """
site: forum
seeds: [{url}/list]
politeness: {{robots: ignore, concurrency: 2}}
layers:
  list: {{match: '^/list', follow: [{{css: a, to: post}}]}}
  post: {{match: '^/post/', fields: {{title: h1}}}}
store: {{post: {{table: posts}}}}
"""
POSTS = [f"/post/{number}" for number in range(12)]


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as one:
        one.on("/list", Reply(body="".join(f'<a href="{path}">x</a>' for path in POSTS)))
        for path in POSTS:
            one.on(path, Reply(body=f"<h1>{path}</h1>"))
        yield one


@pytest.mark.timeout(300)
def test_after_ctrl_c(site: Site, valkey_server: Server, crawl_name: str, tmp_path: Path) -> None:
    place = Place(tmp_path, valkey_server, crawl_name)
    file = place.write(FILE.format(url=site.url))
    held = POSTS[5:]
    site.hold(*held)
    crawling = place.start("crawl", file, "-w", "2")
    site.reached("/post/5")
    crawling.send_signal(signal.SIGINT)
    # Only then nothing new is begun.
    wait_until(lambda: place.logs().count("Stopping: ") == 2, "both workers to be told", 60)
    site.release(*held)
    assert crawling.wait(120) == 130
    done = len(site.paths())
    assert done < len(POSTS), "it was stopped in the middle"
    told = place.crawl(file, "--resume")
    assert [(one["round"], one["left"], one["drained"]) for one in told["sites"]] == [(0, 0, True)]
    # Everything once: what was under way was ended, the rest was left.
    assert sorted(site.paths()) == sorted(["/list", *POSTS])
    assert place.rows("select count(*), count(distinct title) from posts") == [(12, 12)]
    # Nothing is left, and a new round is only begun without --resume.
    assert place.run("crawl", file, "--resume") == ""
    assert len(site.paths()) == 13


@pytest.mark.timeout(300)
def test_after_a_kill_of_everything(site: Site, valkey_server: Server, crawl_name: str, tmp_path: Path) -> None:
    place = Place(tmp_path, valkey_server, crawl_name, GOSSAMER_LEASE_SECONDS="3")
    file = place.write(FILE.format(url=site.url))
    site.hold("/post/5")
    crawling = place.start("crawl", file, "-w", "1")
    site.reached("/post/5")
    # Its workers die with it.
    crawling.kill()
    crawling.wait()
    site.release("/post/5")
    told = place.crawl(file, "--resume")
    assert told["sites"][0]["drained"]
    assert set(site.paths()) == {"/list", *POSTS}
    assert place.rows("select count(*), count(distinct title) from posts") == [(12, 12)]


@pytest.mark.timeout(300)
def test_a_round_that_has_its_pages_is_over(site: Site, valkey_server: Server, crawl_name: str, tmp_path: Path) -> None:
    """It is no failure, and the next crawl begins the next round; a raised limit goes on with the present one."""
    place = Place(tmp_path, valkey_server, crawl_name)
    whole = FILE.format(url=site.url)

    def crawled(limits: str, *words: str) -> list[tuple[int, int, int]]:
        told = place.crawl(place.write(whole + limits), *words)
        return [(one["round"], one["pages"], one["left"]) for one in told["sites"]]

    assert crawled("limits: {pages: 5}\n") == [(0, 5, 8)]
    words = ["crawl", "site.yaml", "--resume"]
    done = fork_server.run("gossamer", words, place.environ, tmp_path, 60, options=["-P"])
    assert (done.returncode, done.stdout) == (0, "")
    assert "forum: has as many pages as limits.pages allows; raise it" in done.stderr
    assert "nothing is left" not in done.stderr
    assert crawled("limits: {pages: 8}\n") == [(0, 3, 5)]
    with place.frontier() as frontier:
        frontier.bury("forum", b"x", reason="by hand", key="of round 0")
    # The list again, which is a seed, and four of the posts that waited.
    assert crawled("limits: {pages: 5}\n") == [(1, 5, 1)]
    with place.frontier() as frontier:
        for key in ("one", "two"):
            frontier.bury("forum", b"x", reason="by hand", key=key)
    [told] = place.crawl(place.write(whole))["sites"]
    assert [told[name] for name in ("round", "pages", "left")] == [1, 1, 0]
    assert (told["dead"], told["dead_before"]) == (2, 1), "of this round, and of those before it"
    assert sorted(site.paths()) == sorted(["/list", "/list", *POSTS])


@pytest.mark.timeout(300)
def test_a_round_stopped_after_its_last_page_comes_to_its_end(
    site: Site, valkey_server: Server, crawl_name: str, tmp_path: Path
) -> None:
    place = Place(tmp_path, valkey_server, crawl_name)
    text = FILE.replace("posts}}", "posts, gone: true}}").replace("layers:", "seen: round\nlayers:")
    file = place.write(text.format(url=site.url))
    assert place.crawl(file)["sites"][0]["left"] == 0
    site.on("/list", Reply(body="".join(f'<a href="{path}">x</a>' for path in POSTS[1:])))
    site.hold(POSTS[-1])
    with place.start("crawl", file, "-w", "1") as crawling:
        site.wait(lambda paths: all(paths.count(path) == 2 for path in POSTS[1:]), "all pages of the second round")
        crawling.send_signal(signal.SIGINT)
        wait_until(lambda: place.logs().count("Stopping: ") == 1, "the worker to be told", 60)
        site.release(POSTS[-1])
        assert crawling.wait(120) == 130
    with place.frontier() as frontier:
        assert frontier.drained("forum").drained
        assert frontier.rounds("forum")[0].closed is None, "it was stopped before the end"
    asked = len(site.paths())
    assert "nothing is left of forum but the end of round 1" in place.said("crawl", file, "--resume")[1]
    assert place.rows("select title from posts where gone_at is not null") == [(POSTS[0],)]
    assert "nothing is left of these sites" in place.said("crawl", file, "--resume")[1]
    with place.frontier() as frontier:
        assert [(info.round, info.gone) for info in frontier.rounds("forum") if info.closed] == [(1, 1), (0, 0)]
    assert len(site.paths()) == asked
