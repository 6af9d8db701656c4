"""A client of Codebolt's paths."""

from typing import Any, NamedTuple

from tests.support.bundles import Json
from tests.support.http import Answer, ask
from tests.support.web_system import WebSystem


class Codebolt(NamedTuple):
    """A pipeline of a server, called by Codebolt's paths with its prefix."""

    web_system: WebSystem
    uid: str

    def __call__(
        self, method: str, path: str, body: Json | bytes | str = b"", **headers: str
    ) -> Answer:
        return ask(self.web_system.url, method, f"/p/{self.uid}{path}", body, headers)

    def get(self, path: str) -> Any:
        """Return the JSON at a path."""
        return self.expect(200, "GET", path)

    def post(self, path: str, body: Json, status: int = 201) -> Any:
        """Post a body and return the JSON of the answer."""
        return self.expect(status, "POST", path, body)

    def expect(self, status: int, method: str, path: str, body: Json | bytes = b"") -> Any:
        """Send a request and return the JSON of the answer, which has this status."""
        answer = self(method, path, body)
        assert answer.status == status, answer
        return answer.json if answer.body else None

    def faults(self, status: int, method: str, path: str, body: Json | bytes = b"") -> Any:
        """Send an invalid request and return (path, code) of each of its faults."""
        found = self.expect(status, method, path, body)
        assert found.keys() == {"success", "error", "errors"} and found["success"] is False, found
        assert all(fault.keys() == {"path", "code", "message"} for fault in found["errors"]), found
        return [(fault["path"], fault["code"]) for fault in found["errors"]]
