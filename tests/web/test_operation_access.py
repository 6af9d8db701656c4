"""Access of every operation with every kind of key. New operations are covered automatically."""

from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest

from memrelay.memory.control.keys import SCOPES
from memrelay.memory.operations import Operation, all_operations, input_schema
from memrelay.web.api.operation_routes import route_of
from tests.support.http import ask
from tests.support.keys import ApiKey, await_closed, make_key, revoke
from tests.support.web_system import WebSystem

OPERATIONS = list(all_operations().values())
# Values of required fields that must not be "x".
SAMPLES: dict[str, Any] = {
    "assembly.assemble": {"scope_variables": {}},
    "assembly.required_variables": {"memory_ids": []},
    "checkpoints.copy": {"target": "y"},
    "checkpoints.forget_runs": {"runs": ["x"]},
    "checkpoints.prune": {"threads": ["x"]},
    "contexts.open": {"sort": "chat"},
    "contexts.close": {"sort": "chat"},
    "conversations.clear": {"thread": "x"},
    "conversations.history": {"thread": "x"},
    "endpoints.create": {"url": "https://example.com/hook"},
    "episodes.complete": {"success": True},
    "episodes.delete_many": {"ids": ["x"]},
    "events.append": {"events": [{"event_type": "x", "payload": {}, "stream_id": "x"}]},
    "facts.delete_many": {"ids": ["x"]},
    "grants.set": {"grantee": "y"},
    "graph.add_edges": {"edges": [{"kind": "x", "from_node_id": "x", "to_node_id": "x"}]},
    "graph.add_nodes": {"nodes": [{"kind": "x", "name": "x"}]},
    "instances.create": {"sort": "kv"},
    "instances.delete": {"sort": "kv"},
    "instances.get": {"sort": "kv"},
    "instances.list": {"sort": "kv"},
    "instances.update": {"sort": "kv"},
    "knowledge_graph.add_observations": {"items": []},
    "knowledge_graph.create_entities": {"entities": []},
    "knowledge_graph.create_relations": {"relations": []},
    "knowledge_graph.delete_entities": {"names": ["x"]},
    "knowledge_graph.delete_observations": {"items": []},
    "knowledge_graph.delete_relations": {"relations": []},
    "knowledge_graph.open": {"names": ["x"]},
    "memory_tool.read": {"arguments": {"command": "search", "query": "x"}},
    "memory_tool.write": {"arguments": {"command": "create", "key": "x", "content": "x"}},
    "procedures.delete_many": {"ids": ["x"]},
    "procedures.save": {"procedure_type": "code_snippet"},
    "procedures.use": {"success": True},
    "recipes.create": {"definition": {"id": "x", "label": "x"}},
    "recipes.execute": {"id": "x"},
    "recipes.import": {"config": '{"id": "x", "label": "x"}'},
    "recipes.store": {"definitions": [{"id": "x", "label": "x"}]},
    "recipes.update": {"definition": {}},
    "records.find": {"keys": ["x"]},
    "records.put": {"items": [{"scope": "x", "key": "x", "data": {"value": {}}}]},
    "records.remove": {"keys": ["x"]},
    "records.touch": {"guids": ["x"]},
    "rules.evaluate": {"scope_variables": {}},
    "users.delete_many": {"ids": ["x"]},
    "view_templates.create": {"query": {"match": {"alias": "a"}, "return": ["a.name"]}},
}


class AccessServer(NamedTuple):
    """A server with two pipelines, and one key of each kind for the first."""

    web_system: WebSystem
    uid: str
    keys: dict[str, ApiKey]

    def status(self, operation: Operation, key: str, uid: str = "") -> int:
        place = route_of(operation)
        path = place.path.format(uid=uid or self.uid, **dict.fromkeys(place.path_fields, "nobody"))
        required = {*input_schema(operation)["required"], "memory_id", "text"}
        sample = SAMPLES.get(operation.name, {})
        query = {name: "x" for name in place.query_fields if name in required}
        body = {name: "x" for name in place.body_fields if name in required}
        if query:
            path += f"?{urlencode(query | sample)}"
        else:
            body |= sample
        return ask(
            self.web_system.url,
            place.method,
            path,
            body or b"",
            self.keys[key].headers if key else {},
        ).status


@pytest.fixture(scope="module")
def server() -> Iterator[AccessServer]:
    with WebSystem() as web_system:
        uid, other = web_system.deploy(), web_system.deploy()
        root = web_system.system.root
        keys = {scope: make_key(root, scope, pipelines=(uid,)) for scope in SCOPES}
        keys |= {
            f"lacks {scope}": make_key(
                root, *[one for one in SCOPES if one != scope], pipelines=(uid,)
            )
            for scope in SCOPES
        }
        keys |= {
            "other": make_key(root, pipelines=(other,)),
            "expired": make_key(root, pipelines=(uid,), lasts_ms=-1),
            "revoked": make_key(root, pipelines=(uid,)),
            "wrong": ApiKey("", f"mr_{'0' * 12}_{'f' * 64}"),
        }
        revoke(root, keys["revoked"])
        await_closed(web_system)
        yield AccessServer(web_system, uid, keys)


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_a_key_can_call_exactly_the_operations_of_its_scope(
    server: AccessServer, operation: Operation
) -> None:
    for scope in SCOPES:
        alone, others = server.status(operation, scope), server.status(operation, f"lacks {scope}")
        let_in = others if scope != operation.access else alone

        assert (alone == 403) is (scope != operation.access), (operation.name, scope)
        assert (others == 403) is (scope == operation.access), (operation.name, scope)
        assert let_in in (200, 201, 204, 404, 409), "409: an earlier call has created it"


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_a_caller_without_a_key_for_the_pipeline_is_rejected(
    server: AccessServer, operation: Operation
) -> None:
    assert {server.status(operation, key) for key in ("", "expired", "revoked", "wrong")} == {401}
    assert server.status(operation, "other") == server.status(operation, "other", "ghost") == 404


def test_a_key_without_read_gets_no_stored_value_from_a_write(server: AccessServer) -> None:
    path, url = f"/v1/pipelines/{server.uid}/items/taken", server.web_system.url
    given = {"agent": "a1", "store": "a1", "value": "tea"}
    ask(url, "PUT", path, given, server.keys["write"].headers)

    lost = ask(url, "PUT", path, given | {"if_absent": True}, server.keys["write"].headers)

    assert lost.json.keys() == {"guid", "version", "created", "won"}
    assert lost.json["won"] is False


def test_a_key_without_read_gets_no_fact_from_a_write(server: AccessServer) -> None:
    path, url = f"/v1/pipelines/{server.uid}/facts/color/set", server.web_system.url
    headers = server.keys["write"].headers
    ask(url, "POST", path, {"value": "blue"}, headers)

    kept = ask(url, "POST", path, {"value": "red", "overwrite": False}, headers)

    assert kept.status == 200 and kept.json.keys() == {"id", "version", "action"}
    assert kept.json["action"] == "skipped"
