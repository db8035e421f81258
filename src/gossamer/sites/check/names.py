"""Whether the names that rules use are there: {names} in texts, names in `when` and `pass`, what is passed on."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from itertools import islice
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from gossamer.sites.check import expressions
from gossamer.sites.extract.content import ENCODING_NAME
from gossamer.sites.extract.scope import names_used, of_page, roots
from gossamer.sites.extract.turns import NAME as TURN
from gossamer.sites.extract.turns import TURN as TURNS
from gossamer.sites.extract.turns import at_turn, has_lists, uses_turn
from gossamer.sites.feed import DATE, TITLE
from gossamer.sites.file.environment import texts_within
from gossamer.sites.file.problems import Path, did_you_mean
from gossamer.sites.format import Body, Follow, Layer, SiteSpec
from gossamer.sites.plan import LOOKED_AT, LayerGraph
from gossamer.sites.seeds import unfold
from gossamer.sites.template import NAME
from gossamer.sites.url.match import pattern_of

if TYPE_CHECKING:
    from gossamer.sites.check.site import Checker

_ANY_NUMBER, _ANY_TEXT = "9160473825", "gossamertext"
"""Stand for what is not known of a URL."""
ITSELF = "{{%s}} or { %s } stands for the braces themselves, as in GraphQL"


def check_names(checker: Checker, name: str, layer: Layer, follow: Follow, path: Path) -> None:
    """The names of one rule of `follow`: fields, what was passed on, groups of `match`, parameters with one value."""
    if layer.records is not None and of_page(layer, follow):
        if _check_of_page(checker, layer, follow, path):
            return
        layer = layer.model_copy(update={"fields": layer.page})
    elif layer.page:
        layer = layer.model_copy(update={"fields": {**layer.page, **layer.fields}})
    _check_expressions(checker, layer, follow, path)
    if uses_turn(follow):
        _check_turns(checker, layer, follow, path)
    passed = checker.inherited.of(name)
    if passed is None:
        return
    single = checker.params.single()
    if not isinstance(follow.carry, dict):
        # That it passes a name itself does not make it known here.
        others = {*layer.fields, *groups_of(layer), *(checker.inherited.of(name, follow) or ()), *single}
        for place, field in enumerate(follow.carry):
            if field not in others:
                checker.add((*path, "pass", place), f"there is no field {field}", did_you_mean(field, sorted(others)))
    known = {*layer.fields, *groups_of(layer), *passed, TURN}
    for where, text in _texts(follow):
        for one in dict.fromkeys(found[2].split(".")[0] for found in NAME.finditer(text) if found[2]):
            if one in known or one in single:
                continue
            if one in checker.params.names:
                checker.add(
                    (*path, *where),
                    f"parameter {one} has several values; here it must have one",
                    "use it in seeds, and pass it on",
                )
                continue
            near = did_you_mean(one, sorted({*known, *single}))
            hint = near if near.startswith("did") else ITSELF % (one, one)
            checker.add((*path, *where), f"{{{one}}} is not a field, parameter or group of match", hint)


def _check_turns(checker: Checker, layer: Layer, follow: Follow, path: Path) -> None:
    if follow.pages is None:
        if TURN not in layer.fields and TURN not in checker.params.names:
            hint = "write pages: 0, or how many pages there may be"
            checker.add(path, "{turn} is the number of a page turn, and this rule has no pages", hint)
    elif not follow.pages and follow.when is None and not has_lists(layer):
        hint = "write how many in pages, a condition in when, or records"
        checker.add((*path, "pages"), "nothing says where these pages end: no list or link can be missing", hint)


def check_first_turns(checker: Checker, layout: LayerGraph) -> None:
    """Whether page turns by number go on from where the seeds are."""
    for name, layer in checker.site.layers.items():
        for place, follow in enumerate(layer.follow):
            if follow.url is not None and follow.pages is not None and TURN not in {*layer.fields, *layer.page}:
                path: Path = ("layers", name, "follow", place)
                _check_first_turn(checker, layout, name, follow.url, (*path, "url"))
                first = _body(at_turn(follow, 1, plain=True))
                if first != _body(follow) and any(first == _body(seed) for seed in checker.site.seeds):
                    checker.warn(path, "the first page turn asks for the same as a seed", "write {turn+1} for {turn}")


def _body(body: Body) -> str:
    return json.dumps([body.form, body.json_, body.body], sort_keys=True, default=str).replace('"', "")


def _check_first_turn(checker: Checker, layout: LayerGraph, layer: str, template: str, path: Path) -> None:
    if len(turns := list(TURNS.finditer(template))) != 1:
        return
    times, plus = int(turns[0][1] or 1), int(turns[0][2] or 0)
    address = NAME.sub(_ANY_TEXT, TURNS.sub(_ANY_NUMBER, template))
    for seed in checker.site.seeds:
        urls = islice(unfold(seed.url, checker.params), LOOKED_AT) if seed.url is not None else ()
        for url in (one.url for one in urls):
            if (seed.layer or layout.first_layer(url)) != layer:
                continue
            pattern = re.escape(urljoin(url, address)).replace(_ANY_NUMBER, "([0-9]{1,18})")
            found = re.fullmatch(pattern.replace(_ANY_TEXT, "[^/?&#]+"), url)
            if found is not None and (number := int(found[1])) != plus:
                right = f"{{turn{f'*{times}' if times > 1 else ''}{f'+{number}' if number else ''}}}"
                checker.warn(
                    path,
                    f"the seed {url} is at {number}, and the first page turn leads to {times + plus}, not {times + number}",
                    f"write {right}",
                )
                return


def _check_of_page(checker: Checker, layer: Layer, follow: Follow, path: Path) -> list[str]:
    """A rule that is applied once to a page of many records cannot see the fields of one of them: those that it names."""
    hidden = sorted(names_used(follow) & layer.fields.keys() - layer.page.keys())
    for one in hidden:
        checker.add(
            path,
            f"{one} is a field of each record, and this rule, which has pages, is for the page as a whole",
            f"write {one} under page: of the layer, where values of the whole page stand",
        )
    return hidden


def _check_expressions(checker: Checker, layer: Layer, follow: Follow, path: Path) -> None:
    asked: list[tuple[Path, str]] = [((*path, "when"), follow.when)] if follow.when is not None else []
    if isinstance(follow.carry, dict):
        asked += [((*path, "pass", key), text) for key, text in follow.carry.items()]
    for where, text in asked:
        check_when(checker, text, layer.fields, where, "name it in fields; only they are looked at here")


def _compared(name: str, text: str) -> bool:
    """Whether a name stands where an expression compares with a text."""
    return (
        re.search(rf"([=!]=\s*|(contains|starts_with|ends_with)\([^,()]+,\s*)\"?{re.escape(name)}\b", text) is not None
    )


def check_when(checker: Checker, text: str | None, fields: Collection[str], path: Path, hint: str) -> None:
    """A JMESPath expression on fields: it must be one, and they must be there."""
    checker.must(expressions.query, text, path)
    if text is not None and expressions.query(text) is None:
        for one in roots(text):
            if one not in fields:
                quoted = f"a text is written '{one}' in JMESPath, in single quotes" if _compared(one, text) else ""
                similar = did_you_mean(one, fields)
                checker.add(
                    path, f"there is no field {one}", similar if similar[:3] == "did" else quoted or similar or hint
                )


def check_encoding(checker: Checker, name: str, layer: Layer, path: Path) -> None:
    """The character set of a layer; its {names} are what its pages inherit, groups of `match` and parameters with one value."""
    text = layer.encoding
    names = [] if text is None else list(dict.fromkeys(ENCODING_NAME.findall(text)))
    if text is None or not names:
        checker.must(expressions.charset, text, path)
        return
    passed, single = checker.inherited.of(name), checker.params.single()
    known = {*groups_of(layer), *(passed or ()), *single}
    for one in names:
        if one in known or (passed is None and one not in checker.params.names):
            continue
        if one in checker.params.names:
            checker.add(
                path,
                f"parameter {one} has several values; here it must have one",
                f'write it in the name of the site, or in the seeds: {{url: …, pass: {{{one}: "{{{one}}}"}}}}',
            )
        else:
            near = did_you_mean(one, sorted(known))
            checker.add(path, f"{{{one}}} is not a parameter, a group of match, or passed on by a seed or link", near)
    if all(one in checker.params.names for one in names):
        for row in checker.params.combinations(names):
            filled = ENCODING_NAME.sub(lambda found, row=row: str(row[found[1]]), text)  # type: ignore[misc]
            if complaint := expressions.charset(filled):
                checker.add(path, *complaint)
                return


def _texts(follow: Follow) -> Iterator[tuple[Path, str]]:
    if follow.url is not None:
        yield ("url",), follow.url
    if follow.changed is not None:
        yield ("changed",), follow.changed
    for key, data in (
        ("headers", follow.headers),
        ("cookies", follow.cookies),
        ("form", follow.form),
        ("json", follow.json_),
        ("body", follow.body),
    ):
        yield from texts_within(data, (key,))


def groups_of(layer: Layer) -> Iterator[str]:
    if layer.match is not None and expressions.regex(layer.match) is None:
        yield from pattern_of(layer.match).groupindex


class InheritedNames:
    """The names that the pages of each layer of a site may inherit."""

    def __init__(self, site: SiteSpec) -> None:
        self._leading: dict[str | None, list[Follow]] = {}
        for layer in site.layers.values():
            for follow in layer.follow:
                self._leading.setdefault(follow.to, []).append(follow)
        self._refreshed = {rule.layer for rule in site.refresh}
        self._seeded = {name for seed in site.seeds for name in seed.inherited}
        if any(seed.feed is not None for seed in site.seeds):
            self._seeded |= {TITLE, DATE}
        self._any = (
            not site.seeds
            or any(seed.tasks is not None for seed in site.seeds)
            or any(layer.handler is not None or layer.hooks.after_extract is not None for layer in site.layers.values())
        )

    def of(self, layer: str, besides: Follow | None = None) -> set[str] | None:
        """The names of one layer, without those that only the rule `besides` passes. None if unknown: functions, tasks, links of other
        sites and columns of refreshed tables pass anything."""
        if self._any or layer in self._refreshed:
            return None
        leading = (*self._leading.get(layer, ()), *self._leading.get(None, ()))
        return self._seeded.union(*(follow.carry for follow in leading if follow is not besides))
