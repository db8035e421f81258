"""Names of the files that pages are kept in."""

from __future__ import annotations

import pytest

from gossamer.sites.url.file_name import LONGEST, file_name


@pytest.mark.parametrize(
    ("url", "kind", "begin", "end"),
    [
        ("http://a.example/r/paper.PDF", "text/html", "a.example/r_paper-", ".pdf"),
        ("http://a.example:8080/", "text/html; charset=utf-8", "a.example_8080/index-", ".html"),
        ("http://u:p@A.example/x?id=1", "image/jpeg", "a.example/x-", ".jpg"),
        ("http://a.example/../../etc/passwd", "", "a.example/etc_passwd-", ""),
        ("http://a.example/%2e%2e/%2fetc%00%0a", "", "a.example/etc-", ""),
        ("http://[::1]:80/a", "odd/type", "_1_80/a-", ""),
        ("http://a.example/Ü/ß.txt", "", "a.example/Ü_ß-", ".txt"),
    ],
)
def test_a_name_can_be_read_and_leads_nowhere_else(url: str, kind: str, begin: str, end: str) -> None:
    name = file_name(url, kind)
    assert name.startswith(begin)
    assert name.endswith(end)
    assert name.count("/") == 1
    assert ".." not in name.split("/")


def test_each_page_has_its_own() -> None:
    urls = [f"http://a.example/{path}" for path in ("a/b", "a_b", "a/b?x=1", "a/b?x=2", "A/b")]
    assert len({file_name(url).lower() for url in urls}) == len(urls)
    assert file_name(urls[0]) == file_name(urls[0])
    assert len({file_name(urls[0], sent=body) for body in (b"", b"id=1", b"id=2")}) == 3
    assert len(file_name("http://a.example/" + "x" * 5000)) < LONGEST + 40
