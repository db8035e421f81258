"""The fields of NEOCrawler's rules: which there are, what is said of those without a counterpart, and their values. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

FIELDS: Mapping[str, str] = {
    "domain": "", "alias": "", "url_pattern": "", "id_parameter": "", "encoding": "", "save_page": "", "format": "",
    "jshandle": "", "extract_rule": "", "cookie": "", "drill_rules": "", "validation_keywords": "", "priority": "",
    "weight": "", "schedule_interval": "", "active": "", "seed": "", "schedule_rule": "", "use_proxy": "",
    "type": "changed: what a layer is, its rules say: with follow it is a branch, with fields a node, and it may be both",
    "drill_relation": "left out: the way to a page is kept as its parent's URL (store.LAYER.add: parent); a text is passed on by "
    "a field and pass in follow",
    "inject_jquery": "left out: a page that needs it is made by a browser (request.render) and has what it loads itself",
    "load_img": "left out: scrapy-playwright decides which requests a browser makes (PLAYWRIGHT_ABORT_REQUEST)",
    "script": "left out: JavaScript in the page is a page method of scrapy-playwright; on what was downloaded, a hook",
    "navigate_rule": "left out: clicks are page methods of scrapy-playwright; links to the next page are follow with pages",
    "stoppage": "left out: follow with pages says how many page turns there are, limits.depth how many steps",
    "first_schedule": "left out: when the old scheduler began, which is not a rule; rounds begin with the first one",
    "last_schedule": "left out: when the old scheduler ran last, which is not a rule",
    "id": "left out: the key under which the old rule lies",
}  # fmt: skip
"""Every field of a rule that is known, and what is said of one that has no counterpart."""
USUAL: Mapping[str, Any] = {"stoppage": -1, "type": None}
"""Fields without a counterpart of which this value, too, says nothing."""
MOST = 120


class FieldNote(NamedTuple):
    """What became of one field of a rule, where it is not simply there."""

    rule: str
    field: str
    value: str
    became: str


def shown(value: Any) -> str:
    """A value in one line, and not too long."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(text.split())
    return text if len(text) <= MOST else f"{text[:MOST]}…"


def comment(text: str) -> str:
    """A text as lines of a comment."""
    lines = ("".join(sign if sign.isprintable() else "?" for sign in line) for line in text.splitlines())
    return "".join(f"# {line}".rstrip() + "\n" for line in lines)


def listed(value: Any, texts: bool = True) -> list[Any]:
    """A list where one thing may stand for it, or nothing."""
    if value is None or value == "" or value is False:
        return []
    items = value if isinstance(value, list) else [value]
    return [str(item) for item in items if item not in (None, "")] if texts else items


def duration(seconds: int) -> str:
    """Seconds as site files write them."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
