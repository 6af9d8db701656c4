"""recall: keys, queries, lists, and who sees what."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from memrelay.memory.engine.store import Store
from memrelay.memory.models.agent_memory.episodes import (
    CompletedEpisode,
    NewEpisode,
    begin_episode,
    complete_episode,
)
from memrelay.memory.operations import Context
from tests.blocks.agent_memory import ask
from tests.memory.builders import NOW, PLENTY, make_guid, make_store, perform

BOTH = ("user_id", "session_id")


@pytest.fixture
def tx(tmp_path: Path) -> Iterator[Store]:
    store = make_store(tmp_path)
    with store.transaction() as tx:
        yield tx
    store.close()


def recall(tx: Store, text: str = "", part: dict[str, Any] | None = None, **args: Any) -> Any:
    """Return the answer, parsed if it is an array."""
    said = ask(tx, "recall", text, args, part, vouched=BOTH if part else ())
    return orjson.loads(said) if said.startswith("[") else said


def query(text: str) -> str:
    return orjson.dumps({"query": text}).decode()


def keys_of(found: list[dict[str, Any]]) -> list[str]:
    return [one["key"] for one in found]


def keep(tx: Store, key: str, value: Any = "x", **given: Any) -> None:
    perform(tx, "facts.set", key=key, value=value, **given)


def procedure(tx: Store, name: str, agent_id: str) -> None:
    given = {"procedure_type": "code_snippet", "procedure_content": "x", "agent_id": agent_id}
    conditions = {"goal_contains": "weather"}
    perform(
        tx, "procedures.save", name=name, description="ask", trigger_conditions=conditions, **given
    )


def episode(tx: Store, summary: str, *, user_id: str = "", now_ms: int = NOW) -> None:
    context = Context(now_ms, "tester", PLENTY, make_guid)
    guid = begin_episode(tx, NewEpisode("a1", user_id=user_id), context)
    complete_episode(tx, CompletedEpisode(guid, success=True, summary=summary), context)


def test_an_empty_store_has_its_own_answers(tx: Store) -> None:
    assert recall(tx) == "Memory is empty — no facts stored."
    assert recall(tx, "{}") == "Memory is empty — no facts stored."
    assert recall(tx, "nope") == "No memory found for key: nope"
    assert recall(tx, query("nope")) == "No memories found for query: nope"


@pytest.mark.parametrize(
    ("value", "shown"), [("blue", "blue"), ({"a": 1}, '{"a":1}'), (False, "false"), (0, "0")]
)
def test_a_key_returns_its_value_and_counts(tx: Store, value: Any, shown: str) -> None:
    keep(tx, "color", value, confidence=0.1)

    for text in ("color", ' {"key": "color", "query": "x"}', '{"key": "color"}'):
        assert recall(tx, text, memory_type="episodes") == f"color = {shown}"
    assert perform(tx, "facts.get", key="color").access_count == 3


def test_a_key_without_a_fact_is_searched(tx: Store) -> None:
    keep(tx, "local_time_zone", "CET")

    found = recall(tx, "local time")

    assert found == [{"key": "local_time_zone", "value": "CET", "confidence": 1.0}]
    assert perform(tx, "facts.get", key="local_time_zone").access_count == 0


def test_an_empty_text_lists_the_newest_changes(tx: Store) -> None:
    for key in "abc":
        keep(tx, key, confidence=0.1)
    keep(tx, "a", 2, now_ms=NOW + 1)

    assert keys_of(recall(tx)) == ["a", "c", "b"]
    assert keys_of(recall(tx, '{"key": "", "query": null}', limit=1)) == ["a"]


def test_a_query_without_content_gets_the_newest_facts(tx: Store) -> None:
    for number, key in enumerate(("color", "city", "food")):
        keep(tx, key, now_ms=NOW + number)

    assert keys_of(recall(tx, query("what do you know about me?"), limit=2)) == ["food", "city"]
    assert recall(tx, query("what about tea?")) == "No memories found for query: what about tea?"


def test_a_query_finds_facts_by_words(tx: Store) -> None:
    for key in ("lesson_local_time_command", "local_time_zone", "get-local-time", "color"):
        keep(tx, key)

    assert len(recall(tx, query("local time"))) == 3
    assert recall(tx, query("- _")) == "No memories found for query: - _"
    keep(tx, "local_time_zone", 1, confidence=0.2)
    assert len(recall(tx, query("local time"))) == 2
    assert len(recall(tx, query("local time"), min_confidence=0)) == 3
    assert len(recall(tx, query("local time"), limit=1)) == 1


def test_facts_of_others_are_invisible(tx: Store) -> None:
    keep(tx, "mine", scope="user", user_id="u1")
    keep(tx, "here", scope="session", session_id="s1")
    keep(tx, "ours", scope="agent", agent_id="a1")

    part = {"user_id": "u1", "session_id": "s1"}
    assert sorted(keys_of(recall(tx, "", part, agent_id="a1"))) == ["here", "mine", "ours"]
    assert keys_of(recall(tx, "", part)) == ["here", "mine"]
    assert recall(tx, "mine", {"user_id": "u2"}) == "No memory found for key: mine"
    assert ask(tx, "recall", "mine", {}, part) == "No memory found for key: mine"


def test_all_types_come_in_order(tx: Store) -> None:
    keep(tx, "weather_site", "wttr")
    procedure(tx, "forecast", "a1")
    episode(tx, "asked about the Weather", user_id="u1")
    part = {"user_id": "u1"}

    found = recall(tx, query("weather"), part, memory_type="all")

    assert found == [
        {"key": "weather_site", "value": "wttr", "confidence": 1.0},
        {"type": "procedure", "name": "forecast", "description": "ask"},
        {"type": "episode", "summary": "asked about the Weather"},
    ]
    assert recall(tx, query("weather"), part, memory_type="procedures") == found[1:2]
    assert recall(tx, query("weather"), part, memory_type="episodes") == found[2:]
    assert recall(tx, query("weather"), part) == found[:1]
    other = {"memory_type": "all", "agent_id": "a2"}
    assert recall(tx, query("weather"), part, **other) == found[:1]


def test_only_episodes_of_the_user_are_visible(tx: Store) -> None:
    for user in ("u1", "u2", ""):
        episode(tx, f"tea with {user or 'nobody'}", user_id=user)
    only = {"memory_type": "episodes"}

    found = recall(tx, query("tea"), {"user_id": "u1"}, **only)

    assert [one["summary"] for one in found] == ["tea with u1"]
    for part in (None, {"user_id": ""}):
        assert recall(tx, query("tea"), part, **only) == "No memories found for query: tea"


def test_only_the_newest_five_episodes_are_compared(tx: Store) -> None:
    part = {"user_id": "u1"}
    episode(tx, "tea", user_id="u1", now_ms=NOW)
    for number in range(1, 6):
        episode(tx, f"talk {number}", user_id="u1", now_ms=NOW + number)

    assert recall(tx, query("tea"), part, memory_type="all") == "No memories found for query: tea"
    assert len(recall(tx, query("talk"), part, memory_type="all")) == 5
    assert len(recall(tx, query("talk"), part, memory_type="all", limit=2)) == 2


def test_a_failure_has_its_reason(tx: Store) -> None:
    keep(tx, "k", "x" * 5000)

    long = orjson.dumps({"query": "q" * 1025}).decode()
    assert recall(tx, long).startswith("Error reading memory: the query has 1025 characters")
    assert recall(tx, '{"key": 5}').startswith("Error reading memory: `key` and `query` are texts")
    too_long = ask(tx, "recall", "k", message_bytes=1000)
    assert too_long.startswith("Error reading memory: the result has more than 1000 bytes")
