"""`memrelay dlq`: list, show, replay and drop dead letters."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import orjson
import pytest

from memrelay.memory.engine.memory_id import store_path
from tests.cli.serving import uid_of
from tests.cli.terminal import Terminal
from tests.support.bundles import STORE, Json, make_agent, make_bundle, make_uid
from tests.support.client import Client, make_envelope
from tests.support.program import Completed, Program
from tests.support.waiting import wait_for

MISSPELT = "chta"


@pytest.fixture
def client(program: Program) -> Iterator[Client]:
    """Yield a client, and drop the dead letters of the sample pipeline at the end."""
    client = program.client()
    yield client
    dlq(program, "drop", "memory_test", "--all")


def dlq(program: Program, *words: str) -> Completed:
    return program.run("dlq", *words)


def deploy(program: Program, bundle: Json) -> None:
    file = program.folder / "bundle.json"
    file.write_bytes(orjson.dumps(bundle))
    assert program.run("deploy", file).code == 0


def add_dead_letters(program: Program, client: Client, *texts: str) -> list[str]:
    """Send messages to an unknown swarm of the sample. Return the ids of the dead letters."""
    uid = uid_of(program)
    idents = [client.enter(uid, text, swarm=MISSPELT) for text in texts]
    client.await_quiet(uid)
    return idents


def test_letters_are_listed_and_shown_as_json_lines(program: Program, client: Client) -> None:
    uid, (first, second) = uid_of(program), add_dead_letters(program, client, "tea", "milk")

    listed, shown = dlq(program, "ls").lines, dlq(program, "show", "memory_test", second).lines

    assert [(one["pipeline_uid"], one["id"], one["attempts"]) for one in listed] == [
        (uid, first, 1),
        (uid, second, 1),
    ]
    assert [one["data"] for one in shown] == [make_envelope("milk").decode()]
    assert dlq(program, "ls", "memory_test").lines == listed


def test_on_a_terminal_the_list_is_an_escaped_table(program: Program, client: Client) -> None:
    ident = client.enter(uid_of(program), "tea", swarm="\x1b[2J")
    client.await_quiet(uid_of(program))

    with Terminal(program, "dlq", "ls", "memory_test") as terminal:
        assert terminal.end() == 0

    assert (
        "ATTEMPTS" in terminal.seen and ident in terminal.seen and "has no swarm" in terminal.seen
    )
    assert b"\x1b[2J" not in terminal.raw


def test_letters_are_grouped_and_selected_by_reason(program: Program, client: Client) -> None:
    uid, idents = uid_of(program), add_dead_letters(program, client, "tea", "milk", "honey")
    broken = client.enter_raw(uid, b"broken")
    client.await_quiet(uid)

    first, second = dlq(program, "ls", "--by-reason").lines
    chosen = dlq(program, "ls", "--reason", "NOT AN ENVELOPE").lines
    dropped = dlq(program, "drop", uid, "--reason", "not an envelope").lines

    assert [first[name] for name in ("letters", "first_id", "last_id")] == [3, idents[0], idents[2]]
    assert (second["letters"], second["error"][:30]) == (1, "the message is not an envelope")
    assert [one["id"] for one in chosen] == [one["dropped"] for one in dropped] == [broken]
    assert [one["id"] for one in dlq(program, "ls").lines] == idents


def test_failed_deliveries_are_counted_with_the_command_for_them(program: Program) -> None:
    uid = uid_of(program)
    created = program.run("endpoints", "create", "memory_test", "https://127.0.0.1/hook")
    endpoint = created.lines[0]["endpoint"]["id"]
    sent = program.run("endpoints", "test", "memory_test", endpoint).lines[0]
    file = store_path(program.root, f"instances/{uid}/endpoints")
    with closing(sqlite3.connect(file, timeout=20)) as connection, connection:
        connection.execute("UPDATE deliveries SET state = 2, ended_at = 1e15")

    listed = dlq(program, "ls", "memory_test")
    recovered = program.run("endpoints", "recover", uid, endpoint).lines[0]

    assert listed.lines == []
    assert f"1 delivery to the endpoint {endpoint} failed too" in listed.err
    assert f"`memrelay endpoints recover {uid} {endpoint}`" in listed.err
    assert recovered["count"] == 1 and sent["delivery"].startswith("msg_")
    assert program.run("endpoints", "delete", "memory_test", endpoint).code == 0
    assert dlq(program, "ls", "memory_test").err == ""


def test_on_a_terminal_reasons_are_a_table(program: Program, client: Client) -> None:
    add_dead_letters(program, client, "tea", "milk")

    with Terminal(program, "dlq", "ls", "--by-reason") as terminal:
        assert terminal.end() == 0

    assert re.search(r"PIPELINE +LETTERS +FIRST +LAST +REASON", terminal.seen)
    assert re.search(r" 2 +\d{4}-.*has no swarm", terminal.seen)


def test_many_letters_are_replayed_in_their_order(program: Program, client: Client) -> None:
    uid, idents = uid_of(program), add_dead_letters(program, client, *map(str, range(250)))

    replayed = dlq(program, "replay", uid, "--all")
    client.await_quiet(uid)

    assert [one["replayed"] for one in replayed.lines] == idents
    assert "250 dead letters failed again" in replayed.err
    assert {one["attempts"] for one in dlq(program, "ls", uid).lines} == {2}


def test_a_letter_that_fails_again_has_one_more_attempt(program: Program, client: Client) -> None:
    uid, (first, second) = uid_of(program), add_dead_letters(program, client, "tea", "milk")

    replayed = dlq(program, "replay", uid, first)
    client.await_quiet(uid)
    both = dlq(program, "replay", uid, "--all")
    client.await_quiet(uid)

    (line,) = replayed.lines
    assert (replayed.code, line["replayed"], line["pipeline_uid"]) == (1, first, uid)
    assert "has no swarm" in line["error"]
    assert "1 dead letter failed again; `memrelay dlq show` has the reasons" in replayed.err
    assert [one["replayed"] for one in both.lines] == [first, second]
    assert [(one["id"], one["attempts"]) for one in dlq(program, "ls", uid).lines] == [
        (first, 3),
        (second, 2),
    ]


def test_a_replay_without_a_wait_only_starts(program: Program, client: Client) -> None:
    uid, (ident,) = uid_of(program), add_dead_letters(program, client, "tea")

    ended = dlq(program, "replay", uid, ident, "--wait", "0")
    client.await_quiet(uid)

    assert (ended.code, ended.lines) == (0, [{"replayed": ident, "pipeline_uid": uid}])


def test_an_answer_that_is_an_error_ends_say_with_1(program: Program, client: Client) -> None:
    keeper = make_agent("keeper", "memory_write", {}, senders="User", on="chat", to="chat")
    uid = make_uid()
    deploy(program, make_bundle(uid, keeper, name="homeless"))
    client.await_served(uid)

    said = program.run("say", "homeless", "tea")

    assert said.code == 1 and said.lines[0].keys() == {"error"}
    assert program.run("rm", uid).code == 0


def test_a_replay_succeeds_after_the_bundle_is_fixed(program: Program, client: Client) -> None:
    uid = make_uid()
    keeper = make_agent(
        "keeper", "memory_write", {"memory_id": STORE}, senders="User", on="chat", to="chat"
    )
    for on in ("chat", MISSPELT):
        deploy(program, make_bundle(uid, keeper | {"agent_rec_swarm": on}, name="kept"))
        if on == "chat":
            client.await_served(uid)
            ident = client.enter(uid, "tea", swarm=MISSPELT)
            client.await_quiet(uid)
    client.redis.publish("memrelay:changes", "deployed")

    def replays() -> bool:
        dlq(program, "replay", "kept", ident)
        client.await_quiet(uid)
        return not dlq(program, "ls", "kept").lines

    wait_for(replays, "the worker serves the other version")
    assert [entry.text for entry in client.log(uid, MISSPELT)] == ["tea"]
    assert {entry.input for entry in client.log(uid)} == {ident}
    assert program.run("rm", uid).code == 0


def test_dropped_letters_are_deleted_and_missing_ones_are_reported(
    program: Program, client: Client
) -> None:
    uid, (first, second, third) = (
        uid_of(program),
        add_dead_letters(program, client, "tea", "milk", "sugar"),
    )

    dropped = dlq(program, "drop", uid, first, "1-0", second, first)
    missing = [dlq(program, command, uid, first) for command in ("show", "replay", "drop")]

    assert (dropped.code, [one["dropped"] for one in dropped.lines]) == (1, [first, second])
    assert "no dead letter '1-0'" in dropped.err
    assert [(ended.code, ended.out) for ended in missing] == [(1, "")] * 3
    assert all("memrelay dlq ls" in ended.err and "Traceback" not in ended.err for ended in missing)
    assert [one["id"] for one in dlq(program, "ls").lines] == [third]
    assert dlq(program, "drop", uid, "--all").code == 0
    assert dlq(program, "ls").lines == []


def test_the_letters_of_a_removed_pipeline_are_listed_by_its_uid(
    program: Program, client: Client
) -> None:
    uid = make_uid()
    deploy(program, make_bundle(uid, make_agent("plus", "add_1")))
    client.await_served(uid)
    ident = client.enter(uid, "1", swarm=MISSPELT)
    client.await_quiet(uid)
    program.run("rm", uid)

    refused = dlq(program, "replay", uid, ident)

    assert refused.code == 1 and "not active" in refused.err
    assert [one["id"] for one in dlq(program, "ls", uid).lines] == [ident]
    assert dlq(program, "drop", uid, ident).code == 0
    assert dlq(program, "ls", uid).code == 1


@pytest.mark.parametrize(
    "words",
    [
        ("replay", "memory_test"),
        ("drop", "memory_test"),
        ("show", "memory_test"),
        ("replay", "memory_test", "1-0", "--all"),
        ("sho", "memory_test", "1-0"),
    ],
)
def test_wrong_usage_is_reported(program: Program, words: tuple[str, ...]) -> None:
    ended = dlq(program, *words)

    assert (ended.code, ended.out) == (2, "")
    assert "--help" in ended.err


def test_the_doctor_reports_dead_letters_with_a_fix(program: Program, client: Client) -> None:
    add_dead_letters(program, client, "tea")

    ended = program.run("doctor", "--json")

    (found,) = [one for one in ended.lines if one["check"] == "dead letters"]
    assert (ended.code, found["level"]) == (0, "warning")
    assert f"{uid_of(program)} has 1" in found["text"] and "memrelay dlq" in found["remedy"]


def test_letters_can_be_listed_without_a_bus(program: Program) -> None:
    with Program() as alone:
        deploy(alone, make_bundle(make_uid()))
        assert (alone.run("dlq", "ls").code, alone.run("dlq", "ls").lines) == (0, [])
        assert "memrelay deploy" in alone.run("dlq", "ls", "nobody").err
