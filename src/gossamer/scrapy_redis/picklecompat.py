"""The pickles that scrapy-redis's workers exchange, without their danger.

`loads` builds plain data only: containers, numbers, text, bytes, dates and the like. Of anything else that a pickle names, nothing is
imported and nothing is called: it is read as a name and a state, and a `build` that is given makes an object of it, as a worker does
for classes of its project. Without one it is refused. So whoever can write to the queue cannot run code here. `dumps` refuses the
same things, so that nothing is queued that could not be read again. A project that needs more can say
`SCHEDULER_SERIALIZER = "pickle"`, and then trusts everybody who can write to the server.
"""

from __future__ import annotations

import collections
import copy
import io
import pickle
import sys
from collections.abc import Callable, Iterable
from datetime import date, datetime, time
from enum import Enum
from pathlib import PurePosixPath
from typing import Any
from zoneinfo import ZoneInfo

from gossamer.errors import DecodingError, EncodingError, UnknownClass
from gossamer.frontier.codec.types import KEY_STEP, MEMBER_STEP, NotEncodable, StoredObject, base, in_known_zone, step
from gossamer.scrapy.request.object_state import CONTAINERS, is_container
from gossamer.scrapy.request.objects import PICKLED
from gossamer.scrapy_redis.pickle_names import CLASSES, NAMES, PickledZone

__all__ = ["dumps", "loads"]

_REMEDY = 'Use plain data, or SCHEDULER_SERIALIZER = "pickle" if everybody who can write to the server is trusted.'
_NEVER = sys.stdlib_module_names | {"__builtin__", "copy_reg", "dateutil", "pytz"}

Build = Callable[[StoredObject], Any]
Admits = Callable[[type], bool]


class _NamedObject:
    """Stands for an object of a class that the pickle names: what it would have been made of."""

    name = ""

    def __new__(cls, *args: Any, **named: Any) -> _NamedObject:
        if named:
            raise DecodingError(f"The pickle makes {cls.name} in a way of its own. {_REMEDY}")
        made = super().__new__(cls)
        made.args, made.state, made.held = args, None, None
        return made

    args: tuple[Any, ...]
    state: Any
    held: dict[Any, Any] | list[Any] | None
    """What an object holds whose class is made of dict or list."""

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __setitem__(self, key: Any, value: Any) -> None:
        if self.held is None:
            self.held = {}
        self.held[key] = value

    def append(self, value: Any) -> None:
        self.extend([value])

    def extend(self, values: Iterable[Any]) -> None:
        if not isinstance(self.held, list):
            self.held = [] if self.held is None else list(self.held)
        self.held.extend(values)


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes, named: bool) -> None:
        super().__init__(io.BytesIO(data))
        self._named = named
        self.named = False
        """Whether it names anything: what else it holds needs no second look."""
        self.kinds: dict[str, type[_NamedObject]] = {}

    def find_class(self, module: str, name: str) -> Any:
        self.named = True
        plain = NAMES.get((module, name))
        if plain is not None:
            return plain
        if not self._named or module.partition(".")[0] in _NEVER:
            raise DecodingError(f"The pickle asks for {module}.{name}, which is not plain data. {_REMEDY}")
        path = f"{module}:{name}"
        if path not in self.kinds:
            self.kinds[path] = type("_Named", (_NamedObject,), {"name": path})
        return self.kinds[path]

    def persistent_load(self, pid: Any) -> Any:
        raise DecodingError(f"The pickle refers to something outside of it. {_REMEDY}")


class _Pickler(pickle.Pickler):
    def __init__(self, buffer: io.BytesIO, admits: Admits | None) -> None:
        super().__init__(buffer, protocol=-1)
        self._admits = admits

    def reducer_override(self, obj: Any) -> Any:
        # Called for all that pickle has no code of its own for.
        kind = obj if isinstance(obj, type) else type(obj)
        if isinstance(obj, datetime | time) and (plain := in_known_zone(obj)) is not obj:
            return copy.copy, (plain,)
        if (kind in CLASSES or kind in CONTAINERS) and is_container(obj):
            return NotImplemented
        if kind is ZoneInfo or issubclass(kind, PurePosixPath):
            # By its class: the function that zoneinfo names is none that others may call.
            return (ZoneInfo, (obj.key,)) if isinstance(obj, ZoneInfo) and obj.key else NotImplemented
        if self._admits is not None and self._admits(kind):
            return NotImplemented
        if obj is copy.copy:
            return NotImplemented
        if isinstance(obj, str | bytes | int | float | date) and not isinstance(obj, Enum):
            # Of a class that is made of a builtin, such as lxml's text of a link: the plain value. Every reader has this function.
            return copy.copy, (base(obj),)
        kind = obj if hasattr(obj, "__qualname__") else kind
        raise EncodingError(f"{kind.__module__}.{kind.__qualname__} is not plain data. {_REMEDY}")


