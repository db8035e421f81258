"""The files for running and watching a fleet: read by the programs they are for, or, where those need more than a machine for
tests has, looked at for what matters."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml  # type: ignore[import-untyped]
from tests.support.busy_crawl import Busy, environment, settings_for
from tests.support.servers.prometheus import Prometheus, promtool, scraping

from gossamer.cli import app
from gossamer.deploy import Choice, dashboard, deploy_files, project_files
from gossamer.deploy.files import SECRET_FILES
from gossamer.exporter import serve
from gossamer.exporter.metrics import METRICS
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import Token
from gossamer.testing import process
from gossamer.testing.clock import advance
from gossamer.testing.servers import Server
from gossamer.testing.servers.single import binary

CHOICE = Choice("shop", "prices", "0.1.0", "secret-of-valkey", "secret-of-grafana")
FILES = deploy_files(CHOICE)
RULES_TEST = Path(__file__).with_name("alerts_test.yml")
COMPOSE, STACK, PIPELINE = (yaml.safe_load(FILES[name]) for name in ("compose.yaml", "stack.yaml", ".gitlab-ci.yml"))
RULES = [rule for group in yaml.safe_load(FILES["deploy/alerts.yml"])["groups"] for rule in group["rules"]]
QUERIES = [(panel["title"], target["expr"]) for panel in dashboard()["panels"] for target in panel.get("targets", ())]
NAMES = re.compile(r"\bgossamer_[a-z_]+")


def write(directory: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return directory


# Prometheus and Grafana.


def test_promtool_accepts_configuration_and_rules(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    assert "SUCCESS" in promtool("check", "config", "prometheus.yml", cwd=tmp_path / "deploy")
    assert f"{len(RULES)} rules found" in promtool("check", "rules", "alerts.yml", cwd=tmp_path / "deploy")


@pytest.mark.timeout(400)  # It takes promtool a minute and more on a busy machine.
def test_each_alert_fires_when_it_should_and_only_then(tmp_path: Path) -> None:
    write(tmp_path, {"alerts.yml": FILES["deploy/alerts.yml"], "test.yml": RULES_TEST.read_text(encoding="utf-8")})
    promtool("test", "rules", "test.yml", cwd=tmp_path)
    tested: dict[str, set[bool]] = {}
    for test in yaml.safe_load(RULES_TEST.read_text(encoding="utf-8"))["tests"]:
        for case in test["alert_rule_test"]:
            tested.setdefault(case["alertname"], set()).add(bool(case["exp_alerts"]))
    assert set(tested) == {rule["alert"] for rule in RULES}
    assert [name for name, outcomes in tested.items() if True not in outcomes] == []


def test_every_alert_says_how_bad_it_is_and_what_to_do() -> None:
    for rule in RULES:
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"].endswith(".")


def test_alerts_and_dashboard_only_use_metrics_that_exist() -> None:
    told = {m.name + suffix for m in METRICS for suffix in ("", *SUFFIXES.get(m.kind, ()))}
    used = {name for _, expr in QUERIES for name in NAMES.findall(expr)}
    used |= {name for rule in RULES for name in NAMES.findall(rule["expr"])}
    used |= {name for variable in dashboard()["templating"]["list"] for name in NAMES.findall(json.dumps(variable))}
    assert used - told == set()


SUFFIXES = {"summary": ("_sum", "_count"), "histogram": ("_sum", "_count", "_bucket")}


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Prometheus, str]]:
    """A Prometheus that has scraped a crawl at work several times, with our configuration but for target and pace."""
    with Server().start({"maxmemory": "256mb"}, fsync="everysec") as server:
        settings = settings_for(server.url, "watched")
        with ValkeyFrontier.open(settings) as frontier, serve(settings, port=0) as port:
            busy = Busy(frontier)
            with Prometheus(scraping(tmp_path_factory.mktemp("watched"), port)) as prometheus:

                def scraped() -> bool:
                    busy.work()
                    counted = prometheus.query('count_over_time(gossamer_pages_total{outcome="done"}[1m])')
                    changes = prometheus.query("changes(gossamer_fetch_latency_seconds_count[1m])")
                    return bool(counted and changes and float(changes[0]["value"][1]) >= 2)

                process.wait_until(scraped, "three scrapes", 90, pause=0.5)
                frontier.pause(lane="news.post", reason="test")
                frontier.pause(reason="test")
                process.wait_until(lambda: prometheus.query("gossamer_paused == 1"), "the pause to be told", 60)
                yield prometheus, "watched"


def concrete(expr: str, crawl: str) -> str:
    """An expression as Grafana sends it."""
    for name, value in {"$crawl": crawl, "$group": ".*", "$__rate_interval": "1m"}.items():
        expr = expr.replace(name, value)
    assert "$" not in expr
    return expr


@pytest.mark.parametrize(("title", "expr"), QUERIES)
def test_every_expression_of_the_dashboard_gives_a_result(
    watched: tuple[Prometheus, str], title: str, expr: str
) -> None:
    prometheus, crawl = watched
    found = prometheus.query(concrete(expr, crawl))
    assert found, f"{title}: {expr} is empty"
    assert [row for row in found if row["value"][1] != "NaN"], f"{title}: {expr} has no number"


def test_every_alert_is_evaluated_without_an_error(watched: tuple[Prometheus, str]) -> None:
    prometheus, _ = watched

    def evaluated() -> list[Any]:
        rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
        return rules if rules and all(rule["health"] != "unknown" for rule in rules) else []

    found = process.wait_until(evaluated, "the rules to be evaluated", 60)
    assert {rule["name"]: rule.get("lastError", "") for rule in found} == {rule["alert"]: "" for rule in RULES}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_every_metric_in_an_alert_has_data(watched: tuple[Prometheus, str], rule: dict[str, Any]) -> None:
    prometheus, _ = watched
    for name in NAMES.findall(rule["expr"]) or ['up{job="gossamer"}']:
        assert prometheus.query(name), f"{rule['alert']}: {name} is empty"


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    panels = dashboard()["panels"]
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert json.loads(FILES["deploy/grafana/gossamer.json"]) == dashboard()


def test_grafana_finds_prometheus_and_the_dashboard() -> None:
    [source] = yaml.safe_load(FILES["deploy/grafana/datasource.yml"])["datasources"]
    assert source["url"] == "http://prometheus:9090"
    [provider] = yaml.safe_load(FILES["deploy/grafana/dashboards.yml"])["providers"]
    folder = provider["options"]["path"]
    mounts = {mount.split(":")[0]: mount.split(":")[1] for mount in COMPOSE["services"]["grafana"]["volumes"]}
    assert mounts["./deploy/grafana/gossamer.json"].startswith(folder + "/")
    targets = {config["source"]: config["target"] for config in STACK["services"]["grafana"]["configs"]}
    assert targets["dashboard"].startswith(folder + "/")


# Docker.


@pytest.mark.parametrize("name", ["compose.yaml", "stack.yaml"])
def test_the_fleet_is_complete_and_every_file_it_mounts_is_written(name: str) -> None:
    described = yaml.safe_load(FILES[name])
    assert set(described["services"]) == {"valkey", "worker", "exporter", "prometheus", "grafana"}
    mounted = [
        v.split(":")[0] for s in described["services"].values() for v in s.get("volumes", ()) if v.startswith("./")
    ]
    mounted += [config["file"] for config in described.get("configs", {}).values()]
    assert [path for path in mounted if path.removeprefix("./") not in FILES] == []
    kept = {v.split(":")[0] for s in described["services"].values() for v in s.get("volumes", ()) if v[0] != "."}
    assert kept == set(described["volumes"])


def test_compose_opens_nothing_to_the_network_and_waits_for_the_server() -> None:
    for name, service in COMPOSE["services"].items():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
    assert COMPOSE["services"]["worker"]["depends_on"] == {"valkey": {"condition": "service_healthy"}}
    assert "healthcheck" in COMPOSE["services"]["valkey"]
    assert "ports" not in COMPOSE["services"]["valkey"]


@pytest.mark.parametrize("described", [COMPOSE, STACK], ids=["compose", "stack"])
def test_a_worker_has_time_to_finish_and_only_comes_back_after_a_failure(described: dict[str, Any]) -> None:
    worker = described["services"]["worker"]
    assert worker["stop_grace_period"] == "2m"
    assert worker["deploy"]["replicas"] == "${WORKERS:-2}"
    assert "on-failure" in (worker.get("restart"), worker["deploy"].get("restart_policy", {}).get("condition"))
    assert worker["environment"]["GOSSAMER_ROUND"] == "${ROUND:-join}", "who comes back last begins nothing"


def test_a_swarm_starts_new_workers_before_it_stops_old_ones() -> None:
    worker = STACK["services"]["worker"]["deploy"]
    assert worker["update_config"]["order"] == "start-first"
    assert worker["update_config"]["failure_action"] == "rollback"
    assert worker["rollback_config"]["order"] == "start-first"
    # Two servers on one log would destroy it.
    assert STACK["services"]["valkey"]["deploy"]["update_config"]["order"] == "stop-first"
    assert STACK["services"]["valkey"]["deploy"]["replicas"] == 1
    assert all("VERSION" in config["name"] for config in STACK["configs"].values())


def test_the_image_is_slim_runs_as_nobody_special_and_is_watched() -> None:
    lines = [line for line in FILES["Dockerfile"].splitlines() if line and not line.startswith("#")]
    words = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert lines[0] == "FROM python:3.13-slim"
    assert {"HEALTHCHECK", "STOPSIGNAL", "ENTRYPOINT"} <= set(words)
    # The project is not writable by who runs it: USER comes after COPY.
    assert words.index("USER") > max(index for index, word in enumerate(words) if word == "COPY")
    assert "USER crawler" in lines
    assert lines[-1] == 'CMD ["scrapy", "crawl", "prices"]'


def test_the_pipeline_builds_pushes_and_updates_and_never_removes() -> None:
    assert PIPELINE["stages"] == ["test", "build", "deploy"]
    build, deploy = PIPELINE["build"]["script"], PIPELINE["deploy"]["script"]
    assert [shlex.split(line)[:2] for line in build[1:]] == [["docker", "build"], ["docker", "push"]]
    assert deploy == ["docker stack deploy --with-registry-auth --detach=false --compose-file stack.yaml shop"]
    assert PIPELINE["deploy"]["resource_group"] == "production"
    scripts = [line for job in PIPELINE.values() if isinstance(job, dict) for line in job.get("script", ())]
    assert not [line for line in scripts if re.search(r"\b(rm|down|stop|kill|prune)\b", line)]
    assert set(PIPELINE["variables"]) >= set(re.findall(r"\$\{(\w+):\?", FILES["stack.yaml"]))


# Secrets.


def test_a_secret_is_in_no_file_but_the_one_that_is_kept_out_of_images_and_repositories() -> None:
    holding = {
        path
        for path, text in {**FILES, **project_files(CHOICE)}.items()
        if CHOICE.valkey_password in text or CHOICE.grafana_password in text
    }
    assert holding == SECRET_FILES == {".env"}
    for ignore in (".gitignore", ".dockerignore"):
        assert ".env" in FILES[ignore].splitlines()
    external = {name: secret["external"] for name, secret in STACK["secrets"].items()}
    assert external == {"valkey_password": True, "grafana_password": True}
    wanted = set(re.findall(r"\$\{(\w+):\?", FILES["compose.yaml"]))
    assert wanted == {line.split("=")[0] for line in FILES[".env"].splitlines() if not line.startswith("#")}


def test_git_leaves_the_secrets_out(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    for words in (["init", "--quiet"], ["add", "--all"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, timeout=30)
    listed = subprocess.run(["git", "ls-files"], cwd=tmp_path, check=True, capture_output=True, text=True, timeout=30)
    assert sorted(listed.stdout.split()) == sorted(set(FILES) - SECRET_FILES)


@pytest.mark.parametrize("described", [COMPOSE, STACK], ids=["compose", "stack"])
def test_the_server_of_the_fleet_starts_with_a_log_and_a_password(described: dict[str, Any], tmp_path: Path) -> None:
    """Its command, given to a real shell and a real server."""
    shell, flag, script = described["services"]["valkey"]["command"]
    secret = tmp_path / "valkey_password"
    secret.write_text("hush\n")
    port = process.free_port()
    script = script.replace("$$", "$").replace("${VALKEY_MEMORY:-1gb}", "64mb").replace("/run/secrets/", f"{tmp_path}/")
    script = script.replace("\nEND", f"\nport {port}\nbind 127.0.0.1\nEND")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "docker-entrypoint.sh").write_text('#!/bin/sh\nexec "$@"\n')
    (programs / "docker-entrypoint.sh").chmod(0o755)
    (programs / "valkey-server").symlink_to(binary("valkey"))
    env = environment(PATH=f"{programs}:{os.environ['PATH']}", VALKEY_PASSWORD="hush")
    child = subprocess.Popen([shell, flag, script], cwd=tmp_path, env=env, stdout=subprocess.DEVNULL)
    try:
        settings = settings_for(f"redis://:hush@127.0.0.1:{port}/0", "main")

        def opened() -> bool:
            try:
                with ValkeyFrontier.open(settings) as frontier:
                    info = frontier.connection.server_info()
            except Exception:
                assert child.poll() is None
                return False
            return (info.aof, info.fsync, info.memory_max, info.memory_policy) == (
                True,
                "everysec",
                64 * 1024 * 1024,
                "noeviction",
            )

        process.wait_until(opened, "the server", 60)
        if sys.platform == "linux":
            assert "hush" not in Path(f"/proc/{child.pid}/cmdline").read_text()
        child.terminate()
        assert child.wait(60) == 0, "the server itself is told to end, not a shell before it"
    finally:
        child.kill()
        child.wait()


# What runs in the containers.


@pytest.mark.parametrize("described", [COMPOSE, STACK], ids=["compose", "stack"])
def test_the_commands_exist_and_take_these_options(described: dict[str, Any]) -> None:
    words = described["services"]["exporter"]["command"]
    assert words[0] == "gossamer"
    command = typer.main.get_command(app.app)
    command = command.get_command(None, words[1])  # type: ignore[attr-defined]
    context = command.make_context("exporter", list(words[2:]))
    assert (context.params["address"], context.params["port"]) == ("0.0.0.0", 9469)
    assert described["services"]["worker"]["command"] == ["scrapy", "crawl", "prices"]


def test_a_password_in_a_file_becomes_the_url_but_never_replaces_one(tmp_path: Path) -> None:
    write(tmp_path, {**FILES, "password": "hush"})

    def said(**given: str) -> str:
        words = ["sh", "deploy/entrypoint.sh", sys.executable, "-c", "import os; print(os.environ.get('GOSSAMER_URL'))"]
        done = subprocess.run(
            words, cwd=tmp_path, env=environment(**given), capture_output=True, text=True, timeout=30, check=True
        )
        return done.stdout.strip()

    assert said() == "None"
    assert said(FRONTIER_PASSWORD_FILE="password") == "redis://:hush@valkey:6379/0"
    assert said(FRONTIER_PASSWORD_FILE="password", FRONTIER_HOST="v:1") == "redis://:hush@v:1/0"
    assert said(FRONTIER_PASSWORD_FILE="password", GOSSAMER_URL="redis://other") == "redis://other"


def health(directory: Path, url: str, crawl: str) -> tuple[int, str]:
    env = environment(GOSSAMER_URL=url, GOSSAMER_CRAWL=crawl)
    words = ["sh", "deploy/entrypoint.sh", sys.executable, "deploy/health.py"]
    done = subprocess.run(words, cwd=directory, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_a_worker_is_unwell_only_if_it_fell_silent_itself(
    valkey_server: Server, tmp_path: Path, crawl_name: str
) -> None:
    write(tmp_path, FILES)
    nobody = f"redis://127.0.0.1:{process.free_port()}"
    assert health(tmp_path, nobody, crawl_name)[0] == 0, "the frontier is away"
    assert health(tmp_path, valkey_server.url, crawl_name)[0] == 0, "there is no crawl yet"
    with ValkeyFrontier.open(settings_for(valkey_server.url, crawl_name)) as frontier:
        frontier.exchange(Token.fresh(), info={"host": "another machine"})
        advance(frontier, 600)
        assert health(tmp_path, valkey_server.url, crawl_name)[0] == 0, "it is another that fell silent"
        frontier.exchange(Token.fresh(), info={"host": os.uname().nodename})
        assert health(tmp_path, valkey_server.url, crawl_name)[0] == 0
        advance(frontier, 600)
        code, said = health(tmp_path, valkey_server.url, crawl_name)
    assert (code, re.sub(r"\d+", "N", said)) == (1, "last heard of N s ago\n")


def test_the_templates_leave_nothing_unfilled() -> None:
    for path, text in {**FILES, **project_files(CHOICE)}.items():
        left = set(re.findall(r"__[A-Z_]+__", path + text))
        assert left == set(), path


def test_shell_and_python_of_the_templates_are_sound(tmp_path: Path) -> None:
    write(tmp_path, {**FILES, **project_files(CHOICE)})
    subprocess.run(["sh", "-n", "deploy/entrypoint.sh"], cwd=tmp_path, check=True, timeout=30)
    for path in tmp_path.rglob("*.py"):
        compile(path.read_text(encoding="utf-8"), str(path), "exec")


def test_every_alert_is_explained_in_the_guide() -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "monitor-with-prometheus.md"
    text = page.read_text(encoding="utf-8")
    assert [rule["alert"] for rule in RULES if f"| `{rule['alert']}` |" not in text] == []
