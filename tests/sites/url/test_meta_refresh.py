"""Pages that send their visitors on, as browsers understand them."""

from __future__ import annotations

import pytest

from gossamer.model.page import Response
from gossamer.sites.compile import compile_site
from gossamer.sites.file.load import load_text

(FILE,) = load_text("site: a\nseeds: http://a.example/\nlayers: {p: {}, j: {format: json}}\n")
SITE = compile_site(FILE)
HERE = "http://a.example/x/y?q=1"


def leads(body: str, headers: dict[str, str] | None = None, layer: str = "p") -> str | None:
    return SITE.meta_refresh(layer, Response(HERE, 200, headers or {}, body.encode()))


@pytest.mark.parametrize(
    ("content", "target"),
    [
        ("0; url=/z", "/z"),
        ("0;URL='/z'", "/z"),
        ('3 , url = "/z" tail', "/z"),
        ("0 /z", "/z"),
        ("0.5; /z", "/z"),
        (".5; url=/z", "/z"),
        ("  1;url=z?a=1&amp;b=2#top", "/x/z?a=1&b=2"),
        ("0; url=//a.example/z", "/z"),
        ("0;url=http:\\\\a.example\\z", "/z"),
        ("0; url='/z", "/z"),
        ("30; url=/z", None),
        ("0", None),
        ("0; url=", None),
        ("0; url=y?q=1#again", None),
        ("0; url=javascript:x()", None),
        ("0x; url=/z", None),
        ("url=/z", None),
        ("", None),
    ],
)
def test_what_stands_in_the_content(content: str, target: str | None) -> None:
    quoted = content.replace('"', "&quot;")
    expected = None if target is None else f"http://a.example{target}"
    assert leads(f'<html><head><meta http-equiv="refresh" content="{quoted}"></head>') == expected
    assert leads("", {"refresh": content.replace("&amp;", "&")}) == expected


@pytest.mark.parametrize(
    ("body", "target"),
    [
        ("<META CONTENT='0;url=/z' HTTP-EQUIV=Refresh>", "/z"),
        ("<base href=/deep/><meta http-equiv=refresh content='0;url=z'>", "/deep/z"),
        ("<meta http-equiv=refresh content='soon'><meta http-equiv=refresh content='0;url=/1'><meta http-equiv=refresh content='0;url=/2'>", "/1"),
        ("<meta http-equiv=refresh content=60><meta http-equiv=refresh content='0;url=/2'>", None),
        ("<!-- <meta http-equiv=refresh content='0;url=/z'> -->", None),
        ("<!-- <meta http-equiv=refresh content='0;url=/z'>", None),
        ("<!--><meta http-equiv=refresh content='0;url=/z'>", "/z"),
        ("<!---><meta http-equiv=refresh content='0;url=/z'>", "/z"),
        ("<!-- a --!><meta http-equiv=refresh content='0;url=/z'>", "/z"),
        ("<noscript><meta http-equiv=refresh content='0;url=/z'></noscript>", None),
        ("<script>'<meta http-equiv=refresh content=\"0;url=/z\">'</script>", None),
        ("<meta name=refresh content='0;url=/z'>", None),
        ("<p>refresh", None),
    ],
)  # fmt: skip
def test_where_it_stands(body: str, target: str | None) -> None:
    assert leads(body) == (None if target is None else f"http://a.example{target}")


def test_only_pages_of_html_send_on() -> None:
    body = "<meta http-equiv=refresh content='0;url=/z'>"
    assert (leads(body), leads(body, layer="j"), leads(body, layer="none")) == ("http://a.example/z", None, None)
