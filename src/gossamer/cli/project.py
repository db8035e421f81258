"""The Scrapy project that a command is run in: its settings are in force for every command, as they are for its workers.

Only the project's own settings module is imported, not Scrapy; but for projects on scrapy-redis, whose settings Scrapy reads.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from configparser import ConfigParser
from configparser import Error as ConfigError
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from gossamer.errors import SettingError
from gossamer.settings import project_folder

CONFIG = "scrapy.cfg"
NAMED = "SCRAPY_SETTINGS_MODULE"
SCRAPY_REDIS = "scrapy_redis"


class ProjectSettings(NamedTuple):
    """`module` is where the settings come from, "" outside of any project. `url` is the server of a scrapy-redis project, which
    its workers use whatever else is said."""

    module: str = ""
    values: Mapping[str, Any] = {}
    url: str = ""


def project_settings() -> ProjectSettings:
    """Of the project in this directory, or in the nearest above it; SettingError if they cannot be imported."""
    root = project_folder()
    module = os.environ.get(NAMED) or (_module(root / CONFIG) if root is not None else "")
    if not module:
        return ProjectSettings()
    values = _values(module, root)
    url = _redis_url() if SCRAPY_REDIS in str(values.get("SCHEDULER", "")) else ""
    return ProjectSettings(module, values, url)


def _module(config: Path) -> str:
    parser = ConfigParser()
    try:
        parser.read(config, encoding="utf-8")
    except (ConfigError, UnicodeDecodeError) as error:
        raise SettingError(f"{config} cannot be read: {' '.join(str(error).split())}. Correct it there.") from None
    return parser.get("settings", os.environ.get("SCRAPY_PROJECT", "default"), fallback="")


def _values(module: str, root: Path | None) -> dict[str, Any]:
    if root is not None and str(root) not in sys.path:
        # As Scrapy does; it stays, for what the project imports later.
        sys.path.append(str(root))
    try:
        found = import_module(module)
    except Exception as error:
        raise SettingError(
            f"The project's settings cannot be imported: {module}: {type(error).__name__}: {error}. "
            "Correct scrapy.cfg or the module, or go to another directory."
        ) from error
    return {name: getattr(found, name) for name in dir(found) if name.isupper()}


def _redis_url() -> str:
    # Here, not above: only these projects need Scrapy.
    from gossamer.scrapy_redis.connection import project_url

    return project_url()
