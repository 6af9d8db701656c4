"""`wf_cron`: the faults of expressions, and the slots in zones with daylight saving."""

from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pytest

from memrelay.pipelines.check import check
from memrelay.pipelines.cron import CronSchedule
from memrelay.pipelines.plan import Plan
from tests.pipelines.builders import Json, faults_of, make_block, make_bundle, warnings_of

START = datetime(2026, 1, 15, tzinfo=UTC)
DAYS = 400
QUARTER_S = 900
# Changes at 2 and 3 o'clock, at midnight on the southern half, and at 2:45 and 3:45.
ZONES = ("Europe/Berlin", "America/New_York", "America/Santiago", "Pacific/Chatham")
# An expression, and its minutes, hours, days of the week (Sunday is 0), and whether both conditions
# on days must hold. All minutes are quarters of an hour.
EVERY = frozenset(range(60))
EXPRESSIONS = {
    "0 9 * * MON-FRI": ({0}, {9}, EVERY, {1, 2, 3, 4, 5}, True),
    "30 2 * * *": ({30}, {2}, EVERY, EVERY, True),
    "15,45 0-3 * * *": ({15, 45}, {0, 1, 2, 3}, EVERY, EVERY, True),
    "0 2,3 * * 7": ({0}, {2, 3}, EVERY, {0}, True),
    "0 0 1,13 * FRI": ({0}, {0}, {1, 13}, {5}, False),
    "0 * * * *": ({0}, EVERY, EVERY, EVERY, True),
    "*/30 1-3 * * *": ({0, 30}, {1, 2, 3}, EVERY, EVERY, True),
}


def make_agent(**keys: object) -> Json:
    return make_block("add_1", agent_alias="clock", **keys)


@cache
def quarters(zone: str) -> tuple[tuple[int, datetime], ...]:
    """Return all quarters of an hour from a day before START: (Unix s, local time)."""
    first, place = int(START.timestamp()) - 86_400, ZoneInfo(zone)
    return tuple(
        (at, datetime.fromtimestamp(at, place).replace(tzinfo=None, fold=0))
        for at in range(first, first + (DAYS + 1) * 86_400 + 1, QUARTER_S)
    )


def reference(expression: str, zone: str) -> list[int]:
    """Return the slots of 400 days as Debian's cron finds them, by looking at every quarter.

    A job with a star as minute or hour follows the clock on the wall. Another runs once for each of
    its times: those that a change skips run just after it, and those that it repeats run at the
    first.
    """
    minutes, hours, days, weekdays, both = EXPRESSIONS[expression]

    def matches(local: datetime) -> bool:
        by_day, by_weekday = local.day in days, local.isoweekday() % 7 in weekdays
        day = (by_day and by_weekday) if both else (by_day or by_weekday)
        return local.minute in minutes and local.hour in hours and day

    minute, hour, *_ = expression.split()
    follows = minute.startswith("*") or hour.startswith("*")
    slots, ran, before = set(), set(), None
    for at, local in quarters(zone):
        times = [local] if follows or before is None else list(passed(before, local))
        for time in times:
            if matches(time) and (follows or time not in ran):
                ran.add(time)
                slots.add(at)
        before = local
    return sorted(at for at in slots if at > START.timestamp())


def passed(before: datetime, local: datetime) -> Iterator[datetime]:
    """Return the local times after `before` up to `local`, or `local` if the clock went back."""
    time = min(before + timedelta(seconds=QUARTER_S), local)
    while time <= local:
        yield time
        time += timedelta(seconds=QUARTER_S)


