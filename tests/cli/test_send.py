"""`memrelay send`: messages that are stored without waiting for results."""

import orjson
import pytest

from tests.cli.serving import uid_of
from tests.support.client import make_envelope
from tests.support.program import Program


def found(served: Program, word: str) -> list[str]:
    """Return the texts with this word. The tests share a store, and a search also finds texts that
    are near.
    """
    (records,) = served.run("say", "memory_test", f"/search {word}").lines
    return [record["content"] for record in records if word in record["content"]]


def test_send_prints_the_id_of_the_message_on_the_bus(served: Program) -> None:
    ended = served.run("send", "memory_test", "/write sent")

    ident = ended.out.strip()
    served.client().await_done(uid_of(served), ident)
    assert (ended.code, ended.err, found(served, "sent")) == (0, "", ["sent"])


def test_json_names_the_target(served: Program) -> None:
    (sent,) = served.run("send", "memory_test", "hello", "--swarm", "talk", "--json").lines

    assert sent == {"id": sent["id"], "pipeline_uid": uid_of(served), "swarm": "talk"}


def test_stdin_is_one_message_without_the_last_line_break(served: Program) -> None:
    assert served.run("send", "memory_test", "-", stdin=b"/write piped\nin two lines\n").code == 0

    assert found(served, "piped") == ["piped\nin two lines"]


def test_a_repeated_id_has_no_second_effect(served: Program) -> None:
    for _ in range(2):
        assert served.run("send", "memory_test", "/write once", "--id", "order-1").code == 0

    assert found(served, "once") == ["once"]


def test_an_agent_is_addressed_by_its_alias(served: Program) -> None:
    (sent,) = served.run("send", "memory_test", "/write handed", "--agent", "user", "--json").lines

    assert sent["agent"] == "user"
    assert found(served, "handed") == ["handed"]


def test_a_whole_envelope_is_sent_unchanged(served: Program) -> None:
    envelope = make_envelope("/write enveloped", "Ann", more="kept")

    ended = served.run("send", "memory_test", envelope.decode(), "--envelope")

    assert found(served, "enveloped") == ["enveloped"]
    logged = [one for one in served.client().log(uid_of(served)) if one.input == ended.out.strip()]
    assert (logged[0].sender, logged[0].text) == ("Ann", "/write enveloped")


@pytest.mark.parametrize("text", ["hello", '{"args": {}}', "[" * 10_000])
def test_an_invalid_envelope_is_rejected_with_the_right_shape(served: Program, text: str) -> None:
    ended = served.run("send", "memory_test", text, "--envelope")

    assert (ended.code, ended.out) == (1, "")
    assert "an envelope is {" in ended.err and "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("option", "there_are"),
    [("--swarm", "chat, talk"), ("--agent", "user, no_command, dispatch_write")],
)
def test_an_unknown_swarm_or_agent_lists_the_existing_ones(
    served: Program, option: str, there_are: str
) -> None:
    ended = served.run("send", "memory_test", "hello", option, "nowhere")

    assert (ended.code, ended.out) == (1, "")
    assert "'nowhere'" in ended.err and option in ended.err and there_are in ended.err


@pytest.mark.parametrize("text", [b"\xff\xfe", b"x" * 1_048_577, b"y" * 1_048_570])
def test_a_message_that_the_bus_would_reject_is_not_sent(served: Program, text: bytes) -> None:
    ended = served.run("send", "memory_test", "-", stdin=text)

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("memrelay: ") and len(ended.err) < 300


def test_an_empty_message_is_valid(served: Program) -> None:
    assert served.run("send", "memory_test", "-", stdin=b"").code == 0


def test_say_rejects_an_unknown_swarm_before_sending(
    served: Program,
) -> None:
    ended = served.run("say", "memory_test", "hello", "--swarm", "caht")

    assert (ended.code, ended.out) == (1, "")
    assert "no swarm 'caht'" in ended.err and "chat, talk" in ended.err


def test_a_result_with_invalid_json_is_printed_as_a_json_string(served: Program) -> None:
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
