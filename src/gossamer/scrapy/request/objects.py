"""Objects of the project in requests: what is kept of them, and which are made again.

Kept are a class's name and its plain values; nothing that is stored says what to run. An object is made again only of a class in a
package that is allowed, that is what it was stored as: an item, a dataclass, an attrs class, a pydantic model, a named tuple, an
enum, an item loader, or a plain class. `object_state` puts it together without its constructor. Of functions, only methods of the
spider are kept, by name.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
from collections.abc import Iterable
from datetime import date, datetime
from enum import Enum
from types import FunctionType, MethodType
from typing import Any, Self

from scrapy import Spider
from scrapy.settings import BaseSettings

from gossamer.frontier.codec.types import NotEncodable, StoredObject, name_of
from gossamer.scrapy.request.class_names import NOBODYS, found_by, imported, is_of_the_users, standing
from gossamer.scrapy.request.object_state import (
    CONTAINER,
    CONTAINERS,
    FIELDS,
    LOADER,
    OBJECT,
    assemble,
    disassemble,
    form_of,
    from_pickle,
    is_container,
)
from gossamer.scrapy.request.plain_state import BUILTINS, SPECIAL, own_bases

logger = logging.getLogger(__name__)

CLASS, METHOD, PARTIAL, PICKLED = "class", "method", "partial", "pickled"
_OWN = frozenset(
    {
        "scrapy.item:Item",
        "scrapy.loader:ItemLoader",
        "itemloaders:ItemLoader",
        "scrapy.link:Link",
        "scrapy_playwright.page:PageMethod",
        *(f"{kind.__module__}:{kind.__qualname__}" for kind in CONTAINERS),
    }
)
"""Classes of libraries that objects of every project are of, or hold."""
_LIBRARIES = frozenset({"pydantic.networks", "pydantic_core._pydantic_core"})
"""Modules of libraries whose objects models hold: URLs."""
_PLAIN_ONES = (*BUILTINS, datetime, date)
"""What is kept of objects of classes that are made of these, and are of no kind that is kept."""
_SCALARS = (str, bytes, int, float)
_KEPT = "an item, a dataclass, an attrs class, a pydantic model, a named tuple, an enum or a plain class"


class ObjectCodec:
    """What one spider's requests may hold besides plain data. `modules` are modules and packages."""

    def __init__(self, modules: Iterable[str], spider: Spider | None = None) -> None:
        self.modules = frozenset(modules)
        self._spider = spider
        self._names: dict[type, tuple[str, str] | None] = {}
        self._classes: dict[str, type] = {}
        self._noted: set[type] = set()

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
            self._note(kind, f"defaultdict whose defaults come from {value.default_factory!r:.100}", "dict")
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
        if known is None or known[0] in (LOADER, CONTAINER):
            return False
        return known[0] != OBJECT or not issubclass(kind, _SCALARS)

    def _known(self, kind: type) -> tuple[str, str] | None:
        """The form and the name of a class, if it has a form; `NotEncodable` if another worker could not use it."""
        try:
            return self._names[kind]
        except KeyError:
            pass
        form = self._form_of(kind)
        known = None if form is None else (form, f"{kind.__module__}:{kind.__qualname__}")
        if known is not None:
            self._check(kind, known[1])
        elif issubclass(kind, _PLAIN_ONES) and kind.__module__ != "builtins" and self._is_noted(kind):
            builtin = next(one for one in _PLAIN_ONES if issubclass(kind, one))
            self._note(kind, name_of(kind), builtin.__name__)
        elif self._allowed(kind.__module__):
            raise NotEncodable(
                f"{name_of(kind)} cannot be stored: {self._why_not(kind)}. Make it a dataclass, or send plain data"
            )
        self._names[kind] = known
        return known

    def _form_of(self, kind: type) -> str | None:
        """How objects of a class are kept. Those of a plain class only if all that it is made of is allowed: a class on top of a library's
        is more than its attributes."""
        form = form_of(kind)
        if form != OBJECT or f"{kind.__module__}:{kind.__qualname__}" in _OWN:
            return form
        strangers = [each for each in own_bases(kind) if not self._allowed(each.__module__)]
        if strangers and not issubclass(kind, _PLAIN_ONES) and all(map(is_of_the_users, strangers)):
            raise self._foreign(name_of(strangers[0]), strangers[0])
        return None if strangers else form

    def _why_not(self, kind: type) -> str:
        """Why objects of a class of the project are not kept."""
        for each in own_bases(kind):
            if not self._allowed(each.__module__):
                return f"it is made of {name_of(each)}, which is not the project's own"
            if found := sorted(SPECIAL & vars(each).keys()):
                return f"it has {found[0]} of its own"
        return "it is no class of a kind that is kept"

    def _is_noted(self, kind: type) -> bool:
        # Text and numbers of other packages' classes are used as such; containers have methods of their own.
        return self._allowed(kind.__module__) or issubclass(kind, list | dict)

    def _note(self, kind: type, what: str, builtin: str) -> None:
        """Log once what is not kept of a class."""
        if kind not in self._noted:
            self._noted.add(kind)
            logger.warning(
                "Requests hold a %s: other workers get a plain %s. Make it a dataclass to keep its class.",
                what,
                builtin,
            )

    def _check(self, kind: type, name: str) -> None:
        if name not in _OWN and not self._allowed(kind.__module__):
            raise self._foreign(name_of(kind), kind)
        if found_by(name) is not kind:
            raise NotEncodable(
                f"{name_of(kind)} cannot be found by its name, so another worker could not make it; define it at the top of a module"
            )
        try:
            object.__new__(kind) if form_of(kind) == FIELDS else None
        except TypeError:
            raise NotEncodable(f"{name_of(kind)} is built on a class of another kind; send plain data") from None

    def _allowed(self, module: str) -> bool:
        if module in self.modules or module in _LIBRARIES:
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
            return found_by(name) or imported(module, path)
        return standing(name)

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
        if self._form_of(found) is None:
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
    kind = standing(stored.name)
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
    return {name.partition(".")[0] for name in names} - NOBODYS - {""}
