"""The guides on sites: every site file in them can be used, without a warning, and every Python function in them runs."""

from __future__ import annotations

import importlib.util
import re
import sqlite3
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.support.tutorial import FENCE, FILE

from gossamer.engine.archive.warc import WarcWriter
from gossamer.model.page import PageRequest, Record, Response
from gossamer.sites.compile import CompiledSite, compile_site
from gossamer.sites.file.environment import variables
from gossamer.sites.file.load import survey_text
from gossamer.sites.python.reader import FunctionReader

FOLDER = Path(__file__).parents[2] / "docs" / "how-to"
GUIDES = (
    "many-sources-from-one-file", "pages-turns-and-depth", "log-in-and-cookies", "json-apis-and-posts", "charsets-and-broken-html",
    "prices-over-time", "sites-behind-proxies", "keep-raw-pages", "write-a-handler-in-python", "serve-sites-continuously", "plan-rounds",
    "stop-resume-and-rounds", "refresh-stored-pages", "threads-over-several-pages", "fetch-only-what-changed",
    "crawl-a-forum-incrementally",
)  # fmt: skip


def blocks(guide: str, kind: str) -> list[tuple[str, str]]:
    """The blocks of a kind, each with the name of a file where one stands before it."""
    page = (FOLDER / f"{guide}.md").read_text("utf-8")
    found = []
    for block in FENCE.finditer(page):
        if block[1] == kind:
            named = FILE.search(page[: block.start()])
            found.append((named[1] if named else "", block[2]))
    return found


def sites(guide: str, folder: Path) -> list[CompiledSite]:
    for name, text in blocks(guide, "csv"):
        (folder / name).write_text(text, "utf-8")
    compiled = []
    for _, text in blocks(guide, "yaml"):
        found = survey_text(text, str(folder / "site.yaml"), folder)
        assert found.problems == []
        assert found.sites
        for one in found.sites:
            names = dict.fromkeys(variables(one.site), "known")
            compiled.append(compile_site(one.site, environment=names))
    return compiled


def module(guide: str, name: str, folder: Path) -> ModuleType:
    (folder / name).write_text(dict(blocks(guide, "python"))[name], "utf-8")
    spec = importlib.util.spec_from_file_location(Path(name).stem, folder / name)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize("guide", GUIDES)
def test_the_sites_of_a_guide_can_be_used(guide: str, tmp_path: Path) -> None:
    assert sites(guide, tmp_path)
    for _, text in blocks(guide, "python"):
        compile(text, f"{guide}.md", "exec")


def test_the_guides_are_in_the_index() -> None:
    index = (FOLDER / "index.md").read_text("utf-8")
    assert [guide for guide in GUIDES if f"({guide}.md)" not in index] == []


def test_a_file_that_extends_another_is_as_the_guide_says(tmp_path: Path) -> None:
    page = (FOLDER / "many-sources-from-one-file.md").read_text("utf-8")
    [special] = re.findall(r"```\n(site: special.*?)```", page, re.DOTALL)
    common = "site: common\nparams: {start: 'https://common.example/'}\nseeds: ['{start}']\nlayers: {article: {match: '/a', fields: {title: h1}}}\n"
    (tmp_path / "common.yaml").write_text(common, "utf-8")
    [one] = survey_text(special, "special.yaml", tmp_path).sites
    assert [link.url for link in compile_site(one.site).seeds()] == ["https://special.example/"]
    article = one.site.layers["article"]
    assert (article.encoding, article.match, list(article.fields)) == ("windows-1251", "/a", ["title"])


def test_many_sources_are_many_sites(tmp_path: Path) -> None:
    found = sites("many-sources-from-one-file", tmp_path)
    assert [one.name for one in found] == ["news-harbour", "news-lighthouse", "forum"]
    assert found[2].seed_count() == 90


def read(site: CompiledSite, layer: str, url: str, body: str, **inherited: Any) -> Any:
    return site.read(layer, Response(url, 200, {"content-type": "text/html; charset=utf-8"}, body.encode(), inherited))


def test_the_api_is_read_as_the_guide_says(tmp_path: Path) -> None:
    [site] = sites("json-apis-and-posts", tmp_path)
    page = '{"items": [{"id": 1}, {"id": 2}], "meta": {"cursor": "c=="}}'
    links = [link.url for link in read(site, "list", "https://api.example/v1/books", page).links]
    base = "https://api.example/v1/books"
    assert links == [f"{base}/1", f"{base}/2", f"{base}?cursor=c=="]
    search = read(
        site, "search", "https://api.example/v1/search", '{"query": "sea", "next_page": 2, "hits": [{"id": 7}]}'
    )
    assert [(link.method, link.url, link.body) for link in search.links] == [
        ("POST", "https://api.example/v1/search", b'{"query": "sea", "page": 2}'),
        ("GET", "https://api.example/v1/books/7", b""),
    ]


