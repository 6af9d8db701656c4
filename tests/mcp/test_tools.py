"""The tools of the toolset `memory` on a store file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memrelay.web.mcp.tool import ToolError
from tests.support.mcp_tools import ToolCaller, tools_on_file

FACT = "Ada likes tea"


@pytest.fixture
def call(tmp_path: Path) -> Iterator[ToolCaller]:
    with tools_on_file(tmp_path / "notes.db") as caller:
        yield caller


def test_a_remembered_fact_is_recalled_and_its_repetition_skipped(call: ToolCaller) -> None:
    first = call("memory_remember", text=FACT)
    second = call("memory_remember", text=FACT)

    found = call("memory_recall", query="what does Ada drink")

    assert (first["action"], second["action"]) == ("created", "skipped")
    assert first["id"] == second["id"] and found["entry_ids"] == [first["id"]]
    assert f"[Memory: notes ({first['id']})] {FACT}" in found["text"]
    assert call.text("memory_recall", query="what does Ada drink") == found["text"]


def test_a_fact_keeps_its_memory_tags_metadata_and_source(call: ToolCaller) -> None:
    written = call(
        "memory_remember", text=FACT, memory="people", tags=["drinks"], metadata={"page": 3}
    )

    entry = call.target.operate("entries.get", {"id": written["id"]})
    memory = call.target.operate("memories.get", {"id": written["memory_id"]})

    assert (entry["tags"], entry["metadata"], entry["source"]) == (["drinks"], {"page": 3}, "agent")
    assert memory["name"] == "people"


def test_a_recall_is_limited_by_memory_and_tags(call: ToolCaller) -> None:
    tea = call("memory_remember", text="Ada drinks tea", memory="ada", tags=["hot"])["id"]
    milk = call("memory_remember", text="Bob drinks milk", memory="bob", tags=["cold"])["id"]

    def recall(**named: Any) -> set[str]:
        answer = call("memory_recall", query="Who drinks what?", min_score=0, **named)
        return set(answer["entry_ids"])

    assert recall() == {tea, milk}
    assert recall(memory="ada") == recall(tags=["h*"]) == {tea}
    assert recall(memory="bob", limit=1) == {milk}
    with pytest.raises(ToolError, match="omit `memory` to search all memories"):
        recall(memory="nobody")


def test_a_recall_states_what_is_left_out(call: ToolCaller) -> None:
    for number in range(3):
        call("memory_remember", text=f"Tea {number}: " + "green leaf " * 30, mode="create")

    text = call.text("memory_recall", query="tea", min_score=0, token_budget=220)

    assert text.endswith("</knowledge>\n2 more found; raise token_budget to read them.")
    assert call.text("memory_recall", query="tea", memory="notes", limit=0) == (
        "No fact is about that."
    )


def test_a_record_is_written_found_read_and_appended_to(call: ToolCaller) -> None:
    written = call(
        "memory_write", content="The harbor freezes", kind="note", tags=["sea"], data={"n": 1}
    )
    call("memory_write", content="Nothing of that")
    grown = call("memory_write", content="in May", append_to=written["guid"])

    (hit,) = call("memory_search", query="harbors", kind="note")["items"]
    record = call("memory_read", guid=written["guid"])

    assert written["created"] and grown == {"guid": written["guid"], "created": False}
    assert record["content"] == "The harbor freezes\nin May"
    assert (record["kind"], record["tags"], record["data"]) == ("note", ["sea"], {"n": 1})
    assert hit["record"] == record and hit["score"] > 0


def test_an_empty_field_of_a_record_is_left_out(call: ToolCaller) -> None:
    guid = call("memory_write", content="plain")["guid"]

    record = call("memory_read", guid=guid)

    assert {"owner", "expires_at", "thread", "tags", "data"}.isdisjoint(record)
    assert record["in_context"] is False and record["version"]


def test_a_search_explains_itself(call: ToolCaller) -> None:
    call("memory_write", content="tea")

    found = call("memory_search", query="tea", mode="fts", explain=True)

    assert found["explanation"] and found["left_out"] == 0


def test_records_are_listed_in_pages_by_filters(call: ToolCaller) -> None:
    for number in range(5):
        call("memory_write", content=f"note {number}", kind="note", data={"n": number})
    call("memory_write", content="other")

    late = {"kind": "note", "filter": {"data.n": {"gte": 2}}, "limit": 2}
    first = call("memory_read", **late)
    second = call("memory_read", **late, cursor=first["next_cursor"])

    texts = [one["content"] for page in (first, second) for one in page["items"]]
    assert texts == ["note 2", "note 3", "note 4"]
    assert first["total"] == 3 and "next_cursor" not in second
    assert call("memory_read", order="desc", limit=1)["items"][0]["content"] == "other"


def test_a_change_and_a_deletion_can_be_undone(call: ToolCaller) -> None:
    guid = call("memory_write", content="first")["guid"]
    changed = call("memory_change", guid=guid, content="second", reason="a correction")
    call("memory_forget", guid=guid, reason="outdated")

    deleted = call("memory_read", deleted=True)["items"]
    restored = call("memory_change", guid=guid, restore=0)
    states = call("memory_history", guid=guid)["items"]
    first = call("memory_change", guid=guid, restore=1, if_version=[restored["version"]])

    assert changed["content"] == restored["content"] == deleted[0]["content"] == "second"
    assert first["content"] == "first"
    assert [one.get("reason") for one in states] == [None, None, "outdated", "a correction"]
    assert states[-1]["actor"] == "mcp"


def test_a_corrected_fact_replaces_the_old_one_and_says_so(call: ToolCaller) -> None:
    for text in ("The user prefers aisle seats", "The user prefers window seats"):
        written = call("memory_remember", text=text)
    text = call("memory_recall", query="which seats does the user prefer")["text"]

    assert written["replaced"] == ["The user prefers aisle seats"]
    assert "write the old text again with the mode `create`" in written["hint"]
    assert "window" in text and "aisle" not in text

    call("memory_remember", text="The user prefers aisle seats", mode="create")
    both = call("memory_recall", query="which seats does the user prefer")["text"]
    assert "window" in both and "aisle" in both


def test_a_fact_is_changed_by_the_id_that_recall_prints(call: ToolCaller) -> None:
    fact = call("memory_remember", text=FACT)["id"]

    changed = call("memory_change", guid=fact, content="Ada likes mint tea", tags=["drinks"])
    text = call("memory_recall", query="what does Ada drink")["text"]

    assert (changed["guid"], changed["content"]) == (fact, "Ada likes mint tea")
    assert f"({fact})] Ada likes mint tea" in text
    with pytest.raises(ToolError, match="has a text, tags and data only: omit `kind`"):
        call("memory_change", guid=fact, kind="note")
    with pytest.raises(ToolError, match="give `content`, `tags` or `data`"):
        call("memory_change", guid=fact, reason="none")


def test_a_fact_is_forgotten_by_its_id(call: ToolCaller) -> None:
    fact = call("memory_remember", text=FACT)["id"]

    answer = call("memory_forget", guid=fact, reason="Ada asked for it")

    assert answer == {"deleted": fact}
    assert not call("memory_recall", query="what does Ada drink")["entry_ids"]
    with pytest.raises(ToolError, match="Memory entry not found"):
        call("memory_forget", guid=fact)


def test_a_history_continues_with_its_cursor(call: ToolCaller) -> None:
    guid = call("memory_write", content="0")["guid"]
    for number in (1, 2):
        call("memory_change", guid=guid, content=str(number))

    first = call("memory_history", guid=guid, limit=2)
    second = call("memory_history", guid=guid, limit=2, cursor=first["next_cursor"])

    states = [*first["items"], *second["items"]]
    assert [one["record"]["content"] for one in states] == ["2", "1", "0"]
    assert "next_cursor" not in second


@pytest.mark.parametrize("name", ["memory_change", "memory_forget"])
def test_another_version_is_not_changed(call: ToolCaller, name: str) -> None:
    guid = call("memory_write", content="first")["guid"]
    change = {"content": "second"} if name == "memory_change" else {}

    with pytest.raises(ToolError, match="read it again and retry with its version"):
        call(name, guid=guid, if_version=["0-0"], **change)

    assert call("memory_read", guid=guid)["content"] == "first"


@pytest.mark.parametrize(
    ("name", "arguments", "rule"),
    [
        ("memory_write", {"content": "x", "append_to": "g", "kind": "note", "key": "k"},
         "`append_to` only appends text: omit `kind`, `key`"),
        ("memory_change", {"guid": "g"}, "nothing to change: give one of `content`, "),
        ("memory_change", {"guid": "g", "restore": 1, "content": "x"},
         "`restore` makes no other change: omit `content`"),
        ("memory_read", {"guid": "g", "kind": "note"}, "`guid` selects one record: omit `kind`"),
        ("memory_read", {"offset": 3}, "a list has no part of a text: omit `offset`"),
        ("memory_read", {"guid": "g"}, "use memory_read or memory_search to find records"),
        ("memory_search", {"query": "tea", "filter": {"owner": {"like": "A"}}}, "/filter/owner/l"),
        ("memory_remember", {"text": ""}, "/text: '' should be non-empty"),
        ("memory_write", {"content": "x", "expires_at": "yesterday"}, "`expires_at` is a time"),
        ("memory_search", {"query": "tea", "store": "other"}, "omit `store`"),
        ("memory_remember", {"fact": FACT}, "'text' is a required property"),
    ],
)  # fmt: skip
def test_a_refused_call_names_the_rule_and_the_fix(
    call: ToolCaller, name: str, arguments: dict[str, Any], rule: str
) -> None:
    with pytest.raises(ToolError) as refused:
        call(name, **arguments)

    assert rule in str(refused.value)


def test_facts_and_notes_are_listed_and_searched_apart(call: ToolCaller) -> None:
    call("memory_write", content="Ada bought tea")
    fact = call("memory_remember", text=FACT, tags=["drinks"], metadata={"page": 3})
    call("memory_remember", text="Ben plays chess", memory="people")

    def list_facts(**named: Any) -> list[str]:
        return [one["content"] for one in call("memory_read", **named)["items"]]

    assert list_facts(memory="*") == [FACT, "Ben plays chess"]
    assert list_facts(memory="notes") == list_facts(memory=fact["memory_id"]) == [FACT]
    assert list_facts(memory="*", tags=["drinks"]) == [FACT]
    assert list_facts(memory="*", limit=1, order="desc") == ["Ben plays chess"]
    assert list_facts() == list_facts(filter={"scope": {"ne": "x"}}) == ["Ada bought tea"]
    (hit,) = call("memory_search", query="Ada tea")["items"]
    assert hit["record"]["content"] == "Ada bought tea"
    (listed,) = call("memory_read", memory="notes")["items"]
    assert (listed["id"], listed["memory"]) == (fact["id"], "notes")
    assert (listed["tags"], listed["metadata"]) == (["drinks"], {"page": 3})
    with pytest.raises(ToolError, match="no memory 'nobody'; known: notes, people"):
        call("memory_read", memory="nobody")
    with pytest.raises(ToolError, match="`memory` lists facts: omit `kind`"):
        call("memory_read", memory="*", kind="note")


def test_a_forgotten_fact_is_listed_restored_and_has_a_history(call: ToolCaller) -> None:
    fact = call("memory_remember", text=FACT)["id"]
    call("memory_forget", guid=fact, reason="a mistake")

    (deleted,) = call("memory_read", memory="*", deleted=True)["items"]
    restored = call("memory_change", guid=fact, restore=0)
    states = call("memory_history", guid=fact)["items"]

    assert deleted["id"] == restored["id"] == fact and restored["content"] == FACT
    assert [one.get("change") for one in states] == [None, "restore", "delete"]
    assert {one["record"]["id"] for one in states if "record" in one} == {fact}
    assert call("memory_read", guid=fact)["content"] == FACT
    assert call("memory_recall", query="what does Ada drink")["entry_ids"] == [fact]


def test_notes_and_facts_are_read_as_they_were(call: ToolCaller) -> None:
    note = call("memory_write", content="The harbor opens at six")["guid"]
    fact = call("memory_remember", text=FACT)["id"]
    then = "n:3"
    call("memory_change", guid=note, content="The harbor opens at seven")
    call("memory_forget", guid=fact)

    (found,) = call("memory_read", as_of=then)["items"]
    assert found["content"] == "The harbor opens at six"
    assert call("memory_read", guid=fact, as_of=then)["content"] == FACT
    assert call("memory_read", memory="*", as_of=then)["items"][0]["id"] == fact
    assert call("memory_recall", query="what does Ada drink", as_of=then)["entry_ids"] == [fact]
    assert call("memory_recall", query="what does Ada drink")["entry_ids"] == []
    assert len(call("memory_search", query="six", as_of=then, mode="fts")["items"]) == 1
    with pytest.raises(ToolError, match="RFC 3339"):
        call("memory_read", as_of="yesterday")
