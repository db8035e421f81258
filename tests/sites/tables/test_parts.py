"""Rows that several pages speak of: which layers have them, and what the check says of tables that two layers feed."""

from __future__ import annotations

import pytest

from gossamer.model.page import PageRequest, Response
from gossamer.model.table import PAGES, UNREAD
from gossamer.sites.compile import compile_site
from gossamer.sites.file.load import load_text, survey_text
from gossamer.sites.tables.parts import turns

SITE = """
site: s
seeds: http://s.example/
layers:
  post:
    fields: {id: {css: b, type: int}, title: h1, notes: {each: li, fields: {text: p}}}
    follow: [{css: a.next, to: post, pages: 2}]
  api: {format: json, fields: {id: {jmespath: id, type: int}, title: {jmespath: t}, notes: {each: {jmespath: n}, fields: {text: p}}}}
  list: {records: {css: tr}, fields: {id: {css: b, type: int}}, follow: [{css: a.next, to: list, pages: 0}]}
store:
"""


def parts(store: str, text: str = SITE) -> list[str]:
    site = compile_site(load_text(text + store)[0])
    found = [layer for layer in ("post", "api", "list") if site.part(layer) is not None]
    assert (PAGES in site.tables()) == bool(found)
    return found


def test_layers_whose_pages_go_on_with_one_record_and_layers_that_share_children() -> None:
    assert parts("  post: {key: [id]}\n  list: {key: [id]}") == ["post"]
    assert parts("  post: {key: [url], add: [url]}\n  list: {key: [id]}") == [], "each page is a row"
    named = SITE.replace("  post:\n", "  post:\n    identity: {canonical: true}\n")
    assert parts("  post: {key: [url], add: [url]}", named) == ["post"], "each page may name the URL of the first"
    assert parts("  api: {key: [id]}") == []
    assert parts("  post: {table: t, key: [id]}\n  api: {table: t, key: [id]}") == ["post", "api"]


def test_further_pages_behind_the_limit_are_told() -> None:
    site = compile_site(load_text(SITE + "  post: {key: [id]}")[0])
    page = Response("http://s.example/1", 200, {}, b"<b>1</b><a class=next href=/2>", turn=1)
    link = PageRequest("http://s.example/2").url
    assert turns(site.read("post", page), "post") == (site.fingerprint("post", link) & (2**63 - 1),)
    assert turns(site.read("post", page._replace(turn=2)), "post") == (UNREAD,)


@pytest.mark.parametrize(
    ("store", "said"),
    [
        ("  post: {table: t, key: [id]}\n  api: {table: t, key: [title]}", "with the key (id) and not (title)"),
        ("  post: {table: t, key: [id], archive: true}\n  api: {table: t, key: [id]}", "only one of them says archive"),
        ("  post: {table: t, key: [id]}\n  api: {table: t, key: [id], columns: {id: title, title: id}}", "key (id) and not (title)"),
        ("  post: {table: t, key: [id]}\n  api: {table: t, key: [id], add: [url], columns: {title: n, url: title}}", ""),
        ("  post: {table: t, key: [id]}\n  api: {table: t, key: [id], add: [status], columns: {title: n, status: title}}", "column title is text there and int here"),
        ("  post: {key: [id]}\n  list: {key: [id]}", ""),
        ("  post: {table: gossamer_pages, key: [id]}", "a table that the store keeps itself"),
        ("  post: {table: t, key: [id], children: {notes: {json: true}}}", "one column holds those of one page only"),
        ("  post: {table: t, key: [id]}", "warning: store.post: notes has no key: if a page of a thread has two URLs"),
        ("  post: {table: t, key: [id], children: {notes: {table: n}}}", "warning: store.post.children.notes: notes has no key"),
        ("  post: {table: t, key: [id], children: {notes: {key: [text]}}}", ""),
    ],
)  # fmt: skip
def test_what_is_said_of_tables_that_cannot_be_fed_so(store: str, said: str) -> None:
    every = [str(problem) for problem in survey_text(SITE + store + "\n", "s.yaml").problems]
    problems = [
        one
        for one in every
        if "nothing leads to layer" not in one and ("has no key" not in one or "has no key" in said)
    ]
    assert [problem for problem in problems if said in problem] if said else not problems, problems


def test_a_link_to_the_next_page_that_is_no_page_turn_is_doubted() -> None:
    text = SITE.replace("to: post, pages: 2}", "to: post}")
    said = "warning: layers.post.follow[0]: this looks like a link to the next page, whose notes would replace those"
    for store, doubted in (("  post: {key: [id]}\n", True), ("  post: {key: [url]}\n", False)):
        problems = list(map(str, survey_text(text + store, "s.yaml").problems))
        assert any(said in problem for problem in problems) is doubted, problems
