"""A page that was tried, for people and for programs."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from gossamer.cli import output
from gossamer.engine.trial.cases import reading_json
from gossamer.engine.trial.trial import TrialResult, rules_of, seed_of, unfit
from gossamer.model import host_of
from gossamer.model.page import PageRequest
from gossamer.sites.compile import CompiledSite
from gossamer.sites.crossing import crosses

LONGEST = 300
"""Characters of a value that are shown to people."""
HOSTS = 5
"""Other hosts that are named."""
ENDS = 60
"""Characters of a link's body that are shown, from its beginning and from its end."""


def as_json(site: CompiledSite, tried: TrialResult) -> dict[str, Any]:
    reading = reading_json(tried.reading) if tried.reading is not None else None
    if reading is not None and tried.document is not None and tried.reading is not None:
        rules = rules_of(site, tried.chosen.layer, tried.document, tried.reading.links)
        reading["links"] = [{**link, "rule": rule} for link, rule in zip(reading["links"], rules, strict=True)]
    return {
        "site": tried.site,
        **tried.chosen._asdict(),
        "url": tried.url,
        "canonical": site.canonical(tried.chosen.layer, tried.url),
        "fingerprint": _fingerprint(site, tried),
        "robots": tried.robots,
        "hops": [hop._asdict() for hop in tried.hops],
        "status": tried.document.status if tried.document is not None else None,
        "size": len(tried.document.body) if tried.document is not None else None,
        "charset": tried.charset,
        "fetch_seconds": round(tried.fetch_seconds, 6),
        "read_seconds": round(tried.read_seconds, 6),
        "failure": tried.failure,
        "reading": reading,
    }


def write(site: CompiledSite, tried: TrialResult) -> None:
    line = output.write_line
    line(f"site {tried.site}, layer {tried.chosen.layer}: {tried.chosen.why}")
    line(f"identity: {site.canonical(tried.chosen.layer, tried.url)}")
    line(f"robots.txt: {tried.robots}")
    for hop in tried.hops:
        line(f"{hop.method} {hop.url}: {hop.status}, {hop.seconds:.3f} s{f', leads to {hop.to}' if hop.to else ''}")
    document, reading = tried.document, tried.reading
    if document is not None:
        written = f", {tried.charset}" if tried.charset else ""
        line(f"{len(document.body):,} bytes{written}, fetched in {tried.fetch_seconds:.3f} s, read in {tried.read_seconds * 1000:.1f} ms")  # fmt: skip
    if reading is None:
        line(f"not read: {tried.failure}")
        return
    if document is not None and (own := site.own_url(tried.chosen.layer, document)) != document.url:
        line(f"stored as: {own} (identity.canonical)")
    line(f"verdict: {reading.verdict.value}{f': {reading.reason}' if reading.reason else ''}")
    for number, record in enumerate(reading.records):
        line("")
        other = f", of layer {record.layer}" if record.layer != tried.chosen.layer else ""
        if len(reading.records) > 1 or other:
            line(f"record {number + 1} of {len(reading.records)}{other}")
        output.write_table(
            ("field", "type", "value"),
            [(name, _type(value), _short(value)) for name, value in record.fields.items()],
        )
    if reading.links and document is not None:
        line("")
        rules = rules_of(site, tried.chosen.layer, document, reading.links)
        dated = any(link.changed for link in reading.links)
        output.write_table(
            ("to", "rule", "link", "passes", *(("changed",) if dated else ())),
            [
                (link.layer, rule, _link(link), _passes(link.inherited), *((link.changed,) if dated else ()))
                for link, rule in zip(reading.links, rules, strict=True)
            ],
        )
        _write_others([host_of(x.url) for x in reading.links if not crosses(x.layer) and not site.is_own(x.url)])
    if document is not None:
        for rule, urls in unfit(site, tried.chosen.layer, document):
            line("")
            which = f"{output.counted(len(urls), 'link')} that no match fits, as {urls[0]}"
            away = not any(map(site.is_own, urls))
            line(f"not followed: {rule}: {which}{' (another host than that of the seeds)' if away else ''}")
    if reading.missing:
        line("")
        line(f"missing: {', '.join(reading.missing)}")
    for note in reading.notes:
        line(f"note: {note}")


def _write_others(hosts: Sequence[str]) -> None:
    """Say to which other hosts links lead: from there the crawl may go on."""
    if not hosts:
        return
    known = Counter(hosts).most_common()
    most = ", ".join(f"{host} ({number:,})" for host, number in known[:HOSTS])
    more = f" and {len(known) - HOSTS:,} more" if len(known) > HOSTS else ""
    output.write_line("")
    output.write_line(
        f"other hosts than those of the seeds: {output.counted(len(hosts), 'link')}, to {most}{more}; "
        "with hosts: own, a rule skips such links"
    )


def _passes(inherited: Mapping[str, Any]) -> str:
    """What a link passes on, without the marks of the engine."""
    named = {name: value for name, value in inherited.items() if name[:1] != "="}
    return _short(named) if named else ""


def _fingerprint(site: CompiledSite, tried: TrialResult) -> str:
    """As `gossamer seen forget` takes it."""
    layer = tried.chosen.layer
    return f"{(seed_of(site, tried.url, layer) or site.link(tried.url, layer)).fingerprint:016x}"


def _link(link: PageRequest) -> str:
    """With the beginning and the end of its body: links with one URL differ by it."""
    sent = link.body.decode("utf-8", "backslashreplace")
    if len(sent) > 2 * ENDS:
        sent = f"{sent[:ENDS]} … {sent[-ENDS:]}"
    return " ".join(filter(None, (link.method if link.method != "GET" else "", link.url, sent)))


def _type(value: Any) -> str:
    """As site files call it."""
    name = type(value).__name__
    return "" if value is None else {"str": "text", "Decimal": "decimal", "dict": "record"}.get(name, name)


def _said(value: Any) -> Any:
    """As people write it: a text, or what JSON has."""
    if isinstance(value, dict):
        return {str(name): _said(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_said(inner) for inner in value]
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, Decimal) or (isinstance(value, float) and not math.isfinite(value)):
        return str(value)
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _short(value: Any) -> str:
    said = _said(value)
    text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters)"
