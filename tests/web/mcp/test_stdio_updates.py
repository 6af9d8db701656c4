"""Updates of resources for a client over stdio: `resources/subscribe`, and a graph over HTTP."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.http import ask
from tests.support.mcp_calls import McpCalls
from tests.support.program import COMMAND, environment_without_settings
from tests.support.web_system import WebSystem

GRAPH_URI = "memory://knowledge-graph"


class Stdio:
    """A client of revision 2025-11-25 over stdio."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process, self._last = process, 0
        given = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "tests", "version": "1"},
        }
        self.capabilities = self.call("initialize", **given)["result"]["capabilities"]
        self._send({"method": "notifications/initialized"})

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the answer of a request."""
        self._last += 1
        self._send({"id": self._last, "method": method, "params": params})
        answer = self.receive()
        assert answer["id"] == self._last, answer
        return answer

    def receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        message: dict[str, Any] = json.loads(self._process.stdout.readline())
        return message

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()


@contextmanager
def open_stdio(web_system: WebSystem, *arguments: str) -> Iterator[Stdio]:
    environment = environment_without_settings() | {
        "MEMRELAY_BUS__URL": f"unix://{web_system.system.client.socket}",
        "MEMRELAY_MEMORY__ROOT": str(web_system.system.root),
    }
    pipe = subprocess.PIPE
    command = [*COMMAND, "mcp", *arguments]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as process:
        try:
            yield Stdio(process)
        finally:
            process.kill()


def test_a_subscribed_record_is_reported_until_it_is_unsubscribed(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    records = f"/v1/pipelines/{uid}/records"
    guids = [
        ask(web_system.url, "POST", records, {"content": text}).json["guid"] for text in ("a", "b")
    ]
    first, second = (f"memory://{uid}/records/{guid}" for guid in guids)
    with open_stdio(web_system, uid) as client:
        assert client.capabilities["resources"]["subscribe"] is True
        refused = client.call("resources/subscribe", uri="memory://other/records/x")
        assert refused["error"]["message"] == "Resource not found"
        for uri in (first, second):
            assert client.call("resources/subscribe", uri=uri)["result"] == {}
        ask(web_system.url, "PATCH", f"{records}/{guids[0]}", {"content": "changed"})
        heard = client.receive()
        assert client.call("resources/unsubscribe", uri=first)["result"] == {}
        for guid in guids:
            ask(web_system.url, "PATCH", f"{records}/{guid}", {"content": "changed again"})
        following = client.receive()

    assert heard["method"] == following["method"] == "notifications/resources/updated"
    assert (heard["params"]["uri"], following["params"]["uri"]) == (first, second)


def test_a_file_declares_no_updates_and_lists_its_resources(web_system: WebSystem) -> None:
    with open_stdio(web_system, "--file", str(web_system.system.folder / "notes.db")) as client:
        assert client.capabilities["resources"]["subscribe"] is False
        assert client.call("resources/list")["result"]["resources"] == []
        templates = client.call("resources/templates/list")["result"]["resourceTemplates"]
        assert templates[0]["uriTemplate"] == "memory://local/records/{guid}"
        assert client.call("resources/subscribe", uri="memory://local/records/x")["error"]


def test_the_graph_is_a_resource_that_reports_each_change(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    client = McpCalls(web_system.url, f"/mcp/{uid}/graph")
    entities = [
        {"name": name, "entityType": "person", "observations": ["likes tea"]}
        for name in ("Ada", "Bob")
    ]
    relations = [{"from": "Ada", "to": "Bob", "relationType": "knows"}]
    more = [{"entityName": "Ada", "contents": ["lives in Rome"]}]
    fewer = [{"entityName": "Ada", "observations": ["lives in Rome"]}]
    calls: list[tuple[str, dict[str, Any]]] = [
        ("create_entities", {"entities": entities}),
        ("create_relations", {"relations": relations}),
        ("add_observations", {"observations": more}),
        ("delete_observations", {"deletions": fewer}),
        ("delete_relations", {"relations": relations}),
        ("delete_entities", {"entityNames": ["Ada"]}),
    ]
    assert [one["uri"] for one in client("resources/list")["resources"]] == [GRAPH_URI]
    with client.listen(GRAPH_URI) as stream:
        assert stream.honored == {"resourceSubscriptions": [GRAPH_URI]}
        for name, arguments in calls:
            assert not client("tools/call", name=name, arguments=arguments).get("isError")
            assert stream.hear_update() == GRAPH_URI
    graph = client.read(GRAPH_URI)
    assert [one["name"] for one in graph["entities"]] == ["Bob"]
    assert graph["relations"] == []
