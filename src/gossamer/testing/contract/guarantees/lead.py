"""One planner leads at a time, and whoever led before changes nothing any more."""

from __future__ import annotations

import pytest

from gossamer.errors import NotLeader, PolicyError
from gossamer.frontier.server import keys
from gossamer.model import Token
from gossamer.testing.contract.crawl import Crawl

SECONDS = 4.0


class TestLead:
    """The lead of the planners is a lease with a term that fences."""

    def test_one_leads_until_it_stops_saying_so(self, crawl: Crawl) -> None:
        frontier, one, other = crawl.frontier, Token.fresh(), Token.fresh()
        first = frontier.lead(one, "one", SECONDS)
        assert (first.granted, first.name) == (True, "one")
        assert abs(first.until - first.now - SECONDS) < 0.01
        refused = frontier.lead(other, "other", SECONDS)
        assert refused[:3] == (False, first.term, "one")
        crawl.advance(SECONDS - 1)
        kept = frontier.lead(one, "one", SECONDS, first.term)
        assert (kept.granted, kept.term) == (True, first.term)
        crawl.advance(SECONDS - 1)
        assert not frontier.lead(other, "other", SECONDS).granted
        crawl.advance(2)
        second = frontier.lead(other, "other", SECONDS)
        assert second.granted
        assert second.term > first.term
        late = frontier.lead(one, "one", SECONDS, first.term)
        assert late[:3] == (False, second.term, "other")

    def test_a_lead_that_ran_out_goes_on_if_nobody_took_it(self, crawl: Crawl) -> None:
        frontier, one = crawl.frontier, Token.fresh()
        crawl.define()
        term = frontier.lead(one, "one", SECONDS).term
        crawl.advance(SECONDS + 1)
        with pytest.raises(NotLeader):
            frontier.new_round("g", 1, term=term)
        assert frontier.lead(one, "one", SECONDS, term)[:2] == (True, term)
        assert frontier.new_round("g", 1, term=term) == 1

    def test_who_resigns_leaves_it_to_the_next_at_once(self, crawl: Crawl) -> None:
        frontier, one, other = crawl.frontier, Token.fresh(), Token.fresh()
        crawl.define()
        term = frontier.lead(one, "one", SECONDS).term
        assert not frontier.resign(other, term)
        assert frontier.resign(one, term)
        with pytest.raises(NotLeader):
            frontier.new_round("g", 1, term=term)
        assert not frontier.lead(one, "one", SECONDS, term).granted, "a call that came late gets nothing back"
        assert frontier.lead(other, "other", SECONDS).granted

    def test_a_former_leader_begins_no_round(self, crawl: Crawl) -> None:
        frontier, one, other = crawl.frontier, Token.fresh(), Token.fresh()
        crawl.define()
        former = frontier.lead(one, "one", SECONDS).term
        assert frontier.new_round("g", 1, term=former) == 1
        crawl.advance(SECONDS + 1)
        term = frontier.lead(other, "other", SECONDS).term
        with pytest.raises(NotLeader, match=f"term {former} is over"):
            frontier.new_round("g", 2, term=former)
        assert crawl.group().round == 1
        assert frontier.new_round("g", 2, term=term) == 2
        assert frontier.new_round("g", 3) == 3, "people and workers need no lead"

    def test_a_partition_that_went_back_is_told_again(self, crawl: Crawl) -> None:
        """Whichever it was: no term comes twice, and the leader goes on."""
        frontier, one = crawl.frontier, Token.fresh()
        crawl.define()
        given: list[int] = []
        leader = frontier.lead(one, "one", SECONDS)
        for partition in range(frontier.partitions):
            given.append(leader.term)
            meta = keys.partition_meta(frontier.crawl, partition)
            crawl.command(("HDEL", meta, "lt", "lu", "ln", "li"), meta)
            # Terms are times in milliseconds, and no server goes back within one.
            crawl.advance(0.01)
            with pytest.raises(NotLeader):
                frontier.new_round("g", partition + 1, term=leader.term)
            leader = frontier.lead(one, "one", SECONDS, leader.term)
            if not leader.granted:
                leader = frontier.lead(one, "one", SECONDS)
            assert leader.granted
            assert leader.term > given[-1] if partition == 0 else leader.term == given[-1]
            assert frontier.new_round("g", partition + 1, term=leader.term) == partition + 1

    def test_a_later_term_that_another_partition_knows_is_not_given_again(self, crawl: Crawl) -> None:
        frontier, one = crawl.frontier, Token.fresh()
        crawl.define()
        ahead = frontier.lead(Token.fresh(), "former", SECONDS).term + 10**9
        for partition in range(1, frontier.partitions):
            meta = keys.partition_meta(frontier.crawl, partition)
            crawl.command(("HSET", meta, "lt", ahead + partition), meta)
        crawl.advance(SECONDS + 1)
        leader = frontier.lead(one, "one", SECONDS)
        assert leader.granted
        if frontier.partitions > 1:
            assert leader.term > ahead + frontier.partitions - 1
        assert frontier.new_round("g", 1, term=leader.term) == 1

    def test_a_former_leader_changes_nothing_about_alerts(self, crawl: Crawl) -> None:
        frontier, one, other = crawl.frontier, Token.fresh(), Token.fresh()
        former = frontier.lead(one, "one", SECONDS).term
        frontier.put_alert_entries({"a": b"\x00\xff", "b": b"2", "c": b"3"}, term=former)
        frontier.put_alert_entries({"b": None, "c": b"4"}, term=former)
        crawl.advance(SECONDS + 1)
        with pytest.raises(NotLeader):
            frontier.put_alert_entries({"a": None}, term=former)
        term = frontier.lead(other, "other", SECONDS).term
        with pytest.raises(NotLeader):
            frontier.put_alert_entries({"a": None, "c": b"5"}, term=former)
        assert frontier.alert_entries()[1] == {"a": b"\x00\xff", "c": b"4"}
        frontier.put_alert_entries({"a": b"6"}, term=term)
        now, found = frontier.alert_entries(["a", "none"])
        assert found == {"a": b"6"}
        assert abs(now - frontier.lead(other, "other", SECONDS, term).now) < SECONDS

    def test_bad_input(self, crawl: Crawl) -> None:
        for name, seconds in (("x" * 201, SECONDS), ("one", 0), ("one", float("nan"))):
            with pytest.raises(PolicyError):
                crawl.frontier.lead(Token.fresh(), name, seconds)
