"""Checks the answers that tests get against /openapi.json: all of them, or one in five.

One in five is always the same, since a test and a route choose it. The first answer with a route, a
status and a content type is always checked, so a sample still meets every route.
"""

import gzip
import json
import os
import re
import zlib
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from memrelay.web.openapi.pages import DOCUMENT
from tests.support.http import Answer
from tests.support.routes import app_for

Json = dict[str, Any]
ONE_IN = 5
# The paths of OAuth have metadata of their own (RFC 8414 and 9728).
NOT_DESCRIBED = ("/oauth/", "/.well-known/oauth-")


@cache
def read_document() -> Json:
    """Return the document of this project."""
    return app_for(Path("nowhere"))[DOCUMENT]


@cache
def _paths() -> list[tuple[re.Pattern[str], str]]:
    """Return the paths, those without parameters first, in the order of the server's lookup."""
    # A last slash is optional where a route allows it. A key may have slashes.
    found = []
    for path in sorted(read_document()["paths"], key=lambda path: ("{" in path, path)):
        pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path))
        if path.endswith("/storage/memory/{key}"):
            pattern = pattern.removesuffix("[^/]+") + ".+"
        found.append((re.compile(pattern + "/?"), path))
    return found


def _find_route(method: str, path: str) -> str:
    """Return the declared path, empty if the document does not know it."""
    name, described = path.partition("?")[0], _described_method(method)
    known = (declared for pattern, declared in _paths() if pattern.fullmatch(name))
    return next((one for one in known if described in read_document()["paths"][one]), "")


def _described_method(method: str) -> str:
    return "get" if method == "HEAD" else method.lower()


@cache
def _shape(path: str, method: str, status: int, kind: str) -> Draft202012Validator:
    """Return the schema of an answer. Raises AssertionError if the document has none."""
    responses = read_document()["paths"][path][method]["responses"]
    assert str(status) in responses, (
        f"{method} {path} answers {status}, and the document knows {', '.join(responses)} alone"
    )
    content = responses[str(status)].get("content", {})
    kind = "*/*" if "*/*" in content else kind
    assert (kind in content) if kind else not content, (
        f"{method} {path} answers {status} as {kind!r}, not as {list(content)}"
    )
    return Draft202012Validator(
        content.get(kind, {}).get("schema", {}) | {"components": read_document()["components"]}
    )


class Sample:
    """Checks one in five answers, and the first of each kind."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, str, int, str]] = set()

    def __call__(self, method: str, path: str, answer: Answer) -> None:
        """Check an answer, if it belongs to the sample."""
        route = _find_route(method, path)
        kind = method, route, answer.status, answer.headers.get("content-type", "")
        if kind not in self._seen or _is_chosen(method, route):
            self._seen.add(kind)
            assert_described(method, path, answer)


def _is_chosen(method: str, route: str) -> bool:
    # Such as "tests/web/test_live.py::test_a_frame (call)".
    test = os.environ.get("PYTEST_CURRENT_TEST", "")
    return zlib.crc32(f"{test} {method} {route}".encode()) % ONE_IN == 0


def assert_described(method: str, path: str, answer: Answer) -> None:
    """Check the status, the content type and the JSON shape of an answer against the document."""
    route = _find_route(method, path)
    if not route:
        assert answer.status >= 400 or path.startswith(NOT_DESCRIBED), (
            f"{method} {path} answers {answer.status}, and the document does not know it"
        )
        return
    kind = answer.headers.get("content-type", "").partition(";")[0]
    shape = _shape(route, _described_method(method), answer.status, kind)
    body = gzip.decompress(answer.body) if "content-encoding" in answer.headers else answer.body
    faults = (
        [error.message for error in shape.iter_errors(json.loads(body))]
        if kind.endswith(("/json", "+json")) and body
        else []
    )
    assert not faults, (
        f"{method} {path} answers {answer.status} in another shape than is described: {faults[:3]}"
    )
