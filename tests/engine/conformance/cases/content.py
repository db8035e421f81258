"""What pages are: encodings, formats, and which are the same."""

from __future__ import annotations

import gzip
import zlib

from tests.engine.conformance.cases.case import case, xml
from tests.engine.conformance.conformance import Came
from tests.support.site import Reply, Site, data, links

ENCODED = """
    seeds: [SITE/meta, SITE/header, SITE/forced, SITE/gzip, SITE/deflate, SITE/bytes]
    politeness: {robots: ignore}
    layers:
      page: {fields: {title: h1}}
      forced: {match: '^/forced', encoding: koi8-r, fields: {title: h1}}
      bytes: {match: '^/bytes', format: binary, fields: {at: {from: url}}}
"""


def encoded(site: Site, _: Site) -> None:
    site.on("/meta", Reply(body='<meta charset="shift_jis"><h1>日本</h1>'.encode("shift_jis")))
    site.on(
        "/header",
        Reply(body="<h1>naïve</h1>".encode("cp1252"), headers={"Content-Type": "text/html; charset=windows-1252"}),
    )
    site.on(
        "/forced", Reply(body="<h1>Привет</h1>".encode("koi8-r"), headers={"Content-Type": "text/html; charset=utf-8"})
    )
    body = "<h1>gepäckt</h1>".encode()
    kind = {"Content-Type": "text/html; charset=utf-8"}
    site.on("/gzip", Reply(body=gzip.compress(body), headers={"Content-Encoding": "gzip", **kind}))
    site.on("/deflate", Reply(body=zlib.compress(body), headers={"Content-Encoding": "deflate", **kind}))
    site.on("/bytes", Reply(body=bytes(range(256)), headers={"Content-Type": "image/png"}))


@case(ENCODED, encoded)
def encodings(came: Came) -> None:
    titles = [item["title"] for item in came.items if "title" in item]
    assert sorted(titles) == sorted(["日本", "naïve", "Привет", "gepäckt", "gepäckt"])
    assert [item["at"] for item in came.of("bytes")] == ["SITE/bytes"]
    assert came.dead == []


FORMATS = """
    seeds: [SITE/data, SITE/doc, SITE/plain]
    politeness: {robots: ignore}
    layers:
      data: {match: '^/data', format: json, records: {jmespath: 'things'}, fields: {id: {jmespath: id, type: int}, tags: {jmespath: 'tags[]', all: true}}, follow: [{jmespath: 'next', to: data}]}
      doc: {match: '^/doc', format: xml, fields: {name: {xpath: '//name/text()'}}}
      plain: {match: '^/plain', format: text, fields: {n: {regex: 'n=(\\d+)', type: int}}}
"""


def formats(site: Site, _: Site) -> None:
    site.on("/data", data({"things": [{"id": "1", "tags": ["a"]}, {"id": 2, "tags": ["b", "c"]}], "next": "/data?p=2"}))
    site.on("/doc", xml("<?xml version='1.0'?><doc><name>ÄÖ</name></doc>"))
    site.on("/plain", Reply(body="x n=42", headers={"Content-Type": "text/plain"}))


@case(FORMATS, formats)
def json_xml_and_text(came: Came) -> None:
    assert sorted(came.targets()) == ["/data", "/data?p=2", "/doc", "/plain"]
    assert sorted((item["id"], tuple(item["tags"])) for item in came.of("data")) == [
        (1, ("a",)), (1, ("a",)), (2, ("b", "c")), (2, ("b", "c")),
    ]  # fmt: skip
    assert [item["name"] for item in came.of("doc")] == ["ÄÖ"]
    assert [item["n"] for item in came.of("plain")] == [42]


IDENTITY = """
    seeds: [SITE/start]
    politeness: {robots: ignore}
    identity: {drop: [utm_*, sid]}
    layers:
      start: {match: '^/start', follow: [a]}
      kept: {match: '^/kept', identity: [id], fields: {at: {from: url}}}
      page: {match: '^/page', fields: {at: {from: url}}}
      never: {match: '^/never', seen: never, follow: []}
"""
SAME = (
    "/page?a=1", "/page?a=1&utm_x=2", "/page?sid=3&a=1", "/page?a=2", "/kept?id=1&x=1", "/kept?id=1&x=2", "/kept?id=2#f",
    "/never", "/page?q=a b|c", "/page?q=%C3%A4", "/page/ä/[x]", "/page/%7Etilde/../up",
)  # fmt: skip


@case(IDENTITY, lambda site, _: site.on("/start", links(*SAME)))
def which_pages_are_the_same(came: Came) -> None:
    assert len([one for one in came.targets() if one.startswith("/kept")]) == 2
    assert len([one for one in came.targets() if one.startswith("/page?a=1")]) == 1
    assert len(came.targets()) == len(set(came.targets())) == 10
