"""Groups whose pages note which rows they bring: workers of versions that do not note it get none."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from gossamer.frontier.call import function_call
from gossamer.frontier.snapshot import line
from gossamer.model import GroupPolicy, LanePolicy
from gossamer.testing.contract import Crawl

Former = Callable[[], AbstractContextManager[None]]
GONE = GroupPolicy(gone=True)


@pytest.fixture
def former(monkeypatch: pytest.MonkeyPatch) -> Former:
    """Calls are those of the version before."""

    def of_the_version_before(verb: str, base: str, header: dict[str, Any], *records: bytes) -> Any:
        header.pop("knows_texts", None)
        if policy := header.get("policy"):
            policy.pop("gone", None)
        return function_call(verb, base, header, *records)

    @contextmanager
    def patch() -> Any:
        with monkeypatch.context() as patched:
            for module in ("work.exchange", "control.control"):
                patched.setattr(f"gossamer.frontier.verbs.{module}.function_call", of_the_version_before)
            yield

    return patch


@pytest.mark.parametrize("serves", [["g"], []], ids=["the group", "all groups"])
def test_a_worker_of_the_version_before_gets_no_pages_of_a_group_with_gone(
    crawl: Crawl, former: Former, serves: list[str]
) -> None:
    """It finishes what it has. Workers of this version get the pages, and so do all of a group without `gone`."""
    crawl.define()
    crawl.frontier.define("other", {"a": LanePolicy()})
    with former():
        worker, elsewhere = crawl.worker(*serves), crawl.worker("other")
        crawl.add("one")
        crawl.add("elsewhere", lane="other.a")
        lease = worker.one()
    crawl.define(policy=GONE)
    crawl.add("two")
    with former():
        answer = worker.exchange(want=1)
        assert (list(answer.leases), answer.hints.paused) == ([], "draining")
        worker.settle(lease)
        assert elsewhere.one().payload == b"elsewhere"
    assert crawl.finish() == ["two"]


def test_a_definition_by_the_version_before_keeps_it(crawl: Crawl, former: Former) -> None:
    crawl.define(policy=GONE)
    with former():
        crawl.define(policy=GroupPolicy(max_pages=5))
        crawl.add("one")
        assert crawl.worker("g").exchange(want=1).hints.paused == "draining"
    crawl.define(policy=GroupPolicy(max_pages=5))
    with former():
        assert crawl.worker("g").one()


def test_it_is_in_a_snapshot() -> None:
    assert line.group_policy_from({"gone": True}).gone
