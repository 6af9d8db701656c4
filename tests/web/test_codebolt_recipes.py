"""Recipes over Codebolt's paths: definitions, validation, execution, export and import."""

from typing import Any

import pytest

from tests.support.codebolt import Codebolt
from tests.support.web_system import WebSystem

ROOT = "/persistent-memory"
TYPES = f"{ROOT}/types"
NORMALIZE = {
    "id": "normalize",
    "label": "Normalize",
    "inputs_scope": ["task"],
    "retrieval": {"pipeline": [{"type": "derive_query"}, {"type": "rewrite_query"}]},
}


@pytest.fixture
def codebolt(web_system: WebSystem) -> Codebolt:
    return Codebolt(web_system, web_system.deploy())


def ids_of(definitions: Any) -> list[str]:
    return [definition["id"] for definition in definitions]


def test_a_definition_is_created_with_its_times(codebolt: Codebolt) -> None:
    answer = codebolt("POST", TYPES, NORMALIZE)

    made = answer.json
    assert answer.status == 201 and answer.headers["etag"].startswith('"')
    assert made == {**made, **NORMALIZE, "version": "1.0.0", "status": "active"}
    assert made["contribution"]["section"] == "knowledge"
    assert made["createdAt"].endswith("Z")
    assert codebolt.get(f"{TYPES}/normalize") == made
    assert codebolt.faults(409, "POST", TYPES, NORMALIZE) == []


def test_recipes_are_listed_by_id_status_and_scope(codebolt: Codebolt) -> None:
    codebolt.post(TYPES, NORMALIZE)
    codebolt.post(TYPES, {"id": "old", "label": "Old", "status": "deprecated"})
    codebolt.post(TYPES, {"id": "a", "label": "A"})

    assert ids_of(codebolt.get(TYPES)) == ["a", "normalize", "old"]
    assert ids_of(codebolt.get(f"{TYPES}?status=deprecated")) == ["old"]
    assert ids_of(codebolt.get(f"{TYPES}?activeOnly=true")) == ["a", "normalize"]
    for name in ("input_scope", "inputScope"):
        assert ids_of(codebolt.get(f"{TYPES}?{name}=task")) == ["normalize"]


def test_a_put_replaces_the_version_in_if_match(codebolt: Codebolt) -> None:
    etag = codebolt("POST", TYPES, NORMALIZE).headers["etag"]
    path, new = f"{TYPES}/normalize", {"id": "normalize", "label": "New"}

    known = codebolt("GET", path, if_none_match=etag)
    first, second = [codebolt("PUT", path, new, if_match=etag) for _ in range(2)]

    assert (known.status, known.body) == (304, b"")
    assert (first.status, second.status) == (200, 412)
    assert (first.json["label"], first.json["retrieval"]) == ("New", {"pipeline": []})
    assert first.headers["etag"] not in (etag, "")
    assert codebolt("DELETE", path, if_match=etag).status == 412
    assert codebolt("DELETE", path, if_match=first.headers["etag"]).status == 204
    assert codebolt.faults(404, "GET", path) == []


def test_a_put_cannot_change_the_id(codebolt: Codebolt) -> None:
    codebolt.post(TYPES, NORMALIZE)

    faults = codebolt.faults(400, "PUT", f"{TYPES}/normalize", {"id": "other", "label": "x"})

    assert faults == [("/id", "bad_id")]
    assert ids_of(codebolt.get(TYPES)) == ["normalize"]


def test_an_invalid_definition_gets_all_its_faults(codebolt: Codebolt) -> None:
    body = {"label": "x", "retrieval": {"pipeline": [{"type": "vector_serch"}]}}

    found = codebolt.expect(422, "POST", TYPES, body)

    unknown = 'unknown step type "vector_serch" (did you mean "vector_search"?)'
    place = "/retrieval/pipeline/0/type"
    assert found == {
        "success": False,
        "error": "the definition has 2 errors",
        "errors": [
            {"path": "/id", "code": "required", "message": "id is missing"},
            {"path": place, "code": "unknown_step", "message": unknown},
        ],
    }
    assert codebolt.faults(422, "POST", TYPES, {"id": "../x", "label": "x"}) == [("/id", "bad_id")]
    assert codebolt.get(TYPES) == []


def test_a_definition_is_validated_without_being_stored(codebolt: Codebolt) -> None:
    valid = codebolt.post(f"{ROOT}/validate", NORMALIZE, 200)
    invalid = codebolt.post(f"{ROOT}/validate", {"id": "x"}, 200)

    assert (valid["valid"], valid["errors"]) == (True, [])
    assert invalid["valid"] is False
    assert [(error["path"], error["code"]) for error in invalid["errors"]] == [
        ("/label", "required")
    ]
    assert codebolt.get(TYPES) == []


