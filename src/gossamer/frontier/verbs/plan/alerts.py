"""What leaders of the planners keep of alerts. Generators without I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gossamer.frontier.call import Verb, function_call, text
from gossamer.frontier.server import keys


class AlertVerbs:
    """Builds and reads the calls about alerts of one crawl. All of it is on partition 0, which gives the lead."""

    def __init__(self, crawl: str) -> None:
        self.base = keys.base(crawl, 0)

    def alert_entries(self, names: Sequence[str] | None = None) -> Verb[tuple[float, dict[str, bytes]]]:
        header = {} if names is None else {"names": list(names)}
        [reply] = yield [function_call("alerts", self.base, header)]
        now, *flat = reply
        return int(now) / 1000, {text(name): value for name, value in zip(flat[::2], flat[1::2], strict=True)}

    def put_alert_entries(self, entries: Mapping[str, bytes | None], *, term: int) -> Verb[None]:
        kept = {name: value for name, value in entries.items() if value is not None}
        header = {"term": term, "set": list(kept), "drop": [name for name in entries if name not in kept]}
        yield [function_call("put_alerts", self.base, header, *kept.values())]
