"""Scrapy's handler on aiohttp, made when the first request comes: Scrapy makes handlers before the event loop runs, and this
one needs the loop. Loaded only where it is used (Scrapy 2.19 and aiohttp)."""

from __future__ import annotations

from scrapy.core.downloader.handlers._aiohttp import AiohttpDownloadHandler


class LateAiohttpDownloadHandler(AiohttpDownloadHandler):
    lazy = True
