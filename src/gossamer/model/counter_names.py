"""The names under which both engines count what they fetch: written by workers, read by everything that shows a crawl.

They are counters of a group, like those of users, and travel with the worker's exchanges. A worker in Scrapy sends Scrapy's own
stats too; those that mean the same are sent under these names besides (`of_scrapy`).
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cache

HEAD = "gossamer/"
REQUESTS = "gossamer/requests"
"""Requests that were sent: pages, robots.txt, retries and redirects."""
REQUEST_BYTES = "gossamer/request_bytes"
RESPONSES = "gossamer/responses/"
"""Then the status."""
RESPONSE_BYTES = "gossamer/response_bytes"
"""Bytes of responses as they were received."""
ERRORS = "gossamer/download_errors/"
"""Downloads without a response; then the class or the reason of the error."""
RETRIES = "gossamer/retries"
"""Pages that were put back, to be fetched again after a failure."""
FILTERED = "gossamer/filtered"
"""Requests that a worker found and did not queue: seen before."""
ITEMS = "gossamer/items"
"""Items of no page that were kept elsewhere than in the stream. The frontier adds them to the group's items; a page says in its
settlement how many it brought (`Settlement.kept`)."""
EXCHANGES, EXCHANGE_SECONDS = "gossamer/exchange_count", "gossamer/exchange_seconds"
ROBOTS_DENIED, LEFT_OUT = "site/robots_denied", "site/left_out"
"""Pages that robots.txt forbids, and those that a hook or middleware dropped: they ended without being fetched."""
BLOCKED_PAGES = "site/blocked"
"""Responses that were walls instead of pages, each try."""
GONE = "site/gone"
"""Pages that do not exist (404, 410)."""
LINKED_GONE, LINKED_DENIED = "site/gone/", "site/robots_denied/"
"""Those of a layer that do not exist, or that robots.txt forbids, and that are no seeds, nor end pages that a rule counts. Then the layer."""
SEEDS_READ = "site/seeds_read"
SEEDS_UNREAD = "site/seeds_unread/"
"""Then the reason."""
PAGES_READ, MISSING, EMPTY, UNREADABLE = "site/read/", "site/missing/", "site/empty/", "site/unreadable/"
"""Pages of a layer that were read; of them those on which a field was not found, in any record or in all of them; those on which a value
of it could not be converted. Then the layer, or LAYER.FIELD."""
COVERAGE = "coverage/"
"""What a round had of the fields of a layer (see `Frontier.coverage`). Then ROUND|LAYER or ROUND|LAYER.FIELD, and what is counted."""
LACKING, ROWS = "site/lacking/", "site/rows/"
"""Pages of a layer that lack a required field, and the rows that its pages brought to a database. Then the layer."""
UNLINKED = "site/unlinked/"
"""Pages on which a rule of `follow` made no link somewhere because a {name} of it is empty. Then LAYER.follow[N]."""
TEXTLESS = "site/textless/"
"""Pages on which the `changed` of a rule of `follow` was empty for a link. Then LAYER.follow[N]."""
LINKLESS = "site/linkless/"
"""Pages on which a rule of `follow` that looks for links on each of them found none. Then LAYER.follow[N]."""
BROKEN = "site/broken/"
"""Pages of XML that are not well-formed, and of CSV with rows of other lengths than the header: they may have been read in part. Then the layer, or what it is: sitemap, feed."""
DOUBTED, DAMAGED = "site/charset_guessed/", "site/charset_replaced/"
"""Pages whose character set was guessed, or is another than they say; pages with characters that were replaced. Then the layer."""
OVERLONG = "site/overlong/"
"""Pages on which a rule of `follow` left out links that are longer than URLs may be. Then LAYER.follow[N], or LAYER.follow of a function."""
LIMITED = "site/limited/"
"""Pages on which a rule of `follow` left out links because of `limit`, `pages` or `limits.depth`. Then LAYER.follow[N]."""
SKIPPED = "site/skipped/"
"""Pages that have as many records as the page before, and fewer than a rule of `follow` counts for each ({turn*20}): those between are left
out, perhaps. Then LAYER.follow[N]."""
NOWHERE = "site/nowhere/"
"""Entries without an address. Then what they are of: sitemap, feed."""
CONTESTED = "site/contested/"
"""Pages on which a rule of `follow` has links that an earlier rule leads to another layer: they are read there. Then LAYER.follow[N]."""
REDIRECTED = "site/redirected/"
"""Pages of a layer that redirected to a URL of another layer: they are read there, and not here. Then the layer."""
REDIRECTED_SEEN = "site/redirected_seen/"
"""Pages of a layer that redirected to a page of it which was seen before, and is not read again. Then the layer."""
OVERWRITTEN = "site/overwritten/"
"""Records that others of the same page with the same key replaced. Then the layer, or LAYER.FIELD for nested ones."""
REPLACED = "site/replaced/"
"""Records that replaced those of another page of the round with the same key and other values, as far as one worker has stored both. Then
the layer."""
SEEDS_EMPTY = "site/seeds_empty"
"""Seeds that were read and have neither records nor links."""
OUTAGES = "gossamer/outages"
WENT_BACK = "gossamer/went_back"
"""Times that a worker found the server in an older state."""
TASKS, TASKS_BAD = "gossamer/tasks", "gossamer/tasks_bad"
"""Tasks that were taken, and those of them that became dead letters."""
LATENCY = "gossamer/metric/histogram/fetch_latency_seconds"
"""From when a request was sent until its response: a histogram in the form of user metrics."""
SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Bounds that suit how long something took."""

_SCRAPY = {
    "downloader/request_count": REQUESTS,
    "downloader/request_bytes": REQUEST_BYTES,
    "downloader/response_bytes": RESPONSE_BYTES,
    "dupefilter/filtered": FILTERED,
    "retry/count": RETRIES,
}
_SCRAPY_HEADS = {"downloader/response_status_count/": RESPONSES, "downloader/exception_type_count/": ERRORS}
_BUCKETS = [f"{LATENCY}||le={bound:g}" for bound in SECONDS]
LATENCY_BUCKETS = tuple(_BUCKETS)
_SUM, _COUNT = f"{LATENCY}||sum", f"{LATENCY}||count"


@cache
def response(status: int) -> str:
    """The counter of responses with a status."""
    return f"{RESPONSES}{status}"


def latency(seconds: float) -> tuple[tuple[str, float], ...]:
    """What one observation adds, and to which counters."""
    place = bisect_left(SECONDS, seconds)
    added = ((_SUM, seconds), (_COUNT, 1.0))
    return added if place == len(_BUCKETS) else ((_BUCKETS[place], 1.0), *added)


def of_scrapy(stat: str) -> str:
    """The name here of a stat of Scrapy's; "" if it has none."""
    known = _SCRAPY.get(stat)
    if known is not None:
        return known
    for head, ours in _SCRAPY_HEADS.items():
        if stat.startswith(head):
            return ours + stat[len(head) :]
    return ""
