"""Where the file of a feed lies, as Scrapy fills its name in: for the whole round, not for a process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from scrapy import Spider
from scrapy.extensions import feedexport
from scrapy.utils.misc import load_object
from w3lib.url import file_uri_to_path

from gossamer.errors import SettingError

ROUNDS_OWN = ("%(time)", "%(batch_time)")
"""What gives the file of each round another name."""


def path_of(uri: str, options: Mapping[str, Any], params: Mapping[str, Any], spider: Spider, began: datetime) -> Path:
    """The file of a feed in the round that began then; `params` are those of Scrapy."""
    params = dict(params)
    params["time"] = began.replace(microsecond=0).isoformat().replace(":", "-")
    params["batch_time"] = began.isoformat().replace(":", "-")
    if options["uri_params"]:
        made: Callable[..., dict[str, Any] | None] = load_object(options["uri_params"])
        params = made(params, spider) or params
    try:
        name = _filled_in(uri, params)
    except (KeyError, ValueError, TypeError) as error:
        raise SettingError(
            f"The feed {uri} has no name: {type(error).__name__}: {error}. What is in %(…)s is an attribute of the spider, or comes from FEED_URI_PARAMS; a "
            "percent sign alone is written %%."
        ) from None
    local: Any = file_uri_to_path(name) if name.startswith("file:") else name
    return Path(local).absolute()


def is_of_one_round(uri: str, path: Path, spider: Spider) -> bool:
    """Whether no other round writes this file: its name has the time, or a job of scrapyd, which comes only once."""
    job = str(getattr(spider, "_job", ""))
    return any(name in uri for name in ROUNDS_OWN) or (bool(job) and job in path.name)


# Newer versions of Scrapy leave other percent signs alone.
_filled_in: Callable[[str, dict[str, Any]], str] = getattr(feedexport, "apply_uri_params", str.__mod__)
