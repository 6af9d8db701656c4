"""Episodes and their steps: operations on a real store."""

from typing import Any

import pytest

from memrelay.memory.engine.store import Store
from memrelay.memory.errors import RecordNotFound, VersionConflict
from memrelay.memory.models.agent_memory.episodes import MAX_VALUE_BYTES, bounded, recent_episodes
from memrelay.memory.models.agent_memory.table import EpisodeTable
from tests.memory.builders import NOW, perform

DAY = 86_400_000
A = "workflow:a"


def begin(tx: Store, agent: str = A, now_ms: int = NOW, **given: Any) -> str:
    begun = perform(tx, "episodes.begin", now_ms=now_ms, agent_id=agent, **given)
    return str(begun.id)


def ids(tx: Store, **wanted: Any) -> list[str]:
    return [one.id for one in perform(tx, "episodes.list", **wanted).items]


def test_an_episode_keeps_input_steps_and_outcome(tx: Store) -> None:
    guid = begin(tx, execution_id="e1", user_id="telegram:7", trigger_input={"text": "tea?"})
    for number in range(3):
        step = {"sort": "action", "tool": "search", "text": f"look {number}", "result": [number]}
        assert perform(tx, "episodes.add", id=guid, **step).seq == number
    before = perform(tx, "episodes.get", id=guid).episode

    done = perform(
        tx, "episodes.complete", now_ms=NOW + 1500, id=guid, success=True, final_output="green"
    )

    found = perform(tx, "episodes.get", id=guid)
    assert (before.ended_at, before.success, before.summary) == (None, False, None)
    assert (done.duration_ms, done.success, done.user_id) == (1500, True, "telegram:7")
    assert done.summary == '{"text":"tea?"} → green' and found.episode == done
    assert (found.trigger_input, found.final_output) == ({"text": "tea?"}, "green")
    assert [(one.tool, one.text, one.result) for one in found.steps] == [
        ("search", f"look {number}", [number]) for number in range(3)
    ]
    assert found.total_steps == 3


def test_a_log_in_complete_replaces_the_steps(tx: Store) -> None:
    guid, kept = begin(tx), begin(tx)
    for episode in (guid, kept):
        perform(tx, "episodes.add", id=episode, text="one")

    steps = [{"role": "user", "text": "hi"}, {"role": "assistant", "text": "hello"}]
    perform(tx, "episodes.complete", id=guid, success=True, steps=steps)
    perform(tx, "episodes.complete", id=kept, success=False, error_code="timeout")

    replaced, other = (perform(tx, "episodes.get", id=one) for one in (guid, kept))
    assert [(one.seq, one.role, one.text) for one in replaced.steps] == [
        (0, "user", "hi"),
        (1, "assistant", "hello"),
    ]
    assert [one.text for one in other.steps] == ["one"]
    assert (other.episode.error_code, other.episode.success) == ("timeout", False)


def test_an_execution_has_one_episode_per_agent(tx: Store) -> None:
    first = begin(tx, execution_id="e1")

    assert begin(tx, execution_id="e1") == first
    assert begin(tx, "workflow:b", execution_id="e1") != first
    assert begin(tx) != begin(tx)


def test_an_episode_expires_with_its_steps(tx: Store) -> None:
    short = begin(tx, execution_id="e1", episode_days=1)
    begin(tx, execution_id="e2")
    perform(tx, "episodes.add", id=short, text="one")
    later = NOW + 2 * DAY

    assert len(ids(tx, now_ms=later)) == 1
    assert ids(tx, now_ms=NOW + 91 * DAY) == []
    with pytest.raises(RecordNotFound):
        perform(tx, "episodes.get", now_ms=later, id=short)
    assert tx.records.delete_expired(later, 100) == 2
    assert begin(tx, now_ms=later, execution_id="e1") != short


