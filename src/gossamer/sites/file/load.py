"""Site files from the disk: read, completed by what they extend, unfolded by their parameters, checked."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from gossamer.sites.check.schedule import schedule_problems
from gossamer.sites.check.site import NO_SEEDS, check
from gossamer.sites.check.store import SHARED, shared_archives
from gossamer.sites.crossing import Crossing, check_crossings, crossings
from gossamer.sites.file.extend import SourceFiles
from gossamer.sites.file.merge import with_likes, without_own_keys
from gossamer.sites.file.messages import problem_at, problems_of
from gossamer.sites.file.params import BadParams, Parameters, fill_all, filled, names_in, parameters
from gossamer.sites.file.problems import WARNING, Problem, SiteErrors, did_you_mean, errors_of, in_order
from gossamer.sites.file.recovery import problems_besides
from gossamer.sites.file.yaml import InvalidYaml, Spot, YamlDocument, read
from gossamer.sites.format import SiteSpec
from gossamer.sites.python.document import read_python
from gossamer.sites.python.module import is_python
from gossamer.sites.tables.clash import FedTable, clashes, fed_tables

SUFFIXES = (".yaml", ".yml")
Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
Given = Mapping[str, Any] | None
"""Other values for parameters than the files have: a value, or a list of them."""


class LoadedSite(NamedTuple):
    """A site, the file it came from as it is written there, and where everything in it stands."""

    site: SiteSpec
    file: str
    text: str
    spot: Spot


class LoadResult(NamedTuple):
    """Every site that could be read, and everything that is wrong or doubtful."""

    sites: list[LoadedSite]
    problems: list[Problem]


def load(paths: Paths, params: Given = None) -> list[SiteSpec]:
    """The sites of files and folders, in the order given; inside a folder by name. `params` are values that count instead of the
    files' own. Raises SiteErrors with all errors."""
    return [loaded.site for loaded in sound(survey(paths, params))]


def load_text(text: str, name: str = "site.yaml", folder: str | os.PathLike[str] | None = None) -> list[SiteSpec]:
    """The sites of a text. `name` stands in messages; files it names are looked for in `folder` (here: none)."""
    return [loaded.site for loaded in sound(survey_text(text, name, folder))]


def load_kept(text: str, name: str) -> list[SiteSpec]:
    """The sites of a text that was checked before it was kept: as `load_text` in a fraction of the time, since only its form and its schedule
    are looked at."""
    reader = _FileReader(whole=False)
    reader.read_text(text, name, None)
    return [loaded.site for loaded in sound(LoadResult(reader.found, reader.problems))]


def survey(paths: Paths, params: Given = None) -> LoadResult:
    """As `load`, with warnings, and without raising."""
    found = find(paths)
    sites, notes = read_files(found.files, params)
    return LoadResult(sites, conclude(found, [notes], params))


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Without the garbage collector, which would look again and again through many small values, none of which are garbage:
    a third of the time of a thousand files."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def survey_texts(texts: Iterable[tuple[str, str]], params: Given = None) -> LoadResult:
    """The sites of several texts, each with its name; as `survey`."""
    reader = _FileReader(params)
    for text, name in texts:
        reader.read_text(text, name, None)
    return LoadResult(reader.found, conclude(find([]), [reader.notes], params))


def survey_text(text: str, name: str = "site.yaml", folder: str | os.PathLike[str] | None = None) -> LoadResult:
    """As `load_text`, with warnings, and without raising."""
    reader = _FileReader()
    reader.read_text(text, name, None if folder is None else Path(folder))
    return LoadResult(reader.found, conclude(find([]), [reader.notes]))


def survey_documents(documents: list[YamlDocument], text: str, path: Path) -> LoadResult:
    """The sites of documents that were read before; as `survey`."""
    reader = _FileReader()
    reader.read_documents(documents, text, path)
    return LoadResult(reader.found, conclude(find([]), [reader.notes]))


def sound(found: LoadResult) -> list[LoadedSite]:
    """What was found; SiteErrors if anything is wrong with it."""
    if wrong := errors_of(found.problems):
        raise SiteErrors(wrong)
    return found.sites


class FoundFiles(NamedTuple):
    """The files at some paths. `besides` are those that were not named but found in a folder."""

    files: list[Path]
    besides: frozenset[str]
    problems: list[Problem]


