"""`Site.run()`: a site in Python, crawled by a fleet of workers on this machine, as `gossamer crawl` does."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import typer

from gossamer.cli import exit_codes, options
from gossamer.cli.run.crawl_sites import CrawlOptions, crawl_again, crawl_loaded, write_report
from gossamer.cli.run.report import CrawlReport
from gossamer.errors import SiteError, WorkerFailed
from gossamer.registry.folder import texts_of
from gossamer.sites.file.load import sound, survey_documents
from gossamer.sites.file.problems import SiteErrors
from gossamer.sites.python.document import written
from gossamer.sites.python.module import MAIN, InvalidPython
from gossamer.sites.python.site import SiteDefinition, sites_of


class CrawlSummary(NamedTuple):
    """What a crawl did: pages fetched, how many of them failed, records among the items, dead letters, requests that are left."""

    pages: int = 0
    failed: int = 0
    items: int = 0
    dead_letters: int = 0
    left: int = 0
    seconds: float = 0.0


def run_site(
    site: SiteDefinition,
    workers: int,
    *,
    resume: bool,
    fresh: bool,
    repeat: bool,
    log: str,
    settings: Mapping[str, Any],
) -> CrawlSummary:
    file = Path(site.home.file)
    _check_home(site, file)
    shown = str(file.relative_to(Path.cwd())) if file.is_relative_to(Path.cwd()) else str(file)
    try:
        every = sites_of(site.home)
        text, documents = written(shown, every)
    except InvalidPython as error:
        raise SiteErrors([error.problem]) from None
    # All sites of the file are pushed: a site that is not among them any more would be taken for removed.
    loaded = sound(survey_documents(documents, text, Path(shown)))
    own = {one.site.site for one in survey_documents([documents[every.index(site)]], text, Path(shown)).sites}
    given = {name: str(value) for name, value in settings.items()}
    asked = CrawlOptions([Path(shown)], workers, resume, repeat, "", log, False, (), fresh, True)
    chosen = [one for one in loaded if one.site.site in own]
    try:
        report = crawl_loaded(asked, options.load_given(given), given, chosen, texts_of(loaded))
    except typer.BadParameter as error:
        raise SiteError(f"{error.message}.") from None
    return CrawlSummary() if report is None else _summary(report, asked, given)


def _check_home(site: SiteDefinition, file: Path) -> None:
    if not file.is_file():
        raise SiteError("A site that is run must be made in a file: workers import its functions from there.")
    module = sys.modules.get(site.home.module)
    if site.home.module != MAIN and getattr(getattr(module, "__spec__", None), "_initializing", False):
        raise SiteError(
            f'run() was called while {file.name} was being imported, as workers import it. Write it under `if __name__ == "__main__":`.'
        )


def _summary(report: CrawlReport, asked: CrawlOptions, given: dict[str, str]) -> CrawlSummary:
    write_report(report, json=False)
    again = crawl_again(asked, given)
    code = report.code(again, repeat=asked.repeat)
    if code == exit_codes.INTERRUPTED:
        raise SystemExit(code)
    did = report.did.values()
    summary = CrawlSummary(
        report.pages,
        sum(one.failed for one in did),
        sum(one.items for one in did),
        sum(one.dead_now for one in did),
        sum(one.open for one in did),
        report.seconds,
    )
    if code != exit_codes.OK:
        raise WorkerFailed(f"The crawl is not finished: {summary.left:,} requests are left. Go on with: {again}.")
    return summary
