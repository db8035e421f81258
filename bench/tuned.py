"""Scrapy tuned exactly as Gossamer's add-on tunes it, and nothing else of Gossamer."""

from __future__ import annotations

from scrapy.settings import BaseSettings

from gossamer.settings import load
from gossamer.worker import tuning


class Tuned:
    """An add-on, so that the changes are made where and when ours makes them."""

    def update_settings(self, settings: BaseSettings) -> None:
        tuning.apply(settings, load()["GOSSAMER_TUNING"])