def test_a_page_with_many_records_turns_by_its_cursor(tmp_path: Path) -> None:
    site = next(one for one in sites("pages-turns-and-depth", tmp_path) if one.name == "books")
    for cursor, links in (('"x1"', ["https://api.example/books?cursor=x1"]), ("null", [])):
        body = f'{{"items": [{{"id": 1}}, {{"id": 2}}], "meta": {{"cursor": {cursor}, "total": 2}}}}'
        reading = read(site, "list", "https://api.example/books", body)
        assert [one.url for one in reading.links] == links
        assert [one.fields["total"] for one in reading.records] == [2, 2]


def test_the_old_forum_is_read_as_the_guide_says(tmp_path: Path) -> None:
    site, forums = sites("charsets-and-broken-html", tmp_path)
    html = (
        "<html><h1>Привет &amp;amp;\n мир<div class=post><p>Текст<script>x<y</script></div>"
        f"<i class=date>03.02.2024, 10:00</i>views: 17<p>{'.' * 500}</html>"
    )
    reading = site.read("page", Response("https://old-forum.example/", 404, {}, html.encode("windows-1251"), {}))
    [record] = reading.records
    assert record.fields["title"].startswith("Привет & мир")
    assert "Текст" in record.fields["text"]
    assert "x<y" not in record.fields["text"]
    assert record.fields["views"] == 17
    assert record.fields["written"].isoformat() == "2024-02-03T10:00:00+03:00"
    title = "<h1>Привет</h1>".encode("koi8-r")
    reading = forums.read("page", Response("https://two.example/", 200, {}, title, {"enc": "koi8-r"}))
    assert reading.records[0].fields == {"title": "Привет"}


async def test_the_handler_runs(tmp_path: Path) -> None:
    site = sites("write-a-handler-in-python", tmp_path)[0]
    pages = module("write-a-handler-in-python", "shop_pages.py", tmp_path)
    body = b"<h1> Shirt </h1><table class=sizes><tr><td>M</td><td>9.50</td></tr></table><a class=colour href=/item/2>red</a>"
    reading = await FunctionReader(pages.item, site, "item").read(
        Response("https://shop.example/item/1", 200, {}, body, {"kind": "a"})
    )
    assert [record.fields for record in reading.records] == [{"name": "Shirt", "size": "M", "price": 9.5, "kind": "a"}]
    assert [(link.url, link.layer, dict(link.inherited)) for link in reading.links] == [
        ("https://shop.example/item/2", "item", {"kind": "colour"})
    ]


def test_the_hooks_run(tmp_path: Path) -> None:
    hooks = module("write-a-handler-in-python", "shop_hooks.py", tmp_path)
    assert hooks.tidy(Record("item", {"name": "a", "price": None})) is None
    assert hooks.tidy(Record("item", {"name": "a b", "price": 1})).fields["name"] == "A B"


async def test_the_session_is_made_once(tmp_path: Path) -> None:
    session = module("log-in-and-cookies", "members_session.py", tmp_path)
    calls = []
    session._log_in = lambda: calls.append(1) or "secret"  # type: ignore[attr-defined, func-returns-value]
    for _ in range(2):
        ask = await session.with_token(PageRequest("https://members.example/area", headers={"Accept": "x"}))
        assert ask.headers == {"Accept": "x", "Authorization": "Bearer secret"}
    assert calls == [1]


def test_the_questions_on_prices_are_sql() -> None:
    [(_, text)] = blocks("prices-over-time", "sql")
    database = sqlite3.connect(":memory:")
    database.execute("create table prices (sku, price, valid_from)")
    database.executemany("insert into prices values (?, ?, ?)", [("a", 1, "1"), ("a", 2, "2"), ("b", 5, "1")])
    now, changes = [database.execute(one).fetchall() for one in text.split(";") if one.strip()]
    database.close()
    assert sorted(now) == [("a", 2, "2"), ("b", 5, "1")]
    assert ("a", "2", 2, 1) in changes


def test_kept_pages_are_read_as_the_guide_says(tmp_path: Path) -> None:
    [(_, text)] = blocks("keep-raw-pages", "python")
    names: dict[str, Any] = {}
    exec(compile(text, "keep-raw-pages.md", "exec"), names)
    page = Response(
        "https://archive.example/reports/1", 200, {}, b"one", raw=b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none"
    )
    with WarcWriter(tmp_path / "kept") as writer:
        writer.write(page)
    assert list(names["pages"](tmp_path / "kept")) == [("https://archive.example/reports/1", b"one")]
