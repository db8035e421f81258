"""Pages that redirect: the rules, as functions of a page and its layer that fetch and store nothing. Both engines have them from here.

**One page.** A page that redirects remains the page that was linked, wherever it leads: `hops` are the URLs that it had before, `marks`
its fingerprints there. Each hop is queued as a request of its own, which takes the place of the one before.

**Fingerprint** (`followed`). At each URL the page has the fingerprint of a link to it in the layer of the page. There are two exceptions.
At a URL of another layer (`other_layer`) it has one of its own: what is sold out and leads to its list must not keep the list from being
read. And a page turn that headers or cookies count keeps what tells it from other page turns with the same URL.

**Filter.** Where a page leads to is filtered like a link: if many pages lead to one URL, it is read once. Three kinds of pages are not
filtered: those that are fetched `always`; a page that leads to itself; and a page on its way.

**Itself** (`leads_to_itself`). A page leads to itself if it had the fingerprint before: some sites set a cookie, also on another page,
and send the visitor back. The first page turn of a rule that counts from 1 does so wherever it redirects: it may be the page that the
rule starts from, and has to be read for the second one to be found.

**On its way.** On a site with a login, all pages may lead to the login page by way of one URL. So a page that redirects is on its way
(`Way`) until a response shows what it leads to.

- A redirect: it goes on, on its way.
- The session is over, by this response or since another page has shown that: after the login it begins again, as it was where it set
  out (`begun_again`). A page may show that as often as it has retries.
- A page: it has arrived. If it is one to be filtered, it is asked for again there, filtered (`arrived`), and sets out from there should
  it redirect. Else it is read.

A page that is not on its way when the session is over is tried again where it is, like one that failed.
"""

from __future__ import annotations

from gossamer.engine.sites import ServedLayer
from gossamer.model.page import NOT_ON_ITS_WAY, PageRequest, Way


def followed(layer: ServedLayer, request: PageRequest, hop: PageRequest, session: int) -> PageRequest:
    """The request for what a page redirects to. `hop` is what `next_hop` made of the request that was sent; `session` is the number of the
    site's session, 0 on a site without login."""
    site, url, names = layer.site.compiled, hop.url, request.secrets
    if site.secrets is not None:
        # A page that sends its visitors on with a key in the address.
        url, more = site.secrets.named(url)
        names = (*names, *more)
    there = request._replace(
        url=url,
        secrets=names,
        method=hop.method,
        headers=hop.headers,
        cookies=request.cookies and hop.cookies,
        body=hop.body,
        fingerprint=site.redirected(layer.name, request.first, url, hop.method, hop.body) ^ _apart(layer, request),
        hops=[*request.hops, request.url],
        marks=[*request.marks, request.fingerprint],
        way=_way(request, session) if session else NOT_ON_ITS_WAY,
    )
    return there._replace(
        dont_filter=request.always or there.way.session > 0 or leads_to_itself(layer, there),
    )


def leads_to_itself(layer: ServedLayer, request: PageRequest) -> bool:
    """Whether a page that has redirected is the page that it was before."""
    return request.fingerprint in request.marks or (request.turn == 1 and layer.counts_from_one)


def other_layer(layer: ServedLayer, request: PageRequest, url: str) -> str | None:
    """The layer that a page is read in instead of its own if it has redirected to this URL."""
    if url == request.url and not request.hops:
        return None
    return layer.site.compiled.redirected_layer(layer.name, request.first, url)


def as_linked(layer: ServedLayer, request: PageRequest) -> int:
    """The fingerprint of a link to the URL that a page has redirected to: the one that the pages of its thread turn to."""
    plain = layer.site.compiled.fingerprint(layer.name, request.url, request.method, request.body)
    return plain ^ _apart(layer, request)


def arrived(layer: ServedLayer, request: PageRequest) -> PageRequest | None:
    """The request for a page that was on its way and is there, to be filtered; None if it is to be read as it is."""
    # Where it was since it set out, it was not filtered.
    filtered = request._replace(marks=request.marks[: request.way.start + 1])
    if request.always or leads_to_itself(layer, filtered):
        return None
    return request._replace(dont_filter=False, way=NOT_ON_ITS_WAY)


def begun_again(request: PageRequest, *, counts: bool) -> PageRequest:
    """The request with which a page that is on its way begins again. `counts` says that this page has shown that the session is over."""
    way = request.way
    return request._replace(
        url=request.hops[way.start],
        fingerprint=request.marks[way.start],
        method=way.method,
        headers=way.headers,
        cookies=way.cookies,
        body=way.body,
        hops=request.hops[: way.start],
        marks=request.marks[: way.start],
        dont_filter=True,
        way=Way(begun=way.begun + counts),
    )


def marked(layer: ServedLayer, request: PageRequest) -> PageRequest:
    """The request with its marks, which earlier versions did not queue with it."""
    if len(request.marks) == len(request.hops):
        return request
    site, apart = layer.site.compiled, _apart(layer, request)
    return request._replace(marks=[site.redirected(layer.name, request.first, hop) ^ apart for hop in request.hops])


def _way(request: PageRequest, session: int) -> Way:
    if request.way.session:
        return request.way._replace(session=session)
    return Way(
        session, len(request.hops), request.way.begun, request.headers, request.cookies, request.method, request.body
    )


def _apart(layer: ServedLayer, request: PageRequest) -> int:
    """What tells the fingerprint of a page turn from that of a link to its URL, where headers or cookies count the turns."""
    if not (layer.counts_in_headers and request.turn):
        return 0
    plain = layer.site.compiled.redirected(layer.name, request.first, request.url, request.method, request.body)
    return request.fingerprint ^ plain
