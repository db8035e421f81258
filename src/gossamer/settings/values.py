"""How the values of settings are found.

Order, first wins: values given in code (the command line, `-s`, a spider's own settings), the environment, the Scrapy project's
settings, `gossamer.toml` (table `[gossamer]`, lower case without the prefix), the default.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gossamer.errors import SettingError
from gossamer.settings.setting import PREFIX
from gossamer.settings.table import BY_NAME, SETTINGS

DATA_DIR = "GOSSAMER_DATA_DIR"
DEFAULT = "default"
ENVIRONMENT = "environment"
GIVEN = "settings"
PROJECT = "project settings"


@dataclass(frozen=True, slots=True)
class Settings:
    """The values in force and where each came from, by full name."""

    values: Mapping[str, Any]
    sources: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def source(self, name: str) -> str:
        """`settings` (or what the caller of `load` named them), `environment`, the path of a file, or `default`."""
        BY_NAME[name]
        return self.sources.get(name, DEFAULT)


def load(
    given: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    toml: Path | None = None,
    given_as: str = GIVEN,
    project: Mapping[str, Any] | None = None,
    project_as: str = PROJECT,
) -> Settings:
    """Settle every setting.

    `given` may be any mapping (Scrapy's settings too) and is called `given_as` in messages: names without
    our prefix are ignored there, unknown names with it are errors. `project` are settings that the environment
    goes before, and is called `project_as`. `toml` defaults to `gossamer.toml` in
    the working directory, or else in the nearest folder up to that of the Scrapy project; absent is fine; a path given by the
    caller must exist. A value that cannot be used is an error even where another source overrides it.
    """
    environ = os.environ if environ is None else environ
    values = {setting.name: setting.default for setting in SETTINGS}
    origin: dict[str, str] = {}
    anchors = True
    for place, (source, mapping) in enumerate(
        (
            _from_file(toml),
            (project_as, _ours(project or {})),
            (ENVIRONMENT, _ours(environ)),
            (given_as, _ours(given or {})),
        )
    ):
        anchors = place == 1 if DATA_DIR in mapping else anchors
        for name, value in mapping.items():
            setting = BY_NAME.get(name)
            if setting is None:
                raise SettingError(f"{name} from {source} is not a setting.{_nearest(name)}")
            values[name] = setting.parse(value, source)
            origin[name] = source
    if anchors:
        values[DATA_DIR] = anchored(values[DATA_DIR])
    return Settings(values, origin)


FILE = "gossamer.toml"


def project_folder() -> Path | None:
    """The nearest folder from here upwards that has a scrapy.cfg, as Scrapy finds its project."""
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / "scrapy.cfg").is_file()), None)


def anchored(path: str) -> str:
    """A path of a project's settings, as seen from the folder of its scrapy.cfg."""
    folder = project_folder()
    if folder is None or folder == Path.cwd() or Path(path).expanduser().is_absolute():
        return path
    return str(folder / path)


def _ours(mapping: Mapping[str, Any]) -> dict[str, Any]:
    return {name: mapping[name] for name in mapping if isinstance(name, str) and name.startswith(PREFIX)}


def _from_file(toml: Path | None) -> tuple[str, dict[str, Any]]:
    path = toml or _nearest_file()
    if toml is None and not path.exists():
        return str(path), {}
    found = _read_toml(path)
    if toml is None and DATA_DIR in found:
        # As seen from the file.
        found[DATA_DIR] = str(path.parent / str(found[DATA_DIR]))
    return str(path), found


def _nearest_file() -> Path:
    here, root = Path.cwd(), project_folder()
    folders = (here, *here.parents)
    for folder in folders[1 : folders.index(root) + 1] if root is not None else ():
        if not Path(FILE).exists() and (folder / FILE).exists():
            return folder / FILE
    return Path(FILE)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("gossamer", {})
    except FileNotFoundError:
        raise SettingError(f"{path} does not exist. Create it, or leave the path out.") from None
    except OSError as error:
        raise SettingError(f"{path} cannot be read ({error.strerror}). Make it a readable file.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"{path} is not valid TOML: {error}. Correct it there.") from None
    if not isinstance(table, dict):
        raise SettingError(f"{path}: gossamer must be a table. Write [gossamer] and the settings below it.")
    for key in table:
        if PREFIX + key.upper() not in BY_NAME or key != key.lower():
            close = _meant(key.lower().removeprefix(PREFIX.lower()), _KEYS)
            hint = f"Did you mean {close}?" if close else "`gossamer settings` lists them, without the prefix here."
            raise SettingError(f"{key} from {path} is not a setting. {hint}")
    return {PREFIX + key.upper(): value for key, value in table.items()}


_KEYS = tuple(setting.key for setting in SETTINGS)


def _meant(typed: str, names: Iterable[str]) -> str:
    """The names that begin with the words that were typed, if there are any; else the one that looks most like them."""
    begun = [name for name in names if name.startswith(f"{typed}_") and typed != PREFIX.strip("_")]
    return " or ".join(begun[:3] or difflib.get_close_matches(typed, names, n=1))


def _nearest(name: str) -> str:
    close = _meant(name, BY_NAME)
    return f" Did you mean {close}?" if close else " Remove it; `gossamer settings` lists those that exist."
