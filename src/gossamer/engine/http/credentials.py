"""Passwords, keys and sessions of a site, which only its own hosts may see."""

from __future__ import annotations

import re

from gossamer.engine.http.url import address, is_own
from gossamer.model.fetch import FetchOptions

_SECRET = re.compile(
    r"auth|cookie|token|secret|session|api-?key|password|passwd|signature|credential", re.IGNORECASE
).search


def is_secret(name: str) -> bool:
    """Whether a header of this name looks like a secret."""
    return _SECRET(name) is not None


def is_own_url(url: str, options: FetchOptions) -> bool:
    """Whether a URL is of one of the site's own hosts, as far as these are known; FetchError for an invalid URL."""
    return not options.hosts or is_own(address(url)[0], options.hosts)


def without_credentials(options: FetchOptions) -> FetchOptions:
    """The options without password and without headers that look like secrets."""
    public = tuple((name, value) for name, value in options.headers if not is_secret(name))
    if len(public) == len(options.headers) and options.auth is None:
        return options
    return options._replace(headers=public, auth=None)
