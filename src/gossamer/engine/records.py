"""Where records go. `SqlRecordSink` is the one there is; another needs no more than this."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from gossamer.engine.sites import ServedLayer, ServedSite
from gossamer.errors import StoreUnavailable
from gossamer.model.page import PageRequest, Record, Response
from gossamer.model.table import Gap, PageOutcome, Table
from gossamer.sites.tables.tables import PageRows


class RecordSink(Protocol):
    """Keeps the records of all sites of a worker. A page is settled only when its records are kept."""

    rounds: dict[str, int]
    """The round of each site, for records that name it."""

    @property
    def pause(self) -> float:
        """Seconds after which to fetch a page again whose records could not be kept in time."""

    async def prepare_together(self, sites: Iterable[ServedSite]) -> dict[str, StoreUnavailable]:
        """Prepare many sites at once. Returns those whose storage cannot be reached, by name. A site may still need `prepare`."""

    async def prepare(self, site: ServedSite) -> None:
        """Make ready for the records of a site; StoreError says why that fails."""

    def begun_anew(self, site: ServedSite) -> bool:
        """Whether the storage of a site was empty when it was prepared: what was kept before is gone."""

    async def archive(self, site: ServedSite, tables: Sequence[Table], number: int, birth: str) -> None:
        """A round begins, of the group that was born so: put aside tables that start empty in each round."""

    async def put(
        self,
        layer: ServedLayer,
        request: PageRequest,
        response: Response,
        records: list[Record],
        turns: Sequence[int] = (),
        whole: bool = True,
        has_records: bool = True,
        has_links: bool = False,
        all_links: bool = True,
    ) -> bool:
        """Return when the records are kept; False if that took too long. `turns` are the further pages of a thread (`sites.tables.parts`). Unless the page is `whole`, it may have
        further records. `has_records`: of whatever table, or none. `all_links`: the page leads to all that it should. StoreRefused for records that cannot be kept."""

    async def read_page(self, site: ServedSite, rows: PageRows, url: str) -> list[dict[str, Any]]:
        """The records of a page, from its rows. StoreError if that fails."""

    def as_read(self, site: ServedSite, rows: PageRows, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of a record as `read_page` gives them back."""

    async def put_absent(self, layer: ServedLayer, request: PageRequest, to: int = 0) -> bool:
        """Note that a page turn of a thread leads to no page of its own: it is not there, or redirects to the page `to`, which the
        thread may have. False if that took too long."""

    async def put_outcome(
        self, layer: ServedLayer, request: PageRequest, outcome: PageOutcome, turns: Sequence[int] = ()
    ) -> bool:
        """Note what became of a page without records, for the records that it had before; `turns` as in `put`. False if that took too long."""

    async def begin_page(self, site: ServedSite, number: int) -> bool:
        """Note that pages of a round are read by this version of the site's rules, before the first is. False if that took too long."""

    def is_outdated(self, layer: ServedLayer, request: PageRequest) -> bool:
        """Whether a page has to be read again, changed or not, as it was when its round began: what is kept of it may be another
        page's, which has lost it since."""

    async def note_gap(self, site: ServedSite, number: int, layer: str, why: str) -> bool:
        """Note that a round does not fetch all that the pages of a layer lead to ("": not all pages). False if that took too long."""

    async def begin_round(self, site: ServedSite, number: int, birth: str) -> None:
        """Note that a round begins, of the group that was born so."""

    async def settle_round(self, site: ServedSite, number: int, layers: Iterable[str]) -> int:
        """Note as gone what pages of these layers brought before a round, and not in it. Returns how many records are gone since this
        round."""

    async def gaps(self, site: ServedSite, number: int) -> list[Gap]:
        """What was noted of a round, and this version of the site's rules."""

    def outages(self) -> dict[str, str]:
        """The sites whose storage cannot be reached, with the reason."""

    def parked(self) -> int:
        """How many pages wait for storage that cannot be reached."""

    def give_up(self) -> None:
        """Let no page wait any longer: the worker ends, and others fetch it again."""

    async def close(self) -> None: ...
