"""What the loader refuses of a file that was made of foreign rules, taken out of it and told. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

from gossamer.sites.file.dump import to_yaml
from gossamer.sites.file.load import survey_text
from gossamer.sites.file.problems import errors_of

AGAIN = 20
"""How often to check a file again: removing one thing may make another one useless."""

Taken = tuple[str, str, str, str]
"""Layer, path within it, what stood there, and why it is gone."""


def repaired(data: dict[str, Any], name: str) -> tuple[dict[str, Any], list[Taken]]:
    """The data without what makes errors, as far as that can be taken out, and what was."""
    taken: list[Taken] = []
    for _ in range(AGAIN):
        wrong = errors_of(survey_text(to_yaml(data), f"{name}.yaml").problems)
        cuts: dict[tuple[Any, ...], str] = {}
        for problem in wrong:
            cut = _cut(_parts(problem.path))
            if cut:
                cuts.setdefault(cut, problem.message)
        if not cuts:
            break
        # From behind, so that places in lists stay right.
        for cut in sorted(cuts, key=lambda one: [(isinstance(part, int), part) for part in one], reverse=True):
            value = _take(data, cut)
            if value is not None:
                layer, path = (str(cut[1]), cut[2:]) if cut[0] in ("layers", "store") else ("", cut)
                said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
                taken.append((layer, _named(cut[0], path), said[:120], f"left out: {cuts[cut]}"))
    return data, taken


def _named(first: Any, path: tuple[Any, ...]) -> str:
    names = {"fields": "extract_rule.rule", "follow": "drill_rules", "match": "url_pattern", "seeds": "seed"}
    names |= {"schedule": "schedule_interval", "seen": "schedule_interval"}
    words = [names.get(str(part), str(part)) for part in path if not isinstance(part, int)]
    return ".".join(words) or ("extract_rule.category" if first == "store" else str(first))


def _parts(path: str) -> list[str | int]:
    found = re.findall(r"\[(\d+)\]|([^.\[\]]+)", path)
    return [int(number) if number else word for number, word in found]


def _cut(parts: list[str | int]) -> tuple[Any, ...]:
    """The smallest thing around a place without which the rest still makes sense; nothing if there is none."""
    if not parts:
        return ()
    if parts[0] == "seeds" and len(parts) > 1:
        return tuple(parts[:2])
    if parts[0] == "store" and len(parts) > 1:
        return tuple(parts[:2])
    if parts[0] == "layers" and len(parts) > 2:
        end = 3
        if parts[2] in ("follow", "require") and len(parts) > 3:
            end = 4
        while parts[end - 1] == "fields" and len(parts) > end:
            end += 1
            if len(parts) > end and parts[end] == "fields" and len(parts) > end + 1:
                end += 1
        return tuple(parts[:end])
    return () if parts[0] in ("site", "layers") else tuple(parts[:1])


def _take(data: Any, cut: tuple[Any, ...]) -> Any:
    for part in cut[:-1]:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return None
    last = cut[-1]
    if isinstance(data, list) and isinstance(last, int) and last < len(data):
        return data.pop(last)
    if isinstance(data, dict):
        return data.pop(last, None)
    return None
