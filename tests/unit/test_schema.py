"""The library's revision: what is newer is never replaced by what is older."""

from __future__ import annotations

from itertools import product

from gossamer.frontier import schema


def library(revision: int, digest: str) -> str:
    return f"#!lua name={schema.LIBRARY}\n-- revision {revision} {digest}\nreturn 1\n"


def test_the_revision_is_a_positive_number() -> None:
    assert type(schema.REVISION) is int
    assert schema.REVISION >= 1
    assert schema.revision_of(schema.library())[0] == schema.REVISION


def test_an_older_revision_never_replaces_a_newer_one() -> None:
    for theirs, ours, digest in product(range(1, 12), range(1, 12), ("a1", "b2")):
        replaced = schema.must_replace(library(theirs, "a1"), library(ours, digest))
        assert replaced is (ours > theirs or (ours == theirs and digest != "a1"))


def test_what_is_missing_or_not_ours_is_replaced() -> None:
    assert schema.must_replace(None, library(1, "a1"))
    assert schema.must_replace("#!lua name=other\n", library(1, "a1"))


def test_all_nodes_get_the_newest_that_any_has() -> None:
    known = [library(2, "a1"), None, library(10, "c3"), library(9, "b2")]
    assert schema.newest(known, library(3, "d4")) == library(10, "c3")
    assert schema.newest([None], library(3, "d4")) == library(3, "d4")


def test_another_text_has_another_digest() -> None:
    changed = {"clock": schema.source("clock") + "-- more\n"}
    assert schema.revision_of(schema.library(changed)) != schema.revision_of(schema.library())
