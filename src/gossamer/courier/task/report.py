"""A task may ask to be told of: `"report": {"list": KEY, "key": TEXT, "try": NUMBER}`.

Its request carries that along, also through redirects and tries, and the call that settles the page appends to the list how it
ended.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from gossamer.errors import BadTask, DecodingError
from gossamer.frontier import codec
from gossamer.frontier.checks import encodable
from gossamer.model import Ending, Request, Settlement

REPORT = "report"
CARRIED = "gossamer_task"
"""The name in a request's meta under which it carries what it is to report."""
_CARRIED = CARRIED.encode()
REPORT_KEY_MAX = 4000
"""Characters of a producer's key. Longer than the primary keys of most databases may be: URLs are such keys."""
DETAIL_MAX = 300


class TaskReport(NamedTuple):
    """The list to which the end of a task's page is reported, and the producer's own key of the task."""

    list: str
    key: str
    attempt: int

    def fields(self) -> dict[str, Any]:
        return {"list": self.list, "key": self.key, "try": self.attempt}


class TaskEnd(NamedTuple):
    """How the page of a task ended: `state` is done or failed."""

    key: str
    attempt: int
    state: str
    detail: str = ""


def split_report(data: bytes) -> tuple[bytes, TaskReport | None]:
    """A task without its report, and the report; BadTask where that cannot be used."""
    if REPORT.encode() not in data:
        return data, None
    try:
        task = json.loads(data)
    except ValueError:
        return data, None
    if not isinstance(task, dict) or REPORT not in task:
        return data, None
    asked = task.pop(REPORT)
    report = _report(asked)
    if report is None:
        raise BadTask(
            f"The task's report is {asked!r:.200}; it must be an object with a list (a key of the server that is not Gossamer's own), "
            f"a key (text of at most {REPORT_KEY_MAX} characters) and a try (a number)."
        )
    return json.dumps(task, ensure_ascii=False).encode(), report


def _report(asked: Any) -> TaskReport | None:
    if not isinstance(asked, dict) or set(asked) != {"list", "key", "try"}:
        return None
    name, key, attempt = asked["list"], asked["key"], asked["try"]
    sound = isinstance(name, str) and isinstance(key, str) and type(attempt) is int and 0 < len(key) <= REPORT_KEY_MAX
    if not sound or not name or name.startswith("gossamer:") or not encodable(name + key):
        return None
    return TaskReport(name, key, attempt)


def carrying(request: Request, report: TaskReport, *, always: bool = False) -> Request:
    """The request of a task, with what it is to report. `always`: its page is fetched also if it was seen, since one that is left out
    reports nothing."""
    fields = codec.given_fields(request.payload)
    fields = {**fields, "meta": {**fields.get("meta", {}), CARRIED: report.fields()}}
    if always and not request.dont_filter:
        # Also for those who ask for the page that it redirects to.
        fields["dont_filter"] = True
        request = request._replace(dont_filter=True)
    return request._replace(payload=codec.encode_request(fields))


def is_filtered(data: bytes) -> bool:
    """Whether a task says that its page is left out if it was seen, in the words of sites or of spiders."""
    try:
        task = json.loads(data)
    except ValueError:
        return False
    return isinstance(task, dict) and (task.get("filter") is True or task.get("dont_filter") is False)


def without_report(request: Request) -> Request:
    """A request that has the meta of another, without what that one is to report."""
    if _CARRIED not in request.payload:
        return request
    fields = codec.given_fields(request.payload)
    meta = {name: value for name, value in fields.get("meta", {}).items() if name != CARRIED}
    return request._replace(payload=codec.encode_request({**fields, "meta": meta}))


def report_in(payload: bytes) -> TaskReport | None:
    """What a request, or a task that could not be used, is to report."""
    if _CARRIED not in payload:
        try:
            return split_report(payload)[1]
        except BadTask:
            return None
    try:
        return _report(codec.decode_request(payload)["meta"].get(CARRIED))
    except (DecodingError, AttributeError):
        return None


def reported(settlement: Settlement) -> Settlement:
    """The settlement with the report of its page, if a task asked for one and the page has come to its end."""
    # Looked for in the bytes: most requests are of no task, and decoding costs.
    if _CARRIED not in settlement.lease.payload:
        return settlement
    if settlement.lease.visit:
        # The first visit was that of the task.
        return settlement._replace(add=[without_report(child) for child in settlement.add])
    if settlement.ending not in (Ending.DONE, Ending.FAILED):
        return settlement
    report = report_in(settlement.lease.payload)
    if report is None:
        return settlement
    again = _again(settlement)
    add = [child if child is again else without_report(child) for child in settlement.add]
    if again is not None:
        return settlement._replace(add=add)
    said = {"key": report.key, "try": report.attempt, "state": settlement.ending.value}
    if settlement.ending is Ending.FAILED:
        said["detail"] = settlement.reason[:DETAIL_MAX]
    return settlement._replace(
        push=[*settlement.push, (report.list, json.dumps(said).encode())],
        add=add,
    )


def _again(settlement: Settlement) -> Request | None:
    """The request by which a page asks for itself once more, as a callback does with `get_retry_request`: that one reports its end."""
    lease = settlement.lease
    if settlement.ending is not Ending.DONE:
        return None
    for child in settlement.add:
        same = child.dont_filter and (child.lane, child.fingerprint) == (lease.lane, lease.fingerprint)
        if same and _CARRIED in child.payload:
            return child
    return None


def read_end(data: bytes) -> TaskEnd | None:
    """A report as it was appended to its list; None for anything else that may be in a list."""
    try:
        said = json.loads(data)
        end = TaskEnd(said["key"], said["try"], said["state"], said.get("detail", ""))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    sound = type(end.attempt) is int and end.state in ("done", "failed")
    return end if sound and isinstance(end.key, str) and isinstance(end.detail, str) else None
