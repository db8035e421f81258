"""Pages saved with what was read from them: test cases of a site file, in a folder beside it, readable for people.

FILE.cases/NAME/ holds the page as it came, in a file of its own, and `case.json` with everything else.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from gossamer.errors import BadCase, DecodingError, FilesExist
from gossamer.frontier.codec import from_json, to_json
from gossamer.model.page import Response
from gossamer.sites.page import Reading

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
FILE = "case.json"
SECRET = frozenset({"set-cookie", "authorization", "proxy-authorization"})
"""Headers that are not saved: cases are shared."""
LINK = (
    "url",
    "layer",
    "priority",
    "method",
    "headers",
    "cookies",
    "body",
    "inherited",
    "turn",
    "depth",
    "dont_filter",
    "changed",
)
"""What a site file decides about a link."""
_ENDS = (("json", "json"), ("html", "html"), ("xml", "xml"), ("text/", "txt"))


class SavedCase(NamedTuple):
    """One page, the layer that it was read by, and what was read: `reading` as `reading_json` gives it."""

    name: str
    site: str
    layer: str
    document: Response
    reading: dict[str, Any]


def folder_of(file: Path) -> Path:
    """Where the cases of a site file are."""
    return file.with_name(f"{file.name}.cases")


def save(file: Path, case: SavedCase, *, force: bool = False) -> Path:
    """Save a case beside its site file; returns its folder."""
    if not NAME.fullmatch(case.name):
        raise BadCase(f"{case.name!r} cannot be the name of a case. Use letters, digits, and _ . -")
    folder = folder_of(file) / case.name
    if (folder / FILE).exists() and not force:
        raise FilesExist(f"{folder} exists already. Choose another name, or overwrite it with --force.")
    folder.mkdir(parents=True, exist_ok=True)
    document = case.document
    body = f"body.{_end(document.headers.get('content-type', ''))}"
    for old in folder.glob("body.*"):
        old.unlink()
    (folder / body).write_bytes(document.body)
    headers = {name: value for name, value in sorted(document.headers.items()) if name not in SECRET}
    _write(
        folder,
        {
            "site": case.site,
            "layer": case.layer,
            "url": document.url,
            "status": document.status,
            "headers": headers,
            "inherited": to_json(dict(document.inherited)),
            "turn": document.turn,
            "depth": document.depth,
            "fetched": document.fetched or time.time(),
            "body": body,
            "reading": case.reading,
        },
    )
    return folder


def update(file: Path, case: SavedCase, reading: dict[str, Any]) -> None:
    """Replace the expected reading of a saved case."""
    folder = folder_of(file) / case.name
    _write(folder, {**_load(folder), "reading": reading})


def stray(folder: Path, files: Iterable[Path]) -> list[Path]:
    """The folders of cases in a folder, also deeper, that belong to none of these site files."""
    known = {folder_of(file).resolve() for file in files}
    found = sorted(path for path in folder.rglob("*.cases") if path.is_dir() and path.resolve() not in known)
    return [path for path in found if any(path.glob(f"*/{FILE}"))]


def cases_of(file: Path) -> Iterator[SavedCase]:
    """The cases of a site file, by name."""
    folder = folder_of(file)
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_dir() and not path.name.startswith("."):
            yield _case(path)


def _case(folder: Path) -> SavedCase:
    data = _load(folder)
    try:
        document = Response(
            data["url"],
            int(data["status"]),
            {str(name).lower(): str(value) for name, value in data["headers"].items()},
            (folder / Path(data["body"]).name).read_bytes(),
            from_json(data.get("inherited", {})),
            int(data.get("turn", 0)),
            int(data.get("depth", 0)),
            fetched=float(data.get("fetched", 0)),
        )
        return SavedCase(folder.name, str(data["site"]), str(data["layer"]), document, dict(data["reading"]))
    except FileNotFoundError as error:
        raise BadCase(f"{folder}: the page itself is missing: {error.filename}. Save the case again.") from None
    except (KeyError, TypeError, ValueError, AttributeError, DecodingError) as error:
        said = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
        raise BadCase(f"{folder / FILE} is not a case: {said}. Save the case again.") from None


def _load(folder: Path) -> dict[str, Any]:
    try:
        data = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadCase(f"{folder} has no {FILE}. Save the case again, or delete the folder.") from None
    except ValueError as error:
        raise BadCase(f"{folder / FILE} is not JSON: {error}. Save the case again.") from None
    if not isinstance(data, dict):
        raise BadCase(f"{folder / FILE} is not a case: it is not a JSON object. Save the case again.")
    return data


def _write(folder: Path, data: dict[str, Any]) -> None:
    half = folder / f".{FILE}"
    half.write_text(json_text(data), encoding="utf-8")
    half.replace(folder / FILE)


def json_text(data: Any) -> str:
    """JSON as in a case and in a difference: one value per line."""
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _end(content_type: str) -> str:
    return next((end for word, end in _ENDS if word in content_type.lower()), "bin")


def reading_json(reading: Reading) -> dict[str, Any]:
    """A reading in the types that JSON knows. What is empty in a link is left out."""
    return {
        "verdict": reading.verdict.value,
        "reason": reading.reason,
        "records": [{"layer": one.layer, "fields": to_json(one.fields)} for one in reading.records],
        "links": [
            {
                name: to_json(dict(value) if name in ("headers", "cookies", "inherited") else value)
                for name in LINK
                if (value := getattr(link, name)) and value != "GET"
            }
            for link in reading.links
        ],
        "missing": list(reading.missing),
        "notes": list(reading.notes),
    }
