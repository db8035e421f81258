"""Pages that wait in a lane which the site's file, as this worker has it, does not name."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from gossamer.engine.page import payload
from gossamer.engine.page.failure import PageFailed
from gossamer.engine.sites import ServedLayer, SiteSet
from gossamer.model import Ending, Lease, Settlement
from gossamer.model.page import PageRequest

logger = logging.getLogger(__name__)

NEWER_PAUSE = 5.0
"""Seconds until a page is offered again that this worker cannot read yet."""


class UnservedLanes:
    """Finds the layers of such pages. `is_behind` says whether this worker serves a site by an older file than the crawl has."""

    def __init__(self, site_set: SiteSet, is_behind: Callable[[str], Awaitable[bool]], payload_max: int) -> None:
        self._site_set, self._is_behind, self._payload_max = site_set, is_behind, payload_max
        self._told: set[str] = set()

    async def layer_of(self, lease: Lease, request: PageRequest) -> ServedLayer | Settlement | None:
        """The layer to read the page in, or its settlement: it waits, or is handed over to another layer. None: this worker does not serve
        the site any more; others may, or this one later. PageFailed where no layer fits."""
        name = lease.lane.rpartition(".")[0]
        site = self._site_set.sites.get(name)
        if site is not None and request.layer not in site.layers and await self._is_behind(name):
            # Only a newer version of the file has the layer: the page waits for a worker that serves that one.
            self._tell(lease.lane, name)
            return Settlement(lease, Ending.RETRY, delay=NEWER_PAUSE)
        # It may be served by another version of its file by now, or not any more.
        site = self._site_set.sites.get(name)
        if site is None:
            return None
        if request.layer in site.layers:
            return site.layers[request.layer]  # Only the lane is gone that it had for stored rows.
        found = site.compiled.layer_of(request.url)
        if found is None:
            raise PageFailed(
                "unknown_layer",
                f"The site {name} has no layer {request.layer}, and none matches {request.url}.",
                again=False,
            )
        layer = site.layers[found[0]]
        if request.always or request.task or request.again:
            return layer
        return self._handed_over(lease, layer, request)

    def _tell(self, lane: str, site: str) -> None:
        if lane not in self._told:
            self._told.add(lane)
            logger.warning(
                "Pages of %s wait: this worker serves %s by an older version of its file, which has no such layer.",
                lane,
                site,
            )

    def _handed_over(self, lease: Lease, layer: ServedLayer, request: PageRequest) -> Settlement:
        """The page belongs to another layer from now on. It passes by the memory of that one: both may have the same, in which it is seen.
        Records are those of one layer: one that this layer has of the page says when it is visited."""
        fingerprint = layer.site.compiled.fingerprint(layer.name, request.url, request.method, request.body)
        moved = request._replace(layer=layer.name, fingerprint=fingerprint, dont_filter=not layer.recorded)
        return Settlement(lease, Ending.REPLACED, [payload.pack(moved, layer.lane, self._payload_max)])
