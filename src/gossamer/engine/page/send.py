"""How the request of a page is sent: with the options, cookies and variables of its site, and on condition that the page has changed."""

from __future__ import annotations

from collections.abc import Awaitable

from gossamer.engine.counters import DownloadCounters
from gossamer.engine.http.credentials import is_own_url
from gossamer.engine.http.url import referer
from gossamer.engine.page.versions import KnownVersion
from gossamer.engine.sites import ServedLayer, ServedSite
from gossamer.model.fetch import FetchError
from gossamer.model.page import PageRequest, Response
from gossamer.sites.secrets import WRITTEN, Secrets

NO_SECRETS = Secrets({})


def prepared(layer: ServedLayer, request: PageRequest, known: KnownVersion | None) -> PageRequest:
    """The request as it is sent, before the hook before_request. `known` is what is known of a conditional page."""
    options, cookies = layer.manner(request.url, request.before)
    sent = request.sent_with(
        {**cookies, **request.cookies} if cookies else request.cookies,
        layer.site.name,
        options,
        # A redirect does not change it.
        referer(request.trail[-1], request.url) if layer.referer and request.trail else "",
    )
    if known is not None and known.conditions:
        sent = sent._replace(headers={**request.headers, **known.conditions})
    return sent


def fetch(fetcher: DownloadCounters, site: ServedSite, sent: PageRequest) -> Awaitable[Response]:
    secrets = site.compiled.secrets
    if secrets is None and not sent.secrets:
        return fetcher.fetch(sent)
    return _fetch_revealed(fetcher, sent, secrets or NO_SECRETS)


async def _fetch_revealed(fetcher: DownloadCounters, sent: PageRequest, secrets: Secrets) -> Response:
    """Look up the variables of a request just before it is sent; nothing that comes back has their values in its URLs."""
    if sent.referer:
        sent = sent._replace(referer=WRITTEN.split(sent.referer)[0])
    try:
        response = await fetcher.fetch(secrets.revealed(sent, is_own_url(sent.url, sent.options)))
    except FetchError as error:
        raise FetchError(error.reason, secrets.hidden(error.detail), error.retriable, error.after) from None
    return secrets.response(response, sent)
