"""Numbers of things in words, for messages and logs."""

from __future__ import annotations


def counted(number: int, what: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def counted_are(number: int, what: str) -> str:
    """`1 file is`, `2 files are`."""
    return f"{counted(number, what)} {'is' if number == 1 else 'are'}"


def counted_were(number: int, what: str) -> str:
    """`1 file was`, `2 files were`."""
    return f"{counted(number, what)} {'was' if number == 1 else 'were'}"
