"""Checks every answer that a test gets against /openapi.json."""

import gzip
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from memrelay.web.openapi.pages import DOCUMENT
from tests.support.http import Answer
from tests.support.routes import app_for

Json = dict[str, Any]


@cache
def _document() -> Json:
    return app_for(Path("nowhere"))[DOCUMENT]


@cache
def _paths() -> list[tuple[re.Pattern[str], str]]:
    """Return the paths, those without parameters first, in the order of the server's lookup."""
    # A last slash is optional where a route allows it. A key may have slashes.
    found = []
    for path in sorted(_document()["paths"], key=lambda path: ("{" in path, path)):
        pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path))
        if path.endswith("/storage/memory/{key}"):
            pattern = pattern.removesuffix("[^/]+") + ".+"
        found.append((re.compile(pattern + "/?"), path))
    return found


@cache
def _shape(path: str, method: str, status: int, kind: str) -> Draft202012Validator:
    """Return the schema of an answer. Raises AssertionError if the document has none."""
    responses = _document()["paths"][path][method]["responses"]
    assert str(status) in responses, (
        f"{method} {path} answers {status}, and the document knows {', '.join(responses)} alone"
    )
    content = responses[str(status)].get("content", {})
    kind = "*/*" if "*/*" in content else kind
    assert (kind in content) if kind else not content, (
        f"{method} {path} answers {status} as {kind!r}, not as {list(content)}"
    )
    return Draft202012Validator(
        content.get(kind, {}).get("schema", {}) | {"components": _document()["components"]}
    )


def assert_described(method: str, path: str, answer: Answer) -> None:
    """Check the status, the content type and the JSON shape of an answer against the document."""
    method = "get" if method == "HEAD" else method.lower()
    known = [
        declared for pattern, declared in _paths() if pattern.fullmatch(path.partition("?")[0])
    ]
    declared = next((one for one in known if method in _document()["paths"][one]), "")
    if not declared:
        assert answer.status >= 400, (
            f"{method} {path} answers {answer.status}, and the document does not know it"
        )
        return
    kind = answer.headers.get("content-type", "").partition(";")[0]
    shape = _shape(declared, method, answer.status, kind)
    body = gzip.decompress(answer.body) if "content-encoding" in answer.headers else answer.body
    faults = (
        [error.message for error in shape.iter_errors(json.loads(body))]
        if kind.endswith("json") and body
        else []
    )
    assert not faults, (
        f"{method} {path} answers {answer.status} in another shape than is described: {faults[:3]}"
    )
