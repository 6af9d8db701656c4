"""`memrelay doctor`: each problem is reported with a fix, and a sound installation has none."""

import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from memrelay.bus.embedded.binary import find_binary
from memrelay.bus.embedded.launcher import EmbeddedServer
from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.engine.store import Store
from tests.support.client import Client
from tests.support.disk import small_disk
from tests.support.program import Completed, Program
from tests.support.tcp_relay import TcpRelay
from tests.support.waiting import wait_for

SAMPLE = Path(__file__).resolve().parents[2] / "memrelay" / "pipelines" / "memory_test.json"
REFUSE_ALL_BUT = ("+auth", "+ping", "+select", "+subscribe", "+xadd")


@pytest.fixture
def alone() -> Iterator[Program]:
    """Yield a program without a pipeline and without a bus."""
    with Program() as program:
        yield program


@pytest.fixture
def client(program: Program) -> Iterator[Client]:
    """Yield a client, and reset the configuration of the server at the end."""
    client = program.client()
    yield client
    for name, value in (
        ("appendonly", "yes"),
        ("appendfsync", "always"),
        ("maxmemory-policy", "noeviction"),
        ("maxmemory", 0),
        ("timeout", 0),
        ("client-output-buffer-limit", "normal 0 0 0"),
        ("client-query-buffer-limit", "1gb"),
        ("proto-max-bulk-len", "512mb"),
    ):
        client.redis.config_set(name, value)


def found(ended: Completed) -> dict[str, dict[str, str]]:
    """Return the worst finding of each check."""
    worst: dict[str, dict[str, str]] = {}
    for one in sorted(ended.lines, key=lambda one: ("ok", "warning", "fault").index(one["level"])):
        worst[one["check"]] = one
    return worst


def examine(program: Program, **environment: str) -> dict[str, dict[str, str]]:
    return found(program.run("doctor", "--json", **environment))


def test_a_fresh_start_has_no_findings(program: Program) -> None:
    ended = program.run("doctor")

    *findings, summary = ended.out.splitlines()
    assert (ended.code, ended.err, summary) == (0, "", "0 faults, 0 warnings")
    assert all(line.startswith("ok ") for line in findings)


def test_json_has_a_line_for_each_finding(program: Program) -> None:
    lines = program.run("doctor", "--json").lines

    assert all(line.keys() == {"check", "level", "text", "remedy"} for line in lines)
    assert {
        "settings",
        "memory.root",
        "bus.data",
        "file system",
        "sqlite",
        "handles",
        "catalog",
        "dead letters",
        "bus",
        "version",
        "password",
        "permissions",
        "writes",
        "keys",
        "durability",
        "eviction",
        "memory",
        "limits",
        "idle",
        "clock",
        "workers",
    } == {line["check"] for line in lines}


@pytest.mark.parametrize(
    ("check", "level", "config"),
    [
        ("durability", "warning", {"appendfsync": "everysec"}),
        ("durability", "fault", {"appendfsync": "no"}),
        ("durability", "fault", {"appendonly": "no"}),
        ("eviction", "warning", {"maxmemory-policy": "allkeys-lru"}),
        ("eviction", "fault", {"maxmemory-policy": "allkeys-lru", "maxmemory": 1 << 30}),
        ("limits", "warning", {"client-output-buffer-limit": "normal 64mb 0 0"}),
        ("limits", "warning", {"client-query-buffer-limit": "32mb"}),
        ("limits", "warning", {"proto-max-bulk-len": "1mb"}),
        ("idle", "fault", {"timeout": 5}),
        ("idle", "ok", {"timeout": 300}),
    ],
)
def test_a_server_that_may_lose_data_is_reported(
    program: Program, client: Client, check: str, level: str, config: dict[str, Any]
) -> None:
    for name, value in config.items():
        client.redis.config_set(name, value)

    ended = program.run("doctor", "--json")

    assert found(ended)[check]["level"] == level and (
        "CONFIG SET" in found(ended)[check]["remedy"]
    ) == (level != "ok")
    assert ended.code == (level == "fault")


