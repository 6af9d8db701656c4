"""A turn that runs again under the same id, on an embedded store."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from memrelay import EmbeddedStore, open_store
from memrelay.agents.turn import run_turn
from memrelay.blocks.async_call import OperationFailed
from memrelay.guarded_http.rules import OutgoingRules
from memrelay.memory.errors import Refused
from tests.support.model_server import ModelServer, calls, fault


class DeferredCall:
    """A deferred call on an embedded store, whose operations apply once for each key."""

    actor, pipeline, may_call_private = "bot", "", True
    outgoing = OutgoingRules(open_for=frozenset({"models"}))

    def __init__(self, store: EmbeddedStore, ident: str) -> None:
        self.id, self._store = ident, store
        self._outputs: dict[str, Any] = {}
        self.stack = AsyncExitStack()

    def secret(self, reference: str) -> str:
        raise LookupError(f"{reference} is not set")

    async def operate(
        self, name: str, given: Mapping[str, Any], *, store: str = "", key: str = ""
    ) -> Any:
        if key in self._outputs:
            return self._outputs[key]
        try:
            output = self._store.operate(name, given)
        except Refused as refused:
            raise OperationFailed(refused.code, str(refused)) from refused
        if key:
            self._outputs[key] = output
        return output

    async def share(self, key: str, open_it: Callable[[], AbstractAsyncContextManager[Any]]) -> Any:
        return await self.stack.enter_async_context(open_it())


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as model:
        yield model


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    with open_store(tmp_path / "a.db") as store:
        yield store


def run(
    model: ModelServer, deferred_call: DeferredCall, text: str = "hello", **options: Any
) -> dict[str, Any]:
    request = {
        "text": text,
        "question": text,
        "asked_at_ms": 1_700_000_000_000,
        "prompt": "",
        "store": "",
        "alias": "bot",
        "thread": "chat:Ann:w",
        "is_remembered": True,
        "agent_id": "workflow:w",
        "user_id": "chat:Ann",
        "session_id": "",
        "options": {"url": model.url, "model": "stub", **options},
    }

    async def answer() -> dict[str, Any]:
        async with deferred_call.stack:
            return await run_turn(request, deferred_call)

    return asyncio.run(answer())


def forget_responses(store: EmbeddedStore, ident: str) -> None:
    """Leave only the checkpoint, as if the responses were lost."""
    store.operate("checkpoints.delete", {"threads": [f"turn:{ident}"]})


def test_a_committed_response_is_not_requested_again(
    store: EmbeddedStore, model: ModelServer
) -> None:
    model.script.append(calls(("remember", {"key": "a", "value": "b"})))
    first = run(model, DeferredCall(store, "u/1"), tools=["remember"])
    store.operate("checkpoints.delete", {"threads": ["chat:Ann:w"]})

    again = run(model, DeferredCall(store, "u/1"), tools=["remember"])

    # A new key of the tool call: the store is asked again, and the fact exists already.
    assert first["text"] == "you said: Remembered: a = b (created)"
    assert again["text"] == "you said: Remembered: a = b (updated)"
    assert [[role for role, _ in sent] for sent in model.sent] == [
        ["user"],
        ["user", "assistant", "tool"],
        ["user", "assistant", "tool"],
    ]


def test_an_answer_in_the_newest_checkpoint_is_returned(
    store: EmbeddedStore, model: ModelServer
) -> None:
    run(model, DeferredCall(store, "u/1"))
    forget_responses(store, "u/1")

    assert run(model, DeferredCall(store, "u/1"))["text"] == "you said: hello"
    assert len(model.requests) == 1
    run(model, DeferredCall(store, "u/2"), "again")
    assert [text for _, text in model.sent[-1]] == ["hello", "you said: hello", "again"]


def test_the_rest_of_a_failed_attempt_is_replaced(store: EmbeddedStore, model: ModelServer) -> None:
    tools = {"tools": ["remember"]}
    model.script.extend([calls(("remember", {"key": "a", "value": "b"})), fault(400, "no")])
    assert "error" in run(model, DeferredCall(store, "u/1"), **tools)

    assert run(model, DeferredCall(store, "u/1"), **tools)["text"].startswith(
        "you said: Remembered"
    )

    roles = [[role for role, _ in sent] for sent in model.sent]
    assert roles == [["user"], ["user", "assistant", "tool"], ["user", "assistant", "tool"]]


def test_a_later_turn_repairs_the_rest_of_a_failed_one(
    store: EmbeddedStore, model: ModelServer
) -> None:
    model.script.extend([calls(("remember", {"key": "a", "value": "b"}))])
    assert "error" in run(model, DeferredCall(store, "u/1"), max_steps=1, tools=["remember"])

    run(model, DeferredCall(store, "u/2"), "again")

    assert [role for role, _ in model.sent[-1]] == ["user", "assistant", "tool", "user"]


def test_a_missing_key_is_the_error(store: EmbeddedStore, model: ModelServer) -> None:
    outcome = run(model, DeferredCall(store, "u/1"), api_key="env:KEY")

    assert outcome["error"] == "api_key cannot be read: env:KEY is not set"
    assert model.requests == []


def test_old_turns_of_a_stored_conversation_become_a_summary(
    store: EmbeddedStore, model: ModelServer
) -> None:
    options = {
        "context_window": 1_000,
        "max_tokens": 100,
        "compacting": "summarize",
        "compacting_trigger": 40,
        "compacting_keep": 1,
    }
    model.reply = lambda request: f"answer {len(model.requests)}"
    for number in range(4):
        run(model, DeferredCall(store, f"u/{number}"), f"{number}" * 800, **options)

    summary, last = model.sent[-2:]
    assert summary[0][1].startswith("Summarize the conversation")
    assert last[0] == (
        "user",
        f"[Summary of the earlier conversation]\nanswer {len(model.sent) - 1}",
    )
    assert [text[0] for _, text in last[1:]] == ["3"]
    shown = store.operate("conversations.history", {"thread": "chat:Ann:w"})
    assert [one["text"][:6] for one in shown["messages"]] == ["333333", "answer"]
