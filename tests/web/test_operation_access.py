"""Access of every operation with every kind of key. New operations are covered automatically."""

from collections.abc import Iterator
from typing import Any, NamedTuple

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
    "memory_tool.read": {"arguments": {"command": "search", "query": "x"}},
    "memory_tool.write": {"arguments": {"command": "create", "key": "x", "content": "x"}},
    "contexts.open": {"sort": "chat"},
    "contexts.close": {"sort": "chat"},
    "grants.set": {"grantee": "y"},
    "knowledge_graph.add_observations": {"items": []},
    "knowledge_graph.create_entities": {"entities": []},
    "knowledge_graph.create_relations": {"relations": []},
    "knowledge_graph.delete_entities": {"names": ["x"]},
    "knowledge_graph.delete_observations": {"items": []},
    "knowledge_graph.delete_relations": {"relations": []},
    "knowledge_graph.open": {"names": ["x"]},
    "records.find": {"keys": ["x"]},
    "records.put": {"items": [{"scope": "x", "key": "x", "data": {"value": {}}}]},
    "records.remove": {"keys": ["x"]},
    "records.touch": {"guids": ["x"]},
    "facts.delete_many": {"ids": ["x"]},
    "procedures.delete_many": {"ids": ["x"]},
    "procedures.save": {"procedure_type": "code_snippet"},
    "procedures.use": {"success": True},
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
        query = [f"{name}=x" for name in place.query_fields if name in required]
        path += f"?{'&'.join(query)}" if query else ""
        body = {name: "x" for name in place.body_fields if name in required}
        body |= SAMPLES.get(operation.name, {})
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
        assert let_in in (200, 201, 204, 404)


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
