"""Pages that are fetched again because of what is stored about them."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from gossamer.sites.format.values import LISTED, Duration, Name, Number, SiteModel, Texts, listed

Plain = bool | int | float | str | None


class Condition(SiteModel):
    """What a column must be; all that is said has to hold. A plain value means `is`."""

    is_: Plain = Field(default=None, alias="is")
    """Equal to this; null: empty."""
    not_: Plain = Field(default=None, alias="not")
    """Not equal to this, or empty; null: not empty."""
    one_of: Annotated[tuple[Plain, ...], BeforeValidator(listed), LISTED] = ()
    """One of these."""
    min: int | float | str | None = None
    """At least this."""
    max: int | float | str | None = None
    """At most this."""
    newer: Duration | None = None
    """A time at most this long ago."""
    older: Duration | None = None
    """A time longer ago than this."""

    @model_validator(mode="before")
    @classmethod
    def _shorthand(cls, data: Any) -> Any:
        return data if isinstance(data, dict) else {"is": data}

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("a condition says at least one of is, not, one_of, min, max, newer and older")
        return self


class RefreshRule(SiteModel):
    """Stored rows whose pages, or pages below them, are fetched again when a round begins, seen or not."""

    table: str
    """The table, in the site's database."""
    layer: Name
    """The layer of the pages."""
    url: str = "{url}"
    """The address, with {columns} of the row; may be relative to the row's url."""
    where: dict[str, Condition] = Field(default_factory=dict)
    """Which rows, by column; without it, all."""
    inherited: dict[str, str] | Texts = Field(default=(), alias="pass")
    """What the page inherits: columns, or names with their columns. Columns that fields of the layer take from their parent (from: parent.…) are passed without being named."""
    priority: Number = 0
    """Higher goes first, in layers with `order: priority`."""