def find(paths: Paths) -> FoundFiles:
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    problems: list[Problem] = []
    found = [(file, sure) for path in given for file, sure in _files(Path(path), problems)]
    besides = frozenset(os.path.normpath(file) for file, sure in found if not sure)
    return FoundFiles(list(dict.fromkeys(file for file, _ in found)), besides, problems)


def _files(path: Path, problems: list[Problem]) -> Iterator[tuple[Path, bool]]:
    """The site files at a path, and whether they were named themselves. Hidden files in a folder are skipped."""
    if not path.is_dir():
        yield path, True
        return
    found = sorted(
        file
        for file in path.rglob("*")
        if file.suffix in SUFFIXES
        and file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(path).parts)
    )
    if not found:
        problems.append(
            Problem(str(path), 0, 0, "", "there is no site file in this folder", "their names end in .yaml")
        )
    yield from ((file, False) for file in found)


class NamedSite(NamedTuple):
    """The name of a site, and a problem to report for it, with its place."""

    site: str
    place: Problem
    layers: tuple[str, ...]
    crossings: list[Crossing]
    feeds: list[FedTable]


@dataclass(slots=True)
class LoadNotes:
    """What can be checked only when all files are read. The files of one survey may be read in shares, each with its notes."""

    problems: list[Problem] = field(default_factory=list)
    siteless: dict[str, list[Problem]] = field(default_factory=dict)
    """Files without `site`, and what would be wrong with them if they were sites."""
    parts: set[str] = field(default_factory=set)
    """Files that serve others (`extends`, `params`)."""
    params: set[str] = field(default_factory=set)
    names: list[NamedSite] = field(default_factory=list)


def read_files(files: Iterable[Path], params: Given = None) -> tuple[list[LoadedSite], LoadNotes]:
    """The sites of files, and what to check when all are read."""
    reader = _FileReader(params)
    with uninterrupted():
        for file in files:
            reader.read_file(file)
    return reader.found, reader.notes


def conclude(
    found: FoundFiles, shares: Iterable[LoadNotes], params: Given = None, *, whole: bool = False
) -> list[Problem]:
    """Everything that is wrong or doubtful with what was read, in shares or as a whole. Files in a folder that only
    serve others are not sites. `whole`: links lead to no other sites than these."""
    shares = list(shares)
    problems = [*found.problems, *(problem for notes in shares for problem in notes.problems)]
    parts = {part for notes in shares for part in notes.parts} & found.besides
    for notes in shares:
        for file, wrong in notes.siteless.items():
            if os.path.normpath(file) not in parts:
                problems += wrong
    names = [named for notes in shares for named in notes.names]
    problems += _namesakes(names)
    problems = _across(problems, names, whole=whole)
    problems += clashes(feed for named in names for feed in named.feeds)
    known = sorted({name for notes in shares for name in notes.params})
    for name in params or () if names or not problems else ():
        if name not in known:
            hint = did_you_mean(name, known) or "they are named in params"
            problems.append(Problem("--param", 0, 0, name, "no site has this parameter", hint))
    return in_order(problems)


