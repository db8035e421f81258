"""Pages that stored rows ask for: `refresh` of a site file. Reads the database; knows nothing of the frontier."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from gossamer.engine.sites import ServedSite
from gossamer.errors import SiteError
from gossamer.model.page import PageRequest
from gossamer.sites.compile import CompiledSite
from gossamer.sites.file.params import filled, names_in
from gossamer.sites.format import RefreshRule
from gossamer.sites.tables.refresh import refresh_plan
from gossamer.store import in_thread

if TYPE_CHECKING:
    from gossamer.store import Store
    from gossamer.store.select import ColumnTest

BATCH = 500


def refreshed(store: Store, site: CompiledSite, rule: RefreshRule) -> Iterator[PageRequest | str]:
    """The pages that a rule asks for; a text says why a row has none. StoreError, StoreUnavailable."""
    plan, present = refresh_plan(site.site, rule), store.columns_in(rule.table)
    page = next((column for column in plan.pages if column in present), "")
    if present and not page and not plan.fixed:
        raise SiteError(
            f"refresh: the table {rule.table} has no column url, so it is not known which hosts its rows may name. "
            "Write the host in url:, as https://example.com/{id}."
        )
    passed = {name: column for name, column in plan.passed.items() if column in present or name in plan.named}
    names = [name for name in names_in(rule.url) if name not in site.params]
    columns = [*passed.values(), *(plan.columns.get(name, name) for name in names), *([page] if page else [])]
    depth = site.depths.get(rule.layer, 0)
    for row in store.select(rule.table, columns, tests(rule)):
        values = {**site.params, **{name: row[plan.columns.get(name, name)] for name in names}}
        before = row[page] if page else ""
        missing = [name for name in names if values[name] in (None, "")]
        if missing or not (before or plan.fixed):
            yield f"a row without {', '.join(missing) or page}"
            continue
        url = urljoin(before or "", filled(rule.url, values))
        if not url.startswith(("http://", "https://")):
            yield f"{url!r} is not a URL"
            continue
        inherited = {name: row[column] for name, column in passed.items() if row[column] is not None}
        link = site.link(url, rule.layer, inherited=inherited, depth=depth, priority=rule.priority)
        yield link._replace(trail=(before,) if before else ())


def tests(rule: RefreshRule) -> list[ColumnTest]:
    from gossamer.store.select import ColumnTest

    now, found = datetime.now(UTC), list[ColumnTest]()
    for column, condition in rule.where.items():
        said: dict[str, Any] = {name: getattr(condition, name) for name in condition.model_fields_set}
        for name, value in said.items():
            match name:
                case "is_" | "not_":
                    found.append(ColumnTest(column, name.rstrip("_"), value))
                case "newer":
                    found.append(ColumnTest(column, "since", now - timedelta(seconds=value)))
                case "older":
                    found.append(ColumnTest(column, "before", now - timedelta(seconds=value)))
                case _:
                    found.append(ColumnTest(column, name, value))
    return found


class Refresh:
    """The pages of a rule, read in a thread, some at a time, on a connection of its own."""

    def __init__(self, site: ServedSite, rule: RefreshRule) -> None:
        self._site, self._rule = site, rule

    async def __aenter__(self) -> AsyncIterator[PageRequest | str]:
        from gossamer.store import Store

        self._store: Store = await in_thread(Store.open, *self._site.rows_at)
        return self._pages()

    async def _pages(self) -> AsyncIterator[PageRequest | str]:
        found = refreshed(self._store, self._site.compiled, self._rule)
        while some := await in_thread(lambda: list(islice(found, BATCH))):
            for one in some:
                yield one

    async def __aexit__(self, *_: object) -> None:
        await in_thread(self._store.close)
