"""Python files with sites, as modules: under which name workers import them, and what goes wrong on the way."""

from __future__ import annotations

import ast
import hashlib
import importlib
import os
import re
import sys
import traceback
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from gossamer.errors import GossamerError, SiteError
from gossamer.sites.file.problems import Problem
from gossamer.sites.file.yaml import InvalidYaml

SUFFIX = ".py"
MAIN = "__main__"


class InvalidPython(InvalidYaml):
    """A Python file that cannot be used as a site file."""


class ModuleName(NamedTuple):
    """How a file is imported: from which folder, and under which name."""

    folder: Path
    name: str


def module_name(file: str | os.PathLike[str]) -> ModuleName:
    """A file in a folder without `__init__.py` is a module of its own, imported from that folder. A file of a package is imported from
    the folder that the package lies in."""
    path = Path(os.path.realpath(file))
    folder, names = path.parent, [path.stem]
    while (folder / "__init__.py").is_file() and folder != folder.parent:
        names.insert(0, folder.name)
        folder = folder.parent
    return ModuleName(folder, ".".join(names))


def is_python(file: str | os.PathLike[str]) -> bool:
    return Path(file).suffix == SUFFIX


def names_site(text: str) -> bool:
    """Whether the source of a file uses gossamer's Site, as far as that is seen without running it."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return re.search(r"\bgossamer\b[^\n]*\bSite\b", text) is not None
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "gossamer":
            if any(one.name == "Site" for one in node.names):
                return True
        elif isinstance(node, ast.Attribute) and ast.unparse(node) == "gossamer.Site":
            return True
    return False


def look_into(folder: Path) -> None:
    """Let modules of a folder be found; last, so that none of them stands in for another of its name."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def imported(path: Path) -> str:
    """Import a file; the name of its module. InvalidPython with the place of what is wrong."""
    file = str(path)
    folder, name = module_name(path)
    if not path.is_file():
        raise InvalidPython(Problem(file, 0, 0, "", "the file cannot be read: no such file or directory"))
    if not all(part.isidentifier() for part in name.split(".")):
        said = f"{name} cannot be the name of a module"
        raise InvalidPython(Problem(file, 0, 0, "", said, "rename the file: use letters, digits and _"))
    try:
        ast.parse(path.read_bytes(), file)
    except (SyntaxError, ValueError) as error:
        line, column = getattr(error, "lineno", 0) or 0, getattr(error, "offset", 0) or 0
        raise InvalidPython(Problem(file, line, column, "", f"this is not Python: {_said(error)}")) from None
    look_into(folder)
    importlib.invalidate_caches()
    try:
        spec = find_spec(name)
        if spec is None or spec.origin is None or os.path.realpath(spec.origin) != os.path.realpath(path):
            where = f"{spec.origin} is" if spec is not None and spec.origin else "another module is"
            said = f"{where} imported as {name}, and not this file"
            raise InvalidPython(Problem(file, 0, 0, "", said, "rename the file"))
        importlib.import_module(name)
    except (InvalidPython, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise InvalidPython(_raised(error, path)) from error
    return name


def _raised(error: BaseException, path: Path) -> Problem:
    """What a file raised while it was imported, at the last of its own lines."""
    line, real = 0, os.path.realpath(path)
    for frame in traceback.extract_tb(error.__traceback__):
        if os.path.realpath(frame.filename) == real:
            line = frame.lineno or line
    if isinstance(error, GossamerError):
        return Problem(str(path), line, 1 if line else 0, "", str(error).rstrip("."))
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return Problem(str(path), line, 1 if line else 0, "", said, "raised while the file was imported")


def _said(error: Exception) -> str:
    return error.msg if isinstance(error, SyntaxError) else str(error)


def home_of(module: str) -> str:
    """The name under which workers import a module; also of the file that Python was started with."""
    if module != MAIN:
        return module
    file = getattr(sys.modules[MAIN], "__file__", None)
    if file is None:
        raise SiteError("The functions of a site must lie in a file, so that workers can import them.")
    return module_name(file).name


def source_digest(module: str) -> str:
    """The digest of a module's source; "" if it has none."""
    found = sys.modules.get(module)
    file = getattr(found, "__file__", None)
    if found is None and (main := getattr(sys.modules[MAIN], "__file__", None)) and module_name(main).name == module:
        file = main
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16] if file else ""
    except OSError:
        return ""
