"""How a spider is named on the command line, with its arguments and settings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from gossamer.cli.options import Where, argument, option

Spider = Annotated[
    str, argument("SPIDER", "A spider's name in the Scrapy project here, or a file with one: spider.py.")
]
Arguments = Annotated[
    list[str] | None, option("-a --argument", "NAME=VALUE", "An argument for the spider; may be given again.")
]
Given = Annotated[
    list[str] | None, option("-s --set", "NAME=VALUE", "A setting of Scrapy or Gossamer; may be given again.")
]
Project = Annotated[
    Path | None, option("--project", "DIR", "The directory of the Scrapy project, instead of this one.")
]


def pairs(words: Sequence[str] | None, option: str) -> dict[str, str]:
    """`NAME=VALUE` words as a mapping; the last of a name counts."""
    found: dict[str, str] = {}
    for word in words or ():
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{word!r} after {option} is not of the form NAME=VALUE")
        found[name] = value
    return found


Overwrite = Annotated[
    list[str] | None,
    option("-O --overwrite-output", "FILE", "Write the round's items to FILE; each round overwrites it."),
]
Output = Annotated[
    list[str] | None, option("-o --output", "FILE", "Add the items to FILE. FILE:FORMAT names the format.")
]


STDOUT = "stdout:"
"""The feed to standard output, for which people write `-`."""


def feeds(overwrite: Sequence[str] | None, output: Sequence[str] | None) -> dict[str, Any]:
    """What `-O` and `-o` ask for, as the setting FEEDS; nothing if they were not given."""
    found: dict[str, dict[str, Any]] = {}
    for words, anew in ((overwrite, True), (output, False)):
        for word in words or ():
            name, colon, form = word.rpartition(":")
            if not colon or "/" in form or "\\" in form:
                name, form = word, Path(word).suffix.removeprefix(".")
            if not form:
                raise typer.BadParameter(f"{word!r} does not show the format; write {word}:jsonlines, for example")
            found[STDOUT if name == "-" else name] = {"format": form, "overwrite": anew}
    return {"FEEDS": found} if found else {}


def settings(words: Sequence[str] | None, where: Where, **more: Any) -> dict[str, Any]:
    """What was given after `-s`, and what other options say in its place."""
    named = {"GOSSAMER_URL": where.url, "GOSSAMER_CRAWL": where.crawl, **more}
    return {**pairs(words, "-s"), **{name: value for name, value in named.items() if value}}


def enter(project: Path | None) -> None:
    """Go on as if started there: its `gossamer.toml` and the embedded server's data are there too."""
    if project is not None:
        if not project.is_dir():
            raise typer.BadParameter(f"--project {project} is not a directory")
        os.chdir(project)
