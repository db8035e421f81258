"""A value comes back as it was stored, or is refused with its column and the reason."""

from __future__ import annotations

import json
import math
import sqlite3
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.store.conftest import Sql
from tests.support.servers.databases import MariaDBServer

from gossamer.errors import StoreRefused
from gossamer.store import TYPES, Column, Row, Store, Table
from gossamer.store.database.sqlite import Sqlite

WHOLE = Table("kinds", (Column("id", "int"), *(Column(f"c_{kind}", kind) for kind in TYPES)), ("id",))

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=9), inner, max_size=4
        )
    ),
    max_leaves=8,
)
ZONES = st.none() | st.builds(lambda minutes: timezone(timedelta(minutes=minutes)), st.integers(-1439, 1439))
STRATEGIES: dict[str, st.SearchStrategy[Any]] = {
    "text": TEXT,
    "int": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(allow_nan=False),
    "decimal": st.decimals(allow_nan=False, allow_infinity=False) | st.decimals(-(10**34), 10**34, places=30),
    "bool": st.booleans(),
    "date": st.dates(),
    "datetime": st.datetimes(timezones=ZONES),
    "json": JSON,
    "bytes": st.binary(max_size=60),
}


def expected(kind: str, value: Any) -> Any:
    if kind == "datetime":
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return value


def must_be_refused(database: str, kind: str, value: Any) -> bool:
    """What each database cannot hold, said here once more in other words."""
    if kind == "text":
        return database == "postgresql" and "\0" in value
    if kind == "float":
        return database == "mysql" and math.isinf(value)
    if kind == "datetime" and value.tzinfo is not None:
        return not datetime.min <= value.replace(tzinfo=None) - (value.utcoffset() or timedelta()) <= datetime.max
    if kind == "decimal" and value:
        plain = f"{value:f}" if abs(value.adjusted()) < 200_000 else ""
        whole, _, fraction = plain.lstrip("-").partition(".")
        digits = (len(whole.lstrip("0")), len(fraction.rstrip("0")))
        if database == "mysql":
            return not plain or digits[0] > 35 or digits[1] > 30
        if database == "postgresql":
            return not plain or digits[0] > 131_072 or digits[1] > 16_383
    return False


def overflows(value: Any) -> bool:
    try:
        expected("datetime", value)
    except OverflowError:
        return True
    return False


