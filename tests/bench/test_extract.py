"""The benchmark of reading: rules and a hand-written callback take the same from the saved pages, and both can be timed."""

from __future__ import annotations

from bench import extract

from gossamer.sites.compile import compile_site
from gossamer.sites.file.load import load_text


def test_rules_take_what_the_callback_takes() -> None:
    site = compile_site(load_text(extract.SITE)[0])
    callback = extract.Callback(site)
    assert list(extract.differences(site, callback)) == []
    rows = extract.speed(site, callback, runs=2)
    assert [row["page"] for row in rows] == [*extract.CASES, "all"]
    assert (rows[-1]["records"], rows[-1]["links"]) == (141, 100)


def test_a_difference_is_told() -> None:
    site = compile_site(load_text(extract.SITE.replace("subject: a.post", "subject: td.author"))[0])
    (difference,) = extract.differences(site, extract.Callback(site))
    assert difference.startswith("list: records differ: ")
