"""`gossamer import neocrawler`: NEOCrawler's rules as site files, and the state of its URLs into a crawl."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from gossamer.cli import exit_codes, options, output
from gossamer.cli.options import argument, flag, option
from gossamer.cli.transfer.neocrawler_state import instance_rules, move_state
from gossamer.errors import BadRules, FilesExist
from gossamer.migrate.neocrawler.convert import ConvertedSite, convert
from gossamer.migrate.neocrawler.fields import FieldNote
from gossamer.migrate.neocrawler.rules import rules_of
from gossamer.migrate.neocrawler.state.instance import names_instance
from gossamer.sites.file.problems import errors_of

SUFFIXES = (".js", ".json", ".txt")


def neocrawler(
    rules: Annotated[
        str,
        argument(
            "RULES",
            "A file of rules: JSON, or what rule-dump.js wrote; or a folder of them; - is standard input. Or an instance: its settings.json, redis://HOST:PORT or ssdb://HOST:PORT.",
        ),
    ],
    state: Annotated[
        bool, flag("--state", "Move what the instance knows of its URLs into the crawl, whose site files are pushed.")
    ] = False,
    folder: Annotated[Path, option("-o --output", "DIR", "Where the site files go; made if it is missing.")] = Path(),
    force: Annotated[bool, flag("--force", "Overwrite existing files.")] = False,
    dry_run: Annotated[bool, flag("--dry-run", "Only report what has no counterpart; change nothing.")] = False,
    again: Annotated[
        bool, flag("--again", "With --state: also if the crawl has another state of this instance already.")
    ] = False,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Turn NEOCrawler's rules into site files.

    One for each domain; each rule becomes a layer. Links lead from one domain to the others, so give all rules of an
    instance at once. The files are checked as `gossamer site check` does; what could not be
    used is left out. Everything that is left out, or means something else now, is reported, field by field, and stands as a
    comment in the file. Needs no server of its own.

    With --state, the URLs of an instance go to the layers that their rules became: what waits is queued, what was
    finished becomes a page record or is remembered as seen, with its times, and what failed is a dead letter. The
    instance is only read: stop it first, so that nothing changes meanwhile. URLs without a place are listed with the
    reason; the exit code is 1 then. If it is interrupted, run it again.
    """
    if state:
        if not names_instance(rules):
            raise typer.BadParameter(
                f"--state needs an instance instead of {rules}: its settings.json, redis://HOST:PORT or ssdb://HOST:PORT"
            )
        move_state(rules, where, dry_run, again, json)
        return
    if names_instance(rules):
        files = convert(instance_rules(rules, where.settings()))
    else:
        files = convert([rule for text, name in _texts(rules) for rule in rules_of(text, name)])
    paths = {one.name: folder / f"{one.name}.yaml" for one in files}
    if not dry_run:
        there = [path for path in paths.values() if path.exists()]
        if there and not force:
            raise FilesExist(
                f"{there[0]} is there already. Choose another folder with -o, or write over it with --force."
            )
        folder.mkdir(parents=True, exist_ok=True)
        for one in files:
            paths[one.name].write_text(one.text, encoding="utf-8")
    if json:
        output.write_json(
            [
                {
                    "file": None if dry_run else str(paths[one.name]),
                    "site": one.name,
                    "layers": list(one.layers),
                    "notes": [note._asdict() for note in one.notes],
                    "problems": [problem._asdict() for problem in one.problems],
                }
                for one in files
            ]
        )
    else:
        _tell(files, paths, dry_run)
    if any(errors_of(one.problems) for one in files):
        raise typer.Exit(exit_codes.FAILED)


def _texts(rules: str) -> list[tuple[str, str]]:
    """The texts of a file, or of all files of a folder that have rules, each with its name."""
    if rules == "-" or not Path(rules).is_dir():
        return [_read(rules)]
    files = [path for path in sorted(Path(rules).iterdir()) if path.suffix in SUFFIXES]
    if found := [read for path in files if "url_pattern" in (read := _read(str(path)))[0]]:
        return found
    raise BadRules(f"{rules} holds no rules: no file in it ({', '.join(SUFFIXES)}) has a url_pattern.")


def _read(rules: str) -> tuple[str, str]:
    data = sys.stdin.buffer.read() if rules == "-" else Path(rules).read_bytes()
    name = "standard input" if rules == "-" else rules
    try:
        return data.decode("utf-8-sig"), name
    except UnicodeDecodeError as error:
        raise BadRules(f"{name} is no text in UTF-8: {error}.") from None


def _tell(files: Sequence[ConvertedSite], paths: dict[str, Path], dry_run: bool) -> None:
    rows = [(one.name, *row) for one in files for row in _together(one.notes)]
    if rows:
        output.write_table(("site", "rules", "field", "value", "what became of it"), rows)
        output.write_line("")
    for one in files:
        where = "" if dry_run else f"{paths[one.name]}: "
        layers = f"{len(one.layers)} layer{'' if len(one.layers) == 1 else 's'}"
        output.write_line(f"{where}site {one.name}, {layers}: {', '.join(one.layers)}")
        for problem in one.problems:
            output.write_line(str(problem))
    lost = sum(note.became.startswith("left out") for one in files for note in one.notes)
    changed = sum(len(one.notes) for one in files) - lost
    left = output.counted(lost, "field")
    output.write_line(f"{output.counted(len(files), 'site file')}; {left} left out, {changed:,} changed")


def _together(notes: Sequence[FieldNote]) -> list[tuple[str, str, str, str]]:
    """One row for the same finding about a field in many rules, with the first value."""
    found: dict[tuple[str, str], list[FieldNote]] = {}
    for note in notes:
        found.setdefault((note.field, note.became), []).append(note)
    return [
        (" ".join(dict.fromkeys(note.rule for note in same)), field, same[0].value, became)
        for (field, became), same in found.items()
    ]
