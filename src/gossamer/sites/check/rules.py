"""Compiles the rules of a layer as a worker does: nothing that passes the check may fail there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gossamer.model import fingerprint
from gossamer.sites import plan
from gossamer.sites.crossing import crosses
from gossamer.sites.extract.layer import RuleProblems, compile_layer

if TYPE_CHECKING:
    from gossamer.sites.check.site import Checker


def check_rules(checker: Checker, layout: plan.LayerGraph) -> None:
    """Problems of the rules that no other check has found."""
    context = _Context(layout)
    for name, layer in checker.site.layers.items():
        if layer.handler is None:
            try:
                compile_layer(name, layer, context)
            except RuleProblems as error:
                for path, message in error.problems:
                    checker.add(("layers", name, *path), message)


class _Context:
    """As much of a site as the rules of its layers need to be compiled."""

    def __init__(self, layout: plan.LayerGraph) -> None:
        self.params: Mapping[str, Any] = layout.params.single()
        self.limits_depth = layout.site.limits.depth
        self.layer_of = layout.matcher.layer_of
        self.groups = layout.matcher.groups
        self.is_own = layout.matcher.is_own
        self._layers = layout.site.layers

    def has_layer(self, name: str) -> bool:
        return crosses(name) or name in self._layers

    def layer_there(self, site: str, url: str) -> str | None:
        return None

    def shares_memory(self, one: str, other: str) -> bool:
        return False

    def fingerprint(self, layer: str, url: str, method: str = "GET", body: bytes = b"") -> int:
        return fingerprint(url, method, body)
