"""What the crawl keeps of alerts for people: the file of rules, and silences. Every planner reads the same."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import NamedTuple

from gossamer.errors import SiteError
from gossamer.frontier.contract import Frontier
from gossamer.planner.alerts.file import load_rules
from gossamer.planner.alerts.rules import DEFAULT, RuleSet

logger = logging.getLogger(__name__)

ALERT, RULES, SILENCES = "alert", "rules", "silences"
"""The kind of these documents, and their names."""


class Silence(NamedTuple):
    """No message says that these alerts fire, until a server time. `rule` and `subject` are names in which `*` stands for anything."""

    rule: str
    subject: str
    until: float
    who: str = ""

    def covers(self, rule: str, subject: str, now: float) -> bool:
        return now < self.until and fnmatchcase(rule, self.rule) and fnmatchcase(subject, self.subject)


class AlertDocuments:
    """The rules and silences in force. `pushed`: the crawl has rules of its own. A file that cannot be read counts as it was."""

    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier
        self._versions: dict[str, int] = {}
        self._epoch = ""
        self.rules: RuleSet = DEFAULT
        self.silences: tuple[Silence, ...] = ()
        self.pushed = False

    def update(self, epoch: str = "") -> None:
        """Read what has changed; in another `epoch` of the server everything, since it may have other texts under the same versions."""
        doubted = epoch != self._epoch
        found = {info.name: info.version for info in self._frontier.documents(ALERT) if not info.deleted}
        if doubted or self._versions.get(RULES) != found.get(RULES):
            self.pushed = RULES in found
            self._read_rules()
        if doubted or self._versions.get(SILENCES) != found.get(SILENCES):
            self.silences = silences_of(self._frontier) if SILENCES in found else ()
        # Only now: what could not be read since the server was away is read with the next call.
        self._versions, self._epoch = found, epoch

    def _read_rules(self) -> None:
        if not self.pushed:
            self.rules = DEFAULT
            return
        try:
            self.rules = load_rules(self._frontier.document(ALERT, RULES).text, f"{RULES}.yaml")
        except SiteError as error:
            logger.error("The alert rules of the crawl cannot be used; those before count: %s", error)


def silences_of(frontier: Frontier) -> tuple[Silence, ...]:
    """The silences that the crawl keeps, also those that are over."""
    if SILENCES not in [info.name for info in frontier.documents(ALERT) if not info.deleted]:
        return ()
    try:
        rows = json.loads(frontier.document(ALERT, SILENCES).text)
        return tuple(Silence(str(r["rule"]), str(r["subject"]), float(r["until"]), str(r["who"])) for r in rows)
    except (ValueError, KeyError, TypeError):
        logger.error(
            "The silences of the crawl cannot be read, and none counts. Set them again: gossamer alert silence"
        )
        return ()


def silences_text(silences: Iterable[Silence]) -> str:
    return json.dumps([silence._asdict() for silence in silences], indent=1)
