"""What a response of the forum means for the crawl. Pure."""

from __future__ import annotations

import re
from urllib.parse import urljoin

from gossamer.demo.client import Response
from gossamer.frontier import codec
from gossamer.model import Ending, Feedback, Lease, Request, Settlement, Verdict, fingerprint, host_of

_LINK = re.compile(r'<a class="(\w+)" href="([^"]+)"')
_TITLE = re.compile(r'<h1 class="title">([^<]*)')
_AUTHOR = re.compile(r'<span class="author">([^<]*)')


def lane_of(path: str) -> str:
    """The layer a page of the forum belongs to: list, post or comment."""
    if "/comments/" in path:
        return "comment"
    return "post" if "/post/" in path else "list"


def request(group: str, url: str) -> Request:
    payload = codec.encode_request({"url": url})
    return Request(fingerprint(url), host_of(url), f"{group}.{lane_of(url)}", payload)


def url_of(lease: Lease) -> str:
    return str(codec.decode_request(lease.payload)["url"])


def settlement(group: str, lease: Lease, url: str, response: Response, latency: float) -> Settlement:
    """How the lease ends: with the page's links and item, a redirect's target, another try, or as a dead letter."""
    feedback = Feedback(Verdict.OK, latency)
    status = response.status
    if status in (429, 503):
        wait = response.headers.get("retry-after", "")
        feedback = Feedback(Verdict.THROTTLED, latency, float(wait) if wait.isdigit() else None)
        return Settlement(lease, Ending.RETRY, feedback=feedback)
    if status in (301, 302, 303, 307, 308):
        target = request(group, urljoin(url, response.headers.get("location", "")))
        return Settlement(lease, Ending.REPLACED, [target], feedback=feedback)
    if status != 200:
        return Settlement(lease, Ending.FAILED, feedback=feedback, reason=f"http_{status}", detail=url)
    text = response.body.decode("utf-8", "replace")
    links = [request(group, urljoin(url, to)) for _, to in _LINK.findall(text)]
    return Settlement(lease, Ending.DONE, links, items_of(url, text), feedback)


def items_of(url: str, text: str) -> list[bytes]:
    """One item for a post or a comment page, none for a list."""
    if lane_of(url) == "list":
        return []
    title, author = _TITLE.search(text), _AUTHOR.search(text)
    item = {"url": url, "title": title[1] if title else "", "author": author[1] if author else ""}
    return [codec.encode(item)]
