"""`gossamer site`: site files kept in the crawl, with their versions, and what that does to their groups."""

from __future__ import annotations

import getpass
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.command import Command

from gossamer.errors import SiteError, UnknownDocument, VersionConflict
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import LanePolicy, Request, Selection, Token
from gossamer.model.reply import REMOVED
from gossamer.registry import Registry, SiteText
from gossamer.registry.folder import texts_of
from gossamer.sites.file.load import load, load_text, sound, survey
from gossamer.sites.file.problems import SiteErrors

PLAIN = """\
# What we read of the forum.
site: bbs   # the name
seeds: [http://bbs.example/list]
layers:
  list: {match: '^/list', follow: ['a.post']}
  post: {match: '^/post', fields: {title: h1}}
"""
MANY = """\
site: news-{source}
params: {source: [alpha, beta, gamma, delta]}
seeds: ['http://{source}.example/']
layers:
  front: {fields: {title: h1}}
"""
BASE = """\
seeds: ['http://{source}.example/{{x}}/[1-3]']
seen: {policy: rolling, window: 7d}
schedule: {every: 10m}
layers:
  front:
    match: '^/a{2}/(?P<n>\\d+)'
    require: [title, [author, uid]]
    fields:
      title: h1
      uid: {value: '{source}: {zone}'}
      author: {css: a, attr: href, clean: [strip, {replace: ['0o7', 'yes']}]}
    follow: ['a.post', {css: a.next, to: front, pages: 5, pass: title, json: {a: '1'}}]
"""
TWO = PLAIN + "---\n" + PLAIN.replace("bbs", "second")


@pytest.fixture
def registry(frontier: ValkeyFrontier) -> Registry:
    return Registry(frontier)


def write(name: str, text: str) -> str:
    Path(name).write_bytes(text.encode())
    return name


def served(frontier: ValkeyFrontier, site: str) -> int:
    """How many requests of a site a worker gets."""
    token = Token.fresh()
    leases = frontier.exchange(token, want=50, selection=Selection(groups=(site,))).leases
    frontier.release(token, leases)
    return len(leases)


def run_site(frontier: ValkeyFrontier, site: str, pages: int = 4) -> None:
    """As a worker does that serves it."""
    frontier.define(site, {"list": LanePolicy()})
    frontier.add([Request(n, f"h{n}", f"{site}.list", b"x") for n in range(pages)])


