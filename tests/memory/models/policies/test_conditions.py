"""A filter in Python holds for the same records as in SQL."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memrelay.memory.engine.origins import Origin
from memrelay.memory.models.policies.conditions import compile_filter, compile_origin
from tests.memory.builders import fresh_store, perform
from tests.memory.records.filtering import aimed_at, filters, records

Json = dict[str, Any]
cases = st.lists(records, max_size=8).flatmap(
    lambda made: st.tuples(
        st.just(made),
        st.lists(st.one_of(filters, *(aimed_at(one["data"]) for one in made)), min_size=4),
    )
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases)
def test_a_filter_holds_in_python_as_in_sql(case: tuple[list[Json], list[Json]]) -> None:
    wanted, given_filters = case
    with fresh_store() as store, store.transaction() as tx:
        for one in wanted:
            perform(tx, "records.create", **one)
        listed = perform(tx, "records.list", limit=1000).items
        states = [tx.records.by_guid(one.guid).state for one in listed]  # type: ignore[union-attr]
        for given_filter in given_filters:
            found = perform(tx, "records.list", filter=given_filter, limit=1000).items
            holds = compile_filter(given_filter)
            expected = [one.guid for one in found]
            assert [state.guid for state in states if holds(state)] == expected


@pytest.mark.parametrize("verdict", ["verified", "unverified"])
def test_what_an_agent_writes_after_a_webhook_is_by_both(verdict: str) -> None:
    origin = Origin("bot", "webhook", "turn:5-0", verdict, "", "bot_", "model")

    assert compile_origin({"by": ["webhook"]})(origin)
    assert compile_origin({"by": ["agent"], "verified": verdict == "verified"})(origin)
    assert not compile_origin({"by": ["webhook"]})(origin._replace(verdict=""))
