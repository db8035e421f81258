"""Cookies that the workers of a group share: names and values that only they understand. Generators without I/O."""

from __future__ import annotations

from collections.abc import Mapping

from gossamer.frontier.call import Verb, function_call, read
from gossamer.frontier.server import keys

AT_ONCE = 500
"""The most that one call puts."""


class CookieVerbs:
    """The home partition of a group stores the cookies; every partition stores their version, which exchanges return."""

    def __init__(self, crawl: str, partitions: int) -> None:
        self.partitions = partitions
        self.bases = [keys.base(crawl, p) for p in range(partitions)]

    def put_cookies(self, group: str, cookies: Mapping[str, bytes], *, most: int) -> Verb[tuple[int, int]]:
        home, names = keys.home_of(group, self.partitions), list(cookies)
        first = last = 0
        for start in range(0, len(names), AT_ONCE):
            some = names[start : start + AT_ONCE]
            header = {"group": group, "names": some, "most": most}
            [reply] = yield [function_call("put_cookies", self.bases[home], header, *(cookies[name] for name in some))]
            before, last = read(reply)
            first = before if start == 0 else first
        others = [base for p, base in enumerate(self.bases) if p != home]
        if others and names:
            header = {"group": group, "names": [], "most": most, "version": last}
            yield [function_call("put_cookies", base, header) for base in others]
        return first, last

    def cookies(self, group: str, after: int = 0) -> Verb[tuple[int, dict[str, bytes], int]]:
        found: dict[str, bytes] = {}
        version, more, began = after, 1, 0
        while more:
            header = {"group": group, "after": version, "began": True}
            [reply] = yield [function_call("cookies", self.bases[keys.home_of(group, self.partitions)], header)]
            version, more, names, began = read(reply[0])
            found.update(zip(names, reply[1:], strict=True))
        return version, found, began
