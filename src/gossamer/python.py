"""Sites written in Python: `from gossamer import Site`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gossamer.model.page import PageRequest, Record
from gossamer.sites.python.page import Page
from gossamer.sites.python.reader import LayerFunction, Output
from gossamer.sites.python.site import SiteDefinition

if TYPE_CHECKING:
    from gossamer.cli.run.python_site import CrawlSummary

__all__ = ["LayerFunction", "Output", "Page", "PageRequest", "Record", "Site"]


class Site(SiteDefinition):
    """A source, described in Python: `Site("shop", seeds=[…], **keys)`. The keys are those of a site file."""

    def run(
        self,
        workers: int = 0,
        *,
        resume: bool = False,
        fresh: bool = False,
        repeat: bool = False,
        log: str = "",
        settings: Mapping[str, Any] | None = None,
    ) -> CrawlSummary:
        """Crawl the site with this many workers on this machine (0: one per core, 8 at most), until nothing is left, as `gossamer
        crawl FILE` does, with its options. `settings` override the environment; without GOSSAMER_URL, the embedded server is used.

        Returns what the crawl did. Raises SiteErrors with all mistakes of the site, WorkerFailed if the crawl could not be finished.
        Ctrl-C stops the workers cleanly and ends the program with exit code 130; `resume=True` finishes the rest. Call it in the main
        thread, under `if __name__ == "__main__":`, since workers import the file.
        """
        from gossamer.cli.run.python_site import run_site

        return run_site(self, workers, resume=resume, fresh=fresh, repeat=repeat, log=log, settings=settings or {})
