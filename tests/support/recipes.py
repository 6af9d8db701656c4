"""A client of Codebolt's paths, and the data that the acceptance statements read."""

from typing import Any

from tests.support.http import Answer, ask

Json = dict[str, Any]
KV: Json = {"type": "kv_get", "instance": "app", "namespace": "prefs", "keys": ["theme"]}
LOG: Json = {"type": "log_search", "instance": "deploys"}
EVENTS = [
    (10, "api", "deploy.ok", "api 1.0 is live", 900),
    (11, "web", "deploy.failed", "web 2.0 failed", 300),
    (12, "api", "deploy.failed", "api 1.1 failed", 1500),
    (13, "web", "deploy.ok", "web 2.1 is live", 700),
]
NODES = [
    ("ada", "person", "Ada"),
    ("ben", "person", "Ben"),
    ("cy", "person", "Cy"),
    ("api", "service", "API"),
    ("db", "service", "DB"),
]
EDGES = [
    ("ada", "knows", "ben"),
    ("ben", "knows", "cy"),
    ("ada", "owns", "api"),
    ("api", "uses", "db"),
]


class Project:
    """A pipeline whose recipes and sources are used over HTTP."""

    def __init__(self, url: str, uid: str) -> None:
        self.url, self.uid = url, uid

    def ask(self, method: str, path: str, body: Any = b"", **headers: str) -> Answer:
        """Send a request for this pipeline. A header name has underscores for hyphens."""
        return ask(self.url, method, path, body, {"x_project_id": self.uid} | headers)

    def post(self, path: str, body: Json, status: int = 201) -> Any:
        """Return the answer of a POST, which has that status."""
        answer = self.ask("POST", path, body)
        assert answer.status == status, answer
        return answer.json

    def create(self, id: str, pipeline: list[Json], **fields: Any) -> Any:
        """Create a recipe and return it as stored."""
        definition = {"id": id, "label": id, "retrieval": {"pipeline": pipeline}} | fields
        return self.post("/persistent-memory/types", definition)

    def execute(self, id: str, body: Json | None = None, status: int = 200) -> Any:
        """Return the result of a recipe."""
        return self.post(f"/persistent-memory/types/{id}/execute", body or {}, status)

    def run(self, id: str, pipeline: list[Json], body: Json | None = None, **fields: Any) -> Any:
        """Create a recipe, run it and return the result."""
        self.create(id, pipeline, **fields)
        return self.execute(id, body)

    def fill(self) -> None:
        """Store the key-value pairs, events and graph of the acceptance statements."""
        for key, value in (("theme", "dark"), ("limits", {"max": 5})):
            pair = {"instanceId": "app", "namespace": "prefs", "key": key, "value": value}
            self.post("/kvstore/kv", pair | {"autoCreateInstance": True})
        events = [
            {
                "stream_id": service,
                "event_type": type_,
                "timestamp": f"2026-11-01T{hour}:00:00Z",
                "payload": {"service": service, "message": message, "ms": ms},
            }
            for hour, service, type_, message, ms in EVENTS
        ]
        batch = {"instanceId": "deploys", "autoCreateInstance": True, "events": events}
        self.post("/eventlog/events/batch", batch)
        self._fill_graph()

    def _fill_graph(self) -> None:
        self.post("/kg/instances", {"name": "team"})
        for id, kind, name in NODES:
            self.post("/kg/instances/team/records", {"id": id, "kind": kind, "name": name})
        for start, kind, end in EDGES:
            edge = {"kind": kind, "from_node_id": start, "to_node_id": end}
            self.post("/kg/instances/team/edges", edge)
        template = {
            "id": "t",
            "name": "t",
            "match": {"alias": "a", "recordKind": "person"},
            "return": [{"expression": "a.name", "alias": "name"}],
        }
        self.post("/kg/view-templates", template)
        view = {"id": "people", "viewTemplateId": "t", "instanceId": "team"}
        self.post("/kg/views", view)


def hours(items: list[Json]) -> list[int]:
    """Return the hour of each event."""
    return [int(item["timestamp"][11:13]) for item in items]