class _ObjectBuilder:
    """Puts objects in the place of their stand-ins, the inner ones first."""

    def __init__(self, build: Build) -> None:
        self._build = build
        self._made: dict[int, Any] = {}
        self._open: dict[int, Any] = {}

    def settle(self, value: Any) -> Any:
        kind = type(value)
        if kind is PickledZone:
            raise NotEncodable("a time zone alone cannot be read; send its name")
        if isinstance(value, datetime | time):
            return in_known_zone(value) if isinstance(value.tzinfo, PickledZone) else value
        if not (isinstance(value, _NamedObject) or (isinstance(value, type) and issubclass(value, _NamedObject))):
            return self._container(value) if kind in _CONTAINERS else value
        if isinstance(value, type):
            return self._build(StoredObject("class", value.name))
        if id(value) not in self._made:
            if id(value) in self._open:
                raise NotEncodable(f"{value.name} holds itself")
            self._open[id(value)] = value  # kept, so that no other gets its id
            parts: tuple[Any, ...] = (tuple(self.settle(part) for part in value.args), self.settle(value.state))
            if value.held is not None:
                parts = (*parts, self.settle(value.held))
            self._made[id(value)] = self._build(StoredObject(PICKLED, value.name, parts))
        return self._made[id(value)]

    def _container(self, value: Any) -> Any:
        if id(value) in self._made:
            return value
        if isinstance(value, dict):
            self._made[id(value)] = value  # it may hold itself
            pairs = [(self._at(KEY_STEP, key), self._at(step(key), part)) for key, part in value.items()]
            value.clear()
            dict.update(value, pairs) if type(value) is collections.Counter else value.update(pairs)
            return value
        if isinstance(value, list | collections.deque):
            self._made[id(value)] = value
            for index, part in enumerate(value):
                value[index] = self._at(step(index), part)
            return value
        if isinstance(value, tuple):
            return tuple(self._at(step(index), part) for index, part in enumerate(value))
        return type(value)(self._at(MEMBER_STEP, part) for part in value)

    def _at(self, where: str, value: Any) -> Any:
        try:
            return self.settle(value)
        except NotEncodable as refused:
            raise refused.at(where) from None


_CONTAINERS = frozenset(
    {
        dict, collections.OrderedDict, collections.Counter, collections.defaultdict, list, collections.deque, tuple, set, frozenset,
    }
)  # fmt: skip


def _refused(stored: StoredObject) -> Any:
    raise DecodingError(f"The pickle holds a {stored.name}, which is not plain data. {_REMEDY}")


def loads(s: bytes, build: Build | None = None) -> Any:
    """The data of a pickle; `DecodingError` for any other bytes. `build` makes the objects of classes that it names; `UnknownClass`
    says where it refuses."""
    try:
        reader = _Unpickler(s, build is not None)
        value = reader.load()
        if reader.named:
            value = _ObjectBuilder(build or _refused).settle(value)
    except DecodingError:
        raise
    except NotEncodable as refused:
        raise UnknownClass(str(refused.error("request"))) from None
    except Exception as error:
        # A pickle's opcodes call the constructors above with whatever they like, which raise whatever they like.
        raise DecodingError(f"Not a pickle of plain data: {error or type(error).__name__}.") from error
    return value


def dumps(obj: Any, admits: Admits | None = None) -> bytes:
    """A pickle of the newest protocol; `EncodingError` naming the path and the class of what is not plain data. `admits` says of
    which classes objects are pickled besides."""
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, admits).dump(obj)
    except EncodingError as error:
        raise EncodingError(f"{_path(obj, admits)}{error}") from None
    except (RecursionError, pickle.PicklingError) as error:
        raise EncodingError(f"The value cannot be pickled ({error}). {_REMEDY}") from error
    return buffer.getvalue()


def _path(value: Any, admits: Admits | None, top: bool = True) -> str:
    """Where the first part is that cannot be pickled, in containers; sought only after a failure."""
    if isinstance(value, dict):
        parts = [(key if top and isinstance(key, str) else step(key), part) for key, part in value.items()]
    elif isinstance(value, list | tuple):
        parts = [(step(index), part) for index, part in enumerate(value)]
    elif isinstance(getattr(value, "_values", None), dict):
        parts = [(step(key), part) for key, part in value._values.items()]
    else:
        parts = [(f".{name}", part) for name, part in getattr(value, "__dict__", {}).items()]
        if admits is None or not admits(type(value)):
            parts = []
    for where, part in parts:
        try:
            _Pickler(io.BytesIO(), admits).dump(part)
        except Exception:
            return f"{where}{_path(part, admits, False)}"
    return "" if top else ": "
