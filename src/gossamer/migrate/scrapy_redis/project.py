"""The files of a project on disk: which are its own, how they are written back, and whether git could bring them back."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from gossamer.errors import GossamerError, SettingError

_FOREIGN = frozenset(
    {
        "__pycache__", "__pypackages__", "site-packages", "dist-packages", "node_modules", "vendor", "vendored", "_vendor",
        "third_party", "build", "dist", "eggs", "venv", "virtualenv",
    }
)  # fmt: skip
_TEXTS = frozenset(
    {
        ".sh", ".bash", ".cfg", ".toml", ".yml", ".yaml", ".txt", ".in", ".ini", ".json", ".env", ".service", ".conf", ".bat",
        ".cmd", ".ps1",
    }
)  # fmt: skip
_NAMES = (".env", "dockerfile", "makefile", "procfile", "pipfile", "crontab", "jenkinsfile")
_LARGEST_TEXT = 1_000_000


class Project:
    """A folder, or one file of it."""

    def __init__(self, root: Path) -> None:
        if not root.exists():
            raise SettingError(f"{root} does not exist. Name the folder of a project, or a Python file.")
        self.root = root
        self.skipped: list[str] = []

    def read(self) -> dict[str, bytes]:
        """The files that belong to the project, by their path inside it."""
        if self.root.is_file():
            return {self.root.name: self.root.read_bytes()}
        return {path.relative_to(self.root).as_posix(): path.read_bytes() for path in self._files()}

    def _files(self) -> Iterator[Path]:
        for folder, folders, names in os.walk(self.root):
            here = Path(folder)
            left_out = [name for name in folders if _is_foreign(here / name)]
            self.skipped += [(here / name).relative_to(self.root).as_posix() for name in left_out if name[0] != "."]
            folders[:] = sorted(set(folders) - set(left_out))
            for name in sorted(names):
                path = here / name
                if not path.is_symlink() and path.is_file() and _is_wanted(path):
                    yield path

    def write(self, rewritten: Mapping[str, bytes]) -> None:
        """Put these in the place of what is there, each at once, with the rights it had."""
        for name, data in rewritten.items():
            path = self.root if self.root.is_file() else self.root / name
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            try:
                with os.fdopen(handle, "wb") as stream:
                    stream.write(data)
                shutil.copymode(path, temporary)
                os.replace(temporary, path)
            except BaseException:
                os.unlink(temporary)
                raise

    def uncommitted(self, names: Iterable[str]) -> list[str] | None:
        """Which of these files git could not bring back as they are: changed, or new to it; None where there is no git."""
        folder = self.root.parent if self.root.is_file() else self.root
        git = shutil.which("git")
        if git is None:
            return None
        words = [git, "-C", str(folder), "status", "--porcelain", "--untracked-files=all", "--"]
        words += [str((self.root if self.root.is_file() else self.root / name).resolve()) for name in names]
        try:
            said = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=60, check=False)
        except subprocess.TimeoutExpired:
            raise GossamerError(f"`{' '.join(words[:4])}` did not end within a minute. Try again.") from None
        if said.returncode:
            return None
        return [line[3:] for line in said.stdout.splitlines()]


def _is_foreign(folder: Path) -> bool:
    name = folder.name
    return (
        name.startswith(".")
        or name.lower() in _FOREIGN
        or name.endswith((".egg-info", ".egg"))
        or folder.is_symlink()
        or any((folder / sign).exists() for sign in ("pyvenv.cfg", "conda-meta", "bin/activate", "Scripts/activate"))
    )


def _is_wanted(path: Path) -> bool:
    if path.suffix in (".py", ".pyw"):
        return True
    named = path.suffix.lower() in _TEXTS or path.name.lower().startswith(_NAMES)
    return named and path.stat().st_size <= _LARGEST_TEXT
