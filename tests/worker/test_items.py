"""Items in shared stores through a running worker."""

from tests.support.bundles import make_bundle, make_commands, make_uid
from tests.support.calls import call, call_all, make_call
from tests.support.system import TestSystem


def test_64_concurrent_conditional_puts_have_one_winner(system: TestSystem) -> None:
    uid = make_uid()
    system.deploy(make_bundle(uid, *make_commands()))
    own = {"agent": "a1", "store": "a1"}
    puts = [
        make_call(uid, "items.put", own | {"key": "lock", "value": number, "if_absent": True})
        for number in range(64)
    ]

    answers = [answer["output"] for answer in call_all(system, *puts)]

    winners = [answer for answer in answers if answer["won"]]
    assert len(winners) == 1
    assert {answer["entry"]["guid"] for answer in answers} == {winners[0]["entry"]["guid"]}
    listed = call(system, uid, "items.list", own)
    assert [entry["value"] for entry in listed["entries"]] == [winners[0]["entry"]["value"]]
    assert system.dead_letters(uid) == []


def test_items_are_in_a_store_of_their_own(system: TestSystem) -> None:
    uid = make_uid()
    system.deploy(make_bundle(uid, *make_commands()))

    call(system, uid, "items.put", {"agent": "a1", "store": "a1", "key": "k", "value": "green tea"})

    assert call(system, uid, "records.list", {})["items"] == []
    assert call(system, uid, "records.search", {"query": "tea"})["items"] == []
    found = call(system, uid, "items.search", {"agent": "a1", "query": "tea"})["items"]
    assert [hit["value"] for hit in found] == ["green tea"]
    assert system.store_file(uid, "stores").exists()
