"""What the add-on changes of Scrapy's defaults to make a page cheaper, as data: each can be turned off, each is documented, and
each has a test that what the project does stays the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from scrapy import version_info
from scrapy.utils.reactor import is_asyncio_reactor_installed

from gossamer.errors import SettingError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


@dataclass(frozen=True, slots=True)
class Tune:
    """One change: `settings` it makes (by name), when it is `possible`, and what it is; without settings, it is made when
    the engine is there (by the scheduler)."""

    name: str
    settings: dict[str, Any]
    possible: Callable[[BaseSettings], bool]
    help: str


_REACTOR = "twisted.internet.reactor"


def _always(settings: BaseSettings) -> bool:
    return True


def _asyncio(settings: BaseSettings) -> bool:
    if not settings.getbool("TWISTED_REACTOR_ENABLED", True):
        return True
    if reactor := settings["TWISTED_REACTOR"]:
        return "AsyncioSelectorReactor" in str(reactor)
    # The one that is there; else Twisted's default, which is another.
    return _REACTOR in sys.modules and is_asyncio_reactor_installed()


def _uvloop(settings: BaseSettings) -> bool:
    # The loop is chosen when the reactor is installed: later it could only be refused.
    return (
        _asyncio(settings)
        and settings["ASYNCIO_EVENT_LOOP"] is None
        and find_spec("uvloop") is not None
        and _REACTOR not in sys.modules
        and settings.getbool("TWISTED_REACTOR_ENABLED", True)
    )


def _aiohttp(settings: BaseSettings) -> bool:
    own = settings.getdict("DOWNLOAD_HANDLERS")
    return (
        version_info >= (2, 19)
        and _asyncio(settings)
        and find_spec("aiohttp") is not None
        and not {"http", "https"} & set(own)
        and not any(settings.getpriority(name) for name in OF_USUAL_HANDLER)
    )


OF_USUAL_HANDLER = (
    "DNS_RESOLVER", "DNS_TIMEOUT", "DNSCACHE_ENABLED", "DNSCACHE_SIZE", "DOWNLOADER_CLIENT_TLS_METHOD",
    "DOWNLOADER_CLIENTCONTEXTFACTORY", "REACTOR_THREADPOOL_MAXSIZE", "TWISTED_DNS_RESOLVER",
)  # fmt: skip
"""Settings that Scrapy's usual handler has and the one on aiohttp does not."""
AIOHTTP = "gossamer.scrapy.speedups.handler.LateAiohttpDownloadHandler"

TUNES: tuple[Tune, ...] = (
    Tune(
        "uvloop",
        {"ASYNCIO_EVENT_LOOP": "uvloop.Loop"},
        _uvloop,
        "The event loop of uvloop, if it is installed and no other loop was chosen or is running.",
    ),
    Tune(
        "aiohttp",
        {"DOWNLOAD_HANDLERS": {"http": AIOHTTP, "https": AIOHTTP}},
        _aiohttp,
        "Scrapy's own handler on aiohttp (from Scrapy 2.19), if aiohttp is installed and the project chose no handler. Scrapy "
        "calls it experimental; its warning is left out, since the project did not choose it. A page takes about 15 % less processor time with it. "
        "Scrapy's usual handler does what this one cannot: requests with other methods than GET and HEAD (a form is sent once, whatever the server answers), requests with `bindaddress` in meta, and all requests to a host whose responses it cannot read (malformed HTTP, old TLS), with a line in the log. "
        f"The usual handler also does everything if the project sets one of {', '.join(f'`{name}`' for name in OF_USUAL_HANDLER)}.",
    ),
    Tune(
        "fingerprints",
        {},
        _always,
        "Scrapy's default fingerprints, computed faster for URLs that are canonical already. The project's own fingerprinter is used as before.",
    ),
    Tune(
        "urls",
        {},
        _always,
        "A URL that is obviously safe does not go through w3lib's safe_url_string when a Request is created. Holds for the whole process.",
    ),
    Tune(
        "output",
        {},
        _always,
        "Requests that a callback yields go to the engine at once, and only items get tasks (at most CONCURRENT_ITEMS at a time), instead of CONCURRENT_ITEMS tasks for every response. From Scrapy 2.14, on asyncio.",
    ),
    Tune(
        "signals",
        {},
        _always,
        "Signals without a receiver are not sent through Scrapy's dispatcher.",
    ),
    Tune(
        "early",
        {},
        _always,
        "A link that this worker knows to be a duplicate is dropped when the callback yields it. Only if all spider middlewares are Scrapy's own, DEPTH_LIMIT and DEPTH_STATS_VERBOSE are off, and no receiver listens to request_scheduled or request_dropped.",
    ),
    Tune(
        "garbage",
        {},
        _always,
        "Objects that exist when a spider opens are left out of Python's garbage collection (gc.freeze) until it closes. Objects that the crawl creates are collected as usual. Not in a process that has frozen objects itself.",
    ),
)


def chosen(said: str) -> list[Tune]:
    """The changes that GOSSAMER_TUNING names."""
    names = [name.strip() for name in said.split(",") if name.strip()]
    known = {tune.name for tune in TUNES}
    for name in names:
        if name.removeprefix("-") not in known | {"all", "none"}:
            raise SettingError(f"GOSSAMER_TUNING names {name!r}; there are {', '.join(sorted(known))}, all and none.")
    if names == ["none"]:
        return []
    without = {name[1:] for name in names if name.startswith("-")}
    wanted = {name for name in names if not name.startswith("-")}
    everything = "all" in wanted or not wanted
    return [tune for tune in TUNES if tune.name not in without and (everything or tune.name in wanted)]


def names(said: str) -> frozenset[str]:
    return frozenset(tune.name for tune in chosen(said))


def apply(settings: BaseSettings, said: str) -> None:
    """Change what is possible and not set by the project itself."""
    for tune in chosen(said):
        if tune.possible(settings):
            for name, value in tune.settings.items():
                if isinstance(value, dict):
                    value = {**settings.getdict(name), **value}
                settings.set(name, value, "addon")