class TestPush:
    def test_what_was_pushed_is_kept_word_for_word(self, command: Command, frontier: ValkeyFrontier) -> None:
        text = PLAIN + "# ü, and no line end"
        said = command("site", "push", write("bbs.yaml", text), "--note", "first", "--who", "ann")
        assert said.out == "bbs: version 1: bbs\n"
        assert command("site", "show", "bbs").out == text
        shown = command("site", "show", "bbs", "--json").json
        assert (shown["text"], shown["version"], shown["who"], shown["note"]) == (text, 1, "ann", "first")
        [row] = command("site", "list", "--files").rows
        assert row[:3] == ["bbs", "1", "bbs"]
        assert row[4:] == ["ann", "first", ""]
        assert frontier.documents("site")[0].name == "bbs"

    def test_who_pushed_is_known_without_being_said(self, command: Command, frontier: ValkeyFrontier) -> None:
        command("site", "push", write("bbs.yaml", PLAIN))
        assert frontier.documents("site")[0].who == f"{getpass.getuser()}@{socket.gethostname()}"

    def test_a_file_cannot_drive_a_terminal(
        self, command: Command, frontier: ValkeyFrontier, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        frontier.put_document("site", "odd", "# \x1b[31mred\nsite: odd\n")
        assert command("site", "show", "odd").out == "# \x1b[31mred\nsite: odd\n", "to a file it goes as it is"
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        assert command("site", "show", "odd").out == "# \\x1b[31mred\nsite: odd\n"

    def test_the_same_again_is_no_new_version(self, command: Command) -> None:
        file = write("bbs.yaml", PLAIN)
        command("site", "push", file)
        assert command("site", "push", file).out == "bbs: version 1, unchanged: bbs\n"
        assert command("site", "push", write("bbs.yaml", PLAIN + "\n")).out == "bbs: version 2: bbs\n"
        assert [x["version"] for x in command("site", "history", "bbs", "--json").json] == [2, 1]

    def test_one_file_may_describe_many_sites(self, command: Command) -> None:
        Path("sites").mkdir()
        write("sites/news.yaml", MANY)
        write("sites/two.yml", TWO)
        said = command("site", "push", "sites", "--json").json
        assert [(x["name"], x["changed"], len(x["sites"])) for x in said] == [("news", True, 4), ("two", True, 2)]
        assert [row[2] for row in command("site", "list", "--files").rows] == [
            "4 sites, news-alpha to news-delta",
            "bbs second",
        ]
        listed = command("site", "list", "--files", "--json").json
        assert listed[0]["sites"] == ["news-alpha", "news-beta", "news-gamma", "news-delta"]
        assert command("site", "show", "news-gamma").out == MANY, "by the name of a site in it"

    def test_nothing_is_pushed_unless_all_is_right(self, command: Command, frontier: ValkeyFrontier) -> None:
        good, bad = write("good.yaml", PLAIN), write("bad.yaml", "site: bad\nlayres: {}\n")
        said = command("site", "push", good, bad, code=2)
        assert "bad.yaml:2:1" in said.err
        assert "layers" in said.err
        assert frontier.documents("site") == []

    def test_two_files_may_not_describe_the_same_site(self, command: Command, frontier: ValkeyFrontier) -> None:
        command("site", "push", write("bbs.yaml", PLAIN))
        said = command("site", "push", write("copy.yaml", PLAIN), code=2)
        assert "copy.yaml: site: there is another site bbs, in the crawl's file bbs" in said.err
        Path("d").mkdir()
        said = command("site", "push", write("d/bbs.yaml", PLAIN.replace("bbs", "other")), "bbs.yaml", code=2)
        assert "there is another file called bbs" in said.err
        said = command("site", "push", write("x.yaml", MANY), write("y.yaml", MANY), code=2)
        assert "y.yaml:1:7: site: there is another site news-alpha, at x.yaml:1:7" in said.err
        assert len(frontier.documents("site")) == 1

    def test_a_file_that_needs_others_is_written_out(self, command: Command, frontier: ValkeyFrontier) -> None:
        Path("sites").mkdir()
        write("sites/base.yaml", BASE)
        write("sites/rows.csv", "source,zone\nalpha,01\nbeta,off\n")
        write("sites/news.yaml", "extends: base.yaml\nsite: news-{source}\nparams: rows.csv\n")
        write("sites/plain.yaml", PLAIN)
        assert command("site", "push", "sites").out == "news: version 1: news-alpha news-beta\nplain: version 1: bbs\n"
        assert command("site", "push", "sites").out.count("unchanged") == 2
        text = command("site", "show", "news").out
        assert text.startswith("# Written out when it was pushed")
        assert [site.model_dump(exclude={"params"}) for site in load_text(text, "news")] == [
            site.model_dump(exclude={"params"}) for site in load("sites/news.yaml")
        ]
        assert [site.params for site in load_text(text, "news")] == [
            {"source": ["alpha"], "zone": ["01"]},
            {"source": ["beta"], "zone": ["off"]},
        ]
        assert command("site", "show", "plain").out == PLAIN

    def test_other_parameters_are_written_out(self, command: Command, frontier: ValkeyFrontier) -> None:
        text = "site: 's-{k}' # Why.\nparams: {k: [x, y], n: [1, 2]}\nseeds: ['http://s.example/{k}/{n}']\nlayers: {a: {}}\n"
        Path("s.yaml").write_text(text)
        Path("other.yaml").write_text("site: other\nparams: {m: 1}\nseeds: ['http://o.example/{m}']\nlayers: {a: {}}\n")
        command("site", "push", "s.yaml", "other.yaml", "--param", "k=z", "--param", "n=[01, 7]")
        written = frontier.document("site", "s").text
        assert written.startswith("# Written out when it was pushed, with other values of k and n than its file has.\n")
        (site,) = load_text(written)
        assert (site.site, site.params) == ("s-z", {"k": ["z"], "n": [1, 7]})
        assert frontier.document("site", "other").text == Path("other.yaml").read_text()
        command("site", "push", "s.yaml")
        assert frontier.document("site", "s").text == text

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("site: x\nparams: rows.csv\nlayers: {}\n", ":2:9: params: rows.csv is another file"),
            ("site: x\nextends: base.yaml\n", ":2:10: extends: base.yaml is another file"),
        ],
    )
    def test_a_text_that_needs_files_is_refused(self, registry: Registry, text: str, said: str) -> None:
        with pytest.raises(SiteErrors, match=said):
            registry.push(text, "x", who="x")

    def test_what_cannot_be_proven_to_mean_the_same_is_refused(self, command: Command) -> None:
        """A value that equals nothing, not even itself."""
        write("base.yaml", PLAIN.replace("{title: h1}", "{title: {value: .nan}}"))
        said = command("site", "push", write("f.yaml", "extends: base.yaml\nsite: x\n"), code=2).err
        assert "f.yaml:1:10: extends: base.yaml is another file" in said

    def test_files_that_cannot_be_read(self, command: Command) -> None:
        assert (
            "absent.yaml: the file cannot be read: no such file" in command("site", "push", "absent.yaml", code=2).err
        )
        Path("latin.yaml").write_bytes(b"site: x\ntitle: \xe9\n")
        assert "latin.yaml:2:8: byte 0xe9 is not UTF-8" in command("site", "push", "latin.yaml", code=2).err
        Path("empty").mkdir()
        assert "no site file in this folder" in command("site", "push", "empty", code=2).err
        write("my site.yaml", PLAIN)
        assert "'my site': use letters" in command("site", "push", "my site.yaml", code=2).err

    def test_a_crawl_is_made_by_the_first_push(self, command: Command, crawl_name: str) -> None:
        command("site", "push", write("bbs.yaml", PLAIN), "--crawl", f"{crawl_name}-new")
        assert len(command("site", "list", "--files", "--crawl", f"{crawl_name}-new").rows) == 1
        assert "no crawl" in command("site", "list", "--files", "--crawl", f"{crawl_name}-none", code=2).err

    def test_somebody_faster_is_not_overwritten(self, registry: Registry, frontier: ValkeyFrontier) -> None:
        class Slow(Registry):
            def _checked(self, *asked: Any) -> dict[str, tuple[str, ...]]:
                found = super()._checked(*asked)
                registry.push(PLAIN + "# bob's\n", "bbs", who="bob")
                return found

        registry.push(PLAIN, "bbs", who="ann")
        with pytest.raises(VersionConflict, match="bob pushed version 2, and yours is made of version 1"):
            Slow(frontier).push(PLAIN + "# ann's\n", "bbs", who="ann")
        assert (registry.show("bbs").who, registry.show("bbs").version) == ("bob", 2)


