"""Helper fields: names that begin with _ are read and used, and stored nowhere."""

from __future__ import annotations

from tests.sites.extract.small_site import fields, read

from gossamer.model.page import Record
from gossamer.sites.compile import compile_site
from gossamer.sites.file.load import load_text, survey_text

PAGE = '<h1>A</h1><input name=t value=k9><ul><li id=1>x<li id=2>y</ul><a href="/post/3">3</a>'


def test_a_helper_serves_fields_links_and_forms_and_is_in_no_record() -> None:
    found = read(
        """
        fields:
          _token: {css: input, attr: value}
          title: {css: h1}
          both: {value: '{title}-{_token}'}
          items: {each: li, fields: {_id: {xpath: '@id'}, name: {value: 'n{_id}'}}}
        require: [_token]
        follow:
          - {css: a, to: post, form: {t: '{_token}'}, when: _token, pass: [_token]}
          - {url: '/post/{items._id}', to: post}
        """,
        PAGE,
    )
    assert [record.fields for record in found.records] == [
        {"title": "A", "both": "A-k9", "items": [{"name": "n1"}, {"name": "n2"}]}
    ]
    assert [(link.url[-7:], link.body, dict(link.inherited)) for link in found.links] == [
        ("/post/3", b"t=k9", {"_token": "k9"}),
        ("/post/1", b"", {}),
        ("/post/2", b"", {}),
    ]


def test_records_of_a_page_lose_their_helpers_too() -> None:
    found = read(
        "records: li\nfields: {_id: {xpath: '@id'}, text: {xpath: text()}, one: {fields: {_x: a, y: b}}}", PAGE
    )
    assert [record.fields for record in found.records] == [
        {"text": "x", "one": {"y": None}},
        {"text": "y", "one": {"y": None}},
    ]


def test_a_page_of_helpers_alone_has_no_record() -> None:
    found = read("fields: {_token: {css: input, attr: value}}\nfollow: {css: a, to: post, form: {t: '{_token}'}}", PAGE)
    assert found.records == []
    assert [link.body for link in found.links] == [b"t=k9"]
    assert read("fields: {_no: .no}", PAGE).missing == ("_no",)
    assert fields("fields: {a_: h1, a_b: h1}", PAGE) == {"a_": "A", "a_b": "A"}


def test_a_helper_has_no_column_and_is_no_key() -> None:
    text = (
        "site: s\nseeds: http://s.example/\nlayers: {a: {fields: {_t: h1, id: h2, r: {each: li, fields: {_u: b, v: i}}}}}\n"
        "store: {a: {key: [id], children: {r: {key: v}}}}\n"
    )
    (site,) = load_text(text)
    compiled = compile_site(site)
    assert {table.name: [column.name for column in table.columns] for table in compiled.tables()} == {
        "s_a": ["id"],
        "s_a_r": ["v"],
    }
    (row,) = compiled.rows(Record("a", {"id": "1", "r": [{"v": "2"}]}), {})
    assert row.values == {"id": "1"}
    told = [
        str(problem)
        for problem in survey_text(text.replace("key: [id]", "key: [_t]").replace("key: v", "key: _u")).problems
    ]
    assert (
        "store.a.key[0]: _t is a helper field, which is stored nowhere (give it a name without _ at its beginning)"
        in told[0]
    )
    assert "the records have no field _u" in told[1]
