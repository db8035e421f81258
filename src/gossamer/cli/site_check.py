"""`gossamer site check` and `gossamer site schema`: whether site files can be used, and what an editor needs to help with them."""

from __future__ import annotations

import json as json_
from pathlib import Path
from typing import Annotated

import typer

from gossamer.cli import exits, options, output, params
from gossamer.engine.hooks import look_here
from gossamer.sites.asking import names_beside
from gossamer.sites.checkhooks import check_hooks
from gossamer.sites.format import Site
from gossamer.sites.load import survey
from gossamer.sites.params import Parameters, parameters
from gossamer.sites.problems import errors_of, in_order
from gossamer.sites.schema import schema as json_schema
from gossamer.sites.seeds import count


def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Site files, or folders of them.")],
    hooks: Annotated[
        bool, typer.Option("--hooks", help="Also import the Python functions that they name; this runs their modules.")
    ] = False,
    param: params.Given = None,
    json: options.Json = False,
) -> None:
    """Tell all mistakes of all files at once, each with file, line and column.

    What is doubtful but can be used is a warning. Needs no server and fetches nothing.
    """
    found = survey(files, params.values(param))
    problems = found.problems
    if hooks:
        look_here()
        problems = in_order([*problems, *(one for each in found.sites for one in check_hooks(each.site, each.spot))])
    wrong = len(errors_of(problems))
    names = {each.file for each in found.sites} | {problem.file for problem in problems} - {params.OPTION}
    seeds = sum(_seeds(each.site) for each in found.sites) if not wrong else None
    if json:
        counts = {"files": len(names), "sites": len(found.sites), "seeds": seeds}
        output.write_json({**counts, "problems": [problem._asdict() for problem in problems]})
    else:
        for problem in problems:
            output.write_line(str(problem))
        checked = f"{_n(len(names), 'file')}, {_n(len(found.sites), 'site')}"
        warnings = _n(len(problems) - wrong, "warning")
        more = _n(seeds, "seed") if seeds is not None else _n(wrong, "error")
        output.write_line(f"{checked}, {more}{f', {warnings}' if len(problems) > wrong else ''}")
    if wrong:
        raise typer.Exit(exits.MISUSED)


def schema(
    out: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="A file instead of standard output.")
    ] = None,
) -> None:
    """Write the JSON Schema of site files, with which editors complete keys and mark mistakes."""
    if out is None:
        output.write_json(json_schema())
    else:
        out.write_text(json_.dumps(json_schema(), indent=2) + "\n", encoding="utf-8")


def _seeds(site: Site) -> int:
    known = parameters(site.params) if site.params else Parameters()
    texts = ((seed.url or seed.sitemap or seed.feed, names_beside(seed)) for seed in site.seeds)
    return sum(count(text, known, beside) for text, beside in texts if text is not None)


def _n(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
