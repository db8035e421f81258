"""Classes by the names that they are stored under: found where they are loaded, or imported from a module of the project."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

from gossamer.frontier.codec.types import NotEncodable

NOBODYS = sys.stdlib_module_names | {"scrapy", "scrapy_redis", "gossamer", "itemadapter", "itemloaders", "twisted"}
"""Packages that are no project's own."""


def is_of_the_users(kind: type) -> bool:
    """Whether a class is neither of Python nor of a package that was installed: GOSSAMER_OBJECT_MODULES may name its module."""
    top = kind.__module__.partition(".")[0]
    path = str(getattr(sys.modules.get(top), "__file__", None) or "")
    return top not in NOBODYS and top != "builtins" and not {"site-packages", "dist-packages"} & set(Path(path).parts)


def found_by(name: str) -> Any:
    """What is known by a name already; None: nothing is."""
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None) if not part.startswith("__") else None
    return found


def standing(name: str) -> Any:
    """What stands under a name in a module that is loaded, without asking the module for it: a name that somebody stored does not make
    a package of others import its parts."""
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    return found


def imported(module: str, path: str) -> Any:
    """A class of a module that is not loaded yet. Only one whose source defines such a class is imported: a name that somebody stored
    does not make a script of the project run."""
    if module in sys.modules:
        return None
    try:
        spec = importlib.util.find_spec(module)
        source = spec.loader.get_source(module) if spec is not None and spec.loader is not None else None  # type: ignore[attr-defined]
        tree = ast.parse(source or "")
    except (ImportError, AttributeError, ValueError, SyntaxError):
        return None
    first = path.partition(".")[0]
    if not any(isinstance(node, ast.ClassDef) and node.name == first for node in tree.body):
        return None
    try:
        importlib.import_module(module)
    except Exception as error:
        raise NotEncodable(f"{module} cannot be imported: {type(error).__name__}: {error}") from error
    return found_by(f"{module}:{path}")