@pytest.mark.parametrize("column", TYPES)
def test_values_come_back_as_they_were(store: Store, kind: str, column: str) -> None:
    store.prepare([WHOLE])

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(STRATEGIES[column], min_size=1, max_size=40))
    def check(values: list[Any]) -> None:
        rows = []
        for number, value in enumerate(values):
            refused = overflows(value) if column == "datetime" else must_be_refused(kind, column, value)
            row = Row("kinds", {"id": number, f"c_{column}": value})
            if refused:
                with pytest.raises(StoreRefused, match=f"column c_{column}: "):
                    store.place([row])
            else:
                rows.append((number, value, row))
        store.write([row for _, _, row in rows])
        stored = {row["id"]: row[f"c_{column}"] for row in store.read("kinds")}
        for number, value, _ in rows:
            wanted = expected(column, value)
            assert stored[number] == wanted
            assert column == "json" or type(stored[number]) is type(wanted)

    check()


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("text", 5, "text is wanted, int was given"),
        ("text", "a\ud800", "half of a surrogate pair at 1"),
        ("int", 2**63, "does not fit into 64 bits"),
        ("int", -(2**63) - 1, "does not fit into 64 bits"),
        ("int", True, "a whole number is wanted, bool was given"),
        ("int", 1.0, "a whole number is wanted, float was given"),
        ("float", math.nan, "NaN is not a number"),
        ("float", 10**400, "too large for a float"),
        ("float", "1", "a number is wanted"),
        ("decimal", Decimal("NaN"), "NaN is not a number that a decimal column takes"),
        ("decimal", Decimal("-Infinity"), "-Infinity is not a number"),
        ("decimal", 1.5, "a decimal is wanted, float was given"),
        ("bool", 1, "true or false is wanted, int was given"),
        ("date", datetime(2020, 1, 1), "a date is wanted, datetime was given"),
        ("datetime", date(2020, 1, 1), "a datetime is wanted, date was given"),
        ("datetime", datetime.min.replace(tzinfo=timezone(timedelta(hours=1))), "in UTC the datetime is before"),
        ("bytes", "x", "bytes is wanted, str was given"),
        ("json", {"a": math.inf}, "not JSON compliant"),
        ("json", {"a": object()}, "object is not a value that JSON has"),
        ("json", "\udc00", "half of a surrogate pair"),
        ("json", {("a", "b"): 1}, "keys must be str"),
    ],
)
def test_what_no_database_takes_is_refused_by_all(column: str, value: Any, said: str, tmp_path: object) -> None:
    with Store.open(f"sqlite:///{tmp_path}/x.db") as store:
        store.prepare([WHOLE])
        with pytest.raises(StoreRefused) as caught:
            store.write([Row("kinds", {"id": 1, f"c_{column}": value})])
    assert str(caught.value).startswith(f"Table kinds, column c_{column}: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


NOT_EVERYWHERE: list[tuple[str, Any, dict[str, str]]] = [
    # What is refused, by database, with a part of the reason; elsewhere it comes back.
    ("text", "a\0b", {"postgresql": "no NUL character in text"}),
    ("text", "😀𝄞", {}),
    ("json", ["a\0b"], {"postgresql": "no NUL character in JSON"}),
    ("json", ["\\u0000"], {}),
    ("json", {'e+"5e+20"': [6.369571190435973e16, -1e300, 1e16, "1e+16", 2**60]}, {}),
    ("json", {"n": 2**70}, {"mysql": "does not fit into 64 bits"}),
    ("float", math.inf, {"mysql": "no infinite numbers"}),
    ("float", -math.inf, {"mysql": "no infinite numbers"}),
    ("float", 5e-324, {}),
    ("float", 1.7976931348623157e308, {}),
    ("decimal", Decimal(10) ** 34, {}),
    ("decimal", Decimal("9" * 36), {"mysql": "more than 35 digits before the point"}),
    ("decimal", Decimal("1E-30"), {}),
    ("decimal", Decimal("1E-31"), {"mysql": "30 behind it"}),
    ("decimal", Decimal("0E-40"), {}),
    ("decimal", Decimal("1E-16384"), {"mysql": "30 behind", "postgresql": "16383 behind it"}),
    ("decimal", Decimal("1E+131072"), {"mysql": "35 digits", "postgresql": "more than 131072 digits"}),
    ("date", date.min, {}),
    ("date", date.max, {}),
    ("datetime", datetime.min, {}),
    ("datetime", datetime.max, {}),
    ("bytes", bytes(range(256)) * 10, {}),
    ("text", "x" * 2_000_000, {}),
]


def test_what_some_databases_do_not_take_is_refused_there_and_kept_elsewhere(store: Store, kind: str) -> None:
    store.prepare([WHOLE])
    for number, (column, value, refusals) in enumerate(NOT_EVERYWHERE):
        row = Row("kinds", {"id": number, f"c_{column}": value})
        if kind in refusals:
            with pytest.raises(StoreRefused, match=f"column c_{column}: .*{refusals[kind]}"):
                store.write([row])
        else:
            store.write([row])
    stored = {row["id"]: row for row in store.read("kinds")}
    for number, (column, value, refusals) in enumerate(NOT_EVERYWHERE):
        if kind in refusals:
            assert number not in stored
        else:
            assert stored[number][f"c_{column}"] == expected(column, value)


def test_json_takes_what_fields_hold(store: Store) -> None:
    store.prepare([WHOLE])
    value = {
        "when": datetime(2020, 1, 2, 3, tzinfo=UTC),
        "day": date(2020, 1, 2),
        "price": Decimal("1.10"),
        "raw": b"\xff",
        "pair": (1, 2),
        "set": {2, 1},
    }
    store.write([Row("kinds", {"id": 1, "c_json": value}), Row("kinds", {"id": 2, "c_json": None})])
    assert [row["c_json"] for row in store.read("kinds")] == [
        {
            "when": "2020-01-02T03:00:00+00:00",
            "day": "2020-01-02",
            "price": "1.10",
            "raw": "/w==",
            "pair": [1, 2],
            "set": [1, 2],
        },
        None,
    ]


def test_each_type_can_be_used_in_sql(store: Store, sql: Sql, kind: str) -> None:
    store.prepare([WHOLE])
    moment = datetime(2024, 5, 6, 7, 8, 9, tzinfo=timezone(timedelta(hours=2)))
    values = {
        "c_decimal": Decimal("2.50"),
        "c_bool": True,
        "c_date": moment.date(),
        "c_datetime": moment,
        "c_json": {"a": 7},
    }
    store.write([Row("kinds", {"id": 1, **values}), Row("kinds", {"id": 2, "c_decimal": Decimal("0.25")})])
    assert float(sql("SELECT sum(c_decimal) FROM kinds")[0][0]) == 2.75
    assert sql("SELECT id FROM kinds WHERE c_bool") == [(1,)]
    assert sql("SELECT id FROM kinds WHERE c_datetime > '2024-05-06 05:08:08' AND c_date = '2024-05-06'") == [(1,)]
    member = {"postgresql": "c_json->>'a'", "mysql": "JSON_VALUE(c_json, '$.a')", "sqlite": "c_json->>'a'"}
    assert str(sql(f"SELECT {member[kind]} FROM kinds WHERE id = 1")[0][0]) == "7"


@pytest.mark.parametrize("kind", ["mysql"], indirect=True)
def test_an_existing_table_in_an_old_charset_refuses_what_it_cannot_hold(store: Store, sql: Sql) -> None:
    sql("CREATE TABLE old (id INT PRIMARY KEY, name VARCHAR(5)) CHARSET utf8mb3")
    store.prepare([Table("old", (Column("id", "int"), Column("name", "text")), ("id",), existing=True)])
    store.write([Row("old", {"id": 1, "name": "größe"})])
    for name in ("😀", "too long"):
        with pytest.raises(StoreRefused, match="name"):
            store.write([Row("old", {"id": 1, "name": name})])
    with pytest.raises(StoreRefused, match="id"):
        store.write([Row("old", {"id": 2**40})])
    assert sql("SELECT name FROM old") == [("größe",)]


def test_a_row_larger_than_the_servers_packet_is_refused_not_taken_for_an_outage() -> None:
    with MariaDBServer().start("--max-allowed-packet=1M") as server, Store.open(server.url()) as store:
        store.prepare([WHOLE])
        store.write([Row("kinds", {"id": 1, "c_text": "x" * 900_000})])
        store.write([Row("kinds", {"id": n, "c_text": "x" * 400_000}) for n in range(2, 6)])
        store.write([Row("kinds", {"id": 6, "c_bytes": b"'" * 450_000})])
        for value in ("x" * 2_000_000, "'" * 900_000, "😀" * 300_000):
            with pytest.raises(StoreRefused, match="max_allowed_packet"):
                store.write([Row("kinds", {"id": 9, "c_text": value})])
        assert [row["id"] for row in store.read("kinds")] == [1, 2, 3, 4, 5, 6]


def test_sqlite_keeps_every_type_in_its_own_words(tmp_path: object) -> None:
    """A look into the file without the store: nothing was bent by an affinity."""
    with Store.open(f"sqlite:///{tmp_path}/x.db") as store:
        store.prepare([WHOLE])
        store.write([Row("kinds", {"id": 1, "c_text": "12", "c_decimal": Decimal("1.10"), "c_json": 5, "c_float": 3})])
    connection = sqlite3.connect(f"{tmp_path}/x.db")
    found = connection.execute("SELECT c_text, c_decimal, c_json, c_float FROM kinds").fetchone()
    connection.close()
    assert found == ("12", "1.10", json.dumps(5), 3.0)
    assert set(Sqlite.types) == set(TYPES)


EQUAL = Table("equal", (Column("id", "text"), Column("number", "decimal"), Column("data", "json")), ("id",))


@pytest.mark.parametrize("number", ["12.50", "0.00", "-0.00", "1E+5", "1.0E+3", "1E-7", "7", "100", "-5.10"])
def test_a_value_is_written_alike_whether_it_was_given_or_came_back(store: Store, number: str) -> None:
    given = {"number": Decimal(number), "data": {"z": [{"b": 1, "aa": -0.0}], "long": None, "b": number}}
    store.prepare([EQUAL])
    store.write([Row("equal", {"id": "1", **given})])
    (found,) = store.with_key(EQUAL, {"id": "1"})
    kinds = {"number": "decimal", "data": "json"}
    back = {name: store.as_read(kind, found[name]) for name, kind in kinds.items()}
    first = {name: store.as_read(kind, given[name]) for name, kind in kinds.items()}
    assert (str(back["number"]), json.dumps(back["data"])) == (str(first["number"]), json.dumps(first["data"]))
    assert back == given


def test_what_a_database_refuses_is_not_written_out(store: Store) -> None:
    assert store.as_read("decimal", Decimal("NaN")).is_nan()
    assert store.as_read("decimal", None) is None
    assert store.as_read("decimal", Decimal("1E+99999999999")) == Decimal("1E+99999999999")
