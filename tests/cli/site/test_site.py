"""`gossamer site check, try, test, reconcile, schema`: the tools of those who write site files."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support import fork_server
from tests.support.command import Command
from tests.support.site import Reply, Site

from gossamer.engine.job import NativeEnd, NativeJob
from gossamer.engine.page.payload import pack
from gossamer.engine.worker import NativeWorker
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import LanePolicy, Request, Selection, Token
from gossamer.model.page import PageRequest
from gossamer.settings import Settings, load
from gossamer.sites.compile import compile_site
from gossamer.sites.file.load import load as load_sites
from gossamer.sites.file.load import load_kept
from gossamer.sites.format import SiteSpec as SiteFile
from gossamer.status import depth
from gossamer.status.depth import depths_of

FORUM = """\
site: forum
seeds: [SITE/list/1]
politeness: {robots: ignore}
layers:
  list:
    match: '^/list/(?P<page>\\d+)'
    follow:
      - {css: a.post, to: post, pass: [page]}
      - {css: a.next, to: list, pages: 2}
      - a.any
    fields: {page: {from: url, regex: '(\\d+)$', type: int}}
  post:
    match: '^/post/'
    require: [title]
    fields:
      title: h1
      price: {css: .price, type: decimal}
      at: {css: time, attr: datetime, type: datetime}
      views: {css: .views, type: int}
      list: {from: parent.page, type: int}
      replies: {each: .reply, fields: {text: .t}}
