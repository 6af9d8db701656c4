"""/live, /ready, /status, and /metrics, with and without the bus."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.bundles import make_agent
from tests.support.calls import call
from tests.support.listener import Listener
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem


def samples(web_system: WebSystem) -> dict[str, float]:
    """Return the values of /metrics by sample."""
    page = web_system.get("/metrics")
    assert page.status == 200
    assert page.headers["content-type"].startswith("text/plain; version=")
    lines = [line for line in page.body.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def pipeline_status(web_system: WebSystem, uid: str) -> dict[str, object]:
    """Return a pipeline's row in /status."""
    (one,) = [
        one for one in web_system.get("/status").json["pipelines"] if one["pipeline_uid"] == uid
    ]
    return one


def test_a_complete_system_is_live_and_ready(web_system: WebSystem) -> None:
    assert web_system.get("/live").json == {"live": True}
    for path in ("/ready", "/healthz"):
        assert web_system.get(path).json == {
            "ready": True,
            "checks": {"bus": "ok", "catalogue": "ok"},
        }


def test_readiness_can_require_a_worker(web_system: WebSystem) -> None:
    ready = web_system.get("/ready?workers=1")

    assert ready.json["checks"]["workers"] == "ok"
    assert web_system.get("/ready?workers=yes").json == web_system.get("/ready").json


def test_the_status_shows_the_durability(web_system: WebSystem) -> None:
    status = web_system.get("/status").json

    assert status["durability"] == {
        "appendonly": "yes",
        "appendfsync": "always",
        "meaning": "acknowledged data is on disk",
    }
    assert status["bus"].endswith("server.sock")


@pytest.mark.parametrize(
    ("key", "value", "meaning"),
    [("appendonly", "no", "NOT PERSISTENT"), ("appendfsync", "everysec", "up to two seconds")],
)
def test_lower_durability_is_reported(
    web_system: WebSystem, key: str, value: str, meaning: str
) -> None:
    redis = web_system.system.client.redis
    before = redis.config_get(key)
    redis.config_set(key, value)

    durability = web_system.get("/status").json["durability"]

    redis.config_set(key, before[key])
    assert durability[key] == value
    assert meaning in durability["meaning"]


def test_a_bus_with_eviction_is_reported(web_system: WebSystem) -> None:
    redis = web_system.system.client.redis
    limit = redis.config_get("maxmemory")["maxmemory"]
    redis.config_set("maxmemory-policy", "allkeys-lru")
    limited = web_system.get("/status").json["durability"]["meaning"]
    redis.config_set("maxmemory", 0)

    unlimited = web_system.get("/status").json["durability"]["meaning"]

    redis.config_set("maxmemory", limit)
    redis.config_set("maxmemory-policy", "noeviction")
    assert unlimited == "acknowledged data is on disk"
    assert limited.startswith("MAY BE EVICTED")