class TestVersions:
    @pytest.fixture(autouse=True)
    def _pushed(self, command: Command) -> None:
        for number, title in enumerate(("h1", "h2", "h3"), 1):
            write("bbs.yaml", PLAIN.replace("h1", title))
            command("site", "push", "bbs.yaml", "--who", f"w{number}", "--note", f"n{number}")

    def test_history(self, command: Command) -> None:
        rows = command("site", "history", "bbs").rows
        assert [(row[0], row[2], row[4]) for row in rows] == [("3", "w3", "n3"), ("2", "w2", "n2"), ("1", "w1", "n1")]
        assert all(row[1].endswith(" UTC") for row in rows)
        assert "no site file 'bsb'" in (said := command("site", "history", "bsb", code=2).err)
        assert "did you mean bbs?" in said

    def test_show_an_older_version(self, command: Command) -> None:
        assert command("site", "show", "bbs", "--version", "2").out == PLAIN.replace("h1", "h2")
        for words in (("show", "bbs", "--version"), ("rollback", "bbs"), ("diff", "bbs")):
            assert "greater than or equal to 1" in command("site", *words, "0", code=2).err
        assert "there is no version 9 of bbs" in command("site", "show", "bbs", "--version", "9", code=2).err

    def test_diff(self, command: Command) -> None:
        lines = command("site", "diff", "bbs").out.splitlines()
        assert lines[:2] == ["--- bbs version 2", "+++ bbs version 3"]
        assert [line for line in lines[2:] if line[0] in "+-"] == [
            "-  post: {match: '^/post', fields: {title: h2}}",
            "+  post: {match: '^/post', fields: {title: h3}}",
        ]
        assert "title: h1" in command("site", "diff", "bbs", "1").out
        assert command("site", "diff", "bbs", "1", "2").out.startswith("--- bbs version 1\n+++ bbs version 2\n")
        assert command("site", "diff", "bbs", "3", "3").out == ""

    def test_a_missing_line_end_is_shown(self, command: Command) -> None:
        command("site", "push", write("bbs.yaml", PLAIN.replace("h1", "h3").rstrip("\n")))
        assert command("site", "diff", "bbs").out.endswith("\\ No newline at end of file\n")

    def test_rollback(self, command: Command) -> None:
        assert command("site", "rollback", "bbs", "1", "--who", "ann").out == "bbs: version 4: bbs\n"
        assert command("site", "show", "bbs").out == PLAIN
        newest = command("site", "history", "bbs", "--json").json[0]
        assert (newest["note"], newest["who"]) == ("as version 1", "ann")
        assert "no version 17" in command("site", "rollback", "bbs", "17", code=2).err


