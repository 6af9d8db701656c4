"""consolidate: its arguments, its slices, crashes, and two stores that never mix."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from memrelay.blocks.contract import DeferredCall
from memrelay.blocks.registry import built_in_blocks
from memrelay.memory.engine.store import Store
from memrelay.testing import BlockingPipelineUnderTest, test_pipeline
from tests.blocks.calls import MEMORY_ID, args_of, ask_store, make_call, make_message
from tests.memory.builders import make_store, perform
from tests.support.bundles import make_agent, make_bundle

OLD, NEW = "The staging database runs on Postgres 14", "The staging database runs on Postgres 16"
MEMORIES = {"memory_id": "instances/${pipeline_uid}/memories"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = make_store(tmp_path)
    yield store
    store.close()


def fill(store: Any, *texts: str, memory: str = "facts") -> None:
    for text in texts:
        perform(store, "entries.create", content=text, memory=memory, mode="create")


def test_a_run_returns_what_it_found_and_changes_no_entry(store: Store) -> None:
    fill(store, OLD, NEW)

    assert ask_store("consolidate", "", store) == {
        "proposals": 1,
        "found": {"contradictions": 1},
        "compared": 2,
    }
    assert ask_store("consolidate", "", store)["proposals"] == 0
    (waiting,) = perform(store, "reviews.list").items
    assert waiting.actor == "dispatch"
    assert len(perform(store, "records.list", kind="entry").items) == 2


def test_one_memory_and_one_sort_can_be_selected(store: Store) -> None:
    fill(store, OLD, NEW)
    fill(store, OLD, NEW, memory="other")

    assert ask_store("consolidate", "", store, find=["duplicates"])["proposals"] == 0
    missing = ask_store("consolidate", "", store, memory="nowhere")
    assert "no memory has the name or id 'nowhere'" in missing["error"]


def test_arguments_are_checked() -> None:
    assert args_of("consolidate").warnings() == args_of("memory_turn").warnings()
    for wrong in ({"find": []}, {"find": ["typos"]}, {"limit": 0}, {"duplicate_threshold": 0.5}):
        with pytest.raises(ValidationError):
            args_of("consolidate", memory_id=MEMORY_ID, **wrong)
    with pytest.raises(ValidationError, match="holds the items of agents"):
        args_of("consolidate", memory_id="instances/a3d8f1b2/stores")


def test_a_long_run_gives_way_to_other_messages_between_slices(store: Store) -> None:
    fill(store, *(f"Note {n} is about {n * 13}" for n in range(30)))
    handle, args = built_in_blocks()["consolidate"].handle, args_of("consolidate")
    args = args_of("consolidate", memory_id=MEMORY_ID)
    assert handle is not None
    with store.transaction() as tx:
        answer = handle(make_call(make_message(""), tx), args)

    assert answer == DeferredCall({"proposed": {}, "compared": 10})


@pytest.fixture
def pipeline() -> Iterator[BlockingPipelineUnderTest]:
    tidy = make_agent("tidy", "consolidate", MEMORIES, senders="User", on="tidy", to="tidied")
    with test_pipeline(make_bundle("p", tidy)) as pipeline:
        yield pipeline


@pytest.mark.parametrize("step", ["commit", "publish"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_makes_no_second_proposal(
    pipeline: BlockingPipelineUnderTest, when: str, step: Any
) -> None:
    entries = pipeline.store("memories").entries
    for text in (OLD, NEW):
        entries.create(content=text, memory="facts", mode="create")
    crash = pipeline.crash_before if when == "before" else pipeline.crash_after
    crash(step)

    (answer,) = pipeline.say("go", swarm="tidy")

    assert orjson.loads(answer.text)["proposals"] == 1
    (waiting,) = pipeline.store("memories").reviews.list().items
    assert waiting.origin["message"] and waiting.origin["agent"] == "tidy_"
    pipeline.crash()
    assert orjson.loads(pipeline.say("go", swarm="tidy")[0].text)["proposals"] == 0
    decision = pipeline.store("memories").reviews.approve(guids=[waiting.guid]).items[0]
    assert decision.status == "approved"
    again = pipeline.store("memories").reviews.approve(guids=[waiting.guid]).items[0]
    assert again.is_repeated
    assert entries.list(pipeline.store("memories").memories.list().items[0].id).total == 1


def test_the_facts_of_two_tenants_never_mix() -> None:
    bundle = make_bundle(
        "p",
        *[
            make_agent(
                f"tidy_{name}",
                "consolidate",
                {"memory_id": f"instances/${{pipeline_uid}}/{name}"},
                senders="User",
                on="tidy",
                to="tidied",
            )
            for name in ("memories", "acme")
        ],
        *[
            make_agent(
                f"keep_{name}",
                "memory_entry_write",
                {
                    "memory_id": f"instances/${{pipeline_uid}}/{name}",
                    "memory": "facts",
                    "mode": "create",
                },
                senders="User",
                on=name,
            )
            for name in ("memories", "acme")
        ],
    )
    with test_pipeline(bundle) as pipeline:
        pipeline.say(OLD, swarm="memories")
        pipeline.say(NEW, swarm="acme")
        answers = pipeline.say("go", swarm="tidy")
        assert [orjson.loads(one.text)["proposals"] for one in answers] == [0, 0]
        pipeline.say(OLD, swarm="acme")
        answers = pipeline.say("go", swarm="tidy")
        assert sorted(orjson.loads(one.text)["proposals"] for one in answers) == [0, 1]
        assert pipeline.store("memories").reviews.list().items == ()
        assert len(pipeline.store("acme").reviews.list().items) == 1
