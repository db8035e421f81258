"""The server-side library: put together from the Lua files, versioned, loaded where it is missing.

The schema number is part of the library's and every function's name, so that workers of an older and a newer
schema can run side by side; the revision grows with every change of the code inside one schema, and a library is never
replaced by an older revision.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from importlib import resources

from gossamer.frontier import keys

SCHEMA = 1
REVISION = 2
LIBRARY = f"gossamer_{SCHEMA}"

SHARED = ("prelude", "lane", "host", "queue", "seen", "lists", "lease", "adding", "task", "round", "shelf")
VERBS = (
    "exchange", "add", "renew", "release", "permit", "open", "define", "pause", "host_policy", "block", "host_show", "start",
    "new_round", "purge", "drop", "drop_group", "forget", "mark", "dead", "items", "lease_tasks", "settle_tasks", "counts",
    "group_open", "seen_count", "workers", "push", "scan", "seen_scan", "restore", "restore_tasks", "clock", "end_round", "round_note",
    "rounds", "round_counts", "put_document", "document", "documents", "documents_version",
)  # fmt: skip


def function(verb: str) -> str:
    """The name under which the server knows a verb."""
    return f"{LIBRARY}_{verb}"


def source(name: str) -> str:
    return resources.files("gossamer.frontier").joinpath("lua", f"{name}.lua").read_text("utf-8")


def library(sources: dict[str, str] | None = None) -> str:
    """The whole library. `sources` replaces files by name (mutation tests use it)."""
    sources = sources or {}
    head = f"local LIBRARY = '{LIBRARY}'\n{keys.lua_table()}"
    parts = [head]
    parts += [sources.get(name) or source(name) for name in SHARED]
    parts += [f"do\n{sources.get(name) or source(name)}end\n" for name in VERBS]
    body = "\n".join(parts)
    digest = hashlib.sha256(body.encode()).hexdigest()[:16]
    return f"#!lua name={LIBRARY}\n-- revision {REVISION} {digest}\n{body}"


def revision_of(code: str) -> tuple[int, str]:
    """Revision and digest of a loaded library; (0, "") if it is not ours."""
    match = re.search(r"^-- revision (\d+) ([0-9a-f]+)$", code, re.MULTILINE)
    return (int(match[1]), match[2]) if match else (0, "")


def newest(loaded: Iterable[str | None], code: str) -> str:
    """The newest of what the nodes of a server have and `code`: what all of them should have."""
    return max((known for known in (code, *loaded) if known), key=lambda known: revision_of(known)[0])


def must_replace(loaded: str | None, code: str) -> bool:
    """Whether `code` should take the place of what the server has (None: nothing)."""
    if loaded is None:
        return True
    theirs, ours = revision_of(loaded), revision_of(code)
    return theirs[0] < ours[0] or (theirs[0] == ours[0] and theirs[1] != ours[1])