class TestRemove:
    def test_what_is_queued_waits_for_the_file_to_come_back(self, command: Command, frontier: ValkeyFrontier) -> None:
        command("site", "push", write("bbs.yaml", PLAIN))
        run_site(frontier, "bbs")
        assert served(frontier, "bbs") == 4
        asked = command("site", "remove", "bbs", code=1, given="no\n").err
        assert asked.startswith("Remove the site file bbs? [y/N] ")
        assert served(frontier, "bbs") == 4
        assert (
            command("site", "remove", "bbs", "--yes", "--who", "ann", "--note", "closed").out == "bbs is removed: bbs\n"
        )
        assert served(frontier, "bbs") == 0
        assert frontier.counts("bbs").groups[0].paused == REMOVED
        assert command("site", "list", "--files").rows == []
        assert command("site", "list", "--removed").rows[0][6] == "removed"
        assert "was removed. `gossamer site rollback` brings it back" in command("site", "show", "bbs", code=2).err
        assert command("site", "history", "bbs").rows[0][2:] == ["ann", "removed", "closed"]
        assert command("site", "remove", "bbs", "--yes").out == "bbs is removed: bbs\n", "as after it broke off"
        assert "says that it was removed" in command("site", "rollback", "bbs", "2", code=2).err
        command("site", "rollback", "bbs", "1")
        assert served(frontier, "bbs") == 4

    def test_drop(self, command: Command, frontier: ValkeyFrontier) -> None:
        command("site", "push", write("two.yaml", TWO))
        run_site(frontier, "bbs")
        asked = command("site", "remove", "two", "--drop", code=1, given="\n").err
        assert asked.startswith("Remove the site file two and drop 4 open requests and 0 dead letters? [y/N] ")
        said = command("site", "remove", "two", "--drop", "--yes", "--json").json
        assert said == {"file": "two", "sites": ["bbs", "second"], "dropped": 4}
        assert [row.group for row in frontier.counts().groups] == []
        assert command("site", "remove", "two", "--drop", "--yes").out.endswith(
            "with it went 0 requests and dead letters\n"
        )

    def test_a_site_that_its_file_describes_no_more_is_stopped(
        self, command: Command, frontier: ValkeyFrontier
    ) -> None:
        command("site", "push", write("news.yaml", MANY))
        run_site(frontier, "news-alpha")
        run_site(frontier, "news-beta")
        command("site", "push", write("news.yaml", MANY.replace("alpha, ", "")))
        assert (served(frontier, "news-alpha"), served(frontier, "news-beta")) == (0, 4)
        # Another file may describe it now.
        command("site", "push", write("own.yaml", MANY.replace("beta, gamma, delta", "epsilon")))
        assert served(frontier, "news-alpha") == 4

    def test_a_site_may_move_from_file_to_file_in_one_push(self, command: Command, frontier: ValkeyFrontier) -> None:
        command("site", "push", write("a.yaml", TWO))
        run_site(frontier, "second")
        write("a.yaml", PLAIN)
        command("site", "push", "a.yaml", write("b.yaml", PLAIN.replace("bbs", "second")))
        assert served(frontier, "second") == 4

    def test_what_a_removed_file_described_is_not_dropped_where_another_describes_it_now(
        self, command: Command, frontier: ValkeyFrontier
    ) -> None:
        """As when a file was renamed, and the old one is tidied up."""
        command("site", "push", write("two.yaml", TWO))
        run_site(frontier, "bbs")
        run_site(frontier, "second")
        command("site", "remove", "two", "--yes")
        command("site", "push", write("bbs.yaml", PLAIN))
        asked = command("site", "remove", "two", "--drop", code=1, given="\n").err
        assert asked.startswith("Remove the site file two and drop 4 open requests and 0 dead letters? [y/N] ")
        assert command("site", "remove", "two", "--drop", "--yes", "--json").json["sites"] == ["second"]
        assert [row.group for row in frontier.counts().groups] == ["bbs"]
        assert served(frontier, "bbs") == 4
        assert command("site", "remove", "two", "--drain", "--yes").out == "two is removed: second\n"

    def test_an_operators_pause_outlives_a_push(self, command: Command, frontier: ValkeyFrontier) -> None:
        command("site", "push", write("bbs.yaml", PLAIN))
        run_site(frontier, "bbs")
        command("site", "pause", "bbs", "--reason", "their sale")
        command("site", "push", write("bbs.yaml", PLAIN + "\n"))
        assert served(frontier, "bbs") == 0
        command("site", "remove", "bbs", "--yes")
        assert frontier.counts("bbs").groups[0].paused == "their sale"


