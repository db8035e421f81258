"""Python functions that site files name, as `module:function`, found only where the process's owner allows.

Every package on the way is looked at before it is imported: importing is running. What counts is where a module's file lies and
where the function was defined, so that no allowed module lends out what it has only imported itself.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from gossamer.errors import SiteError
from gossamer.sites.file.grant import OWN_FOLDER, Grant

SETTING = "GOSSAMER_ALLOWED_MODULES"


class NotAllowed(SiteError):
    """A site file names a function that this process does not allow. Allow its module with GOSSAMER_ALLOWED_MODULES."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(f"{message} ({hint}).")
        self.message, self.hint = message, hint


def look_into(grant: Grant) -> None:
    """Let functions be found that lie in the working directory or in a folder of `code`; last, so that nothing stands in for
    modules of its name."""
    for folder in (os.getcwd(), *map(str, grant.code)):
        if folder not in sys.path:
            sys.path.append(folder)


def function(entry: str, grant: Grant) -> Callable[..., Any]:
    """The function. Raises NotAllowed, LookupError where the module has none of that name, and what importing raises."""
    module, _, name = entry.partition(":")
    look_into(grant)
    found: Any = getattr(_imported(module, grant), name, None)
    if not callable(found):
        raise LookupError(f"{module} has no function {name}")
    home = _home(found)
    if home != module and not _is_allowed(home, grant):
        raise NotAllowed(
            f"{name} of {module} is defined in {home or 'no module'}, which is not allowed here",
            f"define a function in {module} that calls it" + (f", or allow it: {SETTING}={home}" if home else ""),
        )
    return found  # type: ignore[no-any-return]


def refusal(entry: str, grant: Grant) -> NotAllowed | None:
    """Why a function is not allowed, as far as that is known without importing anything."""
    module = entry.partition(":")[0]
    if grant.names_module(module):
        return None
    if not grant.folders:
        return _refused(module, grant)
    look_into(grant)
    top = module.partition(".")[0]
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return _refused(module, grant)
    return None if spec is None or grant.leads_to(top) or _lies_inside(spec, grant) else _refused(module, grant)


def _imported(module: str, grant: Grant) -> ModuleType:
    names = module.split(".")
    for number in range(1, len(names) + 1):
        name = ".".join(names[:number])
        if grant.names_module(name) or (name != module and grant.leads_to(name)):
            import_module(name)
            continue
        if not grant.folders:
            raise _refused(module, grant)
        try:
            spec = find_spec(name)
        except ValueError:
            raise _refused(module, grant) from None
        if spec is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        if not _lies_inside(spec, grant):
            raise _refused(module, grant)
        import_module(name)
    return sys.modules[module]


def _refused(module: str, grant: Grant) -> NotAllowed:
    if grant.folders:
        return NotAllowed(
            f"{module} does not lie in the project's folder, {grant.folders[0]}",
            f"put the function there, or allow the module: {SETTING}={module}",
        )
    return NotAllowed(
        f"{module} is not a module that this worker allows to site files of the crawl",
        f"allow it: {SETTING}={module}, or {SETTING}={OWN_FOLDER} for all that lie in the worker's project folder",
    )


def _is_allowed(module: str, grant: Grant) -> bool:
    if not module:
        return False
    if grant.names_module(module):
        return True
    spec = getattr(sys.modules.get(module), "__spec__", None)
    return spec is not None and _lies_inside(spec, grant)


def _lies_inside(spec: ModuleSpec, grant: Grant) -> bool:
    if spec.has_location and spec.origin:
        return grant.holds(spec.origin)
    # A package without __init__.py has several places.
    places = list(spec.submodule_search_locations or ())
    return bool(places) and all(grant.holds(place) for place in places)


def _home(found: Any) -> str:
    """The module in which a function, or the class of what can be called, was defined; "" if nothing says it."""
    while isinstance(found, functools.partial):
        found = found.func
    home = getattr(found, "__module__", None) or getattr(type(found), "__module__", None)
    return home if isinstance(home, str) else ""
