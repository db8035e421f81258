"""The contract of the frontier as tests, for every implementation and every place it may live in.

A test module takes them all and says where they run:

    from gossamer.testing.contract import *

    @pytest.fixture
    def crawl() -> Crawl: ...
"""

import pytest

from gossamer.testing.contract.crawl import Crawl, Worker
from gossamer.testing.contract.guarantees.crowd import TestCrowd, TestSharedHost
from gossamer.testing.contract.guarantees.fence import TestFencing
from gossamer.testing.contract.guarantees.host_feedback import TestAdaptiveDelay, TestBlocks
from gossamer.testing.contract.guarantees.lead import TestLead
from gossamer.testing.contract.guarantees.limits import TestBounded
from gossamer.testing.contract.guarantees.lists import TestLists
from gossamer.testing.contract.guarantees.loss import TestNothingLost
from gossamer.testing.contract.guarantees.order import TestLanes, TestOrder
from gossamer.testing.contract.guarantees.page import TestAtomicPage
from gossamer.testing.contract.guarantees.pages.change_texts import TestChangedPages, TestChangedTables
from gossamer.testing.contract.guarantees.pages.due import TestFeed, TestRediscovery, TestRevisits
from gossamer.testing.contract.guarantees.pages.locate import TestLocate
from gossamer.testing.contract.guarantees.pages.records import TestPageRecords, TestRecordsChange
from gossamer.testing.contract.guarantees.poison import TestPoison
from gossamer.testing.contract.guarantees.politeness import TestPoliteness
from gossamer.testing.contract.guarantees.rollback import TestWentBack
from gossamer.testing.contract.guarantees.seen import (
    TestChangedPolicy,
    TestEverySeenPolicy,
    TestRollingMemories,
    TestSeenMeansStored,
)
from gossamer.testing.contract.guarantees.start import TestDrained, TestStartedOnce
from gossamer.testing.contract.operations.control import TestPause, TestPolicies, TestServerTime, TestWorkers
from gossamer.testing.contract.operations.cookies import TestCookies
from gossamer.testing.contract.operations.daily import TestCoverage, TestDailyCounts
from gossamer.testing.contract.operations.dead import TestDeadLetters
from gossamer.testing.contract.operations.drop_group import TestDropGroup
from gossamer.testing.contract.operations.drop_lane import TestDropLane
from gossamer.testing.contract.operations.input import TestBadInput, TestBadPolicies
from gossamer.testing.contract.operations.page_versions import TestPageVersions
from gossamer.testing.contract.operations.plan import TestPlanState
from gossamer.testing.contract.operations.snapshot import TestScan
from gossamer.testing.contract.operations.task import TestTasks


@pytest.fixture
def worker(crawl: Crawl) -> Worker:
    """A worker that takes whatever there is."""
    return crawl.worker()


__all__ = [
    "Crawl",
    "TestAdaptiveDelay",
    "TestAtomicPage",
    "TestBadInput",
    "TestBadPolicies",
    "TestBlocks",
    "TestBounded",
    "TestChangedPages",
    "TestChangedPolicy",
    "TestChangedTables",
    "TestCookies",
    "TestCoverage",
    "TestCrowd",
    "TestDailyCounts",
    "TestDeadLetters",
    "TestDrained",
    "TestDropGroup",
    "TestDropLane",
    "TestEverySeenPolicy",
    "TestFeed",
    "TestFencing",
    "TestLanes",
    "TestLead",
    "TestLists",
    "TestLocate",
    "TestNothingLost",
    "TestOrder",
    "TestPageRecords",
    "TestPageVersions",
    "TestPause",
    "TestPlanState",
    "TestPoison",
    "TestPolicies",
    "TestPoliteness",
    "TestRecordsChange",
    "TestRediscovery",
    "TestRevisits",
    "TestRollingMemories",
    "TestScan",
    "TestSeenMeansStored",
    "TestServerTime",
    "TestSharedHost",
    "TestStartedOnce",
    "TestTasks",
    "TestWentBack",
    "TestWorkers",
    "Worker",
    "worker",
]
