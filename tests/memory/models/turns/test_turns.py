"""Turns: the messages of conversations, in order, once, and for one user."""

from pathlib import Path
from typing import Any

import pytest

from memrelay import open_store
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import Refused
from memrelay.memory.models.turns.turns import TurnView
from tests.memory.builders import make_store, perform

TEA = {"role": "user", "content": "I like tea"}
NOTED = {"role": "assistant", "content": "Noted"}
PARTS = {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image", "url": "u"}]}
CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "arguments": "{}"}]}
# Deeper than the `data` of a record.
DEEP: Any = 1
for _ in range(20):
    DEEP = [DEEP]


def add(tx: Store, *messages: dict[str, Any], thread: str = "t", **more: Any) -> Any:
    return perform(tx, "turns.add", messages=list(messages), thread=thread, **more)


def turns(tx: Store, thread: str = "t", **more: Any) -> tuple[TurnView, ...]:
    items: tuple[TurnView, ...] = perform(tx, "turns.list", thread=thread, **more).items
    return items


def texts(tx: Store, thread: str = "t", **more: Any) -> list[str]:
    return [one.content for one in turns(tx, thread, **more)]


def test_messages_are_listed_in_order_with_their_speakers(tx: Store) -> None:
    answer = add(tx, TEA, NOTED, user="Ada", agent="bot")

    assert (answer.thread, answer.added, answer.skipped) == ("t", 2, 0)
    said, noted = turns(tx)
    assert (said.guid, noted.guid) == answer.guids
    assert (said.role, said.content, said.name, said.user) == ("user", "I like tea", "Ada", "Ada")
    assert (noted.role, noted.name, noted.agent, noted.item) == ("assistant", "bot", "bot", None)


def test_a_turn_is_a_record_that_search_finds(tx: Store) -> None:
    add(tx, TEA, user="Ada")

    (hit,) = perform(tx, "records.search", query="tea", kind="turn").items
    assert (hit.record.thread, hit.record.owner, hit.record.seq) == ("t", "Ada", 0)


@pytest.mark.parametrize("message", [PARTS, CALL, TEA | {"refusal": None}], ids=str)
def test_a_message_with_more_than_a_text_is_returned_as_it_was(
    tx: Store, message: dict[str, Any]
) -> None:
    add(tx, message)

    (turn,) = turns(tx)
    assert turn.item == message


@pytest.mark.parametrize(
    "item",
    [{"b": 1, "a": [1.5, None, True, "é"]}, [1], "text", DEEP, {"long": "x" * 200_000}, 0, False],
    ids=["object", "list", "text", "deep", "long", "zero", "false"],
)
@pytest.mark.parametrize("content", ["said", ""])
def test_an_item_is_returned_unchanged(tx: Store, item: Any, content: str) -> None:
    add(tx, {"content": content, "item": item})

    (turn,) = turns(tx)
    assert (turn.item, turn.content) == (item, content)
    assert not isinstance(item, dict) or list(turn.item) == list(item)


def test_a_long_item_keeps_the_text_beside_it_until_its_record_changes(tx: Store) -> None:
    item = {"content": "other", "long": "x" * 200_000}
    add(tx, {"content": "green tea", "item": item})

    (turn,) = turns(tx)
    assert (turn.content, turn.item) == ("green tea", item)
    assert perform(tx, "records.search", query="green", kind="turn").items

    for changed in ("[1]", '{"content": 5}', "mint"):
        perform(tx, "records.update", guid=turn.guid, content=changed)
        assert (turns(tx)[0].content, turns(tx)[0].item) == (changed, None)


def test_a_text_with_line_breaks_is_erased_from_a_long_item_too(tx: Store) -> None:
    said = 'first "line"\nsecond'
    add(tx, {"content": "x", "item": {"said": said}})
    add(tx, {"content": "", "item": {"said": said, "long": "x" * 200_000}})
    add(tx, {"content": said, "item": {"long": "x" * 200_000}}, TEA)

    assert perform(tx, "records.erase", text=said).records == 3
    assert texts(tx) == ["I like tea"]


