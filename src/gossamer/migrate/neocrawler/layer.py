"""How pages of a NEOCrawler rule are asked for and scheduled, as keys of a layer. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gossamer.migrate.neocrawler.fields import duration
from gossamer.migrate.neocrawler.rules import Rule
from gossamer.migrate.neocrawler.units import Tell, doubled

POOL = "pool"


def flag(rule: Rule, name: str, tell: Tell, usual: bool = False) -> bool:
    """Whether something is switched on."""
    value = rule.get(name)
    if value is None:
        return usual
    if value in (True, False):  # 1 and 0 among them.
        return bool(value)
    tell(name, value, f"changed: it is neither true nor false, and counts as {str(usual).lower()}")
    return usual


def request_of(rule: Rule, domain: str, tell: Tell) -> dict[str, Any]:
    """How pages are asked for, where it is not as usual."""
    request: dict[str, Any] = {}
    if cookies := _cookies(rule, domain, tell):
        request["cookies"] = cookies
    if flag(rule, "jshandle", tell):
        request["render"] = True
        tell("jshandle", True, "changed: a browser makes the page, so that the whole site runs in Scrapy (engine)")
    if flag(rule, "use_proxy", tell):
        request["proxy"] = POOL
        tell("use_proxy", True, "changed: name your proxies in proxies.pool; NEOCrawler's router is there")
    return request


def _cookies(rule: Rule, domain: str, tell: Tell) -> dict[str, str]:
    """As browsers export them, a list of objects; as headers have them, a text; or by name."""
    given = rule.get("cookie")
    if isinstance(given, str):
        pairs = [pair.strip().partition("=") for pair in given.split(";") if pair.strip()]
        given = [{"name": name, "value": value} for name, _, value in pairs]
    elif isinstance(given, Mapping):
        given = [given] if "name" in given else [{"name": name, "value": value} for name, value in given.items()]
    cookies: dict[str, str] = {}
    for one in given if isinstance(given, list) else [given] if given else ():
        if not isinstance(one, Mapping) or not one.get("name"):
            tell("cookie", one, "left out: it has no name")
            continue
        value = str(one.get("value", ""))
        if "${" in value:
            tell("cookie", one, "left out: ${ begins the name of an environment variable here")
            continue
        cookies[str(one["name"])] = doubled(value)
        where = str(one.get("domain") or "").lstrip(".")
        if where and not (where == domain or where.endswith(f".{domain}")):
            tell("cookie.domain", where, "changed: it is sent with every page of the layer")
    return cookies


def share_of(rule: Rule, tell: Tell) -> dict[str, Any]:
    """NEOCrawler gives each rule its part by (100 + weight) / priority, whatever its depth."""
    try:
        priority = 1.0 if rule.get("priority") is None else float(rule["priority"])
        weight = 0.0 if rule.get("weight") is None else float(rule["weight"])
        rate = round((100 + weight) / priority, 3)
    except (TypeError, ValueError, ZeroDivisionError):
        said = [rule.get("priority"), rule.get("weight")]
        tell("priority and weight", said, "left out: no share can be made of them")
        return {}
    if not 0.001 <= rate <= 1e6:
        tell("priority and weight", rate, "left out: a share is from 0.001 to 1,000,000")
        return {}
    return {"tier": 0, "weight": int(rate) if rate.is_integer() else rate}


def memory_of(rule: Rule, tell: Tell) -> dict[str, Any]:
    """A page that is found again is asked for again when its interval has passed."""
    seconds = rule.get("schedule_interval")
    if seconds is None:
        return {}
    if not isinstance(seconds, int) or isinstance(seconds, bool) or seconds < 1:
        tell("schedule_interval", seconds, "left out: it is not a number of seconds")
        return {}
    return {"seen": {"policy": "rolling", "window": duration(seconds)}}
