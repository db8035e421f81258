"""Sites written in Python: the same keys as in a site file, and functions in place of rules."""

from __future__ import annotations

import enum
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import PurePath
from typing import Any, Self, TypeVar

from gossamer.errors import SiteError
from gossamer.sites.file.yaml import Spot
from gossamer.sites.python.columns import types_of
from gossamer.sites.python.module import home_of, source_digest
from gossamer.sites.python.place import CallArguments, CallPlace, Home, arguments, caller, spot_of
from gossamer.sites.python.reader import LayerFunction

F = TypeVar("F", bound=LayerFunction)
_ARGUMENTS = {"site": "name", "extends": "file"}
"""What the keys of a site file are called among the arguments, where that differs."""
_FLAGS = ((re.IGNORECASE, "i"), (re.MULTILINE, "m"), (re.DOTALL, "s"), (re.VERBOSE, "x"))

_made: dict[Home, list[SiteDefinition]] = {}


def sites_of(home: Home) -> list[SiteDefinition]:
    """The sites that the code of a module has made, in this order."""
    return list(_made.get(home, ()))


class DefinitionError(SiteError):
    """A site in Python that cannot be written as a site file. The message says why; `place` is where it is defined."""

    def __init__(self, place: CallPlace, message: str) -> None:
        super().__init__(message)
        self.place = place


@dataclass(slots=True)
class LayerDefinition:
    """One layer: its keys as given, what is short for its entry in `store`, and the function that reads its pages."""

    keys: dict[str, Any]
    place: CallPlace
    short: dict[str, Any] = field(default_factory=dict)
    read_by_function: bool = False
    function: LayerFunction | None = None


class SiteDefinition:
    """A site: its name, its seeds and every other key of a site file. Nothing is checked until the site is used; then all mistakes
    are reported at once, as for a site file, with their lines in the Python file."""

    def __init__(self, name: str, seeds: str | Mapping[str, Any] | Sequence[Any] = (), **keys: Any) -> None:
        self.name = name
        given = {"site": name, "seeds": seeds, **keys} if not _is_empty(seeds) else {"site": name, **keys}
        self._begin(given, ("name", "seeds"))

    def _begin(self, keys: dict[str, Any], positional: tuple[str, ...]) -> None:
        self._keys, self._positional = keys, positional
        self._layers: dict[str, LayerDefinition] = {}
        self._place, self.home = caller()
        _made.setdefault(self.home, []).append(self)

    @classmethod
    def from_yaml(cls, file: str, **keys: Any) -> Self:
        """The site of a site file, whose path is relative to the Python file. `keys` override those of the file. You can add layers
        that functions read, and replace layers of the file by such."""
        site = cls.__new__(cls)
        site.name = file
        site._begin({"extends": file, **keys}, ("file",))
        return site

    def layer(
        self,
        name: str,
        match: str | re.Pattern[str] | None = None,
        *,
        table: str | None = None,
        key: str | Sequence[str] | None = None,
        record: Any = None,
        **keys: Any,
    ) -> Callable[[F], F]:
        """A decorator: the function reads the pages of this layer. `match` and `keys` are those of a layer in a site file. `table` and
        `key` say where its records are stored; `record`, a class with annotations or a mapping of names to types, which columns
        they have."""
        given = {"match": match, **keys} if match is not None else dict(keys)
        short = {"table": table, "key": key, "record": record}
        made = self._add(name, given, {name: value for name, value in short.items() if value is not None})
        made.read_by_function = True

        def register(function: F) -> F:
            if not getattr(function, "__qualname__", "").isidentifier():
                raise SiteError(
                    f"The layer {name} needs a function that is defined at the top of its module: workers find it by its name there."
                )
            made.function = function
            return function

        return register

    def rules(
        self,
        name: str,
        rules: Mapping[str, Any] | None = None,
        *,
        table: str | None = None,
        key: str | Sequence[str] | None = None,
        **keys: Any,
    ) -> None:
        """A layer that is read by rules, with the keys of a site file (`match`, `fields`, `follow` …), in a mapping or by name."""
        short = {"table": table, "key": key}
        self._add(name, {**(rules or {}), **keys}, {name: value for name, value in short.items() if value is not None})

    def _add(self, name: str, keys: dict[str, Any], short: dict[str, Any]) -> LayerDefinition:
        if name in self._layers:
            raise SiteError(f"The site {self.name} has two layers {name}. Give one of them another name.")
        place, _ = caller()
        self._layers[name] = made = LayerDefinition(keys, place, short)
        return made

    def document(self) -> tuple[dict[str, Any], Spot]:
        """The site as a site file would say it, and where each part of it stands in the Python file."""
        call = arguments(self._place)
        try:
            data = {key: plain(value, key) for key, value in self._keys.items()}
        except SiteError as error:
            raise DefinitionError(self._place, str(error)) from None
        spot = spot_of({}, None, self._place.spot)
        positions = {key: number for number, key in enumerate(self._positional)}
        spot.inside = {}
        for key, value in data.items():
            argument = _ARGUMENTS.get(key, key)
            spot.inside[key] = call.spot(value, argument, positions.get(argument))
        self._write_layers(data, spot)
        modules = sorted(
            {home_of(one.function.__module__) for one in self._layers.values() if one.function is not None}
        )
        digests = {module: digest for module in modules if (digest := source_digest(module))}
        if digests:
            data["code"], spot.inside["code"] = digests, spot_of(digests, None, self._place.spot)
        return data, spot

    def _write_layers(self, data: dict[str, Any], spot: Spot) -> None:
        layers, store = dict(data.get("layers") or {}), dict(data.get("store") or {})
        spots = {key: spot.inside.get(key) or spot_of({}, None, self._place.spot) for key in ("layers", "store")}
        for one in spots.values():
            one.inside = dict(one.inside)
        for name, layer in self._layers.items():
            call = arguments(layer.place)
            try:
                layers[name], spots["layers"].inside[name] = _layer(name, layer, call)
                entry, stored = _entry(name, layer.short, call)
            except SiteError as error:
                raise DefinitionError(layer.place, str(error)) from None
            if layer.short:
                before = store.get(name)
                old = spots["store"].inside.get(name)
                if isinstance(before, dict) and old is not None:
                    entry, stored.inside = {**before, **entry}, {**old.inside, **stored.inside}
                store[name], spots["store"].inside[name] = entry, stored
        for key, value in (("layers", layers), ("store", store)):
            if value:
                data[key], spot.inside[key] = value, spots[key]


