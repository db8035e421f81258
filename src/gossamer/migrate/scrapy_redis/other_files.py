"""Files of a project that are not Python: what they require, run, and do to the keys. They are read, never written."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gossamer.migrate.scrapy_redis import keys
from gossamer.migrate.scrapy_redis.finding import Finding
from gossamer.migrate.scrapy_redis.rewrite import PATH

_REQUIRED = re.compile(r"(?i)(?<![\w/.-])scrapy[-_]redis(-\w+)*(?![\w/.-])")
_MANIFEST = re.compile(
    r"(?i)(?:.*/)?(requirements/.*\.(?:txt|in)|[\w.-]*requirements[\w.-]*\.(?:txt|in)|setup\.cfg|pyproject\.toml|pipfile|environment\.ya?ml)"
)
_INSTALLING = re.compile(r"(?i)\b(?:pip3?|pipenv|poetry|uv|conda|mamba)\b.*\b(?:install|add)\b")


def findings(path: str, data: bytes) -> Iterator[Finding]:
    manifest = _MANIFEST.fullmatch(path)
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        if line.lstrip().startswith("#"):
            continue
        if (manifest or _INSTALLING.search(line)) and _REQUIRED.search(line):
            yield Finding(path, number, "requirement", line.strip()[:100])
        if PATH.search(line):
            yield Finding(path, number, "text-path", line.strip()[:100])
        yield from keys.in_text(path, number, line)
