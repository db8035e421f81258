"""The forum that the demo crawls, and how."""

from __future__ import annotations

from typing import Any

from gossamer.testing.forum import Layout, Trouble

GROUP = "forum"
LIMIT = 8
"""Requests at once to one host, of the whole fleet."""
SETTINGS: dict[str, Any] = {"CONCURRENT_REQUESTS_PER_DOMAIN": LIMIT}
PROJECT = {"SCRAPY_SETTINGS_MODULE": "gossamer.scrapy.demo.settings"}
"""What makes Scrapy take the demo's project, whatever project lies around it."""


def layout(boards: int) -> Layout:
    """A forum with a bit of every trouble; on each host about 200 pages a board."""
    trouble = Trouble(slow=0.01, redirect=0.08, busy=0.002, unavailable=0.001, broken=0.05, missing=0.02)
    return Layout(boards=boards, lists=5, posts=10, comments=3, seed=2486, trouble=trouble)
