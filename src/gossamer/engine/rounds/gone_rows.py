"""Rows that a round did not bring: when it is over, they are gone, if it fetched all pages of their layers anew."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from gossamer.engine.records import RecordSink
from gossamer.engine.rounds.calls import RoundCalls
from gossamer.engine.rounds.start import ONE_LAYER, birth_of
from gossamer.engine.sites import ServedSite
from gossamer.errors import StoreError, StoreUnavailable, UnknownDocument
from gossamer.frontier import audit
from gossamer.frontier.contract import Frontier
from gossamer.model import RoundInfo
from gossamer.model.document import AUDIT
from gossamer.model.reply import GONE_UNKNOWN
from gossamer.model.table import Gap

logger = logging.getLogger(__name__)

AGAIN = 1.0


class GoneRows:
    """Settles, under the lease of a round's end, which rows are gone. May be done again by another worker. `only` is the one layer that is
    crawled, "" for all."""

    def __init__(self, calls: RoundCalls, record_sink: RecordSink, only: str) -> None:
        self._calls, self._record_sink, self._only = calls, record_sink, only

    async def settle(self, site: ServedSite, number: int, info: RoundInfo | None) -> dict[str, Any]:
        """What is to be noted of the round: how many rows are gone, and why it says nothing of some."""
        if not site.keeps_gone:
            return {}
        birth = await birth_of(self._calls, site.name)
        while True:
            try:
                layers, why = await self._whole(site, number, info, birth)
                why = "; ".join(filter(None, (why, _never(site))))
                count = await self._record_sink.settle_round(site, number, layers)
                break
            except StoreUnavailable as error:
                logger.warning("The end of round %d of %s waits for its database: %s", number, site.name, error)
                await asyncio.sleep(AGAIN)
            except StoreError as error:
                logger.error("Which rows of %s are gone since round %d is unknown: %s", site.name, number, error)
                return {"note": f"{GONE_UNKNOWN}: {error}"[:500]}
        return {"gone": count, **({"note": f"{GONE_UNKNOWN} {why}"[:500]} if why else {})}

    async def _whole(self, site: ServedSite, number: int, info: RoundInfo | None, birth: str) -> tuple[set[str], str]:
        """The layers of which the round fetched all pages, and why those are missing that each round should fetch."""
        spec = site.compiled.site
        # A function may bring rows of any table.
        bringing = {
            name
            for name, layer in spec.layers.items()
            if layer.handler or (name in spec.store and spec.store[name].gone)
        }
        wanted = site.compiled.whole_layers() & bringing
        if not wanted:
            return set(), ""
        if why := await self._why_none(site, number, info):
            return set(), f"in {_named(wanted)}: {why}"
        gaps = await self._record_sink.gaps(site, number)
        if why := _why_other(gaps, birth):
            return set(), f"in {_named(wanted)}: {why}"
        found = [gap for gap in gaps if gap.kind in ("gap", "empty")]
        # Other rows of these layers may be gone all the same.
        kept = "; ".join(f"in {gap.layer}: {gap.detail}" for gap in gaps if gap.kind == "kept" and gap.layer in wanted)
        lacking: set[str] = set()
        for gap in found:
            lacking |= site.compiled.reached([gap.layer]) if gap.layer else wanted
            if gap.kind == "empty":
                lacking.add(gap.layer)
        lacking &= wanted
        if not lacking:
            return wanted, kept
        reasons = "; ".join(dict.fromkeys(f"{gap.detail} ({gap.layer})" if gap.layer else gap.detail for gap in found))
        return wanted - lacking, "; ".join(filter(None, (f"in {_named(lacking)}: {reasons}", kept)))

    async def _why_none(self, site: ServedSite, number: int, info: RoundInfo | None) -> str:
        if self._only:
            return ONE_LAYER
        if info is None or info.round != number or info.began is None:
            return "the round is not known"
        if info.failed or info.dead:
            return f"{max(info.failed, info.dead):,} failed"
        with suppress(UnknownDocument):
            done = audit.read(await self._calls.patiently(Frontier.document_history, AUDIT, audit.NAME))
            lanes = {f"lane {site.name}.{name}" for name in site.lanes()}
            if any(entry.at >= info.began and entry.action == "drop" and entry.target in lanes for entry in done):
                return "a lane was dropped"
        return ""


def _why_other(gaps: Iterable[Gap], birth: str) -> str:
    """Why the round was not one by one version of the rules."""
    known = {kind: {gap.detail for gap in gaps if gap.kind == kind} for kind in ("birth", "start", "rules")}
    if known["birth"] - {birth}:
        return "another crawl fills the same tables"
    if not (known["birth"] and known["start"]):
        return "it began when the site did not say gone"
    if len(known["start"] | known["rules"]) > 1:
        return _difference(known["start"] | known["rules"])
    return ""


def _difference(rules: Iterable[str]) -> str:
    """What pages of one round were read by that was not always the same."""
    parts = [one.split(".") for one in rules]
    names = ("the site's file", "the code of the site's functions", "Gossamer")
    if any(len(one) != len(names) for one in parts):
        return "Gossamer changed while it ran"
    changed = [name for name, *values in zip(names, *parts, strict=True) if len({*values}) > 1]
    return f"{' and '.join(changed)} changed while it ran"


def _never(site: ServedSite) -> str:
    """Of which layers no round can tell it, hardly on purpose."""
    return "; ".join(
        f"in {name}: pages of {', '.join(because)} are fetched once and never again (seen)"
        for name, because in sorted(site.compiled.untold_layers().items())
    )


def _named(layers: Iterable[str]) -> str:
    return ", ".join(sorted(layers))
