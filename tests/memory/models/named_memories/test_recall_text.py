"""The text of a recall: days, the newest line first, and questions without content."""

import re
from typing import Any

import pytest

from memrelay.memory.engine.store import Store
from tests.memory.builders import NOW, perform
from tests.memory.models.named_memories.entry_cases import A, B, C, make_memory
from tests.memory.models.named_memories.entry_cases import write_embedded as write

DAY_MS = 86_400_000
OLD, NEW = "The user prefers aisle seats", "The user prefers window seats"


def recall(tx: Store, query: str, **keys: Any) -> list[str]:
    """Return the lines of the context without ids, and without the fence."""
    text = perform(tx, "knowledge.context", query=query, **keys).text
    return [re.sub(r" \(me_\w+\)", "", line).strip() for line in text.splitlines()[3:-1]]


def test_each_line_has_its_day_and_the_newest_comes_first(embedded_tx: Store) -> None:
    tx, memory = embedded_tx, make_memory(embedded_tx)
    for day, text in enumerate((OLD, NEW)):
        write(tx, memory, text, now_ms=NOW + day * DAY_MS)

    assert recall(tx, "which seats does the user prefer") == [
        f"[Memory: Customer] {NEW} (2023-11-15)",
        f"{OLD} (2023-11-14, outdated)",
    ]


def test_separate_entries_of_one_topic_are_dated_and_ordered(embedded_tx: Store) -> None:
    tx, memory = embedded_tx, make_memory(embedded_tx)
    texts = ["The travel budget is $2,000", "The travel budget is $20,000"]
    for day, text in enumerate((*texts, texts[0])):
        write(tx, memory, text, now_ms=NOW + day * DAY_MS)

    assert recall(tx, "what is the travel budget") == [
        f"[Memory: Customer] {texts[0]} (2023-11-16)",
        f"[Memory: Customer] {texts[1]} (2023-11-15, outdated)",
    ]


def test_a_contradiction_in_another_memory_is_not_outdated(embedded_tx: Store) -> None:
    for day, text in enumerate((OLD, NEW)):
        memory = make_memory(embedded_tx, f"person {day}")
        write(embedded_tx, memory, text, now_ms=NOW + day * DAY_MS)

    assert "outdated" not in "\n".join(recall(embedded_tx, "which seats are preferred"))


def test_without_ids_the_lines_are_those_of_soat(embedded_tx: Store) -> None:
    write(embedded_tx, make_memory(embedded_tx), A)

    context = perform(embedded_tx, "knowledge.context", query="email", with_ids=False)

    assert f"\n[Memory: Customer] {A}\n  (2023-11-14)\n" in context.text


def test_lines_written_together_keep_their_order(embedded_tx: Store) -> None:
    steps = "Restart the pump:\n1. close the valve\n2. press reset"
    write(embedded_tx, make_memory(embedded_tx), steps)

    assert recall(embedded_tx, "how to restart the pump") == [
        "[Memory: Customer] Restart the pump:",
        "1. close the valve",
        "2. press reset (2023-11-14)",
    ]


@pytest.mark.parametrize(
    "question", ["What do you know about me?", "Tell me everything", "do you remember us?"]
)
def test_a_question_without_content_gets_the_newest_and_most_confirmed_facts(
    tx: Store, question: str
) -> None:
    memory = make_memory(tx)
    texts = [A, B, C, "The dog is called Rex", "Ada plays the violin"]
    for day, text in enumerate(texts):
        perform(tx, "entries.create", memory_id=memory, content=text, now_ms=NOW + day * DAY_MS)
    for _ in range(2):
        perform(tx, "entries.create", memory_id=memory, content=B, now_ms=NOW + DAY_MS)

    found = recall(tx, question, limit=3)

    assert found == [
        "[Memory: Customer] Ada plays the violin (2023-11-18)",
        "[Memory: Customer] The dog is called Rex (2023-11-17)",
        f"[Memory: Customer] {B} (2023-11-15)",
    ]
    assert recall(tx, "what is the weather on Mars") == []
