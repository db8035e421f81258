"""Key names: what belongs together lies in one slot of a cluster."""

from __future__ import annotations

import pytest

from gossamer.errors import PolicyError
from gossamer.frontier.connection.router import slot_of
from gossamer.frontier.server import keys
from gossamer.frontier.verbs.control.control import ControlVerbs
from gossamer.frontier.verbs.work.exchange import WorkVerbs
from gossamer.model import GroupPolicy

USABLE = [
    "spider:start_urls",
    "{shop}:tasks",
    "a{b}c",
    "}{b}",
    "{a}{b}",
    "{a}}",
    "{{a}",
    "{",
    "a{b",
    "é",
    "{ }",
    "x:{é}",
]
ODD = ["a{}b", "x}y", "}", "{}", "{}{a}", "x}y{z", ""]


@pytest.mark.parametrize("source", USABLE)
def test_the_book_of_a_task_key_lies_in_its_slot(source: str) -> None:
    assert len({slot_of(key) for key in keys.task_keys(source)}) == 1


@pytest.mark.parametrize("source", ODD)
def test_a_task_key_whose_book_would_lie_elsewhere_is_refused(source: str) -> None:
    with pytest.raises(PolicyError, match=r"key .*Name"):
        keys.task_keys(source)


def test_a_refused_task_key_is_named() -> None:
    with pytest.raises(PolicyError, match=r"'x}y'"):
        keys.task_keys("x}y")


def test_a_group_cannot_be_defined_with_one() -> None:
    work = WorkVerbs("c", 1, payload_max=100, lease_seconds=60, send_seconds=5, strikes=3)
    control = ControlVerbs("c", 1, work.checked, lease_seconds=60, strikes=3)
    with pytest.raises(PolicyError, match=r"'a{}b'"):
        next(control.define("g", {}, GroupPolicy(tasks=("good", "a{}b"))))


def test_task_keys_do_not_share_their_books() -> None:
    sources = ["{a}1", "{a}2", "a", "1{a}", "{a}", "{a}:d", "{a}:a", "{a}:d:d", "{a}:", "{a}::d", "{a}:::d", "{a}::"]
    books = [book for source in sources for book in keys.task_keys(source)[1:]]
    assert len(set(books)) == len(books)


WRITTEN = {
    "counts", "lane_names", "lane_policy", "group_policy", "group_lanes", "queue", "front", "delayed", "hosts", "host_policy",
    "leases", "suspects", "dead", "dead_order", "items", "counters", "seen", "seen_names", "seen_policy", "rounds", "starts",
    "ends", "round_base", "round_log", "daily", "pages", "page_due", "documents", "document", "sessions", "jar", "cookies", "meta", "journal", "outbox",
    "coverage", "newer", "page_texts",
}  # fmt: skip
MADE_AGAIN = {
    "group_held", "shut", "shares", "virtual", "turns", "active", "tiers", "priorities", "ring", "wake", "parked", "own",
    "waiting", "recorded", "feeds",
}  # fmt: skip
LEFT = {
    "hungry", "deadlines", "marks", "alone", "consumers", "workers", "worker_seen", "worker_settled", "draining", "answers", "keyed", "outbox_due",
    "purge", "cycles", "replacing", "alerts", "snapshots", "restored", "jars_began", "dropped", "versions", "version_order",
}  # fmt: skip


def test_it_is_decided_of_every_kind_of_key_whether_an_export_has_it() -> None:
    """A new kind goes into the file, is made again from what is there, or stays behind: docs/how-to/export-and-import.md says so."""
    assert sorted([*WRITTEN, *MADE_AGAIN, *LEFT]) == sorted(keys.SUFFIXES)
