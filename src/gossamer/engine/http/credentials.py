"""What is a site's own to know (passwords, keys, sessions) is for its own hosts only. Pure."""

from __future__ import annotations

import re

from gossamer.engine.http.url import address, is_own
from gossamer.model.fetch import FetchOptions

_SECRET = re.compile(
    r"auth|cookie|token|secret|session|api-?key|password|passwd|signature|credential", re.IGNORECASE
).search


def is_secret(name: str) -> bool:
    """Whether a header of this name looks like one that not everybody may see."""
    return _SECRET(name) is not None


def is_own_url(url: str, options: FetchOptions) -> bool:
    """Whether a URL is of one of the site's own hosts, as far as these are known; FetchError for a URL that is none."""
    return not options.hosts or is_own(address(url)[0], options.hosts)


def without_credentials(options: FetchOptions) -> FetchOptions:
    """The same without password and without headers that look like secrets."""
    public = tuple((name, value) for name, value in options.headers if not is_secret(name))
    if len(public) == len(options.headers) and options.auth is None:
        return options
    return options._replace(headers=public, auth=None)
