"""Python functions that a site file names, as `module:function`; plain ones and coroutines alike."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from gossamer.errors import SiteError
from gossamer.sites.file.functions import NotAllowed, function
from gossamer.sites.file.grant import Grant


def find(name: str, grant: Grant) -> Callable[..., Any]:
    """The function; SiteError if it is missing or not allowed."""
    try:
        return function(name, grant)
    except NotAllowed as error:
        raise SiteError(f"The hook {name} cannot be used: {error}") from None
    except Exception as error:
        raise SiteError(f"The hook {name} cannot be loaded: {type(error).__name__}: {error}.") from error


async def call(hook: Callable[..., Any], *arguments: Any) -> Any:
    answer = hook(*arguments)
    return await answer if inspect.isawaitable(answer) else answer
