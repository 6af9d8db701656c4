"""`memrelay doctor` and /metrics show the state of endpoints and deliveries, without paths."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.serving import run_on
from tests.support.bundles import make_commands
from tests.support.calls import call
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem
from tests.support.webhook_receiver import Reply, WebhookReceiver

NOTES = "instances/${pipeline_uid}/notes"
PREFIXES = ("memrelay_deliver", "memrelay_endpoints")


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(worker=False) as web_system:
        web_system.system.start_worker(outgoing={"open_for": ["endpoints"]})
        yield web_system


def deploy(web_system: WebSystem) -> str:
    return web_system.deploy(*make_commands(NOTES))


def create(web_system: WebSystem, uid: str, url: str) -> str:
    created = call(web_system.system, uid, "endpoints.create", {"url": url})
    return str(created["endpoint"]["id"])


def examine(web_system: WebSystem, uid: str) -> list[dict[str, Any]]:
    """Return what `doctor` finds about the endpoints of a pipeline."""
    found = run_on(web_system.system, "doctor", "--json").lines
    return [one for one in found if one["check"] == "endpoints" and uid in one["text"]]


def read_deliveries(web_system: WebSystem, uid: str) -> dict[str, Any]:
    """Return the figures of a pipeline's deliveries in /status; {} if it has none."""
    rows = web_system.get("/status").json["pipelines"]
    return next(one.get("deliveries", {}) for one in rows if one["pipeline_uid"] == uid)


def await_figures(web_system: WebSystem, uid: str, **wanted: int) -> None:
    """Wait until /status has these figures of a pipeline's deliveries."""
    wait_for(
        lambda: wanted.items() <= read_deliveries(web_system, uid).items(),
        f"the deliveries are {wanted}",
    )


def read_metrics(web_system: WebSystem, uid: str) -> dict[str, float]:
    """Return a pipeline's metrics of deliveries without the buckets of histograms, by name."""
    lines = web_system.get("/metrics").body.decode().splitlines()
    mine = [line for line in lines if line.startswith(PREFIXES) and f'pipeline="{uid}"' in line]
    return {
        line.partition("{")[0]: float(line.rpartition(" ")[2])
        for line in mine
        if "_bucket{" not in line
    }


def test_without_endpoints_nothing_is_exported(web_system: WebSystem) -> None:
    uid = deploy(web_system)
    call(web_system.system, uid, "records.create", {"content": "tea"})
    owned = f'memrelay_pipeline_owned{{name="test",pipeline="{uid}"}} 1.0'
    wait_for(lambda: owned in web_system.get("/metrics").body.decode(), "the worker reports")
    assert read_metrics(web_system, uid) == {}
    assert read_deliveries(web_system, uid) == {}
    assert examine(web_system, uid) == []


def test_doctor_and_metrics_show_a_failing_endpoint(web_system: WebSystem) -> None:
    uid = deploy(web_system)
    with WebhookReceiver(Reply(), usual=Reply(500, b"out of tea")) as receiver:
        id_ = create(web_system, uid, receiver.url)
        call(web_system.system, uid, "records.create", {"content": "one"})
        receiver.wait(1)
        call(web_system.system, uid, "records.create", {"content": "two"})
        await_figures(web_system, uid, failing=1)
        (finding,) = examine(web_system, uid)
        assert finding["level"] == "warning"
        assert f"http://127.0.0.1:{receiver.server_port}/" in finding["text"]
        assert ": no success since 20" in finding["text"]
        assert finding["text"].endswith("; the last answer: 500")
        assert f"`memrelay endpoints enable {uid} {id_}`" in finding["remedy"]
    shown = read_metrics(web_system, uid)
    assert shown.pop("memrelay_delivery_duration_seconds_sum") < 60
    assert shown == {
        "memrelay_deliveries_waiting": 1,
        "memrelay_deliveries_failed": 0,
        "memrelay_deliveries_delivered_total": 1,
        "memrelay_delivery_tries_total": 2,
        "memrelay_delivery_duration_seconds_count": 2,
        "memrelay_endpoints_failing": 1,
        "memrelay_endpoints_off": 0,
    }
    for page in (finding["text"], web_system.get("/metrics").body.decode()):
        assert "secret-path" not in page


@pytest.mark.slow
def test_an_endpoint_that_is_off_is_reported_also_after_a_restart(web_system: WebSystem) -> None:
    uid = deploy(web_system)
    with WebhookReceiver(usual=Reply(410)) as receiver:
        id_ = create(web_system, uid, receiver.url)
        call(web_system.system, uid, "records.create", {"content": "one"})
        await_figures(web_system, uid, off=1, failed=1)
        assert web_system.system.workers[-1].stop() == 0
        web_system.system.start_worker(outgoing={"open_for": ["endpoints"]})
        await_figures(web_system, uid, off=1, tries=0)
        (finding,) = examine(web_system, uid)
        assert finding["level"] == "fault"
        assert "it is switched off: the receiver answered 410" in finding["text"]
        receiver.usual = Reply()
        call(web_system.system, uid, "endpoints.enable", {"id": id_})
        await_figures(web_system, uid, off=0)
        assert examine(web_system, uid) == []
        call(web_system.system, uid, "endpoints.update", {"id": id_, "active": False})
        wait_for(lambda: read_deliveries(web_system, uid)["trouble"], "it is off")
        (finding,) = examine(web_system, uid)
        assert finding["level"] == "warning"
        assert "is switched off, and its deliveries wait" in finding["text"]
