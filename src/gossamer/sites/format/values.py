"""The values of a site file that may be written in several ways: durations, sizes, lists of one."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict

from gossamer.model import duration

NAME = r"^[A-Za-z0-9_][A-Za-z0-9_:-]{0,99}$"
TARGET = (
    r"^([A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}\.\*|([A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}\.)?[A-Za-z0-9_][A-Za-z0-9_:-]{0,99})$"
)
"""A layer, site.layer, or site.* for the layer that matches there."""
SIZES = {
    "": 1,
    "b": 1,
    "k": 1000,
    "kb": 1000,
    "kib": 1024,
    "m": 10**6,
    "mb": 10**6,
    "mib": 2**20,
    "g": 10**9,
    "gb": 10**9,
    "gib": 2**30,
}


def seconds(value: Any) -> Any:
    """Seconds from 0.5, "0.5s", "10m", "1h30m", "7d"."""
    return duration.seconds(value) if isinstance(value, str) else number(value)


def size(value: Any) -> Any:
    """Bytes from 1000000, "10MB", "512KiB"."""
    if not isinstance(value, str):
        return whole(value)
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", value.strip().lower())
    if not found or found[2] not in SIZES:
        raise ValueError(f"{value!r} is not a size; write 500000, 500kB or 10MiB")
    return int(float(found[1]) * SIZES[found[2]])


def number(value: Any) -> Any:
    """A number, and not true, which Python takes for 1."""
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is not a number")
    return value


def whole(value: Any) -> Any:
    """A whole number; 1e6, which YAML reads as a fraction, is one."""
    return int(value) if isinstance(value, float) and value.is_integer() else number(value)


def share(value: Any) -> Any:
    """A share from 0.85 or "85%"."""
    if isinstance(value, str):
        if not (found := re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", value.strip())):
            raise ValueError(f"{value!r} is not a share; write 85% or 0.85")
        return float(found[1]) / 100
    return number(value)


def listed(value: Any) -> Any:
    """A list, also where a single value stands for it."""
    return value if isinstance(value, list | tuple) or value is None else [value]


# `written` tells the JSON Schema and the reference in which other ways a value may be written.
Duration = Annotated[
    float, BeforeValidator(seconds), Field(ge=0, le=86400 * 366 * 10, json_schema_extra={"written": "duration"})
]
Size = Annotated[int, BeforeValidator(size), Field(ge=0, le=2**53, json_schema_extra={"written": "size"})]
Whole = Annotated[int, BeforeValidator(whole), Field(ge=0, le=2**53)]
Number = Annotated[int, BeforeValidator(whole), Field(ge=-(2**53), le=2**53)]
Share = Annotated[float, BeforeValidator(share), Field(gt=0, le=1, json_schema_extra={"written": "share"})]
Flag = Annotated[bool, Strict()]
LISTED = Field(json_schema_extra={"written": "listed"})
Texts = Annotated[tuple[str, ...], BeforeValidator(listed), LISTED]
Name = Annotated[str, Field(pattern=NAME)]
Target = Annotated[str, Field(pattern=TARGET)]
Hook = Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")]
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]


class SiteModel(BaseModel):
    """A mapping of a site file: unknown keys are errors, and nothing changes once it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, defer_build=True)
