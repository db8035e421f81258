"""Whether the rules that read pages can be used: selectors, names of fields, links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from gossamer.sites.check import expressions
from gossamer.sites.file.params import names_in
from gossamer.sites.file.problems import Path, did_you_mean
from gossamer.sites.format import Body, Clean, FieldRule, Follow, Format, Layer, Selected, SiteSpec
from gossamer.sites.url.match import pattern_of

if TYPE_CHECKING:
    from gossamer.sites.check.site import Checker

MARKUP = (Format.HTML, Format.XML)
_LOOKS = (
    ("css", expressions.css),
    ("xpath", expressions.xpath),
    ("regex", expressions.regex),
    ("jmespath", expressions.query),
)


def check_layer(checker: Checker, name: str, layer: Layer) -> None:
    path: Path = ("layers", name)
    _check_fields(checker, layer.fields, (*path, "fields"), layer.format)
    if layer.records is not None:
        _check_records(checker, layer.records, (*path, "records"), layer.format)
        if not layer.fields:
            checker.add((*path, "records"), "records needs fields: what is to be found in each", "write fields")
    for place, wanted in enumerate(layer.require if layer.handler is None else ()):
        for field in (wanted,) if isinstance(wanted, str) else wanted:
            if field not in layer.fields:
                checker.add((*path, "require", place), f"there is no field {field}", did_you_mean(field, layer.fields))
    valid = layer.valid
    checker.must(expressions.regex, valid.content_type, (*path, "valid", "content_type"))
    for place, status in enumerate(valid.status):
        if not 100 <= status <= 599:
            checker.add((*path, "valid", "status", place), f"{status} is not a status", "from 100 to 599")
    passed = _passed(checker.site, name)
    for place, follow in enumerate(layer.follow):
        _check_follow(checker, name, layer, follow, (*path, "follow", place), passed)
    if passed is not None:
        for field, rule in layer.fields.items():
            first, _, rest = rule.source.partition(".")
            if first == "parent" and rest and rest.split(".")[0] not in passed:
                hint = did_you_mean(rest.split(".")[0], sorted(passed)) or "write pass where the link is followed"
                checker.warn(
                    (*path, "fields", field, "from"), f"nothing passes {rest.split('.')[0]} to this layer", hint
                )


def _check_selected(checker: Checker, rule: Selected, path: Path, format: Format) -> None:
    for key, looks in _LOOKS:
        if (text := getattr(rule, key)) is not None:
            checker.must(looks, text, (*path, key))
    if rule.source == "content" and format not in MARKUP:
        for key in ("css", "xpath"):
            if getattr(rule, key) is not None:
                hint = (
                    "use jmespath"
                    if format is Format.JSON
                    else "use regex"
                    if format is Format.TEXT
                    else "leave it out"
                )
                checker.add((*path, key), f"{key} finds nothing in pages of format {format.value}", hint)
    if rule.attr is not None and rule.css is None and rule.xpath is None:
        checker.add((*path, "attr"), "only elements have attributes", "write css or xpath")
    if rule.html and rule.css is None and rule.xpath is None:
        checker.add((*path, "html"), "only elements have markup", "write css or xpath")


def _check_records(checker: Checker, rule: Selected, path: Path, format: Format) -> None:
    if not (rule.css or rule.xpath or rule.regex or rule.jmespath or rule.source != "content"):
        checker.add(path, "nothing says where the records are", "write css, xpath or jmespath")
    _check_selected(checker, rule, path, format)


def _check_fields(checker: Checker, fields: Mapping[str, FieldRule], path: Path, format: Format) -> None:
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
    for place, step in enumerate(rule.clean):
        if isinstance(step, Clean):
            _check_step(checker, step, (*path, "clean", place))
    if rule.each is not None:
        _check_records(checker, rule.each, (*path, "each"), Format.HTML if nested else format)
    _check_fields(checker, rule.fields, (*path, "fields"), format)


def _check_step(checker: Checker, step: Clean, path: Path) -> None:
    checker.must(expressions.regex, step.remove, (*path, "remove"))
    checker.must(expressions.regex, step.take, (*path, "take"))
    if step.split == "":
        checker.add((*path, "split"), "an empty text divides nothing")
    if step.replace is not None:
        expression, replacement = step.replace
        where = (*path, "replace", 0)
        checker.must(expressions.regex, expression, where)
        if expressions.regex(expression) is None:
            try:
                pattern_of(f"(?:{expression})|").sub(replacement, "")
            except Exception as error:
                checker.add(
                    (*path, "replace", 1), f"this replacement cannot be used: {error}", "write \\\\ for a backslash"
                )


def _check_follow(
    checker: Checker, name: str, layer: Layer, follow: Follow, path: Path, passed: set[str] | None
) -> None:
    _check_selected(checker, follow, path, layer.format)
    check_method(checker, follow, path)
    checker.layer(follow.to, (*path, "to"))
    checker.must(expressions.regex, follow.match, (*path, "match"))
    checker.must(expressions.regex, follow.skip, (*path, "skip"))
    checker.must(expressions.query, follow.when, (*path, "when"))
    if follow.pages is not None and follow.to not in (None, name):
        checker.add(
            (*path, "pages"),
            f"pages is for links to the same layer, {name}; these go to {follow.to}",
            "use limit, or leave it out",
        )
    known = {*layer.fields, *_groups(layer), *(passed or ())}
    if isinstance(follow.carry, dict):
        for key, expression in follow.carry.items():
            checker.must(expressions.query, expression, (*path, "pass", key))
    elif passed is not None:
        # That it passes a name itself does not make it known here.
        others = {
            *layer.fields,
            *_groups(layer),
            *(_passed(checker.site, name, follow) or ()),
            *checker.params.single(),
        }
        for place, field in enumerate(follow.carry):
            if field not in others:
                checker.add((*path, "pass", place), f"there is no field {field}", did_you_mean(field, sorted(others)))
    if passed is not None:
        _check_names(checker, follow, path, known)


def check_method(checker: Checker, body: Body, path: Path) -> None:
    if body.method in ("GET", "HEAD") and (body.json_ is not None or body.body is not None):
        checker.add((*path, "method"), f"a {body.method} request has no body", "write POST, or leave json and body out")


def _check_names(checker: Checker, follow: Follow, path: Path, known: set[str]) -> None:
    """The {names} of a link's texts: fields, what was passed on, groups of `match`, parameters with one value."""
    single = checker.params.single()
    for where, text in _texts(follow):
        for name in names_in(text):
            if name in known or name in single:
                continue
            if name in checker.params.names:
                checker.add(
                    (*path, *where),
                    f"parameter {name} has several values; here it must have one",
                    "use it in seeds, and pass it on",
                )
            else:
                checker.add(
                    (*path, *where),
                    f"{{{name}}} is not a field, parameter or group of match",
                    did_you_mean(name, sorted({*known, *single})),
                )


def _texts(follow: Follow) -> Iterator[tuple[Path, str]]:
    if follow.url is not None:
        yield ("url",), follow.url
    for key in ("headers", "cookies", "form"):
        for name, value in (getattr(follow, key) or {}).items():
            if isinstance(value, str):
                yield (key, name), value
    if follow.body is not None:
        yield ("body",), follow.body


def _groups(layer: Layer) -> Iterator[str]:
    if layer.match is not None and expressions.regex(layer.match) is None:
        yield from pattern_of(layer.match).groupindex


def _passed(site: SiteSpec, name: str, besides: Follow | None = None) -> set[str] | None:
    """The names that pages of a layer may inherit; None if unknown (functions and tasks pass anything)."""
    found: set[str] = set()
    for layer in site.layers.values():
        if layer.handler is not None or layer.hooks.after_extract is not None:
            return None
        for follow in layer.follow:
            if follow is not besides and follow.to in (None, name):
                found.update(follow.carry)
    for seed in site.seeds:
        if seed.tasks is not None:
            return None
        found.update(seed.inherited)
    return found
