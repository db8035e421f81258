"""The settings of the crawler that fetches a site's pages: those of the Scrapy project here, but for what a site file says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from scrapy.settings import SETTINGS_PRIORITIES, Settings, default_settings
from twisted.internet.ssl import Certificate, trustRootFromCertificates
from twisted.web.client import BrowserLikePolicyForHTTPS

from gossamer.scrapy.addon import THROTTLE
from gossamer.scrapy.download.network import PLACES
from gossamer.scrapy.process.run import ASYNCIO, _is_ours
from gossamer.scrapy.settings import project_settings, put_component
from gossamer.scrapy.site import render

# Without our prefix, which is for settings that people may set.
AUTHORITIES = "SITE_AUTHORITIES"
WIRE = "gossamer.scrapy.site.wire.WireMiddleware"

OVER: Mapping[str, Any] = {
    # The site file says it, and the engine does it, so that it means the same in both engines.
    "COOKIES_ENABLED": False,
    "REDIRECT_ENABLED": False,
    "METAREFRESH_ENABLED": False,
    "RETRY_ENABLED": False,
    "ROBOTSTXT_OBEY": False,
    "HTTPPROXY_ENABLED": False,
    "DOWNLOAD_FAIL_ON_DATALOSS": True,
    # The frontier does it, for the whole fleet.
    "AUTOTHROTTLE_ENABLED": False,
    "DOWNLOAD_DELAY": 0,
    "SCHEDULER": "scrapy.core.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter",
    "JOBDIR": None,
    # The loop is there already, and signals are the worker's.
    "TWISTED_REACTOR": ASYNCIO,
    "TWISTED_REACTOR_ENABLED": True,
    "ASYNCIO_EVENT_LOOP": None,
    "TELNETCONSOLE_ENABLED": False,
}
UNLESS_SAID: Mapping[str, Any] = {
    # Scrapy's own would be headers that the site file does not name.
    "DEFAULT_REQUEST_HEADERS": {},
    "DOWNLOAD_WARNSIZE": 0,
    "REMOTE_CONTROL_ENABLED": False,
}


def settings_for(given: Mapping[str, Any], verify: bool | str, browser: bool) -> Settings:
    """`given` are settings as after `-s`. SettingError for a project that cannot be used, SiteError where a browser is missing."""
    settings = project_settings()
    settings.setdict({name: value for name, value in given.items() if not name.startswith("GOSSAMER_")}, "cmdline")
    for name, value in UNLESS_SAID.items():
        settings.set(name, value, "addon")
    settings.setdict(dict(OVER), "cmdline")
    settings.set("ADDONS", _others(settings["ADDONS"] or {}), "cmdline")
    _put(settings, "EXTENSIONS", {THROTTLE: None})
    _put(settings, "DOWNLOADER_MIDDLEWARES", {WIRE: 10_000, **PLACES})
    _verify(settings, verify)
    if browser:
        render.prepare(settings)
    return settings


def _others(addons: Mapping[Any, Any]) -> dict[Any, Any]:
    """Without ours: these crawlers do not take part in the crawl by themselves."""
    return {addon: place for addon, place in addons.items() if place is not None and not _is_ours(addon)}


def _put(settings: Settings, name: str, entries: Mapping[str, Any]) -> None:
    for path, place in entries.items():
        put_component(settings, name, path, place, SETTINGS_PRIORITIES["cmdline"])


def _verify(settings: Settings, verify: bool | str) -> None:
    if isinstance(verify, str):
        settings.set(AUTHORITIES, verify, "cmdline")
        settings.set("DOWNLOADER_CLIENTCONTEXTFACTORY", "gossamer.scrapy.site.settings.FileAuthorities", "cmdline")
    elif hasattr(default_settings, "DOWNLOAD_VERIFY_CERTIFICATES"):
        settings.set("DOWNLOAD_VERIFY_CERTIFICATES", verify, "cmdline")
    elif verify:
        factory = "scrapy.core.downloader.contextfactory.BrowserLikeContextFactory"
        settings.set("DOWNLOADER_CLIENTCONTEXTFACTORY", factory, "cmdline")


class FileAuthorities(BrowserLikePolicyForHTTPS):
    """Checks certificates by the authorities in a file (`request.verify: FILE`)."""

    @classmethod
    def from_crawler(cls, crawler: Any, **more: Any) -> Self:
        text = Path(crawler.settings[AUTHORITIES]).read_text("ascii", "replace")
        found = re.findall(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", text, re.DOTALL)
        return cls(trustRootFromCertificates([Certificate.loadPEM(one) for one in found]))  # type: ignore[no-untyped-call]
