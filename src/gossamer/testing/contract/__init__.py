"""The contract of the frontier as tests, for every implementation and every place it may live in.

A test module takes them all and says where they run:

    from gossamer.testing.contract import *

    @pytest.fixture
    def crawl() -> Crawl: ...
"""

from gossamer.testing.contract.crawl import Crawl, Worker
from gossamer.testing.contract.fence import TestFencing
from gossamer.testing.contract.lost import TestNothingLost
from gossamer.testing.contract.order import TestLanes, TestOrder
from gossamer.testing.contract.page import TestAtomicPage
from gossamer.testing.contract.poison import TestPoison
from gossamer.testing.contract.polite import TestAdaptiveDelay, TestBlocks, TestPoliteness

__all__ = [
    "Crawl",
    "TestAdaptiveDelay",
    "TestAtomicPage",
    "TestBlocks",
    "TestFencing",
    "TestLanes",
    "TestNothingLost",
    "TestOrder",
    "TestPoison",
    "TestPoliteness",
    "Worker",
]
