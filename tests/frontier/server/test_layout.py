"""Records that Python and Lua share by position have one declaration."""

from __future__ import annotations

import re

import pytest

from gossamer.frontier.server import layout, library
from gossamer.frontier.server.layout import RECORDS, RecordLayout

SOURCES = {name: library.source(name) for name in (*library.SHARED, *library.VERBS)}


def test_names_of_fields_become_numbers_counted_from_one() -> None:
    assert layout.numbered("v[LEASE.lane_id] == e[ENTRY_DEAD.group] or Lease.host") == "v[1] == e[3] or Lease.host"


def test_a_field_that_a_record_does_not_have_is_named() -> None:
    with pytest.raises(ValueError, match=r"LEASE has no field 'hots'; it has lane_id, host, "):
        layout.numbered("v[LEASE.hots]")


def test_the_server_gets_numbers_only() -> None:
    code = re.sub(r"--.*", "", library.library())
    assert not re.search(rf"\b(?:{'|'.join(RECORDS)})\.\w", code)


@pytest.mark.parametrize("name", RECORDS)
def test_every_record_is_used_by_name(name: str) -> None:
    assert any(f"{name}." in text for text in SOURCES.values())


def test_a_row_has_a_value_for_every_field() -> None:
    record = RecordLayout("id nonce")
    assert record.of(1, "n") == [1, "n"]
    assert record.at("nonce") == 1
    with pytest.raises(ValueError, match="1 values for the 2 fields id, nonce"):
        record.of(1)
