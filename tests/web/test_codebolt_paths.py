"""Every path of Codebolt's API: declared in all forms, and called on a real worker."""

from pathlib import Path
from typing import Any

import pytest

from memrelay.web.auth.access import get_access
from memrelay.web.models.codebolt.errors import CODEBOLT
from memrelay.web.server.error_dialects import get_error_dialect
from tests.support.codebolt import Codebolt
from tests.support.routes import app_for
from tests.support.web_system import WebSystem

TYPES = "/persistent-memory/types"
KV, LOG, KG = "/kvstore", "/eventlog", "/kg"
ENGINES, ASSEMBLY = "/context-rule-engine", "/context-assembly"
# The paths in Codebolt's documentation, and the access that each needs here.
PATHS = {
    ("GET", TYPES): "read",
    ("POST", TYPES): "write",
    ("GET", f"{TYPES}/{{id}}"): "read",
    ("PUT", f"{TYPES}/{{id}}"): "write",
    ("DELETE", f"{TYPES}/{{id}}"): "delete",
    ("POST", f"{TYPES}/{{id}}/execute"): "search",
    ("POST", "/persistent-memory/validate"): "read",
    ("GET", "/persistent-memory/step-specs"): "read",
    ("GET", "/persistent-memory/step-specs/user-configurable"): "read",
    ("GET", f"{TYPES}/{{id}}/export"): "read",
    ("POST", "/persistent-memory/import"): "write",
    ("POST", f"{TYPES}/{{id}}/duplicate"): "write",
    ("POST", f"{KV}/instances"): "write",
    ("GET", f"{KV}/instances"): "read",
    ("GET", f"{KV}/instances/{{id}}"): "read",
    ("PUT", f"{KV}/instances/{{id}}"): "write",
    ("DELETE", f"{KV}/instances/{{id}}"): "delete",
    ("POST", f"{KV}/kv"): "write",
    ("GET", f"{KV}/kv/{{instance}}/{{namespace}}/{{key}}"): "read",
    ("DELETE", f"{KV}/kv/{{instance}}/{{namespace}}/{{key}}"): "delete",
    ("DELETE", f"{KV}/namespace/{{instance}}/{{namespace}}"): "delete",
    ("POST", f"{KV}/query"): "read",
    ("POST", f"{LOG}/instances"): "write",
    ("GET", f"{LOG}/instances"): "read",
    ("GET", f"{LOG}/instances/{{id}}"): "read",
    ("PUT", f"{LOG}/instances/{{id}}"): "write",
    ("DELETE", f"{LOG}/instances/{{id}}"): "delete",
    ("POST", f"{LOG}/events"): "append",
    ("POST", f"{LOG}/events/batch"): "append",
    ("POST", f"{LOG}/query"): "read",
    ("POST", f"{KG}/instance-templates"): "write",
    ("GET", f"{KG}/instance-templates"): "read",
    ("PUT", f"{KG}/instance-templates"): "write",
    ("DELETE", f"{KG}/instance-templates"): "delete",
    ("POST", f"{KG}/instances"): "write",
    ("GET", f"{KG}/instances"): "read",
    ("DELETE", f"{KG}/instances"): "delete",
    ("POST", f"{KG}/instances/{{instance}}/records"): "write",
    ("GET", f"{KG}/instances/{{instance}}/records"): "read",
    ("GET", f"{KG}/instances/{{instance}}/records/{{id}}"): "read",
    ("PUT", f"{KG}/instances/{{instance}}/records/{{id}}"): "write",
    ("DELETE", f"{KG}/instances/{{instance}}/records/{{id}}"): "delete",
    ("POST", f"{KG}/instances/{{instance}}/edges"): "write",
    ("GET", f"{KG}/instances/{{instance}}/edges"): "read",
    ("DELETE", f"{KG}/instances/{{instance}}/edges/{{id}}"): "delete",
    ("POST", f"{KG}/view-templates"): "write",
    ("GET", f"{KG}/view-templates"): "read",
    ("PUT", f"{KG}/view-templates"): "write",
    ("DELETE", f"{KG}/view-templates"): "delete",
    ("POST", f"{KG}/views"): "write",
    ("GET", f"{KG}/views"): "read",
    ("DELETE", f"{KG}/views"): "delete",
    ("GET", f"{KG}/views/{{id}}/execute"): "read",
    ("GET", f"{KG}/instances/{{instance}}/subgraph"): "read",
    ("POST", f"{KG}/instances/{{instance}}/expand-node"): "read",
    ("POST", f"{ASSEMBLY}/assemble"): "search",
    ("POST", f"{ASSEMBLY}/validate"): "read",
    ("GET", f"{ASSEMBLY}/memory-types"): "read",
    ("POST", f"{ASSEMBLY}/evaluate-rules"): "search",
    ("POST", f"{ASSEMBLY}/required-variables"): "read",
    ("GET", ENGINES): "read",
    ("POST", ENGINES): "write",
    ("GET", f"{ENGINES}/variables"): "read",
    ("POST", f"{ENGINES}/evaluate"): "search",
    ("GET", f"{ENGINES}/{{id}}"): "read",
    ("PUT", f"{ENGINES}/{{id}}"): "write",
    ("DELETE", f"{ENGINES}/{{id}}"): "delete",
    ("POST", f"{ENGINES}/{{id}}/evaluate"): "search",
}
NAMES = {"instance": "i1", "namespace": "n1", "key": "k1", "id": "x1"}
KNOWS = {"kind": "knows", "from_node_id": "x1", "to_node_id": "n2"}
INPUTS = {"scope_variables": {"task": {"task_id": "T1"}}}
RULE = {"when": [{"field": "input.text", "operator": "exists"}], "then": {"add_memories": ["x1"]}}
# Calls in the order in which they succeed: the call, the query, the body, and the status.
CALLS: tuple[tuple[str, str, str, Any, int], ...] = (
    ("POST", f"{KV}/instances", "", {"name": "x1"}, 201),
    ("PUT", f"{KV}/instances/{{id}}", "", {"description": "d"}, 200),
    ("GET", f"{KV}/instances/{{id}}", "", b"", 200),
    ("GET", f"{KV}/instances", "", b"", 200),
    (
        "POST",
        f"{KV}/kv",
        "",
        {
            "instanceId": "i1",
            "namespace": "n1",
            "key": "k1",
            "value": 1,
            "autoCreateInstance": True,
        },
        201,
    ),
    ("GET", f"{KV}/kv/{{instance}}/{{namespace}}/{{key}}", "", b"", 200),
    ("POST", f"{KV}/query", "", {"instance": "i1", "namespace": "n1"}, 200),
    ("DELETE", f"{KV}/kv/{{instance}}/{{namespace}}/{{key}}", "", b"", 200),
    ("DELETE", f"{KV}/namespace/{{instance}}/{{namespace}}", "", b"", 200),
    ("DELETE", f"{KV}/instances/{{id}}", "", b"", 204),
    ("POST", f"{LOG}/instances", "", {"name": "x1"}, 201),
    ("PUT", f"{LOG}/instances/{{id}}", "", {"description": "d"}, 200),
    ("GET", f"{LOG}/instances/{{id}}", "", b"", 200),
    ("GET", f"{LOG}/instances", "", b"", 200),
    (
        "POST",
        f"{LOG}/events",
        "",
        {"instanceId": "x1", "streamId": "s", "eventType": "t", "payload": {}},
        201,
    ),
    (
        "POST",
        f"{LOG}/events/batch",
        "",
        {"instanceId": "x1", "events": [{"stream_id": "s", "event_type": "t", "payload": 1}]},
        201,
    ),
    ("POST", f"{LOG}/query", "", {"from": {"instance": "x1"}}, 200),
    ("DELETE", f"{LOG}/instances/{{id}}", "", b"", 204),
    ("POST", f"{KG}/instance-templates", "", {"id": "x1", "name": "people"}, 201),
    ("GET", f"{KG}/instance-templates", "", b"", 200),
    ("PUT", f"{KG}/instance-templates", "?id=x1", {"name": "teams"}, 200),
    ("POST", f"{KG}/instances", "", {"name": "i1", "templateId": "x1"}, 201),
    ("GET", f"{KG}/instances", "", b"", 200),
    (
        "POST",
        f"{KG}/instances/{{instance}}/records",
        "",
        {
            "records": [
                {"id": "x1", "name": "Ada", "kind": "p"},
                {"id": "n2", "name": "B", "kind": "p"},
            ]
        },
        201,
    ),
    ("GET", f"{KG}/instances/{{instance}}/records", "?limit=1", b"", 200),
    ("GET", f"{KG}/instances/{{instance}}/records/{{id}}", "", b"", 200),
    ("PUT", f"{KG}/instances/{{instance}}/records/{{id}}", "", {"name": "Eve"}, 200),
    ("POST", f"{KG}/instances/{{instance}}/edges", "", KNOWS | {"id": "x1"}, 201),
    ("GET", f"{KG}/instances/{{instance}}/edges", "?kind=knows", b"", 200),
    (
        "POST",
        f"{KG}/view-templates",
        "",
        {
            "id": "x1",
            "name": "v",
            "match": {"alias": "a", "recordKind": "p"},
            "return": [{"expression": "a.name", "alias": "name"}],
        },
        201,
    ),
    ("GET", f"{KG}/view-templates", "", b"", 200),
    ("PUT", f"{KG}/view-templates", "?id=x1", {"name": "w"}, 200),
    ("POST", f"{KG}/views", "", {"id": "x1", "templateId": "x1", "instanceId": "i1"}, 201),
    ("GET", f"{KG}/views", "", b"", 200),
    ("GET", f"{KG}/views/{{id}}/execute", "", b"", 200),
    ("GET", f"{KG}/instances/{{instance}}/subgraph", "?limit=5&seedNodeId=x1", b"", 200),
    ("POST", f"{KG}/instances/{{instance}}/expand-node", "", {"nodeId": "x1"}, 200),
    ("DELETE", f"{KG}/views", "?id=x1", b"", 204),
    ("DELETE", f"{KG}/view-templates", "?id=x1", b"", 204),
    ("DELETE", f"{KG}/instances/{{instance}}/edges/{{id}}", "", b"", 204),
    ("DELETE", f"{KG}/instances/{{instance}}/records/{{id}}", "", b"", 204),
    ("DELETE", f"{KG}/instances", "?id=i1", b"", 204),
    ("DELETE", f"{KG}/instance-templates", "?id=x1", b"", 204),
    ("POST", TYPES, "", {"id": "x1", "label": "L"}, 201),
    ("GET", TYPES, "?activeOnly=true&status=active", b"", 200),
    ("GET", f"{TYPES}/{{id}}", "", b"", 200),
    ("PUT", f"{TYPES}/{{id}}", "", {"id": "x1", "label": "M"}, 200),
    ("POST", f"{TYPES}/{{id}}/execute", "", {"query": "q"}, 200),
    ("POST", "/persistent-memory/validate", "", {"id": "x2", "label": "L"}, 200),
    ("GET", "/persistent-memory/step-specs", "", b"", 200),
    ("GET", "/persistent-memory/step-specs/user-configurable", "", b"", 200),
    ("GET", f"{TYPES}/{{id}}/export", "", b"", 200),
    ("POST", "/persistent-memory/import", "", {"config": {"id": "x2", "label": "L"}}, 201),
    ("POST", f"{TYPES}/{{id}}/duplicate", "", {"id": "x3"}, 201),
    ("POST", ENGINES, "", {"id": "x1", "name": "main", "rules": [RULE]}, 201),
    ("GET", ENGINES, "", b"", 200),
    ("GET", f"{ENGINES}/{{id}}", "", b"", 200),
    ("PUT", f"{ENGINES}/{{id}}", "", {"enabled": True}, 200),
    ("GET", f"{ENGINES}/variables", "", b"", 200),
    ("POST", f"{ENGINES}/evaluate", "", INPUTS, 200),
    ("POST", f"{ENGINES}/{{id}}/evaluate", "", INPUTS | {"input": "x"}, 200),
    ("POST", f"{ASSEMBLY}/evaluate-rules", "", INPUTS | {"rule_engine_ids": ["x1"]}, 200),
    ("POST", f"{ASSEMBLY}/required-variables", "", {"memory_ids": ["x1"]}, 200),
    ("GET", f"{ASSEMBLY}/memory-types", "", b"", 200),
    ("POST", f"{ASSEMBLY}/validate", "", INPUTS, 200),
    ("POST", f"{ASSEMBLY}/assemble", "", INPUTS | {"explicit_memory": ["x1"]}, 200),
    ("DELETE", f"{ENGINES}/{{id}}", "", b"", 204),
    ("DELETE", f"{TYPES}/{{id}}", "", b"", 204),
)


