"""`memrelay acl`: its output confines a client of a real server to one pipeline."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from memrelay.bus.permissions import client_rules, server_user_rules
from tests.support.client import input_of, swarm_of
from tests.support.program import Program
from tests.support.server import running_server
from tests.support.waiting import PATIENCE_S

SAMPLES = Path(__file__).resolve().parents[2] / "memrelay" / "pipelines"
OURS, OTHERS = "ours", "oursx"


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[redis.Redis, redis.Redis]]:
    """Yield (administrator, confined client)."""
    with running_server(tmp_path_factory.mktemp("bus")) as server:
        path = str(server.socket_path)
        with redis.Redis(unix_socket_path=path) as admin:
            admin.execute_command("ACL", "SETUSER", f"memrelay-{OURS}", *client_rules(OURS), ">tea")
            with redis.Redis(
                unix_socket_path=path, username=f"memrelay-{OURS}", password="tea"
            ) as client:
                yield admin, client


def test_the_client_can_append_read_and_listen_in_its_pipeline(
    clients: tuple[redis.Redis, redis.Redis],
) -> None:
    admin, client = clients
    admin.xadd(swarm_of(OURS, "chat"), {"mid": "1", "data": "{}"})

    assert client.xadd(input_of(OURS), {"swarm": "chat", "data": "{}"})
    assert client.xlen(input_of(OURS)) == 1
    assert len(client.xrange(swarm_of(OURS, "chat"))) == 1
    for channel in (swarm_of(OURS, "chat"), f"reply:{{{OURS}}}:x", f"changed:{{{OURS}}}"):
        with client.pubsub() as channels:
            channels.subscribe(channel)
            assert channels.get_message(timeout=PATIENCE_S)["type"] == "subscribe"
            assert client.publish(channel, "tea") == 1
            assert channels.get_message(timeout=PATIENCE_S)["data"] == b"tea"


@pytest.mark.parametrize(
    "words",
    [
        ("XADD", input_of(OTHERS), "*", "a", "b"),
        ("XADD", swarm_of(OURS, "chat"), "*", "a", "b"),
        ("XRANGE", swarm_of(OTHERS, "chat"), "-", "+"),
        ("PUBLISH", swarm_of(OTHERS, "chat"), "x"),
        ("PUBLISH", "memrelay:changes", "x"),
        ("SUBSCRIBE", swarm_of(OTHERS, "chat")),
        ("SUBSCRIBE", f"reply:{{{OTHERS}}}:x"),
        ("SUBSCRIBE", f"changed:{{{OTHERS}}}"),
        ("PSUBSCRIBE", "*"),
        ("GET", "memrelay:{workers}"),
        ("SET", input_of(OURS), "x"),
        ("HSET", f"pipeline:{{{OURS}}}:owner", "epoch", "9"),
        ("DEL", input_of(OURS)),
        ("XGROUP", "CREATE", input_of(OURS), "g", "0"),
        ("XDEL", input_of(OURS), "0-1"),
        ("XREADGROUP", "GROUP", "owner", "c", "STREAMS", input_of(OURS), ">"),
        ("KEYS", "*"),
        ("SCAN", "0"),
        ("CONFIG", "GET", "*"),
        ("FLUSHALL",),
        ("FLUSHDB",),
        ("ACL", "WHOAMI"),
        ("ACL", "LIST"),
        ("SHUTDOWN",),
        ("EVAL", "return 1", "0"),
        ("CLIENT", "LIST"),
        ("CLIENT", "KILL", "ID", "1"),
        ("SELECT", "1"),
        ("MONITOR",),
        ("INFO",),
        ("SAVE",),
        ("SUBSCRIBE", "x"),
        ("REPLICAOF", "NO", "ONE"),
        ("MODULE", "LIST"),
        ("SCRIPT", "FLUSH"),
        ("FUNCTION", "LIST"),
    ],
    ids=" ".join,
)
def test_the_client_is_denied_everything_else(
    clients: tuple[redis.Redis, redis.Redis], words: tuple[str, ...]
) -> None:
    _, client = clients

    with pytest.raises(redis.exceptions.NoPermissionError):
        client.execute_command(*words)


def test_the_line_names_the_pipeline_and_has_a_placeholder_for_the_password(
    tmp_path: Path,
) -> None:
    with Program() as program:
        bundle = tmp_path / "tiny.json"
        bundle.write_text(
            '{"pipeline_name": "tiny", '
            '"agents": [{"agent_class": "chat_agent", "agent_alias": "a"}]}'
        )
        program.run("deploy", bundle, "--uid", OURS)

        line, by_name, unknown = (program.run("acl", name) for name in (OURS, "tiny", "nobody"))
        as_json = program.run("acl", OURS, "--json").lines[0]

    words = line.out.split()
    assert words == ["ACL", "SETUSER", f"memrelay-{OURS}", *client_rules(OURS), ">PASSWORD"]
    assert by_name.out == line.out
    assert (as_json["user"], as_json["rules"]) == (words[2], words[3:])
    assert (unknown.code, "no pipeline 'nobody'" in unknown.err) == (1, True)


def test_memrelay_needs_only_its_documented_permissions(tmp_path: Path) -> None:
    with running_server(tmp_path / "bus") as server, Program() as program:
        admin = redis.Redis(unix_socket_path=str(server.socket_path))
        admin.execute_command("ACL", "SETUSER", "own", "reset", "on", ">tea", *server_user_rules())
        program.environment["MEMRELAY_BUS__URL"] = f"unix://own:tea@{server.socket_path}"
        program.up()

        answered = [
            program.run("say", "memory_test", text).code
            for text in ("/write tea", "/search tea", "/read", "broken")
        ]
        ended = [
            program.run(*words.split()).code
            for words in (
                "tail memory_test --no-follow",
                "status",
                "doctor",
                "dlq ls",
                "records list memory_test",
                "reindex memory_test",
                f"deploy {SAMPLES}/conversation.json --uid other",
                "rm other",
                "erase memory_test --text tea",
            )
        ]
        program.run("rm", "memory_test")
        log = admin.execute_command("ACL", "LOG")

        assert program.end() == 0
        admin.close()

    assert (answered, ended) == ([0] * 4, [0] * 9)
    assert not log
