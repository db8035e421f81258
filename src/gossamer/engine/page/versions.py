"""Which version of its pages a site has read last, so that no worker need have the same one again. The crawl keeps it.

What is known of a page is read before it is fetched, with that of all pages that begin at about the same time. It is forgotten before another
version is stored, and noted when that one is settled: whenever a worker is killed, a page is fetched whole rather than missed.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import sys
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from gossamer.courier.transport import Ask
from gossamer.engine.page.conditional import (
    RememberedLinks,
    Validators,
    conditions,
    is_same_version,
    unpack_links,
    validators,
)
from gossamer.engine.sites import ServedLayer, ServedSite
from gossamer.errors import GossamerError
from gossamer.frontier.contract import Frontier
from gossamer.model import Lease, PageName
from gossamer.model.page import PageRequest
from gossamer.sites.format import SiteSpec

logger = logging.getLogger(__name__)

GATHER, NOTE = 0.005, 0.5
"""Seconds for which questions, and versions to be noted, are gathered for one call."""
MANY, MANY_BYTES = 500, 2**20
"""The most versions that are noted at once, and about how many bytes of them."""


class KnownVersion(NamedTuple):
    """What was known of a page before it was fetched, and the birth of the group then. `context` stands for what the page is read with
    now, `read_with` for what it was read with. `links` are what it led to, packed."""

    page: PageName
    born: str = ""
    validators: Validators | None = None
    read_with: str = ""
    links: bytes = b""
    context: str = ""

    @property
    def conditions(self) -> dict[str, str]:
        """The headers that ask for the page only if it has changed; none if it is not known, or is to be read with something else."""
        return conditions(self.validators) if self.validators is not None and self.read_with == self.context else {}

    def is_confirmed(self, headers: Mapping[str, str]) -> bool:
        """Whether a 304 with these headers may be about the version that is known."""
        return self.validators is None or is_same_version(self.validators, validators(headers))

    def remembered(self) -> RememberedLinks | None:
        """The links that it led to, None for none. DecodingError if they cannot be read."""
        return unpack_links(self.links) if self.links else None


class PageVersions:
    """Asks the frontier by `ask`; keeps up to `most` versions for each site, by page. A page that was read last by other rules, or for
    another database, is fetched whole: rules that come back must not take it for the one that they read before."""

    def __init__(self, ask: Ask, most: int) -> None:
        self._ask, self._most = ask, most
        self._editions: WeakKeyDictionary[ServedSite, str] = WeakKeyDictionary()
        self._questions: dict[str, dict[PageName, asyncio.Future[KnownVersion]]] = {}
        self._noted: dict[str, dict[PageName, tuple[str, bytes]]] = {}
        """Not yet with the frontier."""
        self._noted_bytes = 0
        self._unread: dict[str, set[int]] = {}
        """Pages that nobody asked for, by lane."""
        self._drops: dict[tuple[str, str], dict[PageName, bytes]] = {}
        """To be forgotten, by group and its birth."""
        self._dropping: asyncio.Future[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def enabled(self) -> bool:
        return self._most > 0

    async def begin(self, site: ServedSite, anew: bool) -> None:
        """A site is served by these rules from now on. All its pages are fetched whole if others were before, which may have written the
        same rows from other pages; or if its tables begin `anew`. GossamerError if the frontier cannot be told."""
        if anew and site.conditional:
            await self._ask(Frontier.forget_page_versions, site.name)
        # Workers may know one database by several addresses.
        rules = self._edition(site).partition(":")[0] if site.conditional else ""
        await self._ask(Frontier.check_page_versions, site.name, rules)

    async def known(self, site: ServedSite, lease: Lease, context: str = "") -> KnownVersion:
        """What is known of a page; nothing if the frontier cannot be asked. `context` stands for what it is read with (`context_of`)."""
        page = (lease.host, f"{lease.lane.rpartition('.')[2]}:{lease.fingerprint:x}")
        context = self._edition(site) + context
        noted = self._noted.get(site.name, {}).get(page)
        if noted is not None:
            return KnownVersion(page, noted[0], *_unpacked(noted[1]), context)
        if not self._questions:
            asyncio.get_running_loop().call_later(GATHER, self._begin_answer)
        questions = self._questions.setdefault(site.name, {})
        if page not in questions:
            questions[page] = asyncio.get_running_loop().create_future()
        return (await asyncio.shield(questions[page]))._replace(context=context)

    async def changed(self, site: ServedSite, known: KnownVersion) -> None:
        """Forget a page that came in another version, before that one is stored. GossamerError if the frontier cannot be told."""
        self._noted.get(site.name, {}).pop(known.page, None)
        if known.validators is None:
            return
        if self._dropping is None:
            loop = asyncio.get_running_loop()
            self._dropping = loop.create_future()
            loop.call_later(GATHER, self._begin_drop)
        self._drops.setdefault((site.name, known.born), {})[known.page] = b""
        await asyncio.shield(self._dropping)

    def note(self, site: ServedSite, known: KnownVersion, headers: Mapping[str, str], links: bytes) -> None:
        """Note the version of a page that is settled, and its links, packed."""
        found = validators(headers) if headers else known.validators or Validators()
        if not (found.etag or found.modified):
            return
        version = "\n".join((*found, known.context)).encode() + (b"\n" + links if links else b"")
        self._noted.setdefault(site.name, {})[known.page] = known.born, version
        self._noted_bytes += len(version)
        if len(self._noted[site.name]) >= MANY or self._noted_bytes >= MANY_BYTES:
            self._begin(self.flush())
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(NOTE, lambda: self._begin(self.flush()))

    def forget_texts(self, lane: str, fingerprints: Sequence[int]) -> None:
        """Nobody asked for a page, which its list says has changed: that it has is not to be forgotten."""
        if not self._unread:
            asyncio.get_running_loop().call_later(GATHER, lambda: self._begin(self._forget_texts()))
        self._unread.setdefault(lane, set()).update(fingerprints)

    def forget(self, site: str) -> None:
        """What is not yet with the frontier: other rules may see something else in what has not changed."""
        self._noted.pop(site, None)

    def rolled_back(self, sites: Iterable[str]) -> None:
        """The frontier may have an older state: pages that were settled may not be, and what they led to may be lost."""
        self._noted.clear()
        for site in sites:
            self._begin(self._forget_all(site))

    async def flush(self) -> None:
        """Tell the frontier what was noted."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._noted_bytes = 0
        for group, noted in list(self._noted.items()):
            told = dict(noted)
            for born in {born for born, _ in told.values()}:
                versions = {page: version for page, (known, version) in told.items() if known == born}
                with suppress(GossamerError):  # They are fetched whole, then.
                    await self._ask(Frontier.put_page_versions, group, born, versions, most=self._most)
            for page, what in told.items():
                if noted.get(page) is what:
                    del noted[page]

    async def close(self) -> None:
        await self.flush()
        await self._forget_texts()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _answer(self) -> None:
        questions, self._questions = self._questions, {}
        for group, asked in questions.items():
            born, found = "", dict[PageName, bytes]()
            try:
                born, found = await self._ask(Frontier.page_versions, group, list(asked))
            except GossamerError as error:
                logger.debug("Pages of %s are fetched whole: %s", group, error)
            for page, future in asked.items():
                if not future.done():
                    version = found.get(page)
                    future.set_result(KnownVersion(page, born, *(_unpacked(version) if version else ())))

    def _begin_answer(self) -> None:
        self._begin(self._answer())

    def _begin_drop(self) -> None:
        self._begin(self._drop())

    async def _drop(self) -> None:
        drops, done = self._drops, self._dropping
        self._drops, self._dropping = {}, None
        assert done is not None
        try:
            for (group, born), pages in drops.items():
                await self._ask(Frontier.put_page_versions, group, born, pages, most=self._most)
        except GossamerError as error:
            done.set_exception(error)
            done.exception()  # Whoever waited may be gone.
        else:
            done.set_result(None)

    async def _forget_texts(self) -> None:
        unread, self._unread = self._unread, {}
        for lane, fingerprints in unread.items():
            try:
                await self._ask(Frontier.forget_texts, lane, sorted(fingerprints))
            except GossamerError as error:
                logger.warning(
                    "%d pages of %s that were left out are fetched when they change again: %s",
                    len(fingerprints),
                    lane,
                    error,
                )

    async def _forget_all(self, site: str) -> None:
        with suppress(GossamerError):
            await self._ask(Frontier.forget_page_versions, site)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _edition(self, site: ServedSite) -> str:
        known = self._editions.get(site)
        if known is None:
            known = self._editions[site] = edition(site)
        return known


