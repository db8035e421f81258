"""`gossamer site test`: saved pages, read again by the site file as it is now."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from gossamer.cli import exit_codes, options, output
from gossamer.cli.options import argument, flag
from gossamer.registry.site_text import differences
from gossamer.sites.check.grant import check_grant
from gossamer.sites.compile import compile_site
from gossamer.sites.file.environment import missing
from gossamer.sites.file.grant import Grant, grant_of
from gossamer.sites.file.load import survey
from gossamer.sites.file.problems import SiteErrors, did_you_mean, errors_of
from gossamer.sites.format import SiteSpec

if TYPE_CHECKING:
    from gossamer.engine.trial.cases import SavedCase


class CaseOutcome(NamedTuple):
    """One case. `problem` says why it could not be read at all; `difference` is empty where all is as it was saved."""

    file: str
    case: str
    problem: str
    difference: str
    updated: bool = False

    @property
    def state(self) -> str:
        if self.updated:
            return "updated"
        return "failed" if self.problem else "different" if self.difference else "same"


def replay(
    files: Annotated[list[Path], argument("FILE", "Site files, or folders of them.")],
    update: Annotated[bool, flag("--update", "Save what is read today as right.")] = False,
    json: options.Json = False,
) -> None:
    """Read saved pages again and show what has changed.

    Changes are shown as a unified diff. The cases are those that `gossamer site try URL --save NAME` kept. Needs no
    server and fetches nothing; variables of the environment need not be set. Ends with exit code 1 if anything differs.
    """
    found = survey(files)
    grant = grant_of(options.load_settings(), local=True, files=files)
    wrong = errors_of(found.problems)
    wrong += [problem for one in found.sites for problem in check_grant(one.site, one.spot, grant)]
    if wrong:
        raise SiteErrors(wrong)
    sites: dict[str, list[SiteSpec]] = {}
    for each in found.sites:
        sites.setdefault(each.file, []).append(each.site)
    outcomes = [outcome for file, here in sites.items() for outcome in _file(Path(file), here, update, grant)]
    _tell_stray(files, [Path(file) for file in sites])
    if not outcomes:
        raise typer.BadParameter(
            "there are no cases beside these files; save one with `gossamer site try URL --save NAME`"
        )
    bad = [one for one in outcomes if one.state in ("failed", "different")]
    if json:
        output.write_json([{**one._asdict(), "state": one.state} for one in outcomes])
    else:
        for one in outcomes:
            if one.state != "same":
                output.write_line(f"{one.file}: {one.case}: {one.problem or one.state}")
                for text in one.difference.splitlines():
                    output.write_line(text)
        said = ", ".join(
            f"{number:,} {state}"
            for state in ("same", "updated", "different", "failed")
            if (number := sum(one.state == state for one in outcomes))
        )
        output.write_line(f"{output.counted(len(outcomes), 'case')}: {said}")
    if bad:
        raise typer.Exit(exit_codes.FAILED)


def _tell_stray(given: list[Path], files: list[Path]) -> None:
    """Say which cases in the folders are not run."""
    from gossamer.engine.trial import cases

    for folder in given:
        for path in cases.stray(folder, files) if folder.is_dir() else ():
            file = path.with_suffix("")
            hint = "name that file, too" if file.is_file() else "that file is not there"
            output.write_notice(f"{path} is not run: {hint}")


def _file(file: Path, sites: list[SiteSpec], update: bool, grant: Grant) -> list[CaseOutcome]:
    from gossamer.engine.sites import ServedSite
    from gossamer.engine.trial import cases

    # Nothing is asked for, so no secret is needed.
    served = {
        site.site: ServedSite(
            compile_site(site, environment={**os.environ, **dict.fromkeys(missing(site), "-")}, grant=grant)
        )
        for site in sites
    }
    outcomes = []
    for case in cases.cases_of(file):
        problem, reading = _read(served, case)
        if reading is None:
            outcomes.append(CaseOutcome(str(file), case.name, problem, ""))
            continue
        said = differences(cases.json_text(case.reading), cases.json_text(reading), "saved", "now")
        if said and update:
            cases.update(file, case, reading)
        outcomes.append(CaseOutcome(str(file), case.name, "", said, bool(said) and update))
    return outcomes


def _read(served: dict[str, Any], case: SavedCase) -> tuple[str, dict[str, Any] | None]:
    from gossamer.engine.trial.cases import reading_json
    from gossamer.engine.trial.trial import reading_of

    if case.site not in served:
        return f"there is no site {case.site} in this file ({did_you_mean(case.site, served)})", None
    layers = served[case.site].layers
    if case.layer not in layers:
        return f"the site {case.site} has no layer {case.layer} ({did_you_mean(case.layer, layers)})", None
    try:
        return "", reading_json(asyncio.run(reading_of(layers[case.layer], case.document)))
    except Exception as error:  # Of a hook or handler: the others are read all the same.
        return f"{type(error).__name__}: {error}", None
