"""A Scrapy spider whose rounds are planned."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from gossamer.sites.format.site import Schedule
from gossamer.sites.format.values import SiteModel

SHOWN = 60
"""The most characters of a query that tables show."""


def _text(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError("an argument is text, as after -a: write it in quotes")
    return str(value)


Argument = Annotated[str, BeforeValidator(_text)]


class SpiderTasks(SiteModel):
    """Tasks that each round begins with: those of a file, or of a query."""

    key: str
    """The key from which the spider takes tasks."""
    csv: str | None = None
    """A file of the machines on which planners run, with a line of names first (url, priority, meta.section …): each further line is a task, as for `gossamer task push --csv`. Equal lines
    are one."""
    sql: str | None = None
    """A query: each row is a task, each column a member of it. Name columns with AS: SELECT link AS url, id AS "meta.id" FROM pages."""
    database: str | None = None
    """The database of the query, as in site files; without it, GOSSAMER_STORE_URL of the planner."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.csv is None) == (self.sql is None):
            raise ValueError("tasks come from either csv or sql")
        if self.database is not None and self.sql is None:
            raise ValueError("database is for sql; a file of csv needs none")
        return self

    @property
    def source(self) -> str:
        """Where they come from, in a few words."""
        if self.csv is not None:
            return self.csv
        words = " ".join((self.sql or "").split())
        return words if len(words) <= SHOWN else f"{words[: SHOWN - 1]}…"


class SpiderPlan(SiteModel):
    """When the rounds of a Scrapy spider begin. Its workers run `start()` again in each."""

    spider: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}$")]
    """The name of the spider, or its GOSSAMER_GROUP."""
    schedule: Schedule
    """As in site files."""
    arguments: dict[str, Argument] = Field(default_factory=dict)
    """Arguments of the spider, as after `-a`. Workers get them when they start, and begin again with others before the next round."""
    tasks: SpiderTasks | None = None
    """Tasks that the planner pushes when a round begins. If they cannot be read, the round waits."""
