"""Files that say when the rounds of Scrapy spiders begin: `spider` and `schedule`, one document for each spider."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pydantic import ValidationError

from gossamer.sites.check.expressions import Complaint
from gossamer.sites.check.schedule import check_schedule
from gossamer.sites.file.messages import problem_at, problems_of
from gossamer.sites.file.problems import Path, Problem, SiteErrors, errors_of
from gossamer.sites.file.yaml import InvalidYaml, Spot, read
from gossamer.sites.format.spider import SpiderPlan


class LoadedSpiders(NamedTuple):
    """The spiders of a file, and what is doubtful about it."""

    plans: list[SpiderPlan]
    warnings: list[Problem]


class _Report:
    """What is wrong with one document."""

    def __init__(self, spot: Spot) -> None:
        self._spot = spot
        self.problems: list[Problem] = []

    def add(self, path: Path, message: str, hint: str = "") -> None:
        self.problems.append(problem_at(self._spot, path, message, hint))

    def warn(self, path: Path, message: str, hint: str = "") -> None:
        self.problems.append(problem_at(self._spot, path, message, hint, severity="warning"))

    def must(self, looks: Callable[[str], Complaint], text: str | None, path: Path) -> None:
        if text is not None and (complaint := looks(text)) is not None:
            self.add(path, *complaint)


def load_spiders(text: str, file: str) -> LoadedSpiders:
    """What a text says about spiders; SiteErrors with all that is wrong."""
    try:
        documents = [document for document in read(text, file) if document.data is not None]
    except InvalidYaml as error:
        raise SiteErrors([error.problem]) from None
    plans: list[SpiderPlan] = []
    problems: list[Problem] = []
    if not documents:
        problems.append(Problem(file, 1, 1, "", "the file is empty", "it begins with spider: name"))
    for document in documents:
        problems += document.problems
        report = _Report(document.spot)
        if not isinstance(document.data, dict):
            report.add((), "this is not a mapping", "it begins with spider: name")
        else:
            try:
                plan = SpiderPlan.model_validate(document.data, by_alias=True, by_name=False)
            except ValidationError as error:
                problems += problems_of(error, document.data, document.spot)
            else:
                check_schedule(report, plan.schedule, ("schedule",))
                if plan.spider in [other.spider for other in plans]:
                    report.add(("spider",), f"there is another spider {plan.spider} in this file", "remove one of them")
                plans.append(plan)
        problems += report.problems
    if wrong := errors_of(problems):
        raise SiteErrors(wrong)
    return LoadedSpiders(plans, problems)
