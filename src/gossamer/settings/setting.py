"""What a setting is: its name, its default, how a value is read, and how much of it people are shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from gossamer.errors import SettingError

PREFIX = "GOSSAMER_"
_CREDENTIALS = re.compile(r"://.*@")
_SECRET_OPTIONS = re.compile(r"([?&][^=&]*(?:password|secret|token)[^=&]*=)[^&]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: `name` with the unit in it, `default`, `kind` (how text becomes a value) and `help`. `secret`: people are shown no more of
    it than the host of a URL."""

    name: str
    default: Any
    kind: Callable[[Any], Any]
    help: str
    secret: bool = False

    @property
    def key(self) -> str:
        """Its name in `gossamer.toml`."""
        return self.name.removeprefix(PREFIX).lower()

    def parse(self, value: Any, source: str) -> Any:
        """`value` as the kind of this setting, or a `SettingError` that names setting, source and remedy."""
        try:
            return self.kind(value)
        except (TypeError, ValueError, OverflowError) as error:
            said = self.shown(value)
            raise SettingError(f"{self.name} from {source}: {said!r} cannot be used ({error}). {self.help}") from None

    def shown(self, value: Any) -> Any:
        """`value` as it may be shown to people."""
        return host_only(value) if self.secret else concealed(value)


def host_only(value: Any) -> str:
    """A URL without anything that may be secret; a text that is not a URL becomes `***`."""
    if value == "":
        return ""
    try:
        parts = urlsplit(value)
        if parts.hostname and parts.scheme in ("http", "https"):
            host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
            return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}/***"
    except (ValueError, AttributeError, TypeError):
        pass
    return "***"


def concealed(value: Any) -> Any:
    """`value` as it may be shown to people: the user and password of a URL are replaced by `***`.

    Conceals too much rather than too little: everything between `://` and the last `@` goes.
    """
    if not isinstance(value, str):
        return value
    return _SECRET_OPTIONS.sub(r"\1***", _CREDENTIALS.sub("://***@", value))
