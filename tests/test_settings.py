"""Settings: where a value comes from, what is refused, and that refusals say what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.errors import SettingError
from gossamer.settings import BY_NAME, SETTINGS, Setting, Settings, concealed, load


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def settle(given: dict[str, Any] | None = None, environ: dict[str, str] | None = None, toml: str = "") -> Settings:
    if toml:
        Path("gossamer.toml").write_text(toml, encoding="utf-8")
    return load(given, environ or {})


def refusal(given: dict[str, Any] | None = None, environ: dict[str, str] | None = None, toml: str = "") -> str:
    with pytest.raises(SettingError) as caught:
        settle(given, environ, toml)
    return str(caught.value)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_declaration_is_whole(setting: Setting) -> None:
    assert setting.name.startswith("GOSSAMER_")
    assert setting.name == setting.name.upper()
    assert setting.help.endswith(".")
    assert setting.kind(setting.default) == setting.default, "a default is a value of its own kind"
    assert setting.kind(str(setting.default)) == setting.default, "and can be written as text"


def test_names_are_unique() -> None:
    assert len(BY_NAME) == len(SETTINGS)


def test_nothing_said_means_the_defaults() -> None:
    settings = settle()
    assert {setting.name: setting.default for setting in SETTINGS} == settings.values
    assert {settings.source(setting.name) for setting in SETTINGS} == {"default"}


def test_given_beats_environment_beats_file_beats_default() -> None:
    toml = '[gossamer]\ncrawl = "file"\nurl = "redis://file"\nfsync = "always"\n'
    environ = {"GOSSAMER_CRAWL": "environ", "GOSSAMER_URL": "redis://environ"}
    settings = settle({"GOSSAMER_CRAWL": "given"}, environ, toml)
    assert [settings[f"GOSSAMER_{n}"] for n in ("CRAWL", "URL", "FSYNC", "DATA_DIR")] == [
        "given",
        "redis://environ",
        "always",
        ".gossamer",
    ]
    assert [settings.source(f"GOSSAMER_{n}") for n in ("CRAWL", "URL", "FSYNC", "DATA_DIR")] == [
        "settings",
        "environment",
        "gossamer.toml",
        "default",
    ]


def test_the_caller_names_what_it_gives() -> None:
    assert load({"GOSSAMER_CRAWL": "news"}, {}, given_as="command line").source("GOSSAMER_CRAWL") == "command line"


def test_the_process_environment_is_read_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOSSAMER_CRAWL", "news")
    assert load()["GOSSAMER_CRAWL"] == "news"


def test_names_of_others_are_ignored() -> None:
    given: dict[Any, Any] = {"BOT_NAME": "x", 7: "seven"}
    settings = settle(given, {"HOME": "/", "gossamer_url": "redis://lower"}, '[tool]\nurl = "other"\n')
    assert settings["GOSSAMER_URL"] == "embedded:"


def test_an_unknown_name_asked_of_settings_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        settle()["GOSSAMER_NOPE"]
    with pytest.raises(KeyError):
        settle().source("GOSSAMER_NOPE")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("GOSSAMER_TRACEBACK", "Yes", True),
        ("GOSSAMER_TRACEBACK", " off ", False),
        ("GOSSAMER_PARTITIONS", "16", 16),
        ("GOSSAMER_LEASE_SECONDS", "1.5", 1.5),
        ("GOSSAMER_GRACE_SECONDS", "0", 0.0),
    ],
)
def test_text_becomes_a_value(name: str, text: str, value: Any) -> None:
    assert settle(environ={name: text})[name] == value


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("GOSSAMER_PARTITIONS", "many", "expected a whole number"),
        ("GOSSAMER_PARTITIONS", 0, "must be 1 or more"),
        ("GOSSAMER_PARTITIONS", 1.5, "expected a whole number"),
        ("GOSSAMER_PARTITIONS", True, "expected a whole number"),
        ("GOSSAMER_PARTITIONS", None, "expected a whole number"),
        ("GOSSAMER_ITEMS_MAX", -1, "must not be negative"),
        ("GOSSAMER_ITEMS_MAX", float("inf"), "infinity"),
        ("GOSSAMER_ITEMS_MAX", float("nan"), "NaN"),
        ("GOSSAMER_LEASE_SECONDS", "nan", "finite"),
        ("GOSSAMER_LEASE_SECONDS", "inf", "finite"),
        ("GOSSAMER_LEASE_SECONDS", -0.1, "finite"),
        ("GOSSAMER_LEASE_SECONDS", "soon", "expected a number of seconds"),
        ("GOSSAMER_LEASE_SECONDS", 10**400, "too large"),
        ("GOSSAMER_LEASE_SECONDS", True, "expected a number of seconds"),
        ("GOSSAMER_FSYNC", "never", "expected one of always, everysec"),
        ("GOSSAMER_FSYNC", ["always"], "expected one of always, everysec"),
        ("GOSSAMER_SERVER_MEMORY", "much", "expected a share such as 50%"),
        ("GOSSAMER_SERVER_MEMORY", "101%", "expected a share such as 50%"),
        ("GOSSAMER_SERVER_MEMORY", "-1", "expected a share such as 50%"),
        ("GOSSAMER_TRACEBACK", "perhaps", "expected true or false"),
        ("GOSSAMER_URL", "", "must not be empty"),
        ("GOSSAMER_URL", 6379, "expected text"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_with_setting_source_and_remedy(
    name: str, value: Any, reason: str
) -> None:
    said = refusal({name: value})
    assert said.startswith(f"{name} from settings: ")
    assert reason in said
    assert said.endswith(BY_NAME[name].help)


def test_a_bad_value_is_refused_even_where_a_better_source_overrides_it() -> None:
    assert "GOSSAMER_PARTITIONS from environment" in refusal({"GOSSAMER_PARTITIONS": 2}, {"GOSSAMER_PARTITIONS": "x"})


def test_a_misspelt_name_in_the_environment_is_refused_with_the_nearest() -> None:
    said = refusal(environ={"GOSSAMER_LEASE_SECOND": "3"})
    assert said == "GOSSAMER_LEASE_SECOND from environment is not a setting. Did you mean GOSSAMER_LEASE_SECONDS?"
    said = refusal(environ={"GOSSAMER_LEASE": "3"})
    assert said.endswith("Did you mean GOSSAMER_LEASE_SECONDS?"), "what begins as it does, not what is as short"


def test_a_name_like_no_other_is_refused_with_the_list() -> None:
    assert refusal({"GOSSAMER_XYZZYPLUGHQUUXFRED": 1}).endswith("`gossamer settings` lists those that exist.")


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("[gossamer]\npartition = 2\n", "partition from gossamer.toml is not a setting. Did you mean partitions?"),
        ('[gossamer]\nURL = "redis://h"\n', "URL from gossamer.toml is not a setting. Did you mean url?"),
        ('[gossamer]\ngossamer_url = "redis://h"\n', "Did you mean url?"),
        ("[gossamer]\nxyzzy_plugh = 1\n", "`gossamer settings` lists them"),
        ("[gossamer]\npartitions = 'x'\n", "GOSSAMER_PARTITIONS from gossamer.toml: 'x' cannot be used"),
        ("[gossamer\n", "gossamer.toml is not valid TOML"),
        ("gossamer = 3\n", "gossamer must be a table"),
    ],
)
def test_a_fault_in_the_file_names_the_file(toml: str, said: str) -> None:
    assert said in refusal(toml=toml)


def test_a_file_that_is_no_text_is_refused() -> None:
    Path("gossamer.toml").write_bytes(b"\xff\xfe")
    assert "not valid TOML" in refusal()


def test_a_directory_in_the_place_of_the_file_is_refused() -> None:
    Path("gossamer.toml").mkdir()
    assert "cannot be read" in refusal()


def test_a_file_named_by_the_caller_must_exist(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"other\.toml does not exist"):
        load(environ={}, toml=tmp_path / "other.toml")


def test_a_file_named_by_the_caller_is_the_source(tmp_path: Path) -> None:
    path = tmp_path / "other.toml"
    path.write_text('[gossamer]\ncrawl = "news"\n', encoding="utf-8")
    settings = load(environ={}, toml=path)
    assert (settings["GOSSAMER_CRAWL"], settings.source("GOSSAMER_CRAWL")) == ("news", str(path))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://localhost:6379/0", "redis://localhost:6379/0"),
        ("redis://ann:hush@h:1/0", "redis://***@h:1/0"),
        ("redis://:hu@s/h@h", "redis://***@h"),
        ("redis+sentinel://a,b/main?password=hush&db=1", "redis+sentinel://a,b/main?password=***&db=1"),
        ("unix:///run/v.sock?sentinel_password=hush", "unix:///run/v.sock?sentinel_password=***"),
        (5, 5),
    ],
)
def test_secrets_are_concealed(url: Any, shown: Any) -> None:
    assert concealed(url) == shown


@given(secret=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=6))
def test_a_password_never_survives_concealment(secret: str) -> None:
    assert concealed(f"rediss://ann:{secret}@host:6379/0") == "rediss://***@host:6379/0"


def test_a_refusal_conceals_the_secret() -> None:
    said = refusal({"GOSSAMER_PARTITIONS": "redis://ann:hush@host"})
    assert "hush" not in said


def test_the_file_is_found_from_inside_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = tmp_path / "project" / "shop" / "spiders"
    inside.mkdir(parents=True)
    (tmp_path / "gossamer.toml").write_text('[gossamer]\ncrawl = "outside"\n')
    file = tmp_path / "project" / "gossamer.toml"
    file.write_text('[gossamer]\ncrawl = "beside"\ndata_dir = "data"\n')
    monkeypatch.chdir(inside)
    assert load(environ={})["GOSSAMER_CRAWL"] == "main", "no project, no file of it"
    (tmp_path / "project" / "scrapy.cfg").touch()
    found = load(environ={})
    assert (found["GOSSAMER_CRAWL"], found.source("GOSSAMER_CRAWL")) == ("beside", str(file))
    assert found["GOSSAMER_DATA_DIR"] == str(file.parent / "data")
    Path("gossamer.toml").write_text('[gossamer]\ncrawl = "here"\n')
    assert load(environ={})["GOSSAMER_CRAWL"] == "here"