def test_a_long_message_keeps_its_text(tx: Store) -> None:
    text = "tea " * 30_000
    add(tx, {"role": "tool", "content": text, "tool_call_id": "c1"})

    (turn,) = turns(tx)
    assert (turn.content, turn.item["content"], turn.role) == (text, text, "tool")


def test_a_repeated_message_is_skipped_by_its_id(tx: Store) -> None:
    first = add(tx, TEA | {"id": "1"}, NOTED | {"id": "2"}, user="Ada")
    again = add(tx, NOTED | {"id": "2"}, TEA | {"id": "3"}, TEA | {"id": "3"}, user="Ada")

    assert (again.added, again.skipped) == (1, 2)
    assert again.guids == (first.guids[1], again.guids[1], again.guids[1])
    assert [one.id for one in turns(tx)] == ["1", "2", "3"]
    assert add(tx, TEA | {"id": "1"}, user="Bob").added == 1
    assert add(tx, TEA | {"id": "1"}, user="Ada", thread="other").added == 1


def test_messages_without_an_id_are_never_skipped(tx: Store) -> None:
    add(tx, TEA)
    assert add(tx, TEA).added == 1


def test_messages_replace_those_of_the_user_or_nothing_changes(tx: Store) -> None:
    (old,) = add(tx, TEA | {"id": "1"}, user="Ada").guids
    add(tx, {"content": "secret"}, user="Bob")

    with pytest.raises(Refused):
        add(tx, NOTED, {"content": ""}, user="Ada", replace=True)
    assert texts(tx, user="Ada") == ["I like tea"]
    new = add(tx, TEA | {"id": "1"}, NOTED, user="Ada", replace=True)

    assert (new.added, texts(tx, user="Ada")) == (2, ["I like tea", "Noted"])
    assert texts(tx, user="Bob") == ["secret"]
    perform(tx, "records.restore", guid=old)
    assert len(turns(tx, user="Ada")) == 3


def test_pages_lead_to_the_first_turn(tx: Store) -> None:
    add(tx, *({"content": str(n)} for n in range(7)))

    seen: list[str] = []
    before = None
    for _ in range(3):
        page = perform(tx, "turns.list", thread="t", limit=3, before=before)
        seen = [one.content for one in page.items] + seen
        before = page.before
    assert (seen, before) == ([str(n) for n in range(7)], None)


