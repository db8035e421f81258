"""A whole project: its files in, what was found and what would be changed out. Nothing is read or written here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from gossamer.migrate.scrapy_redis import classes as derived_from
from gossamer.migrate.scrapy_redis import keys, settings
from gossamer.migrate.scrapy_redis.finding import Edit, Finding, FindingVerdict
from gossamer.migrate.scrapy_redis.meta import MetaReader
from gossamer.migrate.scrapy_redis.names import PACKAGE, Classes, Module
from gossamer.migrate.scrapy_redis.rewrite import PATH, Rewriter
from gossamer.migrate.scrapy_redis.rules import RULES
from gossamer.migrate.scrapy_redis.source_text import SourceText, UnreadableSource

_NAMED = re.compile(rf"\b{PACKAGE}")
_REQUIRED = re.compile(r"(?i)(?<![\w/.-])scrapy[-_]redis(-\w+)*(?![\w/.-])")
_MANIFEST = re.compile(
    r"(?i)(?:.*/)?(requirements/.*\.(?:txt|in)|[\w.-]*requirements[\w.-]*\.(?:txt|in)|setup\.cfg|pyproject\.toml|pipfile|environment\.ya?ml)"
)
_INSTALLING = re.compile(r"(?i)\b(?:pip3?|pipenv|poetry|uv|conda|mamba)\b.*\b(?:install|add)\b")


@dataclass
class ScanReport:
    """What a project holds. `findings` are in the order of files and lines; `files` counts those that were read."""

    findings: list[Finding] = field(default_factory=list)
    edits: dict[str, list[Edit]] = field(default_factory=dict)
    rewritten: dict[str, bytes] = field(default_factory=dict)
    files: int = 0

    def of(self, verdict: FindingVerdict) -> list[Finding]:
        return [each for each in self.findings if RULES[each.code].verdict is verdict]

    @property
    def uses(self) -> bool:
        """Whether anything of scrapy-redis was found at all."""
        return bool(self.findings)


def scan(files: Mapping[str, bytes]) -> ScanReport:
    """The report of files by their paths inside the project, `/` between the parts."""
    report = ScanReport(files=len(files))
    found: set[Finding] = set()
    modules: list[tuple[Module, SourceText]] = []
    for path, data in sorted(files.items()):
        if not path.endswith((".py", ".pyw")):
            found.update(_in_other_file(path, data))
        elif copy := _copy(path):
            found.add(Finding(copy, 0, "copied-package", f"a copy of {PACKAGE} is part of the project"))
        else:
            try:
                source = SourceText(data)
                modules.append((Module.of(path, source.parse()), source))
            except UnreadableSource as error:
                found.update(_unreadable(path, data, error))
    found.update(_modules(modules, report))
    report.findings = sorted(found)
    return report


def _modules(modules: list[tuple[Module, SourceText]], report: ScanReport) -> Iterable[Finding]:
    found: set[Finding] = set()
    for module, source in modules:
        rewriter = Rewriter(module, source)
        rewriter.run()
        found |= rewriter.findings
        if rewriter.edits:
            report.edits[module.path] = sorted(rewriter.edits)
            report.rewritten[module.path] = source.edited(rewriter.edits)
    classes = Classes([module for module, _ in modules])
    given = [each for module, _ in modules for each in settings.given(module)]
    for module, _ in modules:
        found.update(derived_from.uses(module))
        found.update(keys.in_code(module))
    if not _is_used(found, modules):
        return found
    # These stand for themselves only in a project that is known to use scrapy-redis.
    for module, _ in modules:
        found.update(derived_from.derived(module, classes))
        found.update(MetaReader(module, classes).findings())
        found.update(settings.dynamic(module))
    if settings.schedules_otherwise(given, classes):
        found = {
            replace(each, code="unused-scheduler") if each.code == "scheduler-subclass" else each for each in found
        }
    found.update(settings.findings(given, classes))
    found.update(settings.missing_server(given, min(found, default=None)))
    return found


def _is_used(found: set[Finding], modules: list[tuple[Module, SourceText]]) -> bool:
    return any(each.code in ("import", "path") or each.code.startswith("package-") for each in found) or any(
        path.startswith(PACKAGE + ".") for module, _ in modules for path in module.names.values()
    )


def _copy(path: str) -> str:
    """The folder of a copy of the package that this file is part of; "" if it is part of none."""
    parts = path.split("/")[:-1]
    return "/".join(parts[: parts.index(PACKAGE) + 1]) if PACKAGE in parts else ""


def _unreadable(path: str, data: bytes, error: UnreadableSource) -> Iterable[Finding]:
    code = "python-2" if error.python_2 else "unreadable"
    yield Finding(path, error.line, code, f"cannot be parsed: {error}")
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        if _NAMED.search(line):
            yield Finding(path, number, "unwritten", line.strip()[:100])


def _in_other_file(path: str, data: bytes) -> Iterator[Finding]:
    """What a file that is not Python requires, runs, and does to the keys."""
    manifest = _MANIFEST.fullmatch(path)
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        if line.lstrip().startswith("#"):
            continue
        if (manifest or _INSTALLING.search(line)) and _REQUIRED.search(line):
            yield Finding(path, number, "requirement", line.strip()[:100])
        if PATH.search(line):
            yield Finding(path, number, "text-path", line.strip()[:100])
        yield from keys.in_text(path, number, line)
