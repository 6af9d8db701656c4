"""The stores of a bundle: the language of their searches."""

from typing import Any

import pytest

from memrelay.pipelines.check import check
from memrelay.pipelines.plan import Plan
from tests.pipelines.builders import UID, make_block, make_bundle, make_memory, warnings_of
from tests.pipelines.builders import faults_of as told

STORE = "instances/${pipeline_uid}/memories"


def make_search(**args: Any) -> dict[str, Any]:
    return make_block(
        "memory_search", {"memory_id": STORE, "mode": "hybrid"} | args, agent_alias="search"
    )


def language_of(*stores: dict[str, Any], **args: Any) -> Any:
    bundle = check(make_bundle(make_search(**args), stores=list(stores)), uid=UID).accepted()
    assert Plan(bundle).languages == {
        f"instances/{UID}/memories": store["language"] for store in stores
    }
    return bundle.agents[0].args.model_dump()["language"]


def test_a_search_uses_the_language_of_its_store_unless_it_sets_one() -> None:
    german = {"memory_id": STORE, "language": "german"}

    assert [language_of(), language_of(german), language_of(german, language="french")] == [
        None,
        "german",
        "french",
    ]


@pytest.mark.parametrize(
    ("stores", "fault"),
    [
        (
            [{"memory_id": STORE, "language": "klingon"}],
            "stores[0].language: unknown language 'klingon'",
        ),
        ([{"language": "german"}], "stores[0].memory_id: a store needs a memory_id"),
        ([{"memory_id": STORE}, {"memory_id": STORE}], "is declared twice; remove one of them"),
        (["german"], "stores[0]: must be an object"),
        ("german", "stores: must be a list of objects"),
        (
            [{"memory_id": STORE, "langauge": "german"}],
            'unknown key "langauge"; did you mean "language"?',
        ),
    ],
)
def test_an_invalid_store_is_an_error(stores: Any, fault: str) -> None:
    (line,) = told(make_memory(), stores=stores)

    assert fault in line


def test_a_store_without_an_agent_is_a_warning() -> None:
    (line,) = warnings_of(make_memory(), stores=[{"memory_id": f"{STORE}s", "language": "german"}])

    assert "no agent uses the store" in line and "did you mean" in line


@pytest.mark.parametrize("uid", ["${pipeline_uid}", "another"])
def test_a_memory_block_cannot_use_the_home_of_items(uid: str) -> None:
    block = make_block("memory_write", {"memory_id": f"instances/{uid}/stores"})

    (fault,) = told(block)

    assert fault.startswith("agents[0].wf_webhook_args.memory_id: ")
    assert "/stores holds the items of agents with their access rights" in fault
    assert 'set another memory_id, like "instances/${pipeline_uid}/memories"' in fault
