"""The server-side library: put together from the Lua files, versioned, loaded where it is missing.

The schema number is part of every function's name, so that workers of an older and a newer schema can run side by side.
Inside one schema the functions of the newest text serve all workers. A text's place in the order is its revision, then its digest;
both are in the library's name, which is what keeps an older text from taking the place of a newer one (see `install`).

`server/lua/revision.txt` records the revision and the digest of the text that has it; `make docs` writes the next one when the text has
changed. Until then a changed text counts as newer than the recorded one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import NamedTuple

from gossamer.frontier.server import keys, layout
from gossamer.frontier.server.info import Library

SCHEMA = 1
LIBRARY = f"gossamer_{SCHEMA}"
"""What the names of the library and of every function begin with."""
PATTERN = LIBRARY + "*"
"""Finds the library, whatever its revision (and those of schemas whose number begins alike)."""
RECORD = "revision.txt"
INSTALL_TRIES = 10

FOLDERS = (
    "parts/queue", "parts/pages", "parts/state", "verbs/work", "verbs/task", "verbs/control", "verbs/read", "verbs/round", "verbs/plan",
    "verbs/snapshot",
)  # fmt: skip
"""Where the files are. Each has a name of its own, whatever its folder."""
SHARED = (
    "prelude", "leader", "stream", "lane", "daily", "field_coverage", "pool", "host", "queue", "changed", "seen", "page_record", "page_due", "page_records", "unseen", "lists", "lease", "take", "suspect", "enqueue", "outbox", "task",
    "round", "worker", "document_store",
)  # fmt: skip
VERBS = (
    "exchange", "add", "renew", "release", "permit", "open", "define", "pause", "host_policy", "block", "host_show", "start",
    "new_round", "purge", "drop", "drop_group", "dropped", "forget", "mark", "dead", "items", "lease_tasks", "settle_tasks", "push_tasks", "end_tasks", "counts",
    "group_open", "seen_count", "workers", "gone", "owed", "append", "push", "scan", "seen_scan", "restore", "restore_tasks", "clock", "end_round", "round_note",
    "rounds", "round_counts", "daily_counts", "coverage", "put_document", "document", "documents", "documents_version", "put_cookies", "cookies",
    "put_page_versions", "page_versions", "lead", "plan_state", "plan_cycles", "due_lanes", "feed", "page", "pages", "locate", "alerts", "put_alerts",
)  # fmt: skip


def function(verb: str) -> str:
    """The name under which the server knows a verb."""
    return f"{LIBRARY}_{verb}"


@cache
def source(name: str) -> str:
    """The text of one Lua file."""
    lua = resources.files(__package__) / "lua"
    places = [lua.joinpath(*folder.split("/"), f"{name}.lua") for folder in FOLDERS]
    return next(place for place in places if place.is_file()).read_text("utf-8")


DECLARED = re.compile(r"^local (?:(function) )?(\w+(?:, \w+)*)(?= *(\(|=|--|$))", re.MULTILINE)
"""A declaration that stands in no block: whether of a function, the names, and what comes after them."""
WORD = re.compile(r"\b[A-Za-z_]\w*")


@cache
def _shared_names() -> frozenset[str]:
    """What a shared file declares and another file uses. Lua allows 200 locals outside of blocks, so the rest stays in its file."""
    declared: set[str] = set()
    words: dict[str, int] = {}
    for name in (*SHARED, *VERBS):
        code = re.sub("--.*", "", source(name))
        for word in set(WORD.findall(code)):
            words[word] = words.get(word, 0) + 1
        if name in SHARED:
            declared.update(each for found in DECLARED.finditer(code) for each in found[2].split(", "))
    return frozenset(word for word in declared if words[word] > 1)


def _scoped(code: str) -> str:
    """A shared file as a block of its own, with the names that others use declared before it."""
    shared: list[str] = []

    def declare(found: re.Match[str]) -> str:
        names = found[2].split(", ")
        used = [name for name in names if name in _shared_names()]
        if not used:
            return found[0]
        if used != names:
            raise ValueError(f"'{found[0]}': declare what other files use apart from what they do not.")
        shared.extend(names)
        return f"{found[1]} {found[2]}" if found[1] else found[2] if found[3] == "=" else ""

    block = DECLARED.sub(declare, code)
    return "".join(f"local {name}\n" for name in dict.fromkeys(shared)) + f"do\n{block}end\n"


class Revision(NamedTuple):
    """A text's place in the order of texts: the larger is the newer. (0, ""): not known."""

    number: int
    digest: str


def recorded() -> Revision:
    """The revision that was recorded last, and the digest of its text."""
    number, digest = (resources.files(__package__) / "lua" / RECORD).read_text("utf-8").split()
    return Revision(int(number), digest)


REVISION = recorded().number


@cache
def library() -> str:
    """The whole library."""
    return changed_library({})


def changed_library(sources: Mapping[str, str], revision: int | None = None) -> str:
    """As `library`, for tests: `sources` replaces files by name, and `revision` its number."""
    parts = [f"local LIBRARY = '{LIBRARY}'\n{keys.lua_table()}"]
    parts += [_scoped(sources.get(name) or source(name)) for name in SHARED]
    parts += [f"do\n{sources.get(name) or source(name)}end\n" for name in VERBS]
    body = layout.numbered("\n".join(parts))
    digest = hashlib.sha256(body.encode()).hexdigest()[:16]
    number = REVISION + (digest != recorded().digest) if revision is None else revision
    return f"#!lua name={LIBRARY}_r{number}_{digest}\n{body}"


def revision_of(name: str) -> Revision | None:
    """Place in the order of a library by its name; None for a library of another schema."""
    if name == LIBRARY:
        return Revision(0, "")  # before names had revisions
    match = re.fullmatch(rf"{LIBRARY}_r(\d+)_([0-9a-f]+)", name)
    return Revision(int(match[1]), match[2]) if match else None


def name_of(code: str) -> str:
    """The name that a library's text gives itself; "" if it gives none."""
    match = re.match(r"#!lua name=(\w+)\n", code)
    return match[1] if match else ""


def newest(found: Mapping[str, Sequence[Library]]) -> str:
    """The name of the newest library of this schema that any node has; "" if none has one."""
    names = [each.name for libraries in found.values() for each in libraries if revision_of(each.name)]
    return max(names, key=lambda name: revision_of(name) or Revision(0, ""), default="")


def outdated(found: Mapping[str, Sequence[Library]], wanted: str) -> dict[str, list[str]]:
    """Nodes that lack the library of this name, each with those of this schema that must leave for it."""
    return {
        node: [each.name for each in libraries if revision_of(each.name)]
        for node, libraries in found.items()
        if wanted not in [each.name for each in libraries]
    }
