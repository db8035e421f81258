"""What a site file may do: by where it comes from, and by what the settings allow."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gossamer.errors import MissingVariable
from gossamer.settings import load
from gossamer.sites.check.grant import check_grant
from gossamer.sites.check.hooks import check_hooks
from gossamer.sites.compile import compile_site
from gossamer.sites.file.functions import NotAllowed, function
from gossamer.sites.file.grant import Grant, grant_of
from gossamer.sites.file.load import load_text, survey_text

SITE = "site: s\nseeds: [http://s.example/]\nlayers: {p: {}}\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project's folder, which is the working directory; what was imported from there is forgotten."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(tmp_path / "libraries"))
    before, path = set(sys.modules), list(sys.path)
    yield folder
    sys.path[:] = path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def granted(*, local: bool, **settings: Any) -> Grant:
    return grant_of(load(settings, environ={}), local=local)


def said(text: str, grant: Grant, environment: dict[str, str] | None = None, hooks: bool = False) -> list[str]:
    [loaded] = survey_text(SITE + text, "f.yaml").sites
    found = check_grant(loaded.site, loaded.spot, grant, environment or {})
    return [str(one) for one in found or (check_hooks(loaded.site, loaded.spot, grant) if hooks else [])]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


class TestFunctions:
    def test_a_pushed_file_names_none_by_default(self, project: Path) -> None:
        write(project / "shop_hooks.py", "def run(*args): ...\n")
        for entry in ("subprocess:call", "os:system", "shop_hooks:run", "gossamer.testing.process:spawn"):
            [problem] = said(f"hooks: {{after_round: '{entry}'}}\n", granted(local=False))
            assert problem.startswith("f.yaml:4:22: hooks.after_round: ")
            assert "GOSSAMER_ALLOWED_MODULES=" in problem
        assert "shop_hooks" not in sys.modules

    def test_handlers_and_hooks_of_layers_are_no_way_round_it(self, project: Path) -> None:
        text = (
            "site: s\nseeds: [http://s.example/]\n"
            "layers: {p: {handler: 'subprocess:call', hooks: {on_fail: 'subprocess:call'}}}\n"
        )
        [loaded] = survey_text(text, "f.yaml").sites
        places = {problem.path for problem in check_grant(loaded.site, loaded.spot, granted(local=False))}
        assert places == {"layers.p.handler", "layers.p.hooks.on_fail"}

    def test_a_local_file_names_those_of_its_own_folder(self, project: Path) -> None:
        write(project / "shop" / "hooks.py", "def run(*args): ...\n")
        assert said("hooks: {after_round: 'shop.hooks:run'}\n", granted(local=True), hooks=True) == []
        [problem] = said("hooks: {after_round: 'subprocess:call'}\n", granted(local=True))
        assert "subprocess does not lie in the project's folder" in problem

    def test_the_folder_of_a_scrapy_project_is_where_its_scrapy_cfg_is(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(project / "scrapy.cfg", "")
        write(project / "sites" / "a.yaml", SITE)
        monkeypatch.chdir(project / "sites")
        assert granted(local=True).folder == project

    def test_the_root_of_the_file_system_is_nobodys_project(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir("/")
        assert granted(local=True).folder is None

    def test_a_module_that_was_only_imported_there_is_not_lent_out(self, project: Path) -> None:
        write(
            project / "shop_hooks.py",
            "from functools import partial\nfrom os import system\nfrom subprocess import call\n"
            "bound = partial(call)\nalso = system\ncall_of = [].append\n",
        )
        for name in ("call", "system", "bound", "also", "call_of"):
            [problem] = said(f"hooks: {{after_round: 'shop_hooks:{name}'}}\n", granted(local=True), hooks=True)
            assert f"{name} of shop_hooks is defined in " in problem, name
            assert problem.startswith("f.yaml:4:22: hooks.after_round: ")

    def test_an_attribute_of_a_module_cannot_be_reached_through_another(self, project: Path) -> None:
        write(project / "shop_hooks.py", "import subprocess\n")
        assert "module:function" in str(survey_text(SITE + "hooks: {after_round: 'shop_hooks:subprocess.call'}\n"))
        with pytest.raises(ModuleNotFoundError):
            function("shop_hooks.subprocess:call", granted(local=True))

    def test_a_link_in_the_folder_leads_out_of_it(self, project: Path, tmp_path: Path) -> None:
        write(tmp_path / "elsewhere" / "linked_hooks.py", "raise SystemExit\n")
        (project / "linked_hooks.py").symlink_to(tmp_path / "elsewhere" / "linked_hooks.py")
        [problem] = said("hooks: {after_round: 'linked_hooks:run'}\n", granted(local=True))
        assert "does not lie in the project's folder" in problem

    def test_libraries_in_the_folder_are_not_the_projects(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        library = project / ".venv" / "lib" / "python3" / "site-packages"
        write(library / "some_library.py", "raise SystemExit\n")
        monkeypatch.syspath_prepend(str(library))
        assert said("hooks: {after_round: 'some_library:run'}\n", granted(local=True)) != []

    def test_no_package_on_the_way_is_imported_before_it_is_allowed(self, project: Path, tmp_path: Path) -> None:
        write(tmp_path / "libraries" / "far" / "__init__.py", "raise SystemExit\n")
        write(tmp_path / "libraries" / "far" / "hooks.py", "def run(): ...\n")
        with pytest.raises(NotAllowed):
            function("far.hooks:run", granted(local=True))
        write(project / "near" / "__init__.py", f"__path__.append({str(tmp_path / 'libraries')!r})\n")
        with pytest.raises(NotAllowed):
            function("near.far:run", granted(local=True))

    def test_a_package_with_several_places_must_have_all_in_the_folder(self, project: Path, tmp_path: Path) -> None:
        write(project / "split" / "ours.py", "def run(): ...\n")
        write(tmp_path / "libraries" / "split" / "theirs.py", "def run(): ...\n")
        with pytest.raises(NotAllowed):
            function("split.theirs:run", granted(local=True))

    def test_what_the_settings_name_is_allowed_with_all_below_it(self, project: Path, tmp_path: Path) -> None:
        write(tmp_path / "libraries" / "far" / "__init__.py", "def top(): ...\n")
        write(tmp_path / "libraries" / "far" / "hooks.py", "def run(): ...\nfrom far.other import other\n")
        write(tmp_path / "libraries" / "far" / "other.py", "def other(): ...\n")
        assert callable(function("far.hooks:run", granted(local=False, GOSSAMER_ALLOWED_MODULES="far")))
        only = granted(local=False, GOSSAMER_ALLOWED_MODULES="far.hooks")
        assert callable(function("far.hooks:run", only))
        for entry in ("far:top", "far.other:other", "far.hooks:other", "farther:run"):
            with pytest.raises(NotAllowed):
                function(entry, only)

    def test_a_dot_allows_the_workers_own_folder_to_pushed_files(self, project: Path) -> None:
        write(project / "shop_hooks.py", "def run(*args): ...\n")
        grant = granted(local=False, GOSSAMER_ALLOWED_MODULES=".")
        assert callable(function("shop_hooks:run", grant))
        with pytest.raises(NotAllowed):
            function("subprocess:call", grant)

    @pytest.mark.parametrize("entry", ["__main__:run", "builtins:exec", "sys:exit", "gossamer.testing.process:spawn"])
    def test_what_has_no_file_in_the_folder_is_not_in_it(self, project: Path, entry: str) -> None:
        with pytest.raises(NotAllowed):
            function(entry, granted(local=True))


class TestVariables:
    def test_no_site_file_reads_our_own_settings(self) -> None:
        for name in ("GOSSAMER_URL", "gossamer_url"):
            text = SITE + f"request: {{headers: {{X: '${{{name}}}'}}}}\n"
            [problem] = [str(one) for one in survey_text(text, "f.yaml").problems]
            assert problem.startswith(f"f.yaml:4:24: request.headers.X: {name} is a setting of Gossamer")

    def test_nor_do_they_when_nobody_has_checked_it(self) -> None:
        [site] = load_text(SITE)
        site = site.model_copy(update={"database": "${GOSSAMER_URL}"})
        for grant in (None, granted(local=True)):
            with pytest.raises(MissingVariable):
                compile_site(site, environment={"GOSSAMER_URL": "secret"}, grant=grant)

    def test_a_pushed_file_reads_those_that_are_for_sites(self) -> None:
        text = "request: {headers: {X: '${SITE_KEY}', Y: '${AWS_SECRET_ACCESS_KEY}'}}\n"
        [problem] = said(text, granted(local=False))
        assert problem.startswith("f.yaml:4:42: request.headers.Y: AWS_SECRET_ACCESS_KEY is not a variable")
        assert "GOSSAMER_SITE_VARIABLES=SITE_*,AWS_SECRET_ACCESS_KEY" in problem
        assert said(text, granted(local=True)) == []
        assert said(text, granted(local=False, GOSSAMER_SITE_VARIABLES="SITE_KEY,AWS_*")) == []

    def test_what_may_not_be_read_is_not_there_either(self) -> None:
        environment = {"SITE_KEY": "a", "HOME": "b", "GOSSAMER_URL": "c"}
        assert granted(local=False).environment(environment) == {"SITE_KEY": "a"}
        assert granted(local=True).environment(environment) == {"SITE_KEY": "a", "HOME": "b"}


class TestPaths:
    @pytest.mark.parametrize(
        ("text", "place"),
        [
            ("archive_pages: /etc/cron.d\n", "archive_pages"),
            ("archive_pages: DATA/../outside\n", "archive_pages"),
            ("archive_pages: DATA/link/below\n", "archive_pages"),
            ("archive_pages: ~/pages\n", "archive_pages"),
            ("database: sqlite:////etc/x.db\n", "database"),
            ("database: sqlite:///x.db\n", "database"),
            ("database: sqlite:///DATA/../x.db\n", "database"),
            ("database: sqlite+pysqlite:///DATA/../x.db\n", "database"),
            ("database: sqlite:///DATA/dump.rdb\n", "database"),
            ("database: 'sqlite:///DATA/x.db?uri=true'\n", "database"),
            ("database: 'sqlite:///${SITE_DIR}/x.db'\n", "database"),
            ("database: postgresql:///records\n", "database"),
            ("database: 'postgresql://u@h/d?sslkey=/keys/key'\n", "database"),
            ("database: 'mysql://u@h/d?local_infile=1'\n", "database"),
            ("database: 'mysql://u@h/d#?local_infile=1'\n", "database"),
            ("database: 'postgresql://u@h/d#?passfile=/x'\n", "database"),
            ('database: "postgresql://u@h/d\\t"\n', "database"),
            ("database: 'postgresql://u@rogue/d'\n", "database"),
            ("database: 'postgresql://u@h,rogue/d'\n", "database"),
            ("database: 'postgresql://u@h@rogue/d'\n", "database"),
            ("database: 'postgresql://u@[::1]/d'\n", "database"),
            ("database: 'postgresql://h/d'\n", "database"),
            ("database: 'postgresql://u@h/dbname=d host=rogue'\n", "database"),
            ("database: 'postgresql://u@h/host=rogue'\n", "database"),
            ("database: 'postgresql://u@h/d?charset=a&charset=b'\n", "database"),
            ("database: 'sqlite://host/DATA/x.db'\n", "database"),
            ("proxies: {a: {file: /etc/passwd}}\nrequest: {proxy: a}\n", "proxies.a.file"),
            ("request: {verify: /etc/shadow}\n", "request.verify"),
        ],
    )
    def test_a_pushed_file_names_none_outside_the_data_directory(self, tmp_path: Path, text: str, place: str) -> None:
        data = tmp_path / "data"
        data.mkdir()
        (data / "link").symlink_to(tmp_path)
        text = text.replace("DATA", str(data))
        environment = {"SITE_DIR": "/tmp"}
        grant = granted(local=False, GOSSAMER_DATA_DIR=str(data), GOSSAMER_STORE_URL="mysql://me@H:3306/records")
        [problem] = said(text, grant, environment)
        assert f" {place}: " in problem
        assert "f.yaml:4:" in problem
        assert said(text, granted(local=True, GOSSAMER_DATA_DIR=str(data)), environment) == []

    @pytest.mark.parametrize(
        "text",
        [
            "archive_pages: DATA/pages\n",
            "database: sqlite:///DATA/x.db\n",
            "database: ${SITE_RECORDS}\n",
            "database: 'postgresql://u:${SITE_PASSWORD}@h/d?sslmode=require'\n",
            "proxies: {a: {file: MORE/list}}\nrequest: {proxy: a, verify: MORE/ca.pem}\n",
        ],
    )
    def test_it_names_those_below_it_and_those_that_are_allowed(self, tmp_path: Path, text: str) -> None:
        more = tmp_path / "more"
        grant = granted(
            local=False,
            GOSSAMER_DATA_DIR=str(tmp_path / "data"),
            GOSSAMER_SITE_PATHS=str(more),
            GOSSAMER_SITE_DATABASES="h",
        )
        environment = {"SITE_RECORDS": "sqlite:////anywhere/x.db", "SITE_PASSWORD": "p"}
        text = text.replace("DATA", str(tmp_path / "data")).replace("MORE", str(more))
        assert said(text, grant, environment) == []
