"""memory_turn: the text, speaker, time and thread of each message."""

from pathlib import Path
from typing import Any

import apsw
import pytest
from pydantic import ValidationError

from memrelay.memory.engine.store import Store
from tests.blocks.calls import MEMORY_ID, NOW, UID, answer, args_of, make_call, make_message
from tests.memory.builders import make_store, read_all


def hear(
    store: Store,
    text: str | None,
    *,
    part: dict[str, Any] | None = None,
    now_ms: int = NOW,
    **args: Any,
) -> Any:
    with store.transaction() as tx:
        call = make_call(make_message(text, **(part or {})), tx, now_ms=now_ms)
        return answer("memory_turn", call, **({"memory_id": MEMORY_ID} | args))


def turns(store: Store) -> list[tuple[Any, ...]]:
    return (
        apsw.Connection(store.path)
        .execute("SELECT thread, seq, source, content FROM records ORDER BY row")
        .fetchall()
    )


def test_messages_are_stored_in_order_with_their_speaker(tmp_path: Path) -> None:
    store = make_store(tmp_path)

    for speaker, text in (("Ann", "one"), ("Bob", "two"), ("Ann", "three")):
        assert hear(store, text, part={"username": speaker}) is None

    assert turns(store) == [
        (f"{UID}/keeper", 0, "Ann", "one"),
        (f"{UID}/keeper", 1, "Bob", "two"),
        (f"{UID}/keeper", 2, "Ann", "three"),
    ]


def test_an_empty_argument_is_the_same_as_an_absent_one(tmp_path: Path) -> None:
    store = make_store(tmp_path)

    hear(store, "tea", kind="", scope="", thread="")

    assert [(one.kind, one.scope) for one in read_all(store)] == [("turn", MEMORY_ID)]


def test_a_turn_has_the_time_of_its_message_unless_that_is_in_the_future(tmp_path: Path) -> None:
    store = make_store(tmp_path)

    for timestamp in (NOW - 9, (NOW - 5000) / 1000, NOW + 9, -7, "no time", 1e300):
        hear(store, "tea", part={"timestamp": timestamp})

    assert [one.created_at for one in read_all(store)] == [NOW - 9, NOW - 5000, NOW, 0, NOW, NOW]


def test_a_turn_expires_after_its_ttl_and_keeps_its_place(tmp_path: Path) -> None:
    store = make_store(tmp_path)

    for text, ttl_s in (("one", None), ("two", 60), ("three", None)):
        hear(store, text, part={"timestamp": NOW - 5}, ttl_s=ttl_s)

    assert [(seq, text) for _, seq, _, text in turns(store)] == [
        (0, "one"),
        (1, "two"),
        (2, "three"),
    ]
    assert [(one.created_at, one.expires_at) for one in read_all(store)] == [
        (NOW - 5, None),
        (NOW - 5, NOW + 60_000),
        (NOW - 5, None),
    ]


def test_without_a_username_the_source_is_the_sender(tmp_path: Path) -> None:
    store = make_store(tmp_path)

    hear(store, "tea", part={"username": None})
    hear(store, "tea", part={"username": ""})

    assert [one.source for one in read_all(store)] == ["User", "User"]


def test_the_defaults_describe_a_turn(tmp_path: Path) -> None:
    store = make_store(tmp_path)

    hear(store, "tea")
    hear(store, "tea", scope="s", kind="k", tags=["a"])

    assert [(one.scope, one.kind, one.tags) for one in read_all(store)] == [
        (MEMORY_ID, "turn", "[]"),
        ("s", "k", '["a"]'),
    ]


@pytest.mark.parametrize("text", ["", None])
def test_a_message_without_text_is_not_stored(tmp_path: Path, text: str | None) -> None:
    store = make_store(tmp_path)

    assert hear(store, text) is None
    assert read_all(store) == []


@pytest.mark.parametrize(
    ("template", "thread"),
    [
        ("talk", "talk"),
        ("{{swarm}} of {{ username }}", "keeper of Ann"),
        ("{{date}}", "2023-11-14"),
        ("{{pipeline}}/{{from}}", f"{UID}/User"),
        ("x" * 600, "x" * 512),
    ],
)
def test_a_thread_name_may_contain_fields_of_the_message(
    tmp_path: Path, template: str, thread: str
) -> None:
    store = make_store(tmp_path)

    hear(store, "tea", thread=template)

    assert turns(store)[0][0] == thread


@pytest.mark.parametrize(
    "thread",
    [
        "{{from.name}}",
        "{{from|upper}}",
        "{{user name}}",
        "{{user-name}}",
        "{{from",
        "from}}",
        "{{}}",
    ],
)
def test_a_thread_name_with_other_double_braces_is_refused(thread: str) -> None:
    with pytest.raises(ValidationError, match=r"known are \{\{pipeline\}\}"):
        args_of("memory_turn", memory_id=MEMORY_ID, thread=thread)


@pytest.mark.parametrize("thread", ["{from}", "{{from}} { }", "{{{from}}{", "a-{{date}}"])
def test_single_braces_are_text(thread: str) -> None:
    assert (
        args_of("memory_turn", memory_id=MEMORY_ID, thread=thread).model_dump()["thread"] == thread
    )


def test_an_unknown_token_is_refused_at_deploy() -> None:
    with pytest.raises(ValidationError, match=r"unknown token \{\{user\}\}; known are"):
        args_of("memory_turn", memory_id=MEMORY_ID, thread="{{user}}")


def test_a_memory_id_is_required() -> None:
    said = answer("memory_turn", make_call(make_message("tea")))

    assert said is not None
    assert "memory_id is missing" in said["args"][0]["text"]


def test_a_hostile_name_is_stored_unchanged(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    names = ["'; DROP TABLE records", 'a"b', "{{date}}", "a\x00b", "名前"]

    for name in names:
        hear(store, "tea", part={"username": name}, thread="{{username}}")

    assert [one.source for one in read_all(store)] == names
    assert [thread for thread, *_ in turns(store)] == names
