"""What many commands share, so that it is spelled and means the same everywhere."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, Any, TypeVar

import typer

from gossamer import settings
from gossamer.cli import output
from gossamer.cli.project import project_settings
from gossamer.errors import GossamerError
from gossamer.frontier import audit
from gossamer.frontier.connection.url import same_place
from gossamer.frontier.contract import Frontier
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import duration

F = TypeVar("F", bound=Callable[..., Any])


def argument(metavar: str, help: str, **more: Any) -> Any:
    """What a command is about, for `Annotated`."""
    return typer.Argument(metavar=metavar, help=help, **more)


def option(names: str, metavar: str, help: str, **more: Any) -> Any:
    """An option with a value; `names` are divided by blanks. Without a `metavar` the help names the choices."""
    return typer.Option(*names.split(), metavar=metavar or None, help=help, **more)


def flag(names: str, help: str, **more: Any) -> Any:
    """An option that is given or not."""
    return option(names, "", help, **more)


Json = Annotated[bool, flag("--json", "Write JSON to standard output instead of a table.")]
Url = Annotated[str | None, option("--url", "URL", "Where the frontier lives, instead of GOSSAMER_URL.")]
Crawl = Annotated[str | None, option("--crawl", "NAME", "Which crawl, instead of GOSSAMER_CRAWL.")]
Yes = Annotated[bool, flag("--yes", "Do it without asking.")]
Group = Annotated[str, option("--group", "NAME", "Only this group.")]
Reason = Annotated[str, option("--reason", "TEXT", "The reason, which `gossamer status` shows.")]


@dataclass(frozen=True)
class Where:
    """Which crawl on which server, as `--url` and `--crawl` say. A command with a parameter of this type has both options."""

    url: Url = None
    crawl: Crawl = None

    def settings(self) -> settings.Settings:
        return load_settings(self.url, self.crawl)

    def find(self) -> ValkeyFrontier:
        """The crawl that this command is about; UnknownCrawl if there is none."""
        return ValkeyFrontier.find(self.settings())

    def who(self, given: str | None = None) -> str:
        """Who gives this command."""
        return audit.author(self.settings(), given)

    def log(self, frontier: Frontier, action: str, target: str, detail: str = "", who: str | None = None) -> None:
        """Write down what this command has done, for `gossamer site log`."""
        try:
            audit.note(frontier, self.who(who), action, target, detail)
        except GossamerError as error:
            output.write_notice(f"this was done, and is not in the log: {error}")


HERE = Where()


class Noun(typer.Typer):
    """The `app` of a noun. With one command the noun is that command; with more, each is a verb and `purpose` heads them."""

    def __init__(self, purpose: str | None = None) -> None:
        # Help is plain text: markup would swallow the square brackets of a TOML table or of an IPv6 address.
        names = {"help_option_names": ["-h", "--help"]}
        super().__init__(help=purpose, add_completion=False, rich_markup_mode=None, context_settings=names)

    def command(self, name: str | None = None, **more: Any) -> Callable[[F], F]:
        register = super().command(name, **more)

        def registered(function: F) -> F:
            register(_with_options(function))
            return function

        return registered


def _with_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with --url and --crawl in place of its parameter `where`."""
    own = inspect.signature(function, eval_str=True)
    if "where" not in own.parameters:
        return function
    asked = inspect.signature(Where, eval_str=True).parameters.values()

    @wraps(function)
    def command(url: str | None, crawl: str | None, **given: Any) -> Any:
        return function(**given, where=Where(url, crawl))

    kept = [parameter for parameter in own.parameters.values() if parameter.name != "where"]
    command.__signature__ = own.replace(parameters=[*kept, *asked])  # type: ignore[attr-defined]
    return command


def load_settings(url: str | None = None, crawl: str | None = None) -> settings.Settings:
    """The settings in force for this command: those of the command line, then the environment, the Scrapy project here,
    `gossamer.toml`."""
    given = {"GOSSAMER_URL": url, "GOSSAMER_CRAWL": crawl}
    return load_given({name: value for name, value in given.items() if value is not None}, "command line")


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
