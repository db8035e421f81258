"""NEOCrawler's rules as site files: a file for each domain, a layer for each alias. Pure.

Whatever has no counterpart, or means something else here, is a Note; nothing is dropped without one. A field that says nothing,
because it is empty or switched off, has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from gossamer.errors import BadRules
from gossamer.migrate.neocrawler.fields import FIELDS, USUAL, FieldNote, comment, duration, listed, shown
from gossamer.migrate.neocrawler.layer import POOL, flag, memory_of, request_of, share_of
from gossamer.migrate.neocrawler.pattern import match_of, seed_fits, seed_of
from gossamer.migrate.neocrawler.repair import repaired
from gossamer.migrate.neocrawler.rules import Rule
from gossamer.migrate.neocrawler.units import Tell, Units, children, doubled, table_name
from gossamer.sites.file.dump import to_yaml
from gossamer.sites.file.load import survey_texts
from gossamer.sites.file.problems import Problem

ROUTER = "http://127.0.0.1:2013"
"""Where NEOCrawler's own proxy router listens."""
LEAST_CHARACTERS, LEAST_BYTES = 500, 20
"""NEOCrawler takes shorter pages for broken ones: of texts, and of binary pages."""
MOST_OTHERS = 50
"""With more other domains than this, links to them are not followed: each is a rule in every layer."""
CRAWLED = "crawled"
"""NEOCrawler's category for everything."""


class ConvertedSite(NamedTuple):
    """A site file. `problems` are those that the loader has with it: errors only if something could not be mended."""

    name: str
    text: str
    layers: tuple[str, ...]
    notes: list[FieldNote]
    problems: list[Problem]


def convert(rules: Sequence[Rule]) -> list[ConvertedSite]:
    """The site files of all rules, in the order of their domains."""
    domains: dict[str, dict[str, Rule]] = {}
    for rule in rules:
        here = domains.setdefault(str(rule["domain"]), {})
        if str(rule["alias"]) in here:
            raise BadRules(
                f"Two rules are called {rule['domain']}:{rule['alias']}. Rename one of them, or take it out."
            )
        here[str(rule["alias"])] = rule
    known = {domain: Patterns(domain, list(here.values())) for domain, here in domains.items()}
    seeds = _seeds_by_owner(known)
    made = [_Domain(domain, list(here.values()), known, seeds[domain]).converted() for domain, here in domains.items()]
    # Together, since their links lead from one to the other.
    problems = survey_texts((one.text, f"{one.name}.yaml") for one in made).problems
    return [
        one._replace(problems=[problem for problem in problems if problem.file == f"{one.name}.yaml"]) for one in made
    ]


class OwnedSeed(NamedTuple):
    """A seed, and the rule that names it. `fits`: a pattern of its site matches it."""

    rule: Rule
    url: str
    fits: bool


class Patterns:
    """What the rules of a domain match, as far as they are active."""

    def __init__(self, domain: str, rules: Sequence[Rule]) -> None:
        self.name = site_name(domain)
        active = [rule for rule in rules if flag(rule, "active", _silent, usual=True)]
        self.rules = active or rules
        self.matches = [
            pattern for rule in self.rules if (pattern := match_of(str(rule.get("url_pattern") or ""), domain)[0])
        ]
        self.is_target = bool(active and self.matches)

    def fits(self, seed: str) -> bool:
        return any(seed_fits(pattern, seed) for pattern in self.matches)


def _silent(field: str, value: Any, became: str) -> None:
    """What is said of a rule is said when it is converted."""


def _seeds_by_owner(known: Mapping[str, Patterns]) -> dict[str, list[OwnedSeed]]:
    """The seeds of each domain. As in NEOCrawler, a seed belongs to the rule that matches it, whichever rule names it."""
    found: dict[str, list[OwnedSeed]] = {domain: [] for domain in known}
    for domain, here in known.items():
        for rule in here.rules:
            for text in listed(rule.get("seed")):
                url = seed_of(text)[0]
                owners = [domain, *known] if url else [domain]
                owner = next((one for one in owners if known[one].fits(url)), None)
                found[owner or domain].append(OwnedSeed(rule, text, owner is not None))
    return found


