"""Objects of the project in requests: what is kept of them, and which are made again.

Kept are a class's name and its plain values; nothing that is stored says what to run. An object is made again only of a class in a
package that is allowed, that is what it was stored as: an item, a dataclass, an attrs class, a pydantic model, a named tuple, an
enum, an item loader. `shapes` puts it together without its constructor. Of functions, only methods of the spider are kept, by name.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import inspect
import logging
import os
import sys
from collections.abc import Iterable
from enum import Enum
from types import FunctionType, MethodType
from typing import Any, Self

from scrapy import Spider
from scrapy.settings import BaseSettings

from gossamer.frontier.codec.types import NotEncodable, StoredObject, name_of
from gossamer.scrapy.request.object_state import (
    CONTAINER,
    CONTAINERS,
    LOADER,
    assemble,
    disassemble,
    form_of,
    from_pickle,
    is_container,
)

logger = logging.getLogger(__name__)

CLASS, METHOD, PARTIAL, PICKLED = "class", "method", "partial", "pickled"
_OWN = frozenset(
    {
        "scrapy.item:Item",
        "scrapy.loader:ItemLoader",
        "itemloaders:ItemLoader",
        *(f"{kind.__module__}:{kind.__qualname__}" for kind in CONTAINERS),
    }
)
"""Classes of libraries that objects of every project are of, or hold."""
_BUILTINS = (str, bytes, int, float, list, dict)
"""What is kept of objects of classes that are made of these, and are of no kind that is kept."""
_SCALARS = (str, bytes, int, float)
_NOBODYS = sys.stdlib_module_names | {"scrapy", "scrapy_redis", "gossamer", "itemadapter", "itemloaders", "twisted"}


_KEPT = "an item, a dataclass, an attrs class, a pydantic model, a named tuple or an enum"


class ObjectCodec:
    """What one spider's requests may hold besides plain data. `modules` are modules and packages."""

    def __init__(self, modules: Iterable[str], spider: Spider | None = None) -> None:
        self.modules = frozenset(modules)
        self._spider = spider
        self._names: dict[type, tuple[str, str] | None] = {}
        self._classes: dict[str, type] = {}

    @classmethod
    def of(cls, spider: Spider, more: str = "") -> Self:
        """Those of a spider's project, and of the modules in `more`, divided by commas."""
        return cls.named(project_packages(spider), more, spider)

    @classmethod
    def named(cls, modules: Iterable[str], more: str, spider: Spider | None = None) -> Self:
        """Those of `modules`, and of the modules in `more`, divided by commas."""
        return cls({*modules, *(name.strip() for name in more.split(",") if name.strip())}, spider)

    def store(self, value: Any) -> StoredObject | None:
        """What is kept of an object; None: it is no object of a kind that is kept. `NotEncodable`: it is, but must not be."""
        kind = type(value)
        if kind is MethodType or kind is functools.partial:
            return self._store_call(value)
        if isinstance(value, type):
            known = self._known(value)
            return None if known is None else StoredObject(CLASS, known[1])
        known = self._known(kind)
        if known is None:
            return None
        form, name = known
        if form == CONTAINER and not is_container(value):
            return None
        return StoredObject(form, name, disassemble(value, form))

    def make(self, stored: StoredObject) -> Any:
        """The object again; `NotEncodable` says why not."""
        form, name, values = stored.form, stored.name, stored.values
        if form == METHOD:
            return self._method(name)
        if form == PARTIAL:
            args, kwargs = values
            return functools.partial(self._method(name), *args, **kwargs)
        if form == PICKLED:
            self._load(name)
            if (scalar := scalar_of(stored)) is not None:
                return scalar
        kind = self._class(name)
        if form == CLASS:
            return kind
        actual = form_of(kind)
        if actual is None or (form not in (actual, PICKLED)):
            raise NotEncodable(f"{name_of(kind)} is not what was stored under its name; run the code that stored it")
        try:
            return from_pickle(kind, actual, *values) if form == PICKLED else assemble(kind, form, values)
        except NotEncodable:
            raise
        except Exception as error:
            raise NotEncodable(f"{name_of(kind)} cannot be made again: {type(error).__name__}: {error}") from error

    def admits(self, kind: type) -> bool:
        """Whether objects of a class may be pickled for others: they are data, of a class that is allowed."""
        try:
            known = self._known(kind)
        except NotEncodable:
            return False
        return known is not None and known[0] not in (LOADER, CONTAINER)

    def _known(self, kind: type) -> tuple[str, str] | None:
        """The form and the name of a class, if it has a form; `NotEncodable` if another worker could not use it."""
        try:
            return self._names[kind]
        except KeyError:
            pass
        form = form_of(kind)
        known = None if form is None else (form, f"{kind.__module__}:{kind.__qualname__}")
        if known is not None:
            self._check(kind, known[1])
        elif issubclass(kind, _BUILTINS) and self._allowed(kind.__module__):
            builtin = next(one for one in _BUILTINS if issubclass(kind, one))
            logger.warning(
                "Requests hold a %s: other workers get a plain %s. Make it a dataclass to keep its class.",
                name_of(kind), builtin.__name__,
            )  # fmt: skip
        self._names[kind] = known
        return known

    def _check(self, kind: type, name: str) -> None:
        if name not in _OWN and not self._allowed(kind.__module__):
            raise self._foreign(name_of(kind), kind)
        if _found(name) is not kind:
            raise NotEncodable(
                f"{name_of(kind)} cannot be found by its name, so another worker could not make it; define it at the top of a module"
            )
        try:
            object.__new__(kind) if form_of(kind) == "fields" else None
        except TypeError:
            raise NotEncodable(f"{name_of(kind)} is built on a class of another kind; send plain data") from None

    def _allowed(self, module: str) -> bool:
        if module in self.modules:
            return True
        while "." in module:
            module = module.rpartition(".")[0]
            if module in self.modules:
                return True
        return False

    def _foreign(self, said: str, kind: Any) -> NotEncodable:
        """The refusal of a class that is not allowed. Naming its module helps only if its objects could be made then."""
        remedy = "send plain data"
        if kind is None:
            remedy += f", or name its module in GOSSAMER_OBJECT_MODULES if it is {_KEPT}"
        elif isinstance(kind, type) and form_of(kind) is not None:
            remedy += ", or name its module in GOSSAMER_OBJECT_MODULES"
        own = ", ".join(sorted(self.modules)) or "none"
        return NotEncodable(f"{said} is of a package that is not the project's own ({own}); {remedy}")

    def _load(self, name: str) -> Any:
        """What is known by a name, of a module that is allowed even if it was not imported yet."""
        module, _, path = name.partition(":")
        if name in _OWN or self._allowed(module):
            return _found(name) or _imported(module, path)
        return _standing(name)

    def _class(self, name: str) -> type:
        kind = self._classes.get(name)
        if kind is not None:
            return kind
        module, _, path = name.partition(":")
        found = self._load(name)
        if name not in _OWN and not self._allowed(module):
            raise self._foreign(f"{module}.{path}", found)
        if not isinstance(found, type):
            raise NotEncodable(f"{module}.{path} is no class of this worker's code; run the code that has it")
        if form_of(found) is None:
            raise NotEncodable(f"{module}.{path} is no class whose objects are made again ({_KEPT}); send plain data")
        self._classes[name] = found
        return found

    def _store_call(self, value: Any) -> StoredObject:
        function = value.func if type(value) is functools.partial else value
        name = method_name(self._spider, function)
        if name is None:
            raise NotEncodable(
                f"{function!r:.200} is not a method of the spider; another worker could not call it. "
                "Make it one, and send what it needs in cb_kwargs"
            )
        if function is value:
            return StoredObject(METHOD, name)
        return StoredObject(PARTIAL, name, (tuple(value.args), dict(value.keywords)))

    def _method(self, name: str) -> Any:
        method = getattr(self._spider, name, None) if not name.startswith("__") else None
        if not isinstance(method, MethodType) and method_name(self._spider, method) is None:
            raise NotEncodable(f"the spider has no method {name!r}; run the code that has it")
        return method


