"""Days of a query in the time zone of its user."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.memory.engine.store import Store
from memrelay.memory.engine.time_zones import find_zone
from memrelay.memory.errors import Refused
from memrelay.memory.operations import Context, all_operations
from memrelay.memory.search.query import parse
from memrelay.memory.search.text.dates import MAX_SPANS, find_spans, read_times
from tests.blocks.agent_memory import ask
from tests.memory.builders import PLENTY, make_guid, make_store, perform_at, write_all

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
# Half-hour offsets, both hemispheres, a date line, and midnights that daylight saving skips.
ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Pacific/Kiritimati",
    "America/Sao_Paulo",
    "UTC",
)


def unix_ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = make_store(tmp_path)
    yield store
    store.close()


def search(store: Store, now_ms: int, query: str, **wanted: object) -> set[str]:
    found = perform_at(store, now_ms, "records.search", query=query, **wanted)
    return {item.record.content for item in found.items}


@pytest.mark.parametrize(
    ("day", "first"),
    [
        ("2026-03-29", "2026-03-28T23:00Z"),  # the clocks go forward on this day
        ("2026-03-30", "2026-03-29T22:00Z"),
        ("2026-10-25", "2026-10-24T22:00Z"),  # and back on this one
        ("2026-10-26", "2026-10-25T23:00Z"),
        ("2026-10-25T02:30:00", "2026-10-25T00:30Z"),  # occurs twice: the first
        ("2026-10-26T00:00:00Z", "2026-10-26T00:00Z"),
        ("2026-10-26T00:00:00+02:00", "2026-10-25T22:00Z"),
    ],
)
def test_after_and_before_follow_the_zone_over_daylight_saving(day: str, first: str) -> None:
    query = parse(f"tea after:{day} before:{day}", ZoneInfo("Europe/Berlin"))

    assert (query.after_ms, query.before_ms) == (unix_ms(first), unix_ms(first))


@pytest.mark.parametrize(
    ("now", "query", "first", "after"),
    [
        # In Berlin, the day before this moment has 23 hours, and 25 in autumn.
        ("2026-03-29T22:30Z", "yesterday", "2026-03-28T23:00Z", "2026-03-29T22:00Z"),
        ("2026-10-25T23:30Z", "last night", "2026-10-24T22:00Z", "2026-10-25T23:00Z"),
        ("2026-10-25T23:30Z", "today", "2026-10-25T23:00Z", "2026-10-26T23:00Z"),
        ("2026-10-25T23:30Z", "last month", "2026-08-31T22:00Z", "2026-09-30T22:00Z"),
        ("2026-12-31T23:30Z", "this year", "2026-12-31T23:00Z", "2027-12-31T23:00Z"),
    ],
)
def test_relative_times_are_those_of_the_zone(
    store: Store, now: str, query: str, first: str, after: str
) -> None:
    begin, end = unix_ms(first), unix_ms(after)
    for name, moment in (("before", begin - 1), ("first", begin), ("last", end - 1), ("end", end)):
        write_all(store, f"{name} login", now_ms=moment)

    found = search(
        store,
        unix_ms(now),
        f"what happened {query}",
        mode="hybrid",
        timezone="Europe/Berlin",
    )

    assert found == {"first login", "last login"}


def test_a_call_without_a_zone_has_that_of_its_context(store: Store) -> None:
    now_ms = unix_ms("2026-11-26T12:00Z")
    write_all(store, "tea in the night", now_ms=unix_ms("2026-11-25T11:30Z"))

    def find(zone: str, **wanted: str) -> int:
        with store.transaction() as tx:
            operation = all_operations()["records.search"]
            query = {"query": "tea before:2026-11-26"} | wanted
            given = operation.adapter.validate_json(orjson.dumps(query), strict=True)
            context = Context(now_ms, "tester", PLENTY, make_guid, timezone=zone)
            return len(operation.run(tx, given, context).items)

    # In Auckland it was the 26th already.
    assert [find("UTC"), find("Pacific/Auckland")] == [1, 0]
    assert [find("UTC", timezone="Pacific/Auckland"), find("Pacific/Auckland", timezone="UTC")] == [
        0,
        1,
    ]


def test_facts_are_recalled_by_the_days_of_the_zone(store: Store) -> None:
    now_ms = unix_ms("2026-11-26T12:00Z")
    for hours, text in ((27, "Bob fixed the login page"), (2, "Bob broke the login page")):
        perform_at(
            store, now_ms - hours * HOUR_MS, "entries.create", content=text, memory="m",
            mode="create",
        )  # fmt: skip

    def recall_first(zone: str) -> str:
        found = perform_at(
            store, now_ms, "knowledge.search", query="what did Bob do yesterday", timezone=zone
        )
        return str(found.results[0].content)

    # In Auckland, yesterday ended an hour ago.
    assert recall_first("UTC") == "Bob fixed the login page"
    assert recall_first("Pacific/Auckland") == "Bob broke the login page"


def test_a_block_follows_the_zone_in_the_preferences_of_the_user(store: Store) -> None:
    write_all(store, "tea in the night", now_ms=unix_ms("2026-11-25T11:30Z"))

    def find(preferences: object, *, vouched: tuple[str, ...] = ("user_id",)) -> list[str]:
        context = {"user_id": "chat:ann", "preferences": preferences}
        part = {"user_id": "chat:ann", "user_context": context}
        args = {"memory_id": store.memory_id}
        said = ask(store, "memory_search", "tea before:2026-11-26", args, part, vouched=vouched)
        return [record["content"] for record in orjson.loads(said)]

    auckland = {"timezone": "Pacific/Auckland"}
    assert find(auckland) == []
    for preferences in ({}, {"timezone": "Mars"}, {"timezone": ""}, {"timezone": 1}, None):
        assert find(preferences) == ["tea in the night"]
    assert find(auckland, vouched=()) == ["tea in the night"]


@given(
    st.sampled_from(ZONES),
    st.integers(0, 4_000_000_000_000),
    st.sampled_from(["{0}-{1}-{2}", "{0}-{1}-__", "{0}-__-__", "____-{1}-{2}", "____-{1}-__"]),
    st.integers(-400, 400),
)
def test_a_moment_is_in_the_span_of_its_local_date(
    name: str, moment_ms: int, form: str, days: int
) -> None:
    zone = find_zone(name)
    local = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=moment_ms)).astimezone(zone)
    other = local + timedelta(days)
    pattern = form.format(f"{other.year:04}", f"{other.month:02}", f"{other.day:02}")

    spans = find_spans([pattern], zone, range(1969, 2098))

    parts = zip(pattern.split("-"), str(local.date()).split("-"), strict=True)
    matches = all("_" in part or part == value for part, value in parts)
    assert any(first <= moment_ms < end for first, end in spans) == matches
    assert len(spans) <= MAX_SPANS and spans == sorted(spans)


def test_a_long_question_names_a_limited_number_of_spans() -> None:
    dates = [f"{day} {month}" for month in ("May", "July", "October") for day in range(1, 32, 2)]

    patterns = read_times(" ".join(dates)).patterns

    assert len(find_spans(patterns, UTC, range(1, 9999))) == MAX_SPANS


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("europe/berln", "did you mean 'Europe/Berlin'"),
        ("+02:00", "use a name like 'Europe/Berlin'"),
        ("../../etc/passwd", "use a name like"),
        ("Europe", "use a name like"),
        ("localtime", "unknown time zone"),
        ("x" * 100_000, "unknown time zone"),
        ("a\0", "unknown time zone"),
    ],
)
def test_an_unknown_zone_is_refused_with_advice(name: str, advice: str) -> None:
    with pytest.raises(Refused, match=advice):
        find_zone(name)
