"""A client that stops reading its stream of updates is disconnected."""

import time

import pytest

from tests.support.http import ask
from tests.support.mcp_calls import McpCalls
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

RECORDS = 300


@pytest.mark.slow
def test_a_slow_stream_is_dropped_and_delays_no_other() -> None:
    with WebSystem(WEB__RATE="0") as web_system:
        uid = web_system.deploy()
        path = f"/v1/pipelines/{uid}/records"
        new = {"content": "x"}
        guids = [ask(web_system.url, "POST", path, new).json["guid"] for _ in range(RECORDS)]
        uris = [f"memory://{uid}/records/{guid}" for guid in guids]
        client = McpCalls(web_system.url, f"/mcp/{uid}")
        with client.listen(*uris, buffer_bytes=4096), client.listen(uris[0]) as other:

            def is_dropped() -> bool:
                for guid in guids:
                    ask(web_system.url, "PATCH", f"{path}/{guid}", {"content": str(time.time_ns())})
                return bool(
                    [one for one in web_system.web.events if one["event"] == "stream_dropped"]
                )

            wait_for(is_dropped, "the slow stream is dropped", within_s=240)
            assert other.hear_update() == uris[0]
