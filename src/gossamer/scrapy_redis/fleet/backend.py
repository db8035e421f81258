"""Where the requests of a project are: on the frontier, unless it sets or overrides what only the queues of scrapy-redis honour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from scrapy.settings import BaseSettings

from gossamer.scrapy.seen.project_filter import HONOURED, kind_of, overridden
from gossamer.scrapy.settings import loaded
from gossamer.scrapy_redis import defaults
from gossamer.scrapy_redis.fleet.filters import base_of
from gossamer.settings import DEFAULT

KEYS = {
    "SCHEDULER_QUEUE_KEY": defaults.SCHEDULER_QUEUE_KEY,
    "SCHEDULER_DUPEFILTER_KEY": defaults.SCHEDULER_DUPEFILTER_KEY,
}


_MEANT = frozenset({"__init__", "__new__", "__len__", "__bool__", "__getattr__", "__getattribute__"})


class Reason(NamedTuple):
    """Why a project is not on the frontier, and what to do to be there."""

    what: str
    remedy: str


def reasons(kind: type[Any], base: type[Any], settings: BaseSettings) -> list[Reason]:
    """Everything that keeps a project from the frontier; `kind` is its scheduler class, made of `base`."""
    found = []
    if kind is not base and not _empty(kind, base):
        own = overridden(kind, base)
        does = f" with {', '.join(own)} of its own" if own else ""
        found.append(
            Reason(f"SCHEDULER {_path(kind)} is the project's own class{does}", f"set SCHEDULER to {_path(base)}")
        )
    if settings.get("SCHEDULER_QUEUE_CLASS"):
        found.append(Reason("SCHEDULER_QUEUE_CLASS is set", "leave SCHEDULER_QUEUE_CLASS out"))
    found += _filter(settings)
    found += _keys(settings)
    return found


def _empty(kind: type[Any], base: type[Any]) -> bool:
    """Whether a class has nothing of its own but its name and its description."""
    added = {name for each in kind.__mro__ if each not in base.__mro__ for name in vars(each)}
    return all(name.startswith("__") and name not in _MEANT for name in added)


def said(found: Sequence[Reason]) -> str:
    """The reasons in one line, with what the project goes without."""
    return (
        f"{' and '.join(each.what for each in found)}: this worker uses the queue and dupefilter of scrapy-redis, and what it holds "
        f"when it dies is lost. To be on the frontier, {' and '.join(each.remedy for each in found)}."
    )


def _filter(settings: BaseSettings) -> list[Reason]:
    """A filter that has more of its own than the frontier can ask it for."""
    kind = kind_of(settings)
    base = base_of(kind)
    every = ["request_seen"] if base is None else overridden(kind, base)
    own = [name for name in every if name not in HONOURED]
    # A constructor is for what request_fingerprint needs; without that, it may give the filter another fingerprinter or memory.
    if not own or (own == ["__init__"] and "request_fingerprint" in every):
        return []
    remedy = "override only request_fingerprint in the filter (or leave DUPEFILTER_CLASS out, and choose by GOSSAMER_SEEN_KIND)"
    return [Reason(f"DUPEFILTER_CLASS {_path(kind)} has {', '.join(own)} of its own", remedy)]


def _keys(settings: BaseSettings) -> list[Reason]:
    """A key of the project's own keeps crawls apart that would be one, or together that would be two."""
    chosen = loaded(settings)
    if any(chosen.source(name) != DEFAULT for name in ("GOSSAMER_CRAWL", "GOSSAMER_GROUP")):
        return []  # it says so in our words
    return [
        Reason(f"{name} is {settings[name]!r}", f"leave {name} out and name the crawl by GOSSAMER_CRAWL")
        for name, default in KEYS.items()
        if settings.get(name) not in (None, "", default)
    ]


def _path(kind: Any) -> str:
    return f"{kind.__module__}.{kind.__qualname__}" if isinstance(kind, type) else repr(kind)
