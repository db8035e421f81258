"""NEOCrawler's units of extraction (base, mode, expression, pick, index, subset) as fields of a site file. Pure."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any

UNIT = ("base", "mode", "expression", "pick", "index", "subset")
"""Every key that a unit may have."""
SUBSET = ("category", "relate", "mapping", "rule", "require")
"""Every key that the rule for nested records may have."""
INNER = [{"remove": "^<[^>]*>"}, {"remove": "</[^<>]*>$"}, "strip"]
"""The markup within an element, which NEOCrawler takes, of the element's own."""

Tell = Callable[[str, Any, str], None]
"""Called with the path of a key, its value, and what became of it."""


class Units:
    """The fields of one rule. `tell` hears of everything that has no counterpart or another meaning; `format` is the page's."""

    def __init__(self, tell: Tell, format: str) -> None:
        self._tell, self._format = tell, format
        self.names: dict[str, str] = {}
        """What the fields of the page itself are called here, by their names there."""

    def fields(self, rules: Any, path: str, nested: bool = False) -> dict[str, Any]:
        """The fields that a rule describes, by their names here."""
        found: dict[str, Any] = {}
        if not isinstance(rules, Mapping):
            if rules:
                self._tell(path, rules, "left out: it is not a mapping of fields")
            return found
        for name, unit in rules.items():
            made = self._field(unit, f"{path}.{name}", nested)
            if made is None:
                continue
            called = field_name(str(name), found)
            if called != name:
                self._tell(f"{path}.{name}", name, f"changed: the field is called {called}")
            found[called] = made
            if not nested:
                self.names[str(name)] = called
        return found

    def _field(self, unit: Any, path: str, nested: bool) -> dict[str, Any] | None:
        if not isinstance(unit, Mapping):
            self._tell(path, unit, "left out: it says nothing of where the value is")
            return None
        for key in unit:
            if key not in UNIT:
                self._tell(f"{path}.{key}", unit[key], "left out: NEOCrawler has no such key")
        mode, expression = str(unit.get("mode") or "css"), unit.get("expression")
        if expression is None or (expression == "" and mode != "value"):
            self._tell(path, unit, "left out: it has no expression")
            return None
        base = unit.get("base") or "content"
        if base not in ("content", "url"):
            self._tell(f"{path}.base", base, "changed: the page is looked at")
        if mode == "value":
            return {"value": doubled(expression) if isinstance(expression, str) else expression}
        if mode == "regex":
            return self._regex(unit, path, nested)
        if mode == "json":
            self._tell(path, expression, "changed: NEOCrawler never came to read JSON; check this JMESPath expression")
            return {"jmespath": re.sub(r"^\$\.?", "", str(expression)), **_which(unit.get("index"))}
        if mode == "xpath":
            self._tell(path, expression, "changed: NEOCrawler never came to read XPath; check this expression")
            return {"xpath": str(expression), **self._picked(unit, path), **_which(unit.get("index"))}
        if mode != "css":
            self._tell(f"{path}.mode", mode, "changed: as NEOCrawler did, it is taken for css")
        if self._format not in ("html", "xml") and not nested:
            self._tell(path, expression, f"left out: a CSS selector finds nothing in pages of format {self._format}")
            return None
        if unit.get("subset"):
            return self._subset(unit["subset"], str(expression), path)
        return {"css": str(expression), **self._picked(unit, path), **_which(unit.get("index"))}

    def _regex(self, unit: Mapping[str, Any], path: str, nested: bool) -> dict[str, Any] | None:
        """NEOCrawler's index is the number of a group; below 1, all matches are wanted, of group 1."""
        text = python_regex(str(unit["expression"]))
        if wrong := wrong_regex(text):
            self._tell(path, unit["expression"], f"left out: it is not a regular expression of Python: {wrong}")
            return None
        index = _number(unit.get("index"))
        number = 1 if index == 0 or index is None or index < 0 else index
        groups = len(_groups(text))
        if groups == 0:
            self._tell(path, unit["expression"], "changed: it has no group, so that the whole match is taken")
        elif number > groups:
            self._tell(f"{path}.index", index, f"left out: the expression has only {groups} groups")
            return None
        elif number > 1 and re.search(r"\\[1-9]|\(\?P=", text):
            self._tell(f"{path}.index", index, "left out: the expression refers to its own groups")
            return None
        else:
            text = only_group(text, number)
        # It searched whole pages and never minded case.
        rule: dict[str, Any] = {"from": "url"} if unit.get("base") == "url" else {}
        rule["regex"] = f"(?i){text}"
        if index is None or index < 0:
            rule["all"] = True
        if nested and "from" not in rule:
            self._tell(path, unit["expression"], "changed: it is looked for in each record, not in the whole page")
        return rule

    def _subset(self, subset: Any, expression: str, path: str) -> dict[str, Any] | None:
        if not isinstance(subset, Mapping):
            self._tell(f"{path}.subset", subset, "left out: it is not a mapping")
            return None
        for key in subset:
            if key not in SUBSET:
                self._tell(f"{path}.subset.{key}", subset[key], "left out: NEOCrawler has no such key")
        if subset.get("require"):
            self._tell(f"{path}.subset.require", subset["require"], "left out: only fields of the page can be required")
        if subset.get("relate"):
            self._tell(
                f"{path}.subset.relate",
                subset["relate"],
                "changed: records in a table of their own have the key of their parent",
            )
        fields = self.fields(subset.get("rule"), f"{path}.subset.rule", nested=True)
        if not fields:
            self._tell(f"{path}.subset", subset, "left out: it has no fields")
            return None
        return {"each": {"css": expression}, "fields": fields}

    def _picked(self, unit: Mapping[str, Any], path: str) -> dict[str, Any]:
        pick = str(unit.get("pick") or "text")
        if pick.startswith("@"):
            return {"attr": pick[1:]}
        if pick.lower() in ("html", "innerhtml"):
            return {"html": True, "clean": [*INNER]}
        if pick.lower() not in ("text", "innertext"):
            self._tell(f"{path}.pick", pick, "changed: the text is taken")
        return {}