def test_a_server_at_its_memory_limit_is_reported(program: Program, client: Client) -> None:
    client.redis.config_set("maxmemory", 1 << 20)

    ended = program.run("doctor", "--json")

    assert ended.code == 1 and found(ended)["memory"]["level"] == "fault"
    assert "maxmemory" in found(ended)["memory"]["remedy"]


def test_a_paused_pipeline_is_reported_with_its_reason(program: Program) -> None:
    (deployed,) = program.run("ls").lines
    store = program.root / f"instances/{deployed['pipeline_uid']}/memories.db"
    program.run("say", "memory_test", "/write tea")
    store.rename(program.folder / "away.db")
    wait_for(lambda: "paused" in examine(program), "the worker has seen it")

    finding = examine(program)["paused"]
    (program.folder / "away.db").rename(store)

    assert (
        finding["level"] == "fault"
        and deployed["pipeline_uid"] in finding["text"]
        and str(store) in finding["text"]
    )
    wait_for(lambda: "paused" not in examine(program), "it runs again")


@pytest.mark.parametrize(
    "key",
    [
        "pipeline:{UID}:in",
        "pipeline:{UID}:owner",
        "pipeline:{UID}:timers",
        "listeners:{public}",
        "swarm:{UID}:chat",
    ],
)
def test_a_key_of_the_wrong_type_is_reported(program: Program, client: Client, key: str) -> None:
    (deployed,) = program.run("ls").lines
    key = key.replace("UID", deployed["pipeline_uid"])
    client.redis.delete(key)
    client.redis.set(key, "odd")

    finding = examine(program)["keys"]
    client.redis.delete(key)

    assert finding["level"] == "fault"
    assert f"{key} is a string" in finding["text"] and f"DEL {key}" in finding["remedy"]
    wait_for(lambda: examine(program)["workers"]["level"] == "ok", "it is served again")


@pytest.mark.parametrize("key", ["pipeline:{UID}:in", "pipeline:{UID}:stores", "swarm:{UID}:chat"])
def test_a_key_with_an_expiry_is_reported(program: Program, client: Client, key: str) -> None:
    (deployed,) = program.run("ls").lines
    program.run("say", "memory_test", "/write tea")
    key = key.replace("UID", deployed["pipeline_uid"])
    assert client.redis.expire(key, 1000)

    finding = examine(program)["keys"]
    client.redis.persist(key)

    assert finding["level"] == "fault" and f"PERSIST {key}" in finding["remedy"]
    assert f"{key} expires in 9" in finding["text"] or f"{key} expires in 1000" in finding["text"]
    assert examine(program)["keys"]["level"] == "ok"


def test_a_read_only_replica_is_reported(program: Program, client: Client) -> None:
    client.redis.replicaof("127.0.0.1", "1")
    try:
        writes = examine(program)["writes"]
    finally:
        client.redis.replicaof("NO", "ONE")

    assert (writes["level"], writes["remedy"]) == (
        "fault",
        "this server is a replica; set bus.url to its primary",
    )
    assert "READONLY" in writes["text"]


def test_a_server_that_refuses_every_command_is_reported_with_a_fix(
    program: Program, client: Client
) -> None:
    client.redis.config_set("replica-serve-stale-data", "no")
    client.redis.replicaof("127.0.0.1", "1")
    try:
        bus = examine(program)["bus"]
    finally:
        client.redis.replicaof("NO", "ONE")
        client.redis.config_set("replica-serve-stale-data", "yes")

    assert (bus["level"], "MASTERDOWN" in bus["text"], "REPLICAOF NO ONE" in bus["remedy"]) == (
        "fault",
        True,
        True,
    )


def test_a_missing_database_is_reported(program: Program, client: Client) -> None:
    url = as_user(client, "~*", "&*", "+@all").removesuffix("0")
    bus = examine(program, MEMRELAY_BUS__URL=f"{url}99")["bus"]

    assert (bus["level"], "use an existing database" in bus["remedy"]) == ("fault", True)


