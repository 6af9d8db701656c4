"""Messages that break the schema of a swarm or of an agent."""

import json

from tests.support.bundles import STORE, Json, make_agent, make_bundle, make_memory, make_uid
from tests.support.client import input_of, make_envelope
from tests.support.system import TestSystem
from tests.support.waiting import wait_for

OBJECT = {"type": "object", "required": ["tea"]}
GOOD, BAD = '{"tea": 1}', '{"coffee": "xyzzy-plugh"}'


def make_keeper(**keys: object) -> Json:
    return make_memory("write", senders="User") | keys


def make_review() -> Json:
    """Return an agent that passes on what comes to the swarm `review`."""
    return make_agent("review", "json_map", {"expression": "@"}, on="review", to="reviewed")


def test_a_message_that_breaks_the_schema_of_a_swarm_is_a_dead_letter(system: TestSystem) -> None:
    uid = make_uid()
    swarm = {"name": "chat", "schema": OBJECT}
    notes = make_agent("notes", "add_1", senders="User", on="chat", to="chat")
    system.deploy(make_bundle(uid, make_keeper(), notes, swarms=[swarm]))

    # Answers on the swarm are checked too: the record of `/write` is JSON without `tea`.
    ident = system.client.enter(uid, BAD)
    system.client.await_quiet(uid)

    (letter,) = system.dead_letters(uid)
    assert letter.id == ident
    assert letter.error == (
        "SchemaMismatch: the schema of the swarm chat refuses the message: $ needs the property "
        '"tea"'
    )
    assert system.contents(uid) == []
    assert not system.client.log(uid)


def test_an_answer_that_breaks_the_schema_undoes_the_whole_input(system: TestSystem) -> None:
    uid = make_uid()
    keeper = make_keeper(agent_send_swarm="saved")
    system.deploy(
        make_bundle(uid, keeper, swarms=[{"name": "saved", "schema": {"required": ["never"]}}])
    )

    system.client.enter(uid, "tea")
    system.client.await_quiet(uid)

    (letter,) = system.dead_letters(uid)
    assert "the swarm saved" in letter.error
    assert system.contents(uid) == []


def test_on_mismatch_gets_the_message_with_the_fault(system: TestSystem) -> None:
    uid = make_uid()
    swarm = {"name": "chat", "schema": OBJECT, "on_mismatch": "review"}
    keeper = make_keeper(agent_send_swarm="saved")
    system.deploy(make_bundle(uid, keeper, make_review(), swarms=[swarm]))

    for text in (GOOD, BAD):
        system.client.enter(uid, text)
    system.client.await_quiet(uid)

    assert system.contents(uid) == [GOOD]
    assert not system.dead_letters(uid)
    (passed,) = system.client.log(uid, "review")
    assert (passed.sender, passed.text) == ("User", BAD)
    assert passed.envelope["args"][0]["mismatch"] == '$ needs the property "tea"'
    (reviewed,) = system.client.log(uid, "reviewed")
    assert json.loads(reviewed.text) == json.loads(BAD)


def test_an_agent_has_a_schema_of_its_own(system: TestSystem) -> None:
    uid = make_uid()
    strict = make_keeper(schema=OBJECT, on_mismatch="review", agent_send_swarm="saved")
    lenient = make_memory("write", senders="User", alias="all", memory_id=f"{STORE}2")
    lenient |= {"agent_send_swarm": "saved"}
    system.deploy(make_bundle(uid, strict, lenient, make_review()))

    for text in (GOOD, BAD):
        system.client.enter(uid, text)
    data = make_envelope(BAD)
    system.client.redis.xadd(input_of(uid), {"agent": "memory_write_", "data": data})
    system.client.await_quiet(uid)

    assert system.contents(uid) == [GOOD]
    # The step in the second store may run after the first one.
    wait_for(lambda: len(system.contents(uid, "memories2")) == 2, "both reach the second store")
    assert system.contents(uid, "memories2") == [GOOD, BAD]
    assert [one.text for one in system.client.log(uid, "review")] == [BAD, BAD]


def test_the_schema_of_an_agent_names_it_in_the_dead_letter(system: TestSystem) -> None:
    uid = make_uid()
    system.deploy(make_bundle(uid, make_keeper(schema=OBJECT)))

    system.client.enter(uid, BAD)
    system.client.await_quiet(uid)

    (letter,) = system.dead_letters(uid)
    assert letter.error.splitlines() == [
        "SchemaMismatch: the schema of the agent memory_write_ refuses the message: $ needs the "
        'property "tea" (agent memory_write_, block memory_write)'
    ]
    assert "xyzzy-plugh" not in system.workers[0].output
