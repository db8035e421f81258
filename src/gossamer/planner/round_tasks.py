"""Tasks that a round begins with, read from a file: each is pushed once per round, whichever planner does it."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from hashlib import blake2b

from gossamer.errors import SiteError
from gossamer.frontier.client import FunctionClient
from gossamer.frontier.producer import Producer, batches, encoded
from gossamer.sites.file.grant import Grant
from gossamer.sites.format.spider import SpiderTasks

KNOWN = 86400.0
"""Seconds for which a task of a round is known: a planner that takes over goes on with what another has begun."""


class RoundTasks:
    """`grant` says which files may be read: whoever can write to the server can name one."""

    def __init__(self, function_client: FunctionClient, grant: Grant) -> None:
        self._function_client, self._grant = function_client, grant

    def push(self, group: str, rule: SpiderTasks, number: int, between: Callable[[], object]) -> int:
        """Push the tasks of round `number`; how many were new. `between` is called between two batches. SiteError if the file cannot be
        read."""

        def key_of(task: bytes) -> str:
            return f"{group}:{number}:{blake2b(task, digest_size=16).hexdigest()}"

        producer = Producer(self._function_client, rule.key, unique=KNOWN, key_of=key_of)
        new = 0
        for batch in batches(map(encoded, self._rows(rule.csv))):
            new += producer.push(batch).new
            between()
        return new

    def _rows(self, path: str) -> Iterator[dict[str, str]]:
        if not self._grant.reaches(path):
            raise SiteError(
                f"{path}: this planner may not read it. Put it below GOSSAMER_DATA_DIR, or allow its folder with GOSSAMER_SITE_PATHS."
            )
        try:
            with open(path, encoding="utf-8-sig", newline="") as file:
                reader = csv.DictReader(file, strict=True)
                for row in reader:
                    if None in row or None in row.values():
                        raise SiteError(f"{path}:{reader.line_num}: this line has not as many cells as the first one.")
                    yield row
        except (OSError, csv.Error, UnicodeError) as error:
            raise SiteError(f"{path}: {error}. Its tasks cannot be read.") from None
