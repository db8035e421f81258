"""`gossamer work`: one worker, in this process."""

from __future__ import annotations

import signal
from typing import Annotated

import typer

from gossamer.cli import exits, options, spider

app = options.noun()


@app.command()
def work(
    name: spider.Spider,
    lanes: Annotated[str, typer.Option("--lanes", metavar="A,B", help="Serve only these lanes of the spider.")] = "",
    stage: Annotated[str, typer.Option("--stage", metavar="NAME", help="Serve only lanes of this stage.")] = "",
    argument: spider.Arguments = None,
    given: spider.Given = None,
    forever: Annotated[bool, typer.Option("--forever", help="Go on when nothing is left, for what may come.")] = False,
    project: spider.Project = None,
    url: options.Url = None,
    crawl: options.Crawl = None,
) -> None:
    """Run one worker until its group is drained.

    An ordinary Scrapy run that takes part in the crawl: the add-on is on, whether or not the project's settings
    have it. Start as many as you like, on as many machines; `gossamer crawl` starts several on this one. Logs go to
    standard error. Ctrl-C or SIGTERM ends it in good order, the second one at once: then its pages go to others.
    """
    chosen = spider.settings(
        given,
        url,
        crawl,
        GOSSAMER_LANES=lanes,
        GOSSAMER_STAGE=stage,
        GOSSAMER_MODE="forever" if forever else "",
    )
    arguments = spider.pairs(argument, "-a")
    spider.enter(project)
    # Here, not above: Scrapy takes a moment to load, and the page of commands needs only this function's name.
    from gossamer.worker.run import run

    ended = run(name, arguments, chosen)
    if ended.signal == signal.SIGINT:
        raise typer.Exit(exits.INTERRUPTED)