def test_each_path_has_four_forms_with_the_same_access(tmp_path: Path) -> None:
    found = {
        (route.method, route.resource.canonical): get_access(route.handler)
        for route in app_for(tmp_path).router.routes()
        if route.resource is not None
        and route.method != "HEAD"
        and get_error_dialect(route.handler) is CODEBOLT
        and not route.resource.canonical.rstrip("/").endswith("/persistent-memory/events")
    }

    assert found == {
        (method, prefix + path + end): access
        for (method, path), access in PATHS.items()
        for prefix in ("", "/p/{uid}")
        for end in ("", "/")
    }


def test_the_calls_cover_every_path() -> None:
    assert {(method, path) for method, path, *_ in CALLS} == set(PATHS)
    assert len(CALLS) == len(PATHS)


@pytest.mark.parametrize("end", ["", "/"])
def test_every_path_succeeds_on_a_worker(web_system: WebSystem, end: str) -> None:
    codebolt = Codebolt(web_system, web_system.deploy())

    for method, path, query, body, status in CALLS:
        answer = codebolt(method, path.format(**NAMES) + end + query, body)
        assert answer.status == status, (method, path, answer)
        assert bool(answer.body) is (status != 204), (method, path, answer)


def test_the_project_is_named_by_a_parameter_or_a_header(web_system: WebSystem) -> None:
    first, second = web_system.deploy(), web_system.deploy()
    web_system.post(f"{ENGINES}?project_id={first}", {"id": "e1", "name": "n"})

    found = [
        web_system.get(f"{ENGINES}?project_id={first}"),
        web_system.get(ENGINES, x_project_id=first),
        web_system.get(f"/p/{first}{ENGINES}"),
        web_system.get(ENGINES, x_project_id=second),
    ]

    assert [[one["id"] for one in answer.json] for answer in found] == [["e1"]] * 3 + [[]]
    assert web_system.get(ENGINES).status == 400
