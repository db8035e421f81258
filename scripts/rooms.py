"""Two contracts for import-linter that read the architecture's tables as they stand in `.importlinter`.

`rooms` holds each room (a module or folder below the root package, or a room inside one) to the rooms its line names,
and to what those reach. `keepers` holds a third-party library, or an inner package of ours, to the rooms that keep it. Only direct imports
are reported: every step of a longer chain is itself an import of some room.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

ANY = "*"


def read_table(lines: Iterable[str]) -> dict[str, frozenset[str]]:
    """Lines `name: word word` as a mapping."""
    table: dict[str, frozenset[str]] = {}
    for line in lines:
        name, separator, words = line.partition(":")
        if not separator or name.strip() in table:
            raise ValueError(f"{line!r} is not a line of the form `name: word word`, each name once")
        table[name.strip()] = frozenset(words.split())
    return table


def reachable(table: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """For each room, every room that it may import: those it names and, through them, theirs."""

    def follow(room: str, found: set[str]) -> set[str]:
        for other in table[room] - found - {ANY}:
            found.add(other)
            follow(other, found)
        return found

    return {room: frozenset(table) if ANY in table[room] else frozenset(follow(room, set())) for room in table}


class _TableContract(Contract):
    """What both contracts share: a list of faults, each with the places it was found."""

    def render_broken_contract(self, check: ContractCheck) -> None:
        for fault in check.metadata["faults"]:
            output.print_error(fault, bold=False)

    def _result(self, faults: Iterable[str]) -> ContractCheck:
        found = sorted(set(faults))
        return ContractCheck(kept=not found, metadata={"faults": found})

    @property
    def _root(self) -> str:
        return str(self.session_options["root_packages"][0])

    def _room(self, module: str, known: Mapping[str, frozenset[str]]) -> str:
        """The innermost room of a module of ours that is known; the root package itself counts as a room of its own name."""
        words = module.split(".")[1:] or [module]
        inner = (".".join(words[:count]) for count in range(len(words), 0, -1))
        return next((room for room in inner if room in known), words[0])

    def _imports(self, graph: ImportGraph) -> Iterator[tuple[str, str]]:
        for importer in graph.modules:
            if self._is_ours(importer):
                for imported in graph.find_modules_directly_imported_by(importer):
                    yield importer, imported

    def _is_ours(self, module: str) -> bool:
        return module == self._root or module.startswith(self._root + ".")

    def _place(self, graph: ImportGraph, importer: str, imported: str) -> str:
        details = graph.get_import_details(importer=importer, imported=imported)
        return ", ".join(f"line {detail['line_number']}" for detail in details)


class RoomsContract(_TableContract):
    """`may_import`: one line per room, `room: other other`; `*` means every room."""

    type_name = "rooms"
    may_import: Any = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        table = read_table(self.may_import)
        unknown = {other for others in table.values() for other in others} - set(table) - {ANY}
        if unknown:
            return self._result(f"{room} is named as an import but has no line of its own" for room in unknown)
        return self._result(self._faults(graph, reachable(table)))

    def _faults(self, graph: ImportGraph, allowed: Mapping[str, frozenset[str]]) -> Iterator[str]:
        for module in graph.modules:
            if self._is_ours(module) and self._room(module, allowed) not in allowed:
                yield f"{self._room(module, allowed)} is a room without a line in the table"
        for importer, imported in self._imports(graph):
            if not self._is_ours(imported) or imported == self._root:
                continue
            source, target = self._room(importer, allowed), self._room(imported, allowed)
            if source != target and source in allowed and target not in allowed[source]:
                place = self._place(graph, importer, imported)
                yield f"{source} may not import {target}: {importer} imports {imported} ({place})"


class KeepersContract(_TableContract):
    """`only`: one line per library, or package of ours, `library: room room.module`; nothing else may import it."""

    type_name = "keepers"
    only: Any = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        table = read_table(self.only)
        return self._result(self._faults(graph, table))

    def _faults(self, graph: ImportGraph, table: Mapping[str, frozenset[str]]) -> Iterator[str]:
        for importer, imported in self._imports(graph):
            keepers = next((table[name] for name in table if f"{imported}.".startswith(f"{name}.")), None)
            if keepers is None or any(self._keeps(keeper, importer) for keeper in keepers):
                continue
            place = self._place(graph, importer, imported)
            yield f"only {', '.join(sorted(keepers))} may import {imported}: {importer} does ({place})"

    def _keeps(self, keeper: str, module: str) -> bool:
        full = f"{self._root}.{keeper}"
        return module == full or module.startswith(full + ".")
