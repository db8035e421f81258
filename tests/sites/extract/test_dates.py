"""Dates as people write them: several formats, month names, words that count from the time of fetching."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.sites.extract.small_site import read

from gossamer.sites.file.load import survey_text

NOON = datetime(2024, 5, 17, 12, 30, 15, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")


def found(rule: str, text: str) -> tuple[Any, tuple[str, ...]]:
    reading = read(f"fields: {{d: {{css: b, {rule}}}}}", f"<b>{text}</b>", fetched=NOON.timestamp())
    (record,) = reading.records
    return record.fields["d"], reading.notes


@pytest.mark.parametrize(
    ("rule", "text", "value"),
    [
        ("type: date, format: ['%d.%m.%Y', '%m/%d/%y']", "17.05.2024", date(2024, 5, 17)),
        ("type: date, format: ['%d.%m.%Y', '%m/%d/%y']", "05/17/24", date(2024, 5, 17)),
        ("type: date, languages: de", "17. Mai 2024", date(2024, 5, 17)),
        ("type: date, languages: [en, fr]", "3 février 2024", date(2024, 2, 3)),
        ("type: date, languages: en", "December 24", date(2023, 12, 24)),
        ("type: date, languages: en", "05/06/2024", date(2024, 5, 6)),
        ("type: date, languages: en-GB", "05/06/2024", date(2024, 6, 5)),
        ("type: date, languages: en, order: dmy", "05/06/2024", date(2024, 6, 5)),
        ("type: date, languages: en, order: dmy", "13/03/2024", date(2024, 3, 13)),
        ("type: date, languages: en, order: dmy", "03/05", date(2024, 5, 3)),
        ("type: date, languages: en, order: dmy", "on 13.03.24, 18:30", date(2024, 3, 13)),
        ("type: date, languages: en", "03/13/2024", date(2024, 3, 13)),
        ("type: date, languages: [de, en], order: mdy", "3-5-2024", date(2024, 3, 5)),
        ("type: date, languages: en", "2024/03/05", date(2024, 3, 5)),
        ("type: date, languages: sv", "2024-03-05 10.30", date(2024, 3, 5)),
        ("type: date, languages: de, format: '%d %B %y'", "17 Mai 24", date(2024, 5, 17)),
        ("type: date, languages: de, format: '%d %B %y'", "17 Dezember 24", date(2024, 12, 17)),
        ("type: datetime, languages: en-GB", "17/05/24 10:30", datetime(2024, 5, 17, 10, 30)),
        ("type: date, languages: en-GB", "18/05/24", date(2024, 5, 18)),
        ("type: date, languages: en-GB", "18/05/24 10:30 +0200", date(2024, 5, 18)),
        ("type: date, languages: en", "80 years ago", date(1944, 5, 17)),
        ("type: date, languages: en", "Dec 11, 68", date(2068, 12, 11)),
        ("type: date, languages: en", "Dec 11, 69", date(1969, 12, 11)),
        ("type: date, languages: en", "Dec 11, 1924", date(1924, 12, 11)),
        ("type: date, languages: en, format: '%d/%m/%Y'", "05/06/2024, 10:00", date(2024, 6, 5)),
        ("type: date, languages: en, format: ['%Y-%m-%d', '%d.%m.']", "05/06/24", date(2024, 6, 5)),
        ("type: date, languages: en, format: '%d/%m/%Y', order: mdy", "05/06/2024, 10:00", date(2024, 5, 6)),
        ("type: date, languages: de, format: '%y/%m/%d'", "24/06/05, 10:00", date(2024, 6, 5)),
        ("type: datetime, languages: en", "3 hours ago", NOON - timedelta(hours=3)),
        ("type: datetime, languages: en", "2 months ago", NOON.replace(month=3)),
        ("type: datetime, languages: en", "May 17, 2024 3:15 pm", datetime(2024, 5, 17, 15, 15)),
        ("type: datetime, languages: en", "May 17, 2024 3:15 pm +0200", datetime(2024, 5, 17, 15, 15, tzinfo=timezone(timedelta(hours=2)))),
        ("type: datetime, languages: en", "2024-05-17T10:00:00Z", datetime(2024, 5, 17, 10, tzinfo=UTC)),
        ("type: datetime, languages: en, tz: Europe/Berlin", "17 May 2024 10:00", datetime(2024, 5, 17, 10, tzinfo=BERLIN)),
        ("type: datetime, languages: de, tz: Europe/Berlin", "gestern, 18:30", datetime(2024, 5, 16, 18, 30, tzinfo=BERLIN)),
        ("type: datetime, languages: de, tz: Europe/Berlin", "vor 20 Minuten", datetime(2024, 5, 17, 14, 10, 15, tzinfo=BERLIN)),
        ("type: datetime, languages: zh, tz: Asia/Shanghai", "5分钟前", NOON - timedelta(minutes=5)),
        # Without a year: the last one that was, which may be today, or tomorrow where the page's clock is that of another place.
        ("type: datetime, languages: en, tz: Europe/Berlin", "May 17, 14:20", datetime(2024, 5, 17, 14, 20, tzinfo=BERLIN)),
        ("type: datetime, languages: en, tz: Europe/Berlin", "May 17, 23:50", datetime(2023, 5, 17, 23, 50, tzinfo=BERLIN)),
        ("type: datetime, languages: en, tz: Europe/Berlin", "May 17, 2023 10:00", datetime(2023, 5, 17, 10, tzinfo=BERLIN)),
        ("type: datetime, languages: en", "18 May 01:00", datetime(2024, 5, 18, 1)),
        ("type: datetime, languages: en", "18 May 10:00", datetime(2023, 5, 18, 10)),
        ("type: datetime, format: '%m-%d %H:%M', tz: Europe/Berlin", "05-17 10:00", datetime(2024, 5, 17, 10, tzinfo=BERLIN)),
        ("type: datetime, format: '%m-%d %H:%M'", "12-31 23:59", datetime(2023, 12, 31, 23, 59)),
        ("type: date, format: ['%d.%m.%Y', '%d %b']", "29 Feb", date(2024, 2, 29)),
        ("type: date, format: '%d.%m.'", "18.05.", date(2024, 5, 18)),
        ("type: date, format: '%d.%m.'", "19.05.", date(2023, 5, 19)),
    ],
)  # fmt: skip
def test_dates_in_words_and_in_several_formats(rule: str, text: str, value: Any) -> None:
    got, notes = found(rule, text)
    assert (got, notes) == (value, ())
    if isinstance(value, datetime):
        assert got.utcoffset() == (
            value.utcoffset() if got.tzinfo is not ZoneInfo("Asia/Shanghai") else timedelta(hours=8)
        )


def test_a_time_that_is_not_understood_is_not_left_out() -> None:
    assert found("type: datetime, languages: de", "gestern, 18.30")[0] is None


@pytest.mark.parametrize("text", ["1,200 minutes ago", "1 000 days ago", "1.000 days ago", "12,000 hours ago"])
def test_a_number_in_groups_is_not_taken_for_a_smaller_one(text: str) -> None:
    assert found("type: datetime, languages: en", text)[0] is None


@pytest.mark.parametrize("text", ["12", "a", "May 2024", "soon", "hello world", "x" * 200])
def test_what_is_no_date_is_null_and_noted(text: str) -> None:
    value, notes = found("type: date, languages: en", text)
    assert value is None
    assert len(notes) == 1
    assert notes[0].endswith("is not a date in the words of en")
    assert found("type: date, format: ['%d.%m.%Y', '%Y']", "17 May")[1][0].endswith(
        "is not a date as '%d.%m.%Y' nor '%Y'"
    )


@pytest.mark.parametrize(
    ("rule", "text"),
    [("en", "13/03/2024"), ("en", "13/03"), ("[en, de]", "13.03.2024"), ("en, order: dmy", "03/13/2024"), ("sv", "13/03/2024")],
)  # fmt: skip
def test_one_field_has_one_order_of_day_and_month(rule: str, text: str) -> None:
    """02/03 would be taken for the second month beside 13/03 for the third: a wrong date is worse than none."""
    value, (note,) = found(f"type: date, languages: {rule}", text)
    assert value is None
    assert note.endswith("(`order`)")


@pytest.mark.parametrize(
    ("now", "text", "hour"),
    [
        ("2024-03-31T03:00", "3 hours ago", "2024-03-31T00:00"),
        ("2024-10-27T03:00", "2 hours ago", "2024-10-27T01:00"),
        ("2024-03-31T03:00", "1 day ago", "2024-03-30T04:00"),
        ("2024-10-27T03:00", "yesterday 02:30", "2024-10-26T00:30"),
        ("2024-05-16T22:05", "10 minutes ago", "2024-05-16T21:55"),
        ("2024-05-16T22:05", "yesterday 23:10", "2024-05-16T21:10"),
    ],
)
def test_hours_are_hours_on_the_day_that_the_clock_is_changed(now: str, text: str, hour: str) -> None:
    """All in UTC, of a page in Berlin."""
    moment = datetime.fromisoformat(now).replace(tzinfo=UTC).timestamp()
    rule = "fields: {d: {css: b, type: datetime, languages: en, tz: Europe/Berlin}}"
    (record,) = read(rule, f"<b>{text}</b>", fetched=moment).records
    assert record.fields["d"].astimezone(UTC).isoformat()[:16] == hour


def test_a_day_that_begins_elsewhere_is_that_of_the_zone() -> None:
    reading = read(
        "fields: {d: {css: b, type: date, languages: en, tz: Asia/Tokyo}}", "<b>today</b>",
        fetched=datetime(2024, 5, 17, 20, tzinfo=UTC).timestamp(),
    )  # fmt: skip
    assert reading.records[0].fields["d"] == date(2024, 5, 18)


def test_the_library_is_loaded_only_for_a_field_that_names_a_language() -> None:
    code = (
        "import sys\nfrom gossamer.sites.file.load import load_text\nfrom gossamer.sites.compile import compile_site\n"
        "from gossamer.model.page import Response\n"
        "(site,) = load_text(\"site: s\\nseeds: http://s.example/\\nlayers: {a: {fields: {d: {css: b, type: date, format: ['%d.%m.%Y', '%Y']}}}}\")\n"
        "compile_site(site).read('a', Response('http://s.example/', 200, {}, b'<b>17.05.2024'))\n"
        "print('dateparser' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("type: date, languages: [en, deu]", "fields.d.languages[1]: there is no language deu (did you mean "),
        ("type: date, order: dmy", "warning: layers.a.fields.d.order: order has no effect without languages"),
        ("type: date, languages: en, order: dym", "order"),
        ("type: int, languages: en", "warning: layers.a.fields.d.languages: languages is for dates"),
        ("type: date, languages: en, default: yesterday", ""),
        ("type: date, languages: en, default: never", "the default 'never' is not a date"),
    ],
)
def test_what_the_check_says(rule: str, said: str) -> None:
    text = f"site: s\nseeds: http://s.example/\nlayers: {{a: {{fields: {{d: {{css: b, {rule}}}}}}}}}\n"
    told = [str(problem) for problem in survey_text(text, "f.yaml").problems]
    assert any(said in line for line in told) if said else told == []
