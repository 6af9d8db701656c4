"""`${pipeline_uid}` in the strings of a bundle."""

import orjson

from memrelay.pipelines.check import check
from tests.pipelines.builders import (
    UID,
    Json,
    make_block,
    make_bundle,
    make_chat,
    make_memory,
    warnings_of,
)


def filled(bundle: Json, uid: str = UID) -> Json:
    value: Json = orjson.loads(check(bundle, uid=uid).accepted().source)
    return value


def test_the_token_is_replaced_in_every_string() -> None:
    bundle = filled(
        make_bundle(make_chat(agent_desc="of ${pipeline_uid}", deep=[{"a": "${pipeline_uid}!"}]))
    )

    assert bundle["agents"][0]["agent_desc"] == f"of {UID}"
    assert bundle["agents"][0]["deep"] == [{"a": f"{UID}!"}]


def test_the_token_is_not_replaced_in_keys() -> None:
    bundle = filled(make_bundle(notes={"${pipeline_uid}": "${pipeline_uid}"}))

    assert bundle["notes"] == {"${pipeline_uid}": UID}


def test_the_token_is_replaced_in_json_text() -> None:
    args = '{"memory_id": "instances/${pipeline_uid}/memories"}'

    (agent,) = check(make_bundle(make_memory(wf_webhook_args=args)), uid=UID).accepted().agents

    assert agent.args.store == f"instances/{UID}/memories"


def test_another_token_is_kept_and_is_a_warning() -> None:
    assert warnings_of(make_chat(agent_desc="${pipline_uid} of ${user}")) == [
        'agents[0].agent_desc: "${pipline_uid}" is not replaced: ${pipeline_uid} is the '
        "only token; "
        'did you mean "pipeline_uid"?',
        'agents[0].agent_desc: "${user}" is not replaced: ${pipeline_uid} is the only token',
    ]


def test_variables_of_a_recipe_are_kept_without_a_warning() -> None:
    step = {"type": "kv_get", "instance": "app", "namespace": "${user_id}", "keys": ["a"]}
    definition = {
        "id": "prefs",
        "label": "Preferences",
        "inputs_scope": ["user"],
        "retrieval": {"pipeline": [step]},
    }
    args = {"definition": definition}

    assert warnings_of(make_block("recipe", args)) == []


def test_a_token_that_results_from_a_replacement_is_replaced() -> None:
    bundle = filled(make_bundle(pipeline_desc="${pipe${pipeline_uid}}"), uid="line_uid")

    assert bundle["pipeline_desc"] == "line_uid"
