"""identify_user: who speaks, by the trigger or the envelope, and what is known about them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from memrelay.memory.engine.store import Store
from tests.blocks.calls import answer, make_call, make_message, read_json
from tests.memory.builders import make_store, perform

ADA = {"message": {"from": {"id": 7, "first_name": "Ada", "last_name": "King", "username": "ada7"}}}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = make_store(tmp_path)
    yield store
    store.close()


def envelope(store: Store, text: Any, *, limit: int = 1 << 20, **args: Any) -> dict[str, Any]:
    text = text if isinstance(text, str) else orjson.dumps(text).decode()
    with store.transaction() as tx:
        call = make_call(make_message(text), tx, message_bytes=limit)
        said = answer("identify_user", call, **args)
    assert said is not None
    return said


def ask(store: Store, text: Any, **args: Any) -> Any:
    return read_json(envelope(store, text, **args))


def test_a_user_of_telegram_is_new_once(store: Store) -> None:
    first, again = ask(store, ADA), ask(store, ADA)

    assert first.keys() == {"user_id", "user_context", "is_new_user"}
    assert (first["user_id"], first["is_new_user"]) == ("telegram:7", True)
    assert again["is_new_user"] is again["user_context"]["is_new"] is False
    known = first["user_context"]
    assert known["is_new"] is True and known["canonical_id"] == known["user_id"] == "telegram:7"
    assert (known["display_name"], known["channel"]) == ("Ada King", "telegram")
    assert (known["facts"], known["history"], known["preferences"]) == ([], [], {})
    assert again["user_context"]["total_conversations"] == 2


@pytest.mark.parametrize(
    ("trigger", "user_id"),
    [
        ({"webhook_id": "w", "user_id": "u1"}, "webhook:u1"),
        ({"webhook_id": "w", "email": "a@x.org"}, "webhook:a@x.org"),
        ({"webhook_id": "w", "user_id": "a:b%"}, "webhook:a%3Ab%25"),
        ({"source": "manual", "user_id": "u1"}, "manual:u1"),
        ({"source": "chat", "user_id": 12}, "chat:12"),
        ({"source": "slack", "user_id": "U9"}, "slack:U9"),
        ({"channel": "email", "email": "Ada@X.org"}, "email:ada@x.org"),
        ({"channel": "telegram", "user_id": "8"}, "telegram:8"),
        ({"user_id": "u1"}, "user:u1"),
        ({"trigger_input": ADA}, "telegram:7"),
        ({"trigger_input": {"user_id": "u1"}, "channel": "slack"}, "slack:u1"),
        ("hello", "chat:Ann"),
        ("[1]", "chat:Ann"),
    ],
)
def test_channel_and_id_follow_from_the_trigger(store: Store, trigger: Any, user_id: str) -> None:
    assert ask(store, trigger)["user_id"] == user_id


@pytest.mark.parametrize(
    "trigger",
    [
        {},
        {"user_id": None},
        {"user_id": True},
        {"user_id": ["u"]},
        {"message": "the word from"},
        {"message": {"from": {"first_name": "Ada"}}},
        {"webhook_id": "w"},
        {"webhook_id": "w", "user_id": "anonymous"},
        {"source": "manual", "user_id": "manual_user"},
        {"source": "chat"},
        {"user_id": "unknown"},
        {"trigger_input": {}, "channel": "telegram"},
    ],
)
def test_a_trigger_without_id_has_no_user(store: Store, trigger: Any) -> None:
    answered = ask(store, trigger)

    assert (answered["user_id"], answered["is_new_user"]) == (None, True)
    known = answered["user_context"]
    assert (known["is_new"], known["facts"], known["history"]) == (True, [], [])
    assert known["channel"] and "error" not in known
    with store.transaction() as tx:
        assert perform(tx, "users.list").total == 0


def test_the_argument_names_the_channel(store: Store) -> None:
    assert ask(store, {"user_id": "u1"}, channel="slack")["user_id"] == "slack:u1"
    assert ask(store, "hello", channel="irc")["user_id"] == "irc:Ann"


def test_the_context_shows_facts_and_history_of_the_user(store: Store) -> None:
    ask(store, ADA)
    with store.transaction() as tx:
        for user, value in (("telegram:7", "blue"), ("telegram:8", "red")):
            perform(tx, "facts.set", key="color", value=value, scope="user", user_id=user)
            begun = perform(tx, "episodes.begin", agent_id="workflow:a", user_id=user)
            perform(tx, "episodes.complete", id=begun.id, success=True, summary=value)
        perform(tx, "users.update", id="telegram:7", preferences={"lang": "en"})

    known = ask(store, ADA)["user_context"]

    assert known["facts"] == [{"key": "color", "value": "blue", "type": "world_knowledge"}]
    assert [one["summary"] for one in known["history"]] == ["blue"]
    assert known["preferences"] == {"lang": "en"}


def test_forward_publishes_the_message_with_the_fields(store: Store) -> None:
    said = envelope(store, ADA, forward=True)
    unknown = envelope(store, {}, forward="true")

    (part,) = said["args"]
    assert part["trigger"] == ADA and said["from"] == "dispatch"
    assert (part["user_id"], part["is_new_user"]) == ("telegram:7", True)
    assert part["user_context"]["display_name"] == "Ada King"
    assert unknown["args"][0]["user_id"] is None


def update(chat: int, kind: str = "message", **fields: Any) -> dict[str, Any]:
    """Return an update of Telegram from Ada in a chat. Her own chat has her id."""
    return {kind: ADA["message"] | {"chat": {"id": chat}} | fields}


@pytest.mark.parametrize(
    ("trigger", "text", "chat"),
    [
        (update(7, text="/start"), "/start", None),
        (update(-100, text="hi all"), "hi all", "-100"),
        (update(-100, "edited_message", caption="a photo"), "a photo", "-100"),
        (update(-100), "", "-100"),
        (
            {"callback_query": update(-100, data="yes")["message"] | update(-100, text="yes?")},
            "yes",
            "-100",
        ),
        ({"source": "slack", "user_id": "U9", "chat_id": "C1", "text": "hi"}, "hi", "C1"),
        ({"source": "slack", "user_id": "U9", "chat_id": "U9", "text": "hi"}, "hi", None),
    ],
)
def test_forward_publishes_the_text_and_a_chat_that_is_not_the_users_own(
    store: Store, trigger: Any, text: str, chat: str | None
) -> None:
    (part,) = envelope(store, trigger, forward=True)["args"]

    assert (part["text"], part["type"], part["trigger"]) == (text, "text/plain", trigger)
    assert part.get("chat_id") == chat == ask(store, trigger).get("chat_id")
    assert part["user_id"] in ("telegram:7", "slack:U9")


def test_the_history_of_a_user_is_no_part_of_another_chat(store: Store) -> None:
    ask(store, update(7, text="hello"))
    with store.transaction() as tx:
        begun = perform(tx, "episodes.begin", agent_id="workflow:a", user_id="telegram:7")
        perform(tx, "episodes.complete", id=begun.id, success=True, summary="a secret")

    own, group = (ask(store, update(chat, text="hello"))["user_context"] for chat in (7, -100))

    assert [one["summary"] for one in own["history"]] == ["a secret"]
    assert group["history"] == []


@pytest.mark.parametrize("text", ["null", "[]", "5", "hello"])
@pytest.mark.parametrize("name", ["webhook", "anonymous"])
def test_a_caller_without_a_name_is_nobody(store: Store, text: str, name: str) -> None:
    with store.transaction() as tx:
        said = answer("identify_user", make_call(make_message(text, username=name), tx))
        assert said is not None and read_json(said)["user_id"] is None
        assert perform(tx, "users.list").total == 0


def test_failures_are_answers(store: Store) -> None:
    too_long = ask(store, {"user_id": "x" * 300})
    too_large = ask(store, {"user_id": "u1", "x": "y" * 2000}, limit=1000, forward=True)

    for answered in (too_long, too_large):
        assert (answered["user_id"], answered["is_new_user"]) == (None, True)
    assert "at most" in too_long["user_context"]["error"]
    assert "bus.max_message_bytes" in too_large["user_context"]["error"]
