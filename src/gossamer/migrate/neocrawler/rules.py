"""NEOCrawler's rules as people have them: what its dump tool wrote, a JSON object by key, or a list. Strings may hold JSON, as
in the hashes of its server. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from gossamer.errors import BadRules
from gossamer.migrate.neocrawler.literal import read_literal

Rule = dict[str, Any]

TEXTS = frozenset({"domain", "alias", "url_pattern", "encoding", "type", "format", "schedule_rule", "id"})
"""Fields that are texts whatever they look like."""


_OBJECT = re.compile(r"^[^\S\n]*(?:(?:module\.)?exports\s*=\s*)?(?P<rule>\{)", re.MULTILINE)
"""Where an object begins: at the beginning of a line, or where a module exports it."""
_KEY = re.compile(r"^[\s/]*(driller:\S+)\s*$", re.MULTILINE)


def rules_of(text: str, name: str = "the file") -> list[Rule]:
    """Every rule in a text, with its fields in their types. BadRules says what cannot be read."""
    try:
        data = json.loads(text)
    except ValueError as error:
        found = list(_scattered(text))
        if not found:
            raise BadRules(f"{name} holds no rules: it is not JSON ({error}), and no dump of NEOCrawler.") from None
    else:
        found = list(_within(data, "", ""))
    rules = []
    for place, (rule, domain, alias) in enumerate(found, 1):
        made = {str(key): value_of(str(key), value) for key, value in rule.items()}
        for key, value in (("domain", domain), ("alias", alias)):
            if not made.get(key):
                made[key] = value
        if lacking := [key for key in ("domain", "alias") if not made[key]]:
            raise BadRules(f"{name}: rule {place} has no {' and no '.join(lacking)}; its purpose is unknown.")
        rules.append(made)
    if not rules:
        raise BadRules(f"{name} holds no rules. A rule is a JSON object with domain, alias and url_pattern.")
    return rules


def _scattered(text: str) -> Iterator[tuple[Rule, str, str]]:
    """Rules among other lines: those of NEOCrawler's dump tool (a key, then what is there, as JSON), of dumps that people have kept
    and commented, of JavaScript modules that export one, and of documentation that prints one."""
    decoder, place = json.JSONDecoder(), 0
    while (begin := _OBJECT.search(text, place)) is not None:
        key = next(reversed(_KEY.findall(text, place, begin.start("rule"))), "")
        try:
            data, place = decoder.raw_decode(text, begin.start("rule"))
        except ValueError:
            try:
                data, place = read_literal(text, begin.start("rule"))
            except ValueError as error:
                if not key and not place and "url_pattern" not in text:
                    return
                line = text.count("\n", 0, begin.start("rule")) + 1
                raise BadRules(f"What follows {key or f'line {line}'} cannot be read: {error}.") from None
        yield from _within({key: data} if key else data, "", "")


def _within(data: Any, domain: str, alias: str) -> Iterator[tuple[Rule, str, str]]:
    """Rules, with the domain and alias that their keys name."""
    if isinstance(data, str):
        try:
            data = json.loads(data)
        except ValueError:
            raise BadRules(f"{data[:100]!r} stands where a rule should be.") from None
    if isinstance(data, list):
        for one in data:
            yield from _within(one, domain, alias)
    elif not isinstance(data, Mapping):
        raise BadRules(f"{str(data)[:100]} stands where a rule should be.")
    elif "url_pattern" in data or "alias" in data:
        yield dict(data), domain, alias
    else:
        for key, value in data.items():
            parts = str(key).removeprefix("urllib:").split(":")
            if parts[0] == "driller" and len(parts) >= 3:
                yield from _within(value, parts[1], ":".join(parts[2:]))
            else:  # By domain, and below that by alias.
                yield from _within(value, domain or str(key), str(key) if domain else "")


def value_of(name: str, value: Any) -> Any:
    """A value in its type; a text that holds one is read."""
    if name in TEXTS or not isinstance(value, str):
        return _deep(value) if name == "extract_rule" else value
    text = value.strip()
    if text in ("true", "false"):
        return text == "true"
    if text in ("", "undefined", "null"):
        return None
    if re.fullmatch(r"-?[0-9]{1,18}", text):
        return int(text)
    if text[0] in "[{":
        try:
            value = json.loads(text)
        except ValueError:
            return value
        return _deep(value) if name == "extract_rule" else value
    return value


def _deep(value: Any) -> Any:
    """The mappings and lists of an extraction rule, some of which may be texts; expressions stay what they are."""
    if isinstance(value, str) and value.strip()[:1] in ("{", "["):
        try:
            value = json.loads(value)
        except ValueError:
            return value
    if isinstance(value, Mapping):
        return {str(key): one if key == "expression" else _deep(one) for key, one in value.items()}
    return [_deep(one) for one in value] if isinstance(value, list) else value
