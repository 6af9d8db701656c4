"""memory_write: the tables "Input", "Output" and "wf_webhook_args" of the seed."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import ValidationError

from tests.blocks.calls import (
    MEMORY_ID,
    NOW,
    answer,
    args_of,
    ask,
    ask_store,
    envelope,
    make_call,
    make_message,
    read_json,
)
from tests.memory.builders import assert_sound, contents, make_store, read_all


def test_a_text_becomes_a_record_and_its_guid_is_returned(tmp_path: Path) -> None:
    store = make_store(tmp_path)

    said = ask_store("memory_write", "The meeting is at 3pm", store)

    (record,) = read_all(store)
    assert said == {"guid": record.guid}
    assert str(UUID(record.guid)) == record.guid
    assert record.content == "The meeting is at 3pm"


def test_the_reply_is_json_from_the_agent_with_the_same_id(tmp_path: Path) -> None:
    store = make_store(tmp_path)

    said = envelope("memory_write", "tea", store, memory_id=MEMORY_ID)

    (part,) = said["args"]
    assert (said["from"], said["id"]) == ("dispatch", "user-alias")
    assert (part["username"], part["timestamp"], part["type"]) == (
        "Keeper",
        NOW,
        "application/json",
    )
    assert isinstance(part["text"], str)


@pytest.mark.parametrize("text", ["", None])
def test_an_empty_text_is_refused_and_writes_nothing(tmp_path: Path, text: str | None) -> None:
    store = make_store(tmp_path)

    said = ask_store("memory_write", text, store)

    assert said == {"error": "no content"}
    assert read_all(store) == []


def test_the_defaults_are_the_documented_ones(tmp_path: Path) -> None:
    store = make_store(tmp_path)

    ask_store("memory_write", "tea", store)

    (record,) = read_all(store)
    assert (record.scope, record.kind, record.source, record.tags) == (
        MEMORY_ID,
        "observation",
        "dispatch",
        "[]",
    )
    assert (record.created_at, record.updated_at) == (NOW, NOW)


def test_empty_arguments_mean_the_defaults(tmp_path: Path) -> None:
    store = make_store(tmp_path)

    ask_store("memory_write", "tea", store, scope="", kind="", source="", tags="")

    (record,) = read_all(store)
    assert (record.scope, record.kind, record.source, record.tags) == (
        MEMORY_ID,
        "observation",
        "dispatch",
        "[]",
    )


def test_arguments_are_stored_with_the_record(tmp_path: Path) -> None:
    store = make_store(tmp_path)

    ask_store(
        "memory_write",
        "tea",
        store,
        scope="s",
        kind="fact",
        source="user",
        tags='["important","fact"]',
    )

    (record,) = read_all(store)
    assert (record.scope, record.kind, record.source, record.tags) == (
        "s",
        "fact",
        "user",
        '["important","fact"]',
    )


@pytest.mark.parametrize("tags", ['["a","b"]', ["a", "b"], "a,b", " a , b ", ["a", "b", "a"]])
def test_tags_are_accepted_in_every_notation(tmp_path: Path, tags: Any) -> None:
    store = make_store(tmp_path)

    ask_store("memory_write", "tea", store, tags=tags)

    assert read_all(store)[0].tags == '["a","b"]'


@pytest.mark.parametrize("tags", ['["a"', "[a]", '["a", 1]', 7, {"a": 1}, ["a", None]])
def test_malformed_tags_are_an_error_at_deploy(tags: Any) -> None:
    with pytest.raises(ValidationError, match="JSON array of strings"):
        args_of("memory_write", memory_id=MEMORY_ID, tags=tags)


@pytest.mark.parametrize(
    "memory_id", ["../../x", "/etc/x", "memories", "a/b.db", "instances/${pipeline_uid}/memories"]
)
def test_an_invalid_memory_id_is_an_error_at_deploy(memory_id: str) -> None:
    with pytest.raises(ValidationError, match="2 to 8 parts"):
        args_of("memory_write", memory_id=memory_id)


def test_a_missing_memory_id_is_a_warning_and_an_error_at_each_call() -> None:
    warnings = args_of("memory_write").warnings()

    said = ask("memory_write", "tea")

    assert said is not None
    assert read_json(said).keys() == {"error"}
    assert warnings == [read_json(said)["error"]]
    assert "memory_id" in warnings[0]


def test_an_unknown_argument_is_an_error_at_deploy() -> None:
    with pytest.raises(ValidationError, match="memory_idd"):
        args_of("memory_write", memory_idd=MEMORY_ID)


def test_a_record_expires_after_its_ttl(tmp_path: Path) -> None:
    store = make_store(tmp_path)

    ask_store("memory_write", "tea", store, ttl_s=60)
    ask_store("memory_write", "coffee", store)

    assert [record.expires_at for record in read_all(store)] == [NOW + 60_000, None]


@pytest.mark.parametrize("ttl_s", [0, -1, 1.5, "soon", 10**11])
def test_an_invalid_ttl_is_an_error_at_deploy(ttl_s: Any) -> None:
    with pytest.raises(ValidationError, match="ttl_s"):
        args_of("memory_write", memory_id=MEMORY_ID, ttl_s=ttl_s)


def test_records_accumulate(tmp_path: Path) -> None:
    store = make_store(tmp_path)

    guids = [ask_store("memory_write", "tea", store)["guid"] for _ in range(3)]

    assert len(set(guids)) == 3
    assert contents(read_all(store)) == ["tea"] * 3


def test_a_replayed_input_has_the_same_guid(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    answers = []

    for _ in range(2):
        store.begin()
        answers.append(
            answer(
                "memory_write",
                make_call(make_message(), store, input_id="1-7"),
                memory_id=MEMORY_ID,
            )
        )
        store.rollback()

    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    "text", [" ", "\x00", '"', "{{content}}", "🫖" * 1000, "x" * (1 << 20), "/write nested"]
)
def test_hostile_texts_are_stored_unchanged(tmp_path: Path, text: str) -> None:
    store = make_store(tmp_path)

    said = ask_store("memory_write", text, store)

    assert said.keys() == {"guid"}
    assert contents(read_all(store)) == [text]
    assert_sound(store.path)
