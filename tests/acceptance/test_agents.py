"""The statements about agents of the specification, on a real worker with a stub of the model."""

from collections.abc import Iterator

import orjson
import pytest

from tests.support.agents import Asked, with_prompt
from tests.support.house import House
from tests.support.model_server import ModelServer, calls


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with House() as house:
        worker = house.start_worker(may_call_private=True)
        yield house
        assert worker.stop() == 0


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as model:
        yield model


def test_without_conversation_memory_each_message_stands_alone(
    house: House, model: ModelServer
) -> None:
    asked = Asked(house, model, system_prompt="P")

    assert asked.ask("one") == "you said: one"
    assert asked.ask("two") == "you said: two"

    assert model.sent == [with_prompt("P", ("user", "one")), with_prompt("P", ("user", "two"))]


def test_retrieved_knowledge_follows_the_prompt_and_is_not_stored(
    house: House, model: ModelServer
) -> None:
    asked = Asked(house, model, system_prompt="P", knowledge_config={"memory_tags": ["customer*"]})
    memory = asked.operate(
        "memories.create", {"name": "Customer Preferences", "tags": ["customer"]}
    )
    text = "Customer prefers email over phone calls"
    asked.operate("entries.create", {"memory_id": memory["id"], "content": text})

    asked.ask("How should I contact the customer?")

    first, second, *_ = model.sent[0]
    assert first == ("system", "P")
    assert second[0] == "system"
    assert f"\n[Memory: Customer Preferences] {text}\n" in second[1]


def test_the_model_writes_to_the_memory_that_the_bundle_names(
    house: House, model: ModelServer
) -> None:
    asked = Asked(house, model)
    memory = asked.operate("memories.create", {"name": "Notes"})["id"]
    asked.deploy_again(knowledge_config={"write_memory_id": memory})
    written = {"content": "Ada likes tea", "memory_id": "mem_x"}
    model.script.extend([calls(("write_memory", written)), "Noted."])

    assert asked.ask("remember that") == "Noted."

    (tool,) = model.requests[0]["tools"]
    assert tool["function"]["name"] == "write_memory"
    assert "<knowledge>" not in orjson.dumps(model.requests).decode()
    (entry,) = asked.operate("entries.list", {"memory_id": memory})["items"]
    assert (entry["content"], entry["source"]) == ("Ada likes tea", "agent")
    result = orjson.loads(model.sent[1][-1][1])
    assert result == {"action": "created", "entryId": entry["id"]}
