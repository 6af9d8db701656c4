"""Event logs: appends, queries, aggregations and the step `log_search`."""

from typing import Any

import pytest

from memrelay.memory.engine.store import Store
from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.errors import InvalidInput, RecordNotFound, ResultTooLarge, SearchTooLong
from memrelay.memory.models.recipes.step import StepCall, StepFailed, all_step_types
from memrelay.memory.operations import Context
from tests.memory.builders import NOW, PLENTY, make_guid, perform

# (hour, stream, type, message, ms)
DEPLOYS = [
    (10, "api", "deploy.ok", "api 1.0 is live", 900),
    (11, "web", "deploy.failed", "web 2.0 failed", 300),
    (12, "api", "deploy.failed", "api 1.1 failed", 1500),
    (13, "web", "deploy.ok", "web 2.1 is live", 700),
]
HOUR_13 = 1_793_538_000_000  # 2026-11-01T13:00:00Z, Unix ms


def event(hour: int, stream: str, type_: str, message: str, ms: int) -> dict[str, Any]:
    return {
        "stream_id": stream,
        "event_type": type_,
        "timestamp": f"2026-11-01T{hour:02}:00:00Z",
        "payload": {"service": stream, "message": message, "ms": ms},
    }


@pytest.fixture(autouse=True)
def deploys(tx: Store) -> None:
    events = [event(*one) for one in DEPLOYS]
    perform(tx, "events.append", instance="deploys", auto_create=True, events=events)


def query(tx: Store, **wanted: Any) -> Any:
    return perform(tx, "events.query", instance="deploys", **wanted)


def hours(events: Any, field: str = "timestamp") -> list[int]:
    return [int(one[field][11:13]) for one in events]


def reduce(tx: Store, type_: str, **wanted: Any) -> Any:
    return query(tx, reduce={"type": type_, **wanted}).aggregation


def search(tx: Store, now_ms: int = HOUR_13, **params: Any) -> Any:
    call = StepCall(tx, Context(now_ms, "tester", PLENTY, make_guid), "a", [], "", {})
    kind = all_step_types()["log_search"]
    return kind.run(kind.adapter.validate_python({"instance": "deploys", **params}), call)


def test_an_append_counts_the_events_of_each_stream(tx: Store) -> None:
    again = perform(tx, "events.append", instance="deploys", events=[event(9, "api", "t", "m", 1)])
    assert (again.instance_id, again.events[0].sequence_number) == ("deploys", 3)
    assert again.events[0].timestamp == "2026-11-01T09:00:00.000Z"
    found = query(tx, stream="api", order_by={"field": "sequence_number"})
    assert [one["sequence_number"] for one in found.events] == [1, 2, 3]
    view = perform(tx, "instances.get", sort="events", id="deploys")
    assert (view.event_count, view.streams) == (5, ("api", "web"))


def test_an_append_stores_all_or_none(tx: Store) -> None:
    bad = [event(9, "api", "t", "m", 1), event(9, "api", "t", "m", 1) | {"timestamp": "soon"}]
    with pytest.raises(InvalidInput) as caught:
        perform(tx, "events.append", instance="new", auto_create=True, events=bad)
    assert [fault.path for fault in caught.value.faults] == ["/events/1/timestamp"]
    assert query(tx).total == 4
    with pytest.raises(RecordNotFound):
        perform(tx, "events.append", instance="new", events=bad[:1])


def test_an_append_adds_one_row_to_the_feed(tx: Store) -> None:
    one = perform(tx, "events.append", instance="deploys", events=[event(9, "api", "t", "m", 1)])
    changes = [(change.type, change.subject) for change in tx.feed.after(0, 9)][1:]
    assert changes == [("events.appended", "deploys"), ("event.appended", "deploys")]
    assert tx.feed.after(0, 9)[-1].data == f'{{"ids":["{one.events[0].id}"]}}'


def test_a_query_returns_events_newest_first(tx: Store) -> None:
    page = query(tx, limit=3)
    assert (hours(page.events), page.total, page.aggregation) == ([13, 12, 11], 4, None)
    assert hours(query(tx, limit=3, offset=3).events) == [10]
    assert query(tx, offset=9).total == 4
    slow = [{"field": "payload.ms", "operator": ">=", "value": 700}]
    assert hours(query(tx, where=slow).events) == [13, 12, 10]
    assert query(tx, where=[{"field": "payload.ms", "operator": ">=", "value": "700"}]).total == 0
    both = [*slow, {"field": "eventType", "operator": "LIKE", "value": "%.ok"}]
    assert hours(query(tx, where=both, stream="web").events) == [13]