"""
POST = """<h1>A post</h1><b class="price">1.50</b><time datetime="2024-02-03T04:05:06Z"></time><i class=views>many</i>
<p class=reply><b class=t>ü</b></p><p class=reply><b class=t>two</b></p>"""
LIST = (
    '<a class="post" href="/post/1">p</a><a class="next" href="/list/2">n</a><a class=any href="/post/2?b=2&a=1">x</a>'
)


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as one:
        one.on("/post/1", Reply(body=POST)).on("/list/1", Reply(body=LIST))
        yield one


def write(name: str, text: str, site: Site | None = None) -> str:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(textwrap.dedent(text).replace("SITE", site.url if site else "http://x.example"), "utf-8")
    return name


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


class TestTry:
    def test_layer_fields_and_verdict_are_shown_and_nothing_is_queued(self, command: Command, site: Site) -> None:
        file = write("forum.yaml", FORUM, site)
        said = command("site", "try", f"{site.url}/post/1", "--file", file, "--pass", '{"page": 7}')
        lines = said.out.splitlines()
        assert lines[0] == "site forum, layer post: match ^/post/"
        assert lines[1] == f"identity: {site.url}/post/1"
        assert lines[2] == "robots.txt: not asked (politeness.robots: ignore)"
        assert lines[3].startswith(f"GET {site.url}/post/1: 200, ")
        assert lines[4].startswith(f"{len(POST.encode()):,} bytes, utf-8")
        assert lines[5] == "verdict: ok"
        cells = {line.split("\t")[0]: line.split("\t")[1:] for line in lines[7:]}
        assert cells["title"] == ["text", "A post"]
        assert cells["list"] == ["int", "7"]
        assert cells["price"] == ["decimal", "1.50"]
        assert cells["replies"] == ["list", '[{"text": "ü"}, {"text": "two"}]']
        assert any(line.startswith("note: views: ") for line in lines)
        assert [path for path in site.paths() if path != "/robots.txt"] == ["/post/1"]

    def test_links_are_shown_with_layer_and_rule(self, command: Command, site: Site) -> None:
        file = write("forum.yaml", FORUM, site)
        told = command("site", "try", f"{site.url}/list/1", "--file", file, "--json").json
        [found] = load_sites(file)
        assert int(told["fingerprint"], 16) == compile_site(found).fingerprint("list", f"{site.url}/list/1")
        assert told["why"] == "match ^/list/(?P<page>\\d+), page 1"
        assert told["canonical"] == f"{site.url}/list/1"
        assert [(x["layer"], x["rule"], x["url"].removeprefix(site.url)) for x in told["reading"]["links"]] == [
            ("post", "follow[0] css a.post", "/post/1"),
            ("list", "follow[1] css a.next", "/list/2"),
            ("post", "follow[2] css a.any", "/post/2?b=2&a=1"),
        ]
        assert told["reading"]["links"][0]["inherited"] == {"page": 1}
        shown = command("site", "try", f"{site.url}/list/1", "--file", file).out
        assert f"post\tfollow[0] css a.post\t{site.url}/post/1\t" in shown
        assert "not followed" not in shown
        elsewhere = (
            '<a class=any href="http://other.example/post/3">x</a><a class=any href="http://other.example/">x</a>'
        )
        site.on("/list/1", Reply(body=LIST + elsewhere))
        assert (
            "\nnot followed: follow[2] css a.any: 2 links that no match fits, as http://other.example/post/3"
            " (another host than that of the seeds)\n"
        ) in command("site", "try", f"{site.url}/list/1", "--file", file).out

    def test_links_to_other_hosts_are_named(self, command: Command, site: Site) -> None:
        far = "".join(f'<a class=post href="http://{host}.example/post/3">x</a>' for host in "abcdefa")
        site.on("/list/1", Reply(body=LIST + far))
        shown = command("site", "try", f"{site.url}/list/1", "--file", write("forum.yaml", FORUM, site)).out
        hosts = "a.example (1), b.example (1), c.example (1), d.example (1), e.example (1) and 1 more"
        said = f"\nother hosts than those of the seeds: 6 links, to {hosts}; with hosts: own, a rule skips such links\n"
        assert said in shown
        text = FORUM.replace("to: post", "to: post, hosts: own", 1)
        shown = command("site", "try", f"{site.url}/list/1", "--file", write("f.yaml", text, site)).out
        assert "other hosts" not in shown
        assert ".example" not in shown

    def test_a_link_to_a_layer_with_a_form_keeps_its_rule(self, command: Command, site: Site) -> None:
        text = FORUM.replace("  post:\n", "  post:\n    request: {form: {q: '1'}}\n")
        told = command("site", "try", f"{site.url}/list/1", "--file", write("f.yaml", text, site), "--json").json
        assert [(x.get("method"), x["rule"]) for x in told["reading"]["links"]] == [
            ("POST", "follow[0] css a.post"),
            (None, "follow[1] css a.next"),
            ("POST", "follow[2] css a.any"),
        ]
        shown = command("site", "try", f"{site.url}/list/1", "--file", "f.yaml").out
        assert f"post\tfollow[0] css a.post\tPOST {site.url}/post/1 q=1\t" in shown, "links differ by what is sent"

    def test_redirects_are_shown_hop_by_hop(self, command: Command, site: Site) -> None:
        site.on("/post/old", Reply(301, headers={"Location": "/post/older"}))
        site.on("/post/older", Reply(302, headers={"Location": "/post/1"}))
        file = write("forum.yaml", FORUM, site)
        told = command("site", "try", f"{site.url}/post/old", "--file", file, "--json").json
        assert [(hop["status"], hop["to"].removeprefix(site.url)) for hop in told["hops"]] == [
            (301, "/post/older"),
            (302, "/post/1"),
            (200, ""),
        ]
        assert told["reading"]["verdict"] == "ok"
        site.on("/post/1", Reply(302, headers={"Location": "/post/old"}))
        told = command("site", "try", f"{site.url}/post/old", "--file", file, "--json", code=1).json
        assert told["failure"].startswith("redirect_loop: ")

    def test_robots_txt_is_obeyed_and_said(self, command: Command, site: Site) -> None:
        site.on("/robots.txt", Reply(body="User-agent: *\nDisallow: /post/2\n"))
        file = write("forum.yaml", FORUM.replace("politeness: {robots: ignore}\n", ""), site)
        assert "robots.txt: allowed" in command("site", "try", f"{site.url}/post/1", "--file", file).out
        said = command("site", "try", f"{site.url}/post/2", "--file", file, code=1)
        assert "not read: robots.txt: forbidden" in said.out
        assert [path for path in site.paths() if path != "/robots.txt"] == ["/post/1"]

    @pytest.mark.parametrize(
        ("status", "said"),
        [(503, "not read: status 503: would be retried"), (404, "not read: status 404: the page is gone")],
    )
    def test_what_a_worker_would_do_instead_of_reading(
        self, command: Command, site: Site, status: int, said: str
    ) -> None:
        site.on("/post/1", Reply(status))
        assert said in command("site", "try", f"{site.url}/post/1", "--file", write("f.yaml", FORUM, site), code=1).out

    def test_a_host_that_is_not_there(self, command: Command) -> None:
        said = command("site", "try", "http://127.0.0.1:1/", "--file", write("f.yaml", FORUM), code=1)
        assert "not read: connect: " in said.out
        obeying = write("g.yaml", FORUM.replace("robots: ignore", "robots: obey"))
        said = command("site", "try", "http://127.0.0.1:1/", "--file", obeying, code=1)
        assert (
            "not read: robots.txt: could not be fetched (connect: 127.0.0.1:1 cannot be reached (Connection refused))"
            in said.out
        )

    def test_a_page_without_what_it_must_have(self, command: Command, site: Site) -> None:
        site.on("/post/1", Reply(body="<p>nothing</p>"))
        said = command("site", "try", f"{site.url}/post/1", "--file", write("f.yaml", FORUM, site), code=1)
        assert "verdict: lack: lacks title" in said.out

    def test_a_file_is_read_as_if_it_had_come_from_a_url(self, command: Command) -> None:
        Path("page.html").write_text(POST, "utf-8")
        file = write("forum.yaml", FORUM)
        told = command("site", "try", "page.html", "--as", "http://x.example/post/9", "--file", file, "--json").json
        assert (told["layer"], told["reading"]["records"][0]["fields"]["title"]) == ("post", "A post")
        assert "is not a URL" in command("site", "try", "page.html", "--file", file, code=2).err
        assert (
            "absent.html"
            in command("site", "try", "absent.html", "--as", "http://x.example/", "--file", file, code=2).err
        )

    def test_the_layer_may_be_said(self, command: Command, site: Site) -> None:
        file = write("forum.yaml", FORUM, site)
        told = command("site", "try", f"{site.url}/other", "--file", file, "--json").json
        assert (told["layer"], told["why"]) == ("list", "the first layer: no match fits")
        told = command("site", "try", f"{site.url}/post/1", "--file", file, "--layer", "list", "--json").json
        assert (told["layer"], told["why"]) == ("list", "as asked")
        assert "did you mean post?" in command("site", "try", site.url, "--file", file, "--layer", "pst", code=2).err

    def test_the_site_is_found_among_those_of_the_crawl(
        self, command: Command, frontier: ValkeyFrontier, site: Site
    ) -> None:
        assert "has no site files" in command("site", "try", f"{site.url}/post/1", code=2).err
        command("site", "push", write("forum.yaml", FORUM, site))
        stored = "store: {post: {table: p, key: [title]}}\n"
        command("site", "push", write("forum.yaml", FORUM + stored, site))
        said = command("site", "push", write("other.yaml", FORUM.replace("forum", "other") + stored, None))
        assert "the sites forum and other both feed p: rows with the same title replace p_replies of each" in said.err
        told = command("site", "try", f"{site.url}/post/1", "--json").json
        assert (told["site"], told["layer"]) == ("forum", "post")
        assert frontier.counts().lanes == []
        assert "No layer of the 2 sites matches" in command("site", "try", "http://z.example/", code=2).err
        command("site", "push", write("third.yaml", FORUM.replace("forum", "third"), site))
        assert "2 sites match" in command("site", "try", f"{site.url}/post/1", code=2).err
        assert command("site", "try", f"{site.url}/post/1", "--site", "third", "--json").json["site"] == "third"
        assert "did you mean third?" in command("site", "try", site.url, "--site", "thrid", code=2).err

    def test_hooks_and_handlers_are_called(
        self, command: Command, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "tryhooks.py").write_text(
            "def no(ask): return None\n"
            "async def post(page):\n    yield {'t': page.css('h1::text').get()}\n    yield page.follow('/post/3')\n"
            "def keep(record): return record._replace(fields={**record.fields, 'more': 1})\n"
        )
        monkeypatch.syspath_prepend(str(tmp_path))
        text = (
            f"site: h\nseeds: ['{site.url}/']\npoliteness: {{robots: ignore}}\nlayers:\n  post: {{match: post, HOW}}\n"
        )
        how = "handler: 'tryhooks:post', hooks: {before_store: 'tryhooks:keep'}"
        told = command(
            "site", "try", f"{site.url}/post/1", "--file", write("h.yaml", text.replace("HOW", how)), "--json"
        ).json
        assert told["reading"]["records"][0]["fields"] == {"t": "A post", "more": 1}
        assert told["reading"]["links"][0]["rule"] == ""
        left = write("h.yaml", text.replace("HOW", "hooks: {before_request: 'tryhooks:no'}"))
        said = command("site", "try", f"{site.url}/post/1", "--file", left, code=1)
        assert "not read: the hook before_request skipped it" in said.out

    def test_a_site_of_scrapy_is_fetched_through_scrapy(self, command: Command, site: Site, tmp_path: Path) -> None:
        file = write("f.yaml", "engine: scrapy\n" + FORUM, site)
        site.on("/post/old", Reply(301, headers={"Location": "/post/1"}))
        # In a process of its own: a reactor is there for good.
        words = ["site", "try", f"{site.url}/post/old", "--file", file, "--json"]
        done = fork_server.run("gossamer", words, os.environ, tmp_path, 120)
        assert done.returncode == 0, done.stdout + done.stderr
        told = json.loads(done.stdout)
        assert [hop["status"] for hop in told["hops"]] == [301, 200]
        assert told["reading"]["records"][0]["fields"]["title"] == "A post"
        assert site.paths() == ["/post/old", "/post/1"]

    def test_a_seed_is_asked_for_as_it_says(self, command: Command, site: Site) -> None:
        site.on("/search", Reply(body="<h1>Found</h1>"))
        seed = "{url: SITE/search, layer: found, form: {q: '{topic}'}, headers: {X-Key: k}, pass: {topic: '{topic}'}}"
        fields = "{title: h1, topic: {from: parent.topic}}"
        text = f"site: s\nparams: {{topic: [sea, stars]}}\nseeds: [{seed}]\npoliteness: {{robots: ignore}}\n"
        name = write("s.yaml", f"{text}layers: {{first: {{}}, found: {{fields: {fields}}}}}\n", site)
        said = command("site", "try", f"{site.url}/search", "--file", name).out
        assert "layer found: the layer of the seed\n" in said
        assert "topic\ttext\tsea\n" in said
        told = command("site", "try", f"{site.url}/search", "--file", name, "--json").json
        first, _ = compile_site(load_sites(name)[0]).seeds()
        assert told["fingerprint"] == f"{first.fingerprint:016x}"
        site.visits.clear()
        command("site", "try", f"{site.url}/search", "--file", name, "--param", "topic=stars")
        asked = list(site.visits)
        assert [(one.method, one.body, one.headers["X-Key"]) for one in asked] == [("POST", b"q=stars", "k")]

    def test_parameters_may_have_other_values(self, command: Command, frontier: ValkeyFrontier, site: Site) -> None:
        write("f.yaml", "params: {base: http://x.example}\n" + FORUM.replace("[SITE/list/1]", "['{base}/list/1']"))
        given = ("--param", f"base={site.url}")
        for where in (("--file", "f.yaml"), ("--site", "forum")):
            assert "layer post" in command("site", "try", f"{site.url}/post/1", *where, *given).out
            assert "layer list" in command("site", "try", f"{site.url}/post/1", *where).out
            command("site", "push", "f.yaml")

    @pytest.mark.parametrize("given", ["[1]", "{"])
    def test_what_is_passed_must_be_an_object(self, command: Command, given: str) -> None:
        assert "--pass" in command("site", "try", "http://x.example/", "--pass", given, code=2).err


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


STORED = """\
site: shop
seeds: [SITE/list/1]
politeness: {robots: ignore}
layers:
  list:
    match: '^/list/'
    fields: {name: h1}
    follow: [{css: a, to: item, pass: [name]}]
  item:
    match: '^/item/'
    fields: {title: h1, list: {from: parent.name}, offers: {each: .o, fields: {n: b}}}
    follow: [{css: a, to: review}]
  review: {match: '^/review/', fields: {text: p}}
