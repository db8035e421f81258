"""The settings of a project that mean something to scrapy-redis, wherever they are given a value."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gossamer.migrate.scrapy_redis.finding import Finding
from gossamer.migrate.scrapy_redis.names import PACKAGE, Classes, Module, dotted, original, text_of

_PLACES = frozenset({"REDIS_URL", "REDIS_HOST", "REDIS_PORT", "REDIS_DB", "GOSSAMER_URL"})
_DEFAULTS = {"SCHEDULER_QUEUE_KEY": "%(spider)s:requests", "SCHEDULER_DUPEFILTER_KEY": "%(spider)s:dupefilter"}
_SEPARATING = frozenset({"GOSSAMER_CRAWL", "GOSSAMER_GROUP"})
_PLACE_PARAMS = frozenset(
    {"host", "port", "db", "url", "unix_socket_path", "connection_pool", "redis_cls", "startup_nodes"}
)
_CLASSES = frozenset({"SCHEDULER", "DUPEFILTER_CLASS", "SCHEDULER_QUEUE_CLASS", "STATS_CLASS"})
_CODES = {
    "SCHEDULER_QUEUE_KEY": "queue-key",
    "SCHEDULER_DUPEFILTER_KEY": "dupefilter-key",
    "DUPEFILTER_KEY": "timestamp-key",
    "SCHEDULER_SERIALIZER": "serializer",
    "SCHEDULER_FLUSH_ON_START": "flush-on-start",
}
_QUIET = frozenset(
    {
        "SCHEDULER_PERSIST", "SCHEDULER_IDLE_BEFORE_CLOSE", "REDIS_START_URLS_KEY", "REDIS_START_URLS_AS_SET",
        "REDIS_START_URLS_AS_ZSET", "REDIS_ITEMS_KEY", "REDIS_ITEMS_SERIALIZER", "REDIS_ENCODING", "REDIS_DECODE_RESPONSES",
        "REDIS_PARAMS", "MAX_IDLE_TIME_BEFORE_CLOSE", "STATS_KEY", "REDIS_KEY_CHECK_INTERVAL", *_PLACES, *_SEPARATING,
    }
)  # fmt: skip
# Of packages that build on scrapy-redis.
_OTHERS = {
    re.compile(r"BLOOMFILTER_\w+"): "package-bloom",
    re.compile(r"REDIS_(CLUSTER|MASTER)_NODES|REDIS_STARTUP_NODES"): "package-cluster",
    re.compile(r"REDIS_SENTINEL\w*"): "package-sentinel",
}
_FEEDS = frozenset({"FEEDS", "FEED_URI", "FEED_EXPORT_BATCH_ITEM_COUNT"})
_NOT_A_FILE = re.compile(r"\b(?!file:|stdout:)[a-z][a-z0-9+]{1,9}://|batch_item_count|postprocessing")
_OUTPUT = re.compile(r"\bscrapy\s+(?:crawl|runspider)\s.*?\s-[oO]\s*(\S+)")
KNOWN = _CLASSES | frozenset(_CODES) | _QUIET | _FEEDS
_ON_A_LINE = re.compile(rf"(?:^|[\s'\"])({'|'.join(sorted(KNOWN))})=([^\s'\"]+)")


@dataclass(frozen=True)
class SettingUse:
    """A setting that is given a value. `value` is None where only the run knows it."""

    module: Module
    line: int
    name: str
    value: str | None
    node: ast.expr | None


def given(module: Module) -> Iterator[SettingUse]:
    """By assignment, in a dict, by a call, or on a command line in a text."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                name = target.id if isinstance(target, ast.Name) else _subscript(target)
                yield from _one(module, name, node.value, node.lineno)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            yield from _one(module, node.target.id, node.value, node.lineno)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                yield from _one(module, text_of(key), value, key.lineno if key is not None else node.lineno)
        elif isinstance(node, ast.Call):
            method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            if method in ("set", "setdefault") and len(node.args) >= 2:
                yield from _one(module, text_of(node.args[0]), node.args[1], node.lineno)
            for keyword in node.keywords:
                yield from _one(module, keyword.arg, keyword.value, keyword.value.lineno)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _on_a_line(module, node.value, node.lineno)


def _on_a_line(module: Module, text: str, line: int) -> Iterator[SettingUse]:
    for name, value in _ON_A_LINE.findall(text):
        yield SettingUse(module, line, name, value, None)
    for uri in _OUTPUT.findall(text):
        yield SettingUse(module, line, "FEEDS", uri, None)


def _one(module: Module, name: str | None, value: ast.expr, line: int) -> Iterator[SettingUse]:
    if name and (name in KNOWN or any(other.fullmatch(name) for other in _OTHERS)):
        text = text_of(value)
        if text is None and isinstance(value, (ast.Name, ast.Attribute)):
            path = module.resolve(value)
            text = path if "." in path else None
        yield SettingUse(module, line, name, text, value)


