"""The contract of the frontier as tests, for every implementation and every place it may live in.

A test module takes them all and says where they run:

    from gossamer.testing.contract import *

    @pytest.fixture
    def crawl() -> Crawl: ...
"""

from gossamer.testing.contract.back import TestWentBack
from gossamer.testing.contract.bounded import TestBounded
from gossamer.testing.contract.control import TestPause, TestPolicies, TestServerTime, TestWorkers
from gossamer.testing.contract.cookies import TestCookies
from gossamer.testing.contract.crawl import Crawl, Worker
from gossamer.testing.contract.crowd import TestCrowd, TestSharedHost
from gossamer.testing.contract.dead import TestDeadLetters
from gossamer.testing.contract.drop import TestDropGroup, TestDropLane
from gossamer.testing.contract.fence import TestFencing
from gossamer.testing.contract.input import TestBadInput, TestBadPolicies
from gossamer.testing.contract.lists import TestLists
from gossamer.testing.contract.lost import TestNothingLost
from gossamer.testing.contract.order import TestLanes, TestOrder
from gossamer.testing.contract.page import TestAtomicPage
from gossamer.testing.contract.poison import TestPoison
from gossamer.testing.contract.polite import TestAdaptiveDelay, TestBlocks, TestPoliteness
from gossamer.testing.contract.seen import (
    TestChangedPolicy,
    TestEverySeenPolicy,
    TestRollingMemories,
    TestSeenMeansStored,
)
from gossamer.testing.contract.snapshot import TestScan
from gossamer.testing.contract.start import TestDrained, TestStartedOnce
from gossamer.testing.contract.task import TestTasks

__all__ = [
    "Crawl",
    "TestAdaptiveDelay",
    "TestAtomicPage",
    "TestBadInput",
    "TestBadPolicies",
    "TestBlocks",
    "TestBounded",
    "TestChangedPolicy",
    "TestCookies",
    "TestCrowd",
    "TestDeadLetters",
    "TestDrained",
    "TestDropGroup",
    "TestDropLane",
    "TestEverySeenPolicy",
    "TestFencing",
    "TestLanes",
    "TestLists",
    "TestNothingLost",
    "TestOrder",
    "TestPause",
    "TestPoison",
    "TestPolicies",
    "TestPoliteness",
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
]
