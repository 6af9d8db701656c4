"""`memrelay chat`: on a real terminal, and with a script."""

import stat

import orjson

from tests.cli.serving import uid_of
from tests.cli.terminal import Terminal
from tests.support.program import Program

PROMPT = "memory_test>"


def test_a_script_gets_its_answers_as_sentences_in_order(served: Program) -> None:
    ended = served.run(
        "chat",
        "memory_test",
        stdin=b"/write scripted tea\n\n  \n/search scripted\n/delete none\nhello\n",
    )

    written, found, deleted, echoed = ended.out.splitlines()
    assert (ended.code, ended.err) == (0, "")
    assert written.startswith("Written as ")
    assert "  observation  " in found and found.endswith("  scripted tea")
    assert deleted == "Nothing deleted: no record has this guid."
    assert echoed == "hello"


def test_json_output_is_the_same_as_that_of_say(served: Program) -> None:
    ended = served.run("chat", "memory_test", "--json", stdin=b"/append as json\r\n/search json")

    appended, found = ended.lines
    assert appended["guid"] == found[0]["guid"]
    assert served.run("say", "memory_test", "/search json").lines == [found]


def test_quit_ends_a_script(served: Program) -> None:
    ended = served.run("chat", "memory_test", stdin=b"one\n /quit \ntwo\n")

    assert (ended.code, ended.out) == (0, "one\n")


def test_an_invalid_line_fails_the_script_but_not_the_other_lines(
    served: Program,
) -> None:
    ended = served.run("chat", "memory_test", stdin=b"\xff\xfe\nhello\n" + b"x" * 1_048_570 + b"\n")

    assert (ended.code, ended.out) == (1, "hello\n")
    assert (
        "UTF-8" in ended.err and "max_message_bytes" in ended.err and "Traceback" not in ended.err
    )


def test_an_unknown_chat_command_is_answered_with_the_known_ones(served: Program) -> None:
    ended = served.run("chat", "memory_test", stdin=b"/dance\n")

    assert (ended.code, ended.err) == (0, "")
    assert "Commands: /write TEXT" in ended.out


def test_the_prompt_completes_commands_and_guids(served: Program) -> None:
    with Terminal(served, "chat", "memory_test") as terminal:
        at = terminal.until(PROMPT, terminal.until("Tab completes"))
        terminal.type("/wri\t")
        at = terminal.until("te", at)
        terminal.type(" completed by tab\r")
        at = terminal.until(PROMPT, terminal.until("Written as ", at))
        guid = terminal.seen.partition("Written as ")[2].split()[0]
        terminal.type(f"/delete {guid[14:]}\t")  # a part of the guid is enough
        at = terminal.until(guid, at)
        terminal.type("\r")
        terminal.until(PROMPT, terminal.until("Deleted 1 record.", at))
        terminal.type("\x04")

        assert terminal.end() == 0


def test_the_history_file_is_private(served: Program) -> None:
    history = served.root / "chat_history"
    with Terminal(served, "chat", "memory_test") as terminal:
        at = terminal.until(PROMPT)
        terminal.type("remember this line\r")
        at = terminal.until(PROMPT, terminal.until("remember this line", at))
        terminal.type("/quit\r")
        assert terminal.end() == 0
    history.chmod(0o644)

    with Terminal(served, "chat", "memory_test") as terminal:
        at = terminal.until(PROMPT, terminal.until("Tab completes"))
        terminal.rest()  # the history file is loaded
        terminal.type("\x1b[A\x1b[A")
        terminal.until("remember this line", at)
        terminal.type("\x03\x04")
        assert terminal.end() == 0

    assert stat.S_IMODE(history.stat().st_mode) == 0o600


def test_messages_of_others_are_shown_and_own_messages_are_not_repeated(
    served: Program,
) -> None:
    with Terminal(served, "chat", "memory_test", "--as", "Bob") as terminal:
        at = terminal.until(PROMPT)
        terminal.type("from bob\r")
        at = terminal.until(PROMPT, at)
        served.run("say", "memory_test", "from ann \x1b[2J", "--as", "Ann")
        at = terminal.until("Ann: from ann \\u001b[2J", at)
        terminal.until(PROMPT, at)
        terminal.type("\x04")
        assert terminal.end() == 0

    assert "Bob: from bob" not in terminal.seen


def test_ctrl_c_ends_the_wait_but_not_the_chat(served: Program) -> None:
    with Terminal(served, "chat", "memory_test") as terminal:
        at = terminal.until(PROMPT)
        served.client().redis.execute_command("CLIENT", "PAUSE", "4000", "ALL")
        terminal.type("anybody there?\r")
        at = terminal.until("there?", at)
        terminal.rest()
        terminal.type("\x03")
        at = terminal.until("no longer waiting", at)
        terminal.until(PROMPT, at)
        terminal.type("\x04")

        assert terminal.end() == 0


def test_a_line_that_is_not_utf8_is_rejected_and_the_prompt_stays(served: Program) -> None:
    with Terminal(served, "chat", "memory_test") as terminal:
        at = terminal.until(PROMPT)
        terminal.type(b"bad \xff\xfe bytes\r")
        at = terminal.until(PROMPT, terminal.until("UTF-8", at))
        terminal.type("still here\r")
        terminal.until(PROMPT, terminal.until("\nstill here", at))
        terminal.type("\x04")

        assert terminal.end() == 0


def test_a_pipeline_without_commands_says_so(served: Program) -> None:
    file = served.folder / "quiet.json"
    viewer = {
        "agent_class": "viewer_agent",
        "agent_alias": "view",
        "agent_rec_swarm": "chat",
        "agent_from": "*",
    }
    file.write_bytes(
        orjson.dumps({"pipeline_name": "\x1b[31mred", "pipeline_uid": "quiet", "agents": [viewer]})
    )
    served.run("deploy", file)

    with Terminal(served, "chat", "quiet") as terminal:
        terminal.until("red>", terminal.until("no commands"))
        terminal.rest()
        terminal.type("\x04")
        assert terminal.end() == 0

    assert b"\x1b[31m" not in terminal.raw
    assert uid_of(served) and served.run("rm", "quiet").code == 0
