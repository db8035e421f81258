"""A Scrapy spider whose rounds are planned."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gossamer.sites.format.site import Schedule
from gossamer.sites.format.values import SiteModel


class SpiderTasks(SiteModel):
    """Tasks that each round begins with."""

    key: str
    """The key from which the spider takes tasks."""
    csv: str
    """A file of the machines on which planners run, with a line of names first: each further line is a task. Equal lines are one."""


class SpiderPlan(SiteModel):
    """When the rounds of a Scrapy spider begin. Its workers run `start()` again in each."""

    spider: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}$")]
    """The name of the spider, or its GOSSAMER_GROUP."""
    schedule: Schedule
    """As in site files."""
    tasks: SpiderTasks | None = None
    """Tasks that the planner pushes before a round begins."""
