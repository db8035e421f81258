"""What the owner of a process grants to site files: which functions they may name, which variables, which paths.

A file of this machine that its user names (`local`) may use what its user may, but for our own settings. A file that comes out
of the crawl may have been pushed by anybody who can write to the server: it gets what the settings grant, and no more.
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from gossamer.model.database_url import parse
from gossamer.model.network import AUTO
from gossamer.sites.python.module import is_python, module_name

OURS = "GOSSAMER_"
"""Variables of this prefix are our own settings: no site file may read them."""
OWN_FOLDER = "."
"""Among the allowed modules: those that lie in the project's own folder."""
_LIBRARIES = frozenset({"site-packages", "dist-packages"})


class SettingValues(Protocol):
    """Settings, by full name."""

    def __getitem__(self, name: str) -> Any: ...


class Grant(NamedTuple):
    """`folder` is the project's own folder if functions may come from there. `paths` are the directories below which files may
    be read and written; None: anywhere."""

    local: bool = False
    folder: Path | None = None
    modules: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    paths: tuple[Path, ...] | None = ()
    addresses: str = AUTO
    """GOSSAMER_PRIVATE_ADDRESSES."""
    tables: tuple[str, ...] = ()
    """The tables that may be read."""
    databases: tuple[str, ...] = ()
    """The hosts whose databases may be named."""
    code: tuple[Path, ...] = ()
    """Further folders that functions may come from: those of the Python files that the user named."""

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders that functions may come from."""
        return (self.folder, *self.code) if self.folder is not None else self.code

    def names_module(self, name: str) -> bool:
        """Whether a module is in the list of allowed ones, or below one of them."""
        return any(name == one or name.startswith(f"{one}.") for one in self.modules)

    def leads_to(self, name: str) -> bool:
        """Whether an allowed module lies below a package, so that the package has to be imported for it."""
        return any(one.startswith(f"{name}.") for one in self.modules)

    def holds(self, file: str | os.PathLike[str]) -> bool:
        """Whether a Python file lies in the project's own folder, or in one of `code`: really, and not in a library that is
        installed there."""
        place = Path(os.path.realpath(file))
        inside = [folder for folder in self.folders if place.is_relative_to(folder)]
        if not any(not _LIBRARIES.intersection(place.relative_to(folder).parts) for folder in inside):
            return False
        return not any(place.is_relative_to(other) for other in _not_own())

    def knows(self, variable: str) -> bool:
        """Whether a variable of the environment may be read."""
        return not variable.upper().startswith(OURS) and any(fnmatchcase(variable, one) for one in self.variables)

    def environment(self, environment: Mapping[str, str] | None = None) -> dict[str, str]:
        """The variables that may be read."""
        known = os.environ if environment is None else environment
        return {name: value for name, value in known.items() if self.knows(name)}

    def reads(self, table: str) -> bool:
        """Whether a table of the database may be read."""
        return any(fnmatchcase(table, one) for one in self.tables)

    def connects(self, host: str) -> bool:
        """Whether the databases of a host may be named."""
        return any(fnmatchcase(host.lower(), one.lower()) for one in self.databases)

    def reaches(self, path: str | os.PathLike[str]) -> bool:
        """Whether a path may be used, counted from the working directory, with all links followed."""
        if self.paths is None:
            return True
        place = Path(os.path.realpath(path))
        return any(place.is_relative_to(root) for root in self.paths)


EVERYTHING = ("*",)


def grant_of(
    settings: SettingValues, *, local: bool, files: Iterable[str | os.PathLike[str]] = (), code: Iterable[Path] = ()
) -> Grant:
    """What the settings grant: to a file that this process's user names, or to one out of the crawl. Of the `files` named, those in
    Python may use functions of the folders they are imported from; of `code`, those of these folders."""
    modules = listed(settings["GOSSAMER_ALLOWED_MODULES"])
    folder = own_folder() if local or OWN_FOLDER in modules else None
    named = tuple(one for one in modules if one != OWN_FOLDER)
    addresses = settings["GOSSAMER_PRIVATE_ADDRESSES"]
    if local:
        found = dict.fromkeys((*(module_name(file).folder for file in files if is_python(file)), *code))
        own = tuple(place for one in found if (place := Path(os.path.realpath(one))) != place.parent)
        return Grant(True, folder, named, EVERYTHING, None, addresses, EVERYTHING, EVERYTHING, own)
    roots = [settings["GOSSAMER_DATA_DIR"], *listed(settings["GOSSAMER_SITE_PATHS"])]
    tables = listed(settings["GOSSAMER_SITE_TABLES"])
    paths = tuple(Path(os.path.realpath(Path(root).expanduser())) for root in roots)
    databases = listed(settings["GOSSAMER_SITE_DATABASES"]) or _host_of(settings["GOSSAMER_STORE_URL"])
    variables = listed(settings["GOSSAMER_SITE_VARIABLES"])
    return Grant(False, folder, named, variables, paths, addresses, tables, databases)


def _host_of(url: str | None) -> tuple[str, ...]:
    try:
        host = parse(url or "").host
    except ValueError:
        return ()  # The store refuses it.
    return (host,) if host and not set(host) & set("*?[") else ()


def listed(text: str) -> tuple[str, ...]:
    """The words of a list that is written with commas."""
    return tuple(word for one in text.split(",") if (word := one.strip()))


def own_folder() -> Path | None:
    """The project's own folder: the nearest one with a scrapy.cfg, from the working directory upwards, or else the working
    directory itself. The root of the file system is never a project."""
    here = Path(os.path.realpath(os.getcwd()))
    found = next((folder for folder in (here, *here.parents) if (folder / "scrapy.cfg").is_file()), here)
    return None if found == found.parent else found


@cache
def _not_own() -> tuple[Path, ...]:
    """Where Python and this package are installed: not the project's own, even inside its folder."""
    places = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return tuple(Path(os.path.realpath(place)) for place in [*places, str(Path(__file__).parent.parent)])
