"""Compression of responses with gzip."""

import gzip
import json

import pytest

from tests.support.http import Answer, ask
from tests.support.web_system import WebSystem


@pytest.fixture(scope="module")
def url(web_system: WebSystem) -> str:
    for _ in range(15):
        web_system.deploy()
    return web_system.url


def listed(url: str, accepted: str | None, query: str = "?limit=15") -> Answer:
    return ask(
        url,
        "GET",
        f"/v1/pipelines{query}",
        b"",
        {} if accepted is None else {"Accept-Encoding": accepted},
    )


@pytest.mark.parametrize("accepted", ["gzip", "br, gzip;q=0.5", "GZIP", "deflate, gzip; q=1.0"])
def test_a_long_response_is_compressed(url: str, accepted: str) -> None:
    answer = listed(url, accepted)

    assert (answer.headers["content-encoding"], answer.headers["vary"]) == (
        "gzip",
        "Accept-Encoding",
    )
    assert len(json.loads(gzip.decompress(answer.body))["items"]) == 15


@pytest.mark.parametrize(
    "accepted", [None, "identity", "br", "gzip;q=0", "gzip; q=0.0, *", "", ";;,"]
)
def test_a_client_without_gzip_gets_an_uncompressed_response(
    url: str, accepted: str | None
) -> None:
    answer = listed(url, accepted)

    assert "content-encoding" not in answer.headers
    assert len(answer.json["items"]) == 15


def test_a_short_response_is_not_compressed(url: str) -> None:
    assert "content-encoding" not in listed(url, "gzip", "?limit=1").headers
