"""The library's revision: what is newer is never replaced by what is older."""

from __future__ import annotations

import re

import pytest

from gossamer.frontier.connection.acl import NEEDED
from gossamer.frontier.server import library as server_library
from gossamer.frontier.server.info import Library


def library(name: str) -> Library:
    return Library(name, frozenset())


def name(revision: int, digest: str) -> str:
    return f"{server_library.LIBRARY}_r{revision}_{digest}"


def test_the_name_says_revision_and_digest() -> None:
    found = server_library.revision_of(server_library.name_of(server_library.library()))
    assert found is not None
    assert found.number >= server_library.REVISION >= 1
    assert server_library.revision_of(server_library.name_of(server_library.changed_library({}, 77))) == (
        77,
        found.digest,
    )


def test_another_text_has_another_digest_and_is_newer_than_the_recorded_one() -> None:
    changed = server_library.revision_of(
        server_library.name_of(server_library.changed_library({"clock": server_library.source("clock") + "-- more\n"}))
    )
    ours = server_library.revision_of(server_library.name_of(server_library.library()))
    assert changed is not None
    assert ours is not None
    assert changed.digest != ours.digest
    assert changed.number == server_library.REVISION + 1


def test_revision_goes_before_digest() -> None:
    found = {"a": (library(name(2, "ff")), library("other")), "b": (library(name(10, "0a")),), "c": ()}
    assert server_library.newest(found) == name(10, "0a")
    assert server_library.newest({"a": (library(name(2, "a1")),), "b": (library(name(2, "b2")),)}) == name(2, "b2")
    assert server_library.newest({"a": (library("other"),), "b": ()}) == ""


def test_only_this_schema_s_libraries_leave() -> None:
    others = [library(f"{server_library.LIBRARY}0"), library(f"{server_library.LIBRARY}0_r1_aa"), library("mine")]
    found = {
        "a": (library(name(2, "aa")), *others),
        "b": (library(name(3, "bb")),),
        "c": (library(server_library.LIBRARY),),
    }
    assert server_library.outdated(found, name(3, "bb")) == {"a": [name(2, "aa")], "c": [server_library.LIBRARY]}


def test_a_changed_text_has_a_revision_of_its_own() -> None:
    """Workers of two versions meet on one server: without it neither would know whose functions are newer."""
    found = server_library.revision_of(server_library.name_of(server_library.library()))
    assert found == server_library.recorded(), "the server-side functions have changed: run make docs"


def test_shared_files_are_blocks_and_declare_only_what_others_use() -> None:
    """Lua allows 200 locals outside of blocks; a file may have as many of its own as it likes."""
    declared = re.findall(r"^local (\w+)$", server_library.library(), re.MULTILINE)
    assert {"call", "Lane", "Queue", "count", "enter_ring"} <= set(declared)
    assert "DROPPED_TTL" not in declared
    assert len(declared) < 150


def test_a_declaration_of_both_kinds_is_refused() -> None:
    with pytest.raises(ValueError, match="declare what other files use apart"):
        server_library.changed_library({"lane": "local Lane, own = {}, 1\n"})


def test_the_rights_of_a_user_have_every_command_of_the_functions() -> None:
    """What a function calls is checked against the rights of its caller: a command that is missing there fails with an ACL alone."""
    called = set(re.findall(r"\bcall(?:_chunked)?\('([A-Z]+)'", server_library.library()))
    assert len(called) > 50
    assert called - {right.partition("|")[0] for right in NEEDED} == set()
