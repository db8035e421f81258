"""Several people, or several jobs of one build, push at the same moment."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest
from tests.support.busy_crawl import environment
from tests.support.command import Command

from gossamer.errors import VersionConflict
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.registry import PushResult, Registry
from gossamer.registry.registry import draining
from gossamer.registry.spider_files import SpiderFiles

SITE = "site: bbs\nseeds: [http://bbs.example/]\nlayers: {page: {}}\n"
SPIDER = "spider: quotes\nschedule: {every: 1h}\n"
PEOPLE = 4
Push = Callable[[str, str], PushResult]


class Together:
    """A frontier of several people: whoever writes a file waits until all have read what there was."""

    def __init__(self, frontier: ValkeyFrontier, writers: int) -> None:
        self._frontier, self._barrier = frontier, Barrier(writers)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._frontier, name)

    def put_document(self, kind: str, *given: Any, **named: Any) -> int:
        if kind in ("site", "spider"):
            self._barrier.wait(60)
        return self._frontier.put_document(kind, *given, **named)


@pytest.fixture(params=["site", "spider"])
def push(request: pytest.FixtureRequest) -> Callable[[Any], Push]:
    """How a file of each kind is pushed: by text and person."""

    def site(frontier: Any) -> Push:
        return lambda text, who: Registry(frontier).push(SITE + text, "one", who=who)

    def spider(frontier: Any) -> Push:
        return lambda text, who: SpiderFiles(frontier).push_all({"one": SPIDER + text}, who=who)[0][0]

    return site if request.param == "site" else spider


def versions(frontier: ValkeyFrontier) -> list[int]:
    kinds = [kind for kind in ("site", "spider") if frontier.documents(kind)]
    return [info.version for kind in kinds for info in frontier.document_history(kind, "one")]


@pytest.mark.parametrize("before", [(), ("# first\n",)])
def test_the_same_push_by_several_people_is_one_version(
    push: Callable[[Any], Push], frontier: ValkeyFrontier, before: tuple[str, ...]
) -> None:
    for text in before:
        push(frontier)(text, "ann")
    together = push(Together(frontier, PEOPLE))
    with ThreadPoolExecutor(PEOPLE) as people:
        pushed = list(people.map(lambda number: together("# new\n", f"p{number}"), range(PEOPLE)))
    made = len(before) + 1
    assert [one.version for one in pushed] == [made] * PEOPLE
    assert sum(one.changed for one in pushed) == 1
    assert versions(frontier) == list(range(made, 0, -1))
    assert push(frontier)("# new\n", "late")[1:3] == (made, False)


def test_of_several_different_pushes_one_wins_and_the_others_are_told(
    push: Callable[[Any], Push], frontier: ValkeyFrontier
) -> None:
    push(frontier)("# first\n", "ann")
    together = push(Together(frontier, PEOPLE))

    def attempt(number: int) -> str | None:
        try:
            together(f"# by {number % 2}\n", f"p{number % 2}")
        except VersionConflict as error:
            return str(error)
        return None

    with ThreadPoolExecutor(PEOPLE) as people:
        ends = list(people.map(attempt, range(PEOPLE)))
    assert versions(frontier) == [2, 1]
    [winner] = {number % 2 for number, end in enumerate(ends) if end is None}
    assert [number % 2 for number, end in enumerate(ends) if end] == [1 - winner] * 2
    assert all(f"p{winner} pushed version 2, and yours is made of version 1" in end for end in ends if end)
    kind = "site" if frontier.documents("site") else "spider"
    assert frontier.document(kind, "one").text.endswith(f"# by {winner}\n")


def test_a_file_that_is_drained_is_served_again_by_one_new_version(frontier: ValkeyFrontier) -> None:
    """Whoever removes the version before it is told, although the text is the same."""
    registry = Registry(frontier)
    registry.push(SITE, "one", who="ann")
    registry.drain("one", who="bob")
    together = Together(frontier, PEOPLE)
    with ThreadPoolExecutor(PEOPLE) as people:
        each = lambda number: Registry(together).push(SITE, "one", who=f"p{number}")  # noqa: E731
        pushed = list(people.map(each, range(PEOPLE)))
    assert [one.version for one in pushed] == [2] * PEOPLE
    assert sum(one.changed for one in pushed) == 1
    assert not draining(frontier)
    with pytest.raises(VersionConflict, match="is not removed"):
        registry.remove("one", who="bob", expected=1)


@pytest.mark.parametrize("before", [False, True])
def test_who_pushed_the_same_is_told_when_it_does_not_stay(frontier: ValkeyFrontier, before: bool) -> None:
    """Ann's file gives way to Carl's, which has the same site. Bob has pushed Ann's, word for word, in between."""
    if before:
        Registry(frontier).push(SITE.replace("bbs", "other"), "one", who="dora")
    is_checked, is_put, has_withdrawn = Event(), Event(), Event()

    class Ann(Registry):
        def _checked(self, *given: Any) -> Any:
            found = super()._checked(*given)
            assert is_checked.wait(60)
            Registry(frontier).push(SITE, "carls", who="carl")
            return found

        def _check_others(self, *given: Any) -> None:
            go.set()
            assert is_put.wait(60)
            try:
                super()._check_others(*given)
            finally:
                has_withdrawn.set()

    class Bob(Registry):
        def _checked(self, *given: Any) -> Any:
            found = super()._checked(*given)
            is_checked.set()
            assert go.wait(60)
            return found

        def _check_others(self, *given: Any) -> None:
            is_put.set()
            assert has_withdrawn.wait(60)
            super()._check_others(*given)

    go = Event()
    with ThreadPoolExecutor(2) as people:
        pushes = [people.submit(kind(frontier).push, SITE, "one", who=kind.__name__) for kind in (Ann, Bob)]
        for each in pushes:
            assert isinstance(each.exception(60), VersionConflict), "not told"
    assert frontier.document("site", "carls").text == SITE
    [info] = [info for info in frontier.documents("site") if info.name == "one"]
    assert info.deleted or frontier.document("site", "one").text == SITE.replace("bbs", "other")
    assert info.deleted is not before


def test_commands_at_once(command: Command, crawl_name: str, frontier: ValkeyFrontier, tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(SITE)
    (tmp_path / "two.yaml").write_text(SITE.replace("bbs", "two"))
    url = frontier.connection.address.safe
    pushes = [
        subprocess.Popen(
            [sys.executable, "-m", "gossamer", "site", "push", "one.yaml", "two.yaml", "--crawl", crawl_name],
            env=environment(GOSSAMER_URL=url), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for _ in range(PEOPLE)
    ]  # fmt: skip
    for each in pushes:
        said, _ = each.communicate(timeout=120)
        assert each.returncode == 0, said
    assert len(command("site", "history", "one").rows) == 1
    assert [row[1] for row in command("site", "list", "--files").rows] == ["1", "1"]
    assert sorted(row["target"] for row in command("site", "log", "--json").json) == ["site one", "site two"]
