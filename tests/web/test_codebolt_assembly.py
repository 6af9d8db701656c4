"""Rule engines and context assembly over Codebolt's paths."""

import pytest

from tests.support.codebolt import Codebolt
from tests.support.web_system import WebSystem

ENGINES, ASSEMBLY = "/context-rule-engine", "/context-assembly"
RULE = {
    "id": "r1",
    "name": "Task",
    "priority": 5,
    "when": [{"field": "scope.task.task_id", "operator": "eq", "value": "T1"}],
    "then": {"add_memories": ["deploys"]},
}
INPUTS = {"scope_variables": {"task": {"task_id": "T1"}}}


@pytest.fixture
def codebolt(web_system: WebSystem) -> Codebolt:
    return Codebolt(web_system, web_system.deploy())


def test_an_engine_is_created_changed_and_deleted(codebolt: Codebolt) -> None:
    made = codebolt.post(ENGINES, {"id": "main", "name": "Main", "rules": [RULE]})

    assert made["rules"] == [RULE]
    assert made.keys() == {
        "id",
        "name",
        "description",
        "enabled",
        "rules",
        "createdAt",
        "updatedAt",
    }
    changed = codebolt.expect(200, "PUT", f"{ENGINES}/main", {"enabled": False})
    assert (changed["enabled"], changed["name"], changed["rules"]) == (False, "Main", [RULE])
    assert codebolt.get(ENGINES) == [changed] and codebolt.get(f"{ENGINES}/main") == changed
    assert codebolt.expect(204, "DELETE", f"{ENGINES}/main") is None
    assert codebolt.faults(404, "GET", f"{ENGINES}/main") == []


def test_rules_are_evaluated_on_each_path(codebolt: Codebolt) -> None:
    codebolt.post(ENGINES, {"id": "main", "name": "Main", "rules": [RULE]})
    paths = (f"{ENGINES}/main/evaluate", f"{ENGINES}/evaluate", f"{ASSEMBLY}/evaluate-rules")

    found = [codebolt.post(path, INPUTS, 200) for path in paths]

    matched = {"ruleId": "r1", "ruleName": "Task", "priority": 5, "addMemories": ["deploys"]}
    result = {"engineId": "main", "engineName": "Main", "matchedRules": [matched]}
    assert found[0] == found[1] == found[2]
    assert found[0] == {
        "matchedMemories": ["deploys"],
        "engineResults": [result],
        "variablesUsed": ["scope.task.task_id"],
    }


def test_an_unknown_engine_in_a_path_is_not_found(codebolt: Codebolt) -> None:
    assert codebolt.faults(404, "POST", f"{ENGINES}/none/evaluate", INPUTS) == []
    unknown = INPUTS | {"rule_engine_ids": ["none"]}
    (fault,) = codebolt.faults(422, "POST", f"{ENGINES}/evaluate", unknown)
    assert fault[0] == "/rule_engine_ids/0"


def test_all_faults_of_an_engine_come_at_once(codebolt: Codebolt) -> None:
    rule = {"when": [{"field": "x", "operator": "is"}], "then": {}}

    faults = codebolt.faults(422, "POST", ENGINES, {"nme": "n", "rules": [rule]})
    paths = [path for path, _ in faults]

    assert ("/nme", "unknown_field") in faults and ("/name", "required") in faults
    assert len(paths) == len(set(paths))
    assert codebolt.get(ENGINES) == []


def test_the_variables_of_rules_are_listed(codebolt: Codebolt) -> None:
    found = codebolt.get(f"{ENGINES}/variables")

    assert {"name": "scope.task.task_id", "source": "scope"} in found
    assert {"name": "input.text", "source": "input"} in found


def test_a_request_is_validated_without_an_assembly(codebolt: Codebolt) -> None:
    valid = codebolt.post(f"{ASSEMBLY}/validate", INPUTS, 200)
    invalid = codebolt.post(f"{ASSEMBLY}/validate", {"scope_variables": {"taks": {}}}, 200)

    assert valid["valid"] is True and valid["errors"] == []
    assert invalid["valid"] is False
    assert [error["path"] for error in invalid["errors"]] == ["/scope_variables/taks"]


