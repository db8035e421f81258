"""What `gossamer site` and `gossamer spider` do with the versions of their files: show, history, diff, rollback."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Protocol

from gossamer.cli import options, output
from gossamer.cli.options import argument, option
from gossamer.cli.timestamp import moment
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import Document, DocumentInfo
from gossamer.registry import PushResult

Name = Annotated[str, argument("NAME", "The file's name without .yaml, or that of a site or spider in it.")]
Note = Annotated[str, option("--note", "TEXT", "Why; shown in the history.")]
Who = Annotated[str | None, option("--who", "NAME", "Who changes it, instead of user@host.")]
Expect = Annotated[
    int | None,
    option("--expect", "N", "Push only if the crawl's file has version N (0: none): the one that you changed.", min=0),
]


class VersionedFiles(Protocol):
    """Files of one kind that a crawl keeps. A `name` is that of a file, or of a site or spider in it."""

    def show(self, name: str, version: int | None = None) -> Document: ...
    def history(self, name: str) -> list[DocumentInfo]: ...
    def diff(self, name: str, old: int | None = None, new: int | None = None) -> str: ...
    def rollback(self, name: str, version: int, *, who: str, note: str = "") -> PushResult: ...


def add_version_commands(app: options.Noun, kind: str, files_of: Callable[[ValkeyFrontier], VersionedFiles]) -> None:
    """Give a noun, which is also the kind of its files, the commands about their versions."""

    @app.command()
    def show(
        name: Name,
        version: Annotated[int | None, option("--version", "N", "Another version than the newest.", min=1)] = None,
        json: options.Json = False,
        where: options.Where = options.HERE,
    ) -> None:
        """Write a file to standard output, as it was pushed."""
        with where.find() as frontier:
            found = files_of(frontier).show(name, version)
        if json:
            output.write_json(found._asdict())
            return
        if sys.stdout.isatty():
            for line in found.text.splitlines():
                output.write_line(line)
            return
        sys.stdout.flush()
        # Its own bytes: what is written to a file is what was pushed.
        sys.stdout.buffer.write(found.text.encode())
        sys.stdout.buffer.flush()

    @app.command()
    def history(name: Name, json: options.Json = False, where: options.Where = options.HERE) -> None:
        """List the versions of a file that are kept, newest first."""
        with where.find() as frontier:
            versions = files_of(frontier).history(name)
        if json:
            output.write_json([x._asdict() for x in versions])
            return
        output.write_table(
            ("version", "changed", "who", "bytes", "note"),
            [(x.version, moment(x.at), x.who, "removed" if x.deleted else f"{x.bytes:,}", x.note) for x in versions],
        )

    @app.command()
    def diff(
        name: Name,
        old: Annotated[int | None, argument("A", "The older version; without it, the one before.", min=1)] = None,
        new: Annotated[int | None, argument("B", "The newer version; without it, the present.", min=1)] = None,
        where: options.Where = options.HERE,
    ) -> None:
        """Show what changed between two versions, as a unified diff."""
        with where.find() as frontier:
            said = files_of(frontier).diff(name, old, new)
        for line in said.splitlines():
            output.write_line(line)

    @app.command()
    def rollback(
        name: Name,
        version: Annotated[int, argument("VERSION", "The version to restore.", min=1)],
        note: Note = "",
        who: Who = None,
        json: options.Json = False,
        where: options.Where = options.HERE,
    ) -> None:
        """Make an older version the newest; also of a removed file."""
        with where.find() as frontier:
            pushed = files_of(frontier).rollback(name, version, who=where.who(who), note=note)
            told = f"to version {version}: {described(pushed, note)}"
            where.log(frontier, "rollback", f"{kind} {pushed.name}", told, who)
        tell([pushed], json, kind)


def tell(pushed: Sequence[PushResult], json: bool, kind: str) -> None:
    """Say which versions there are now, and of which sites or spiders."""
    if json:
        output.write_json([
            {"name": x.name, "version": x.version, "changed": x.changed, f"{kind}s": list(x.groups), "former": x.former and x.former._asdict()}
            for x in pushed
        ])  # fmt: skip
        return
    for x in pushed:
        same = "" if x.changed else ", unchanged"
        output.write_line(f"{x.name}: version {x.version}{same}: {few(x.groups, f'{kind}s')}")


def described(pushed: PushResult, note: str) -> str:
    """A new version in the log of the crawl."""
    return f"version {pushed.version}" + (f": {note}" if note else "")


def few(names: Sequence[str], of: str = "sites") -> str:
    """Names of sites or spiders, not all of many."""
    if not names:
        return f"no {of}"
    return " ".join(names) if len(names) <= 3 else f"{len(names):,} {of}, {names[0]} to {names[-1]}"
