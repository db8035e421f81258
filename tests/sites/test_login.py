"""What shows that a login did not work, and that a session is over."""

from __future__ import annotations

import pytest

from gossamer.model.page import Response
from gossamer.sites.compile import compile_site
from gossamer.sites.file.load import load_text

SITE = "site: s\nseeds: http://s.example/\nlayers: {a: {}}\nlogin: {url: http://s.example/in, form: {p: x}, MORE}\n"
FORM = "<form><input name=p type='password'></form>"


@pytest.mark.parametrize(
    ("more", "body", "refused", "over"),
    [
        ("", FORM, True, True),
        ("", "<INPUT Type=Password>", True, True),
        ("", "<p>type=password is written so: &lt;input type=password></p>", False, False),
        ("", "<input type=text name=password>", False, False),
        ("check: {contains: Log out}", f"Log out {FORM}", False, True),
        ("expires: {form: false}", FORM, False, False),
        ("expires: {contains: Please}", "Please log in", True, True),
    ],
)
def test_a_page_with_a_form_to_log_in_shows_that_nobody_is_logged_in(
    more: str, body: str, refused: bool, over: bool
) -> None:
    [site] = load_text(SITE.replace("MORE", more))
    login = compile_site(site).login
    assert login is not None
    page = Response("http://s.example/x", 200, {"content-type": "text/html"}, body.encode())
    assert (bool(login.refused(page)), bool(login.over(page))) == (refused, over)
    assert not login.over(page._replace(headers={"content-type": "application/json"}, body=FORM.encode()))
