"""Who steered a crawl: one list of everything that was changed by hand; and nobody overwrites another's change unawares."""

from __future__ import annotations

import getpass
import socket
from pathlib import Path
from typing import Any

import pytest
from tests.support.command import Command

from gossamer.errors import VersionConflict
from gossamer.frontier import audit
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import GroupPolicy, LanePolicy
from gossamer.registry import Registry, SiteText
from gossamer.sites.file.problems import SiteErrors
from gossamer.testing import process

SITE = "site: bbs\nseeds: [http://bbs.example/]\nlayers: {page: {}}\n"
SPIDER = "spider: quotes\nschedule: {every: 1h}\n"


def test_everything_that_was_done_by_hand_is_one_list(
    command: Command, frontier: ValkeyFrontier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bbs.yaml").write_text(SITE)
    (tmp_path / "quotes.yaml").write_text(SPIDER)
    assert command("site", "log", "--json").json == []
    command("site", "push", "bbs.yaml", "--note", "first")
    command("site", "push", "bbs.yaml")
    frontier.define("bbs", {"page": LanePolicy()}, GroupPolicy(start=True))
    monkeypatch.setenv("GOSSAMER_WHO", "ann")
    (tmp_path / "bbs.yaml").write_text(SITE + "weight: 2\n")
    command("site", "push", "bbs.yaml")
    command("site", "rollback", "bbs", "1", "--who", "bob")
    command("site", "pause", "bbs", "--reason", "too loud")
    command("site", "resume", "bbs")
    command("group", "pause", "bbs")
    command("lane", "set", "bbs.page", "--weight", "3")
    command("host", "block", "bbs.example", "--for", "1m")
    command("round", "new", "bbs", "--yes")
    command("spider", "push", "quotes.yaml")
    (tmp_path / "quotes.yaml").write_text(SPIDER.replace("1h", "2h"))
    command("spider", "push", "quotes.yaml", "--note", "less often")
    command("spider", "rollback", "quotes", "1")
    command("spider", "remove", "quotes")
    command("site", "remove", "bbs", "--drop", "--yes")
    said = command("site", "log", "--json").json
    me = f"{getpass.getuser()}@{socket.gethostname()}"
    assert [(x["action"], x["target"], x["detail"], x["who"]) for x in reversed(said)] == [
        ("push", "site bbs", "version 1: first", me),
        ("push", "site bbs", "version 2", "ann"),
        ("rollback", "site bbs", "to version 1: version 3", "bob"),
        ("pause", "site bbs", "too loud", "ann"),
        ("resume", "site bbs", "", "ann"),
        ("pause", "group bbs", "paused", "ann"),
        ("set", "lane bbs.page", "weight 3.0", "ann"),
        ("block", "host bbs.example", "for 1 min 0 s: blocked by hand", "ann"),
        ("round", "group bbs", "round 1", "ann"),
        ("push", "spider quotes", "version 1", "ann"),
        ("push", "spider quotes", "version 2: less often", "ann"),
        ("rollback", "spider quotes", "to version 1: version 3", "ann"),
        ("remove", "spider quotes", "", "ann"),
        ("remove", "site bbs", "with 0 requests and dead letters", "ann"),
    ]
    assert {x["host"] for x in said} == {socket.gethostname()}
    assert said[0]["at"] >= said[-1]["at"] > 0
    assert [row[3] for row in command("site", "log", "quotes", "--limit", 2).rows] == ["remove", "rollback"]
    assert [row[3:5] for row in command("site", "log", "--who", "bob").rows] == [["rollback", "site bbs"]]
    assert "+schedule: {every: 1h}" in command("spider", "diff", "quotes", 2, 3).out
    assert command("spider", "show", "quotes", "--version", 2).out == SPIDER.replace("1h", "2h")
    assert [row[3] for row in command("spider", "history", "quotes").rows] == ["removed", "37", "37", "37"]


def test_whoever_changed_an_older_version_is_told(command: Command, frontier: ValkeyFrontier, tmp_path: Path) -> None:
    for noun, text in (("site", SITE), ("spider", SPIDER)):
        file = tmp_path / f"{noun}.yaml"
        file.write_text(text)
        command(noun, "push", file, "--who", "ann", "--expect", 0)
        file.write_text(text + "# bob's\n")
        told = command(noun, "push", file, "--who", "bob", "--expect", 1)
        if noun == "site":
            assert "version 1, which this replaces, was pushed by ann" in told.err
        file.write_text(text + "# ann's\n")
        refused = command(noun, "push", file, "--who", "ann", "--expect", 1, code=1).err
        assert f"{noun} was not pushed: bob pushed version 2, and yours is made of version 1." in refused
        assert f"`gossamer {noun} diff {noun}`" in refused
        assert frontier.document(noun, noun).text.endswith("# bob's\n")
        assert "there is no version 7" in command(noun, "rollback", noun, 7, code=2).err
    assert (
        "--expect is for one file" in command("spider", "push", "site.yaml", "spider.yaml", "--expect", 1, code=2).err
    )


@pytest.mark.parametrize("first", [False, True])
def test_of_two_files_with_one_site_that_are_pushed_at_once_one_stays(
    frontier: ValkeyFrontier, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    """Both were kept, both people were told so, and workers served either."""
    put, versions = frontier.put_document, []

    def meanwhile(kind: str, name: str, text: str, **more: Any) -> int:
        monkeypatch.undo()
        if first:
            versions.append(put(kind, name, text, **more))
            later(frontier)
        versions.append(put("site", "ann", SITE, who="ann"))
        if not first:
            later(frontier)
            versions.append(put(kind, name, text, **more))
        return versions[0 if first else 1]

    Registry(frontier).push(SITE.replace("bbs", "news"), "bob", who="bob")
    frontier.define("bbs", {"page": LanePolicy()})
    both = SITE.replace("bbs", "news") + "---\n" + SITE
    monkeypatch.setattr(frontier, "put_document", meanwhile)
    if first:
        Registry(frontier).push(both, "bob", who="bob")
        assert Registry(frontier).show("bob").text == both
        return
    with pytest.raises(VersionConflict, match=r"^bob was not pushed: ann pushed ann .* the site bbs\. Remove"):
        Registry(frontier).push(both, "bob", who="bob")
    registry = Registry(frontier)
    assert registry.owners() == {"bbs": "ann", "news": "bob"}
    assert next((one.version, one.note) for one in registry.history("bob")) == (3, "ann was faster with ann")
    assert [row.paused for row in frontier.counts().groups] == [""]
    with pytest.raises(SiteErrors, match="there is another site bbs, in the crawl's file ann"):
        registry.push(both, "bob", who="bob")


def later(frontier: ValkeyFrontier) -> None:
    """Wait for the server's next millisecond."""
    before = frontier.counts().now
    process.wait_until(lambda: frontier.counts().now > before, "time to pass", 10, pause=0.001)


def test_whoever_pushes_many_files_hears_which_are_pushed_if_one_is_not(
    frontier: ValkeyFrontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = frontier.put_document

    def meanwhile(kind: str, name: str, text: str, **more: Any) -> int:
        if name == "two":
            monkeypatch.undo()
            put(kind, name, "# ann\n" + text, who="ann")
        return put(kind, name, text, **more)

    monkeypatch.setattr(frontier, "put_document", meanwhile)
    texts = [SiteText(name, SITE.replace("bbs", name), f"{name}.yaml") for name in ("one", "two", "three")]
    noted: list[str] = []
    with pytest.raises(
        VersionConflict, match=r"^two was not pushed: ann pushed version 1, .* These files are pushed: one\.$"
    ):
        Registry(frontier).push_all(texts, who="bob", noted=lambda one: noted.append(one.name))
    assert noted == ["one"]


def test_the_list_is_bounded(frontier: ValkeyFrontier) -> None:
    for number in range(1010):
        audit.note(frontier, "ann", "pause", f"site s{number}", "x" * 3000)
    found = audit.entries(frontier)
    assert len(found) == 1000
    assert (found[0].target, found[-1].target) == ("site s1009", "site s10")
