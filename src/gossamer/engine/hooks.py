"""Python functions that a site file names, as `module:function`; plain ones and coroutines alike."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from gossamer.errors import SiteError


def look_here() -> None:
    """Let functions be found that lie in the working directory; last, so that nothing stands in for modules of its name."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)


def find(name: str) -> Callable[..., Any]:
    """The function; SiteError where there is none."""
    module, _, function = name.partition(":")
    look_here()
    try:
        found = getattr(import_module(module), function, None)
    except Exception as error:
        raise SiteError(f"The hook {name} cannot be loaded: {type(error).__name__}: {error}.") from error
    if not callable(found):
        raise SiteError(f"The hook {name} cannot be loaded: the module has no function {function}.")
    return found  # type: ignore[no-any-return]


async def call(hook: Callable[..., Any], *arguments: Any) -> Any:
    answer = hook(*arguments)
    return await answer if inspect.isawaitable(answer) else answer
