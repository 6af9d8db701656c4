"""The main job as a user sees it: the real program, its command line, and any Redis client."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import orjson
import pytest

from tests.support.child import CHECKOUT
from tests.support.client import Subscriber, make_envelope
from tests.support.program import COMMAND, Program
from tests.support.tiers import first_always
from tests.support.waiting import wait_for


@pytest.fixture(scope="module")
def program() -> Iterator[Program]:
    """Run `memrelay up` for all tests that leave it running."""
    with Program() as program:
        program.up()
        yield program
        assert program.end() == 0


def say(program: Program, text: str) -> list[object]:
    """Return the values that the command prints."""
    ended = program.run("say", "memory_test", text)
    assert ended.code == 0, ended.err
    return ended.lines


def uid_of(program: Program) -> str:
    """Return the UID of the sample pipeline."""
    return program.run("ls").lines[0]["pipeline_uid"]


def test_the_greeting_names_commands_that_work(program: Program) -> None:
    commands = re.findall(r'^ {2}\S*memrelay (say) (\S+) "(.*)"$', program.output, re.MULTILINE)

    ended = [program.run(*command) for command in commands]

    assert len(ended) == 2
    assert [end.code for end in ended] == [0, 0]
    assert all(record["content"] == "The meeting is at 3pm" for record in ended[1].lines[0])


def test_a_written_text_is_found_read_and_deleted(program: Program) -> None:
    (written,) = say(program, "/write The dentist is at noon")
    (found,) = say(program, "/search dentist")
    (read,) = say(program, "/read")
    (deleted,) = say(program, f"/delete {written['guid']}")
    (found_after,) = say(program, "/search dentist")

    assert [record["guid"] for record in found] == [written["guid"]]
    assert found[0]["content"] == "The dentist is at noon"
    assert written["guid"] in [record["guid"] for record in read]
    assert (deleted, found_after) == ({"deleted": 1}, [])


def test_appends_go_to_one_record(program: Program) -> None:
    (created,), (appended,) = say(program, "/append one"), say(program, "/append two")

    (read,) = say(program, "/read")

    assert appended == {"guid": created["guid"], "appended": True}
    assert [record["content"] for record in read if record["guid"] == created["guid"]] == [
        "one\ntwo"
    ]


def test_a_text_without_a_command_passes_the_filter(program: Program) -> None:
    ended = program.run("say", "memory_test", "good morning")

    assert ended.code == 0
    assert ended.lines == ["good morning"]


@pytest.mark.parametrize("text", ["/dance", "/write", "/wirte tea"])
def test_an_unknown_or_incomplete_command_is_answered_with_the_known_ones(
    program: Program, text: str
) -> None:
    ended = program.run("say", "memory_test", text)

    assert (ended.code, len(ended.lines)) == (0, 1)
    assert "/write TEXT, /read, /search WORDS" in ended.lines[0]


def test_the_whole_envelope_is_printed_on_demand(program: Program) -> None:
    ended = program.run(
        "say", "memory_test", "/search nothing like this", "--envelope", "--as", "Ann"
    )

    (envelope,) = ended.lines
    assert (envelope["from"], envelope["id"], envelope["args"][0]["text"]) == (
        "memory_search",
        "cli",
        "[]",
    )


def test_any_redis_client_can_publish_and_get_the_answer(program: Program) -> None:
    client, uid = program.client(), uid_of(program)

    with Subscriber(client, uid) as subscriber:
        client.publish(uid, make_envelope("/write published"))
        heard = subscriber.until(lambda payload: b'"from":"memory_write"' in payload)

    guid = orjson.loads(orjson.loads(heard[-1])["args"][0]["text"])["guid"]
    (found,) = say(program, "/search published")
    assert [record["guid"] for record in found] == [guid]


def test_any_redis_client_can_append_to_the_input(program: Program) -> None:
    client, uid = program.client(), uid_of(program)

    guid = client.answer(uid, "/write entered")["guid"]

    (found,) = say(program, "/search entered")
    assert [record["guid"] for record in found] == [guid]


def test_a_bundle_is_deployed_used_and_removed_at_run_time(
    program: Program, tmp_path: Path
) -> None:
    file = tmp_path / "tea.json"
    plus = {
        "agent_class": "wf_agent",
        "agent_alias": "plus",
        "wf_agent_name": "plus",
        "agent_rec_swarm": "chat",
        "agent_send_swarm": "chat",
        "agent_from": "User",
        "wf_diagram_webhook": "add_1",
        "wf_publish_results": True,
    }
    file.write_bytes(orjson.dumps({"pipeline_name": "tea", "agents": [plus]}))

    (deployed,) = program.run("deploy", file).lines
    said = program.run("say", "tea", "41")
    listed = program.run("ls").lines
    removed = program.run("rm", "tea")
    after = program.run("say", "tea", "41")

    assert (deployed["name"], deployed["version"]) == ("tea", 1)
    assert said.lines == ["42"]
    assert deployed["pipeline_uid"] in [one["pipeline_uid"] for one in listed]
    assert (removed.code, removed.lines[0]["removed"]) == (0, deployed["pipeline_uid"])
    assert after.code == 1 and "no pipeline 'tea'" in after.err and "memory_test" in after.err


def test_a_message_loop_ends_as_a_dead_letter_and_say_reports_it(
    program: Program, tmp_path: Path
) -> None:
    file = tmp_path / "loop.json"
    plus = {
        "agent_class": "wf_agent",
        "agent_alias": "plus",
        "wf_agent_name": "plus",
        "agent_rec_swarm": "chat",
        "agent_send_swarm": "chat",
        "wf_diagram_webhook": "add_1",
        "wf_publish_results": True,
    }
    file.write_bytes(orjson.dumps({"pipeline_name": "loop", "agents": [plus]}))
    program.run("deploy", file)

    ended = program.run("say", "loop", "1")

    assert (ended.code, ended.lines) == (1, [])
    assert "dead letters" in ended.err and "worker.max_hops" in ended.err
    assert program.run("rm", "loop").code == 0


def test_a_second_up_in_the_same_folder_is_refused(program: Program) -> None:
    (port,) = re.findall(r"http://127.0.0.1:(\d+)", program.output)[:1]

    ended = program.run("up", MEMRELAY_WEB__PORT=port)

    assert ended.code == 1
    assert "is another server running?" in ended.err and "Traceback" not in ended.err
    assert say(program, "/search nothing like this") == [[]]


def test_concurrent_starts_in_one_folder_deploy_one_sample() -> None:
    with Program() as program, ExitStack() as stack:
        logs = [program.folder / f"up{number}.log" for number in range(2)]
        started = [
            subprocess.Popen(
                [*COMMAND, "up"],
                cwd=program.folder,
                env=program.environment,
                stdin=subprocess.DEVNULL,
                stdout=stack.enter_context(log.open("wb")),
                stderr=subprocess.STDOUT,
            )
            for log in logs
        ]
        for one in started:
            stack.callback(one.kill)

        wait_for(
            lambda: all("Press Ctrl-C to stop" in log.read_text() for log in logs), "all are up"
        )
        there = program.run("ls").lines
        for one in started:
            one.send_signal(signal.SIGTERM)

        assert [one.wait(30) for one in started] == [0, 0]
        assert len(there) == 1


@pytest.mark.parametrize(
    "number",
    first_always(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, ids=["SIGTERM", "SIGINT", "SIGHUP"]),
)
def test_up_ends_on_a_signal_and_keeps_its_data(
    number: int,
) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored, and inherited, under nohup
    with Program() as program:
        program.up()
        uid, server = uid_of(program), program.server_pid()
        program.client().answer(uid, "/write The meeting is at 3pm")

        code = program.end(number)

        wait_for(lambda: not Path(f"/proc/{server}").exists(), "the server is gone")
        assert (code, "Traceback" in program.output) == (0, False)
        began = time.monotonic()
        program.up()
        (found,) = say(program, "/search meeting")
        took_s = time.monotonic() - began
        print(f"a second start answers within {took_s:.1f} s")
        assert [record["content"] for record in found] == ["The meeting is at 3pm"]
        assert (uid_of(program), program.end()) == (uid, 0)


def test_a_start_keeps_deployed_samples() -> None:
    sample = CHECKOUT / "pipelines" / "memory_test.json"
    with Program() as program:
        program.run("deploy", sample, "--uid", "first")
        program.run("deploy", sample, "--uid", "second")
        before = program.run("ls").lines

        program.up()

        assert program.run("ls").lines == before
        assert "pipeline memory_test (first)" in program.output


def test_a_killed_program_leaves_no_server_behind() -> None:
    with Program() as program:
        program.up()
        server = program.server_pid()

        assert program.end(signal.SIGKILL) == -signal.SIGKILL

        wait_for(lambda: not Path(f"/proc/{server}").exists(), "the server is gone")
        program.up()
        assert say(program, "/write tea")
        assert program.end() == 0


def test_a_killed_embedded_server_is_restarted() -> None:
    with Program() as program:
        program.up()
        say(program, "/write tea")

        os.kill(program.server_pid(), signal.SIGKILL)
        wait_for(lambda: program.run("status").code == 0, "the server answers again")

        (found,) = say(program, "/search tea")
        assert [record["content"] for record in found] == ["tea"]
        assert program.end() == 0


def test_a_worker_serves_on_a_configured_bus(program: Program) -> None:
    with Program() as other:
        url = {"MEMRELAY_BUS__URL": program.run("bus", "--url").out.strip()}
        other.environment |= url
        sample = Path(__file__).resolve().parents[2] / "memrelay" / "pipelines" / "memory_test.json"
        assert other.run("deploy", sample, "--uid", "elsewhere").code == 0

        other.up("worker")

        assert "guid" in say(other, "/write tea")[0]
        assert other.end() == 0
        assert program.client().redis.ping()
