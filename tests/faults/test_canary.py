"""Row 23: secrets in the environment, in headers and in a bundle stay out of logs, dead letters,
status and traces.
"""

from collections.abc import Iterator

import pytest

from tests.faults.conftest import RecordFigures
from tests.support.bundles import make_agent, make_bundle, make_memory, make_uid
from tests.support.client import make_envelope
from tests.support.damage import PAGE, flip_bytes
from tests.support.system import TestSystem
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem
from tests.support.worker_reports import type_command, type_for_a_while, worker_reports

ENVIRONMENT, HEADER, BUNDLE = (
    "canary-env-5d1f0c6a",
    "canary-head-3f9c2a71",
    "canary-bundle-0c0ffee0",
)
PASSWORD = "canary-pass-7a7a7a7a"
FAILING = "failing"
TOLD = {"wf_webhook_token": "env:CANARY_TOKEN", "ai_api_key": BUNDLE}
CANARIES = (ENVIRONMENT, HEADER, BUNDLE, PASSWORD)
HEADERS = {
    "authorization": f"Bearer {HEADER}",
    "x_api_key": HEADER,
    "cookie": f"session={HEADER}",
    "idempotency_key": "1",
}


@pytest.fixture
def web_system() -> Iterator[WebSystem]:
    """Start a worker and a web server with secrets in their environment, and a pipeline with a
    secret in its bundle.
    """
    with WebSystem(
        worker=False, secrets={"CANARY_TOKEN": ENVIRONMENT, "OTHER_SECRET": ENVIRONMENT}
    ) as web_system:
        failing = make_agent(
            "fails", "test_fails", {"memory_id": f"instances/{FAILING}/memories"}, senders="User"
        )
        web_system.system.start_worker(
            environment={"CANARY_TOKEN": ENVIRONMENT, "OTHER_SECRET": ENVIRONMENT},
            bundles=[make_bundle(FAILING, failing | TOLD)],
        )
        yield web_system


def deploy(web_system: WebSystem) -> str:
    """Deploy a pipeline with secrets in every place that may hold one."""
    uid = make_uid()
    hook = make_agent(
        "hook", "memory_write", {"memory_id": f"instances/{uid}/memories"}, senders="nobody"
    )
    web_system.system.deploy(make_bundle(uid, hook | TOLD, make_memory("read", senders="User")))
    return uid


def break_everything(web_system: WebSystem, uid: str) -> None:
    """Send requests and messages that fail, each with a secret."""
    system = web_system.system
    bodies = (
        b"{",
        b"\xff\xfe",
        b'{"args": [1]}',
        "x" * 2_000_000,
        {"text": "/write mine"},
        {"text": "mine"},
    )
    for body in bodies:
        for path in (
            f"/webhooks/{uid}/hook_",
            f"/v1/pipelines/{uid}/swarms/chat/messages?wait=1",
            "/v1/pipelines",
            f"/api/v1/pd/webhook/{HEADER}/hook_/memory_write",
        ):
            web_system.post(path, body, **HEADERS)
    web_system.post(f"/webhooks/{uid}/hook_", "taken", authorization=f"Bearer {ENVIRONMENT}")
    for path in (
        f"/nowhere?token={HEADER}",
        f"/v1/pipelines/{uid}/swarms/chat/messages?cursor={HEADER}",
        "/ready",
        "/status",
    ):
        web_system.get(path, **HEADERS)
    for data in (b"broken", make_envelope("a mine"), b"\xff"):
        system.await_dead_letter(FAILING, system.client.enter_raw(FAILING, data))


def lose_everything(web_system: WebSystem, uid: str) -> None:
    """Make the store, the bus and the control plane fail during work."""
    system = web_system.system
    system.client.redis.client_kill_filter(_type="normal", skipme=True)
    system.workers[-1].kill()
    (system.store_file(uid).with_name("memories.db-wal")).write_bytes(b"half")
    flip_bytes(system.store_file(uid), 4 * PAGE, 1 << 40, 2000)
    system.start_worker(environment={"CANARY_TOKEN": ENVIRONMENT})
    web_system.say(uid, {"text": "/read"}, **HEADERS)
    web_system.post(f"/webhooks/{uid}/hook_", "taken", authorization=f"Bearer {ENVIRONMENT}")
    wait_for(
        lambda: "pipeline_paused" in system.workers[-1].output, "the store is found to be damaged"
    )


def test_no_secret_reaches_a_log_a_dead_letter_the_status_or_a_trace(
    web_system: WebSystem, record_figures: RecordFigures
) -> None:
    system, uid = web_system.system, deploy(web_system)

    break_everything(web_system, uid)
    letters = [letter._replace(data=b"") for letter in system.dead_letters(FAILING)]
    lose_everything(web_system, uid)
    told = [
        web_system.get(path).body.decode()
        for path in ("/status", "/ready", f"/ready?pipeline={uid}", "/metrics")
    ]
    told += [
        type_command(system, *command).stdout
        for command in (["status"], ["status", "--json"], ["doctor"], ["scrub"])
    ]
    logs = [path.read_text(errors="replace") for path in system.folder.glob("*.log")]
    flip_bytes(system.root / "system.db", 0, 1 << 40, 5000)
    broken = [
        web_system.get(path, **HEADERS).status for path in ("/status", "/v1/pipelines", "/ready")
    ]
    logs += [
        path.read_text(errors="replace")
        for path in [*system.folder.glob("*.log"), *system.folder.glob("bus/*.log")]
    ]

    record_figures(
        23,
        "a canary secret",
        dead_letters=len(letters),
        bytes_of_logs=sum(map(len, logs)),
        broken_control_plane=broken,
    )
    everything = "".join([*map(repr, letters), *map(repr, worker_reports(system)), *told, *logs])
    assert "block_failed" in everything and "Traceback" in everything
    assert [canary for canary in CANARIES if canary in everything] == []


@pytest.mark.parametrize(
    "command", [["status"], ["doctor"], ["say", "x", "y"], ["worker"], ["web"]]
)
def test_the_password_of_an_unreachable_bus_is_not_logged(
    command: list[str],
) -> None:
    with TestSystem() as system:
        url = f"redis://user:{PASSWORD}@127.0.0.1:1/0"

        said = type_for_a_while(system, *command, MEMRELAY_BUS__URL=url, MEMRELAY_WEB__PORT="0")

        assert said
        assert PASSWORD not in said
