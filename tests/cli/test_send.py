"""`memrelay send`: appended durably, and not waited for."""

import orjson
import pytest

from tests.cli.piped import piped
from tests.cli.serving import uid_of
from tests.support.client import make_envelope
from tests.support.program import Program


def found(served: Program, words: str) -> list[str]:
    (records,) = served.run("say", "memory_test", f"/search {words}").lines
    return [record["content"] for record in records]


def test_it_prints_the_id_under_which_the_message_is_on_the_bus(served: Program) -> None:
    ended = served.run("send", "memory_test", "/write sent")

    ident = ended.out.strip()
    served.client().await_done(uid_of(served), ident)
    assert (ended.code, ended.err, found(served, "sent")) == (0, "", ["sent"])


def test_json_says_where_it_went(served: Program) -> None:
    (told,) = served.run("send", "memory_test", "hello", "--swarm", "talk", "--json").lines

    assert told == {"id": told["id"], "pipeline_uid": uid_of(served), "swarm": "talk"}


def test_stdin_is_one_message_without_the_end_of_its_last_line(served: Program) -> None:
    assert piped(served, b"/write piped\nin two lines\n", "send", "memory_test", "-").code == 0

    assert found(served, "piped") == ["piped\nin two lines"]


def test_the_same_producer_id_has_no_second_effect(served: Program) -> None:
    for _ in range(2):
        assert served.run("send", "memory_test", "/write once", "--id", "order-1").code == 0

    assert found(served, "once") == ["once"]


def test_an_agent_is_reached_by_its_alias(served: Program) -> None:
    (told,) = served.run("send", "memory_test", "/write handed", "--agent", "user", "--json").lines

    assert told["agent"] == "user"
    assert found(served, "handed") == ["handed"]


def test_a_whole_envelope_goes_as_it_is(served: Program) -> None:
    envelope = make_envelope("/write enveloped", "Ann", more="kept")

    ended = served.run("send", "memory_test", envelope.decode(), "--envelope")

    assert found(served, "enveloped") == ["enveloped"]
    said = [said for said in served.client().log(uid_of(served)) if said.input == ended.out.strip()]
    assert (said[0].sender, said[0].text) == ("Ann", "/write enveloped")


@pytest.mark.parametrize("text", ["hello", '{"args": []}', "[" * 10_000])
def test_what_is_no_envelope_is_refused_with_its_shape(served: Program, text: str) -> None:
    ended = served.run("send", "memory_test", text, "--envelope")

    assert (ended.code, ended.out) == (1, "")
    assert "an envelope is {" in ended.err and "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("option", "there_are"),
    [("--swarm", "chat, talk"), ("--agent", "user, no_command, dispatch_write")],
)
def test_a_swarm_or_an_agent_that_is_not_there_names_those_that_are(
    served: Program, option: str, there_are: str
) -> None:
    ended = served.run("send", "memory_test", "hello", option, "nowhere")

    assert (ended.code, ended.out) == (1, "")
    assert "'nowhere'" in ended.err and option in ended.err and there_are in ended.err


@pytest.mark.parametrize("said", [b"\xff\xfe", b"x" * 1_048_577, b"y" * 1_048_570])
def test_what_the_bus_would_not_take_is_refused_before(served: Program, said: bytes) -> None:
    ended = piped(served, said, "send", "memory_test", "-")

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("memrelay: ") and len(ended.err) < 300


def test_nothing_is_a_message_too(served: Program) -> None:
    assert piped(served, b"", "send", "memory_test", "-").code == 0


def test_say_refuses_a_swarm_that_is_not_there_before_it_becomes_a_dead_letter(
    served: Program,
) -> None:
    ended = served.run("say", "memory_test", "hello", "--swarm", "caht")

    assert (ended.code, ended.out) == (1, "")
    assert "no swarm 'caht'" in ended.err and "chat, talk" in ended.err


def test_a_result_that_only_says_that_it_is_json_is_a_json_string(served: Program) -> None:
    file = served.folder / "echo.json"
    relay = {
        "agent_class": "wf_agent",
        "agent_alias": "echo",
        "wf_agent_name": "echo",
        "agent_rec_swarm": "chat",
        "agent_send_swarm": "chat",
        "agent_from": "User",
        "wf_diagram_webhook": "regex_match",
        "wf_publish_results": True,
        "wf_webhook_args": {"pattern": "(.*)", "flags": "s"},
    }
    file.write_bytes(orjson.dumps({"pipeline_name": "echo", "agents": [relay]}))
    served.run("deploy", file)

    ended = served.run("say", "echo", "\x1b[31m\u009b no json")

    assert ended.lines == ["\x1b[31m\u009b no json"]
    assert ended.out.isprintable() or ended.out[:-1].isprintable()