def site_name(domain: str) -> str:
    """The name of a domain's site."""
    return re.sub(r"[^A-Za-z0-9_.:-]", "-", domain)[:100].lstrip("-_.:") or "site"


def layer_names(rules: Iterable[Rule]) -> dict[tuple[str, str], tuple[str, str]]:
    """The site and the layer that each rule becomes, by domain and alias."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    taken: dict[str, dict[str, str]] = {}
    for rule in rules:
        domain, alias = str(rule["domain"]), str(rule["alias"])
        here = taken.setdefault(domain, {})
        name = _new_layer_name(alias, here)
        here[name] = alias
        found[domain, alias] = site_name(domain), name
    return found


def _new_layer_name(alias: str, taken: Mapping[str, str]) -> str:
    plain = (re.sub(r"[^A-Za-z0-9_:-]", "_", alias)[:90].lstrip(":-") or "layer").strip()
    if plain.startswith("_"):
        plain = f"layer{plain}"
    name, number = plain, 1
    while name in taken:
        number += 1
        name = f"{plain}_{number}"
    return name


class _Domain:
    """The rules of one domain on their way to a site file."""

    def __init__(
        self, domain: str, rules: Sequence[Rule], known: Mapping[str, Patterns], owned: Sequence[OwnedSeed]
    ) -> None:
        self._domain, self._rules, self._owned = domain, rules, owned
        self._others = [one.name for other, one in known.items() if other != domain and one.is_target]
        self._notes: list[FieldNote] = []
        self._aliases: dict[str, str] = {}
        self._inactive: dict[str, Any] = {}

    def converted(self) -> ConvertedSite:
        active = [rule for rule in self._rules if self._is_active(rule)]
        layers: dict[str, Any] = {}
        store: dict[str, Any] = {}
        for rule in self._rules:
            name = self._layer_name(str(rule["alias"]))
            layer, stored = self._layer(rule)
            if not active or any(rule is one for one in active):
                layers[name] = layer
                if stored is not None:
                    store[name] = stored
            else:
                self._inactive[name] = layer
                self._note(rule, "active", False, "left out: a layer cannot be switched off; it is below as a comment")
        crawled = active or self._rules
        data: dict[str, Any] = {"site": self._site_name()}
        if not active:
            data["active"] = False
        if any("render" in layer.get("request", {}) for layer in layers.values()):
            data["engine"] = "scrapy"
        if seeds := self._seeds():
            data["seeds"] = seeds
        data |= self._schedule(crawled)
        if self._others and (share := sum(layer.get("weight", 0) for layer in layers.values())):
            data["weight"] = round(min(share, 1e6), 3)
        if any("proxy" in layer.get("request", {}) for layer in layers.values()):
            data["proxies"] = {POOL: {"urls": [ROUTER]}}
        data["layers"] = layers
        if store:
            data["store"] = self._apart(store)
        data, more = repaired(data, data["site"])
        self._notes += [FieldNote(self._aliases.get(rule, rule), *rest) for rule, *rest in more]
        text = self._head() + to_yaml(data) + self._tail()
        return ConvertedSite(data["site"], text, tuple(data["layers"]), self._notes, [])

    # One rule.

    def _is_active(self, rule: Rule) -> bool:
        return flag(rule, "active", lambda field, value, became: self._note(rule, field, value, became), usual=True)

    def _layer(self, rule: Rule) -> tuple[dict[str, Any], dict[str, Any] | None]:
        layer: dict[str, Any] = {}

        def tell(path: str, value: Any, became: str) -> None:
            self._note(rule, path, value, became)

        pattern, said = match_of(str(rule.get("url_pattern") or ""), self._domain)
        if said:
            self._note(rule, "url_pattern", rule.get("url_pattern"), said)
        if pattern:
            layer["match"] = pattern
        if str(rule.get("schedule_rule") or "FIFO").upper() == "LIFO":
            layer["order"] = "lifo"
        elif str(rule.get("schedule_rule") or "FIFO").upper() != "FIFO":
            self._note(rule, "schedule_rule", rule["schedule_rule"], "changed: first in, first out")
        layer |= share_of(rule, tell)
        layer |= memory_of(rule, tell)
        format = str(rule.get("format") or "html")
        if format not in ("html", "json", "xml", "text", "binary"):
            self._note(rule, "format", format, "changed: read as html")
            format = "html"
        if format != "html":
            layer["format"] = format
        if (encoding := str(rule.get("encoding") or "auto")).lower() != "auto":
            layer["encoding"] = encoding
        if identity := listed(rule.get("id_parameter")):
            layer["identity"] = "none" if identity[0] == "#" else identity
        if request := request_of(rule, self._domain, tell):
            layer["request"] = request
        # What is shorter NEOCrawler took for broken, and asked for again.
        layer["valid"] = {"min_length": LEAST_BYTES} if format == "binary" else {"min_characters": LEAST_CHARACTERS}
        if keywords := listed(rule.get("validation_keywords")):
            layer["valid"]["contains"] = keywords
        fields, stored = self._extracted(rule, format, layer, tell)
        if flag(rule, "save_page", tell):
            layer["save"] = True
        drills = listed(rule.get("drill_rules"))
        if drills and format not in ("html", "xml"):
            self._note(rule, "drill_rules", drills, f"left out: CSS selectors find nothing in pages of format {format}")
        elif drills:
            layer["follow"] = [*dict.fromkeys(drills), *self._crossing(rule, drills)]
        for field, value in rule.items():
            became = FIELDS.get(field, "left out: NEOCrawler is not known to have this field")
            if became and value not in (None, "", [], {}, 0, False, USUAL.get(field)):
                self._note(rule, field, value, became)
        return layer, stored if fields else None

    def _extracted(
        self, rule: Rule, format: str, layer: dict[str, Any], tell: Tell
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        said = rule.get("extract_rule")
        if not isinstance(said, Mapping):
            if said:
                self._note(rule, "extract_rule", said, "left out: it is not a mapping")
            return {}, {}
        for key in said:
            if key not in ("category", "rule", "require", "relate", "mapping"):
                self._note(rule, f"extract_rule.{key}", said[key], "left out: NEOCrawler has no such key")
        for key in ("relate", "mapping"):
            if said.get(key):
                self._note(rule, f"extract_rule.{key}", said[key], "left out: it has a meaning only in a subset")
        if format == "binary":
            if said.get("rule"):
                tell("extract_rule.rule", said["rule"], "left out: NEOCrawler took nothing from binary pages, either")
            return {}, {}
        units = Units(tell, format)
        fields = units.fields(said.get("rule"), "extract_rule.rule")
        if not fields:
            return {}, {}
        required = []
        for one in listed(said.get("require"), texts=False):
            names = [str(field) for field in (one if isinstance(one, list) else [one])]
            if unknown := [field for field in names if field not in units.names]:
                tell("extract_rule.require", unknown, "left out: no field of this name is there")
            if known := [units.names[field] for field in names if field in units.names]:
                required.append(known if isinstance(one, list) else known[0])
        if required:
            # It complained of what was missing and stored the rest.
            layer |= {"require": required, "lacking": "keep"}
        layer["fields"] = fields
        stored: dict[str, Any] = {"table": str(said.get("category") or CRAWLED), "key": ["url"]}
        if "parent" not in fields:
            stored["add"] = ["parent"]
        if nested := children(said.get("rule"), fields, units.names):
            stored["children"] = nested
        return fields, stored

    def _crossing(self, rule: Rule, drills: Sequence[str]) -> list[dict[str, str]]:
        """NEOCrawler follows links to every domain that it has rules for."""
        if len(self._others) > MOST_OTHERS:
            said = f"left out: its links to the {len(self._others)} other domains; write follow with to: SITE.*"
            self._note(rule, "drill_rules", list(drills), said)
            return []
        return [{"css": css, "to": f"{other}.*"} for other in self._others for css in dict.fromkeys(drills)]

    # The whole domain.

    def _seeds(self) -> list[Any]:
        seeds: list[Any] = []
        for rule, url, fits in self._owned:
            plain, said = seed_of(url)
            text = doubled(plain)
            if said:
                self._note(rule, "seed", url, said)
            elif str(rule["domain"]) != self._domain:
                self._note(rule, "seed", url, f"changed: a rule of {rule['domain']} names it, but it is of this site")
            if not fits and plain:
                self._note(rule, "seed", url, "changed: it matches no url_pattern, so it names its layer")
                seeds.append({"url": text, "layer": self._layer_name(str(rule["alias"]))})
            elif plain and text not in seeds:
                seeds.append(text)
        return seeds

    def _schedule(self, rules: Sequence[Rule]) -> dict[str, Any]:
        """A round begins as often as the most frequent of the rules that have seeds."""
        seeded = {
            str(rule["alias"]): rule["schedule_interval"]
            for rule in rules
            if listed(rule.get("seed"))
            and isinstance(rule.get("schedule_interval"), int)
            and rule["schedule_interval"] > 0
        }
        if not seeded:
            return {}
        least = min(seeded.values())
        for rule in rules:
            if seeded.get(str(rule["alias"]), least) != least:
                said = f"changed: rounds begin every {duration(least)}, for all seeds of the site"
                self._note(rule, "schedule_interval", rule["schedule_interval"], said)
        return {"schedule": {"every": duration(least)}}

    def _site_name(self) -> str:
        name = site_name(self._domain)
        if name != self._domain:
            self._notes.append(FieldNote("", "domain", self._domain, f"changed: the site is called {name}"))
        return name

    def _layer_name(self, alias: str) -> str:
        for name, known in self._aliases.items():
            if known == alias:
                return name
        name = _new_layer_name(alias, self._aliases)
        self._aliases[name] = alias
        if name != alias:
            self._notes.append(FieldNote(alias, "alias", alias, f"changed: the layer is called {name}"))
        return name

    def _note(self, rule: Rule, field: str, value: Any, became: str) -> None:
        self._notes.append(FieldNote(str(rule["alias"]), field, shown(value), became))

    def _head(self) -> str:
        lines = [
            f"From NEOCrawler's rules for {self._domain}, by `gossamer import neocrawler`.",
            "NEOCrawler did not ask for robots.txt; this site obeys it, unless politeness says {robots: ignore}.",
            "What NEOCrawler kept together in one table (category: crawled) has a table for each layer.",
            "NEOCrawler took pages of fewer than 500 characters for broken ones; so does valid here.",
        ]
        if self._notes:
            lines += ["", "What is not here, or not as it was:"]
            lines += [
                f"  {note.rule or self._domain}: {note.field}: {note.value}: {note.became}" for note in self._notes
            ]
        return comment("\n".join(lines))

    def _tail(self) -> str:
        if not self._inactive:
            return ""
        return comment("Inactive when it was brought in:\n" + to_yaml({"layers": self._inactive}))

    def _apart(self, store: dict[str, Any]) -> dict[str, Any]:
        """Each layer its own table: NEOCrawler's category, where only one layer has it and it is not the one of everything."""
        wanted = [rule["table"] for rule in store.values()]
        taken: set[str] = set()
        for name, rule in store.items():
            category = rule["table"]
            own = category != CRAWLED and wanted.count(category) == 1
            plain = table_name(category if own else f"{self._domain}_{name}")
            made, number = plain, 1
            while made.lower() in taken:
                number += 1
                made = f"{plain[:55]}_{number}"
            taken.add(made.lower())
            rule["table"] = made
            if category not in (made, CRAWLED):
                said = f"changed: the table is called {made}; each layer has its own"
                self._notes.append(FieldNote(self._aliases[name], "extract_rule.category", category, said))
        return store
