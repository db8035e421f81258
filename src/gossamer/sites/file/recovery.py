"""What else is wrong with an invalid file, so that all mistakes are reported at once.

The invalid parts are removed, and the rest is checked. Only problems that cannot depend on the removed parts are reported: texts that
do not compile, layers that do not exist.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from pydantic import ValidationError

from gossamer.sites.check.site import Checker, check_with
from gossamer.sites.file.messages import faults_of
from gossamer.sites.file.params import Parameters
from gossamer.sites.file.problems import Path, Problem
from gossamer.sites.file.yaml import Spot
from gossamer.sites.format import SiteSpec

TIMES = 3
"""Removing a part may make another one invalid."""
# What may stand in the place of something that was refused, by the key under which it stands.
_NEUTRAL: dict[str, Any] = {
    "layers": {},
    "fields": {"value": ""},
    "seeds": "http://seed.invalid/",
    "follow": {"css": "a"},
    "clean": "strip",
}


def problems_besides(error: ValidationError, data: dict[str, Any], spot: Spot) -> list[Problem]:
    """What is wrong besides what `error` says; nothing if that is unknown."""
    rest = deepcopy(data)
    refused: list[Path] = []
    for _ in range(TIMES):
        for path in faults_of(error, rest):
            refused.append(path)
            _put_away(rest, path)
        try:
            site = SiteSpec.model_validate(rest, by_alias=True, by_name=False)
        except ValidationError as again:
            error = again
            continue
        checker = Checker(site, spot, Parameters(), incomplete=True)
        check_with(checker)
        return [problem for path, problem in checker.told if not any(_within(path, one) for one in refused)]
    return []


def _put_away(data: Any, path: Path) -> None:
    for part in path[:-1]:
        if isinstance(part, int) and isinstance(data, list) and part >= len(data):
            return  # gone already, with all of the list
        data = data[part]
    if not path:
        return
    last, parent = path[-1], next((part for part in reversed(path[:-1]) if isinstance(part, str)), "")
    if last == "site":
        data[last] = "site"
    elif parent in _NEUTRAL and (isinstance(last, int) or parent in ("layers", "fields")):
        data[last] = deepcopy(_NEUTRAL[parent])
    elif isinstance(data, list):
        data[:] = []
    else:
        data.pop(last, None)


def _within(path: Path, other: Path) -> bool:
    return path[: len(other)] == other
