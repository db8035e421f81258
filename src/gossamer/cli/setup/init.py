"""`gossamer init`: a project to start from, and what runs it on machines."""

from __future__ import annotations

import configparser
import keyword
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

from gossamer import __version__
from gossamer.cli import options, output
from gossamer.cli.options import argument, flag, option
from gossamer.deploy import Choice, deploy_files, project_files
from gossamer.deploy.files import SECRET_FILES
from gossamer.errors import SettingError

app = options.Noun()

CONFIG = "scrapy.cfg"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}\Z")
_SPIDER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}\Z")


@app.command()
def init(
    directory: Annotated[Path, argument("DIR", "Where to write; made if it does not exist.")] = Path(),
    name: Annotated[str, option("--name", "NAME", "The project's name, instead of the directory's.")] = "",
    spider: Annotated[str, option("--spider", "NAME", "The spider that workers run; in a new project: example.")] = "",
    force: Annotated[bool, flag("--force", "Overwrite files that exist; .env is kept even so.")] = False,
    json: options.Json = False,
) -> None:
    """Write a Scrapy project that crawls as a fleet.

    With it a Dockerfile, Compose and Swarm files, a GitLab pipeline, and Prometheus and Grafana with alerts and a
    dashboard. Where there is a Scrapy project already, only those files are written, for it. What exists is kept, and
    what is missing is written; --force overwrites. Passwords are generated and written to .env, which git and Docker ignore.
    """
    existing = _project_of(directory / CONFIG)
    if existing and not spider:
        raise SettingError(
            "Name the spider that the workers run: --spider NAME. `scrapy list` names those of the project."
        )
    choice = Choice(
        _module(name or _slug(existing or directory.resolve().name), "name"),
        spider if existing and _SPIDER.match(spider) else _module(spider or "example", "spider"),
        __version__,
        secrets.token_urlsafe(24),
        secrets.token_urlsafe(12),
    )
    files = deploy_files(choice) if existing else {**project_files(choice), **deploy_files(choice)}
    written = list(_write(directory, files, force))
    kept = sorted(set(files) - set(written))
    if json:
        output.write_json({"directory": str(directory), "project": choice.project, "written": written, "kept": kept})
        return
    for path in written:
        output.write_line(str(directory / path))
    if others := [path for path in kept if path not in SECRET_FILES or not force]:
        output.write_notice(f"there already, and kept: {', '.join(others)}; --force overwrites them")
    for line in _next_steps(directory, choice, existing):
        output.write_notice(line)


def _project_of(config: Path) -> str:
    """The name of the Scrapy project whose file this is; "" if there is none."""
    parser = configparser.ConfigParser()
    try:
        parser.read(config, encoding="utf-8")
    except configparser.Error as error:
        raise SettingError(f"{config} cannot be read: {error.message}. Correct it there.") from None
    return parser.get("settings", "default", fallback="").partition(".")[0]


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def _module(name: str, option: str) -> str:
    if not _NAME.match(name) or keyword.iskeyword(name):
        raise SettingError(
            f"{name!r} cannot be a name here: it becomes a Python module. Use small letters, digits and _, a letter first: "
            f"--{option} NAME."
        )
    return name


def _write(directory: Path, files: Mapping[str, str], force: bool) -> Iterator[str]:
    for path, text in files.items():
        target = directory / path
        # Passwords in use are not replaced: the server's data would be behind an unknown password.
        if target.exists() and (path in SECRET_FILES or not force):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = 0o600 if path in SECRET_FILES else 0o666
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as out:
            out.write(text)
        yield path


def _has_addon(settings: Path) -> bool:
    return settings.is_file() and "gossamer.Addon" in settings.read_text("utf-8", errors="replace")


def _has_feeds(settings: Path) -> bool:
    return (
        settings.is_file() and re.search(r"^FEEDS\b", settings.read_text("utf-8", errors="replace"), re.M) is not None
    )


def _next_steps(directory: Path, choice: Choice, existing: str) -> Iterator[str]:
    yield ""
    if existing and not _has_addon(directory / existing / "settings.py"):
        yield f'add to {existing}/settings.py:   ADDONS = {{"gossamer.Addon": 100}}'
    if existing and _has_feeds(directory / existing / "settings.py"):
        yield f"{existing}/settings.py has FEEDS: in a container, local files are lost with it; docs: how-to/deploy, Items"
    if directory.resolve() != Path.cwd():
        yield f"cd {directory}"
    steps = {
        f"scrapy crawl {choice.spider}": "one worker, here, with a server of its own; start it again for a second one",
        "gossamer top": "watch them",
        "docker compose up --build --detach": "the fleet, with Valkey, Prometheus (port 9090) and Grafana (port 3000)",
    }
    width = max(map(len, steps))
    for command, meaning in steps.items():
        yield f"{command:{width}}  {meaning}"
    yield "the passwords are in .env; docs: how-to/deploy, how-to/monitor-with-prometheus"
