"""Whether the rules that read pages can be used: selectors, names of fields, links."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from gossamer.sites.check import expressions
from gossamer.sites.check.names import check_names, check_when
from gossamer.sites.check.values import check_default
from gossamer.sites.crossing import crosses, split
from gossamer.sites.extract.turns import NAME as TURN
from gossamer.sites.file.problems import Path, did_you_mean
from gossamer.sites.format import DATA, Body, Clean, FieldRule, Follow, Format, Kind, Layer, Selected, Taken
from gossamer.sites.template import NAME
from gossamer.sites.url.match import pattern_of

if TYPE_CHECKING:
    from gossamer.sites.check.site import Checker

MARKUP = (Format.HTML, Format.XML)
_LOOKS = (
    ("css", expressions.css),
    ("xpath", expressions.xpath),
    ("regex", expressions.regex),
    ("jmespath", expressions.query),
    ("table", expressions.css),
)

TIMES = frozenset({Kind.DATE, Kind.DATETIME})
NUMBERS = frozenset({Kind.INT, Kind.FLOAT, Kind.DECIMAL})
_TIME = re.compile(r"(^|[\s>+~/:*])time([.#\[:]|$)")
"""The end of a selector of <time>."""
_NEXT = re.compile(r"next|older|pag(e|in|er)|weiter|suiv|sigu", re.IGNORECASE)
"""What selectors of links to the next page have."""


def check_layer(checker: Checker, name: str, layer: Layer) -> None:
    path: Path = ("layers", name)
    check_fields(checker, layer.fields, (*path, "fields"), layer.format)
    _check_from_page(checker, layer.fields, layer, (*path, "fields"))
    if layer.records is None:
        for field, rule in layer.fields.items():
            _check_data(
                checker, rule.each or rule, (*path, "fields", field, *(("each",) if rule.each else ())), layer.format
            )
    else:
        _check_data(checker, layer.records, (*path, "records"), layer.format)
        _check_records(checker, layer.records, (*path, "records"), layer.format)
        _check_rows(checker, layer.records, layer.fields, (*path, "fields"))
        if not layer.fields:
            checker.add((*path, "records"), "records needs fields: what is to be found in each", "write fields")
    if layer.page:
        _check_page(checker, layer, path)
    store = checker.site.store.get(name)
    fields: Collection[str] = layer.fields if layer.handler is None or store is None else store.types
    for place, wanted in enumerate(layer.required if layer.handler is None or fields else ()):
        for field in (wanted,) if isinstance(wanted, str) else wanted:
            if field not in fields:
                checker.add((*path, "require", place), f"there is no field {field}", did_you_mean(field, fields))
    valid = layer.valid
    checker.must(expressions.regex, valid.content_type, (*path, "valid", "content_type"))
    for place, status in enumerate(valid.status):
        if not 100 <= status <= 599:
            checker.add((*path, "valid", "status", place), f"{status} is not a status", "from 100 to 599")
    for place, follow in enumerate(layer.follow):
        _check_follow(checker, name, layer, follow, (*path, "follow", place))
    if (passed := checker.inherited.of(name)) is not None:
        for where, field, rule in (
            *(("fields", *one) for one in layer.fields.items()),
            *(("page", *one) for one in layer.page.items()),
        ):
            first, _, rest = rule.source.partition(".")
            if first == "parent" and rest and rest.split(".")[0] not in passed:
                hint = did_you_mean(rest.split(".")[0], sorted(passed)) or "write pass where the link is followed"
                checker.warn((*path, where, field, "from"), f"nothing passes {rest.split('.')[0]} to this layer", hint)


def _check_page(checker: Checker, layer: Layer, path: Path) -> None:
    """The values of a page as a whole."""
    check_fields(checker, layer.page, (*path, "page"), layer.format)
    if layer.records is None:
        checker.add((*path, "page"), "page is for layers with records; this page is one record", "write it in fields")
    for field, rule in layer.page.items():
        _check_data(checker, rule.each or rule, (*path, "page", field, *(("each",) if rule.each else ())), layer.format)
        if field in layer.fields and layer.fields[field].source != f"page.{field}":
            checker.add(
                (*path, "page", field), f"{field} is a field of the records, too", "rename one of them", key=True
            )


def _check_from_page(checker: Checker, fields: Mapping[str, FieldRule], layer: Layer, path: Path) -> None:
    for field, rule in fields.items():
        for looked, where in ((rule, (*path, field)), (rule.each, (*path, field, "each"))):
            first, _, rest = looked.source.partition(".") if looked is not None else ("", "", "")
            if first == "page" and (not rest or rest.split(".")[0] not in layer.page):
                name = rest.split(".")[0]
                hint = did_you_mean(name, layer.page) if layer.page else "write page: beside records"
                checker.add((*where, "from"), f"there is no {name or 'name'} in page of this layer", hint)
        _check_from_page(checker, rule.fields, layer, (*path, field, "fields"))


def _check_selected(checker: Checker, rule: Selected, path: Path, format: Format) -> None:
    for place, step in enumerate(rule.clean if isinstance(rule, Taken) else ()):
        if isinstance(step, Clean):
            _check_step(checker, step, (*path, "clean", place))
    for key, looks in _LOOKS:
        if (text := getattr(rule, key)) is not None:
            checker.must(looks, text, (*path, key))
    if rule.source == "content" and format not in MARKUP:
        for key in ("css", "xpath", "table"):
            if getattr(rule, key) is not None:
                hint = "use jmespath" if format in DATA else "use regex" if format is Format.TEXT else "leave it out"
                checker.add((*path, key), f"{key} finds nothing in pages of format {format.value}", hint)
    if rule.attr is not None and rule.css is None and rule.xpath is None:
        checker.add((*path, "attr"), "only elements have attributes", "write css or xpath")
    if rule.html and rule.css is None and rule.xpath is None:
        checker.add((*path, "html"), "only elements have markup", "write css or xpath")


def _check_data(checker: Checker, rule: Selected, path: Path, format: Format) -> None:
    """JMESPath on a whole page that is markup: it would have to be JSON all the same."""
    if rule.jmespath is not None and rule.source == "content" and format in MARKUP and not (rule.css or rule.xpath):
        checker.warn(
            (*path, "jmespath"),
            f"JMESPath reads JSON, and pages of this layer are {format.value}",
            "write format: json in the layer, or css: of the element whose text is JSON",
        )


def _check_records(checker: Checker, rule: Selected, path: Path, format: Format) -> None:
    if not (rule.css or rule.xpath or rule.regex or rule.jmespath or rule.table or rule.source != "content"):
        checker.add(path, "nothing says where the records are", "write css, xpath, jmespath or table")
    _check_selected(checker, rule, path, format)


def _check_rows(checker: Checker, selected: Selected, fields: Mapping[str, FieldRule], path: Path) -> None:
    """Fields of the rows of a table, which have texts and no elements."""
    for name, rule in fields.items() if selected.table is not None else ():
        for key in ("css", "xpath", "table"):
            if rule.source == "content" and getattr(rule, key) is not None:
                checker.add(
                    (*path, name, key),
                    f"{key} finds nothing in the row of a table",
                    "write jmespath: the name of a column",
                )


def check_fields(checker: Checker, fields: Mapping[str, FieldRule], path: Path, format: Format) -> None:
    before: list[str] = []
    for name, rule in fields.items():
        _check_field(checker, rule, (*path, name), format, before, len(path) > 3)
        before.append(name)


def _check_field(
    checker: Checker, rule: FieldRule, path: Path, format: Format, before: list[str], nested: bool
) -> None:
    # What is inside a record may be an element of it, a text or a value: only the page itself has a certain format.
    _check_selected(checker, rule, path, Format.HTML if nested else format)
    checker.must(expressions.zone, rule.tz, (*path, "tz"))
    for place, language in enumerate(rule.languages):
        checker.must(expressions.language, language, (*path, "languages", place))
    for place, written in enumerate(rule.format):
        checker.must(expressions.date_format, written, (*path, "format", place))
    if rule.type not in (Kind.DATE, Kind.DATETIME):
        for key in ("format", "languages", "order", "tz"):
            if getattr(rule, key):
                checker.warn((*path, key), f"{key} is for dates", "write type: date or datetime, or leave it out")
    elif rule.order and not rule.languages:
        checker.warn(
            (*path, "order"), "order has no effect without languages", "name them, or say the format: '%d/%m/%Y'"
        )
    if expressions.zone(rule.tz or "UTC") is None and not any(map(expressions.language, rule.languages)):
        check_default(checker, rule, path)
    first, _, rest = rule.source.partition(".")
    if first == "fields" and not nested and rest.split(".")[0] not in before:
        message = f"no field {rest.split('.')[0]} is found before this one" if rest else "from: fields says no field"
        checker.add(
            (*path, "from"),
            message,
            did_you_mean(rest.split(".")[0], before) or "a field that comes earlier, as fields.id",
        )
    if first == "headers" and not rest and rule.jmespath is None and not rule.fields:
        checker.add((*path, "from"), "from: headers says no header", "as headers.etag")
    check_when(checker, rule.when, before, (*path, "when"), "a field that comes earlier")
    if rule.each is not None:
        _check_records(checker, rule.each, (*path, "each"), Format.HTML if nested else format)
    _check_rows(checker, rule.each or rule, rule.fields, (*path, "fields"))
    check_fields(checker, rule.fields, (*path, "fields"), format)


def _check_step(checker: Checker, step: Clean, path: Path) -> None:
    checker.must(expressions.regex, step.remove, (*path, "remove"))
    checker.must(expressions.regex, step.take, (*path, "take"))
    if step.split == "":
        checker.add((*path, "split"), "an empty text divides nothing")
    if step.replace is not None:
        check_replacement(checker, *step.replace, (*path, "replace"))


def check_replacement(checker: Checker, expression: str, replacement: str, path: Path) -> None:
    """[regular expression, replacement]"""
    checker.must(expressions.regex, expression, (*path, 0))
    if expressions.regex(expression) is None:
        try:
            pattern_of(f"(?:{expression})|").sub(replacement, "")
        except Exception as error:
            checker.add((*path, 1), f"this replacement cannot be used: {error}", "write \\\\ for a backslash")


def _check_follow(checker: Checker, name: str, layer: Layer, follow: Follow, path: Path) -> None:
    _check_selected(checker, follow, path, layer.format)
    if layer.records is None:
        _check_data(checker, follow, path, layer.format)
    check_method(checker, follow, path)
    if follow.to is not None and crosses(follow.to):
        if split(follow.to)[0] == checker.site.site:
            checker.add((*path, "to"), "this is the site itself", f"write {split(follow.to)[1]}")
    else:
        checker.layer(follow.to, (*path, "to"))
    checker.must(expressions.regex, follow.match, (*path, "match"))
    checker.must(expressions.regex, follow.skip, (*path, "skip"))
    if follow.pages is not None and follow.to not in (None, name):
        checker.add(
            (*path, "pages"),
            f"pages is for links to the same layer, {name}; these go to {follow.to}",
            "use limit, or leave it out",
        )
    check_names(checker, name, layer, follow, path)
    _check_changed(checker, name, layer, follow, path)
    _check_turns(checker, name, follow, path)


def check_method(checker: Checker, body: Body, path: Path) -> None:
    if body.method in ("GET", "HEAD") and (body.json_ is not None or body.body is not None):
        checker.add((*path, "method"), f"a {body.method} request has no body", "write POST, or leave json and body out")


def _check_changed(checker: Checker, name: str, layer: Layer, follow: Follow, path: Path) -> None:
    """One rule of `follow`."""
    if follow.changed is None:
        _check_url(checker, name, layer, follow, path)
        return
    if not any(found[2] for found in NAME.finditer(follow.changed)):
        checker.add(
            (*path, "changed"), "changed names no field, so it never differs", 'write {names}, as changed: "{at}"'
        )
    for target in _targets(checker, follow):
        scope = (checker.site.layers[target].seen or checker.site.seen).scope
        if scope in ("never", "round") and not checker.site.layers[target].keeps_records:
            when = "whenever a link leads to it" if scope == "never" else "in every round"
            checker.warn(
                (*path, "changed"),
                f"layer {target} has seen: {scope}, so each page is fetched {when}, whatever changed says",
                f"leave seen out of layer {target}",
            )


def _check_turns(checker: Checker, name: str, follow: Follow, path: Path) -> None:
    """A link to the next page without `pages` is no page turn: where lists say what changed, what it leads to stays as it was."""
    if follow.to != name or follow.pages is not None or follow.changed is not None or follow.again:
        return
    layers = checker.site.layers
    if (layers[name].seen or checker.site.seen).scope in ("never", "round"):
        return
    if _NEXT.search(follow.css or follow.xpath or follow.jmespath or follow.match or "") and any(
        rule.changed is not None and name in _targets(checker, rule)
        for other, layer in layers.items()
        if other != name
        for rule in layer.follow
    ):
        checker.warn(
            path,
            f"without pages these are no page turns: they are not fetched again where changed says that a page of {name} changed",
            "write pages: 0 if they lead to its further pages",
        )


def _check_url(checker: Checker, name: str, layer: Layer, follow: Follow, path: Path) -> None:
    """A URL with a value that changes is another page each time, whose page turns and children were seen before."""
    before, mark, query = (follow.url or "").partition("?")
    if not mark or NAME.search(before) is None:
        return
    targets = [
        target for target in _targets(checker, follow) if target != name and _leads_on(checker.site.layers[target])
    ]
    if not targets:
        return
    # What stands before is an address of its own, and a number behind it no part of that.
    is_whole = NAME.fullmatch(before) is not None
    store = checker.site.store.get(name)
    keys = set(store.key) if store is not None else set()
    for found in NAME.finditer(query):
        field = found[2]
        rule = (layer.fields.get(field) or layer.page.get(field)) if field and field != TURN else None
        if rule is not None and field not in keys and (_is_time(rule) or (rule.type in NUMBERS and is_whole)):
            checker.warn(
                (*path, "url"),
                f"{{{field}}} changes, and makes another page of what is still the same one: the page turns and links of layer "
                f"{targets[0]} were seen before, and are not fetched again",
                f'leave it out of url, and write changed: "{{{field}}}"',
            )
            return


def _is_time(rule: FieldRule) -> bool:
    return rule.type in TIMES or rule.attr == "datetime" or _TIME.search(rule.css or rule.xpath or "") is not None


def _leads_on(layer: Layer) -> bool:
    return bool(layer.follow) or layer.handler is not None


def _targets(checker: Checker, follow: Follow) -> Iterator[str]:
    """The layers of this site that a rule may lead to."""
    if follow.to is None:
        yield from (other for other, layer in checker.site.layers.items() if layer.match is not None)
    elif not crosses(follow.to) and follow.to in checker.site.layers:
        yield follow.to
