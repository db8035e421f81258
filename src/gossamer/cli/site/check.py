"""`gossamer site check` and `gossamer site schema`: whether site files can be used, and what an editor needs to help with them."""

from __future__ import annotations

import json as json_
from pathlib import Path
from typing import Annotated

import typer

from gossamer.cli import exit_codes, options, output, params
from gossamer.cli.options import argument, flag, option
from gossamer.cli.site.parallel import check_files
from gossamer.sites.file.grant import grant_of
from gossamer.sites.file.problems import errors_of
from gossamer.sites.file.schema import schema as json_schema


def check(
    files: Annotated[list[Path], argument("FILE", "Site files, or folders of them.")],
    hooks: Annotated[
        bool, flag("--hooks", "Also import the Python functions that they name; this runs their modules.")
    ] = False,
    pushed: Annotated[
        bool, flag("--pushed", "Allow only what a worker with these settings allows to files of the crawl.")
    ] = False,
    param: params.Given = None,
    json: options.Json = False,
) -> None:
    """Report all mistakes in all files at once, with line and column.

    What is doubtful but can be used is a warning. Needs no server and fetches nothing.
    """
    found = check_files(
        files, params.values(param), grant_of(options.load_settings(), local=not pushed, files=files), hooks=hooks
    )
    problems = found.problems
    wrong = len(errors_of(problems))
    names = found.files | {problem.file for problem in problems} - {params.OPTION}
    seeds = found.seeds if not wrong else None
    if json:
        counts = {"files": len(names), "sites": found.sites, "seeds": seeds}
        output.write_json({**counts, "problems": [problem._asdict() for problem in problems]})
    else:
        for problem in problems:
            output.write_line(str(problem))
        checked = f"{output.counted(len(names), 'file')}, {output.counted(found.sites, 'site')}"
        warnings = output.counted(len(problems) - wrong, "warning")
        more = output.counted(seeds, "seed") if seeds is not None else output.counted(wrong, "error")
        output.write_line(f"{checked}, {more}{f', {warnings}' if len(problems) > wrong else ''}")
    if wrong:
        raise typer.Exit(exit_codes.MISUSED)


def schema(
    out: Annotated[Path | None, option("-o --output", "FILE", "A file instead of standard output.")] = None,
) -> None:
    """Write the JSON Schema of site files, for editors."""
    if out is None:
        output.write_json(json_schema())
    else:
        out.write_text(json_.dumps(json_schema(), indent=2) + "\n", encoding="utf-8")
