"""Files of Redis agent-memory-server. The fixtures come from its client (makers/redis_ams.py)."""

import json
from pathlib import Path

import pytest

from memrelay.memory.transfer.importers.source import Fact, Fault, RefusedFile, SourceItem, Turn
from tests.support.foreign import FIXTURES, read_file, sources_of

SEARCH, WORKING = FIXTURES / "redis_ams_search.json", FIXTURES / "redis_ams_working.json"


def read(path: Path) -> list[SourceItem]:
    return read_file("redis-ams", path)


def test_a_search_has_facts_and_messages() -> None:
    first, event, message, docs, pinned = read(SEARCH)

    assert isinstance(first, Fact) and isinstance(event, Fact) and isinstance(message, Turn)
    assert isinstance(docs, Fact) and isinstance(pinned, Fact)
    assert (first.memory, first.owner, first.id) == ("redis-ams/ada", "ada", "01J000")
    assert (first.tags, first.in_context) == (("preferences",), False)
    assert first.data["entities"] == ["Ada"]
    assert event.text == "Ada visited Kyōto in spring 🌸."
    assert event.data["event_date"] == "2026-03-02T09:30:00Z"
    assert (message.thread, message.owner, message.seq) == ("trip-1", "ada", message.created_at)
    assert (docs.memory, docs.owner) == ("redis-ams/docs", None)
    assert pinned.in_context is True
    assert sources_of(SEARCH) == ["redis-ams"]


def test_a_working_memory_has_turns_and_facts_of_its_session() -> None:
    user, assistant, fact, summary, data = read(WORKING)

    assert isinstance(user, Turn) and isinstance(assistant, Turn) and isinstance(fact, Fact)
    assert (user.source, user.text, user.thread, user.owner) == (
        "user",
        "Which train?",
        "trip-2",
        "ada",
    )
    assert (assistant.source, assistant.id) == ("assistant", "01HZ1")
    assert user.seq < assistant.seq
    assert (fact.memory, fact.thread) == ("redis-ams/ada", "trip-2")
    assert summary == Fault("context", "the summary of a session is not imported")
    assert data == Fault("data", "the data of a session is not imported")
    assert sources_of(WORKING) == ["redis-ams"]


def test_what_the_server_counts_is_no_part_of_a_memory(tmp_path: Path) -> None:
    answer = json.loads(SEARCH.read_bytes())
    for memory in answer["memories"]:
        memory |= {"last_accessed": "2027-01-01T00:00:00Z", "access_count": 9, "dist": 0.9}
    later = tmp_path / "later.json"
    later.write_text(json.dumps(answer))

    assert read(later) == read(SEARCH)


def test_lines_and_lists_hold_memories_or_answers(tmp_path: Path) -> None:
    memory = {"id": "1", "text": "One.", "memory_type": "semantic"}
    lines = tmp_path / "lines.jsonl"
    lines.write_text(f"{json.dumps({'memories': [memory]})}\n{json.dumps(memory)}\n")
    listed = tmp_path / "list.json"
    listed.write_text(json.dumps([memory, {"memories": [memory, 3]}]))

    assert [one.position for one in read(lines)] == ["memories[0]", "line 2"]
    found = read(listed)
    assert [one.position for one in found] == ["[0]", "[1], memories[0]", "[1], memories[1]"]
    assert isinstance(found[0], Fact) and found[0].memory == "redis-ams/default"
    assert isinstance(found[2], Fault)


def test_a_message_names_its_speaker(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    memory = {"id": "1", "text": "user: Hi", "memory_type": "message", "session_id": "s"}
    path.write_text(json.dumps({"memories": [memory]}))

    (found,) = read(path)

    assert isinstance(found, Turn)
    assert (found.source, found.text) == ("user", "user: Hi")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"id": None}, "it has no `id`"),
        ({"text": " "}, "the text is empty"),
        ({"text": 3.5}, "`text` is not a text"),
        ({"created_at": "soon"}, 'the date "soon" has an unknown form'),
        ({"memory_type": "dream"}, 'the memory type "dream" is unknown'),
        ({"memory_type": "message"}, "a message needs a `session_id`"),
        ({"topics": "a"}, "`topics` is not a list of texts"),
    ],
)
def test_a_faulty_memory_is_left_out(
    tmp_path: Path, changes: dict[str, object], reason: str
) -> None:
    good = {"id": "1", "text": "One.", "memory_type": "semantic"}
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"memories": [good | changes, good]}))

    bad, fine = read(path)

    assert bad == Fault("memories[0]", reason)
    assert isinstance(fine, Fact)


@pytest.mark.parametrize("text", ["", "[1", '{"memories": [}', "[" * 100 + "]" * 100])
def test_a_damaged_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)

    with pytest.raises(RefusedFile):
        read(path)
