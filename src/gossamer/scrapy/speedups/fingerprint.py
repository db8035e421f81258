"""Request fingerprints: the bytes of Scrapy's default fingerprinter, for most URLs without its cost.

Nearly all of that cost is `w3lib.url.canonicalize_url`, which takes a URL apart and puts it together again. A URL made only of
parts that come back as they went in needs none of it: its canonical form is the same text with the query's arguments in
order. `fast_path` admits such URLs and no others, whatever the version of w3lib; the rest takes the long way through w3lib.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import cache, lru_cache
from hashlib import sha1
from typing import TYPE_CHECKING, Self
from weakref import WeakKeyDictionary

from scrapy import Request
from scrapy.utils.python import to_unicode
from scrapy.utils.request import RequestFingerprinter, RequestFingerprinterProtocol
from scrapy.utils.request import fingerprint as scrapy_fingerprint
from w3lib.url import canonicalize_url

from gossamer.errors import InvalidRequest
from gossamer.scrapy.seen.memory import number_of, number_of_custom
from gossamer.scrapy.settings import loaded
from gossamer.sites.url.canonical import fast_path, without_default_port

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

REMEMBERED = 32_768
"""How many URLs' digests a process keeps: about 12 MB when full."""
LONG = 2_048
"""A longer URL (a `data:` URL may have megabytes) is not kept."""


def canonical(url: str) -> str:
    """What `canonicalize_url(url)` gives, sooner for most URLs."""
    return fast_path(url) or canonicalize_url(url)


# Scrapy hashes sorted JSON. This is where the URL of a GET without a body begins in it.
_PLAIN_GET = sha1(b'{"body": "", "headers": {}, "method": "GET", "url": ')


def _digest(url: str) -> bytes:
    short = fast_path(url)
    hashed = _PLAIN_GET.copy()
    hashed.update(f'"{short}"}}'.encode() if short else f"{json.dumps(canonicalize_url(url))}}}".encode())
    return hashed.digest()


def _digest_without_default_port(url: str) -> bytes:
    hashed = _PLAIN_GET.copy()
    hashed.update(f"{json.dumps(without_default_port(canonical(url)))}}}".encode())
    return hashed.digest()


# One for the whole process, however many crawlers it runs.
_digests = {
    False: lru_cache(REMEMBERED)(_digest),
    True: lru_cache(REMEMBERED)(_digest_without_default_port),
}
_bodied: dict[bool, WeakKeyDictionary[Request, bytes]] = {False: WeakKeyDictionary(), True: WeakKeyDictionary()}


class Fingerprinter:
    """Scrapy's default fingerprints, also as REQUEST_FINGERPRINTER_CLASS.

    `default_ports` (GOSSAMER_FINGERPRINT_DEFAULT_PORTS) takes http://host:80/ and http://host/ for the same, likewise 443
    of https; the digests of URLs that name such a port are then no longer Scrapy's. A request with `verbatim_url` is taken by
    its word, where Scrapy knows that key.
    """

    def __init__(self, default_ports: bool = False) -> None:
        self._portless = default_ports
        self._kept = _digests[default_ports]
        self._made = _digest_without_default_port if default_ports else _digest
        if not _agrees():
            # A Scrapy that we do not know: its word counts.
            logger.warning("This version of Scrapy makes fingerprints of its own kind; they are used, at its speed.")
            self.fingerprint = scrapy_fingerprint  # type: ignore[method-assign]

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(loaded(crawler.settings)["GOSSAMER_FINGERPRINT_DEFAULT_PORTS"])

    def fingerprint(self, request: Request) -> bytes:
        if request.method != "GET" or request.body or request.meta.get("verbatim_url"):
            return self._unusual(request)
        url = request.url
        return self._kept(url) if len(url) <= LONG else self._made(url)

    def number(self, request: Request) -> int:
        """The first 64 bits of the fingerprint: what the frontier knows the request by."""
        return number_of(self.fingerprint(request))

    def _unusual(self, request: Request) -> bytes:
        if request.meta.get("verbatim_url"):
            return scrapy_fingerprint(request)
        # By the request, as Scrapy does: a body may be too large to be kept, or to be hashed twice.
        known = _bodied[self._portless]
        digest = known.get(request)
        if digest is None:
            digest = known[request] = _digest_of_all(request, self._portless)
        return digest


def _digest_of_all(request: Request, default_ports: bool) -> bytes:
    url = canonical(request.url)
    fields = {
        "body": (request.body or b"").hex(),
        "headers": {},
        "method": to_unicode(request.method),
        "url": without_default_port(url) if default_ports else url,
    }
    return sha1(json.dumps(fields).encode()).digest()


@cache
def _agrees() -> bool:
    """Whether this version of Scrapy makes the fingerprints that are made here."""
    urls = ("http://example.com/a?b=2&a=1#c", "https://example.com:8443/a%20b", "http://EXAMPLE.com")
    bare, form = [Request(url) for url in urls], Request(urls[0], method="POST", body=b"c")
    return all(scrapy_fingerprint(request) == _digest(request.url) for request in bare) and (
        scrapy_fingerprint(form) == _digest_of_all(form, default_ports=False)
    )


def number_by(fingerprinter: RequestFingerprinterProtocol, default_ports: bool = False) -> Callable[[Request], int]:
    """How requests are numbered for the frontier under a project's fingerprinter (`crawler.request_fingerprinter`).

    Scrapy's default one is replaced by `Fingerprinter(default_ports)`, which gives the same. Any other is asked, and all of
    what it answers counts: it may be shorter than 64 bits, or a text that begins alike for all requests.
    """
    if type(fingerprinter) is Fingerprinter:
        return fingerprinter.number
    if type(fingerprinter) is RequestFingerprinter:
        return Fingerprinter(default_ports).number

    def number(request: Request) -> int:
        answer = fingerprinter.fingerprint(request)
        if not isinstance(answer, bytes):
            name = type(fingerprinter).__qualname__
            raise InvalidRequest(f"{name}.fingerprint() returned {answer!r:.80} for {request}. It must return bytes.")
        return number_of_custom(answer)

    return number
