"""Random calls, crashes, lost replies, repeated tokens, moving clocks and restarts, compared with a simple model step by step.

Durations are whole numbers of UNIT, so long that the real time which passes in an example does not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test
from tests.frontier.contract.machine.ground import FACTOR, Ground
from tests.frontier.contract.machine.machine import Machine

from gossamer.errors import FrontierError
from gossamer.frontier.server import library as server_library
from gossamer.testing.fault_proxy import FaultProxy
from gossamer.testing.servers import Cluster, Server


@contextmanager
def single(library: str | None = None) -> Iterator[Ground]:
    with ExitStack() as stack:
        server = stack.enter_context(Server("valkey").start(fsync="always"))
        proxy = stack.enter_context(FaultProxy(server.port))
        yield Ground([server], proxy.url, proxy=proxy, library=library)


class Forgetful(Machine):
    """Lanes are dropped and their memories changed now and then."""

    @rule(data=st.data(), what=st.sampled_from(("drop_lane", "change_seen")))
    def forget_some(self, data: st.DataObject, what: str) -> None:
        getattr(self, what)(data)


def run(ground: Ground, examples: int, steps: int = 40, tested: type[Machine] = Machine) -> None:
    """MACHINE_FACTOR times as many examples, then random ones, and a failing one is made smaller."""
    machine = type("TestedMachine", (tested,), {"ground": ground})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples * FACTOR,
            stateful_step_count=steps,
            derandomize=FACTOR == 1,
            database=None,
            deadline=None,
            phases=(Phase.generate, Phase.shrink) if FACTOR > 1 else (Phase.generate,),
            suppress_health_check=list(HealthCheck),
            print_blob=False,
            report_multiple_bugs=False,
        ),
    )


@pytest.mark.timeout(300 * FACTOR)
def test_the_frontier_behaves_like_the_model() -> None:
    with single() as ground:
        run(ground, examples=15)


@pytest.mark.timeout(300 * FACTOR)
def test_dropped_lanes_and_changed_memories_behave_like_the_model() -> None:
    with single() as ground:
        run(ground, examples=8, tested=Forgetful)


@pytest.mark.timeout(300 * FACTOR)
def test_a_crawl_on_a_cluster_behaves_like_the_model(cluster: Cluster) -> None:
    run(Ground(cluster.nodes, cluster.url, partitions=3, strikes=100), examples=5)


PLANTED = {
    "refused requests are marked seen": (
        "enqueue", "if #records >= limit then", "if #records >= limit and (not book or seen_add(book, entry)) then",
    ),
    "what comes back goes to the end": (
        "queue", "call('RPUSH', S.b .. K.front .. spot, record) == 1 and", "call('RPUSH', S.b .. K.queue .. spot, record) == 1 and",
    ),
    "an old lease settles the new one": ("lease", "if holder == incarnation and nonce == s[SETTLEMENT.nonce] then", "if holder == incarnation then"),
    "a dead worker keeps its slots": ("lease", "put_down(S, v, mark)\n", "put_down(S, v, '2')\n"),
    "a repeated call is executed again": ("enqueue", "if kept[ANSWER.sequence] == sequence then return kept end", ""),
    "a delayed request is lost when due": ("queue", "Queue.push(S, lane, v[QUEUED.priority], v[QUEUED.host], {v[QUEUED.record]})", ""),
    "delays are forgotten": ("host", "return sent + max(Host.delay(S, host), host.gap, host.heeds", "return 0 and (host.heeds"),
    "low priorities go first": ("queue", "K.priorities .. lane.id, -priority, priority)", "K.priorities .. lane.id, priority, priority)"),
    "a paused group is served": ("lane", "if group.paused ~= '' then return group.paused end", ""),
    "a dropped group leaves its keys": ("drop_group", "K.coverage, K.keyed, ", "K.coverage, "),
    "a dropped group leaves its start open": (
        "drop_group", "open_change(S, group, -count_now(S, 'g|' .. group .. '|open'))", "call('HDEL', S.b .. K.counts, 'g|' .. group .. '|open')",
    ),
    "unfiltered children of a lost page are added": ("enqueue", "refused[at] = lost[pages[i]]", "refused[at] = false"),
}  # fmt: skip


@pytest.mark.timeout(300)
@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str) -> None:
    name, right, wrong = PLANTED[bug]
    source = server_library.source(name)
    assert source.count(right) == 1, f"{name}.lua no longer has {right!r}: plant the bug anew"
    with (
        single(server_library.changed_library({name: source.replace(right, wrong)})) as ground,
        pytest.raises((AssertionError, FrontierError)),
    ):
        run(ground, examples=100)
