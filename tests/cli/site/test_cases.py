"""`gossamer site test`: saved pages give what they gave."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

from tests.cli.site.site_files import FORUM, POST, write
from tests.support.command import Command
from tests.support.site import Reply, Site


class TestCases:
    def saved(self, command: Command, site: Site) -> tuple[str, Path]:
        site.on("/post/1", Reply(body=POST, headers={"Set-Cookie": "secret=1", "X-More": "x"}))
        file = write("forum.yaml", FORUM, site)
        words = ("site", "try", f"{site.url}/post/1", "--file", file, "--save", "post-1", "--pass", '{"page": 7}')
        assert "saved in forum.yaml.cases/post-1" in command(*words).err
        assert "exists already" in command(*words, code=2).err
        command(*words, "--force")
        return file, Path("forum.yaml.cases/post-1")

    def test_a_case_can_be_read_by_people_and_holds_no_secret(self, command: Command, site: Site) -> None:
        _, folder = self.saved(command, site)
        assert (folder / "body.html").read_text("utf-8") == POST
        text = (folder / "case.json").read_text("utf-8")
        assert "secret" not in text
        assert '"text": "ü"' in text
        case = json.loads(text)
        assert (case["site"], case["layer"], case["url"], case["status"]) == (
            "forum",
            "post",
            f"{site.url}/post/1",
            200,
        )
        assert (case["inherited"], case["headers"]["x-more"]) == ({"page": 7}, "x")
        fields = case["reading"]["records"][0]["fields"]
        assert fields["at"] == {"$datetime": "2024-02-03T04:05:06+00:00"}
        assert fields["price"] == {"$decimal": "1.50"}

    def test_what_is_read_otherwise_is_shown_as_a_difference(self, command: Command, site: Site) -> None:
        file, _ = self.saved(command, site)
        site.on("/post/1", Reply(500))
        assert command("site", "test", file).out == "1 case: 1 same\n"
        write(file, FORUM.replace("css: .price, type: decimal", "css: .price, type: float"), site)
        said = command("site", "test", file, code=1)
        assert said.out.splitlines()[0] == "forum.yaml: post-1: different"
        assert '-          "$decimal": "1.50"' in said.out
        assert '+        "price": 1.5,' in said.out
        assert said.out.splitlines()[-1] == "1 case: 1 different"
        [told] = command("site", "test", file, "--json", code=1).json
        assert (told["state"], told["case"]) == ("different", "post-1")
        assert command("site", "test", file, "--update").out.splitlines()[-1] == "1 case: 1 updated"
        assert command("site", "test", file).out == "1 case: 1 same\n"

    def test_a_case_is_the_same_right_after_it_was_saved(self, command: Command, site: Site) -> None:
        """Times that count from the fetch, and notes about rows that the table would not keep."""
        rule = """
            site: s
            seeds: [SITE/x]
            politeness: {robots: ignore}
            layers:
              x:
                match: ^/x
                records: p
                fields: {id: b, at: {css: i, type: datetime, languages: en}}
            store: {x: {table: x, key: [id]}}
        """
        file, page = write("s.yaml", textwrap.dedent(rule), site), "<p><b>1</b><i>3 hours ago</i></p><p><b>1</b></p>"
        site.on("/x", Reply(body=page))
        Path("x.html").write_text(page)
        command("site", "try", f"{site.url}/x", "--file", file, "--save", "fetched")
        command("site", "try", "x.html", "--as", f"{site.url}/x", "--file", file, "--save", "from-a-file")
        assert "lost to others" in Path("s.yaml.cases/fetched/case.json").read_text()
        assert command("site", "test", file).out == "2 cases: 2 same\n"

    def test_cases_that_are_not_run_are_told(self, command: Command, site: Site) -> None:
        self.saved(command, site)
        Path("more").mkdir()
        Path("forum.yaml.cases").rename("more/old.yaml.cases")
        assert "more/old.yaml.cases is not run: that file is not there" in command("site", "test", ".", code=2).err
        Path("more/old.yaml.cases").rename("shop.py.cases")
        Path("shop.py").touch()
        assert "shop.py.cases is not run: name that file, too" in command("site", "test", ".", code=2).err

    def test_links_belong_to_a_case(self, command: Command, site: Site) -> None:
        file = write("forum.yaml", FORUM, site)
        command("site", "try", f"{site.url}/list/1", "--file", file, "--save", "list")
        command("site", "test", ".")
        write(file, FORUM.replace("a.any", "a.none"), site)
        assert "/post/2?b=2&a=1" in command("site", "test", file, code=1).out

    def test_a_layer_or_site_that_is_gone(self, command: Command, site: Site) -> None:
        file, _ = self.saved(command, site)
        write(file, FORUM.replace("  post:", "  posts:").replace("to: post", "to: posts"), site)
        said = command("site", "test", file, "--update", code=1)
        assert "the site forum has no layer post (did you mean posts?)" in said.out
        write(file, FORUM.replace("site: forum", "site: forums"), site)
        assert "there is no site forum in this file" in command("site", "test", file, code=1).out

    def test_secrets_of_the_environment_are_not_needed(self, command: Command, site: Site) -> None:
        file, _ = self.saved(command, site)
        write(file, FORUM + "request: {headers: {X-Key: '${NOT_SET_ANYWHERE}'}}\n", site)
        assert command("site", "test", file).out == "1 case: 1 same\n"
        assert "NOT_SET_ANYWHERE" in command("site", "try", f"{site.url}/post/1", "--file", file, code=2).err

    def test_cases_that_cannot_be_used(self, command: Command, site: Site) -> None:
        file, folder = self.saved(command, site)
        (folder / "body.html").unlink()
        assert "the page itself is missing" in command("site", "test", file, code=2).err
        (folder / "case.json").write_text('{"site": 1}')
        assert "url is missing" in command("site", "test", file, code=2).err
        (folder / "case.json").write_text("{")
        assert "is not JSON" in command("site", "test", file, code=2).err
        (folder / "case.json").unlink()
        assert "has no case.json" in command("site", "test", file, code=2).err
        folder.rmdir()
        assert "there are no cases" in command("site", "test", file, code=2).err
        words = ("site", "try", f"{site.url}/post/1", "--save")
        assert "cannot be the name of a case" in command(*words, "../x", "--file", file, code=2).err
        assert "name it with --file" in command(*words, "x", code=2).err
        assert "layers" in command("site", "test", write("bad.yaml", "site: x\n"), code=2).err

    def test_what_was_not_read_is_not_saved(self, command: Command, site: Site) -> None:
        file = write("forum.yaml", FORUM, site)
        site.on("/post/1", Reply(404))
        said = command("site", "try", f"{site.url}/post/1", "--file", file, "--save", "x", code=1)
        assert "there is nothing to save" in said.err
        assert not Path("forum.yaml.cases").exists()