class _FileReader:
    """Reads many files; each file that several extend is read once."""

    def __init__(self, params: Given = None, *, whole: bool = True) -> None:
        """`whole`: check all that a site says, not its form and schedule alone."""
        self._whole = whole
        self.notes = LoadNotes()
        self.found: list[LoadedSite] = []
        self.problems = self.notes.problems
        self._given = params or {}
        self._besides: set[tuple[str, int]] = set()
        self._files = SourceFiles(self.problems, self.notes.parts)

    def read_file(self, path: Path) -> None:
        try:
            # Only a file that is named itself is run: `extends` reads no Python.
            text, documents = read_python(path) if is_python(path) else self._files.open(path)
        except InvalidYaml as error:
            self.problems.append(error.problem)
            return
        self._take(documents, text, path.parent, path)

    def read_text(self, text: str, name: str, folder: Path | None) -> None:
        try:
            documents = list(read(text, name))
        except InvalidYaml as error:
            self.problems.append(error.problem)
            return
        self._take(documents, text, folder, Path(name))

    def read_documents(self, documents: list[YamlDocument], text: str, path: Path) -> None:
        self._take(documents, text, path.parent, path)

    def _take(self, documents: list[YamlDocument], text: str, folder: Path | None, path: Path) -> None:
        file = str(path)
        if len(documents) > 1:
            documents = [document for document in documents if document.data is not None]
        if not documents:
            self.problems.append(Problem(file, 1, 1, "", "the file is empty", "a site file begins with site: name"))
        for document in documents:
            self.problems += document.problems
            if not isinstance(document.data, dict):
                spot = document.spot
                why = Problem(file, spot.line, spot.column, "", "a site file is a mapping", "it begins with site: name")
                self.notes.siteless.setdefault(file, []).append(why)
                continue
            before = len(self.problems)
            whole = self._files.extended(document, folder, (path,))
            if whole is None:
                continue
            data, spot, likes = with_likes(without_own_keys(whole[0]), whole[1])
            self.problems += likes
            self._unfold(data, spot, text, folder, file)
            if "site" not in document.data:
                self.notes.siteless.setdefault(file, []).extend(self.problems[before:])
                del self.problems[before:]

    def _unfold(self, data: dict[str, Any], spot: Spot, text: str, folder: Path | None, file: str) -> None:
        """One site, or one for each of the parameters that stand in its name."""
        given, where = data.get("params"), spot.find(("params",)).spot
        # What was inherited counts from the file that says it.
        beside = folder if folder is None or where.file == file else Path(where.file).parent
        try:
            values = parameters(given, beside) if given else Parameters()
            self.notes.params.update(values.names)
            values = values.changed(self._given)
        except BadParams as error:
            self.problems.append(problem_at(spot, ("params",), str(error), error.hint))
            return
        if isinstance(given, str) and beside is not None:
            self.notes.parts.add(os.path.normpath(beside / given))
        name = data.get("site")
        names = names_in(name) if isinstance(name, str) else []
        if unknown := [one for one in names if one not in values.names]:
            hint = did_you_mean(unknown[0], values.names) or "name it in params"
            self.problems.append(problem_at(spot, ("site",), f"there is no parameter {unknown[0]}", hint))
            return
        if not names:
            whole = {**data, "params": values.lists if values.rows is None else values.rows} if given else data
            self._finish(whole, spot, text, file, values)
            return
        body = {key: value for key, value in data.items() if key != "params"}
        made: set[str] = set()
        for row in values.combinations(names):
            called = filled(str(name), row)
            if called in made:
                self.problems.append(
                    problem_at(
                        spot,
                        ("params",),
                        f"two rows give the same site {called}",
                        "let the name have what tells them apart",
                    )
                )
                continue
            made.add(called)
            rest = {**row, **values.without(names)} if values.rows is None else row
            self._finish({**fill_all(body, row), "params": rest}, spot, text, file, parameters(rest))
        if len(made) > 1:
            self.problems += [
                problem_at(spot, path, *SHARED, severity=WARNING) for path in shared_archives(data.get("store"))
            ]

    def _finish(self, data: dict[str, Any], spot: Spot, text: str, file: str, values: Parameters) -> None:
        try:
            site = SiteSpec.model_validate(data, by_alias=True, by_name=False)
        except ValidationError as error:
            self.problems += problems_of(error, data, spot)
            # Once for all rows of a document: it takes its time.
            if (document := (spot.file, spot.line)) not in self._besides:
                self._besides.add(document)
                self.problems += problems_besides(error, data, spot)
            return
        if not self._whole:
            self.problems += schedule_problems(site.schedule, spot)
            self.found.append(LoadedSite(site, file, text, spot))
            return
        problems = check(site, spot, values)
        self.problems += problems
        self.found.append(LoadedSite(site, file, text, spot))
        place = problem_at(spot, ("site",), "", "rename one of them")
        feeds = [] if errors_of(problems) else fed_tables(site, spot)
        self.notes.names.append(NamedSite(site.site, place, tuple(site.layers), crossings(site, spot), feeds))


def _namesakes(names: Iterable[NamedSite]) -> Iterator[Problem]:
    first: dict[str, NamedSite] = {}
    for named in names:
        other = first.setdefault(named.site, named)
        if other is not named:
            place = f"{other.place.file}:{other.place.line}:{other.place.column}"
            yield named.place._replace(message=f"there is another site {named.site}, at {place}")


def _across(problems: list[Problem], names: list[NamedSite], *, whole: bool) -> list[Problem]:
    """With what is wrong with links that cross sites, and without complaints that a site has no seeds if another leads to it."""
    leading = [crossing for named in names for crossing in named.crossings]
    fed = {crossing.site for crossing in leading}
    places = {named.place[:3] for named in names if named.site in fed}
    kept = [one for one in problems if one.message != NO_SEEDS or one[:3] not in places]
    return kept + list(check_crossings(leading, {named.site: named.layers for named in names}, whole=whole))
