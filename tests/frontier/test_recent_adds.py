"""What is kept to be added again, for how long, and when."""

from __future__ import annotations

from gossamer.frontier import recent_adds
from gossamer.frontier.recent_adds import Known, RecentAdds
from gossamer.frontier.verbs.work.batch import Batch
from gossamer.model import AddOutcome


def batch(*entries: str) -> Batch:
    made = Batch()
    for number, entry in enumerate(entries):
        made.put(("g.a", "h", 0, 0), entry, b"record %d" % number, ([], number))
    return made


def test_nothing_is_added_again_where_the_epoch_stays() -> None:
    told = RecentAdds()
    told.heard(1, "e", 0.0)
    told.note(1, batch("7"), ["a"], 1.0, 10)
    assert told.heard(1, "e", 2.0) is None


def test_another_epoch_gets_what_was_taken_and_can_be_told_again() -> None:
    told = RecentAdds()
    told.heard(1, "e", 0.0)
    told.note(1, batch("7", "8", "", "kx"), ["afaa"], 1.0, 10, "g")
    told.note(2, batch("9"), ["a"], 1.0, 10)
    [said] = told.heard(1, "f", 2.0) or []
    assert said.group == "g"
    assert said.again(Known((), {"g.a": 10})) == ([["g.a", "h", 0, 0, ["7", "kx"], [8, 8]]], b"record 0record 3", [()])
    told.caught_up(1, "f")
    assert told.heard(1, "f", 3.0) is None
    assert len(told.heard(1, "g", 4.0) or []) == 1


def test_what_a_lane_was_not_there_for_is_told_again_once_it_is() -> None:
    told, slots = RecentAdds(), [AddOutcome.ADDED, AddOutcome.UNKNOWN_LANE]
    made = Batch()
    for number in range(2):
        made.put(("g.a", "h", 0, 0), f"{number}", b"record %d" % number, (slots, number))
    told.heard(1, "e", 0.0)
    told.note(1, made, ["au"], 1.0, 10)
    [said] = told.heard(1, "f", 2.0) or []
    assert said.again(Known({"g.b"}, {"g.a": 0, "g.b": 0})) == ([["g.a", "h", 0, 0, ["0"], [8]]], b"record 0", [()])
    assert said.again(Known({"g.a"}, {"g.a": 0})) == (
        [["g.a", "h", 0, 0, ["0", "1"], [8, 8]]],
        b"record 0record 1",
        [((slots, 1),)],
    )


def test_nothing_is_told_to_a_lane_that_was_dropped_or_made_since() -> None:
    told = RecentAdds()
    told.heard(1, "e", 0.0)
    told.note(1, batch("7"), ["a"], 1.0, 10)
    [said] = told.heard(1, "f", 2.0) or []
    assert said.again(Known({"g.a"}, {"g.a": 11}, dropped=100.0))[0], (
        "nothing was dropped since, whatever the clocks say"
    )
    assert said.again(Known({"g.b"}, {"g.b": 0})) == said.again(Known({"g.a"}, {"g.a": 11})) == ([], b"", [])


def test_what_could_not_be_added_again_is_added_with_the_next_call() -> None:
    told = RecentAdds()
    told.heard(1, "e", 0.0)
    told.note(1, batch("7"), ["a"], 1.0, 10)
    for now in (2.0, 3.0):
        assert len(told.heard(1, "f", now) or []) == 1, "the first call was not answered"


def test_what_a_partition_has_kept_for_long_is_let_go() -> None:
    told = RecentAdds()
    told.heard(1, "e", 0.0)
    told.note(1, batch("7"), ["a"], 1.0, 10)
    told.heard(1, "e", 2.0 + recent_adds.SECONDS)
    assert told.heard(1, "f", 3.0 + recent_adds.SECONDS) == []


def test_an_outage_lets_go_of_nothing() -> None:
    told = RecentAdds()
    told.heard(1, "e", 0.0)
    told.note(1, batch("7"), ["a"], 1.0, 10)
    assert len(told.heard(1, "f", 100 * recent_adds.SECONDS) or []) == 1


def test_only_so_many_bytes_are_kept() -> None:
    told = RecentAdds()
    told.heard(1, "e", 0.0)
    large = Batch()
    large.put(("g.a", "h", 0, 0), "1", b"x" * recent_adds.BYTES, ([], 0))
    told.note(1, large, ["a"], 1.0, 10)
    told.note(1, batch("7"), ["a"], 1.0, 10)
    [said] = told.heard(1, "f", 2.0) or []
    assert said.again(Known((), {"g.a": 0}))[0][0][4] == ["7"]


def test_what_was_refused_is_told_again_in_the_same_epoch_and_nothing_else() -> None:
    """A partition that lacks a lane may have lost it; looked up once in a while."""
    told = RecentAdds()
    told.heard(1, "e", 0.0)
    told.note(1, batch("7"), ["a"], 1.0, 10)
    told.note(1, batch("8"), ["u"], 1.0, 10)
    here = Known({"g.a"}, {"g.a": 0})
    said = told.heard(1, "e", 2.0) or []
    assert [one.again(here)[0] for one in said] == [[], [["g.a", "h", 0, 0, ["8"], [8]]]]
    told.note(1, batch("5"), ["u"], 2.0, 10)  # by another thread, meanwhile
    told.caught_up(1, "e", said, here)
    said = told.heard(1, "e", 2.5) or []
    assert [one.again(here)[0] for one in said] == [[], [], [["g.a", "h", 0, 0, ["5"], [8]]]], "each once"
    told.caught_up(1, "e", said, here)
    told.note(1, batch("9"), ["u"], 3.0, 10)
    assert told.heard(1, "e", 4.0) is None
    told.note(1, batch("9"), ["u"], 1.0 + recent_adds.SECONDS, 10)
    assert len(told.heard(1, "e", 40.0) or []) == 5
    assert all(not one.doubt for one in told.heard(1, "f", 41.0) or [])