@contextmanager
def strange_server(folder: Path, *options: str) -> Iterator[str]:
    """Run a server with these options and yield its URL."""
    path = folder / "server.sock"
    command = [find_binary(None), "--unixsocket", path, "--save", "", *options]
    with subprocess.Popen(list(map(str, command)), cwd=folder, stdout=subprocess.DEVNULL) as server:
        wait_for(path.exists, "the server listens")
        yield f"unix://{path}"
        server.terminate()


def test_a_cluster_is_reported(tmp_path: Path) -> None:
    ports = ("--port", str(free_port()), "--cluster-port", str(free_port()))
    with (
        strange_server(tmp_path, "--bind", "127.0.0.1", *ports, "--cluster-enabled", "yes") as url,
        Program() as program,
    ):
        version = examine(program, MEMRELAY_BUS__URL=url)["version"]

    assert (version["level"], "cluster://" in version["remedy"]) == ("fault", True)


def test_an_outside_server_without_a_password_is_reported(
    tmp_path: Path, program: Program, client: Client
) -> None:
    with strange_server(tmp_path, "--port", "0") as url:
        without = examine(program, MEMRELAY_BUS__URL=url)["password"]

    url = as_user(client, "~*", "&*", "+@all")

    assert (without["level"], "requirepass" in without["remedy"]) == ("warning", True)
    assert "memrelay acl" in without["text"]
    assert examine(program, MEMRELAY_BUS__URL=url)["password"]["level"] == "ok"


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def as_user(client: Client, *rules: str) -> str:
    """Return the URL of the server for a user with these permissions, over TCP."""
    port = free_port()
    client.redis.config_set("port", port)
    client.redis.execute_command("ACL", "SETUSER", "limited", "reset", "on", ">secret", *rules)
    return f"redis://limited:secret@127.0.0.1:{port}/0"


@pytest.mark.parametrize(
    ("rules", "named"),
    [
        (("~*", "&*", "+@all", "-xdel"), "XDEL pipeline:"),
        (("~*", "&*", "+@all", "-multi"), "MULTI"),
        (("~*", "&*", "+@all", "-xinfo|groups"), "XINFO GROUPS pipeline:"),
        (("~*", "&*", "+@all", "-eval"), "NOPERM"),
        (("~pipeline:*", "&*", "+@all"), "swarm:"),
        (("~*", "&memrelay:*", "+@all"), "PUBLISH "),
    ],
    ids=" ".join,
)
def test_the_remedy_for_a_missing_permission_grants_it(
    program: Program, client: Client, rules: tuple[str, ...], named: str
) -> None:
    url = as_user(client, *rules)
    finding = examine(program, MEMRELAY_BUS__URL=url)["permissions"]

    client.redis.execute_command(
        *finding["remedy"].partition(": ")[2].replace("NAME", "limited").split()
    )

    assert (finding["level"], named in finding["text"]) == ("fault", True)
    assert examine(program, MEMRELAY_BUS__URL=url)["permissions"]["level"] == "ok"


@pytest.mark.parametrize(
    ("renamed", "named"), [("xdel", "the server lacks XDEL"), ("eval", "refuses scripts")]
)
def test_a_renamed_command_is_reported(tmp_path: Path, renamed: str, named: str) -> None:
    with (
        strange_server(tmp_path, "--port", "0", "--rename-command", renamed, "") as url,
        Program() as program,
    ):
        finding = examine(program, MEMRELAY_BUS__URL=url)["permissions"]

    assert (finding["level"], named in finding["text"], "rename-command" in finding["remedy"]) == (
        "fault",
        True,
        True,
    )


def claim_old(data: bytes) -> bytes:
    """Change the version in an INFO reply, whose length stays, to 6."""
    data = re.sub(rb"(redis_version:)\d+", lambda one: one[1] + b"6" * (len(one[0]) - 14), data)
    return data.replace(b"valkey_version:", b"valkey-version:")


