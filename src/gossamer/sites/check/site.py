"""Checks that concern several keys of a site file.

Errors keep a site from being used; warnings (`Problem.severity`) are things that are hardly meant. Nothing is fetched, imported or
unfolded here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property

from gossamer.errors import PolicyError
from gossamer.model.policy import NAME
from gossamer.sites import plan
from gossamer.sites.check import expressions
from gossamer.sites.check.expressions import Complaint
from gossamer.sites.check.layer import check_layer, check_method, check_replacement
from gossamer.sites.check.login import check_login
from gossamer.sites.check.match import check_hosts, check_link_patterns, check_match
from gossamer.sites.check.names import InheritedNames, check_encoding, check_first_turns
from gossamer.sites.check.refresh import check_refresh
from gossamer.sites.check.requirements import check_needs
from gossamer.sites.check.rules import check_rules
from gossamer.sites.check.schedule import check_schedule
from gossamer.sites.check.store import check_rounds_of_gone, check_store
from gossamer.sites.check.values import check_variables
from gossamer.sites.file.environment import wrong_references
from gossamer.sites.file.messages import problem_at
from gossamer.sites.file.params import Parameters
from gossamer.sites.file.problems import ERROR, WARNING, Path, Problem, did_you_mean
from gossamer.sites.file.yaml import Spot
from gossamer.sites.format import Identity, Layer, RequestRule, Seed, SiteSpec
from gossamer.sites.request import names_beside
from gossamer.sites.seeds import count, pieces, unfold, unknown_names
from gossamer.sites.url.match import pattern_of

NO_SEEDS = "there are no seeds: nothing begins a round"
PROBES = ("/", "/q8/z_7?k=v&w=1", "/A-b/c.html", "/%C3%A9/0?")
"""A pattern that matches all of each of these matches everything."""
_RANGELIKE = re.compile(
    r"\[[A-Za-z]-[A-Za-z]\]|\[-?\d+(?:\.\.|-|,)(?!\d+(?::\d+)?\])[\d,.:-]*\]|\[\d+(?:\.\.|,)\d+\]|\{\d+(?:\.\.|-)\d+\}"
)
"""Looks like a range in a seed, and is not."""


class Checker:
    """One site while it is checked. The parts of the check call `add` with a path and a message. For an `incomplete` site, only what
    `must` and `layer` find is reported."""

    def __init__(self, site: SiteSpec, spot: Spot, params: Parameters, *, incomplete: bool = False) -> None:
        self.site = site
        self.params = params
        self.told: list[tuple[Path, Problem]] = []
        self._spot, self._incomplete = spot, incomplete

    @cached_property
    def inherited(self) -> InheritedNames:
        return InheritedNames(self.site)

    @property
    def problems(self) -> list[Problem]:
        return [problem for _, problem in self.told]

    @property
    def sound(self) -> bool:
        return not self._incomplete and not any(problem.severity == ERROR for _, problem in self.told)

    def add(self, path: Path, message: str, hint: str = "", *, key: bool = False) -> None:
        if not self._incomplete:
            self.told.append((path, problem_at(self._spot, path, message, hint, key=key)))

    def warn(self, path: Path, message: str, hint: str = "") -> None:
        if not self._incomplete:
            self.told.append((path, problem_at(self._spot, path, message, hint, severity=WARNING)))

    def must(self, looks: Callable[[str], Complaint], text: str | None, path: Path) -> None:
        """Report a text that does not compile."""
        if text is not None and (complaint := looks(text)) is not None:
            self.told.append((path, problem_at(self._spot, path, *complaint)))

    def layer(self, name: str | None, path: Path) -> None:
        """Report an unknown layer."""
        if name is not None and name not in self.site.layers:
            self.told.append(
                (path, problem_at(self._spot, path, f"there is no layer {name}", did_you_mean(name, self.site.layers)))
            )


def check(site: SiteSpec, spot: Spot, params: Parameters) -> list[Problem]:
    """Everything that is wrong or doubtful in a site of valid form."""
    checker = Checker(site, spot, params)
    check_with(checker)
    return checker.problems


def check_with(checker: Checker) -> None:
    site = checker.site
    _check_site(checker)
    for place, seed in enumerate(site.seeds):
        _check_seed(checker, seed, ("seeds", place))
    _check_count(checker)
    for name, layer in site.layers.items():
        _check_layer_keys(checker, name, layer)
        check_layer(checker, name, layer)
    check_login(checker)
    check_store(checker)
    check_refresh(checker)
    check_needs(checker)
    check_variables(checker)
    if checker.sound:
        _check_ways(checker)


def _check_site(checker: Checker) -> None:
    site = checker.site
    if not NAME.match(site.site):
        checker.add(
            ("site",), f"{site.site!r} cannot be the name of a site", "use letters, digits, and _ . : - (at most 100)"
        )
    if not site.layers:
        checker.add(("layers",), "there are no layers", "a site has at least one")
    if site.schedule is not None:
        check_schedule(checker, site.schedule, ("schedule",))
        if site.schedule.overlap == "reseed" and (
            archived := [name for name, rule in site.store.items() if rule.archive]
        ):
            checker.warn(
                ("schedule", "overlap"),
                f"{archived[0]} is archived when a round begins: what the last round still fetches goes into the new table",
                "write overlap: queue, or leave archive out",
            )
    _policy(checker, ("seen",), lambda: plan.seen(site.seen))
    for name, group in site.proxies.items():
        if not group.urls and group.file is None:
            checker.add(("proxies", name), "this group has no proxy", "write urls or file")
        for place, url in enumerate(group.urls):
            _check_proxy(checker, url, ("proxies", name, "urls", place))
    _check_request(checker, site.request, ("request",))
    _check_identity(checker, site.identity, ("identity",))
    for name in site.politeness.hosts:
        try:
            plan.host(name)
        except ValueError:
            checker.add(
                ("politeness", "hosts", name), f"{name!r} is not a host", "as example.com or example.com:8080", key=True
            )
    if not site.seeds and not site.refresh:
        checker.warn(("site",), NO_SEEDS, "write seeds, or follow links to it from another site")
    for path, message, hint in wrong_references(site):
        checker.add(path, message, hint)


def _policy(checker: Checker, path: Path, made: Callable[[], object]) -> None:
    try:
        made()
    except PolicyError as error:
        message, _, hint = str(error).rstrip(".").partition("; ")
        checker.add(
            path, re.sub(r"^(seen|group|host|lane|revisit|records): ", "", message).replace("window_", ""), hint
        )


def _check_request(checker: Checker, request: RequestRule | None, path: Path) -> None:
    if request is None:
        return
    if request.render and checker.site.engine != "scrapy":
        checker.add(
            (*path, "render"),
            "a browser makes pages only with engine: scrapy",
            "write engine: scrapy, or leave render out",
        )
    if request.proxy is not None and "://" in request.proxy:
        _check_proxy(checker, request.proxy, (*path, "proxy"))
    elif request.proxy is not None and request.proxy not in checker.site.proxies:
        hint = did_you_mean(request.proxy, checker.site.proxies) or "name the group in proxies, or write a URL"
        checker.add((*path, "proxy"), f"there is no group of proxies {request.proxy}", hint)
    check_method(checker, request, path)


def _check_proxy(checker: Checker, url: str, path: Path) -> None:
    """A proxy that a fetcher would refuse, or a whole group would be left without."""
    scheme = url.partition("://")[0]
    if re.fullmatch(r"socks\w*", scheme, re.IGNORECASE):
        # Not the URL: it may hold a password.
        checker.add(
            path, f"{scheme} is not a kind of proxy that can be used", "write http://host:port or https://host:port"
        )
    elif "${" not in url and not re.match(r"https?://[^/\s]+", url):
        checker.add(path, f"{url!r} is not a URL of a proxy", "as http://user:password@host:8080")


def _check_identity(checker: Checker, identity: Identity, path: Path) -> None:
    for place, (pattern, by) in enumerate(identity.rewrite):
        check_replacement(checker, pattern, by, (*path, "rewrite", place))


def _check_seed(checker: Checker, seed: Seed, path: Path) -> None:
    checker.layer(seed.layer, (*path, "layer"))
    check_method(checker, seed, path)
    if seed.since is not None and seed.sitemap is None and seed.feed is None:
        checker.add((*path, "since"), "since is only for sitemaps and feeds", "leave it out")
    for kind in ("url", "sitemap", "feed"):
        text = getattr(seed, kind)
        if text is None:
            continue
        where = (*path, kind)
        try:
            pieces(text)
        except ValueError as error:
            checker.add(where, str(error), "as [1-300:5]")
            continue
        if unknown := [name for name in names_beside(seed) if name not in checker.params.names]:
            _unknown_parameter(checker, unknown[0], path)
        if unknown := unknown_names(text, checker.params):
            _unknown_parameter(checker, unknown[0], where)
            continue
        url = next(unfold(text, checker.params)).url
        if not re.match(r"https?://[^/?#\s]", url, re.IGNORECASE):
            hint = f"write https://{url}" if re.match(r"[\w.-]+\.[a-z]{2,}(/|$)", url) else "as https://example.com/"
            checker.add(where, f"{url!r} is not a URL", hint)
        elif re.search(r"\s", url):
            checker.add(where, "there is white space in this URL", "write %20")
        elif found := _RANGELIKE.search(text):
            checker.warn(
                where,
                f"{found[0]} is not a range, so this is one URL",
                "ranges are [1-300], [1-300:5] and [01-99]; write other values in params",
            )


def _unknown_parameter(checker: Checker, name: str, path: Path) -> None:
    hint = did_you_mean(name, checker.params.names) or "name it in params; {{name}} stands for {name} itself"
    checker.add(path, f"there is no parameter {name}", hint)


def _check_count(checker: Checker) -> None:
    total, most = 0, checker.site.limits.seeds
    for place, seed in enumerate(checker.site.seeds):
        try:
            total += sum(
                count(text, checker.params, names_beside(seed))
                for text in (seed.url, seed.sitemap, seed.feed)
                if text is not None
            )
        except ValueError:
            continue  # Said before.
        if total > most:
            checker.add(
                ("seeds", place),
                f"up to here the seeds are {total:,} URLs; at most {most:,} are allowed",
                "narrow the range or raise limits.seeds",
            )
            return


def _check_records(checker: Checker, layer: Layer, path: Path) -> None:
    keys = [key for key in ("revisit", "rediscover", "page_records") if getattr(layer, key) is not None]
    if not layer.keeps_records:
        return
    scope = layer.seen.scope if layer.seen is not None else "forever"
    _policy(checker, (*path, keys[0]), lambda: plan.records(layer, scope))
    if layer.seen is not None and layer.seen.policy != "exact":
        checker.add(
            (*path, "seen"),
            f"{keys[0]} makes the layer keep a record of every page, so the policy {layer.seen.policy} has no effect",
            "leave the policy out; page_records bounds the records by number and age",
        )


def _check_layer_keys(checker: Checker, name: str, layer: Layer) -> None:
    path: Path = ("layers", name)
    if name in plan.LISTINGS:
        checker.add(
            path, f"{name} cannot be the name of a layer: sitemaps and feeds have it", "choose another name", key=True
        )
    checker.must(expressions.regex, layer.match, (*path, "match"))
    check_encoding(checker, name, layer, (*path, "encoding"))
    _check_request(checker, layer.request, (*path, "request"))
    if layer.identity is not None:
        _check_identity(checker, layer.identity, (*path, "identity"))
    if layer.seen is not None:
        rule = layer.seen
        _policy(checker, (*path, "seen"), lambda: plan.seen(rule))
    if layer.revisit is not None:
        if layer.revisit.max and layer.revisit.min > layer.revisit.max:
            checker.add((*path, "revisit"), "min is more than max")
        if not layer.revisit.adaptive and (layer.revisit.min or layer.revisit.max):
            checker.warn(
                (*path, "revisit"), "min and max are for adaptive visits", "write adaptive: true, or leave them out"
            )
    _check_records(checker, layer, path)
    if layer.hooks.after_round is not None:
        checker.add(
            (*path, "hooks", "after_round"), "after_round is only for the site", "write it in the hooks of the site"
        )
    if layer.handler is not None:
        for key in ("fields", "follow", "page", "records"):
            if getattr(layer, key):
                checker.add(
                    (*path, key),
                    f"handler and {key} exclude each other: the function reads the page",
                    "leave out one of them",
                )


def _check_ways(checker: Checker) -> None:
    """Which layers URLs come to. Only once all patterns and seeds can be used."""
    site = checker.site
    layout = plan.LayerGraph(site, checker.params)
    known: dict[str, str] = {}
    matched = any(layer.match is not None for layer in site.layers.values())
    for name, layer in site.layers.items():
        path: Path = ("layers", name)
        if layer.match is not None:
            check_match(checker, layer.match, (*path, "match"), layout.hosts or ())
            other = known.setdefault(normal(layer.match), name)
            if other != name:
                checker.add(
                    (*path, "match"),
                    f"this is what layer {other} matches, so no URL comes here",
                    "make one of them more exact",
                )
            elif len(site.layers) > 1 and _takes_all(layer.match):
                checker.warn(
                    (*path, "match"),
                    "this takes up whole URLs, so it goes before the other layers' patterns",
                    "leave out .* at its end",
                )
        for place, url in enumerate(layer.examples):
            found = layout.matcher.layer_of(url)
            if found is None or found[0] != name:
                goes = f"belongs to layer {found[0]}" if found else "belongs to no layer"
                checker.add(
                    (*path, "examples", place), f"{url} {goes}", "" if layer.match else "this layer has no match"
                )
        for place, follow in enumerate(layer.follow):
            check_link_patterns(checker, follow, (*path, "follow", place))
            if follow.to is None and not matched:
                checker.add(
                    (*path, "follow", place),
                    "these links say no layer, and no layer has a match",
                    "write to, or match in a layer",
                )
    for path, request in (
        (("request",), site.request),
        *((("layers", name, "request"), layer.request) for name, layer in site.layers.items()),
    ):
        if request is not None and request.auth is not None and not layout.hosts:
            checker.add((*path, "auth"), "the seeds name no host that may see the password", "write a seed with a URL")
    _policy(checker, ("layers",), lambda: plan.lanes(layout))
    _policy(checker, ("politeness",), lambda: (plan.group(site), plan.hosts(layout)))
    check_hosts(checker, layout.hosts or ())
    check_rules(checker, layout)
    check_first_turns(checker, layout)
    check_rounds_of_gone(checker, layout)
    reached = layout.reached()
    for name, layer in site.layers.items():
        if (site.seeds or site.refresh) and name not in reached:
            hint = "write a follow with to" if layer.match is None else "no link or seed leads to it"
            checker.warn(("layers", name), f"nothing leads to layer {name}", hint)


def normal(pattern: str) -> str:
    """A pattern without what makes no difference to which URLs it fits: names of groups, a .* at its end."""
    pattern = re.sub(r"\(\?P<\w+>|\(\?:", "(", pattern)
    return re.sub(r"\.\*\$?$", "", pattern).replace(r"\/", "/")


def _takes_all(pattern: str) -> bool:
    compiled = pattern_of(pattern)
    return all((found := compiled.search(probe)) is not None and found[0] == probe for probe in PROBES)
