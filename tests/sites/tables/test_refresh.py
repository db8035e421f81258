"""`refresh`: what its pages need of a table, and what the check says."""

from __future__ import annotations

import pytest

from gossamer.sites.compile import compile_site
from gossamer.sites.file.load import load_text, survey_text
from gossamer.sites.tables.refresh import refresh_plan

SITE = """
site: s
seeds: http://s.example/list
layers:
  list: {follow: [{css: a, to: post, pass: [board]}], fields: {board: h1}}
  post:
    fields: {id: {css: b, type: int}, at: {css: i, type: datetime}, board: {from: parent.board}, tags: {css: u, all: true}}
    follow: [{url: '/c/{id}', to: comment, pass: [id]}]
  comment: {fields: {text: p, post: {from: parent.id}}}
store:
  post: {table: posts, key: [id], add: [url, parent], columns: {id: number}}
refresh: """


def problems(refresh: str, store: str = "") -> list[str]:
    text = SITE.replace("key: [id]", f"key: [id]{store}") + refresh + "\n"
    return [str(problem) for problem in survey_text(text, "s.yaml").problems]


def test_what_pages_inherit_comes_from_columns() -> None:
    text = (
        SITE
        + "[{table: posts, layer: comment, url: '/c/{id}'}, {table: posts, layer: post}, {table: x, layer: comment, url: 'http://s.example/{k}', pass: {id: k}}]"
    )
    site = load_text(text)[0]
    deep, again, other = (refresh_plan(site, rule) for rule in site.refresh)
    assert (deep.passed, deep.pages, deep.fixed) == ({"id": "number"}, ("url",), False)
    assert (again.passed, again.pages, again.fixed) == ({"board": "board"}, ("parent",), True)
    assert (other.passed, other.fixed) == ({"id": "k"}, True)
    assert deep.columns["id"] == "number"
    assert compile_site(site).group().start


def test_a_site_may_begin_with_stored_rows_only() -> None:
    text = (
        SITE.replace("seeds: http://s.example/list\n", "")
        + "{table: posts, layer: comment, url: 'http://s.example/{id}'}"
    )
    site = compile_site(load_text(text)[0])
    assert site.group().start
    assert site.own_hosts == {"s.example"}


@pytest.mark.parametrize(
    ("refresh", "said"),
    [
        ("{table: posts, layer: comment, url: '/c/{id}', where: {at: {newer: 3d}, number: {min: 5, max: 9}}}", ""),
        ("{table: posts, layer: post, where: {board: null, url: {not: null}}}", ""),
        ("{table: elsewhere, layer: comment, url: 'http://s.example/{any}', where: {thing: 1}}", ""),
        ("{table: posts, layer: coment, url: /c}", "there is no layer coment"),
        ("{table: posts, layer: comment}", "not of pages of comment"),
        ("{table: posts, layer: comment, url: '/c/{idd}'}", "the table posts has no column idd"),
        ("{table: posts, layer: post, where: {att: {newer: 1d}}}", "the table posts has no column att"),
        ("{table: posts, layer: post, where: {board: {newer: 1d}}}", "only a datetime or a date is newer or older"),
        ("{table: posts, layer: post, where: {tags: x}}", "tags is json and cannot be compared"),
        ("{table: posts, layer: post, where: {at: {}}}", "at least one of is, not"),
        ("{table: posts, layer: post, where: {at: {agee: 1d}}}", "agee"),
        ("{table: posts, layer: comment, url: '/c/{id}', pass: [nothing]}", "has no column nothing"),
    ],
)
def test_what_the_check_says(refresh: str, said: str) -> None:
    found = problems(refresh)
    assert [problem for problem in found if said in problem] if said else not found, found


def test_tables_that_begin_anew_or_do_not_name_their_page() -> None:
    assert "archive puts this table aside" in "".join(problems("{table: posts, layer: post}", ", archive: true"))
    text = SITE.replace("add: [url, parent], ", "") + "{table: posts, layer: comment, url: '{board}'}\n"
    assert "its hosts are not known" in "".join(str(one) for one in survey_text(text, "s.yaml").problems)