def test_a_worker_ends_with_the_reason_if_the_server_is_too_old(
    tmp_path: Path, alone: Program
) -> None:
    port = free_port()
    with (
        strange_server(tmp_path, "--bind", "127.0.0.1", "--port", str(port)),
        TcpRelay(port, claim_old) as relay,
    ):
        url = f"redis://127.0.0.1:{relay.port}"
        worker = alone.run("worker", MEMRELAY_BUS__URL=url)
        version = examine(alone, MEMRELAY_BUS__URL=url)["version"]

    assert (worker.code, version["level"]) == (1, "fault")
    assert "Memrelay needs Redis or Valkey 7 or newer" in worker.err


def test_a_secret_that_cannot_work_is_reported_at_deploy_and_by_doctor(alone: Program) -> None:
    bundle = json.loads(SAMPLE.read_text())
    hook = next(agent for agent in bundle["agents"] if agent["agent_class"] == "wf_agent")
    hook |= {"wf_webhook_token": "file:token", "wf_webhook_secret": ["file:good", "file:bad"]}
    (alone.folder / "bundle.json").write_text(json.dumps(bundle))
    secrets = alone.root / "secrets"
    secrets.mkdir(parents=True)
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    for name, text in (
        ("token", '"tea"\n'),
        ("good", f'\ufeff# of the sender\n"v1,{secret}"  # new\n{secret}\n'),
        ("bad", f"{secret} whsec_%%%"),
    ):
        (secrets / name).write_text(text)

    deployed = alone.run("deploy", "bundle.json")
    webhooks = [
        one["text"] for one in alone.run("doctor", "--json").lines if one["check"] == "webhooks"
    ]

    assert deployed.code == 0, deployed
    for text in (deployed.out + deployed.err, " ".join(webhooks)):
        assert "file:token begins and ends with quotes" in text
        assert "file:bad is not usable: a secret must be whsec_ followed by base64" in text
        assert "file:good" not in text and "%%%" not in text
    assert len(webhooks) == 2


def test_doctor_names_a_webhook_that_needs_the_public_url(alone: Program) -> None:
    bundle = json.loads(SAMPLE.read_text())
    hook = next(agent for agent in bundle["agents"] if agent["agent_class"] == "wf_agent")
    hook |= {"wf_webhook_sender": "trello", "wf_webhook_secret": "env:X"}
    (alone.folder / "bundle.json").write_text(json.dumps(bundle))

    refused = alone.run("deploy", "bundle.json")
    deployed = alone.run("deploy", "bundle.json", MEMRELAY_WEB__PUBLIC_URL="https://m.example")
    lines = alone.run("doctor", "--json").lines

    assert (refused.code, deployed.code) == (1, 0), deployed
    assert "set web.public_url" in refused.err
    assert any("trello signs the URL" in one["text"] for one in lines)


def test_an_embedding_key_that_cannot_be_read_is_reported(alone: Program) -> None:
    finding = examine(alone, MEMRELAY_EMBEDDING__KEY="env:NOT_SET")["embedding.key"]

    assert (finding["level"], finding["text"]) == ("fault", "env:NOT_SET is not set")


def test_a_server_that_does_not_report_its_settings_is_a_warning(
    program: Program, client: Client
) -> None:
    url = as_user(client, "~*", "&*", "-@all", *REFUSE_ALL_BUT)

    ended = program.run("doctor", "--json", MEMRELAY_BUS__URL=url)
    refused = program.run("doctor", "--json", MEMRELAY_BUS__URL=url.replace("secret", "wrong"))

    faults, warnings = (
        {check for check, one in found(ended).items() if one["level"] == level}
        for level in ("fault", "warning")
    )
    assert faults == {"permissions"}
    assert warnings == {
        "version",
        "writes",
        "durability",
        "eviction",
        "memory",
        "limits",
        "idle",
        "clock",
        "workers",
    }
    assert (
        found(refused)["bus"]["level"] == "fault"
        and "MEMRELAY_BUS__URL" in found(refused)["bus"]["remedy"]
    )
    assert "secret" not in ended.out and "wrong" not in refused.out + refused.err