def test_lists_are_filtered_and_the_newest_is_first(tx: Store) -> None:
    first = begin(tx, user_id="u:1", session_id="s", workflow_id="w")
    second = begin(tx, "workflow:b", user_id="u:2")
    third = begin(tx, now_ms=NOW + 1)
    perform(tx, "episodes.complete", id=second, success=True)

    page = perform(tx, "episodes.list", limit=1, offset=1)
    assert ([one.id for one in page.items], page.total) == ([second], 3)
    assert ids(tx) == [third, second, first]
    assert ids(tx, agent_id=A) == [third, first]
    assert ids(tx, user_id="u:1") == ids(tx, session_id="s") == ids(tx, workflow_id="w") == [first]
    assert ids(tx, success=True) == [second] and ids(tx, success=False) == [third, first]


def test_recent_episodes_show_no_other_user(tx: Store) -> None:
    tx.records.set_actor(NOW, "")
    first, *_ = begin(tx, user_id="u:1"), begin(tx, user_id="u:2"), begin(tx)
    elsewhere = begin(tx, "workflow:b", user_id="u:1")

    def recent(agent: str, user: str, limit: int = 10) -> list[str]:
        return [one.id for one in recent_episodes(tx, agent, user, limit)]

    assert recent(A, "u:1") == [first]
    assert recent("global", "u:1") == recent("", "u:1") == [elsewhere, first]
    assert recent("", "u:1", 1) == [elsewhere]
    assert recent("", "") == []


def test_a_rating_keeps_what_it_leaves_out(tx: Store) -> None:
    guid = begin(tx)

    version = perform(tx, "episodes.rate", id=guid, rating=5, feedback="good").version
    rated = perform(tx, "episodes.rate", id=guid, rating=4, if_version=[version])

    assert rated.rating == 4 and perform(tx, "episodes.get", id=guid).feedback == "good"
    with pytest.raises(VersionConflict):
        perform(tx, "episodes.rate", id=guid, rating=1, if_version=[version])


def test_deleting_takes_the_steps_and_ignores_unknown_ids(tx: Store) -> None:
    guid, kept = begin(tx), begin(tx)
    perform(tx, "episodes.add", id=guid, text="one")

    assert perform(tx, "episodes.delete_many", ids=[guid, "nobody", guid]).deleted == 1

    assert ids(tx) == [kept] and tx.table(EpisodeTable).count_steps(guid) == 0
    assert perform(tx, "episodes.delete_many", ids=[]).deleted == 0


@pytest.mark.parametrize("name", ["add", "complete", "get", "rate"])
def test_an_unknown_episode_is_not_found(tx: Store, name: str) -> None:
    needed = {"success": True} if name == "complete" else {}
    with pytest.raises(RecordNotFound, match=r"episodes\.list"):
        perform(tx, f"episodes.{name}", id="nobody", **needed)


def test_long_and_deep_values_become_texts() -> None:
    deep: Any = []
    for _ in range(40):
        deep = [deep]

    assert bounded({"a": [1, None]}) == {"a": [1, None]}
    assert isinstance(bounded(deep), str)
    cut = bounded({"a": "é" * MAX_VALUE_BYTES})
    assert cut.endswith("…") and len(cut.encode()) <= MAX_VALUE_BYTES


def test_a_page_of_steps_fits_into_an_answer(tx: Store) -> None:
    guid = begin(tx)
    for _ in range(10):
        perform(tx, "episodes.add", id=guid, text="x" * 10_000)

    page = perform(tx, "episodes.get", result_bytes=50_000, id=guid)
    rest = perform(tx, "episodes.get", id=guid, offset=len(page.steps))

    assert 1 <= len(page.steps) < 10 and page.total_steps == 10
    assert len(page.steps) + len(rest.steps) == 10


@pytest.mark.parametrize(
    ("sql", "index"),
    [
        ("scope = 'agent:a' AND key = 'e'", "episode_keys"),
        ("1 ORDER BY created_at DESC, row DESC LIMIT 5", "episode_creations"),
        ("owner = 'u' ORDER BY created_at DESC, row DESC LIMIT 5", "episode_owners"),
    ],
)
def test_queries_use_the_indexes(tx: Store, sql: str, index: str) -> None:
    which = f"SELECT guid FROM records WHERE kind = 'memory.episode' AND {sql}"
    plan = " ".join(row[3] for row in tx.records._connection.execute(f"EXPLAIN QUERY PLAN {which}"))
    assert index in plan and "TEMP B-TREE" not in plan
