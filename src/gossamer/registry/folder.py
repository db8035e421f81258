"""Site files of a crawl as files in a folder, and back: byte for byte."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from gossamer.errors import FilesExist
from gossamer.registry.registry import KIND, Registry
from gossamer.registry.texts import SiteText
from gossamer.sites.problems import Problem, SiteErrors

SUFFIXES = (".yaml", ".yml")


def dump(registry: Registry, folder: Path, *, force: bool = False) -> list[Path]:
    """Write every file of the crawl to a folder, which is made where it is missing. A file that is there and differs is
    written over only with `force`; without it, nothing is written then."""
    texts = {
        folder / f"{info.name}.yaml": registry.frontier.document(KIND, info.name).text.encode()
        for info in registry.frontier.documents(KIND)
        if not info.deleted
    }
    other = [path for path, data in texts.items() if path.exists() and path.read_bytes() != data]
    if other and not force:
        raise FilesExist(
            f"{other[0]}{f' and {len(other) - 1} more' if other[1:] else ''} would be written over. Choose another folder, or use --force."
        )
    folder.mkdir(parents=True, exist_ok=True)
    for path, data in texts.items():
        path.write_bytes(data)
    return list(texts)


def read(paths: Iterable[Path]) -> list[SiteText]:
    """The site files at these paths; of a folder those in it, by name. SiteErrors names what cannot be read."""
    texts: list[SiteText] = []
    problems: list[Problem] = []
    for path in paths:
        for file in _files(path, problems):
            try:
                # As it is, with its line ends: what comes back must be what was given.
                texts.append(SiteText(file.stem, file.read_bytes().decode("utf-8"), str(file)))
            except OSError as error:
                why = (error.strerror or str(error)).lower()
                problems.append(Problem(str(file), 0, 0, "", f"the file cannot be read: {why}"))
            except UnicodeDecodeError as error:
                line = error.object.count(b"\n", 0, error.start) + 1
                problems.append(Problem(str(file), line, 1, "", "the file is not UTF-8", "save the file in UTF-8"))
    if problems:
        raise SiteErrors(problems)
    return texts


def _files(path: Path, problems: list[Problem]) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    found = sorted(one for one in path.iterdir() if one.suffix in SUFFIXES and one.is_file())
    if not found:
        problems.append(
            Problem(str(path), 0, 0, "", "there is no site file in this folder", "their names end in .yaml")
        )
    yield from found
