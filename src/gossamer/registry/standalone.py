"""A site file that needs others beside it, as a text that stands alone: with all that it extends, and a site for each of its rows.

Workers elsewhere do not have those files. The text is read again before it counts: only what means the same is kept. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from gossamer.sites.file.dump import to_yaml
from gossamer.sites.file.load import load_text
from gossamer.sites.file.problems import Problem, SiteErrors, listed
from gossamer.sites.file.yaml import InvalidYaml, read
from gossamer.sites.format import SiteSpec

WITHOUT = "it cannot be written out with other values"
FILES = {"extends": "write its keys here", "params": "write its rows here"}


def others(text: str, file: str) -> Iterator[Problem]:
    """Where a text names other files that describe its sites."""
    if not any(word in text for word in FILES):
        return  # As most do; reading a text twice takes its time.
    try:
        for document in read(text, file):
            for key, hint in FILES.items():
                if isinstance(document.data, dict) and isinstance(document.data.get(key), str):
                    place = document.spot.find((key,))[0]
                    said = f"{document.data[key]} is another file, which workers elsewhere do not have"
                    yield Problem(file, place.line, place.column, key, said, hint)
    except InvalidYaml:
        return  # reading the sites reports it


def standalone(text: str, file: str, sites: Sequence[SiteSpec], given: Collection[str] = ()) -> str:
    """The text itself if it stands alone; otherwise one that does, and describes the same sites. `given` are the parameters
    whose values are not those of the text."""
    named = list(others(text, file))
    changed = sorted({name for site in sites for name in _params(site) if name in given})
    if not named and not changed:
        return text
    head = "# Written out when it was pushed, with the other files that it names: what workers elsewhere need.\n"
    if changed:
        head = f"# Written out when it was pushed, with other values of {listed(changed)} than its file has.\n"
        named.append(Problem(file, 0, 0, "params", WITHOUT, "write a file that extends it"))
    tables = [site.model_dump(mode="json", by_alias=True, exclude_unset=True) for site in sites]
    body = to_yaml(*tables)
    try:
        same = [_plain(one) for one in load_text(head + body, file)] == [_plain(one) for one in sites]
    except SiteErrors:
        same = False
    if not same:
        raise SiteErrors(named)
    return head + body


def _params(site: SiteSpec) -> Collection[str]:
    rows = site.params
    return rows if isinstance(rows, dict) else rows[0] if rows and not isinstance(rows, str) else ()


def _plain(site: SiteSpec) -> dict[str, Any]:
    """What a site says. A parameter of one value is the same whether it stands in a list or not."""
    said = site.model_dump()
    if isinstance(site.params, dict):
        said["params"] = {
            name: value[0] if isinstance(value, list | tuple) and len(value) == 1 else value
            for name, value in site.params.items()
        }
    return said