@pytest.mark.parametrize("zone", ZONES)
def test_the_slots_of_400_days_are_those_of_debians_cron(zone: str) -> None:
    end_ms = int((START + timedelta(days=DAYS)).timestamp()) * 1000
    for expression in EXPRESSIONS:
        expected = reference(expression, zone)
        schedule, at_ms, slots = CronSchedule(expression, zone), int(START.timestamp()) * 1000, []
        while (at_ms := schedule.find_next(at_ms) or end_ms + 1) <= end_ms:
            slots.append(at_ms // 1000)

        assert slots == expected, expression


@pytest.mark.parametrize("zone", ZONES)
def test_the_last_slot_is_found_within_the_time_looked_back(zone: str) -> None:
    for expression in EXPRESSIONS:
        schedule, expected = CronSchedule(expression, zone), reference(expression, zone)
        for now in range(expected[0] - 60, expected[-1], 86_400 * 11 + 1234):
            place = bisect_right(expected, now)
            last = expected[place - 1] * 1000 if place else None

            assert schedule.find_last(int(START.timestamp()) * 1000, now * 1000) == last
            if last is not None:
                assert schedule.find_last(last, now * 1000) is None
                assert schedule.find_last(last - 1, now * 1000) == last


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        (
            "@daily",
            "must have five fields: minute hour day-of-month month day-of-week; write it li",
        ),
        ("0 9 * *", "must have five fields: "),
        ("0 0 9 * * *", "must have five fields: "),
        ("0 9 * * MON.", "must have five fields: "),
        ("60 9 * * *", 'invalid minute "60"; use 0-59'),
        ("0 24 * * *", 'invalid hour "24"; use 0-23'),
        ("0 9 0 * *", 'invalid day-of-month "0"; use 1-31 or L'),
        ("0 9 31 2 *", 'invalid day-of-month "31"; use 1-31 or L, and a day that one of its month'),
        ("0 9 * 13 *", 'invalid month "13"; use 1-12 or JAN-DEC'),
        ("0 9 * * MOON", 'invalid day-of-week "MOON"; use 0-7 or SUN-SAT'),
        ("0 17-9 * * *", 'invalid hour "17-9"; use 0-23'),
        ("*/0 * * * *", 'invalid minute "*/0"; use 0-59'),
        ("1," * 100 + "1 * * * *", "must have at most 200 characters"),
    ],
)
def test_an_invalid_expression_is_refused_with_its_field_and_the_fix(
    expression: str, fault: str
) -> None:
    (found,) = faults_of(make_agent(wf_cron=expression))

    assert found.startswith(f"agents[0].wf_cron: {fault}")


@pytest.mark.parametrize(
    "expression", ["0 9 * * MON-FRI", "*/5 8-17/3 L jan,Dec *", "0 0 29 2 mon#5", "0  9 * * 5L", ""]
)
def test_a_valid_expression_has_no_fault(expression: str) -> None:
    assert faults_of(make_agent(wf_cron=expression)) == []


def test_an_unknown_zone_is_refused_with_a_suggestion() -> None:
    assert faults_of(make_agent(wf_cron="0 9 * * *", wf_timezone="Europe/Berlni")) == [
        "agents[0].wf_timezone: unknown time zone 'Europe/Berlni'; did you mean 'Europe/Berlin'?"
    ]


def test_an_agent_has_one_timer() -> None:
    assert faults_of(make_agent(wf_cron="0 9 * * *", wf_interval_secs=60)) == [
        "agents[0].wf_cron: an agent has one timer; remove wf_cron or wf_interval_secs"
    ]


def test_a_schedule_without_effect_is_a_warning() -> None:
    assert warnings_of(make_agent(wf_cron="0 9 * * *", wf_call_webhook=False))[0] == (
        "agents[0].wf_cron: the agent calls no block, so the timer has no effect; remove it"
    )
    assert warnings_of(make_agent(wf_catch_up=True)) == [
        "agents[0].wf_catch_up: without wf_cron there is no slot to catch up; "
        "set wf_cron, or remove wf_catch_up"
    ]


@pytest.mark.parametrize(
    ("agent_zone", "bundle_zone", "expected"),
    [
        ("", "", "UTC"),
        ("", "Asia/Tokyo", "Asia/Tokyo"),
        ("Europe/Berlin", "Asia/Tokyo", "Europe/Berlin"),
    ],
)
def test_the_zone_of_a_schedule_is_the_agents_then_the_bundles(
    agent_zone: str, bundle_zone: str, expected: str
) -> None:
    agent = make_agent(wf_cron="0 9 * * *", wf_timezone=agent_zone)
    bundle = check(make_bundle(agent, timezone=bundle_zone)).accepted()

    (timer,) = Plan(bundle).timers

    assert timer.schedule == CronSchedule("0 9 * * *", expected)
