"""Classes of a project that derive from those of scrapy-redis, and other uses of its parts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gossamer.migrate.scrapy_redis.finding import Finding
from gossamer.migrate.scrapy_redis.names import PACKAGE, Classes, Module, dotted, members

_SCHEDULER = (
    "__init__", "__len__", "from_settings", "from_crawler", "open", "close", "flush", "enqueue_request", "next_request",
    "has_pending_requests",
)  # fmt: skip
_FILTER = ("__init__", "from_settings", "from_crawler", "from_spider", "open", "request_seen", "close", "clear")
_TAKING = ("next_requests", "schedule_next_requests", "pop_list_queue", "pop_priority_queue")
_SEEDING = ("make_request_from_data", "make_requests_from_url")
_SETTING_UP = ("setup_redis", "fetch_data", "start_requests", "start", "spider_idle")
_FOREIGN = re.compile(r"(scrapy_redis_\w+|scrapy_rediscluster|scrapy_redis[a-z]+)(?:\.|$)")
_REMEDIES = {"bloom": "bloom", "cluster": "cluster", "sentinel": "sentinel"}
_CALLED = {"pipeline": "pipeline", "stats": "stats collector"}
_OLD = frozenset({"cPickle", "urlparse", "urllib2", "ConfigParser", "StringIO", "cStringIO", "Queue", "httplib"})


def derived(module: Module, classes: Classes) -> Iterator[Finding]:
    """What each class derives from, and which members it has of its own."""
    for node, kind in classes.of_kind(module):
        own = members(node)
        if kind == "scheduler":
            over = [name for name in own if name in _SCHEDULER]
            what = f"class {node.name} overrides {', '.join(over) or 'nothing'}"
            yield Finding(module.path, node.lineno, "scheduler-subclass" if own else "empty-scheduler", what)
        elif kind == "dupefilter":
            yield from _dupefilter(module, node, own)
        elif kind == "queue":
            yield Finding(module.path, node.lineno, "own-queue", f"class {node.name} is a queue")
        elif kind == "spider":
            yield from _spider(module, node, own)
        elif kind in ("pipeline", "stats"):
            code = f"own-{kind}" if kind == "stats" or "_process_item" in own or "process_item" in own else "setting"
            yield Finding(module.path, node.lineno, code, f"class {node.name} is a {_CALLED[kind]}")


def _dupefilter(module: Module, node: ast.ClassDef, own: dict[str, int]) -> Iterator[Finding]:
    over = [name for name in own if name in _FILTER]
    if over and over != ["__init__"]:
        line = own.get("request_seen", own[over[0]])
        yield Finding(module.path, line, "request-seen", f"class {node.name} overrides {', '.join(over)}")
    elif "request_fingerprint" in own:
        yield Finding(
            module.path, own["request_fingerprint"], "request-fingerprint", f"{node.name}.request_fingerprint"
        )
    else:
        yield Finding(module.path, node.lineno, "dupefilter", f"class {node.name}")


def _spider(module: Module, node: ast.ClassDef, own: dict[str, int]) -> Iterator[Finding]:
    for name, line in own.items():
        what = f"{node.name}.{name}"
        if name in _TAKING:
            yield Finding(module.path, line, "next-requests", what)
        elif name in _SEEDING:
            yield Finding(module.path, line, "make-request", what)
        elif name in _SETTING_UP:
            yield Finding(module.path, line, name.replace("_", "-"), what)


def uses(module: Module) -> Iterator[Finding]:
    """Other packages, signals, the client, pickles, and the scheduler's parts."""
    for node in ast.walk(module.tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from _imports(module, node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if re.fullmatch(r"scrapy-redis(-\w+)*\s*([<>=!~\[;].*)?", node.value, re.I):
                yield Finding(module.path, line, "requirement", node.value)
            elif (found := _FOREIGN.match(node.value)) and "." in node.value:
                yield Finding(module.path, line, _package(found[1]), node.value[:100])
        elif isinstance(node, ast.Attribute):
            yield from _attribute(module, node)
        elif isinstance(node, ast.Call) and module.resolve(node.func) == f"{PACKAGE}.scheduler.Scheduler.from_settings":
            yield Finding(module.path, line, "scheduler-from-settings", f"{dotted(node.func)}(…)")


def _attribute(module: Module, node: ast.Attribute) -> Iterator[Finding]:
    owner = dotted(node.value)
    last = owner.rpartition(".")[2]
    if node.attr == "spider_idle" and module.resolve(node).startswith("scrapy"):
        yield Finding(module.path, node.lineno, "idle-signal", dotted(node))
    elif node.attr == "server" and (last in ("self", "spider") or last.endswith("spider")):
        yield Finding(module.path, node.lineno, "server-use", f"{owner}.server")
    elif node.attr in ("queue", "df") and last in ("scheduler", "_scheduler"):
        yield Finding(module.path, node.lineno, "scheduler-parts", f"{owner}.{node.attr}")
    elif node.attr in ("loads", "dumps", "load", "dump") and last in ("pickle", "cPickle"):
        yield Finding(module.path, node.lineno, "pickle", f"{owner}.{node.attr}")


def _imports(module: Module, node: ast.Import | ast.ImportFrom) -> Iterator[Finding]:
    if isinstance(node, ast.ImportFrom):
        names = [node.module or ""] if node.level == 0 else []
        if any(alias.name == "spider_idle" for alias in node.names) and names == ["scrapy.signals"]:
            yield Finding(module.path, node.lineno, "idle-signal", "spider_idle")
    else:
        names = [alias.name for alias in node.names]
    for name in names:
        if found := _FOREIGN.match(name):
            yield Finding(module.path, node.lineno, _package(found[1]), f"import of {name}")
        elif name.split(".")[0] in _OLD:
            yield Finding(module.path, node.lineno, "python-2", f"import of {name}")
        elif name.endswith(f"{PACKAGE}.picklecompat") or (
            name.endswith(PACKAGE) and any(alias.name == "picklecompat" for alias in node.names)
        ):
            yield Finding(module.path, node.lineno, "picklecompat", f"import of {PACKAGE}.picklecompat")


def _package(name: str) -> str:
    return next((f"package-{word}" for word in _REMEDIES if word in name), "package-other")
