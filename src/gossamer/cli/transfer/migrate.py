"""`gossamer migrate`: a project that is written for another tool, read and rewritten."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from gossamer.cli import exit_codes, options, output
from gossamer.cli.options import argument, flag
from gossamer.errors import PolicyError
from gossamer.migrate.scrapy_redis import RULES, Finding, FindingVerdict, Project, ScanReport, scan

app = options.Noun("Move projects that were written for another tool.")


@app.callback()
def _migrate() -> None:
    """Move projects that were written for another tool."""


@app.command("scrapy-redis")
def scrapy_redis(
    path: Annotated[Path, argument("PATH", "The folder of the project, or one Python file.")],
    write: Annotated[bool, flag("--write", "Rewrite imports and settings. Without it nothing is changed.")] = False,
    allow_dirty: Annotated[
        bool, flag("--allow-dirty", "Write although git has not committed all of the files that are rewritten.")
    ] = False,
    every: Annotated[bool, flag("--all", "Also list each place that moves as it is, instead of their number.")] = False,
    json: options.Json = False,
) -> None:
    """Report what a scrapy-redis project needs to run on Gossamer, and rewrite it.

    Reads the project's Python files, and scripts and requirements beside them; runs none of it. Each place either moves
    as it is, differs (you need do nothing), or needs your decision, with what to do. With --write, imports and paths in
    settings name gossamer.scrapy_redis; nothing else in a file changes, and other files, .git, virtual environments and
    vendored code are never written. Exit code 0 if nothing is to be decided, 1 if something is.
    """
    project = Project(path)
    report = scan(project.read())
    if write and report.rewritten:
        _check(project, list(report.rewritten), allow_dirty)
        project.write(report.rewritten)
    if json:
        output.write_json(_json(report, project, write))
    else:
        _show(report, write, every)
    if report.of(FindingVerdict.DECIDE):
        raise typer.Exit(exit_codes.FAILED)


def _check(project: Project, names: list[str], allow_dirty: bool) -> None:
    changed = project.uncommitted(names)
    if changed is None:
        output.write_notice("no git here: what is written cannot be taken back by it")
    elif changed and not allow_dirty:
        more = f" and {len(changed) - 3:,} more" if len(changed) > 3 else ""
        raise PolicyError(
            f"Nothing was written: git has not committed all of the files that would be rewritten: {', '.join(changed[:3])}{more}. "
            "Commit or stash them, or give --allow-dirty."
        )


def _json(report: ScanReport, project: Project, written: bool) -> dict[str, object]:
    return {
        "files": report.files,
        "written": written and bool(report.rewritten),
        "skipped": project.skipped,
        "edits": [
            {"path": path, "line": edit.line, "old": edit.old, "new": edit.new}
            for path, edits in report.edits.items()
            for edit in edits
        ],
        "findings": [
            {
                "path": each.path,
                "line": each.line,
                "verdict": RULES[each.code].verdict.value,
                "code": each.code,
                "what": each.what,
                "remedy": RULES[each.code].remedy,
            }
            for each in report.findings
        ],
    }


def _show(report: ScanReport, written: bool, every: bool) -> None:
    if not report.uses:
        output.write_line(f"nothing of scrapy-redis found in {output.counted(report.files, 'file')}")
        return
    rows = [
        *report.of(FindingVerdict.DECIDE),
        *report.of(FindingVerdict.DIFFERS),
        *(report.of(FindingVerdict.MOVES) if every else ()),
    ]
    if rows:
        output.write_table(("where", "verdict", "what", "what to do or know"), [_row(each) for each in rows])
    counts = Counter(RULES[each.code].verdict for each in report.findings)
    places = sum(map(len, report.edits.values()))
    output.write_line(
        f"{output.counted(report.files, 'file')} read: {output.counted(counts[FindingVerdict.DECIDE], 'place')} to decide, "
        f"{_that(counts[FindingVerdict.DIFFERS], 'differs', 'differ')}, {_that(counts[FindingVerdict.MOVES], 'moves as it is', 'move as they are')}"
    )
    if not places:
        output.write_line("nothing to rewrite")
    else:
        verb = "rewrote" if written else "--write rewrites"
        output.write_line(f"{verb} {output.counted(places, 'place')} in {output.counted(len(report.edits), 'file')}")


def _that(number: int, one: str, many: str) -> str:
    return f"{number:,} that {one if number == 1 else many}"


def _row(each: Finding) -> tuple[str, str, str, str]:
    rule = RULES[each.code]
    return each.where, rule.verdict.value, each.what, rule.remedy
