"""What the adapters share: documents by key, conversations, and what fits a message."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memrelay import open_store
from memrelay.integrations.conversation import Conversation
from memrelay.integrations.documents import Documents, find_documents
from memrelay.integrations.recall import HEADING, Recall


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Any]:
    with open_store(tmp_path / "memory.db", embedder="none") as opened:
        yield opened


def test_documents_come_back_equal_and_are_listed_by_scope(store: Any) -> None:
    ours, theirs = Documents(store, "a/one"), Documents(store, "a/two")
    run = ours.calls.run_steps
    large = {"text": "\u00e9" * 100_000, "n": [2**70, 1e-7, None], "deep": [[[[[{}]]]]] * 20}

    run(ours.put("x", large))
    run(theirs.put("x", [1]))
    run(ours.put("y", 2))
    run(ours.put("y", 3))

    assert run(ours.get("x")) == large and run(ours.get("none")) is None
    assert run(ours.list()) == {"x": large, "y": 3}
    assert run(find_documents("a", "x")) == [("a/one", large), ("a/two", [1])]
    assert run(ours.delete(["x", "none"])) == 1
    assert run(find_documents("a")) == [("a/two", [1]), ("a/one", 3)]


def test_no_search_finds_a_document(store: Any) -> None:
    documents = Documents(store, "a")
    documents.calls.run_steps(documents.put("x", {"drink": "tea"}))

    assert not store.records.search("tea").items


def test_a_long_conversation_is_replaced_and_read_in_pages(store: Any) -> None:
    turns = Conversation(store, "chat", user="ada")
    run = turns.calls.run_steps
    run(turns.add([{"content": "old"}] * 3))

    run(turns.replace([{"content": str(n)} for n in range(2001)]))

    contents = [turn["content"] for turn in run(turns.list())]
    assert contents == [str(n) for n in range(2001)]
    run(turns.replace([]))
    assert run(turns.list()) == []


def test_recall_finds_what_the_user_and_no_other_said_in_other_threads(store: Any) -> None:
    for user, thread, text in (
        ("ada", "old", "I may not eat nuts\nnever"),
        ("ada", "now", "Which nuts?"),
        ("bob", "old", "Nuts are fine"),
    ):
        store.turns.add([{"content": text}], thread=thread, user=user)
    store.items.put("guide", "nuts", "nuts", agent="guide")
    recall = Recall(store, user="ada")
    run = recall.calls.run_steps

    heading, *lines = run(recall.find("nuts", present="now")).splitlines()
    assert heading == HEADING
    assert len(lines) == 1 and lines[0].startswith('{"content":"I may not eat nuts\\nnever"')
    assert len(run(recall.find("nuts")).splitlines()) == 3
    assert run(recall.find(" \n")) == "" == run(recall.find("tea"))
    # A search refuses so many words. The beginning has too few of the record.
    assert run(recall.find("nuts " + " ".join(str(n) for n in range(9000)))) == ""
