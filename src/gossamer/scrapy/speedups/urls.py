"""URLs that are safe as they are need no making safe.

Every `Request` passes its URL through `w3lib.url.safe_url_string`, which takes it apart and puts it together again. Most URLs
come out as they went in: those of `_SAFE`, and only those, are let through at once. The shape is narrow on purpose, so that it
holds for every version of w3lib: plain names or IPv4 addresses, no default port, no dot segments, no escapes, no fragment.
"""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_BYTE = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
# A last label of letters only: anything with a digit may be read as an address.
_HOST = rf"(?:(?:{_LABEL}\.)*[a-z]{{1,63}}|{_BYTE}(?:\.{_BYTE}){{3}})"
_PORT = r"(?!80(?:[/?]|$)|443(?:[/?]|$))[1-9][0-9]{0,3}"
_SAFE = re.compile(
    rf"https?://(?!(?:[^/]*\.)?xn--)(?![a-z0-9]{{2}}--){_HOST}(?::(?:{_PORT}|[1-5][0-9]{{4}}))?"
    r"/[A-Za-z0-9_~/-]*+(?:\.[A-Za-z0-9_~-]++/?+[A-Za-z0-9_~/-]*+)*+(?:\?[A-Za-z0-9._~=&-]++)?+"
).fullmatch


def is_safe(url: str) -> bool:
    """Whether `safe_url_string` surely gives back this very URL."""
    return _SAFE(url) is not None and "/." not in url


def install_fast_path(module: ModuleType) -> None:
    """Let a module that uses `safe_url_string` skip it for safe URLs."""
    original = module.safe_url_string
    if getattr(original, "short", False):
        return

    def safe_url_string(url: Any, *more: Any, **named: Any) -> Any:
        # What is no text, or has an encoding or quoting asked for by name, goes the long way.
        if type(url) is str and not named and _SAFE(url) is not None and "/." not in url:
            return url
        return original(url, *more, **named)

    safe_url_string.short = True  # type: ignore[attr-defined]
    module.safe_url_string = safe_url_string  # type: ignore[attr-defined]
