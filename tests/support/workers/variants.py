"""Scrapy's versions and the event loops that it runs on. A version other than the installed one lies in a folder of its own
(`make scrapy-versions`), from where a worker process takes it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import scrapy

SELECT = "twisted.internet.selectreactor.SelectReactor"
ASYNCIO = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"
FIRST, LAST = "2.13.4", scrapy.__version__
MATRIX_ASKED = "SCRAPY_MATRIX"
MATRIX = (FIRST, "2.15.0", "2.17.0", LAST)


@dataclass(frozen=True)
class Variant:
    """One way to run Scrapy."""

    version: str
    loop: str
    process: str = "plain"
    settings: Mapping[str, Any] = field(default_factory=dict)

    def path(self) -> str:
        """What comes first on the path of a worker; "" for the installed version."""
        if self.version == scrapy.__version__:
            return ""
        folder = Path(sys.prefix) / "scrapy" / self.version
        if not (folder / ".fetched").exists():
            raise RuntimeError(f"Scrapy {self.version} is not in {folder}. Fetch it: make scrapy-versions")
        return str(folder)

    def __str__(self) -> str:
        return f"{self.version}-{self.loop}"


def loops(version: str) -> list[Variant]:
    """All ways to run one version."""
    some = [
        Variant(version, "asyncio", settings={"TWISTED_REACTOR": ASYNCIO, "GOSSAMER_TUNING": "-uvloop"}),
        Variant(version, "uvloop", settings={"TWISTED_REACTOR": ASYNCIO}),
        Variant(version, "select", settings={"TWISTED_REACTOR": SELECT}),
    ]
    if version != FIRST:
        some.append(Variant(version, "reactorless", "async", {"TWISTED_REACTOR_ENABLED": False}))
        some.append(Variant(version, "untuned", "async", {"TWISTED_REACTOR": ASYNCIO, "GOSSAMER_TUNING": "none"}))
    return some


def some(*chosen: tuple[str, str]) -> list[Variant]:
    """The variants of these versions and loops; in the matrix all there are."""
    return [
        variant for variant in VARIANTS if os.environ.get(MATRIX_ASKED) or (variant.version, variant.loop) in chosen
    ]


PLAIN = Variant(scrapy.__version__, "uvloop", settings={"TWISTED_REACTOR": ASYNCIO})
VERSIONS = MATRIX if os.environ.get(MATRIX_ASKED) else (FIRST, LAST)
VARIANTS = [variant for version in VERSIONS for variant in loops(version)]
