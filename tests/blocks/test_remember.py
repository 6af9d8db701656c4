"""remember: what it stores, and its answers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from memrelay.memory.engine.store import Store
from tests.blocks.agent_memory import ask
from tests.memory.builders import make_store, perform


@pytest.fixture
def tx(tmp_path: Path) -> Iterator[Store]:
    store = make_store(tmp_path)
    with store.transaction() as tx:
        yield tx
    store.close()


def remember(tx: Store, text: str | dict[str, Any], **args: Any) -> str:
    return ask(tx, "remember", text if isinstance(text, str) else orjson.dumps(text).decode(), args)


def test_a_fact_is_created_then_updated(tx: Store) -> None:
    assert remember(tx, "color = blue") == "Remembered: color = blue (created)"
    assert remember(tx, "color = blue") == "Remembered: color = blue (updated)"
    assert remember(tx, "color=green") == "Remembered: color = green (updated)"


def test_without_overwrite_the_stored_value_is_shown(tx: Store) -> None:
    assert remember(tx, "color = blue", overwrite=False) == "Remembered: color = blue (created)"
    assert remember(tx, "color = red", overwrite=False) == "Remembered: color = blue (skipped)"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"key": "k", "value": {"a": [1, None]}}, 'k = {"a":[1,null]}'),
        ({"key": "k", "value": False}, "k = false"),
        ({"key": "k", "value": 0}, "k = 0"),
        ({"key": " k ", "value": "a = b"}, "k = a = b"),
        ("k = a = b", "k = a = b"),
        ("{k = x", "{k = x"),
    ],
)
def test_values_are_any_json(tx: Store, given: Any, shown: str) -> None:
    assert remember(tx, given) == f"Remembered: {shown} (created)"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "key"),
        ("= blue", "key"),
        ('{"value": 1}', "key"),
        ('{"key": 5, "value": 1}', "key"),
        ('{"key": " ", "value": 1}', "key"),
        ("color", "value"),
        ("color =", "value"),
        ('{"key": "color"}', "value"),
        ('{"key": "color", "value": null}', "value"),
        ('{"key": "color", "value": ""}', "value"),
    ],
)
def test_a_key_and_a_value_are_required(tx: Store, text: str, fault: str) -> None:
    assert remember(tx, text) == f"Error: {fault} is required"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"key": "k", "value": 1, "fact_type": "corection"}, "did you mean 'correction'"),
        ({"key": "k" * 256, "value": 1}, "1 to 255 characters"),
        ({"key": "a\nb", "value": 1}, "one line"),
        ({"key": "k", "value": "x" * 65_000}, "split it over several keys"),
    ],
)
def test_a_failure_has_its_reason(tx: Store, given: dict[str, Any], reason: str) -> None:
    answer = remember(tx, given)

    assert answer.startswith("Error writing memory: ") and reason in answer
    assert perform(tx, "facts.list").total == 0


def test_the_type_and_the_scope_come_from_the_text_and_the_arguments(tx: Store) -> None:
    remember(tx, {"key": "a", "value": 1, "fact_type": "correction"}, fact_type="relationship")
    remember(tx, {"key": "b", "value": 1}, fact_type="relationship", scope="agent", agent_id="a1")

    b, a = perform(tx, "facts.list").items
    assert (a.fact_type, b.fact_type) == ("correction", "relationship")
    assert (a.scope, b.scope, b.agent_id) == ("global", "agent", "a1")


def test_only_a_trusted_user_has_facts(tx: Store) -> None:
    args = {"scope": "user"}
    part = {"user_id": "u1"}

    assert "needs `user_id`" in ask(tx, "remember", "k = 1", args, part, vouched=())
    assert "(created)" in ask(tx, "remember", "k = 1", args, part, vouched=("user_id",))
    assert perform(tx, "facts.list").items[0].user_id == "u1"
    long = {"user_id": "u" * 300}
    assert "at most 240" in ask(tx, "remember", "k = 1", args, long, vouched=("user_id",))
