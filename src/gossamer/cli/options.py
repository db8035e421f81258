"""What many commands share, so that it is spelled and means the same everywhere."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from gossamer import settings
from gossamer.cli import output
from gossamer.cli.project import project_settings
from gossamer.frontier.connection.url import same_place
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import duration

Json = Annotated[bool, typer.Option("--json", help="Write JSON to standard output instead of a table.")]
Url = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="Where the frontier lives, instead of GOSSAMER_URL.")
]
Crawl = Annotated[str | None, typer.Option("--crawl", metavar="NAME", help="Which crawl, instead of GOSSAMER_CRAWL.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]
Group = Annotated[str, typer.Option("--group", metavar="NAME", help="Only this group.")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="The reason, which `gossamer status` shows.")]


def noun(purpose: str | None = None) -> typer.Typer:
    """The `app` of a noun. With one command the noun is that command; with more, each is a verb and `purpose` heads them."""
    # Help is plain text: markup would swallow the square brackets of a TOML table or of an IPv6 address.
    return typer.Typer(
        help=purpose,
        add_completion=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def load_settings(url: str | None = None, crawl: str | None = None) -> settings.Settings:
    """The settings in force for this command: those of the command line, then the environment, the Scrapy project here,
    `gossamer.toml`."""
    given = {"GOSSAMER_URL": url, "GOSSAMER_CRAWL": crawl}
    return load_given({name: value for name, value in given.items() if value is not None}, "command line")


def find_frontier(url: str | None = None, crawl: str | None = None) -> ValkeyFrontier:
    """The crawl that this command is about; UnknownCrawl if there is none."""
    return ValkeyFrontier.find(load_settings(url, crawl))


def load_given(given: Mapping[str, Any], given_as: str = settings.GIVEN) -> settings.Settings:
    """The same, with any settings given."""
    project = project_settings()
    if project.url:
        other = os.environ.get("GOSSAMER_URL", project.values.get("GOSSAMER_URL", project.url))
        if "GOSSAMER_URL" not in given and not same_place(str(other), project.url):
            output.write_notice(
                "GOSSAMER_URL is not used: REDIS_URL of the Scrapy project here names the server; --url goes before both"
            )
        given = {"GOSSAMER_URL": project.url, **given}
    return settings.load(
        given, given_as=given_as, project=project.values, project_as=project.module or settings.PROJECT
    )


def confirm(question: str, yes: bool) -> None:
    """Ask before something is destroyed, unless `--yes` was given. Any answer but yes, or none, ends the command."""
    if yes:
        return
    # Not typer.confirm: it writes a blank to standard output, which belongs to the answer.
    sys.stderr.write(f"{output.visible(question)} [y/N] ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        sys.stderr.write("\n")
    if answer.strip().lower() not in ("y", "yes"):
        raise typer.Abort


def seconds(text: str) -> float:
    """A duration as people write it: `90`, `90s`, `1.5m`, `2h`, `7d`."""
    try:
        return duration.seconds(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
