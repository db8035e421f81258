"""Page requests as payloads of the frontier, and back."""

from __future__ import annotations

from typing import Any

from gossamer.courier.task.report import CARRIED
from gossamer.errors import DecodingError
from gossamer.frontier import codec
from gossamer.model import DeadLetter, Lease, PageInfo, Request, changed_digest, host_of
from gossamer.model.page import NOT_ON_ITS_WAY, NOTHING, PageRequest, Way
from gossamer.sites.plan import AGAIN

TEXT_MAX = 40
"""The most characters of `changed` that are queued with a page as they are; a longer text becomes its digest."""


def pack(request: PageRequest, lane: str, limit: int | None = None) -> Request:
    """A page request as the frontier keeps it; EncodingError where it cannot be kept, ValueError where it has no host."""
    meta: dict[str, Any] = {}
    if request.inherited:
        meta["inherited"] = request.inherited
    if request.depth:
        meta["depth"] = request.depth
    if request.turn:
        meta["turn"] = request.turn
    if request.trail:
        meta["trail"] = list(request.trail)
    if request.hops:
        meta["hops"], meta["marks"] = list(request.hops), list(request.marks)
    if request.round is not None:
        meta["round"] = request.round
    if request.again:
        meta["again"] = request.again
    if request.always:
        meta["always"] = True
    if request.secrets:
        meta["secrets"] = list(request.secrets)
    if request.row:
        meta["row"] = list(request.row)
    if request.thread:
        meta["thread"] = request.thread
    if request.way is not NOT_ON_ITS_WAY:
        meta["way"] = request.way._asdict()
    if request.task:
        meta[CARRIED] = request.task
    changed = 0
    if request.changed:
        meta["changed"] = text = _short(request.changed)
        if request.passage:
            meta["passage"] = request.passage
        if request.firsts:
            meta["firsts"] = list(request.firsts)
        # Pages that lists name are compared by the text alone, page turns also by the pass that led to them.
        changed = changed_digest(text, request.passage if request.turn else 0)
    fields: dict[str, Any] = {"url": request.url}
    if meta:
        fields["meta"] = meta
    if request.method != "GET":
        fields["method"] = request.method
    if request.headers:
        fields["headers"] = dict(request.headers)
    if request.cookies:
        fields["cookies"] = dict(request.cookies)
    if request.body:
        fields["body"] = request.body
    payload = codec.encode_request(fields, limit=limit)
    return Request(
        request.fingerprint,
        host_of(request.url) or "-",
        lane,
        payload,
        request.priority,
        request.dont_filter,
        changed=changed,
    )


def unpack(lease: Lease | PageInfo | DeadLetter) -> PageRequest:
    """The page request of a lease, or of what else the frontier keeps of a page; DecodingError where its payload is none."""
    fields = codec.decode_request(lease.payload)
    meta = fields["meta"]
    url = fields.get("url")
    if not isinstance(url, str) or not isinstance(meta, dict):
        raise DecodingError("Not a request of a site: it has no url.")
    headers = fields["headers"]
    if headers and not all(isinstance(value, str) for value in headers.values()):
        headers = {
            _text(name): _text(value[-1] if isinstance(value, list) else value) for name, value in headers.items()
        }
    site, _, layer = lease.lane.rpartition(".")
    return PageRequest(
        url,
        fields["method"],
        headers,
        fields["cookies"] if isinstance(fields["cookies"], dict) else NOTHING,
        fields["body"],
        layer.removeprefix(AGAIN),
        lease.fingerprint,
        lease.priority,
        meta.get("inherited", NOTHING),
        meta.get("turn", 0),
        meta.get("depth", 0),
        trail=meta.get("trail", ()),
        hops=meta.get("hops", ()),
        round=meta.get("round"),
        again=meta.get("again", ""),
        always=meta.get("always", False),
        site=site,
        secrets=meta.get("secrets", ()),
        task=meta.get(CARRIED, NOTHING),
        row=meta.get("row", ()),
        thread=meta.get("thread", NOTHING),
        marks=meta.get("marks", ()),
        way=Way(**meta["way"]) if "way" in meta else NOT_ON_ITS_WAY,
        changed=meta.get("changed", ""),
        passage=meta.get("passage", 0),
        firsts=meta.get("firsts", ()),
    )


def visited_again(request: PageRequest) -> PageRequest:
    """The request of a page that is visited again: it is of no task, no start of a round and no session of then, and of the present round."""
    return request._replace(round=None, again="", always=False, task=NOTHING, way=NOT_ON_ITS_WAY)


def _short(text: str) -> str:
    """A text that stands for this one; a short text stands for itself."""
    return text if len(text) <= TEXT_MAX else f"{changed_digest(text):016x}"


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