class TestPause:
    def test_a_site_or_all_sites_of_a_file(self, command: Command, frontier: ValkeyFrontier) -> None:
        command("site", "push", write("news.yaml", MANY))
        run_site(frontier, "news-alpha")
        assert command("site", "pause", "news-alpha", "--reason", "x").out == "site news-alpha is paused: x\n"
        assert served(frontier, "news-alpha") == 0
        assert command("site", "list", "--files").rows[0][6] == "1 of 4 sites: x"
        assert command("site", "resume", "news-alpha").out == "site news-alpha is resumed\n"
        assert served(frontier, "news-alpha") == 4
        assert command("site", "pause", "news").out.count(" is paused: paused\n") == 4
        assert command("site", "list", "--files").rows[0][6] == "paused"
        # Those that have never run are paused when they do.
        run_site(frontier, "news-beta")
        assert (served(frontier, "news-alpha"), served(frontier, "news-beta")) == (0, 0)
        command("site", "resume", "news")
        assert (served(frontier, "news-alpha"), served(frontier, "news-beta")) == (4, 4)

    @pytest.mark.usefixtures("frontier")
    def test_an_unknown_site(self, command: Command) -> None:
        for verb in ("pause", "resume", "diff"):
            assert "no site file 'nope'" in command("site", verb, "nope", code=2).err

    def test_a_file_this_gossamer_cannot_read(self, command: Command, frontier: ValkeyFrontier) -> None:
        frontier.put_document("site", "future", "site: f\nlayers: {a: {hologram: 3}}\n")
        [row] = command("site", "list", "--files", "--json").json
        assert (row["sites"], "hologram" in row["problem"]) == ([], True)
        assert command("site", "list", "--files").rows[0][6].startswith("cannot be read: future:2")
        assert "cannot be read" in command("site", "pause", "future", code=2).err
        command("site", "push", write("bbs.yaml", PLAIN))
        assert command("site", "show", "future").out.startswith("site: f\n")


