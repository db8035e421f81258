"""The library's revision: what is newer is never replaced by what is older."""

from __future__ import annotations

from gossamer.frontier import schema
from gossamer.frontier.serverinfo import Library


def library(name: str) -> Library:
    return Library(name, frozenset())


def name(revision: int, digest: str) -> str:
    return f"{schema.LIBRARY}_r{revision}_{digest}"


def test_the_name_says_revision_and_digest() -> None:
    found = schema.revision_of(schema.name_of(schema.library()))
    assert found is not None
    assert found.number >= schema.REVISION >= 1
    assert schema.revision_of(schema.name_of(schema.library(revision=77))) == (77, found.digest)


def test_another_text_has_another_digest_and_is_newer_than_the_recorded_one() -> None:
    changed = schema.revision_of(schema.name_of(schema.library({"clock": schema.source("clock") + "-- more\n"})))
    ours = schema.revision_of(schema.name_of(schema.library()))
    assert changed is not None
    assert ours is not None
    assert changed.digest != ours.digest
    assert changed.number == schema.REVISION + 1


def test_revision_goes_before_digest() -> None:
    found = {"a": (library(name(2, "ff")), library("other")), "b": (library(name(10, "0a")),), "c": ()}
    assert schema.newest(found) == name(10, "0a")
    assert schema.newest({"a": (library(name(2, "a1")),), "b": (library(name(2, "b2")),)}) == name(2, "b2")
    assert schema.newest({"a": (library("other"),), "b": ()}) == ""


def test_only_this_schema_s_libraries_leave() -> None:
    others = [library(f"{schema.LIBRARY}0"), library(f"{schema.LIBRARY}0_r1_aa"), library("mine")]
    found = {"a": (library(name(2, "aa")), *others), "b": (library(name(3, "bb")),), "c": (library(schema.LIBRARY),)}
    assert schema.outdated(found, name(3, "bb")) == {"a": [name(2, "aa")], "c": [schema.LIBRARY]}


def test_a_changed_text_has_a_revision_of_its_own() -> None:
    """Workers of two versions meet on one server: without it neither would know whose functions are newer."""
    found = schema.revision_of(schema.name_of(schema.library()))
    assert found == schema.recorded(), "the server-side functions have changed: run make docs"
