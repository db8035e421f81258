"""The pickles that scrapy-redis's workers exchange, without their danger.

`loads` builds plain data only: containers, numbers, text, bytes, dates and the like. A pickle that names anything else is
refused before that is imported, so whoever can write to the queue cannot run code here. `dumps` refuses the same
things, so that nothing is queued that could not be read again. A project that needs more can say
`SCHEDULER_SERIALIZER = "pickle"`, and then trusts everybody who can write to the server.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
import io
import pickle
import uuid
from typing import Any

from gossamer.errors import DecodingError, EncodingError

__all__ = ["dumps", "loads"]

_REMEDY = 'Use plain data, or SCHEDULER_SERIALIZER = "pickle" if everybody who can write to the server is trusted.'
_PLAIN: dict[tuple[str, str], Any] = {
    (kind.__module__, kind.__qualname__): kind
    for kind in (
        set, frozenset, bytearray, complex, range, slice,
        datetime.date, datetime.time, datetime.datetime, datetime.timedelta, datetime.timezone,
        decimal.Decimal, fractions.Fraction, uuid.UUID, collections.OrderedDict, collections.deque,
    )
}  # fmt: skip
_CLASSES = frozenset(_PLAIN.values())
# What old Pythons called them, and how protocols below 3 spell bytes.
_PLAIN |= {("__builtin__", kind.__name__): kind for kind in (set, frozenset, bytearray, complex, range, slice)}
_PLAIN |= {("__builtin__", "xrange"): range}


def _encoded(text: str, encoding: str = "latin-1") -> bytes:
    return text.encode(encoding)


_PLAIN |= {("_codecs", "encode"): _encoded}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _PLAIN[module, name]
        except KeyError:
            raise DecodingError(f"The pickle asks for {module}.{name}, which is not plain data. {_REMEDY}") from None

    def persistent_load(self, pid: Any) -> Any:
        raise DecodingError(f"The pickle refers to something outside of it. {_REMEDY}")


class _Writer(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        # Called for all that pickle has no code of its own for.
        if type(obj) in _CLASSES or (isinstance(obj, type) and obj in _CLASSES):
            return NotImplemented
        kind = obj if hasattr(obj, "__qualname__") else type(obj)
        name = f"{kind.__module__}.{kind.__qualname__}"
        raise EncodingError(f"{name} is not plain data. {_REMEDY}")


def loads(s: bytes) -> Any:
    """The plain data of a pickle; `DecodingError` for any other bytes."""
    try:
        return _Reader(io.BytesIO(s)).load()
    except DecodingError:
        raise
    except Exception as error:
        # A pickle's opcodes call the constructors above with whatever they like, which raise whatever they like.
        raise DecodingError(f"Not a pickle of plain data: {error or type(error).__name__}.") from error


def dumps(obj: Any) -> bytes:
    """A pickle of the newest protocol; `EncodingError` naming the class of what is not plain data."""
    buffer = io.BytesIO()
    try:
        _Writer(buffer, protocol=-1).dump(obj)
    except (RecursionError, pickle.PicklingError) as error:
        raise EncodingError(f"The value cannot be pickled ({error}). {_REMEDY}") from error
    return buffer.getvalue()
