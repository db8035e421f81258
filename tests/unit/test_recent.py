"""What is kept to be added again, for how long, and when."""

from __future__ import annotations

from gossamer.frontier import recent
from gossamer.frontier.batch import Batch
from gossamer.frontier.recent import Recent


def batch(*entries: str) -> Batch:
    made = Batch()
    for number, entry in enumerate(entries):
        made.put(("g.a", "h", 0, 0), entry, b"record %d" % number, ([], number))
    return made


def test_nothing_is_added_again_where_the_epoch_stays() -> None:
    told = Recent()
    told.heard(1, "e", 0.0)
    told.note(1, batch("7"), ["a"], 1.0)
    assert told.heard(1, "e", 2.0) == []


def test_another_epoch_gets_what_was_taken_and_can_be_told_again() -> None:
    told = Recent()
    told.heard(1, "e", 0.0)
    told.note(1, batch("7", "8", "", "kx"), ["afaa"], 1.0, "g")
    told.note(2, batch("9"), ["a"], 1.0)
    [(header, records, group)] = told.heard(1, "f", 2.0)
    assert (header, group) == ([["g.a", "h", 0, 0, ["7", "kx"], [8, 8]]], "g")
    assert records == b"record 0record 3"
    told.caught_up(1, "f")
    assert told.heard(1, "f", 3.0) == []
    assert len(told.heard(1, "g", 4.0)) == 1


def test_what_could_not_be_added_again_is_added_with_the_next_call() -> None:
    told = Recent()
    told.heard(1, "e", 0.0)
    told.note(1, batch("7"), ["a"], 1.0)
    first = told.heard(1, "f", 2.0)
    assert len(first) == 1
    assert told.heard(1, "f", 3.0) == first, "the first call was not answered"


def test_what_a_partition_has_kept_for_long_is_let_go() -> None:
    told = Recent()
    told.heard(1, "e", 0.0)
    told.note(1, batch("7"), ["a"], 1.0)
    told.heard(1, "e", 2.0 + recent.SECONDS)
    assert told.heard(1, "f", 3.0 + recent.SECONDS) == []


def test_an_outage_lets_go_of_nothing() -> None:
    told = Recent()
    told.heard(1, "e", 0.0)
    told.note(1, batch("7"), ["a"], 1.0)
    assert len(told.heard(1, "f", 100 * recent.SECONDS)) == 1


def test_only_so_many_bytes_are_kept() -> None:
    told = Recent()
    told.heard(1, "e", 0.0)
    large = Batch()
    large.put(("g.a", "h", 0, 0), "1", b"x" * recent.BYTES, ([], 0))
    told.note(1, large, ["a"], 1.0)
    told.note(1, batch("7"), ["a"], 1.0)
    [(header, _, _)] = told.heard(1, "f", 2.0)
    assert header[0][4] == ["7"]