def children(rules: Any, fields: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Where the nested records of fields go: into a table of their own if their subset says `mapping`, otherwise with the parent.
    `names` says what the fields are called here."""
    found: dict[str, Any] = {}
    if isinstance(rules, Mapping):
        for name, unit in rules.items():
            subset, called = unit.get("subset") if isinstance(unit, Mapping) else None, names.get(str(name), "")
            if isinstance(subset, Mapping) and "each" in fields.get(called, {}):
                found[called] = (
                    {"table": table_name(str(subset["category"]))}
                    if subset.get("mapping") and subset.get("category")
                    else {}
                    if subset.get("mapping")
                    else {"json": True}
                )
    return found


def _which(index: Any) -> dict[str, Any]:
    number = _number(index)
    if number is not None and number < 0:
        return {"all": True}
    return {"nth": number - 1} if number is not None and number > 1 else {}


def _number(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def field_name(name: str, taken: Mapping[str, Any]) -> str:
    """A name that a field and its column may have, unlike those that are taken; `url` is the page's own."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name) or "field"
    if not re.match(r"[A-Za-z_]", plain) or plain.lower() == "url" or not plain.strip("_"):
        plain = f"field_{plain}".rstrip("_")
    plain, number = plain[:60], 1
    lower = {one.lower() for one in taken}
    made = plain
    while made.lower() in lower:
        number += 1
        made = f"{plain}_{number}"
    return made


def table_name(text: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9_]", "_", text)
    return (plain if re.match(r"[A-Za-z_]", plain) else f"t_{plain}")[:60]


def doubled(text: str) -> str:
    """A text in which nothing is taken for a {name}."""
    return re.sub(r"\{([A-Za-z_][\w.-]*)\}", r"{{\1}}", text)


def python_regex(text: str) -> str:
    """An expression of JavaScript as Python writes it: names of groups, and what brackets mean within brackets."""
    text = text.replace("[^]", r"[\s\S]").replace("\\/", "/")
    text = re.sub(r"(?<!\\)\(\?<(?![=!])", "(?P<", text)
    made, in_class, place = [], False, 0
    while place < len(text):
        sign = text[place]
        if sign == "\\":
            made.append(text[place : place + 2])
            place += 2
            continue
        if in_class and (sign == "[" or (sign in "&~|" and text[place + 1 : place + 2] == sign)):
            made.append("\\")
        elif sign == "[":
            in_class = True
        elif sign == "]":
            in_class = False
        made.append(sign)
        place += 1
    return "".join(made)


def wrong_regex(text: str) -> str:
    """What is wrong with an expression, "" for nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            re.compile(text)
        except (re.error, Warning, RecursionError, OverflowError) as error:
            return str(error)
    return ""


def _groups(text: str) -> list[int]:
    """Where the groups of an expression begin that take part in the numbering."""
    found, in_class, place = [], False, 0
    while place < len(text):
        sign = text[place]
        if sign == "\\":
            place += 1
        elif sign == "[":
            in_class = True
        elif sign == "]":
            in_class = False
        elif (
            sign == "(" and not in_class and (text[place + 1 : place + 2] != "?" or text[place + 2 : place + 4] == "P<")
        ):
            found.append(place)
        place += 1
    return found


def only_group(text: str, number: int) -> str:
    """The expression with one group only: that of this number."""
    for count, place in reversed(list(enumerate(_groups(text), 1))):
        if count != number:
            rest = re.sub(r"^\?P<\w+>", "", text[place + 1 :])
            text = f"{text[:place]}(?:{rest}"
    return text
