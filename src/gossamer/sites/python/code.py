"""The Python code that a process has loaded for its sites, beside the code that is there now."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import NamedTuple

from gossamer.sites.check.hooks import hooks_of
from gossamer.sites.format import SiteSpec
from gossamer.sites.python.module import source_digest


class LoadedModule(NamedTuple):
    """A module's file, the digest of its source when it was loaded, and when the file was last seen to be written."""

    file: str
    digest: str
    written: int


class LoadedCode:
    """Python loads a module once: what is written to its file later counts only in another process."""

    def __init__(self) -> None:
        self._modules: dict[str, LoadedModule] = {}

    def note(self, site: SiteSpec) -> None:
        """Remember the modules of a site's functions, right after they were loaded."""
        for module in {entry.partition(":")[0] for entry in hooks_of(site)}:
            file = getattr(sys.modules.get(module), "__file__", None)
            if module not in self._modules and file is not None:
                self._modules[module] = LoadedModule(file, source_digest(module), _written(file))

    def differences(self, site: SiteSpec) -> list[str]:
        """The files whose code is not the code that the site was pushed with."""
        return [
            self._modules[module].file
            for module, digest in site.code.items()
            if module in self._modules and self._modules[module].digest != digest
        ]

    def changes(self) -> Iterable[str]:
        """The files whose code has changed since it was loaded, each change once."""
        for name, module in list(self._modules.items()):
            written = _written(module.file)
            if written != module.written:
                self._modules[name] = module._replace(written=written)
                if source_digest(name) not in ("", module.digest):
                    yield module.file


def _written(file: str) -> int:
    try:
        return os.stat(file).st_mtime_ns
    except OSError:
        return 0
