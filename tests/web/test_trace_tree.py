"""Which message each message of a cascade answers, also if some are missing in the logs."""

from hypothesis import given
from hypothesis.strategies import integers

from memrelay.memory.records.ids import derive_guid, input_of_guid
from memrelay.pipelines.check import check
from memrelay.web.console.pages.message_trace import MAX_DEPTH, make_nodes
from memrelay.web.trace.messages import (
    Published,
    parse_entry_id,
    parse_position,
    parse_step,
    place_in_tree,
)
from memrelay.web.trace.timeline import Timeline
from tests.support.bundles import Json, make_agent, make_bundle, make_commands

ENTRY, UID = "1780000000000-0", "tea"


def make_published(place: str, sender: str, text: str = "x", swarm: str = "chat") -> Published:
    mid = f"{ENTRY}{place}~0a0b0c0d"
    found = parse_position(mid, ENTRY, UID)
    assert found is not None, mid
    return Published(mid, found, swarm, sender, text, len(text), 1_780_000_000_000)


def read_parents(messages: list[Published], *agents: Json) -> list[tuple[str, str]]:
    """Return (sender, sender of the parent) of each message."""
    bundle = check(make_bundle(UID, *agents)).accepted()
    placed = place_in_tree(messages, bundle.agents)
    senders = {one.mid: one.sender for one in placed}
    return [(one.sender, senders.get(one.parent, "")) for one in placed]


def test_several_answers_to_one_message_have_the_same_parent() -> None:
    agents = [make_agent(name, "regex_match", {"pattern": "(.*)"}, senders="User") for name in "ab"]

    parents = read_parents(
        [make_published(".2", "b"), make_published(".0", "User"), make_published(".1", "a")],
        *agents,
    )

    assert parents == [("User", ""), ("a", "User"), ("b", "User")]


def test_an_agent_that_answers_twice_has_two_parents() -> None:
    agents = [
        make_agent("a", "regex_match", {"pattern": "(.*)"}, senders="User"),
        make_agent("b", "regex_match", {"pattern": "(.*)"}, senders=["User", "a"]),
    ]

    parents = read_parents(
        [
            make_published(".0", "User"),
            make_published(".1", "a"),
            make_published(".2", "b"),
            make_published(".3", "b"),
        ],
        *agents,
    )

    assert parents == [("User", ""), ("a", "User"), ("b", "User"), ("b", "a")]


def test_messages_with_missing_parents_stay_in_the_tree() -> None:
    agents = make_commands()

    parents = read_parents([make_published(".2", "memory_write")], *agents)
    unknown = read_parents(
        [make_published(".0", "User", "/write tea"), make_published(".1", "nobody")], *agents
    )

    assert parents == [("memory_write", "")]
    assert unknown == [("User", ""), ("nobody", "User")]


def test_a_step_without_messages_leads_to_the_message_before() -> None:
    agents = make_commands()

    parents = read_parents(
        [make_published(".0", "User", "/write tea"), make_published(".1+0.0+0.0", "memory_read")],
        *agents,
    )

    assert parents == [("User", ""), ("memory_read", "User")]


def test_ids_are_parsed_strictly() -> None:
    assert parse_position(f"{UID}/{ENTRY}.2+0.1~0a0b0c0d", ENTRY, UID) == (".2+0", 1)
    for mid in (f"{ENTRY}.1", f"{ENTRY}0.1~0a0b0c0d", f"other/{ENTRY}.1~0a0b0c0d", f"{ENTRY}.x~1"):
        assert parse_position(mid, ENTRY, UID) is None, mid
    assert parse_step("") is None and parse_step(".2+0.3+1") == (".2+0", 3, 1)
    assert (
        parse_entry_id(f"{ENTRY}.2+0")
        == parse_entry_id(f"tea/{ENTRY}.1~0a0b0c0d")
        == parse_entry_id(ENTRY)
        == ENTRY
    )
    assert parse_entry_id("order-1") == parse_entry_id("") == ""


@given(integers(0, 2**48 - 1), integers(0, 2**24 - 1), integers(1, 100))
def test_the_entry_of_a_derived_guid_is_found(ms: int, number: int, index: int) -> None:
    entry = f"{ms}-{number}"

    assert input_of_guid(derive_guid(UID, entry, "keeper", index)) == entry
    assert input_of_guid(derive_guid(UID, f"{entry}.2+0", "keeper", index)) == entry


def test_other_guids_have_no_entry() -> None:
    assert input_of_guid("order-1") == input_of_guid("01a216ab-480d-4000-8002-3e379978e088") == ""


def test_a_long_chain_is_drawn_with_bounded_depth() -> None:
    agent = make_agent("a", "regex_match", {"pattern": "(.*)"})
    bundle = check(make_bundle(UID, agent)).accepted()
    chain = [make_published(".0", "User"), *[make_published(f".{n}", "a") for n in range(1, 60)]]

    nodes, depth, count = (
        make_nodes(place_in_tree(chain, bundle.agents), [], Timeline([], 0, ""), 0),
        0,
        0,
    )
    while nodes:
        depth, count = depth + 1, count + len(nodes)
        nodes = [answer for node in nodes for answer in node.answers]

    assert (depth, count) == (MAX_DEPTH, 60)