class TestFolders:
    TEXTS = (("bbs", PLAIN + "\r\n# end\r\n  "), ("news", MANY), ("v2.old", PLAIN.replace("bbs", "old")))

    def test_dump_and_restore_byte_for_byte(self, command: Command, frontier: ValkeyFrontier, crawl_name: str) -> None:
        for name, text in self.TEXTS:
            frontier.put_document("site", name, text)
        frontier.put_document("site", "gone", PLAIN.replace("bbs", "gone"))
        frontier.drop_document("site", "gone")
        assert command("site", "dump", "out/sites").out == "3 site files in out/sites\n"
        assert {path.name: path.read_bytes() for path in Path("out/sites").iterdir()} == {
            f"{name}.yaml": text.encode() for name, text in self.TEXTS
        }
        other = f"{crawl_name}-other"
        said = command("site", "restore", "out/sites", "--crawl", other, "--json").json
        assert [(x["name"], x["version"]) for x in said] == [("bbs", 1), ("news", 1), ("v2.old", 1)]
        for name, text in self.TEXTS:
            assert command("site", "show", name, "--crawl", other, "--json").json["text"] == text
        assert "unchanged" in command("site", "restore", "out/sites", "--crawl", other).out
        assert command("site", "history", "bbs", "--crawl", other).rows[0][4] == "restored"

    def test_dump_writes_over_nothing_unasked(self, command: Command, frontier: ValkeyFrontier) -> None:
        for name, text in self.TEXTS:
            frontier.put_document("site", name, text)
        Path("out").mkdir()
        write("out/news.yaml", "mine\n")
        said = command("site", "dump", "out", code=2).err
        assert "out/news.yaml would be written over" in said
        assert [path.name for path in Path("out").iterdir()] == ["news.yaml"]
        command("site", "dump", "out", "--force")
        assert Path("out/news.yaml").read_text() == MANY
        assert command("site", "dump", "out", "--json").json == [f"out/{name}.yaml" for name, _ in self.TEXTS]

    def test_restore_wants_a_folder(self, command: Command) -> None:
        assert "bbs.yaml is not a folder" in command("site", "restore", write("bbs.yaml", PLAIN), code=2).err
        assert "nope is not a folder" in command("site", "restore", "nope", code=2).err


