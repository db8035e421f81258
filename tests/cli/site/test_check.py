"""`gossamer site check` and `gossamer site schema`: the mistakes of site files."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.site.site_files import FORUM, write
from tests.support.command import Command


class TestCheck:
    def test_all_mistakes_of_all_files_at_once_with_their_places(self, command: Command) -> None:
        write("sites/a.yaml", "site: a\nseeds: [http://a.example/]\nlayers:\n  x: {feilds: {t: h1}}\n")
        write("sites/b.yaml", "site: b\nseeds: [http://b.example/]\nlayers:\n  x:\n    fields: {t: {css: 'a['}}\n")
        write("sites/good.yaml", FORUM)
        said = command("site", "check", "sites", code=2)
        lines = said.out.splitlines()
        assert lines[0].startswith("sites/a.yaml:4:7: layers.x.feilds: ")
        assert "did you mean fields?" in lines[0]
        assert lines[1].startswith("sites/b.yaml:5:23: layers.x.fields.t.css: ")
        assert lines[-1] == "3 files, 2 sites, 2 errors"
        told = command("site", "check", "sites", "--json", code=2).json
        assert (told["files"], told["seeds"]) == (3, None)
        assert [(x["file"], x["line"], x["column"], x["severity"]) for x in told["problems"]] == [
            ("sites/a.yaml", 4, 7, "error"),
            ("sites/b.yaml", 5, 23, "error"),
        ]

    def test_what_was_checked_is_counted(self, command: Command) -> None:
        write(
            "sites/a.yaml", "site: a-{n}\nparams: {n: [x, y]}\nseeds: ['http://{n}.example/[1-300]']\nlayers: {p: {}}\n"
        )
        write("one.yml", FORUM)
        assert command("site", "check", "sites", "one.yml").out == "2 files, 3 sites, 601 seeds\n"

    def test_a_body_with_several_values_is_a_seed_for_each(self, command: Command) -> None:
        seed = "{url: http://a.example/search, json: {query: '{topic}'}}"
        write("a.yaml", f"site: a\nparams: {{topic: [x, y, z]}}\nseeds: [{seed}]\nlayers: {{p: {{}}}}\n")
        assert command("site", "check", "a.yaml").out == "1 file, 1 site, 3 seeds\n"
        assert command("site", "check", "a.yaml", "--param", "topic=[x, y]").out == "1 file, 1 site, 2 seeds\n"
        assert command("site", "check", "a.yaml", "--param", "topic=x").out == "1 file, 1 site, 1 seed\n"
        said = command("site", "check", "a.yaml", "--param", "topics=x", code=2).out.splitlines()
        assert said == ["--param: topics: no site has this parameter (did you mean topic?)", "1 file, 1 site, 1 error"]
        assert "cannot be read" in command("site", "check", "a.yaml", "--param", "topic=[x, {]", code=2).err

    def test_warnings_are_told_and_are_no_errors(self, command: Command) -> None:
        write("a.yaml", "site: a\nlayers: {p: {}}\n")
        said = command("site", "check", "a.yaml")
        assert said.out.splitlines() == [
            "a.yaml:1:7: warning: site: there are no seeds: nothing begins a round (write seeds, or follow links to it from another site)",
            "1 file, 1 site, 0 seeds, 1 warning",
        ]

    def test_what_could_never_work_is_told_before_the_crawl(self, command: Command) -> None:
        write(
            "a.yaml",
            "site: a\nseeds: http://a.example/\nx-text: &text {clean: squeeze}\nlayers:\n"
            "  p: {match: '^p/', fields: {t: {css: h1, <<: *text}}, follow: [{css: a, to: p, when: tt}]}\n",
        )
        assert command("site", "check", "a.yaml", code=2).out.splitlines()[0] == (
            "a.yaml:5:87: layers.p.follow[0].when: there is no field tt (did you mean t?)"
        )
        write("a.yaml", Path("a.yaml").read_text().replace("when: tt", "when: t"))
        said = command("site", "check", "a.yaml", code=2).out.splitlines()
        assert said[0].startswith("a.yaml:5:14: layers.p.match: no path fits this: what is looked at begins with /")

    def test_hooks_are_imported_when_asked_for(self, command: Command) -> None:
        hooks = "hooks: {after_download: 'nowhere_at_all:run', on_fail: 'failures_of_a_site:tell'}\n"
        Path("failures_of_a_site.py").write_text("def tell(url, reason, detail): ...\n")
        write("a.yaml", f"site: a\nseeds: [http://a.example/]\nlayers: {{p: {{}}}}\n{hooks}")
        command("site", "check", "a.yaml")
        said = command("site", "check", "a.yaml", "--hooks", code=2)
        assert said.out.startswith("a.yaml:4:25: hooks.after_download: nowhere_at_all cannot be imported: ")
        assert "on_fail" not in said.out
        Path("functions_of_a_site.py").write_text("def run(document):\n    return document\n")
        text = Path("a.yaml").read_text()
        Path("a.yaml").write_text(text.replace("nowhere_at_all:run", "functions_of_a_site:run"))
        assert command("site", "check", "a.yaml", "--hooks").out == "1 file, 1 site, 1 seed\n"

    def test_a_crawl_tells_each_mistake_in_a_line_of_its_own(self, command: Command) -> None:
        write("a.yaml", "site: a\nlayrs: {}\nseedz: []\n")
        said = command("crawl", "a.yaml", code=2)
        assert [line.partition(": ")[2][:9] for line in said.err.splitlines()] == [
            "a.yaml:1:",
            "a.yaml:2:",
            "a.yaml:3:",
        ]

    def test_a_folder_is_one_of_site_files_unless_it_is_code(self, command: Command) -> None:
        write("sites/deep/a.yaml", "site: a\nlayrs: {}\n")
        assert "layrs" in command("crawl", "sites", code=2).err
        Path("empty").mkdir()
        assert "there is no site file in this folder" in command("crawl", "empty", code=2).err
        Path("sites/hooks.py").touch()
        assert "layrs" in command("crawl", "sites", code=2).err
        Path("empty/settings.py").touch()
        assert "there is no spider 'empty'" in command("crawl", "empty", code=2).err
        Path("sites/__init__.py").touch()
        assert "there is no spider 'sites'" in command("crawl", "sites", code=2).err

    def test_files_that_are_not_there(self, command: Command) -> None:
        assert "nothing.yaml" in command("site", "check", "nothing.yaml", code=2).out
        Path("empty").mkdir()
        assert "there is no site file in this folder" in command("site", "check", "empty", code=2).out

    def test_the_schema_is_written(self, command: Command) -> None:
        written = command("site", "schema").json
        assert "layers" in written["properties"]
        command("site", "schema", "-o", "schema.json")
        assert json.loads(Path("schema.json").read_text()) == written
