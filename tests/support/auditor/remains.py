"""What is left of a group that was dropped: nothing may be, or the next group of that name would meet it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.auditor.state import look

from gossamer.frontier.server import keys
from gossamer.frontier.valkey import ValkeyFrontier

KEPT = ("documents", "document", "workers")
"""What names groups and is not theirs: files of sites, and workers that served them."""


def remains(frontier: ValkeyFrontier, group: str) -> list[str]:
    """Every key, field, member and value on any partition that names the group. Its name must not occur in another's."""
    wanted = group.encode()
    kept = tuple(keys.SUFFIXES[name] for name in KEPT)
    found = []
    for partition in range(frontier.partitions):
        for suffix, value in look(frontier, partition).raw.items():
            if suffix.startswith(kept):
                continue
            if group in suffix:
                found.append(f"{partition}{suffix}")
            found += [f"{partition}{suffix}: {one!r}" for one in _texts(value) if wanted in one]
    return found


def _texts(value: Any) -> Iterator[bytes]:
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, dict):
        for field, one in value.items():
            yield from _texts(field)
            yield from _texts(one)
    elif isinstance(value, list | tuple | set):
        for one in value:
            yield from _texts(one)
