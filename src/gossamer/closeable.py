"""What is closed at the end of its `with`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closeable(ABC):
    """Closed at the end of its `with`, whatever happened there."""

    @abstractmethod
    def close(self) -> None:
        """May be called more than once."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
