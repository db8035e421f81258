"""What the reading of a page may ask of the site it belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class SiteContext(Protocol):
    """A site as its layers see it. Answers are pure: the same question gets the same answer, and nothing is fetched."""

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters of this site, for {names} in texts: those with one value."""
        ...

    @property
    def limits_depth(self) -> int:
        """Maximum number of steps from the seeds; links that lead further are skipped. 0: no limit."""
        ...

    def has_layer(self, name: str) -> bool: ...

    def layer_of(self, url: str) -> tuple[str, Mapping[str, str]] | None:
        """The layer that a URL belongs to and the named groups of its `match`; None if it belongs to none."""
        ...

    def is_own(self, url: str) -> bool:
        """Whether a URL is on a host of the seeds, with or without www; of any host if they name none."""
        ...

    def layer_there(self, site: str, url: str) -> str | None:
        """The layer of another site that a URL belongs to, as site.layer; None if it belongs to none."""
        ...

    def groups(self, layer: str, url: str) -> Mapping[str, str]:
        """The named groups of that layer's `match` in a URL; empty if there is no `match` or it does not fit."""
        ...

    def shares_memory(self, one: str, other: str) -> bool:
        """Whether a page that one layer has seen is seen for the other, too."""
        ...

    def fingerprint(self, layer: str, url: str, method: str = "GET", body: bytes = b"") -> int:
        """The identity of a request for the seen memory, by the identity parameters of the layer."""
        ...
