"""`memrelay tail`: every message once, in order, until the reader leaves."""

import re
import signal
import subprocess
import time
from typing import Any

import orjson

from tests.cli.serving import uid_of
from tests.cli.terminal import Terminal
from tests.support.client import make_envelope, swarm_of
from tests.support.program import COMMAND, Program


def start(served: Program, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "tail", "memory_test", *arguments],
        cwd=served.folder,
        env=served.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def line_of(command: subprocess.Popen[str]) -> Any:
    assert command.stdout is not None
    return orjson.loads(command.stdout.readline())


def texts_of(lines: list[Any]) -> list[str]:
    return [line["message"]["args"][0]["text"] for line in lines]


def test_the_last_messages_are_printed_with_time_swarm_and_sender(served: Program) -> None:
    served.run("say", "memory_test", "good morning", "--as", "Ann")

    ended = served.run("tail", "memory_test", "--no-follow", "--since", "2")

    first, second = ended.out.splitlines()
    assert re.fullmatch(r" \S+  chat  Ann: good morning", first[19:])
    assert re.fullmatch(r" \S+  talk  no_command: good morning", second[19:])
    assert time.strptime(first[:19], "%Y-%m-%d %H:%M:%S")


def test_messages_during_the_start_are_printed_once_and_in_order(served: Program) -> None:
    client, uid = served.client(), uid_of(served)
    first = client.enter(uid, "number 0")
    client.await_done(uid, first)
    before = client.redis.xrevrange(swarm_of(uid, "chat"), count=1)[0][0].decode()

    with start(served, "--swarm", "chat", "--json", "--since", before) as command:
        for number in range(1, 301):
            client.enter(uid, f"number {number}")
            time.sleep(0.005)
        lines = [line_of(command) for _ in range(300)]
        command.send_signal(signal.SIGINT)
        rest, errors = command.communicate(timeout=120)

    assert texts_of(lines) == [f"number {number}" for number in range(1, 301)]
    assert (command.returncode, rest, errors) == (0, "", "")


def test_a_cursor_continues_after_the_last_message(served: Program) -> None:
    client, uid = served.client(), uid_of(served)
    for number in range(450):
        last = client.enter(uid, f"page {number}")
    client.await_done(uid, last)

    lines = served.run(
        "tail", "memory_test", "--no-follow", "--swarm", "chat", "--since", "450", "--json"
    ).lines
    rest = served.run(
        "tail",
        "memory_test",
        "--no-follow",
        "--swarm",
        "chat",
        "--since",
        lines[99]["cursor"],
        "--json",
    ).lines

    assert texts_of(lines) == [f"page {number}" for number in range(450)]
    assert rest == lines[100:]


def test_all_swarms_are_merged_in_order(served: Program) -> None:
    served.run("say", "memory_test", "both")

    lines = served.run("tail", "memory_test", "--no-follow", "--since", "0-0", "--json").lines

    cursors = [tuple(map(int, line["cursor"].split("-"))) for line in lines]
    assert cursors == sorted(cursors)
    assert {line["swarm"] for line in lines} == {"chat", "talk"}


def test_since_0_prints_no_stored_message(served: Program) -> None:
    assert served.run("tail", "memory_test", "--no-follow", "--since", "0").out == ""


def test_tail_ends_quietly_when_its_reader_closes(served: Program) -> None:
    with start(served, "--since", "1") as command:
        assert command.stdout is not None and command.stderr is not None
        command.stdout.readline()
        command.stdout.close()

        assert (command.wait(60), command.stderr.read()) == (0, "")


def test_control_characters_are_escaped(served: Program) -> None:
    served.client().enter(
        uid_of(served), "evil \x1b[2J\x9b31m \u202e\nsecond ☕", sender="\x07bell"
    )

    with Terminal(served, "tail", "memory_test", "--swarm", "chat", "--since", "1") as terminal:
        terminal.until("second")
        terminal.type("\x03")
        assert terminal.end() == 0

    assert r"\u0007bell: evil \u001b[2J\u009b31m \u202e" in terminal.seen
    assert (
        b"\x07" not in terminal.raw
        and b"\x1b[2J" not in terminal.raw
        and "\x9b".encode() not in terminal.raw
    )


def test_entries_of_other_programs_in_the_log_are_printed(served: Program) -> None:
    client, uid = served.client(), uid_of(served)
    client.redis.xadd(swarm_of(uid, "talk"), {"other": "fields"})
    client.redis.xadd(swarm_of(uid, "talk"), {"mid": "x", "data": '{"no":\n"envelope ☕"}'})
    client.redis.xadd(swarm_of(uid, "talk"), {"mid": "x", "data": b"\xff"})

    readable = served.run_process(
        "tail",
        "memory_test",
        "--no-follow",
        "--swarm",
        "talk",
        "--since",
        "1",
        PYTHONIOENCODING="latin-1",
    )
    (printed,) = served.run(
        "tail", "memory_test", "--no-follow", "--swarm", "talk", "--since", "1", "--json"
    ).lines

    assert readable.out.endswith('  talk  ?: {"no":\n                     "envelope \\u2615"}\n')
    assert printed == {
        "swarm": "talk",
        "cursor": printed["cursor"],
        "mid": "x",
        "message": {"no": "envelope ☕"},
    }


def test_a_number_that_exceeds_a_float_is_printed_unchanged(served: Program) -> None:
    client, uid = served.client(), uid_of(served)
    data = make_envelope("hm").replace(b'"text":', b'"more":1e999,"text":')
    client.await_done(uid, client.enter_raw(uid, data, swarm="talk"))

    printed = served.run(
        "tail", "memory_test", "--no-follow", "--swarm", "talk", "--since", "1", "--json"
    )

    assert (printed.code, data.decode() in printed.out) == (0, True)


def test_tail_continues_after_a_lost_connection(served: Program) -> None:
    client, uid = served.client(), uid_of(served)
    with start(served, "--swarm", "chat", "--json", "--since", "1") as command:
        line_of(command)
        client.redis.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        time.sleep(1)
        client.enter_raw(uid, make_envelope("back again"))

        assert texts_of([line_of(command)]) == ["back again"]
        command.send_signal(signal.SIGINT)
        assert command.wait(60) == 0


def test_an_unknown_swarm_is_named(served: Program) -> None:
    ended = served.run("tail", "memory_test", "--swarm", "caht")

    assert (ended.code, ended.out) == (1, "")
    assert "no swarm 'caht'" in ended.err