def test_turns_at_one_position_are_on_one_page(tx: Store) -> None:
    for number in range(6):
        perform(tx, "records.create", content=f"{number}", kind="turn", thread="t", seq=number // 2)

    newest = perform(tx, "turns.list", thread="t", limit=3)
    assert ([one.content for one in newest.items], newest.before) == (["4", "5"], 2)
    older = perform(tx, "turns.list", thread="t", limit=3, before=newest.before)
    assert ([one.content for one in older.items], older.before) == (["2", "3"], 1)
    assert texts(tx, limit=3, before=older.before) == ["0", "1"]


def test_a_user_sees_only_the_own_turns(tx: Store) -> None:
    add(tx, TEA, user="Ada")
    add(tx, {"content": "secret"}, user="Bob")

    assert texts(tx, user="Ada") == ["I like tea"]
    assert texts(tx) == ["I like tea", "secret"]
    assert perform(tx, "turns.clear", thread="t", user="Bob").deleted == 1
    assert texts(tx) == ["I like tea"]


def test_the_default_conversation_is_that_of_the_user(tx: Store) -> None:
    assert add(tx, TEA, thread="", user="Ada").thread == "Ada"
    assert add(tx, TEA, thread="").thread == "default"
    assert texts(tx, thread="", user="Ada") == ["I like tea"]


def test_pop_removes_the_newest_and_restore_brings_it_back(tx: Store) -> None:
    add(tx, TEA, NOTED, {"content": "more"})

    popped = perform(tx, "turns.pop", thread="t", count=2)

    assert [one.content for one in popped.items] == ["Noted", "more"]
    assert texts(tx) == ["I like tea"]
    perform(tx, "records.restore", guid=popped.items[0].guid)
    assert texts(tx) == ["I like tea", "Noted"]
    assert [one.content for one in perform(tx, "turns.pop", thread="x").items] == []


def test_a_popped_message_can_be_added_again(tx: Store) -> None:
    add(tx, TEA | {"id": "1"})
    perform(tx, "turns.pop", thread="t")

    assert add(tx, TEA | {"id": "1"}).added == 1


def test_expired_turns_are_not_shown(tx: Store) -> None:
    add(tx, TEA, expires_at="2100-01-01")
    add(tx, NOTED)

    late = 4_102_444_800_000 + 1
    assert [one.content for one in perform(tx, "turns.list", now_ms=late, thread="t").items] == [
        "Noted"
    ]


def test_threads_are_listed_by_user_and_page(tx: Store) -> None:
    for name, user in (("a", "Ada"), ("b", "Bob"), ("c", "Ada")):
        add(tx, TEA, thread=name, user=user, agent="bot")
    perform(tx, "records.create", content="no turn", thread="d")

    page = perform(tx, "turns.threads", limit=2)
    assert [(one.thread, one.user, one.agent) for one in page.items] == [
        ("a", "Ada", "bot"),
        ("b", "Bob", "bot"),
    ]
    rest = perform(tx, "turns.threads", limit=2, after=page.after)
    assert ([one.thread for one in rest.items], rest.after) == (["c"], None)
    assert [one.thread for one in perform(tx, "turns.threads", user="Ada").items] == ["a", "c"]


def test_the_time_of_a_message_is_kept_but_not_in_the_future(tx: Store) -> None:
    add(tx, TEA | {"at": "2020-01-01T00:00:00Z"}, TEA | {"at": "2999-01-01T00:00:00Z"})

    past, now = turns(tx)
    assert past.at.startswith("2020-01-01")
    assert perform(tx, "records.get", guid=now.guid).created_at == now.at < "2999"


@pytest.mark.parametrize(
    ("message", "place"),
    [
        ({}, "messages.1"),
        ({"content": ""}, "messages.1"),
        ({"content": 5}, "messages.1.content"),
        ({"content": "x", "role": 5}, "messages.1.role"),
        ({"content": "x", "id": "i" * 257}, "messages.1.id"),
        ({"content": "x", "at": "soon"}, "messages.1.at"),
    ],
    ids=str,
)
def test_an_invalid_message_is_named_and_nothing_is_added(
    tx: Store, message: dict[str, Any], place: str
) -> None:
    with pytest.raises(Refused, match=place):
        add(tx, TEA, message)

    assert texts(tx) == []


@pytest.mark.parametrize("message", [{"content": "\ud800"}, TEA | {"item": {1, 2}}], ids=repr)
def test_what_json_cannot_hold_is_refused(tmp_path: Path, message: dict[str, Any]) -> None:
    with open_store(tmp_path / "m.db") as store:
        with pytest.raises(Refused, match=r"content|item"):
            store.turns.add([TEA, message])

        assert store.turns.list().items == ()


def test_reserved_kinds_are_refused(tx: Store) -> None:
    for name, given in (("turns.add", {"messages": [TEA]}), ("turns.list", {}), ("turns.pop", {})):
        with pytest.raises(Refused, match="reserved"):
            perform(tx, name, kind="memory.fact", **given)


def test_turns_are_kept_in_a_file_and_read_from_the_past(tmp_path: Path) -> None:
    with open_store(tmp_path / "m.db") as store:
        store.turns.add([TEA], user="Ada")
        change = store.records.create("later").version
        store.turns.clear(user="Ada")
        assert change
    with open_store(tmp_path / "m.db") as store:
        assert store.turns.list(user="Ada").items == ()
        assert [one.content for one in store.turns.list(user="Ada", as_of="n:1").items] == [
            "I like tea"
        ]


@pytest.fixture
def tx(tmp_path: Path) -> Any:
    with make_store(tmp_path).transaction() as tx:
        yield tx