def test_the_checks_of_a_hanging_server_time_out(program: Program, client: Client) -> None:
    pid = client.redis.info("server")["process_id"]
    os.kill(pid, signal.SIGSTOP)
    try:
        bus = examine(program)["bus"]
    finally:
        os.kill(pid, signal.SIGCONT)

    assert bus["level"] == "fault" and "does not answer within 5 s" in bus["text"]


def test_without_a_worker_the_next_command_is_named(alone: Program) -> None:
    alone.run("deploy", SAMPLE)
    server = EmbeddedServer(alone.bus)
    server.start()
    try:
        workers = examine(alone)["workers"]
        sent = alone.run("say", "memory_test", "/read", "--wait", "0.2")
    finally:
        server.stop()

    assert workers["level"] == "warning" and "memrelay worker" in workers["remedy"]
    assert sent.code == 1 and "memrelay worker" in sent.err


def test_without_a_bus_the_local_checks_run(alone: Program) -> None:
    ended = alone.run("doctor", "--json")

    assert ended.code == 1
    assert (
        "no bus runs" in found(ended)["bus"]["text"]
        and "memrelay up" in found(ended)["bus"]["remedy"]
    )
    assert "memrelay deploy FILE" in found(ended)["catalog"]["remedy"]
    assert not alone.root.exists() and not alone.bus.exists()


def test_an_unreachable_bus_is_named(alone: Program) -> None:
    bus = examine(alone, MEMRELAY_BUS__URL="redis://127.0.0.1:1")["bus"]

    assert bus["level"] == "fault" and "redis://127.0.0.1:1" in bus["text"]


def test_with_invalid_settings_only_these_are_reported(alone: Program) -> None:
    ended = alone.run("doctor", "--json", MEMRELAY_BUS__URLL="x", MEMRELAY_WORKER__BATCH="tea")

    assert ended.code == 1
    assert [one["level"] for one in ended.lines] == ["fault", "fault"]
    assert "MEMRELAY_BUS__URLL" in ended.out and "MEMRELAY_WORKER__BATCH" in ended.out


@pytest.mark.parametrize(("mode", "level"), [(0o700, "ok"), (0o750, "warning"), (0o777, "fault")])
def test_a_folder_that_other_users_can_open_is_reported(
    alone: Program, mode: int, level: str
) -> None:
    alone.root.mkdir()
    alone.root.chmod(mode)

    assert examine(alone)["memory.root"]["level"] == level


def test_a_file_in_place_of_a_folder_is_reported(alone: Program) -> None:
    alone.root.write_text("a file stands here")

    assert examine(alone)["memory.root"]["level"] == "fault"


def test_a_full_disk_is_not_reported_as_a_damaged_catalog(alone: Program) -> None:
    with small_disk(alone.root, 1) as disk:
        disk.fill()
        (alone.root / "system.db").touch()
        findings = examine(alone)

    assert findings["memory.root"]["remedy"].startswith("free disk space there")
    assert findings["catalog"]["level"] == "fault" and "disk is full" in findings["catalog"]["text"]
    assert (
        findings["catalog"]["remedy"] == "free disk space, or end the program that locks the file"
    )


def test_a_damaged_catalog_is_reported(alone: Program) -> None:
    alone.root.mkdir(mode=0o700)
    (alone.root / "system.db").write_bytes(b"no database at all" * 100)

    assert examine(alone)["catalog"]["level"] == "fault"


def test_stores_of_unknown_pipelines_are_reported(alone: Program) -> None:
    store = store_path(alone.root, "instances/lost/memories")
    Store("instances/lost/memories", store).close()

    findings = examine(alone)

    assert (
        findings["stores"]["level"] == "warning"
        and "the stores of lost" in findings["stores"]["text"]
    )
    assert "memrelay restore" in findings["stores"]["remedy"]