def edition(site: ServedSite) -> str:
    """A name for the rules of a site, with the functions that they name, and one for where its rows go."""
    spec = site.compiled.site
    # With the form in which links are kept: a newer worker must not misread those of an older one.
    digest = hashlib.sha256(repr((spec, PageRequest._fields)).encode("utf-8", "backslashreplace"))
    for code in _code_of(spec):
        digest.update(code)
    rows = hashlib.sha256(site.rows_at.url.encode("utf-8", "backslashreplace")).hexdigest()[:12]
    return f"{digest.hexdigest()[:12]}:{rows}:"


def rules_of(site: ServedSite) -> str:
    """What the pages of a site are read by: a digest of its file, one of the functions that it names, and one of the form of requests, which
    versions of Gossamer may change."""
    spec = site.compiled.site
    parts = (
        repr(spec.model_copy(update={"code": {}})).encode("utf-8", "backslashreplace"),
        b"".join(_code_of(spec)),
        repr(PageRequest._fields).encode(),
    )
    return ".".join(hashlib.sha256(part).hexdigest()[:12] for part in parts)


def _code_of(spec: SiteSpec) -> Iterable[bytes]:
    """The source of the functions that a site names."""
    hooks = [spec.hooks, *(layer.hooks for layer in spec.layers.values())]
    named = {value for one in hooks for value in vars(one).values() if value}
    named |= {layer.handler for layer in spec.layers.values() if layer.handler}
    for module in sorted({str(name).partition(":")[0] for name in named}):
        file = getattr(sys.modules.get(module), "__file__", None)
        with suppress(OSError):
            yield Path(file).read_bytes() if file else module.encode()


def context_of(request: PageRequest, layer: ServedLayer) -> str:
    """A text for what else than its body a page is read with: what it inherits, the page that led to it where its row has that, its place
    among page turns and in the depth of the site, where these decide what is followed, and the page that redirected to it, where that has
    its rows."""
    said: list[Any] = [*sorted(request.inherited.items()), *(request.trail[-1:] if layer.stores_parent else ())]
    if request.turn:
        said.append(request.turn)
    if layer.counts_depth:
        said.append((request.depth,))
    if request.hops and layer.site.keeps_gone:
        said.append([request.mark])
    return hashlib.sha256(repr(said).encode("utf-8", "backslashreplace")).hexdigest()[:12] if said else ""


def _unpacked(version: bytes) -> tuple[Validators, str, bytes]:
    """The version, what the page was read with, and its links."""
    etag, modified, context, links = (*version.split(b"\n", 3), b"", b"", b"")[:4]
    return (
        Validators(etag.decode("ascii", "replace"), modified.decode("ascii", "replace")),
        context.decode("ascii", "replace"),
        links,
    )
