"""memory_tool: the agent, user and chat of a call, and the answers as JSON."""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from memrelay.memory.engine.identity import MAX_ID_CHARACTERS
from memrelay.memory.engine.store import Store
from memrelay.memory.models.shared_stores.stores import chat_store, user_store
from tests.blocks.calls import UID, answer, args_of, make_call, make_message, read_json
from tests.memory.models.shared_stores.tool.calls import open_home

CREATE = {"command": "create", "key": "k", "content": "tea"}


@pytest.fixture
def store() -> Iterator[Store]:
    with open_home() as store:
        yield store


def ask(store: Store, arguments: Any, speaker: str = "Ann", **args: Any) -> tuple[Any, bool]:
    """Return (value, is_error) of the block's answer."""
    text = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
    with store.transaction() as tx:
        said = answer("memory_tool", make_call(make_message(text, username=speaker), tx), **args)
    assert said is not None
    answered = read_json(said)
    assert answered.keys() == {"value", "is_error"}
    return answered["value"], answered["is_error"]


def owner_of(store: Store, **args: Any) -> tuple[str, str]:
    """Return (store, owner) of the entry that a call creates."""
    arguments = CREATE | args.pop("given", {})
    assert ask(store, arguments, **args)[1] is False
    entry = ask(store, arguments | {"command": "view"}, **args)[0]
    return entry["storeId"], entry["ownerId"]


def test_the_agent_is_the_published_name_or_the_argument(store: Store) -> None:
    assert owner_of(store) == ("dispatch", "dispatch")
    assert owner_of(store, agent_id="assistant") == ("assistant", "assistant")


def test_the_scopes_are_the_speaker_and_the_swarm(store: Store) -> None:
    assert owner_of(store, given={"scope": "user"})[0] == "user:Ann"
    assert owner_of(store, given={"scope": "user"}, speaker="B" * 60)[0] == user_store("B" * 60)
    assert ask(store, {"command": "view", "scope": "user", "key": "k"}, "Eve") == (None, False)
    error = {"error": 'scope "chat" needs a chatId in this conversation'}
    assert ask(store, {"command": "view", "scope": "chat"}) == (error, True)
    listed = [one["storeId"] for one in ask(store, {"command": "stores"})[0]["stores"]]
    assert listed == ["dispatch", "user:Ann"]


def test_a_long_id_keeps_its_prefix() -> None:
    assert (user_store("ann"), chat_store(UID, "talk")) == ("user:ann", f"chat:{UID}/talk")
    for make, prefix in ((user_store, "user:"), (lambda name: chat_store(UID, name), "chat:")):
        one, other = make("x" * 100), make("x" * 101)
        assert one != other and one == make("x" * 100)
        assert one.startswith(prefix) and max(len(one), len(other)) <= MAX_ID_CHARACTERS


def test_the_arguments_of_the_block_apply(store: Store) -> None:
    share = {"command": "share", "agent": "b"}

    assert ask(store, share) == ("OK", False)
    assert "Unknown command: share" in ask(store, share, sharing=False)[0]["error"]
    assert ask(store, {"command": "view", "path": "/memories/x"}, dialect="anthropic") == (
        "The path /memories/x does not exist. Please provide a valid path.",
        True,
    )
    ask(store, CREATE, default_ttl=60)
    assert ask(store, CREATE | {"command": "view"})[0]["expiresAt"] is not None


@pytest.mark.parametrize("text", ["", "tea", "[]", "{"])
def test_a_text_that_is_no_object_is_an_error(store: Store, text: str) -> None:
    value, is_error = ask(store, text)

    assert is_error and value["error"].startswith("send the arguments of the tool call as a JSON")
    assert isinstance(ask(store, text, dialect="anthropic")[0], str)


def test_an_integer_beyond_64_bits_is_an_error(store: Store) -> None:
    value, is_error = ask(store, '{"command": "create", "key": "k", "content": [' + "9" * 20 + "]}")

    assert is_error and "has more than 64 bits" in value["error"]


@pytest.mark.parametrize("levels", [129, 240, 1000])
def test_a_value_that_is_nested_too_deeply_is_an_error(store: Store, levels: int) -> None:
    content = "[" * levels + "]" * levels

    value, is_error = ask(store, f'{{"command": "create", "key": "k", "content": {content}}}')

    assert is_error and "more than 128 levels" in value["error"]


@pytest.mark.parametrize(
    "args", [{"dialect": "other"}, {"agent_id": "a" * 65}, {"default_ttl": -1}, {"memory_id": "x"}]
)
def test_invalid_arguments_are_refused(args: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        args_of("memory_tool", **args)
