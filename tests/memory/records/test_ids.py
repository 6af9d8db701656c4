"""Guids derived from inputs: uuid7, equal on a replay, ascending in input order."""

from uuid import RFC_4122, UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.memory.engine.timestamps import LAST_MS
from memrelay.memory.records.ids import derive_guid, input_of_guid, input_time_ms

times = st.integers(0, LAST_MS)
counts = st.integers(0, 2**24 - 1)
names = st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=10)
moments = st.tuples(times, counts)


def input_id(moment: tuple[int, int]) -> str:
    return f"{moment[0]}-{moment[1]}"


@given(moments, names, names, st.integers(1, 1000))
def test_a_guid_is_a_uuid7_of_the_inputs_time(
    moment: tuple[int, int], uid: str, agent: str, index: int
) -> None:
    text = derive_guid(uid, input_id(moment), agent, index)

    guid = UUID(text)
    assert str(guid) == text
    assert (guid.version, guid.variant) == (7, RFC_4122)
    assert guid.int >> 80 == moment[0] == input_time_ms(input_id(moment))


@given(moments, names, names, st.integers(1, 1000))
def test_a_guid_leads_back_to_its_input(
    moment: tuple[int, int], uid: str, agent: str, index: int
) -> None:
    assert input_of_guid(derive_guid(uid, input_id(moment), agent, index)) == input_id(moment)


@pytest.mark.parametrize("guid", ["", "note-1", "3f9c2a71-0000-4000-8000-000000000000", "7" * 36])
def test_a_foreign_guid_leads_to_no_input(guid: str) -> None:
    assert input_of_guid(guid) == ""


@given(moments, names, names, st.integers(1, 1000))
def test_a_replay_makes_the_same_guid(
    moment: tuple[int, int], uid: str, agent: str, index: int
) -> None:
    first, second = (derive_guid(uid, input_id(moment), agent, index) for _ in range(2))

    assert first == second


@given(st.lists(st.tuples(names, moments, names, st.integers(1, 1000)), unique=True, max_size=20))
def test_different_inputs_agents_pipelines_and_places_make_different_guids(
    sources: list[tuple[str, tuple[int, int], str, int]],
) -> None:
    guids = {
        derive_guid(uid, input_id(moment), agent, index) for uid, moment, agent, index in sources
    }

    assert len(guids) == len(sources)


@given(moments, moments)
def test_guids_ascend_with_time_and_count(first: tuple[int, int], second: tuple[int, int]) -> None:
    earlier, later = sorted((first, second))

    guids = [derive_guid("a3d8f1b2", input_id(moment), "keeper", 1) for moment in (earlier, later)]

    assert guids == sorted(guids)


@pytest.mark.parametrize(
    "ident",
    ["1700000000000-7", "1700000000000-7.1+0>keeper", "1700000000000-7.2+1>keeper.3+0>other"],
)
def test_a_continuation_guid_has_the_time_of_its_root_input(ident: str) -> None:
    guid = derive_guid("a3d8f1b2", ident, "keeper", 1)

    assert input_time_ms(ident) == 1_700_000_000_000
    assert guid.startswith("018bcfe5-6800-7000-801")


def test_a_continuation_gets_other_guids_than_its_root() -> None:
    root, continuation = (
        derive_guid("a3d8f1b2", ident, "keeper", 1) for ident in ("1-7", "1-7.1+0>keeper")
    )

    assert root != continuation


def test_many_guids_of_one_millisecond_are_distinct() -> None:
    guids = {
        derive_guid("a3d8f1b2", f"1700000000000-{count}", agent, index)
        for count in range(1000)
        for agent in ("keeper", "other")
        for index in range(1, 21)
    }

    assert len(guids) == 40_000
