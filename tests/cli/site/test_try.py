"""`gossamer site try`: what a page gives by the rules of a site."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.cli.site.site_files import FORUM, LIST, POST, write
from tests.support import fork_server
from tests.support.command import Command
from tests.support.site import Reply, Site

from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.sites.compile import compile_site
from gossamer.sites.file.load import load as load_sites


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