def scalar_of(stored: StoredObject) -> Any:
    """The plain value of a pickled object whose class, as this process knows it, is made of text, bytes or a number; None: it is none.
    A link's text of lxml is such. Nothing is imported, and nothing of the class is called."""
    if stored.form != PICKLED:
        return None
    args = stored.values[0]
    if len(args) != 1 or type(args[0]) not in _SCALARS:
        return None
    kind = _standing(stored.name)
    if not isinstance(kind, type) or not issubclass(kind, type(args[0])) or issubclass(kind, Enum):
        return None
    return args[0]


def method_name(spider: Spider | None, function: Any) -> str | None:
    """Under which name a method, class method or static method is found in the spider; None: it is not one of its methods."""
    if spider is None:
        return None
    owner, inner = getattr(function, "__self__", None), getattr(function, "__func__", function)
    if owner is spider:
        for name in (getattr(inner, "__name__", ""), *dir(type(spider))):
            if getattr(getattr(spider, name, None), "__func__", None) is inner:
                return str(name)
    elif owner is type(spider) or isinstance(function, FunctionType):
        for name in (getattr(inner, "__name__", ""), *dir(type(spider))):
            kept = inspect.getattr_static(type(spider), name, None)
            if isinstance(kept, staticmethod | classmethod) and kept.__func__ is inner:
                return str(name)
    return None


def project_packages(spider: Spider) -> set[str]:
    """The packages of a project: where its spider, its other spiders and its settings are."""
    settings = getattr(getattr(spider, "crawler", None), "settings", None)
    return packages(type(spider), settings, os.environ.get("SCRAPY_SETTINGS_MODULE", ""))


def packages(kind: type[Spider], settings: BaseSettings | None, module: str) -> set[str]:
    """Those of a project with a spider of this class and these settings, which come from a module."""
    names = [kind.__module__, module]
    if settings is not None:
        names += [*settings.getlist("SPIDER_MODULES"), settings.get("NEWSPIDER_MODULE") or ""]
    return {name.partition(".")[0] for name in names} - _NOBODYS - {""}


def _found(name: str) -> Any:
    """What is known by a name already; None: nothing is."""
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None) if not part.startswith("__") else None
    return found


def _standing(name: str) -> Any:
    """What stands under a name in a module that is loaded, without asking the module for it: a name that somebody stored does not make
    a package of others import its parts."""
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    return found


def _imported(module: str, path: str) -> Any:
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
    return _found(f"{module}:{path}")