def _subscript(target: ast.expr) -> str | None:
    return text_of(target.slice) if isinstance(target, ast.Subscript) else None


def findings(settings: list[SettingUse], classes: Classes) -> Iterator[Finding]:
    separated = any(each.name in _SEPARATING for each in settings)
    for each in settings:
        code = _code(each, classes)
        if each.name in _DEFAULTS and (separated or each.value == _DEFAULTS[each.name]):
            code = "setting"
        if code:
            shown = ast.unparse(each.node) if each.node is not None else each.value
            # Names of servers and storages come with passwords.
            value = "" if each.name.startswith(("REDIS_", "GOSSAMER_URL", "FEED")) else f" = {shown!s:.100}"
            yield Finding(each.module.path, each.line, code, f"{each.name}{value}")


def schedules_otherwise(settings: list[SettingUse], classes: Classes) -> bool:
    """Whether SCHEDULER is set, and everywhere to what is no class of the project."""
    named = [each.value for each in settings if each.name == "SCHEDULER"]
    return bool(named) and all(value is not None and original(value) not in classes for value in named)


def _code(each: SettingUse, classes: Classes) -> str:
    if each.name in _CODES:
        return _CODES[each.name]
    for pattern, code in _OTHERS.items():
        if pattern.fullmatch(each.name):
            return code
    if each.name in _FEEDS:
        said = ast.unparse(each.node) if each.node is not None else each.value or ""
        return "feeds-apart" if each.name not in ("FEEDS", "FEED_URI") or _NOT_A_FILE.search(said) else "feeds"
    if each.name not in _CLASSES:
        return "setting"
    if each.node is not None and isinstance(each.node, ast.Constant) and each.node.value is None:
        return ""
    if each.value is None:
        return "dynamic-value"
    path = original(each.value)
    ours = path.startswith(PACKAGE + ".")
    if each.name == "SCHEDULER_QUEUE_CLASS":
        name = path.rpartition(".")[2]
        if not ours:
            return "own-queue-class"
        return "lifo-queue-class" if name in ("LifoQueue", "SpiderStack") else "queue-class"
    if path == "scrapy.dupefilters.BaseDupeFilter":
        return "no-filter"
    if path.startswith("scrapy."):
        return "setting"
    if ours:
        # Found as a path already.
        return ""
    # A class of the project is found where it is defined, one of a package that builds on scrapy-redis where it is named.
    return "" if path in classes or path.startswith(PACKAGE) else f"outside-{each.name.lower().replace('_', '-')}"


def missing_server(settings: list[SettingUse], first: Finding | None) -> Iterator[Finding]:
    """No setting says where the server is, in a project that uses scrapy-redis, which `first` shows."""
    if first is None or any(each.name in _PLACES or _names_a_place(each) for each in settings):
        return
    at = next((each for each in settings if each.name == "SCHEDULER"), None)
    path, line = (at.module.path, at.line) if at is not None else (first.path, first.line)
    yield Finding(path, line, "no-server", "no REDIS_URL, REDIS_HOST or other setting names a server")


def _names_a_place(each: SettingUse) -> bool:
    if each.name != "REDIS_PARAMS":
        return False
    if not isinstance(each.node, ast.Dict):
        return True
    return any(key is None or text_of(key) in _PLACE_PARAMS for key in each.node.keys)


def dynamic(module: Module) -> Iterator[Finding]:
    """Settings that are put together when the project runs."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.Assign) and any(dotted(target) == "custom_settings" for target in part.targets):
                    yield from _unread(module, part.value, "custom_settings")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = dotted(node.func.value).rpartition(".")[2]
            if node.func.attr == "update" and owner.endswith("settings"):
                for argument in node.args[:1]:
                    yield from _unread(module, argument, f"{owner}.update(…)")
            elif node.func.attr == "update" and dotted(getattr(node.func.value, "func", node)) in (
                "globals",
                "locals",
                "vars",
            ):
                yield Finding(module.path, node.lineno, "dynamic-settings", f"{ast.unparse(node.func)}(…)")


def _unread(module: Module, node: ast.expr, what: str) -> Iterator[Finding]:
    if isinstance(node, ast.Constant) or _is_plain_dict_call(node):
        return
    if not isinstance(node, ast.Dict) or None in node.keys:
        yield Finding(module.path, node.lineno, "dynamic-settings", f"{what}: {ast.unparse(node):.80}")


def _is_plain_dict_call(node: ast.expr) -> bool:
    """`dict(NAME=value)`, which is read as its keywords."""
    return (
        isinstance(node, ast.Call)
        and dotted(node.func) == "dict"
        and not node.args
        and all(keyword.arg is not None for keyword in node.keywords)
    )
