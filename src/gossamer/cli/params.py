"""Values for the parameters of site files, given on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from gossamer.cli.options import option
from gossamer.cli.run.spider import pairs
from gossamer.sites.file.yaml import InvalidYaml, read

OPTION = "--param"
Given = Annotated[
    list[str] | None,
    option(
        OPTION, "NAME=VALUE", "A value instead of the file's own `params`, or several: NAME=[A, B]; may be given again."
    ),
]


def values(words: Sequence[str] | None) -> dict[str, Any]:
    """What was given after --param. A value is a text, as in a table of rows; in brackets it is a list, as YAML has it."""
    return {name: _value(name, text) for name, text in pairs(words, OPTION).items()}


def _value(name: str, text: str) -> Any:
    if not (text.startswith("[") and text.endswith("]")):
        return text
    try:
        return next(read(text, OPTION)).data
    except InvalidYaml as error:
        raise typer.BadParameter(f"the list after {OPTION} {name}= cannot be read: {error.problem.message}") from None