def add_recipe(codebolt: Codebolt, ident: str, text: str, **contribution: str) -> None:
    """Store a recipe that returns a note, which is a value of a key."""
    pair = {"instanceId": "notes", "namespace": "all", "key": ident, "value": text}
    codebolt.post("/kvstore/kv", pair | {"autoCreateInstance": True})
    step = {"type": "kv_get", "instance": "notes", "namespace": "all", "keys": [ident]}
    definition = {"id": ident, "label": ident.title(), "retrieval": {"pipeline": [step]}}
    codebolt.post("/persistent-memory/types", definition | {"contribution": contribution})


def test_a_context_combines_explicit_recipes_and_those_of_rules(codebolt: Codebolt) -> None:
    add_recipe(codebolt, "deploys", "web 2.1 is live", section="state", priority="high")
    add_recipe(codebolt, "people", "Ada owns the API", section="knowledge")
    codebolt.post(ENGINES, {"id": "main", "name": "Main", "rules": [RULE]})

    found = codebolt.post(
        f"{ASSEMBLY}/assemble", INPUTS | {"explicit_memory": ["people"], "input": "deploy"}, 200
    )

    (item,) = found["context"]["state"]
    assert (item["text"], item["memory_id"], item["weight"]) == ("web 2.1 is live", "deploys", 3)
    assert list(found["context"]) == ["state", "knowledge"]
    assert [call["memory_id"] for call in found["trace"]["memory_calls"]] == ["people", "deploys"]
    assert found["meta"]["total_items"] == 2 and found["meta"]["truncated"] is False
    assert "Ada owns the API" in found["text"]


def test_the_thread_of_an_assembly_is_a_header(codebolt: Codebolt) -> None:
    rule = RULE | {"when": [{"field": "scope.thread.thread_id", "operator": "eq", "value": "t1"}]}
    codebolt.post(ENGINES, {"id": "main", "name": "Main", "rules": [rule]})

    there, elsewhere = [
        codebolt("POST", f"{ASSEMBLY}/assemble", {"scope_variables": {}}, x_thread_id=thread).json
        for thread in ("t1", "t2")
    ]

    assert [len(one["trace"]["rules_applied"]) for one in (there, elsewhere)] == [1, 0]


def test_an_invalid_assembly_gets_all_its_faults(codebolt: Codebolt) -> None:
    body = {"constraints": {"max_tokens": -1}, "inputs": "x"}

    faults = codebolt.faults(422, "POST", f"{ASSEMBLY}/assemble", body)
    limits = codebolt.faults(
        422, "POST", f"{ASSEMBLY}/assemble", INPUTS | {"constraints": {"max_tokens": -1}}
    )

    assert ("/inputs", "unknown_field") in faults and ("/scope_variables", "required") in faults
    assert [path for path, _ in limits] == ["/constraints/max_tokens"]


def test_active_recipes_and_their_variables_are_listed(codebolt: Codebolt) -> None:
    add_recipe(codebolt, "deploys", "x", section="state")
    definition = {
        "id": "tasks",
        "label": "Tasks",
        "inputs_scope": ["task"],
        "additional_variables": [{"name": "phase", "required": True}],
    }
    codebolt.post("/persistent-memory/types", definition)
    codebolt.post("/persistent-memory/types", definition | {"id": "old", "status": "deprecated"})

    types = codebolt.get(f"{ASSEMBLY}/memory-types")
    needed = codebolt.post(f"{ASSEMBLY}/required-variables", {"memory_ids": ["tasks"]}, 200)

    assert [one["id"] for one in types] == ["deploys", "tasks"]
    assert types[1] == {
        "id": "tasks",
        "label": "Tasks",
        "description": "",
        "inputs_scope": ["task"],
        "additional_variables": [{"name": "phase", "required": True}],
        "contribution": {
            "section": "knowledge",
            "priority": "medium",
            "format": "bullet_list",
            "max_items": 10,
        },
    }
    assert needed == {
        "scope_variables": {"task": ["task_id", "task_type"]},
        "additional_variables": [{"name": "phase", "required": True}],
    }
