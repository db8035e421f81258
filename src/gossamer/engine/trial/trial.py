"""One page of a site, fetched and read as a worker would, with every decision on the way. Nothing is queued or stored."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from gossamer.engine import hooks
from gossamer.engine.http.aiohttp_fetcher import AiohttpFetcher
from gossamer.engine.http.credentials import is_own_url
from gossamer.engine.http.redirect import location, next_hop
from gossamer.engine.http.robots import Robots
from gossamer.engine.http.scrapy_fetcher import ScrapyFetcher
from gossamer.engine.login import LoginFailed, SiteLogins
from gossamer.engine.page.reader import blocked_reading, read_page, records_to_store
from gossamer.engine.sites import ServedLayer, ServedSite
from gossamer.errors import SiteError, StoreRefused
from gossamer.model.fetch import FetchError
from gossamer.model.page import NOTHING, PageRequest, Record, Response
from gossamer.model.reply import BLOCKED, LOGIN_FAILED
from gossamer.sites.compile import CompiledSite
from gossamer.sites.downloader import Downloader, PageDropped
from gossamer.sites.extract.layer import compile_layer
from gossamer.sites.extract.validity import sign_of
from gossamer.sites.file.problems import did_you_mean
from gossamer.sites.format import SELECTORS, Follow
from gossamer.sites.page import Reading
from gossamer.store.values import CANONICAL

SEEDS = 10_000


class LayerChoice(NamedTuple):
    """The layer of a URL, and why."""

    layer: str
    why: str


class Hop(NamedTuple):
    """One request of a chain of redirects. `to` is where its response led, "" for the last."""

    method: str
    url: str
    status: int
    seconds: float
    to: str = ""


class TrialResult(NamedTuple):
    """The result for a page. `robots` is what robots.txt says about it, in words. Without a `document` there was no page, and `failure`
    says why; with one but without a `reading`, `failure` says what a worker would have done instead of reading it."""

    site: str
    chosen: LayerChoice
    url: str
    robots: str
    hops: tuple[Hop, ...]
    document: Response | None
    reading: Reading | None
    failure: str
    charset: str
    fetch_seconds: float
    read_seconds: float


def choose(site: CompiledSite, url: str, layer: str = "") -> LayerChoice:
    """The layer of a page: the given one, that of the seed, the one that matches, or else the first."""
    if layer:
        if layer not in site.layers:
            hint = did_you_mean(layer, site.layers)
            raise SiteError(f"The site {site.name} has no layer {layer}{f' ({hint})' if hint else ''}.")
        return LayerChoice(layer, "as asked")
    found, seed = site.layer_of(url), seed_of(site, url)
    if seed is not None and (found is None or found[0] != seed.layer):
        return LayerChoice(seed.layer, "the layer of the seed")
    if found is None:
        return LayerChoice(site.first_layer(url), "the first layer: no match fits")
    name, groups = found
    said = "".join(f", {group} {text}" for group, text in groups.items())
    return LayerChoice(name, f"match {site.layers[name].match}{said}")


def seed_of(site: CompiledSite, url: str, layer: str = "") -> PageRequest | None:
    """The first seed with this URL (and layer), of the first SEEDS: it may say how to request the page."""
    return next(
        (
            seed
            for seed in islice(site.seeds(), SEEDS)
            if seed.url == url and seed.layer in site.layers and layer in ("", seed.layer)
        ),
        None,
    )


class Trial:
    """Fetches pages and reads them. Has to be closed. `open_downloader` returns the downloader of sites with `engine: scrapy`."""

    def __init__(self, open_downloader: Callable[[], Downloader] | None = None) -> None:
        native = AiohttpFetcher(concurrency=4)
        self._fetcher = native if open_downloader is None else ScrapyFetcher(open_downloader, native)
        self._robots = Robots(self._fetcher.fetch)
        self._logins = SiteLogins(None, self._fetcher.fetch, self._fetcher.sessions)

    async def close(self) -> None:
        await self._robots.close()
        await self._fetcher.close()

    async def fetch(
        self, site: ServedSite, chosen: LayerChoice, url: str, inherited: Mapping[str, Any] = NOTHING
    ) -> TrialResult:
        """Fetch a page, follow its redirects, and read it."""
        layer = site.layers[chosen.layer]
        await self._prepare(site)
        seed = seed_of(site.compiled, url, chosen.layer)
        if seed is not None:
            inherited = {**seed.inherited, **inherited}
        link = seed or site.compiled.link(url, chosen.layer, inherited=inherited)
        options, cookies = layer.manner(link.url)
        request: PageRequest | None = link._replace(
            cookies={**cookies, **link.cookies}, inherited=inherited, site=site.name, options=options
        )
        hops: list[Hop] = []
        said, failure = "not asked", ""
        response: Response | None = None
        begun = time.perf_counter()
        try:
            if site.login is not None:
                await self._logins.ready(site)
            while request is not None:
                said, allowed = await self._word(site, layer, request.url, hops[-1].url if hops else "")
                if not allowed:
                    failure = f"robots.txt: {said}"
                    break
                if layer.before_request is not None:
                    request = await hooks.call(layer.before_request, request)
                    if request is None:
                        failure = "the hook before_request skipped it"
                        break
                response = await self._fetch(site, request)
                target = layer.redirect(response)
                if site.login is not None and (why := site.login.over(response, location(response))):
                    failure = f"the session is over right after the login: {why}"
                    break
                hops.append(
                    Hop(
                        request.method,
                        request.url,
                        response.status,
                        response.seconds,
                        target or "",
                    )
                )
                if target is None:
                    break
                if sign := layer.blocked(response, target):
                    failure = f"{BLOCKED}: {sign}, would be retried"
                    break
                request, response = (
                    next_hop(request, response, target, [hop.url for hop in hops[:-1]], layer.redirects),
                    None,
                )
                request = request._replace(options=layer.manner(request.url, hops[-1].url)[0])
        except LoginFailed as error:
            failure = f"{LOGIN_FAILED}{error.message}"
        except PageDropped:
            failure = "the Scrapy project wants nothing of it"
        except FetchError as error:
            failure = f"{error.reason}: {error.detail}{', would be retried' if error.retriable else ''}"
        seconds = time.perf_counter() - begun
        if response is None or failure:
            return TrialResult(site.name, chosen, url, said, tuple(hops), None, None, failure, "", seconds, 0.0)
        if there := site.compiled.redirected_layer(chosen.layer, url, response.url):
            failure = (
                f"it redirected to a page of the layer {there}, which is read there: {chosen.layer} has nothing of it"
            )
            return TrialResult(
                site.name,
                chosen,
                url,
                said,
                tuple(hops),
                response,
                None,
                failure,
                site.compiled.charset(chosen.layer, response),
                seconds,
                0.0,
            )
        tried = await self.read(site, chosen, response)
        return tried._replace(url=url, robots=said, hops=tuple(hops), fetch_seconds=seconds)

    async def read(self, site: ServedSite, chosen: LayerChoice, document: Response) -> TrialResult:
        """Read a page that was fetched before."""
        layer = site.layers[chosen.layer]
        sign = layer.blocked(document) if layer.after_download is None else sign_of(document)
        reading = blocked_reading(sign) if sign else None
        instead = "" if sign else _instead(layer, document.status)
        begun = time.perf_counter()
        if not (sign or instead):
            try:
                reading = await reading_of(layer, document)
            except Exception as error:
                # Of a function or hook: a worker makes a dead letter of it.
                instead = "".join(traceback.format_exception(error)).rstrip()
        seconds = time.perf_counter() - begun
        return TrialResult(
            site.name,
            chosen,
            document.url,
            "not asked",
            (),
            document,
            reading,
            instead,
            site.compiled.charset(chosen.layer, document),
            0.0,
            seconds,
        )

    async def _fetch(self, site: ServedSite, request: PageRequest) -> Response:
        secrets = site.compiled.secrets
        if secrets is None:
            return await self._fetcher.fetch(request)
        sent = secrets.revealed(request, is_own_url(request.url, request.options))
        return secrets.response(await self._fetcher.fetch(sent), request)

    async def _word(self, site: ServedSite, layer: ServedLayer, url: str, before: str) -> tuple[str, bool]:
        if not site.obeys:
            return "not asked (politeness.robots: ignore)", True
        word = await self._robots.ask(url, layer.agent, site.name, layer.manner(url, before)[0])
        if word.allowed:
            return "allowed", True
        if not word.after:
            return "forbidden", False
        why = f" ({word.why.reason}: {word.why.detail})" if word.why is not None else ""
        return f"could not be fetched{why}; no page of the host is fetched before it", False

    async def _prepare(self, site: ServedSite) -> None:
        if isinstance(self._fetcher, ScrapyFetcher):
            await self._fetcher.begin(site.name, (layer.options for layer in site.layers.values()))
        self._fetcher.sessions.proxies.define_all(site.name, site.compiled.site.proxies)


def _instead(layer: ServedLayer, status: int) -> str:
    """What a worker does with a response of this status instead of reading it."""
    if layer.retries_status(status):
        return f"status {status}: would be retried"
    if layer.is_gone(status):
        return f"status {status}: the page is gone, and nothing is read"
    return ""


async def reading_of(layer: ServedLayer, document: Response) -> Reading:
    """What a page says, after the hooks of its layer, as a worker stores it, with notes about what the tables would not take."""
    site = layer.site.compiled
    _, reading = await read_page(layer, document)
    records = await records_to_store(layer, reading.records)
    lost = site.overwritten(layer.name, records)
    said = [f"{name}: {many} are lost to others with the same key (store)" for name, many in lost.items()]
    return reading._replace(records=records, notes=(*reading.notes, *said, *refusals(site, records)))


def refusals(site: CompiledSite, records: Sequence[Record]) -> Iterator[str]:
    """What the tables would not take of records that a function made."""
    types = {table.name: {column.name: column.type for column in table.columns} for table in site.tables()}
    for record in records:
        if site.layers[record.layer].handler is None:
            continue
        try:
            for row in site.rows(record, {}):
                for name, value in row.values.items():
                    if value is not None and (type := types.get(row.table, {}).get(name)) in CANONICAL:
                        try:
                            CANONICAL[type](value)
                        except ValueError as error:
                            yield f"table {row.table}, column {name}: {error}; the page would be a dead letter"
        except StoreRefused as error:
            yield f"{error} The page would be a dead letter."


def rules_of(site: CompiledSite, layer: str, document: Response, links: Sequence[PageRequest]) -> list[str]:
    """For each link the rule of `follow` that found it, as follow[0] css a.post; "" if none did, as with handlers."""
    rule = site.layers[layer]
    if rule.handler is not None:
        return [""] * len(links)
    found: dict[tuple[str, int], str] = {}
    for place, follow in enumerate(rule.follow):
        alone = compile_layer(layer, rule.model_copy(update={"follow": (follow,)}), site)
        for link in alone.read(document).links:
            found.setdefault((link.layer, link.fingerprint), f"follow[{place}] {_shown(follow)}")
    together = [(link.layer, link.fingerprint) for link in compile_layer(layer, rule, site).read(document).links]
    if len(together) != len(links):  # A hook has changed them.
        together = [(link.layer, link.fingerprint) for link in links]
    return [found.get(key, "") for key in together]


def unfit(site: CompiledSite, layer: str, document: Response) -> Iterator[tuple[str, list[str]]]:
    """For each rule of `follow` that leaves the layer to `match`: the links that fit none, and so are not followed."""
    rule = site.layers[layer]
    for place, follow in enumerate(() if rule.handler is not None else rule.follow):
        if follow.to is None:
            anywhere = follow.model_copy(update={"to": layer, "pages": None})
            alone = compile_layer(layer, rule.model_copy(update={"follow": (anywhere,)}), site)
            urls = [link.url for link in alone.read(document).links if site.layer_of(link.url) is None]
            if urls:
                yield f"follow[{place}] {_shown(follow)}", urls


def _shown(follow: Follow) -> str:
    return next(f"{way} {text}" for way in (*SELECTORS, "url") if (text := getattr(follow, way)) is not None)