def test_the_status_has_owner_count_and_rate_of_a_pipeline(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    for _ in range(3):
        web_system.say(uid, {"text": "/write tea"}, query="?wait=60")

    wait_for(lambda: pipeline_status(web_system, uid)["done"] == 3, "the worker has reported")

    status = web_system.get("/status").json
    assert pipeline_status(web_system, uid)["owner"] in [
        worker["name"] for worker in status["workers"]
    ]
    assert {
        key: pipeline_status(web_system, uid)[key]
        for key in ("lag", "oldest_s", "dead_letters", "version")
    } == {"lag": 0, "oldest_s": 0.0, "dead_letters": 0, "version": 1}


def test_a_dead_letter_is_counted(web_system: WebSystem) -> None:
    uid = web_system.deploy(make_agent("plus", "add_1"))

    web_system.say(uid, "1", query="?wait=60")

    assert pipeline_status(web_system, uid)["dead_letters"] == 1
    assert samples(web_system)[f'memrelay_dead_letters{{name="test",pipeline="{uid}"}}'] == 1


def test_metrics_have_responses_by_status_and_pipelines(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    before = samples(web_system).get('memrelay_http_answers_total{status="404"}', 0)

    web_system.get("/nowhere")

    found = samples(web_system)
    assert found['memrelay_http_answers_total{status="404"}'] == before + 1
    assert found[f'memrelay_input_lag{{name="test",pipeline="{uid}"}}'] == 0
    assert (found["memrelay_bus_up"], found["memrelay_workers"]) == (1, 1)


def test_metrics_have_latencies_sizes_and_ownership(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    before = samples(web_system)
    for _ in range(3):
        web_system.say(uid, {"text": "/write tea"}, query="?wait=60")

    wait_for(lambda: pipeline_status(web_system, uid)["done"] == 3, "the worker has reported")

    found, labels = samples(web_system), f'{{name="test",pipeline="{uid}"}}'
    assert found[f"memrelay_store_bytes{labels}"] > 0
    assert found[f"memrelay_ownership_changes_total{labels}"] == 1
    assert found[f"memrelay_gaps_total{labels}"] == 0
    assert found["memrelay_disk_free_bytes"] > 0
    assert 0 < found["memrelay_bus_memory_bytes"] < found["memrelay_bus_max_memory_bytes"]
    assert found["memrelay_bus_aof_bytes"] > 0
    for name in ("commit", "publish"):
        counts, sums = (
            [sample for sample in found if sample.startswith(f"memrelay_{name}_latency_{part}")]
            for part in ("seconds_count", "seconds_sum")
        )
        assert found[counts[0]] >= before[counts[0]] + 3
        assert 0 < found[sums[0]] < 100


@pytest.mark.parametrize("file", ["alerts.yml", "grafana.json"])
def test_dashboard_and_alerts_use_existing_metrics(web_system: WebSystem, file: str) -> None:
    uid = web_system.deploy()
    url = "https://hooks.example.com/team"
    created = call(web_system.system, uid, "endpoints.create", {"url": url})
    call(web_system.system, uid, "endpoints.test", {"id": created["endpoint"]["id"]})
    parts = ("commit_latency", "delivery_duration")
    wait_for(
        lambda: all(any(part in name for name in samples(web_system)) for part in parts),
        "a worker reports",
    )

    text = (Path(__file__).parents[2] / "docs/operations" / file).read_text()

    named = set(re.findall(r"memrelay_\w+", text))
    assert len(named) > 10
    assert named - {name.partition("{")[0] for name in samples(web_system)} == set()


def test_listeners_are_counted_while_connected(web_system: WebSystem) -> None:
    uid = web_system.deploy()

    with Listener(web_system.url, uid), Listener(web_system.url, uid):
        assert (
            samples(web_system)["memrelay_listeners"]
            == web_system.get("/status").json["listeners"]
            == 2
        )

    wait_for(lambda: samples(web_system)["memrelay_listeners"] == 0, "both listeners are gone")


@pytest.fixture
def alone() -> Iterator[WebSystem]:
    """Start a web server without bus and worker."""
    with WebSystem(worker=False) as web_system:
        web_system.system.server.stop()
        yield web_system


def test_without_a_bus_the_server_is_live_but_not_ready(alone: WebSystem) -> None:
    ready, status = alone.get("/ready"), alone.get("/status")

    assert alone.get("/live").status == 200
    assert (ready.status, ready.json["ready"], ready.json["checks"]["catalogue"]) == (
        503,
        False,
        "ok",
    )
    assert "no server answers" in ready.json["checks"]["bus"]
    assert (status.problem[0], status.headers["retry-after"]) == (503, "1")
    assert samples(alone)["memrelay_bus_up"] == 0


def test_without_a_worker_messages_are_accepted_and_none_is_ready_to_run_them() -> None:
    with WebSystem(worker=False) as web_system:
        ready = web_system.get("/ready?workers=1")

        assert web_system.get("/ready").status == 200
        assert (ready.status, ready.json["checks"]["bus"]) == (503, "ok")
        assert "memrelay worker" in ready.json["checks"]["workers"]


def test_a_hanging_bus_is_not_ready_and_delays_no_check(web_system: WebSystem) -> None:
    pid = web_system.system.server.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)

    ready, up = web_system.get("/ready"), samples(web_system)["memrelay_bus_up"]

    os.kill(pid, signal.SIGCONT)
    assert (ready.status, up) == (503, 0)
    assert "has not answered" in ready.json["checks"]["bus"]
    wait_for(lambda: web_system.get("/ready").status == 200, "it is ready again")


def test_a_full_bus_is_not_ready(web_system: WebSystem) -> None:
    redis = web_system.system.client.redis
    limit, uid = redis.config_get("maxmemory")["maxmemory"], web_system.deploy_unserved()
    redis.config_set("maxmemory", 1)

    ready, sent = web_system.get("/ready"), web_system.say(uid, "x")

    redis.config_set("maxmemory", limit)
    assert ready.status == 503
    assert (sent.problem[0], sent.headers["retry-after"]) == (503, "1")
    assert web_system.get("/ready").status == 200
    wait_for(lambda: web_system.say(uid, "x").status == 202, "messages are accepted again")
