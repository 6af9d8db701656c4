"""The sample recipes pass the check, and deliver what their descriptions promise."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from memrelay.memory.engine.store import Store
from memrelay.memory.models.recipes.recipes import ExecuteInput, execute_recipe
from memrelay.memory.operations import Context
from tests.memory.builders import NOW, PLENTY, RECIPES_ID, make_guid, make_store, perform, write_all

CONVERSATION = RECIPES_ID.replace("/recipes", "/conversation")
SAMPLES = sorted(
    (Path(__file__).resolve().parents[4] / "memrelay" / "pipelines" / "recipes").glob("*.json")
)


@pytest.fixture
def home(tmp_path: Path) -> Any:
    store = make_store(tmp_path, RECIPES_ID)
    with store.transaction() as tx:
        for sample in SAMPLES:
            perform(tx, "recipes.create", definition=orjson.loads(sample.read_bytes()))
        # The first search of a process loads libraries, which may exceed the time of a run.
        assert tx.ranker is not None
        yield tx
    store.close()


def execute(tx: Store, ident: str, open_for_read: Any = None, **given: Any) -> dict[str, Any]:
    context = Context(NOW, "tester", PLENTY, make_guid, open_for_read=open_for_read)
    steps = execute_recipe(tx, ExecuteInput(ident, **given), context)
    try:
        next(steps)
        while True:
            steps.send(tx)
    except StopIteration as end:
        result: dict[str, Any] = end.value
        return result


def set_pairs(tx: Store, namespace: str, **pairs: Any) -> None:
    place = {"instance": "customers", "namespace": namespace, "auto_create": True}
    for key, value in pairs.items():
        perform(tx, "kv.set", key=key, value=value, **place)


def append_deploy(tx: Store, hour: int, service: str, kind: str, message: str) -> None:
    event = {
        "stream_id": service,
        "event_type": kind,
        "timestamp": f"2023-11-14T{hour}:00:00Z",
        "payload": {"service": service, "message": message},
    }
    perform(tx, "events.append", instance="deploys", events=[event], auto_create=True)


def test_there_are_three_samples() -> None:
    assert [sample.stem for sample in SAMPLES] == [
        "conversation_recall",
        "customer_preferences",
        "recent_deploys",
    ]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_has_no_faults_and_the_id_of_its_file(home: Store, sample: Path) -> None:
    definition = orjson.loads(sample.read_bytes())

    found = perform(home, "recipes.validate", definition=definition)

    assert (found.valid, found.errors, found.warnings) == (True, (), ())
    assert definition["id"] == sample.stem
    assert perform(home, "recipes.get", id=sample.stem).label == definition["label"]


def test_the_preferences_of_a_customer_come_before_guides(home: Store) -> None:
    set_pairs(home, "U1", contact="by email", language="French", email="u1@example.com")
    set_pairs(home, "U2", contact="by phone")
    perform(home, "documents.put", collection="guides", uri="a", text="Refunds take five days.")

    scopes = {"user": {"user_id": "U1"}}
    found = execute(
        home, "customer_preferences", scope_variables=scopes, intent={"keywords": ["Refunds"]}
    )

    assert found["success"], found.get("error")
    assert found["query"] == "refunds"
    assert found["formattedOutput"].splitlines() == [
        "- **contact**: by email",
        "- **language**: French",
        "- **email**: u1@example.com",
        "- Refunds take five days.",
    ]


def test_without_guides_the_preferences_still_come(home: Store) -> None:
    set_pairs(home, "U1", contact="by email")

    scopes = {"user": {"user_id": "U1"}}
    found = execute(home, "customer_preferences", scope_variables=scopes, intent="refunds")

    assert found["formattedOutput"] == "- **contact**: by email"
    assert "unknown_collection" in [one["code"] for one in found["warnings"]]


def test_earlier_conversations_come_from_the_store_of_the_pipeline(
    home: Store, tmp_path: Path
) -> None:
    memories = make_store(tmp_path, CONVERSATION)
    write_all(memories, "The demo moved to Friday", "Tea is in the kitchen", kind="turn")
    opened: list[str] = []

    def open_for_read(memory_id: str) -> Store:
        opened.append(memory_id)
        return memories

    found = execute(home, "conversation_recall", open_for_read, intent="when is the demo")
    empty = execute(home, "conversation_recall", open_for_read)
    memories.close()

    assert found["success"], found.get("error")
    assert found["formattedOutput"] == "- The demo moved to Friday"
    assert opened == [memories.memory_id]
    assert (empty["exitedEarly"], empty["formattedOutput"]) == (True, "")


def test_recent_deploys_are_the_last_of_each_service_and_the_failures(home: Store) -> None:
    append_deploy(home, 10, "api", "deploy.ok", "api 1.0 is live")
    append_deploy(home, 11, "web", "deploy.failed", "web 2.0 failed")
    append_deploy(home, 12, "api", "deploy.ok", "api 1.1 is live")
    append_deploy(home, 13, "web", "deploy.ok", "web 2.1 is live")

    found = execute(home, "recent_deploys", variables={"since": "2023-11-01T00:00:00Z"})
    later = execute(home, "recent_deploys", variables={"since": "2023-11-15T00:00:00Z"})

    assert found["formattedOutput"].splitlines() == [
        "1. web 2.1 is live",
        "2. api 1.1 is live",
        "3. web 2.0 failed",
    ]
    assert (later["exitedEarly"], later["formattedOutput"]) == (True, "")


def test_samples_fill_a_context_together(home: Store) -> None:
    append_deploy(home, 10, "api", "deploy.ok", "api 1.0 is live")
    set_pairs(home, "U1", contact="by email")

    found = perform(
        home,
        "assembly.assemble",
        scope_variables={"user": {"user_id": "U1"}},
        additional_variables={"since": "2023-11-01T00:00:00Z"},
        explicit_memory=["customer_preferences", "recent_deploys"],
    )

    assert [one.success for one in found.trace.memory_calls] == [True, True]
    assert {name: [item.text for item in items] for name, items in found.context.items()} == {
        "state": ["api 1.0 is live"],
        "constraints": ["- **contact**: by email"],
    }