def test_a_query_orders_and_selects_dotted_fields(tx: Store) -> None:
    order = {"field": "payload.ms", "direction": "asc"}
    page = query(tx, order_by=order, select=["payload.ms", "streamId", "payload.none"], limit=2)
    assert page.events == (
        {"payload.ms": 300, "streamId": "web"},
        {"payload.ms": 700, "streamId": "web"},
    )
    with pytest.raises(InvalidInput, match="1 error"):
        query(tx, order_by={"field": "paylod"})


def test_aggregations(tx: Store) -> None:
    assert reduce(tx, "count") == 4
    assert reduce(tx, "count", field="payload.none") == 0
    assert reduce(tx, "sum", field="payload.ms") == 3400
    assert reduce(tx, "avg", field="payload.ms", group_by="stream_id") == {"api": 1200, "web": 500}
    assert reduce(tx, "min", field="timestamp") == "2026-11-01T10:00:00.000Z"
    assert reduce(tx, "max", field="payload.message") is None
    assert reduce(tx, "collect", field="payload.ms") == [900, 300, 1500, 700]
    grouped = {"deploy.ok": [900, 700], "deploy.failed": [300, 1500]}
    assert reduce(tx, "collect", field="payload.ms", group_by="event_type") == grouped
    last = reduce(tx, "last", field="payload.message", group_by="payload.service")
    assert last == {"api": "api 1.1 failed", "web": "web 2.1 is live"}
    assert reduce(tx, "first")["payload"]["message"] == "api 1.0 is live"
    assert reduce(tx, "exists", field="payload.ms") is True
    assert reduce(tx, "count", group_by="payload.none") == {"": 4}
    assert query(tx, reduce={"type": "count"}).events == ()


def test_an_aggregation_of_no_events(tx: Store) -> None:
    none = [{"field": "event_type", "value": "none"}]
    for type_, expected in (("count", 0), ("exists", False), ("collect", []), ("last", None)):
        assert query(tx, where=none, reduce={"type": type_}).aggregation == expected
    with pytest.raises(InvalidInput, match="1 error"):
        reduce(tx, "sum")
    with pytest.raises(InvalidInput, match="1 error"):
        reduce(tx, "count", group_by="none")


def test_a_sum_may_exceed_64_bits(tx: Store) -> None:
    events = [event(9, "big", "t", "m", 2**63 - 1)] * 2
    perform(tx, "events.append", instance="deploys", events=events)
    assert reduce(tx, "sum", field="payload.ms", group_by="stream_id")["big"] == 2.0**64


def test_a_result_must_fit_into_an_answer(tx: Store) -> None:
    with pytest.raises(ResultTooLarge, match="set a lower `limit`"):
        query(tx, result_bytes=300)


def test_a_slow_query_ends(tx: Store) -> None:
    many = [{"stream_id": "s", "event_type": "t", "payload": {"n": n}} for n in range(1000)]
    perform(tx, "events.append", instance="deploys", events=many)
    tx.time_limit.seconds = 0
    order = {"field": "payload.none"}
    with pytest.raises(SearchTooLong):
        query(tx, order_by=order)


def test_the_step_reads_the_newest_events(tx: Store) -> None:
    items = search(tx)
    assert hours(items) == [13, 12, 11, 10]
    assert items[0] == {
        "id": items[0]["id"],
        "timestamp": "2026-11-01T13:00:00.000Z",
        "streamId": "web",
        "eventType": "deploy.ok",
        "sequence": 2,
        "metadata": {},
        "payload": {"service": "web", "message": "web 2.1 is live", "ms": 700},
        "text": "web 2.1 is live",
    }
    assert hours(search(tx, streamId="api", eventType="deploy.ok")) == [10]
    assert hours(search(tx, limit=2)) == [13, 12]


@pytest.mark.parametrize(
    ("since", "expected"),
    [("1h", [13, 12]), ("-1h", [13, 12]), (HOUR_13, [13]), ("2026-11-01T11:30:00Z", [13, 12])],
)
def test_the_step_reads_from_a_time_on(tx: Store, since: Any, expected: list[int]) -> None:
    assert hours(search(tx, since=since)) == expected


def test_the_step_refuses_bad_parameters(tx: Store) -> None:
    with pytest.raises(ValueError, match="span before now"):
        search(tx, since="yesterday")
    with pytest.raises(StepFailed) as caught:
        search(tx, instance="none")
    assert caught.value.code == "unknown_instance"


def test_a_payload_that_is_no_object_is_its_text(tx: Store) -> None:
    one = {"stream_id": "s", "event_type": "t", "payload": [1, 2], "metadata": {"by": "me"}}
    perform(tx, "events.append", instance="log", auto_create=True, events=[one])
    found = search(tx, instance="log")[0]
    assert (found["text"], found["metadata"]) == ("[1,2]", {"by": "me"})
    assert found["timestamp"] == format_time(NOW)
