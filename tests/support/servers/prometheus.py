"""A real Prometheus as a child process, and its tool."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gossamer.deploy import Choice, deploy_files
from gossamer.testing import process


def program(name: str) -> str:
    """Where a program of Prometheus is. A test that needs it never skips."""
    found = shutil.which(name)
    assert found, f"{name} is not on PATH. Install it: apt-get install prometheus, or brew install prometheus."
    return found


def promtool(*words: str, cwd: Path) -> str:
    done = subprocess.run(
        [program("promtool"), *words], cwd=cwd, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def scraping(directory: Path, port: int) -> Path:
    """Our configuration for Prometheus in a directory, but for target and pace: the exporter at this port, each second."""
    for path, text in deploy_files(Choice("shop", "prices", "0.1.0", "secret", "secret")).items():
        if path.startswith("deploy/") and path.endswith(".yml"):
            target = directory / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    config = directory / "deploy" / "prometheus.yml"
    text = config.read_text(encoding="utf-8")
    assert "exporter:9469" in text
    config.write_text(text.replace("exporter:9469", f"127.0.0.1:{port}").replace("15s", "1s"), encoding="utf-8")
    return config


class Prometheus:
    """Runs with a configuration file, on a free loopback port, with a directory of its own. Dies with this process."""

    def __init__(self, config: Path) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="gossamer-prometheus-"))
        self._log = self.directory / "log"
        self._config = config
        for _ in range(10):
            self.port = process.free_port()
            self._child = process.spawn(self._command(), self.directory, self._log)
            if process.wait_until(lambda: self._ready() or self._child.poll() is not None, "Prometheus", 60) is True:
                break
            if self._child.poll() is None:
                break
            said = self._log.read_text(errors="replace")
            assert "address already in use" in said, said
        assert self._child.poll() is None

    def _command(self) -> list[str | Path]:
        return [
            program("prometheus"),
            f"--config.file={self._config}",
            f"--storage.tsdb.path={self.directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--log.level=warn",
        ]

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def ask(self, path: str, **parameters: str) -> Any:
        """The data of an answer of the HTTP API; AssertionError with what it says if it refuses."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as refused:
            raise AssertionError(refused.read().decode(errors="replace")) from None

    def query(self, expr: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("query", query=expr)["result"]
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        process.end(self._child)
        shutil.rmtree(self.directory, ignore_errors=True)
