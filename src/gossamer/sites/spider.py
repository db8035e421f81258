"""Files that say when the rounds of Scrapy spiders begin, and with which arguments and tasks; one document for each spider."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pydantic import ValidationError

from gossamer.model.plan.query import single_query
from gossamer.sites.check.schedule import ProblemReport, check_schedule
from gossamer.sites.file.messages import problems_of
from gossamer.sites.file.problems import Problem, SiteErrors, errors_of
from gossamer.sites.file.yaml import InvalidYaml, read
from gossamer.sites.format.spider import SpiderPlan

KIND = "spider"
"""What these files are called among the crawl's documents."""
NOT_ARGUMENTS = {"name": "the name of the spider decides its group", "crawler": "Scrapy gives it itself"}


class LoadedSpiders(NamedTuple):
    """The spiders of a file, and what is doubtful about it."""

    plans: list[SpiderPlan]
    warnings: list[Problem]


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
        report = ProblemReport(document.spot)
        if not isinstance(document.data, dict):
            report.add((), "this is not a mapping", "it begins with spider: name")
        else:
            try:
                plan = SpiderPlan.model_validate(document.data, by_alias=True, by_name=False)
            except ValidationError as error:
                problems += problems_of(error, document.data, document.spot)
            else:
                check_schedule(report, plan.schedule, ("schedule",))
                _check_arguments(report, plan)
                _check_query(report, plan)
                if plan.spider in [other.spider for other in plans]:
                    report.add(("spider",), f"there is another spider {plan.spider} in this file", "remove one of them")
                plans.append(plan)
        problems += report.problems
    if wrong := errors_of(problems):
        raise SiteErrors(wrong)
    return LoadedSpiders(plans, problems)


def plan_of(group: str, files: Iterable[tuple[str, str]]) -> tuple[str, SpiderPlan] | None:
    """The file, of those given by name and text, that plans a group, and what it says of it."""
    for name, text in files:
        for plan in load_spiders(text, name).plans:
            if plan.spider == group:
                return name, plan
    return None


def _check_arguments(report: ProblemReport, plan: SpiderPlan) -> None:
    for name in plan.arguments:
        if not name.isidentifier():
            report.add(("arguments", name), f"{name} cannot name an argument", "use letters, digits and _")
        elif name in NOT_ARGUMENTS:
            report.add(("arguments", name), f"{name} is no argument here: {NOT_ARGUMENTS[name]}", "take it out")


def _check_query(report: ProblemReport, plan: SpiderPlan) -> None:
    if plan.tasks is None or plan.tasks.sql is None:
        return
    try:
        single_query(plan.tasks.sql)
    except ValueError as error:
        said, _, hint = str(error).partition("; ")
        report.add(("tasks", "sql"), said, hint)
