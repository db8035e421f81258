"""How one part of a site file holds where another says nothing: `extends` between files, `like` between layers.

Mappings are merged key by key; lists and values are taken whole from the nearer part. A key that the nearer part leaves empty
(`schedule:`) is taken away. Spots go along: what was inherited stands where it was written.
"""

from __future__ import annotations

from typing import Any

from gossamer.sites.file.messages import problem_at
from gossamer.sites.file.problems import Problem, did_you_mean
from gossamer.sites.file.yaml import Spot

OWN = ("match", "examples", "like")
"""What a layer never takes from another: the URLs that belong to it."""


def merged(base: Any, base_spot: Spot, over: Any, over_spot: Spot) -> tuple[Any, Spot]:
    """What `over` says, and where it says nothing, what `base` says. Neither is changed."""
    if not (isinstance(base, dict) and isinstance(over, dict)):
        return over, over_spot
    data, spot = dict(base), _copy(over_spot)
    spot.inside = {**base_spot.inside, **over_spot.inside}
    for key, value in over.items():
        if key not in base:
            data[key] = value
        elif value is None:
            del data[key]
            del spot.inside[key]
        else:
            data[key], spot.inside[key] = merged(base[key], base_spot.inside[key], value, over_spot.inside[key])
    return data, spot


def without_own_keys(data: dict[str, Any]) -> dict[str, Any]:
    """A site without the keys that begin with x-, its own and those of its layers: a home for anchors and for other programs."""
    layers = data.get("layers")
    if isinstance(layers, dict) and any(isinstance(layer, dict) and any(map(_own, layer)) for layer in layers.values()):
        rest = {name: _others(layer) if isinstance(layer, dict) else layer for name, layer in layers.items()}
        data = {**data, "layers": rest}
    return _others(data) if any(map(_own, data)) else data


def _others(data: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if not _own(key)}


def _own(key: object) -> bool:
    return isinstance(key, str) and key.startswith("x-")


def _copy(spot: Spot) -> Spot:
    copy = Spot(spot.file, spot.line, spot.column)
    copy.key_line, copy.key_column = spot.key_line, spot.key_column
    return copy


def with_likes(data: Any, spot: Spot) -> tuple[Any, Spot, list[Problem]]:
    """The same site with every layer's `like` followed."""
    layers = data.get("layers") if isinstance(data, dict) else None
    if not isinstance(layers, dict) or not any(
        isinstance(layer, dict) and "like" in layer for layer in layers.values()
    ):
        return data, spot, []
    follower = _LikeLayers(layers, spot.inside["layers"])
    whole = _copy(spot)
    whole.inside = dict(spot.inside)
    whole.inside["layers"] = there = _copy(spot.inside["layers"])
    there.inside = {}
    made = {}
    for name in layers:
        made[name], there.inside[name] = follower.layer(name, ())
    return {**data, "layers": made}, whole, follower.problems


class _LikeLayers:
    def __init__(self, layers: dict[str, Any], spot: Spot) -> None:
        self.problems: list[Problem] = []
        self._layers = layers
        self._spot = spot
        self._done: dict[str, tuple[Any, Spot]] = {}

    def layer(self, name: str, above: tuple[str, ...]) -> tuple[Any, Spot]:
        if name in self._done:
            return self._done[name]
        own, spot = self._layers[name], self._spot.inside[name]
        model = own.get("like") if isinstance(own, dict) else None
        result = (own, spot)
        if isinstance(model, str):
            rest = {key: value for key, value in own.items() if key != "like"}
            result = (rest, spot)
            if model in (*above, name):
                circle = (*above, name)[(*above, name).index(model) :]
                self._complain(
                    name, f"layers that are like each other: {' → '.join((*circle, model))}", "leave out one like"
                )
            elif model not in self._layers:
                self._complain(
                    name, f"there is no layer {model}", did_you_mean(model, (n for n in self._layers if n != name))
                )
            else:
                data, where = self.layer(model, (*above, name))
                if isinstance(data, dict):
                    inherited = {key: value for key, value in data.items() if key not in OWN}
                    result = merged(inherited, where, rest, spot)
        if not above:
            self._done[name] = result
        return result

    def _complain(self, name: str, message: str, hint: str) -> None:
        path = ("like",)
        problem = problem_at(self._spot.inside[name], path, message, hint)
        self.problems.append(problem._replace(path=f"layers.{name}.like"))
