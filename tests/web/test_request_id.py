"""Every response has an X-Request-Id."""

import pytest

from tests.support.http import ask
from tests.support.web_system import WebSystem


@pytest.mark.parametrize(
    "path", ["/live", "/", "/nothing", "/v1/pipelines", "/v1/pipelines/ghost", "/webhooks/a/b"]
)
def test_a_valid_request_id_is_kept(web_system: WebSystem, path: str) -> None:
    assert (
        web_system.get(path, X_Request_Id="my-request.1").headers["x-request-id"] == "my-request.1"
    )


@pytest.mark.parametrize("given", ["", " ", "x" * 129, "a b", "<script>", "a;b", "-x"])
def test_an_invalid_request_id_is_replaced(web_system: WebSystem, given: str) -> None:
    ids = {
        ask(web_system.url, "GET", "/live", b"", {"X-Request-Id": given}).headers["x-request-id"]
        for _ in range(3)
    }

    assert len(ids) == 3
    assert all(len(one) == 32 and one.isalnum() for one in ids)
