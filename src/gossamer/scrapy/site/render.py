"""Pages that a browser renders: how scrapy-playwright is set up, and which browser it uses."""

from __future__ import annotations

import base64
import os
import shutil
from importlib.util import find_spec
from typing import Any

from scrapy import Request
from scrapy.settings import SETTINGS_PRIORITIES, Settings

from gossamer.errors import SiteError
from gossamer.model.page import PageRequest

HANDLER = "scrapy_playwright.handler.ScrapyPlaywrightDownloadHandler"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-sync",
    "--metrics-recording-only",
    # What it asks for all the same, whatever the above says: nobody is there.
    "--gaia-url=http://127.0.0.1:9",
    "--component-updater=url-source=http://127.0.0.1:9/",
)
"""So that a browser asks nobody but the sites."""
OF_THE_PROXY = "proxy-authorization"


def prepare(settings: Settings) -> None:
    """Settings of a crawler whose pages may be rendered; SiteError where that cannot be."""
    if find_spec("scrapy_playwright") is None:
        raise SiteError("`render` needs scrapy-playwright: pip install 'gossamer[render]'.")
    handlers = {**settings.getdict("DOWNLOAD_HANDLERS"), "http": HANDLER, "https": HANDLER}
    settings.set("DOWNLOAD_HANDLERS", handlers, "cmdline")
    usual = SETTINGS_PRIORITIES["addon"]
    if any((settings.getpriority(name) or 0) > usual for name in ("PLAYWRIGHT_CDP_URL", "PLAYWRIGHT_CONNECT_URL")):
        return
    options = dict(settings.getdict("PLAYWRIGHT_LAUNCH_OPTIONS"))
    if settings.get("PLAYWRIGHT_BROWSER_TYPE", "chromium") == "chromium":
        if "executable_path" not in options and "channel" not in options:
            # Where the system has none, Playwright's own is used; it says how to get it where there is none either.
            path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
            if path is not None:
                options["executable_path"] = path
        # A browser that root runs starts only without its sandbox.
        sandbox = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        options["args"] = [*QUIET, *sandbox, *options.get("args", ())]
    settings.set("PLAYWRIGHT_LAUNCH_OPTIONS", options, "cmdline")


def rendered(wanted: PageRequest) -> dict[str, Any]:
    """The meta of a request that a browser is to make. Proxies and certificates are a matter of a browser's context, so each
    has its own."""
    context: dict[str, Any] = {}
    if wanted.options.proxy:
        context["proxy"] = {"server": wanted.options.proxy, **_login(wanted)}
    if wanted.options.verify is False:
        context["ignore_https_errors"] = True
    return {
        "playwright": True,
        "playwright_context": f"{wanted.site} {wanted.options.proxy} {wanted.options.verify}",
        "playwright_context_kwargs": context,
        "playwright_page_goto_kwargs": {"timeout": wanted.options.timeout * 1000},
        "playwright_page_init_callback": give_cookies,
    }


def _login(wanted: PageRequest) -> dict[str, str]:
    """User and password of the proxy, which a browser wants to know itself."""
    said = next((value for name, value in wanted.headers.items() if name.lower() == OF_THE_PROXY), "")
    if not said:
        return {}
    user, _, password = base64.b64decode(said.partition(" ")[2]).decode().partition(":")
    return {"username": user, "password": password}


async def give_cookies(page: Any, request: Request) -> None:
    """A browser takes no Cookie header: its cookies are its own."""
    said = (request.headers.get("Cookie") or b"").decode("utf-8", "surrogateescape")
    pairs = [one.partition("=") for one in said.split("; ") if "=" in one]
    if pairs:
        await page.context.add_cookies(
            [{"name": name, "value": value, "url": request.url} for name, _, value in pairs if name]
        )
