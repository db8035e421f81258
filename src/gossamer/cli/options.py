"""What many commands share, so that it is spelled and means the same everywhere."""

from __future__ import annotations

from typing import Annotated

import typer

from gossamer import settings

Json = Annotated[bool, typer.Option("--json", help="Write JSON to standard output instead of a table.")]
Url = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="Where the frontier lives, instead of GOSSAMER_URL.")
]
Crawl = Annotated[str | None, typer.Option("--crawl", metavar="NAME", help="Which crawl, instead of GOSSAMER_CRAWL.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]


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
    """The settings in force for this command; an option given on the command line wins over every other source."""
    given = {"GOSSAMER_URL": url, "GOSSAMER_CRAWL": crawl}
    return settings.load({name: value for name, value in given.items() if value is not None}, given_as="command line")
