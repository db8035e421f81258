"""${NAME} in site files."""

from __future__ import annotations

import pytest

from gossamer.errors import MissingVariable, SiteError
from gossamer.sites.file.environment import missing, revealed, revealed_site, sent_late, variables
from gossamer.sites.file.load import load_text

TEXT = """
site: s
seeds: [{url: http://s.example/, headers: {X: '${A}'}}]
database: postgresql://${A}:${B}@h/d
proxies: {p: {urls: ['http://${A}@p:1', 'http://q:1']}}
request: {auth: ['${A}', '${B}'], headers: {Authorization: 'Bearer ${C}', Plain: x}, proxy: 'http://${A}:1'}
layers: {a: {match: '^/\\$', request: {cookies: {sid: '${D}'}}, follow: {css: a, to: a, headers: {Y: '${A}${B}'}}}}
"""
KNOWN = {"A": "a", "B": "b", "C": "c", "D": "d"}


def test_every_place_is_looked_up_late_and_the_site_itself_keeps_the_names() -> None:
    (site,) = load_text(TEXT)
    found = revealed_site(site, KNOWN)
    assert found.database == "postgresql://a:b@h/d"
    assert found.proxies["p"].urls == ("http://a@p:1", "http://q:1")
    assert (found.request.auth, found.request.proxy) == (("a", "b"), "http://a:1")
    assert found.request.headers == {"Authorization": "Bearer c", "Plain": "x"}
    layer = found.layers["a"]
    assert layer.request is not None
    assert layer.request.cookies == {"sid": "d"}
    # Those of single requests are looked up when they are sent.
    assert layer.follow[0].headers == {"Y": "${A}${B}"}
    assert found.seeds[0].headers == {"X": "${A}"}
    assert sent_late(site) == ["A", "B"]
    assert "${B}" in str(site.database)
    assert "Bearer c" not in site.model_dump_json()


def test_nothing_else_of_the_site_changes() -> None:
    (site,) = load_text(TEXT)
    same = revealed_site(site, {name: f"${{{name}}}" for name in KNOWN})
    assert same == site
    assert same.request.model_fields_set == site.request.model_fields_set


def test_what_is_missing_is_named() -> None:
    (site,) = load_text(TEXT)
    assert set(variables(site)) == set(KNOWN)
    assert missing(site, {"A": ""}) == ["B", "C", "D"]
    with pytest.raises(MissingVariable, match=r"The environment variables B, C and D are not set") as caught:
        revealed_site(site, {"A": "a"})
    assert isinstance(caught.value, SiteError)
    with pytest.raises(MissingVariable, match="variable B is not set"):
        revealed("${A}${B}", {"A": "a"})


def test_the_environment_of_the_process_is_the_usual_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SITE_TEST_WORD", "x${SITE_TEST_WORD}")
    assert revealed("a${SITE_TEST_WORD}$b") == "ax${SITE_TEST_WORD}$b"
