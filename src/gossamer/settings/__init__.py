"""Settings: the table that declares them, and the values in force."""

from gossamer.settings.setting import PREFIX, Setting, concealed, host_only
from gossamer.settings.table import BY_NAME, SETTINGS, shown_value
from gossamer.settings.values import DEFAULT, GIVEN, PROJECT, Settings, load, project_folder

__all__ = [
    "BY_NAME", "DEFAULT", "GIVEN", "PREFIX", "PROJECT", "SETTINGS", "Setting", "Settings", "concealed", "host_only", "load", "project_folder",
    "shown_value",
]  # fmt: skip
