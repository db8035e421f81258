"""Rows that several pages speak of: the pages of a thread, and layers that feed one table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import blake2b

from gossamer.model.table import LAST, UNREAD, PagePart, Table
from gossamer.sites.format import SiteSpec
from gossamer.sites.page import Reading

_MOST = 2**63 - 1
URL = "url"
_NUMBER = re.compile(r"[0-9]{1,11}")


def continues(site: SiteSpec, layer: str, facts: Iterable[str]) -> bool:
    """Whether further pages of the layer go on with the record of the first: a page is one record, has page turns, and is told apart by
    something that it says itself, and not by `facts` about the page. A page that names its own URL (`canonical`) may name the first's."""
    rule, key = site.layers[layer], site.store[layer].key
    if (rule.identity or site.identity).canonical:
        facts = set(facts) - {URL}
    turning = any(follow.pages is not None and follow.to in (None, layer) for follow in rule.follow)
    return turning and rule.records is None and rule.handler is None and not set(key) <= set(facts) - set(rule.fields)


class TableParts:
    """For each layer, what its rows are parts of. `described` are the tables of each layer, its own first."""

    def __init__(self, site: SiteSpec, described: Mapping[str, list[Table]], facts: Iterable[str]) -> None:
        tables = Counter(table.name for each in described.values() for table in each)
        columns = Counter((each[0].name, column.name) for each in described.values() for column in each[0].columns)
        self.templates: dict[str, PagePart] = {}
        """The part of each layer whose rows come in parts, without its page."""
        self.optional: dict[str, frozenset[str]] = {}
        """The columns that other layers fill, too: an empty value leaves them as they are."""
        for layer, (own, *below) in described.items():
            self.optional[layer] = frozenset(
                name for (table, name), count in columns.items() if table == own.name and count > 1 and name not in own.key
            )  # fmt: skip
            shared = any(tables[table.name] > 1 for table in below)
            whole = not continues(site, layer, facts)
            if shared or not whole:
                source = _number(layer) if shared else 0
                self.templates[layer] = PagePart(0, source=source, whole=whole, shared=shared)


def _number(name: str) -> int:
    return int.from_bytes(name.encode()[:64], "big") % (2**61 - 1) + 1


def page_number(fingerprint: int) -> int:
    """The number of a page among the pages of its row."""
    return (fingerprint & _MOST) or 1


def rank(url: str, last: bool) -> int:
    """Where a page stands among those of its thread, as far as one can tell: the last one turns to no other, further pages have longer
    URLs, or higher numbers in them."""
    numbers = sum(map(int, _NUMBER.findall(url)))
    return last * LAST + (min(len(url), 2**14 - 1) << 48) + min(numbers, 2**48 - 1)


def digest(value: object) -> str:
    return blake2b(repr(value).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def turns(reading: Reading, layer: str) -> tuple[int, ...]:
    """The further pages that a page turns to."""
    found = tuple(page_number(link.fingerprint) for link in reading.links if link.turn and link.layer == layer)
    return (*found, UNREAD) if reading.cut_off else found


def joined(tables: Iterable[Table]) -> list[Table]:
    """Each table once, with the columns of all layers that feed it."""
    found: dict[str, Table] = {}
    for table in tables:
        known = found.setdefault(table.name, table)
        names = {column.name for column in known.columns}
        more = tuple(column for column in table.columns if column.name not in names)
        found[table.name] = known._replace(columns=(*known.columns, *more))
    return list(found.values())
