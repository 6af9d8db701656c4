"""memory_append: the lookup order and results of the seed, and the choices that it leaves open."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from memrelay.memory.engine.store import Store
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
from tests.memory.builders import (
    assert_sound,
    contents,
    find,
    make_guid,
    make_store,
    read_all,
    write_all,
)


def append(store: Store, text: str | None, **args: Any) -> Any:
    return ask_store("memory_append", text, store, **args)


def test_text_is_appended_to_the_record_of_the_guid(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    _, guid = write_all(store, "one", "two")

    assert append(store, "more", guid=guid) == {"guid": guid, "appended": True}
    assert contents(read_all(store)) == ["one", "two\nmore"]
    assert contents(find(store, "two more")) == ["two\nmore"]
    assert_sound(store.path)


@pytest.mark.parametrize("field", ["text", "content"])
def test_a_guid_in_the_text_selects_the_record(tmp_path: Path, field: str) -> None:
    store = make_store(tmp_path)
    _, guid = write_all(store, "one", "two")
    text = json.dumps({"guid": guid, field: "more"})

    assert append(store, text, kind="session_log") == {"guid": guid, "appended": True}
    assert contents(read_all(store)) == ["one", "two\nmore"]


@pytest.mark.parametrize("as_text", [False, True])
def test_a_guid_in_the_part_of_the_message_selects_the_record(
    tmp_path: Path, as_text: bool
) -> None:
    store = make_store(tmp_path)
    _, guid = write_all(store, "one", "two")
    targs: Any = {"guid": guid}
    message = make_message("more", targs=json.dumps(targs) if as_text else targs)

    with store.transaction() as tx:
        said = answer("memory_append", make_call(message, tx), memory_id=MEMORY_ID)

    assert said is not None and read_json(said) == {"guid": guid, "appended": True}
    assert contents(read_all(store)) == ["one", "two\nmore"]


@pytest.mark.parametrize("more", [{}, {"text": "more", "level": "info"}])
def test_other_json_is_text(tmp_path: Path, more: dict[str, str]) -> None:
    store = make_store(tmp_path)
    (guid,) = write_all(store, "one")
    text = json.dumps({"guid": guid} | more)

    assert "created" in append(store, text)
    assert contents(read_all(store)) == ["one", text]


@pytest.mark.parametrize("field", ["text", "content"])
def test_a_guid_with_an_empty_text_has_no_content(tmp_path: Path, field: str) -> None:
    store = make_store(tmp_path)
    (guid,) = write_all(store, "one")

    assert append(store, json.dumps({"guid": guid, field: ""})) == {"error": "no content"}


def test_a_guid_takes_precedence_over_the_filters(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    (older,) = write_all(store, "older", kind="log")
    (guid,) = write_all(store, "named", kind="other")

    assert append(store, "more", guid=guid, kind="log") == {"guid": guid, "appended": True}
    assert older != guid


def test_an_unknown_guid_falls_back_to_the_filters(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    (guid,) = write_all(store, "log", kind="session_log")

    assert append(store, "more", guid=make_guid(), kind="session_log") == {
        "guid": guid,
        "appended": True,
    }


def test_an_unknown_guid_without_filters_creates_a_record(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    unknown = make_guid()

    said = append(store, "new", guid=unknown)

    assert said["created"] is True
    assert said["guid"] != unknown
    assert contents(read_all(store)) == ["new"]


@pytest.mark.parametrize(
    ("keys", "grown"),
    [
        ({"scope": "s"}, "scope"),
        ({"kind": "k"}, "kind"),
        ({"scope": "s", "kind": "k"}, "both"),
        ({"kind": "k", "source": "src"}, "source"),
        ({"scope": "s", "kind": "k", "source": "nobody"}, ""),
        ({"scope": "nowhere"}, ""),
    ],
)
def test_the_oldest_record_that_matches_all_filters_is_appended_to(
    tmp_path: Path, keys: dict[str, str], grown: str
) -> None:
    store = make_store(tmp_path)
    write_all(store, "scope", scope="s")
    write_all(store, "kind", kind="k")
    write_all(store, "both", scope="s", kind="k")
    write_all(store, "source", kind="k", source="src")

    said = append(store, "more", **keys)

    assert said.keys() == {"guid", "appended" if grown else "created"}
    assert (f"{grown}\nmore" if grown else "more") in contents(read_all(store))


@pytest.mark.parametrize("args", [{}, {"source": "keeper"}, {"guid": "", "scope": "", "kind": ""}])
def test_without_guid_scope_and_kind_every_call_creates_a_record(
    tmp_path: Path, args: dict[str, str]
) -> None:
    store = make_store(tmp_path)
    write_all(store, "old", source="keeper")

    answers = [append(store, "new", **args) for _ in range(2)]

    assert [said["created"] for said in answers] == [True, True]
    assert contents(read_all(store)) == ["old", "new", "new"]


def test_a_log_is_created_by_the_first_append_and_then_grows(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    args = {"scope": MEMORY_ID, "kind": "session_log"}

    answers = [append(store, text, **args) for text in ("one", "two", "three")]

    assert [set(said) - {"guid"} for said in answers] == [{"created"}, {"appended"}, {"appended"}]
    assert len({said["guid"] for said in answers}) == 1
    assert contents(read_all(store)) == ["one\ntwo\nthree"]


def test_a_new_record_has_the_documented_defaults(tmp_path: Path) -> None:
    store = make_store(tmp_path)

    append(store, "new", kind="log", tags="a,b")

    (record,) = read_all(store)
    assert (record.scope, record.kind, record.source, record.tags) == (
        MEMORY_ID,
        "log",
        "dispatch",
        '["a","b"]',
    )
    append(store, "newer", scope="s")
    assert (read_all(store)[1].kind, read_all(store)[1].tags) == ("observation", "[]")


def test_an_append_changes_updated_at_and_keeps_the_tags(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    (guid,) = write_all(store, "tea", tags=("old",))

    envelope(
        "memory_append", "milk", store, memory_id=MEMORY_ID, now_ms=NOW + 9, guid=guid, tags="new"
    )

    (record,) = read_all(store)
    assert (record.created_at, record.updated_at, record.tags) == (NOW, NOW + 9, '["old"]')


@pytest.mark.parametrize(
    ("args", "joined"), [({}, "a\nb"), ({"separator": ""}, "ab"), ({"separator": " — "}, "a — b")]
)
def test_the_separator_is_between_old_and_new_text(
    tmp_path: Path, args: dict[str, str], joined: str
) -> None:
    store = make_store(tmp_path)
    (guid,) = write_all(store, "a")

    append(store, "b", guid=guid, **args)

    assert contents(read_all(store)) == [joined]


@pytest.mark.parametrize("text", ["", None])
def test_an_empty_text_is_refused_and_changes_nothing(tmp_path: Path, text: str | None) -> None:
    store = make_store(tmp_path)
    (guid,) = write_all(store, "tea")

    assert append(store, text, guid=guid) == {"error": "no content"}
    assert contents(read_all(store)) == ["tea"]


def test_a_missing_memory_id_is_an_error() -> None:
    said = ask("memory_append", "x")

    assert said is not None
    assert "memory_id" in read_json(said)["error"]


def test_a_record_grows_up_to_the_size_that_a_template_can_read(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    (guid,) = write_all(store, "x" * 7500, kind="log")

    for _ in range(2):
        said = read_json(
            envelope(
                "memory_append",
                "y" * 400,
                store,
                memory_id=MEMORY_ID,
                kind="log",
                message_bytes=1024,
            )
        )

    assert "append to another record" in said["error"]
    assert contents(read_all(store)) == ["x" * 7500 + "\n" + "y" * 400]
    template = {"memory_id": MEMORY_ID, "output_template": "{{guid}} {{content|truncate(5)}}"}
    assert (
        envelope("memory_read", "", store, message_bytes=1024, **template)["args"][0]["text"]
        == f"{guid} xx..."
    )


def test_malformed_tags_are_an_error_at_deploy() -> None:
    with pytest.raises(ValidationError, match="JSON array of strings"):
        args_of("memory_append", memory_id=MEMORY_ID, tags='["a"')


def test_one_transaction_can_create_a_record_and_append_to_it(tmp_path: Path) -> None:
    store = make_store(tmp_path)

    with store.transaction() as tx:
        calls = [make_call(make_message(text), tx) for text in ("one", "two")]
        answers = [answer("memory_append", call, memory_id=MEMORY_ID, kind="log") for call in calls]

    assert [set(read_json(said)) - {"guid"} for said in answers if said] == [
        {"created"},
        {"appended"},
    ]
    assert contents(find(store, "one two")) == ["one\ntwo"]
    assert_sound(store.path)


def test_an_append_does_not_change_when_a_record_expires(
    tmp_path: Path,
) -> None:
    store = make_store(tmp_path)

    for now_ms in (NOW, NOW + 1000):
        ask_store("memory_append", "tea", store, kind="log", ttl_s=60, now_ms=now_ms)

    assert [(record.content, record.expires_at) for record in read_all(store)] == [
        ("tea\ntea", NOW + 60_000)
    ]
