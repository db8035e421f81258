"""What a feed's exporter writes, until it is brought into the file."""

from __future__ import annotations

import io


class Tap(io.BytesIO):
    """A file for an exporter, behind the bytes that its feed has already. Exporters ask where they are: one leaves out its header
    where the file is not empty, one of UTF-16 its byte order mark."""

    def __init__(self, base: int) -> None:
        super().__init__()
        self.base = base

    def tell(self) -> int:
        return self.base + super().tell()

    def seek(self, place: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_SET:
            if place < self.base:
                raise io.UnsupportedOperation(
                    f"An exporter of a feed cannot go back to byte {place}: what is before byte {self.base} is in the file."
                )
            place -= self.base
        return self.base + super().seek(place, whence)

    def take(self) -> bytes:
        """What was written since the last call."""
        data = self.getvalue()
        super().seek(0)
        self.truncate()
        return data
