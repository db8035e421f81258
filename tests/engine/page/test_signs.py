"""Signs that a wall came instead of a page; and pages that only look so."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sites.extract.small_site import PAGES, SmallSite, layer

from gossamer.model.page import Response
from gossamer.sites.extract.turns import MARK
from gossamer.sites.extract.validity import SIGNS, compile_blocked, sign_of

URL = "https://shop.example/item/7"
DOCUMENTATION = [path for path in sorted(Path("/usr/share/doc").glob("*/**/*.htm*")) if path.is_file()][:40]
"""Whatever the machine has; at least there are the pages of these tests."""
NEWS = (
    "<title>Just a moment… of calm</title><h1>Attention required: how captchas work</h1>",
    "<h1>Cloudflare's challenge</h1><p>cf-mitigated: challenge, /cdn-cgi/challenge-platform/h/b/orchestrate/chl_page/v1</p>",
    '<h1>Contact</h1><form><div class="g-recaptcha" data-sitekey="x"></div></form><a href="/showcaptcha">try one</a>',
    "<h1>Access denied</h1><p>is the name of a band. Please verify you are human: a review.</p>",
)


def sign(
    text: str, body: bytes | str = b"<h1>x</h1>", status: int = 200, url: str = URL, turn: bool = False, **headers: str
) -> str:
    body = body.encode() if isinstance(body, str) else body
    inherited = {MARK: [1]} if turn else {}
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return compile_blocked("here", layer(text), SmallSite())(Response(url, status, given, body, inherited))


@pytest.mark.parametrize("status", [200, 202, 403, 404, 429, 503])
def test_a_header_of_a_challenge_is_a_sign_whatever_the_status(status: int) -> None:
    assert sign("{}", status=status, cf_mitigated=" Challenge ") == "the header cf-mitigated: challenge of Cloudflare"
    assert not sign("{}", status=status, cf_mitigated="block", server="cloudflare", cf_ray="1")


@pytest.mark.parametrize("path", [one.path for one in SIGNS if one.path])
def test_a_path_of_a_challenge_is_a_sign_there_and_where_it_is_redirected_to(path: str) -> None:
    url = f"https://shop.example{path}" if path.startswith("/") else f"https://{path}"
    for end in ("", "?a=1", "#x"):
        assert sign("{}", url=url + end)
        assert sign_of(Response(URL, 302, {"location": url + end}, b""))
    assert not sign("{}", url=f"https://shop.example/about?of={url}")
    assert not sign("{}", url=url.rstrip("/") + "s-explained")


@pytest.mark.parametrize(
    "text", ["fields: {a: h1}", "{format: xml, follow: a}", "{format: json, records: {jmespath: a}}"]
)
@pytest.mark.parametrize("body", ["", " \r\n\t"])
def test_nothing_at_all_is_a_sign(text: str, body: str) -> None:
    assert sign(text, body, content_length=str(len(body))) == "status 200 with an empty body"
    assert sign(text, body, content_length="20", content_encoding="gzip") == "status 200 with an empty body"
    assert not sign(text, body, status=204)


@pytest.mark.parametrize(
    ("text", "length", "turn"),
    [
        ("{format: text, fields: {a: {regex: a}}}", "0", False),
        ("{format: binary, fields: {a: {type: bytes, from: content}}}", "0", False),
        ("{fields: {size: {from: headers.content-length}}}", "0", False),
        ("{follow: [{url: /next, to: list}]}", "0", False),
        ("{save: files}", "0", False),
        ("{fields: {a: h1}}", "512", False),
        ("{records: li, fields: {a: b}}", "0", True),
    ],
    ids=["text", "binary", "headers", "fixed link", "file", "HEAD", "end of a list"],
)
def test_where_a_page_may_be_empty_it_is_none(text: str, length: str, turn: bool) -> None:
    assert not sign(text, "", turn=turn, content_length=length)


def test_valid_names_further_signs() -> None:
    text = "{valid: {lacks: [Access denied, 访问受限]}}"
    assert sign(text, "<p>Access denied</p>") == "has the text 'Access denied' (valid.lacks)"
    assert sign(text, "<p>访问受限</p>".encode("gb18030"), content_type="text/html; charset=gb18030")
    assert not sign(text, "<p>Access</p>")
    # A page that is not there may say so in any words.
    assert not sign(text, "<p>Access denied</p>", status=404)


@pytest.mark.parametrize("body", NEWS)
def test_a_page_about_captchas_is_a_page(body: str) -> None:
    assert not sign("fields: {a: h1}", body, server="cloudflare", cf_ray="8f-FRA", set_cookie="__cf_bm=1")


def test_pages_of_documentation_are_pages() -> None:
    pages = [*PAGES.glob("*.html"), *DOCUMENTATION]
    assert pages
    assert not any(sign("fields: {a: h1}", path.read_bytes(), url=path.as_uri()) for path in pages)
