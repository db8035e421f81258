"""The short form of the crawls of `make chaos` whose server gets into trouble: by the site's own log no page was left out."""

from __future__ import annotations

import random

import pytest
from scripts.chaos.crawls import Outcome, Plan, run

PAGES = 400


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "plan",
    [
        Plan("cut", "native", PAGES, times=1),
        Plan("lagging", "scrapy", PAGES, times=1),
        Plan("replaced", "native", PAGES, times=1),
        Plan("readonly", "native", PAGES, times=1),
        Plan("full", "native", PAGES, times=1),
        Plan("clock", "native", PAGES, times=1),
        Plan("apart", "native", PAGES, times=1),
        Plan("frozen", "native", PAGES, times=1),
        Plan("dropped", "scrapy", PAGES, times=1),
    ],
    ids=str,
)
def test_every_page_is_fetched(plan: Plan) -> None:
    outcome = run(plan, random.Random(7))
    assert outcome.whole, outcome


def test_an_outcome_is_whole_when_nothing_is_missing_or_doubled() -> None:
    plan = Plan("cut", "native", 100, times=1)
    assert Outcome(plan, [40], 0, 0, 0, 7, 1.0).whole
    assert not Outcome(plan, [40], 1, 1, 0, 7, 1.0).whole
    assert not Outcome(plan, [40], 0, 0, 1, 7, 1.0).whole
    assert str(plan) == "cut x 1, native, ten of 100"
