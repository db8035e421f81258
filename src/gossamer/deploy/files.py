"""The files that `gossamer init` writes, as texts by path. Pure but for reading the templates that ship with the package.

A template is an ordinary file whose name ends in `.txt`, so that no tool takes it for part of the package. Words in double
underscores are replaced; everything else is left as it is, since `$`, `{` and `%` mean something in most of these files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from typing import NamedTuple

from gossamer.deploy.dashboard import dashboard

PROJECT: Mapping[str, str] = {
    "scrapy.cfg": "scrapy.cfg.txt",
    "__PROJECT__/__init__.py": "",
    "__PROJECT__/settings.py": "settings.py.txt",
    "__PROJECT__/spiders/__init__.py": "",
    "__PROJECT__/spiders/__SPIDER__.py": "spider.py.txt",
}
DEPLOY: Mapping[str, str] = {
    "requirements.txt": "requirements.txt",
    "Dockerfile": "Dockerfile.txt",
    ".dockerignore": "dockerignore.txt",
    ".gitignore": "gitignore.txt",
    ".env": "env.txt",
    "compose.yaml": "compose.yaml.txt",
    "stack.yaml": "stack.yaml.txt",
    ".gitlab-ci.yml": "gitlab-ci.yml.txt",
    "deploy/entrypoint.sh": "entrypoint.sh.txt",
    "deploy/health.py": "health.py.txt",
    "deploy/prometheus.yml": "prometheus.yml.txt",
    "deploy/alerts.yml": "alerts.yml.txt",
    "deploy/grafana/datasource.yml": "datasource.yml.txt",
    "deploy/grafana/dashboards.yml": "dashboards.yml.txt",
}
DASHBOARD = "deploy/grafana/gossamer.json"
SECRET_FILES = frozenset({".env"})
"""What nobody but the owner may read, and what belongs in no repository and no image."""


class Choice(NamedTuple):
    """What differs from one project to another. The passwords only reach the files of `SECRET_FILES`."""

    project: str
    spider: str
    version: str
    valkey_password: str
    grafana_password: str


def project_files(choice: Choice) -> dict[str, str]:
    """A Scrapy project with one spider."""
    return _rendered(PROJECT, "project", choice)


def deploy_files(choice: Choice) -> dict[str, str]:
    """What builds an image of a project, runs it as a fleet and watches it."""
    return {**_rendered(DEPLOY, "server", choice), DASHBOARD: json.dumps(dashboard(), indent=2) + "\n"}


def _rendered(table: Mapping[str, str], folder: str, choice: Choice) -> dict[str, str]:
    templates = resources.files("gossamer.deploy") / folder
    words = {f"__{name.upper()}__": value for name, value in choice._asdict().items()}
    texts = {}
    for path, name in table.items():
        text = (templates / name).read_text(encoding="utf-8") if name else ""
        for word, value in words.items():
            path, text = path.replace(word, value), text.replace(word, value)
        texts[path] = text
    return texts