def test_a_recipe_runs_with_an_intent_or_its_fields(codebolt: Codebolt) -> None:
    codebolt.post(TYPES, NORMALIZE)
    path, keywords = f"{TYPES}/normalize/execute", ["Contact", "Method"]
    bodies = ({"intent": {"keywords": keywords}}, {"keywords": keywords})

    found = [codebolt.post(path, body, 200) for body in bodies]

    assert [one["formattedOutput"] for one in found] == ["contact method"] * 2
    assert found[0].keys() == {
        "success",
        "memoryId",
        "query",
        "stepResults",
        "finalOutput",
        "formattedOutput",
        "exitedEarly",
        "contribution",
        "variables",
        "warnings",
        "timing",
    }
    assert found[0]["stepResults"]["derive_query"] == "Contact Method"


def test_the_values_of_variables_are_in_the_body(codebolt: Codebolt) -> None:
    step = {"type": "derive_query", "source": "query"}
    definition = NORMALIZE | {
        "retrieval": {"pipeline": [step]},
        "additional_variables": [{"name": "wanted", "required": True}],
    }
    codebolt.post(TYPES, definition)
    path = f"{TYPES}/normalize/execute"

    missing = codebolt.faults(422, "POST", path, {"query": "x"})
    found = codebolt.post(
        path,
        {
            "intent": "a text",
            "variables": {"wanted": 1},
            "scope_variables": {"task": {"task_id": "T1"}},
            "threadId": "t1",
        },
        200,
    )

    assert [path for path, _ in missing] == ["/variables/wanted"]
    assert (found["success"], found["formattedOutput"]) == (True, "a text")


def test_unknown_fields_of_a_run_are_reported_together(codebolt: Codebolt) -> None:
    codebolt.post(TYPES, NORMALIZE)
    path = f"{TYPES}/normalize/execute"

    faults = codebolt.faults(422, "POST", path, {"querry": "x", "variables": 3})

    assert ("/querry", "unknown_field") in faults and ("/variables", "bad_param") in faults
    both = codebolt.faults(422, "POST", path, {"intent": {}, "query": "x"})
    assert both == [("/query", "unknown_field")]


def test_step_types_are_described(codebolt: Codebolt) -> None:
    every = codebolt.get(f"{ROOT}/step-specs")
    configurable = codebolt.get(f"{ROOT}/step-specs/user-configurable")

    types = {one["type"] for one in every}
    assert len(types) == len(every) == 21
    assert types - {one["type"] for one in configurable} == {"custom"}
    (search,) = [one for one in every if one["type"] == "vector_search"]
    params = {one["name"]: one for one in search["params"]}
    assert search["category"] == "retrieval"
    assert params["collection"]["required"] is True and params["topK"]["default"] == 5


def test_an_export_is_imported_with_the_same_bytes(codebolt: Codebolt) -> None:
    codebolt.post(TYPES, NORMALIZE)
    path, target = f"{TYPES}/normalize/export", f"{ROOT}/import"

    exported = codebolt("GET", path)
    assert codebolt("DELETE", f"{TYPES}/normalize").status == 204
    imported = codebolt("POST", target, {"config": exported.body.decode()})
    again = codebolt("POST", target, {"config": exported.json})
    replaced = codebolt("POST", target, {"config": exported.json, "overwrite": True})

    disposition = exported.headers["content-disposition"]
    assert disposition == 'attachment; filename="normalize.json"'
    assert "createdAt" not in exported.json
    assert [one.status for one in (imported, again, replaced)] == [201, 409, 200]
    assert imported.headers["etag"]
    assert codebolt("GET", path).body == exported.body


def test_a_copy_gets_a_free_id(codebolt: Codebolt) -> None:
    codebolt.post(TYPES, NORMALIZE)
    path = f"{TYPES}/normalize/duplicate"

    copies = [codebolt.post(path, {}), codebolt.post(path, {}), codebolt.post(path, {"id": "c"})]

    assert ids_of(copies) == ["normalize-copy", "normalize-copy-2", "c"]
    assert copies[0]["label"] == "Normalize (copy)"
    assert codebolt("POST", path, {"id": "c"}).status == 409
    assert codebolt.faults(422, "POST", path, {"id": "../x"}) == [("/id", "bad_id")]


def test_a_retried_creation_answers_as_the_first(codebolt: Codebolt) -> None:
    first, again = [codebolt("POST", TYPES, NORMALIZE, idempotency_key="c1") for _ in range(2)]

    assert first.status == again.status == 201 and first.body == again.body
    assert first.headers["etag"] == again.headers["etag"]
