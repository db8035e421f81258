"""Secrets in what people look at or keep."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from gossamer.errors import SnapshotError
from gossamer.frontier import codec
from gossamer.frontier.codec.redaction import concealed, redacted, without
from gossamer.frontier.snapshot import line

REQUEST: dict[str, Any] = {
    "url": "http://me:pass@h.example/x?page=2",
    "method": "POST",
    "headers": {
        b"Authorization": [b"Bearer abc"],
        b"Cookie": [b"a=1"],
        b"X-Api-Key": [b"k"],
        b"Accept": [b"text/html"],
    },
    "cookies": {"sid": "s3", "lang": "de"},
    "body": b"user=me&password=s4&page=1",
    "meta": {
        "depth": 1,
        "auth_token": "s5",
        "proxy": "http://u:s6@proxy:80",
        "cookiejar": 1,
        "dont_merge_cookies": True,
    },
}
SECRETS = ["pass@", "abc", "a=1", "s3", "s4", "s5", "s6", "me:"]


def test_secrets_are_taken_out_and_everything_else_stays() -> None:
    shown, paths = redacted(codec.to_json(REQUEST))
    text = str(shown)
    assert [one for one in SECRETS if one in text] == []
    for kept in ("text/html", "page=2", "h.example", "user=me", "page=1", "'depth': 1", "'cookiejar': 1", "proxy:80"):
        assert kept in text
    assert "headers.Authorization" in paths
    assert "cookies.sid" in paths


def test_what_has_none_comes_back_as_it_was() -> None:
    plain = codec.to_json(
        {"url": "http://h/?a=1", "headers": {b"Accept": [b"x"]}, "meta": {"author": None, "x": (1, {2})}}
    )
    assert redacted(plain) == (plain, [])


def test_a_line_without_its_secrets_is_restored_only_if_that_is_wanted() -> None:
    row = line.redacted_payload(line.payload_json(codec.encode_request(REQUEST)))
    assert row["redacted"]
    with pytest.raises(SnapshotError, match=r"headers\.Authorization.*--secrets.*--without-secrets"):
        line.payload_from(row)
    left = codec.decode_request(line.payload_from(row, without_secrets=True))
    assert left["headers"] == {b"Accept": [b"text/html"]}
    assert left["url"] == "http://h.example/x?page=2"
    assert left["cookies"] == {}


def test_a_line_with_nothing_to_hide_is_restored_exactly() -> None:
    payload = codec.encode_request({"url": "http://h/", "meta": {"a": (1, b"x")}})
    row = line.redacted_payload(line.payload_json(payload))
    assert "redacted" not in row
    assert line.payload_from(row) == payload


@pytest.mark.parametrize(
    ("task", "secret"),
    [(b'{"url": "http://h/", "headers": {"Authorization": "abc"}}', "abc"), (b"http://u:abc@h.example/", "abc")],
)
def test_tasks_of_producers_are_redacted_too(task: bytes, secret: str) -> None:
    row = line.redacted_payload({"payload": b64encode(task).decode()})
    assert secret not in str(row)
    assert b64encode(task).decode() not in str(row)
    assert secret.encode() not in line.payload_from(row, without_secrets=True)
    plain = {"payload": b64encode(b"http://h.example/").decode()}
    assert line.redacted_payload(plain) == plain


def test_a_traceback_shows_no_passwords_of_urls() -> None:
    assert concealed("at redis://me:p@h:1/0 and http://h/@x") == "at redis://***@h:1/0 and http://h/@x"
    assert without("http://***@h/") == "http://h/"
