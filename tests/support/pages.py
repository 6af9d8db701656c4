"""Console pages as text, read without a browser."""

import html
import re
from typing import Any

from tests.support.bundles import Json
from tests.support.http import Answer, ask

TAG = re.compile(r"<[^>]*>")


def deploy_bundle(url: str, bundle: Json) -> str:
    """Deploy a bundle over HTTP and return its UID; no event loop is needed."""
    uid: str = bundle["pipeline_uid"]
    answer = ask(url, "PUT", f"/v1/pipelines/{uid}", bundle)
    assert answer.status in (200, 201), answer
    return uid


def text_of(answer: Answer) -> str:
    """Return the text of a page without tags, with single spaces."""
    assert answer.headers["content-type"] == "text/html; charset=utf-8", answer
    return " ".join(html.unescape(TAG.sub(" ", answer.body.decode())).split())


def lines_to_try(answer: Answer) -> list[str]:
    """Return the shell lines that the page shows."""
    found: list[Any] = re.findall(
        r"<pre [^>]*data-copy=[^>]*><code>(.*?)</code>", answer.body.decode(), re.DOTALL
    )
    return [html.unescape(line) for line in found]
