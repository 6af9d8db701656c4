"""Two pipelines from one bundle share only the process that serves them."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.bundles import make_bundle, make_uid
from tests.support.client import make_envelope
from tests.support.system import TestSystem

words = st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=1, max_size=8)
steps = st.lists(
    st.tuples(
        st.integers(0, 1), st.sampled_from(["write", "write", "append", "search", "delete"]), words
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=15)
@given(steps)
def test_two_pipelines_from_one_bundle_never_see_each_others_records(
    system: TestSystem, steps: list[tuple[int, str, str]]
) -> None:
    uids, wrote = [make_uid(), make_uid()], [set(), set()]
    system.deploy(*[make_bundle(uid) for uid in uids])

    for which, command, word in steps:
        system.client.enter(uids[which], f"/{command} {word}")
        wrote[which] |= {word} if command in ("write", "append") else set()
    read = [system.client.answer(uid, "/read") for uid in uids]

    assert [{record["content"] for record in records} for records in read] == wrote
    for uid, records, words in zip(uids, read, wrote, strict=True):
        assert {record["scope"] for record in records} <= {f"instances/{uid}/memories"}
        for word in words | {word for _, _, word in steps}:
            found = system.client.answer(uid, f"/search {word}")
            assert {record["guid"] for record in found} <= {record["guid"] for record in records}


def test_a_guid_of_another_pipeline_deletes_nothing(system: TestSystem) -> None:
    mine, other = make_uid(), make_uid()
    system.deploy(make_bundle(mine), make_bundle(other))
    guid = system.client.answer(other, "/write tea")["guid"]

    deleted = system.client.answer(mine, f"/delete {guid}")

    assert deleted == {"deleted": 0}
    assert system.contents(other) == ["tea"]


def test_messages_stay_in_their_pipeline(system: TestSystem) -> None:
    mine, other = make_uid(), make_uid()
    system.deploy(make_bundle(mine), make_bundle(other))

    system.client.ask(mine, "/write tea")
    system.client.publish(mine, make_envelope("/write more"))
    system.client.ask(mine, "/read")

    assert system.client.log(mine)
    assert not system.client.log(other)


def test_pipelines_with_the_same_store_share_its_records(system: TestSystem) -> None:
    mine, other = make_uid(), make_uid()
    agents = make_bundle(mine)["agents"]
    for agent in agents:
        if "memory_id" in agent["wf_webhook_args"]:
            agent["wf_webhook_args"] = agent["wf_webhook_args"] | {
                "memory_id": f"instances/{mine}/memories"
            }
    system.deploy(make_bundle(mine), make_bundle(other, *agents))

    guid = system.client.answer(mine, "/write tea")["guid"]
    (found,) = system.client.answer(other, "/search tea")

    assert (found["guid"], found["content"]) == (guid, "tea")
