"""Data as the text of a site file."""

from __future__ import annotations

from typing import Any

import yaml  # type: ignore[import-untyped]

from gossamer.errors import SiteError
from gossamer.sites.file.yaml import _FLOAT, _INT


class _SiteDumper(yaml.SafeDumper):  # type: ignore[misc]
    """Puts quotes around a text that YAML 1.1 or 1.2 would take for something else."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: Any, text: str) -> Any:
    # Line ends of other alphabets are only themselves between double quotes.
    odd = any(sign in text for sign in "\x85\u2028\u2029\r")
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if odd else None)


_SiteDumper.add_representer(str, _text)
for _pattern, _first in ((_INT, "-+0123456789"), (_FLOAT, "-+.0123456789")):
    _SiteDumper.add_implicit_resolver("tag:gossamer,1.2:number", _pattern, list(_first))


def to_yaml(*documents: Any) -> str:
    """Data as YAML that reads back as the same data, keys in their order. SiteError for data that contain themselves."""
    _refuse_circles(list(documents), ())
    text: str = yaml.dump_all(documents, Dumper=_SiteDumper, sort_keys=False, allow_unicode=True, width=120)
    return text


def _refuse_circles(data: Any, above: tuple[int, ...]) -> None:
    if isinstance(data, dict | list):
        if id(data) in above:
            raise SiteError("A value of this site contains itself, which no file can say. Put a copy there.")
        for value in data.values() if isinstance(data, dict) else data:
            _refuse_circles(value, (*above, id(data)))
