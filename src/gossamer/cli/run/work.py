"""`gossamer work`: one worker, in this process."""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gossamer import shutdown
from gossamer.cli import exit_codes, options
from gossamer.cli.options import argument, flag, option
from gossamer.cli.run import spider
from gossamer.cli.run.crawl_sites import defines_sites
from gossamer.settings.fleet_place import pass_on
from gossamer.sites.downloader import Downloader

if TYPE_CHECKING:
    from gossamer.engine.job import NativeJob

app = options.Noun()


@app.command()
def work(
    name: Annotated[
        str | None,
        argument(
            "SPIDER",
            "A spider's name in the Scrapy project here, or a file with one: spider.py. Without it, the crawl's sites.",
        ),
    ] = None,
    lanes: Annotated[str, option("--lanes", "A,B", "Serve only these lanes of the spider.")] = "",
    sites: Annotated[str, option("--site --sites", "A,B", "Serve only these sites.")] = "",
    stage: Annotated[str, option("--stage", "NAME", "Serve only lanes (or layers) of this stage.")] = "",
    all_stages: Annotated[bool, flag("--all-stages", "Sites: serve layers of every stage.")] = False,
    layer: Annotated[str, option("--layer", "NAME", "Sites: crawl this layer alone.")] = "",
    argument: spider.Arguments = None,
    given: spider.Given = None,
    overwrite: spider.Overwrite = None,
    added: spider.Output = None,
    forever: Annotated[bool, flag("--forever", "Keep running when nothing is left, and wait for more.")] = False,
    drained: Annotated[bool, flag("--drained", "Sites: end when nothing is left, and begin no round.")] = False,
    repeat: Annotated[bool, flag("--repeat", "Sites: begin rounds when they are due (the default).")] = False,
    project: spider.Project = None,
    local: Annotated[
        list[str] | None,
        option(
            "--local",
            "DIGESTS",
            "Sites: digests of files that you trust as your own; `gossamer crawl FILE` gives them.",
        ),
    ] = None,
    code: Annotated[
        list[Path] | None,
        option(
            "--code",
            "DIR",
            "Sites: a folder whose functions these files may use; `gossamer crawl FILE.py` gives it.",
        ),
    ] = None,
    where: options.Where = options.HERE,
) -> None:
    """Run one worker.

    With a spider: an ordinary Scrapy run that takes part in the crawl, until its group is drained; the add-on is on,
    whether or not the project's settings have it. Without: a worker that serves the crawl's sites, those that it has now
    and those that are pushed later, and begins their rounds when they are due; pages of sites with `engine: scrapy` come
    through the Scrapy project here. Start as many as you like, on as many machines; `gossamer crawl` starts several on this
    one. Logs go to standard error. Ctrl-C or SIGTERM ends it cleanly, a second one at once: then its pages go to
    others. A spider gets the arguments that a spider file of the crawl has for it (`gossamer spider push`), unless -a gives
    others.
    """
    shutdown.after_main()
    if name is not None and defines_sites(name):
        raise typer.BadParameter(
            f"{name} has sites: `gossamer crawl {name}` crawls them; or push them with `gossamer site push {name}`, and start "
            "`gossamer work` without a name"
        )
    if name is None:
        if lanes or argument or overwrite or added:
            raise typer.BadParameter("--lanes, -a, -O and -o are for spiders; name one, or leave them out")
        spider.enter(project)
        only = tuple(one.strip() for one in sites.split(",") if one.strip())
        from gossamer.engine.job import NativeJob

        own = frozenset(digest for words in local or () for digest in words.split(","))
        pool = None if all_stages else stage
        job = NativeJob(only, pool, layer, not drained, repeat or not drained, own, tuple(code or ()))
        _serve(spider.settings(given, where), job)
        return
    if sites or all_stages or layer or drained or repeat or local or code:
        raise typer.BadParameter(
            "--site, --all-stages, --layer, --drained, --repeat, --local and --code are for sites; leave the spider out"
        )
    chosen = spider.settings(
        given,
        where,
        GOSSAMER_LANES=lanes,
        GOSSAMER_STAGE=stage,
        GOSSAMER_MODE="forever" if forever else "",
    )
    arguments = spider.pairs(argument, "-a")
    here = Path.cwd()
    spider.enter(project)
    # Here, not above: Scrapy takes a moment to load, and the page of commands needs only this function's name.
    from gossamer.scrapy.process.run import run
    from gossamer.scrapy.spider_file import AGAIN

    ended = run(name, arguments, {**chosen, **spider.feeds(overwrite, added)})
    if ended.signal == signal.SIGINT:
        raise typer.Exit(exit_codes.INTERRUPTED)
    if ended.reason == AGAIN and not ended.signal:
        _begin_again(here)


def _begin_again(folder: Path) -> None:
    """Run this command again in the same process: Scrapy makes a spider with its arguments once."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os.chdir(folder)
    pass_on()
    os.execv(sys.executable, [sys.executable, "-P", "-m", "gossamer", *sys.argv[1:]])


def _serve(given: dict[str, str], job: NativeJob) -> None:
    from gossamer.engine.worker import run

    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s [%(name)s] %(levelname)s: %(message)s"
    )
    settings = options.load_given(given)

    def open_downloader() -> Downloader:
        # Here, not above: Scrapy is loaded only where a site asks for it.
        from gossamer.scrapy.site.spider import ScrapyDownloader

        return ScrapyDownloader(given, settings["GOSSAMER_ENGINE_CONCURRENCY"])

    ended = run(settings, job, open_downloader)
    if ended.signal == signal.SIGINT:
        raise typer.Exit(exit_codes.INTERRUPTED)
