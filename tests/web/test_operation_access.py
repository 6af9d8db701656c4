"""Access of every operation with every kind of key. New operations are covered automatically."""

from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlencode

import pytest

from memrelay.memory.control.keys import SCOPES
from memrelay.memory.operation import Operation, all_operations, input_schema, json_type
from memrelay.web.api.operation_routes import route_of
from tests.support.http import ask
from tests.support.keys import Held, await_closed, make_key, revoke
from tests.support.served import Served

# Fields that some operations need although each by itself is optional.
ALWAYS_SENT = ("content", "query", "memory_id", "name", "text")
OPERATIONS = list(all_operations().values())


class AccessServer(NamedTuple):
    """A server with two pipelines, and one key of each kind for the first."""

    served: Served
    uid: str
    keys: dict[str, Held]

    def status(self, operation: Operation, key: str, uid: str = "") -> int:
        place = route_of(operation)
        path = place.path.format(uid=uid or self.uid, guid="nobody", id="nobody", key="nobody")
        schema = input_schema(operation)
        names = {*schema["required"], *ALWAYS_SENT}
        sent = {
            name: {} if json_type(schema["properties"][name]) == "object" else "nobody"
            for name in (*place.query_fields, *place.body_fields)
            if name in names
        }
        query = {name: value for name, value in sent.items() if name in place.query_fields}
        path += f"?{urlencode(query)}" if query else ""
        body = {name: sent[name] for name in place.body_fields if name in sent} or b""
        return ask(
            self.served.url, place.method, path, body, self.keys[key].headers if key else {}
        ).status


@pytest.fixture(scope="module")
def server() -> Iterator[AccessServer]:
    with Served() as served:
        uid, other = served.deploy(), served.deploy()
        root = served.house.root
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
            "wrong": Held("", f"mr_{'0' * 12}_{'f' * 64}"),
        }
        revoke(root, keys["revoked"])
        await_closed(served)
        yield AccessServer(served, uid, keys)


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
        # An empty tool call is invalid for memory_tool.write.
        assert let_in in (200, 201, 204, 404, 422)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_a_caller_without_a_key_for_the_pipeline_is_rejected(
    server: AccessServer, operation: Operation
) -> None:
    assert {server.status(operation, key) for key in ("", "expired", "revoked", "wrong")} == {401}
    assert server.status(operation, "other") == server.status(operation, "other", "ghost") == 404
