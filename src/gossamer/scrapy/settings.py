"""Our settings among Scrapy's."""

from __future__ import annotations

from typing import Any

from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings
from scrapy.settings import Settings as ScrapySettings
from scrapy.utils.project import get_project_settings
from scrapy.utils.python import global_object_name

from gossamer.errors import SettingError
from gossamer.settings import PREFIX, Settings, load

GIVEN = "Scrapy settings"
PROJECT = SETTINGS_PRIORITIES["project"]
_KEYS_ARE_CLASSES = hasattr(BaseSettings, "get_component_priority_dict_with_base")
"""Newer versions of Scrapy take a path and the class that it leads to for one key."""


def loaded(settings: BaseSettings) -> Settings:
    """Those in force. The environment goes before those of the project, as for every command; those of a spider, an add-on's user
    or `-s` go before the environment."""
    ours = [name for name in settings if isinstance(name, str) and name.startswith(PREFIX)]
    project = {name: settings[name] for name in ours if (settings.getpriority(name) or 0) <= PROJECT}
    given = {name: settings[name] for name in ours if name not in project}
    return load(given, given_as=GIVEN, project=project, project_as=GIVEN)


def project_settings() -> ScrapySettings:
    """Those of the Scrapy project here. SettingError if they cannot be imported."""
    try:
        return get_project_settings()
    except Exception as error:
        raise SettingError(
            f"The project's settings cannot be imported: {type(error).__name__}: {error}. Correct scrapy.cfg or the module."
        ) from error


def component_path(key: Any) -> str:
    """The import path of a component, which a project may give as a text or as the class itself."""
    return key if isinstance(key, str) else global_object_name(key)


def is_on(settings: BaseSettings, name: str, path: str) -> bool:
    """Whether Scrapy makes the component of that path, by its table `name` (EXTENSIONS and the like). Nothing is imported: a module
    of the project may install a reactor."""
    places = [place for key, place in settings.getwithbase(name).items() if component_path(key) == path]
    return any(place is not None for place in (places[-1:] if _KEYS_ARE_CLASSES else places))


def put_component(settings: BaseSettings, name: str, path: str, place: int | None, priority: int) -> None:
    """Give a component a place in that table (None: turn it off), also where the project gives it as a class."""
    table = {key: given for key, given in settings.getdict(name).items() if component_path(key) != path}
    settings.set(name, {**table, path: place}, priority)
