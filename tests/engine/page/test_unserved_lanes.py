"""Pages of a layer that the site's file does not have are read by the version of the file that is served when that is clear."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from gossamer.engine.page.failure import PageFailed
from gossamer.engine.page.payload import unpack
from gossamer.engine.page.unserved_lanes import UnservedLanes
from gossamer.engine.sites import ServedLayer, ServedSite, SiteSet
from gossamer.model import Ending, Lease, Settlement
from gossamer.model.page import PageRequest
from gossamer.sites.compile import compile_site
from gossamer.sites.file.load import load_text

LEASE = Lease(0, 1, "i", "n", "pages.more", "s.example", 0, 1, b"", 1, False, 60.0, 60.0)
PAGE = PageRequest("http://s.example/page/2", layer="more", fingerprint=1)


def served(layers: str) -> ServedSite:
    (spec,) = load_text(f"site: pages\nseeds: http://s.example/page/1\nlayers: {layers}\n")
    return ServedSite(compile_site(spec))


OLD = "{page: {match: ^/page/, fields: {title: title}}}"
NEW = "{more: {match: ^/page/2, fields: {title: title}}, page: {match: ^/page/, fields: {title: title}}}"
NONE_FITS = "{list: {match: ^/list, fields: {title: title}}}"


def answering(behind: bool, meanwhile: Callable[[], None] = lambda: None) -> Callable[[str], Awaitable[bool]]:
    async def is_behind(_: str) -> bool:
        meanwhile()
        return behind

    return is_behind


async def found(sites: SiteSet, is_behind: Callable[[str], Awaitable[bool]]) -> ServedLayer | Settlement | None:
    return await UnservedLanes(sites, is_behind, 1_000_000).layer_of(LEASE, PAGE)


def serving(layers: str) -> SiteSet:
    sites = SiteSet()
    sites.put(served(layers))
    return sites


async def test_a_page_waits_for_a_worker_with_the_newer_file() -> None:
    settlement = await found(serving(OLD), answering(True))
    assert isinstance(settlement, Settlement)
    assert settlement.ending is Ending.RETRY


async def test_a_page_whose_layer_is_gone_goes_to_the_one_that_fits() -> None:
    settlement = await found(serving(OLD), answering(False))
    assert isinstance(settlement, Settlement)
    assert settlement.ending is Ending.REPLACED
    (child,) = settlement.add
    assert child.lane == "pages.page"
    assert unpack(LEASE._replace(lane=child.lane, payload=child.payload)).url == PAGE.url


async def test_a_page_that_no_layer_fits_fails() -> None:
    with pytest.raises(PageFailed) as failed:
        await found(serving(NONE_FITS), answering(False))
    assert (failed.value.reason, failed.value.again) == ("unknown_layer", False)


@pytest.mark.parametrize("before", [OLD, NONE_FITS])
async def test_a_page_whose_layer_came_while_the_frontier_was_asked_is_read_in_it(before: str) -> None:
    sites, newer = serving(before), served(NEW)
    assert await found(sites, answering(False, lambda: sites.put(newer))) is newer.layers["more"]


@pytest.mark.parametrize("before", [OLD, NONE_FITS])
async def test_a_page_whose_site_went_while_the_frontier_was_asked_is_given_back(before: str) -> None:
    sites = serving(before)
    assert await found(sites, answering(False, lambda: sites.drop("pages"))) is None


async def test_a_page_of_a_site_that_is_not_served_is_given_back() -> None:
    assert await found(SiteSet(), answering(True)) is None
