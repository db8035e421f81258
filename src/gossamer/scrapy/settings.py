"""Our settings among Scrapy's."""

from __future__ import annotations

from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings

from gossamer.settings import PREFIX, Settings, load

GIVEN = "Scrapy settings"
PROJECT = SETTINGS_PRIORITIES["project"]


def loaded(settings: BaseSettings) -> Settings:
    """Those in force. The environment goes before those of the project, as for every command; those of a spider, an add-on's user
    or `-s` go before the environment."""
    ours = [name for name in settings if isinstance(name, str) and name.startswith(PREFIX)]
    project = {name: settings[name] for name in ours if (settings.getpriority(name) or 0) <= PROJECT}
    given = {name: settings[name] for name in ours if name not in project}
    return load(given, given_as=GIVEN, project=project, project_as=GIVEN)
