"""A client of Robutler's paths, for one agent."""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from tests.support.http import Answer, ask

B = "/api/storage/memory"
TOOL = "/api/tools/memory"


class Agent(NamedTuple):
    """An agent that calls Robutler's paths of a server."""

    url: str
    id: str
    headers: Mapping[str, str] = MappingProxyType({})

    def call(self, method: str, path: str, body: Any = b"", **query: Any) -> Answer:
        """Send a request with the agent's id in the query, or in the body if there is one."""
        if isinstance(body, dict):
            body = {"agentId": self.id} | body
        else:
            query = {"agentId": self.id} | query
        given = {name: value for name, value in query.items() if value is not None}
        full = f"{path}?{urlencode(given)}" if given else path
        return ask(self.url, method, full, body, self.headers)

    def get(self, key: str, **query: Any) -> Answer:
        return self.call("GET", f"{B}/{quote(key, safe='')}", **query)

    def put(self, key: str, value: Any, **fields: Any) -> Answer:
        return self.call("PUT", f"{B}/{quote(key, safe='')}", {"value": value} | fields)

    def browse(self, **query: Any) -> Answer:
        return self.call("GET", f"{B}/", **query)

    def search(self, text: str, **query: Any) -> list[str]:
        """Return the keys that a search finds."""
        answer = self.browse(action="search", q=text, **query)
        assert answer.status == 200, answer
        return [one["key"] for one in answer.json["results"]]

    def share(self, grantee: str, level: str | None = None, **fields: Any) -> Answer:
        body = {"grantee": grantee, "level": level} | fields
        return self.call("POST", f"{B}/?action=share", body)

    def tool(self, **arguments: Any) -> Any:
        """Return the value of a successful tool call."""
        answer = self.ask_tool(arguments)
        assert answer["is_error"] is False, answer
        return answer["value"]

    def fail(self, **arguments: Any) -> str:
        """Return the text of a tool call that ends in an error."""
        answer = self.ask_tool(arguments)
        assert answer["is_error"] is True, answer
        value = answer["value"]
        return str(value["error"] if isinstance(value, dict) else value)

    def ask_tool(self, arguments: dict[str, Any]) -> Any:
        dialect = arguments.pop("dialect", None)
        query = {"agentId": self.id} | ({"dialect": dialect} if dialect else {})
        answer = ask(self.url, "POST", f"{TOOL}?{urlencode(query)}", arguments, self.headers)
        assert answer.status == 200, answer
        return answer.json


def put_many(agent: Agent, keys: Sequence[str], connections: int = 32) -> None:
    """Put an entry at each key, over connections that stay open."""

    def put_part(first: int) -> None:
        connection = HTTPConnection(urlsplit(agent.url).netloc, timeout=60)
        with closing(connection):
            for key in keys[first::connections]:
                body = json.dumps({"agentId": agent.id, "value": key})
                connection.request("PUT", f"{B}/{quote(key, safe='')}", body)
                response = connection.getresponse()
                text = response.read()
                assert response.status == 200, text

    with ThreadPoolExecutor(connections) as threads:
        list(threads.map(put_part, range(connections)))
