"""The sender delivers each event once: with kills, without a server, and with refused turns."""

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from memrelay import open_store
from memrelay.capture.configuration import Configuration, save
from memrelay.capture.spool import BATCH_LINES, Spool
from tests.support.capture import TOOLS, CaptureHome, Json, list_turns, make_event, make_prompt
from tests.support.tcp_relay import TcpRelay
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

# A port that programs do not get: nothing listens there.
DEAD = "http://127.0.0.1:9"
ROLES = ["user", "tool", "assistant", "user", "assistant"]
THREAD = "capture/claude-code/session-1"
NO_TEA = {"name": "no tea", "match": {"find": {"pattern": "forbidden tea"}}, "action": "refuse"}


def fill(home: CaptureHome, *events: Json) -> None:
    home.paths.spool.mkdir(parents=True, exist_ok=True)
    lines = b"".join(json.dumps(one).encode() + b"\n" for one in events)
    (home.paths.spool / f"{time.time_ns():020d}").write_bytes(lines)


def install(home: CaptureHome, web_system: WebSystem, **values: str) -> str:
    uid = web_system.deploy()
    home.install(**{"url": web_system.url, "pipeline": uid, **values})
    return uid


def texts(web_system: WebSystem, uid: str) -> list[str]:
    return [one["content"] for one in list_turns(web_system.url, uid, THREAD)]


def test_turns_arrive_at_a_server(home: CaptureHome, web_system: WebSystem) -> None:
    uid = install(home, web_system)
    home.prompt("Remember the port")

    home.send()

    (turn,) = list_turns(web_system.url, uid, THREAD)
    assert (turn["content"], turn["user"], turn["agent"]) == (
        "Remember the port",
        "ada",
        "claude-code",
    )
    assert turn["item"]["project"] == "git.example.com/team/app"
    assert home.spooled() == []


def test_a_dead_server_loses_nothing(home: CaptureHome, web_system: WebSystem) -> None:
    uid = install(home, web_system)
    values = {"pipeline": uid, "user": "ada", "python": "/bin/true"}
    save(home.paths, Configuration(url=DEAD, **values))
    home.prompt("While the server is dead")

    home.send()

    assert "cannot be reached" in home.log
    assert "While" not in home.log
    assert len(home.spooled()) == 1
    save(home.paths, Configuration(url=web_system.url, **values))
    home.prompt("When it is back")
    home.send()
    assert texts(web_system, uid) == ["While the server is dead", "When it is back"]


def test_parallel_sessions_of_all_tools_survive_a_dead_server(
    home: CaptureHome, web_system: WebSystem
) -> None:
    uid = install(home, web_system)
    save(home.paths, Configuration(url=DEAD, pipeline=uid, python="/bin/true"))
    with ThreadPoolExecutor(len(TOOLS)) as pool:
        list(pool.map(home.play, TOOLS))
    home.send()
    sessions = {(one["tool"], one["session"]) for one in home.spooled()}
    assert len(sessions) == len(TOOLS)

    save(home.paths, Configuration(url=web_system.url, pipeline=uid))
    home.send()

    for tool, session in sessions:
        turns = list_turns(web_system.url, uid, f"capture/{tool}/{session}")
        assert [one["role"] for one in turns] == ROLES
        assert turns[3]["content"] == "We deploy on Fridays only."


def test_a_lost_answer_adds_no_turn_twice(home: CaptureHome, web_system: WebSystem) -> None:
    uid = install(home, web_system)
    port = int(web_system.url.rpartition(":")[2])
    cuts = iter([b""])
    with TcpRelay(port, lambda answer: next(cuts, answer)) as relay:
        install_at = Configuration(url=f"http://127.0.0.1:{relay.port}", pipeline=uid, user="ada")
        save(home.paths, install_at)
        fill(home, *map(make_event, range(5)))
        sender = home.start_sender()
        wait_for(lambda: len(texts(web_system, uid)) == 5, "the first attempt is stored")
        relay.cut()
        assert sender.wait(60) == 0

    assert texts(web_system, uid) == [f"Text {n}" for n in range(5)]
    assert home.spooled() == []


@pytest.mark.parametrize(
    "kills", [2, pytest.param(20, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_a_killed_sender_delivers_everything_once(
    kills: int, home: CaptureHome, web_system: WebSystem
) -> None:
    uid = install(home, web_system)
    count = min(900, (kills + 2) * BATCH_LINES)
    fill(home, *map(make_event, range(count // 2)))
    fill(home, *map(make_event, range(count // 2, count)))
    offset = home.paths.state / "offset.json"
    for _ in range(kills):
        sender = home.start_sender()
        before = offset.read_bytes() if offset.exists() else b""
        while sender.poll() is None and (not offset.exists() or offset.read_bytes() == before):
            time.sleep(0.001)
        sender.kill()
        sender.wait()

    home.send()

    assert texts(web_system, uid) == [f"Text {n}" for n in range(count)]
    assert home.spooled() == []


def test_texts_and_folders_that_are_no_unicode_arrive(home: CaptureHome) -> None:
    folder = home.folder / "caf\udce9"
    folder.mkdir()

    home.run_hook("claude-code", make_prompt(folder, "A cut smile \ud83d in ☕"))
    home.send()

    assert home.stored("session-1") == ["A cut smile ? in ☕"]
    with open_store(home.store) as store:
        assert "A cut smile" in store.capture.context(project=str(home.folder / "caf?")).text


def test_refused_turns_are_put_aside(home: CaptureHome, web_system: WebSystem) -> None:
    store = "instances/${pipeline_uid}/memories"
    uid = web_system.deploy(stores=[{"memory_id": store, "policies": [NO_TEA]}])
    home.install(url=web_system.url, pipeline=uid)
    events = [make_event(0), make_event(1, "forbidden tea"), make_event(2)]
    fill(home, *events)
    with (next(home.paths.spool.iterdir())).open("ab") as segment:
        segment.write(b'{"torn\n')

    home.send()

    assert texts(web_system, uid) == ["Text 0", "Text 2"]
    assert Spool(home.paths).state().refused == 2
    kept = (home.paths.state / "refused.jsonl").read_text()
    assert "forbidden tea" in kept and "no event" in kept
    assert home.spooled() == []


def test_a_store_that_is_gone_keeps_the_events(home: CaptureHome, web_system: WebSystem) -> None:
    install(home, web_system, store="instances/gone/memories")
    fill(home, *(make_event(n) for n in range(3)))

    home.send()

    state = Spool(home.paths).state()
    assert (state.waiting, state.refused) == (3, 0)
    assert "names no store 'instances/gone/memories'" in home.log


def test_a_revoked_key_keeps_the_events(home: CaptureHome, web_system: WebSystem) -> None:
    install(home, web_system, pipeline="none-such")
    fill(home, make_event(0))

    home.send()

    assert "check the address, the pipeline and the key" in home.log
    assert Spool(home.paths).state().waiting == 1


def test_only_one_sender_runs(home: CaptureHome) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        save(home.paths, Configuration(url=f"http://127.0.0.1:{port}", pipeline="p"))
        fill(home, make_event(0))
        sender = home.start_sender()
        wait_for(lambda: Spool(home.paths).state().is_sending, "the sender runs")

        home.send()

        assert len(home.spooled()) == 1
        sender.kill()
        sender.wait()
    assert not Spool(home.paths).state().is_sending
