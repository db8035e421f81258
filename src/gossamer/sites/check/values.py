"""Whether values fit the place where they stand: defaults their field's type, ${NAME} a place where variables are looked up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from pydantic_core import to_json

from gossamer.sites.extract.types import NOWHERE, turn_into
from gossamer.sites.file.environment import REFERENCE, places
from gossamer.sites.file.problems import Path
from gossamer.sites.format import FieldRule, Kind

if TYPE_CHECKING:
    from gossamer.sites.check.site import Checker

WRITTEN = {
    Kind.INT: "a whole number",
    Kind.FLOAT: "a number",
    Kind.DECIMAL: "a number",
    Kind.BOOL: "true or false",
    Kind.DATE: "a date",
    Kind.DATETIME: "a date",
}
"""What a default must be; of every other type a text."""
_TYPES: dict[Kind, tuple[type, ...]] = {
    Kind.INT: (int,),
    Kind.FLOAT: (int, float),
    Kind.DECIMAL: (int, float),
    Kind.BOOL: (bool,),
}
SELECTORS = frozenset({"css", "xpath", "jmespath", "when"})
"""Keys of small languages, in which ${ may mean something else."""
PATTERNS = frozenset({"regex", "match", "skip", "content_type", "remove", "take"})
"""Regular expressions: a $ that has no backslash is the end of the text, so that nothing fits ${NAME}."""
_PLAIN = re.compile(r"(?<!\\)(?:\\\\)*(\$\{[A-Za-z_][A-Za-z0-9_]*\})")


def check_default(checker: Checker, rule: FieldRule, path: Path) -> None:
    """Report a default of another type than its field. In a field of type text it is stored as a text: that is only doubtful."""
    default = rule.default
    if default is None or rule.fields or rule.type is Kind.JSON:
        return
    for value in default if isinstance(default, list) and _several(rule) else [default]:
        if _fits(value, rule):
            continue
        wanted = WRITTEN.get(rule.type, "a text")
        if rule.type is Kind.TEXT and isinstance(value, bool | int | float):
            kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "float"
            checker.warn(
                (*path, "default"),
                f"the default {_shown(value)} is not a text",
                f"write type: {kind}, or put it in quotes",
            )
        else:
            checker.add(
                (*path, "default"),
                f"the default {_shown(value)} is not {wanted}, as type: {rule.type.value} says",
                _hint(rule, value),
            )
        return


def _several(rule: FieldRule) -> bool:
    return rule.all or any(getattr(step, "split", None) is not None for step in rule.clean)


def _fits(value: Any, rule: FieldRule) -> bool:
    if rule.type in (Kind.DATE, Kind.DATETIME):
        return isinstance(value, str) and _turns(value, rule)
    if isinstance(value, bool):
        return rule.type is Kind.BOOL
    if rule.type is Kind.DECIMAL and isinstance(value, str):
        return _turns(value, rule)
    return isinstance(value, _TYPES.get(rule.type, (str,)))


def _turns(value: str, rule: FieldRule) -> bool:
    try:
        turn_into(rule)(value, NOWHERE)
    except (ValueError, OverflowError):
        return False
    return True


def _hint(rule: FieldRule, value: Any) -> str:
    if isinstance(value, str) and rule.type in (Kind.INT, Kind.FLOAT):
        try:
            Decimal(value)
        except ArithmeticError:
            return "leave it out: what is not found is null"
        return "write it without quotes"
    if rule.type in (Kind.DATE, Kind.DATETIME):
        return "write it as pages do" + (f", as {rule.format[0]}" if rule.format else ", as 2024-12-31")
    return "leave it out: what is not found is null"


def _shown(value: Any) -> str:
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a mapping"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def check_variables(checker: Checker) -> None:
    """Report every ${NAME} in a text where no variable is looked up: it would be sent or stored as it stands there."""
    if b"${" not in to_json(checker.site, fallback=str):
        return
    known = {path for path, _ in places(checker.site)}
    for path, text in _texts(checker.site, ()):
        if "${" not in text or path in known:
            continue
        pattern = path[-1] in PATTERNS or path[-2:] == ("replace", 0)
        if found := (_PLAIN if pattern else REFERENCE).search(text):
            checker.add(
                path,
                f"{found[1] if pattern else found[0]} is not looked up here",
                "variables stand in requests (url, headers, cookies, form, json, body, auth, proxy), login, proxies and database",
            )


def _texts(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, BaseModel):
        for name in value.model_fields_set:
            key = type(value).model_fields[name].alias or name
            if key not in SELECTORS:
                yield from _texts(getattr(value, name), (*path, key))
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(inner, (*path, key))
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from _texts(inner, (*path, place))