class TestRegistry:
    """What the room offers to others."""

    def test_all_problems_of_all_files_at_once(self, registry: Registry) -> None:
        texts = [SiteText(f"f{n}", f"site: s{n}\nlayers: {{a: {{nope: 1}}}}\n", f"f{n}.yaml") for n in range(3)]
        with pytest.raises(SiteErrors) as caught:
            registry.push_all(texts, who="x")
        assert {problem.file for problem in caught.value.problems} == {"f0.yaml", "f1.yaml", "f2.yaml"}

    def test_two_texts_of_one_site(self, registry: Registry) -> None:
        with pytest.raises(SiteErrors, match=r"y\.yaml: site: there is another site bbs, in x\.yaml"):
            registry.push_all([SiteText("x", PLAIN, "x.yaml"), SiteText("y", PLAIN, "y.yaml")], who="x")

    def test_a_push_goes_before_a_removal_of_the_version_before(self, registry: Registry) -> None:
        registry.push(PLAIN, "bbs", who="me")
        registry.push(PLAIN + "# changed\n", "bbs", who="ann")
        with pytest.raises(VersionConflict, match="bbs is not removed: somebody pushed it meanwhile, version 2 of ann"):
            registry.remove("bbs", who="bob", expected=1)
        assert registry.show("bbs").text == PLAIN + "# changed\n"

    def test_the_same_text_pushed_while_it_is_drained_is_a_version(self, registry: Registry) -> None:
        registry.push(PLAIN, "bbs", who="me")
        registry.drain("bbs", who="bob")
        assert registry.push(PLAIN, "bbs", who="ann")[1:3] == (2, True)
        assert registry.push(PLAIN, "bbs", who="ann")[1:3] == (2, False), "it is served again"
        with pytest.raises(VersionConflict, match="bbs is not removed"):
            registry.remove("bbs", who="bob", expected=1)

    def test_a_site_pushed_while_its_group_is_stopped_goes_on(
        self, frontier: ValkeyFrontier, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Who removes it has read that it is gone, and stops its group when it is back."""
        Registry(frontier).push(PLAIN, "bbs", who="me")
        run_site(frontier, "bbs")
        pause = frontier.pause

        def pushed_first(**given: Any) -> None:
            Registry(frontier).push(PLAIN, "bbs", who="ann")
            pause(**given)

        monkeypatch.setattr(frontier, "pause", pushed_first)
        Registry(frontier).remove("bbs", who="bob")
        assert served(frontier, "bbs") == 4

    def test_what_never_was(self, registry: Registry) -> None:
        for ask in (registry.show, registry.history, registry.diff, registry.find):
            with pytest.raises(UnknownDocument):
                ask("nope")
        with pytest.raises(UnknownDocument):
            registry.remove("nope", who="x")
        with pytest.raises(UnknownDocument):
            registry.rollback("nope", 1, who="x")

    def test_a_version_that_never_was(self, registry: Registry) -> None:
        registry.push(PLAIN, "bbs", who="me")
        for ask in (
            lambda: registry.show("bbs", 7),
            lambda: registry.rollback("bbs", 7, who="me"),
            lambda: registry.diff("bbs", 7),
        ):
            with pytest.raises(UnknownDocument, match=r"no version 7 of bbs.*`gossamer site history bbs`"):
                ask()

    def test_a_single_version_differs_from_nothing(self, registry: Registry) -> None:
        registry.push(PLAIN, "bbs", who="x")
        said = registry.diff("bbs")
        assert said.startswith("--- bbs version 0\n+++ bbs version 1\n")
        assert said.count("\n+") == 1 + PLAIN.count("\n")

    def test_a_version_that_can_no_longer_be_read_is_not_rolled_back_to(
        self, registry: Registry, frontier: ValkeyFrontier
    ) -> None:
        frontier.put_document("site", "bbs", "site: bbs\nold_key: 1\n")
        registry.push(PLAIN, "bbs", who="x")
        with pytest.raises(SiteError, match="old_key"):
            registry.rollback("bbs", 1, who="x")
        assert registry.show("bbs").version == 2

    def test_reading_files_keeps_their_bytes(self, tmp_path: Path) -> None:
        text = PLAIN.replace("\n", "\r\n")
        (tmp_path / "a.yaml").write_bytes(text.encode())
        (tmp_path / "b.txt").write_bytes(b"no site file")
        assert texts_of(sound(survey([tmp_path]))) == [SiteText("a", text, str(tmp_path / "a.yaml"), ("bbs",))]

    def test_a_hundred_files_are_checked_and_kept(self, registry: Registry, frontier: ValkeyFrontier) -> None:
        texts = [SiteText(f"f{n}", PLAIN.replace("bbs", f"s{n}"), f"f{n}.yaml") for n in range(100)]
        assert [pushed.version for pushed in registry.push_all(texts, who="x")] == [1] * 100
        assert len(Registry(frontier).files()) == 100
        again = Registry(frontier).push_all(texts, who="x")
        assert not any(pushed.changed for pushed in again)