def _layer(name: str, layer: LayerDefinition, call: CallArguments) -> tuple[dict[str, Any], Spot]:
    keys = {key: plain(value, f"{name}.{key}") for key, value in layer.keys.items()}
    spot = call.spot(None, "name", 0)
    spot.inside = {key: call.spot(value, key, 1 if key == "match" else None) for key, value in keys.items()}
    if not layer.read_by_function:
        mapping = call.spot(keys, "rules", 1)
        spot.inside |= {key: there for key, there in mapping.inside.items() if key not in call.named}
    if layer.read_by_function:
        if layer.function is None:
            raise SiteError(f"The layer {name} has no function: write @….layer(…) above one.")
        keys["handler"] = entry_of(layer.function)
        spot.inside["handler"] = layer.place.spot
    return keys, spot


def _entry(name: str, short: Mapping[str, Any], call: CallArguments) -> tuple[dict[str, Any], Spot]:
    """The entry in `store` that `table`, `key` and `record` stand for."""
    entry = {key: plain(value, f"{name}.{key}") for key, value in short.items() if key != "record"}
    spot = call.spot(None, "name", 0)
    spot.inside = {key: call.spot(value, key) for key, value in entry.items()}
    if "record" in short:
        entry["types"] = types_of(short["record"])
        spot.inside["types"] = call.spot(entry["types"], "record")
    return entry, spot


def entry_of(function: Any) -> str:
    """`module:name`, as workers find the function. SiteError if they would find another one there."""
    module, name = function.__module__, function.__qualname__
    found = getattr(sys.modules.get(module), name, None)
    if found is not function:
        what = "another one" if found is not None else "nothing"
        raise SiteError(
            f"The function {name} of {module} is not found by its name: there is {what} called {name}. Give each function of a "
            "site a name of its own, and write @….layer(…) above all other decorators."
        )
    return f"{home_of(module)}:{name}"


def plain(value: Any, where: str) -> Any:
    """A value as a site file can have it; SiteError for what none can."""
    match value:
        case None | bool() | int() | float():
            return value
        case enum.Enum():
            return plain(value.value, where)
        case str():
            return str(value)
        case Mapping():
            return {str(key): plain(inner, f"{where}.{key}") for key, inner in value.items()}
        case timedelta():
            return value.total_seconds()
        case PurePath():
            return str(value)
        case re.Pattern() if isinstance(value.pattern, str):
            flags = "".join(letter for flag, letter in _FLAGS if value.flags & flag)
            return f"(?{flags}){value.pattern}" if flags else value.pattern
    if callable(value):
        return entry_of(value)
    if isinstance(value, bytes) or not hasattr(value, "__iter__"):
        raise SiteError(f"{where} is {type(value).__name__}; a site has texts, numbers, lists and mappings.")
    return [plain(inner, f"{where}[{place}]") for place, inner in enumerate(value)]


def _is_empty(seeds: Any) -> bool:
    return isinstance(seeds, tuple) and not seeds
