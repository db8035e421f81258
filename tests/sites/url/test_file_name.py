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


@pytest.mark.parametrize(
    ("disposition", "begin", "end"),
    [
        ('attachment; filename="Annual report 2024.pdf"', "Annual_report_2024-", ".pdf"),
        ("attachment;filename=plain.xlsx", "plain-", ".xlsx"),
        ("inline; filename=\"x.bin\"; filename*=UTF-8''%e2%82%ac%20rates.csv", "rates-", ".csv"),
        ("attachment; filename*=utf-8'en'n%C3%A4me.pdf; filename=other.pdf", "näme-", ".pdf"),
        ("attachment; filename*=iso-8859-1''na%EFve.txt", "naïve-", ".txt"),
        ("attachment; filename*=utf-7''x; filename=kept.zip", "kept-", ".zip"),
        ('attachment; filename="../../etc/cron.d/job"', "job-", ".pdf"),
        ('attachment; filename="C:\\\\Temp\\\\a.doc"', "a-", ".doc"),
        ("attachment; filename*=UTF-8''..%2F..%2Fx%00%0A.sh", "x-", ".sh"),
        ('attachment; filename="say \\"hi\\".odt"', "say_hi-", ".odt"),
        ('attachment; filename="\udce4\udcb8\udcad.pdf"', "中-", ".pdf"),
        ('attachment; filename="CON"', "CON-", ".pdf"),
        ("attachment; filename=.htaccess", "index-", ".htaccess"),
        ("attachment; filename=", "download-", ".pdf"),
        ('attachment; filename="' + "中" * 5000, "中", ".pdf"),
        ("attachment", "download-", ".pdf"),
    ],
)
def test_the_name_is_that_of_the_content_disposition(disposition: str, begin: str, end: str) -> None:
    name = file_name("http://a.example/download.php?id=7", "application/pdf", disposition=disposition)
    host, slash, rest = name.partition("/")
    assert (host, slash) == ("a.example", "/")
    assert (rest.startswith(begin), rest.endswith(end)) == (True, True), rest
    assert "/" not in rest
    assert "\\" not in rest
    assert rest.isprintable()
    assert len(rest.encode()) < 255


def test_two_pages_with_one_name_have_two_files() -> None:
    names = {
        file_name(f"http://a.example/d?id={n}", "application/pdf", disposition="attachment; filename=a.pdf")
        for n in (1, 2)
    }
    assert len(names) == 2


@pytest.mark.parametrize(
    ("url", "kind", "end"),
    [
        ("/get.php", "application/pdf", ".pdf"),
        ("/get.php", "text/html; charset=utf-8", ".html"),
        ("/get.php", "application/octet-stream", ".php"),
        ("/paper.html", "application/pdf", ".pdf"),
        ("/table.docx", "application/zip", ".docx"),
        ("/photo.jpeg", "image/jpeg", ".jpeg"),
        ("/" + "中" * 3000, "application/pdf", ".pdf"),
    ],
)
def test_the_end_tells_what_the_file_is(url: str, kind: str, end: str) -> None:
    name = file_name(f"http://a.example{url}", kind)
    assert name.endswith(end)
    assert len(name.rpartition("/")[2].encode()) < 255