store:
  list: {key: [url]}
  item: {key: [title], add: [url, parent]}
  review: {add: [parent]}
"""


class TestReconcile:
    @pytest.fixture
    async def crawled(self, command: Command, frontier: ValkeyFrontier, site: Site) -> Any:
        """A shop with two lists: one without items, and one with two items of which one has a review."""
        self.pages(site)
        site.on("/list/1", Reply(body="<h1>one</h1><a href=/item/a>a</a><a href=/item/b>b</a>"))
        command("site", "push", write("shop.yaml", STORED, site))
        await self.run(frontier)
        return frontier

    def pages(self, site: Site) -> None:
        site.on("/item/a", Reply(body="<h1>A</h1><a href=/review/1>r</a><div class=o><b>1</b></div>"))
        site.on("/item/b", Reply(body="<h1>B</h1>"))
        site.on("/review/1", Reply(body="<p>fine</p>"))

    async def run(self, frontier: ValkeyFrontier) -> NativeEnd:
        given = {"GOSSAMER_DATA_DIR": str(Path.cwd() / "data"), "GOSSAMER_LEASE_SECONDS": 5.0}
        return await NativeWorker(load(given), NativeJob(sites=("shop",), stage=None)).run()

    def reconcile(self, command: Command, *words: str, code: int = 0) -> Any:
        return command("site", "reconcile", "shop", "--json", *words, code=code).json

    async def test_parents_without_children_are_fetched_again_once(
        self, command: Command, crawled: ValkeyFrontier, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GOSSAMER_DATA_DIR", str(Path.cwd() / "data"))
        both = self.reconcile(command, "--dry-run")
        assert [(x["parent"], x["child"], x["missing"], x["queued"]) for x in both] == [
            ("list", "item", 0, 0),
            ("item", "review", 1, 0),
        ]
        assert self.reconcile(command, "--parent", "item")[0] == {
            "parent": "item", "child": "review", "missing": 1, "queued": 1, "waiting": 0, "full": 0, "refused": [],
        }  # fmt: skip
        said = command("site", "reconcile", "shop", "--child", "review")
        assert said.rows == [["item", "review", "1", "0", "1"]], "it waits already"
        site.on("/item/b", Reply(body="<h1>B</h1><a href=/review/2>r</a>"))
        site.on("/review/2", Reply(body="<p>late</p>"))
        before = len(site.paths())
        await self.run(crawled)
        assert sorted(site.paths()[before:]) == ["/item/b", "/review/2"]
        assert [x["missing"] for x in self.reconcile(command)] == [0, 0]
        with sqlite3.connect("data/items.db") as database:
            rows = database.execute("select title, list from shop_item order by title").fetchall()
        database.close()
        assert rows == [("A", "one"), ("B", "one")], "what it inherited it has again"

    async def test_children_whose_rows_are_gone_come_back_although_they_were_seen(
        self, command: Command, crawled: ValkeyFrontier, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GOSSAMER_DATA_DIR", str(Path.cwd() / "data"))
        site.on("/item/b", Reply(body="<h1>B</h1><a href=/review/1>r</a>"))
        with sqlite3.connect("data/items.db") as database:
            database.execute("delete from shop_review")
        database.close()
        assert [x["queued"] for x in self.reconcile(command, "--child", "review")] == [2]
        await self.run(crawled)
        assert site.paths().count("/review/1") > 1
        with sqlite3.connect("data/items.db") as database:
            assert database.execute("select text from shop_review").fetchall() == [("fine",)]
        database.close()

    async def test_what_is_still_missing_afterwards_is_queued_again(
        self, command: Command, crawled: ValkeyFrontier, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GOSSAMER_DATA_DIR", str(Path.cwd() / "data"))
        for _ in range(2):
            assert [x["queued"] for x in self.reconcile(command, "--child", "review")] == [1]
            await self.run(crawled)
        assert site.paths().count("/item/b") == 3
        assert [x["queued"] for x in self.reconcile(command, "--child", "review")] == [1]
        assert [x["queued"] for x in self.reconcile(command, "--child", "review")] == [0]
        assert [x["queued"] for x in self.reconcile(command, "--child", "review", "--again")] == [1]

    async def test_nested_records_are_children_too(
        self, command: Command, crawled: ValkeyFrontier, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GOSSAMER_DATA_DIR", str(Path.cwd() / "data"))
        [told] = self.reconcile(command, "--parent", "item", "--child", "offers", "--dry-run")
        assert told["missing"] == 1
        assert (
            "no table of its own"
            in command("site", "reconcile", "shop", "--parent", "item", "--child", "title", code=2).err
        )

    async def test_a_full_layer_takes_the_rest_later(
        self, command: Command, crawled: ValkeyFrontier, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GOSSAMER_DATA_DIR", str(Path.cwd() / "data"))
        command("lane", "set", "shop.item", "--max-queued", "1")
        with sqlite3.connect("data/items.db") as database:
            database.execute("delete from shop_review")
        database.close()
        assert [
            (x["missing"], x["queued"], x["full"]) for x in self.reconcile(command, "--child", "review", code=1)
        ] == [(2, 1, 1)]
        token = Token.fresh()
        leases = crawled.exchange(token, want=9, selection=Selection(groups=("shop",))).leases
        assert len(leases) == 1
        assert [(x["queued"], x["waiting"]) for x in self.reconcile(command, "--child", "review")] == [(1, 1)]

    async def test_a_url_that_cannot_be_queued_is_told_and_the_others_are(
        self, command: Command, crawled: ValkeyFrontier, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GOSSAMER_DATA_DIR", str(Path.cwd() / "data"))
        monkeypatch.setenv("GOSSAMER_PAYLOAD_MAX_BYTES", "4096")
        with sqlite3.connect("data/items.db") as database:
            database.execute("delete from shop_review")
            database.execute("update shop_item set url = url || ? where title = 'B'", ("x" * 5000,))
        database.close()
        said = command("site", "reconcile", "shop", "--child", "review", code=1)
        assert said.rows == [["item", "review", "2", "1", "0"]]
        assert "cannot be queued: http://127.0.0.1" in said.err

    def test_what_is_needed_is_said(self, command: Command, frontier: ValkeyFrontier, site: Site) -> None:
        command("site", "push", write("shop.yaml", STORED, site))
        run = ("site", "reconcile", "shop")
        assert "has never run in this crawl" in command(*run, "--parent", "item", code=2).err
        assert "did you mean item?" in command(*run, "--parent", "itme", code=2).err
        assert "no site file 'nope'" in command("site", "reconcile", "nope", code=2).err

        def after(old: str, new: str) -> str:
            command("site", "push", write("shop.yaml", STORED.replace(old, new), site))
            return command(*run, "--parent", "item", "--child", "review", code=2).err

        assert "add url to store.item.add" in after("add: [url, parent]", "add: [parent]")
        assert "add parent to store.review.add" in after("{add: [parent]}", "{}")
        assert "the layer review are not stored; write store.review" in after("  review: {add: [parent]}\n", "")
        assert "the layer item are not stored" in after("  item: {key: [title], add: [url, parent]}\n", "")
        write("shop.yaml", "site: shop\nseeds: [http://x.example/]\nlayers: {a: {}}\n")
        command("site", "push", "shop.yaml")
        assert "no layer follows links to another" in command(*run, code=2).err


class TestDepths:
    def test_status_has_a_table_of_what_waits_at_each_depth(
        self, command: Command, frontier: ValkeyFrontier, site: Site
    ) -> None:
        frontier.define("plain", {"all": LanePolicy()})
        assert "DEPTH" not in command("status").out
        command("site", "push", write("shop.yaml", STORED, site))
        assert "DEPTH" not in command("status").out, "it has not run yet"
        lanes = {"list": LanePolicy(), "item": LanePolicy(), "review": LanePolicy(), "gone": LanePolicy()}
        frontier.define("shop", lanes)
        frontier.add([Request(n, f"h{n}", "shop.item", b"x") for n in range(7)])
        frontier.add([Request(n + 100, f"h{n}", "shop.gone", b"x", delay=60.0) for n in range(2)])
        frontier.exchange(Token.fresh(), want=3, selection=Selection(lanes=("shop.item",)))
        rows = [
            ["shop", "0", "list", "0", "0"],
            ["shop", "1", "item", "4", "3"],
            ["shop", "2", "review", "0", "0"],
            ["shop", "", "gone", "2", "0"],
        ]
        said = command("status").out.splitlines()
        head = said.index("SITE\tDEPTH\tLAYERS\tWAITING\tIN PROGRESS")
        assert [line.split("\t") for line in said[head + 1 : head + 5]] == rows
        told = command("status", "--json", "--group", "shop").json["depths"]
        assert [(x["site"], x["depth"], x["waiting"], x["in_progress"]) for x in told] == [
            ("shop", 0, 0, 0),
            ("shop", 1, 4, 3),
            ("shop", 2, 0, 0),
            ("shop", -1, 2, 0),
        ]
        assert command("status", "--json", "--group", "plain").json["depths"] == []

    def test_no_more_files_are_read_than_are_needed(
        self, command: Command, frontier: ValkeyFrontier, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(depth.MANY + 1):
            write(f"many/s{number}.yaml", f"site: s{number}\nseeds: [http://x.example/]\nlayers: {{all: {{}}}}\n")
            frontier.define(f"s{number}", {"all": LanePolicy()})
        command("site", "push", "many")
        read: list[str] = []

        def reads(text: str, name: str) -> list[SiteFile]:
            read.append(name)
            return load_kept(text, name)

        monkeypatch.setattr(depth, "load_kept", reads)
        assert command("status", "--json").json["depths"] == []
        assert read == []
        frontier.add([Request(1, "x.example", "s7.all", b"x")])
        assert [row["site"] for row in command("status", "--json").json["depths"]] == ["s7"]
        assert [row["site"] for row in command("status", "--json", "--group", "s9").json["depths"]] == ["s9"]
        assert read == ["s7", "s9"]

    def test_a_file_that_cannot_be_read_any_more_is_passed_over(
        self, command: Command, frontier: ValkeyFrontier
    ) -> None:
        frontier.put_document("site", "bad", "site: bad\n")
        frontier.define("bad", {"all": LanePolicy()})
        assert "DEPTH" not in command("status").out


class TestPools:
    async def run(self, **job: Any) -> NativeEnd:
        return await NativeWorker(self.settings(), NativeJob(**job)).run()

    async def test_one_layer_alone_is_a_round_too(self, command: Command, frontier: ValkeyFrontier, site: Site) -> None:
        site.on("/list/2", Reply(body="<p>the end</p>"))
        command("site", "push", write("forum.yaml", FORUM, site))
        ended = await self.run(stage=None, layer="list")
        assert ended.reason == "drained"
        assert site.paths() == ["/list/1", "/list/2"]
        assert [row.layers for _, row in depths_of(frontier, frontier.counts().lanes)] == [("list",), ("post",)]

    async def test_a_stage_is_served_by_its_own_workers(
        self, command: Command, frontier: ValkeyFrontier, site: Site
    ) -> None:
        text = FORUM.replace("  post:\n", "  post:\n    stage: details\n").replace("      - a.any\n", "")
        site.on("/list/2", Reply(body="<p>the end</p>"))
        command("site", "push", write("forum.yaml", text, site))
        general, details = (
            NativeWorker(self.settings(), NativeJob(forever=True)),
            NativeWorker(self.settings(), NativeJob(stage="details", forever=True)),
        )
        running = [asyncio.ensure_future(worker.run()) for worker in (general, details)]
        try:
            await asyncio.to_thread(site.reached, "/list/2")
            await asyncio.to_thread(site.reached, "/post/1")
            details.stop()
            await running[1]
            frontier.add([pack(PageRequest(f"{site.url}/post/9", fingerprint=9), "forum.post")])
            frontier.add([pack(PageRequest(f"{site.url}/list/9", fingerprint=10), "forum.list")])
            await asyncio.to_thread(site.reached, "/list/9")
            assert "/post/9" not in site.paths()
        finally:
            general.stop()
            details.stop()
            await asyncio.wait(running)
        assert frontier.counts("forum").groups[0].open == 1

    def settings(self) -> Settings:
        return load({"GOSSAMER_DATA_DIR": str(Path.cwd() / "data"), "GOSSAMER_LEASE_SECONDS": 5.0})
