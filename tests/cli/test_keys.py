"""`memrelay keys`: create, list and revoke keys; a secret is shown only once."""

import re
import time
from collections.abc import Iterator
from datetime import datetime

import pytest

from tests.cli.serving import serving
from tests.support.http import ask
from tests.support.program import Program
from tests.support.tiers import first_always

KEY = re.compile(r"mr_[0-9a-f]{12}_[0-9a-f]{64}")


@pytest.fixture
def program() -> Iterator[Program]:
    """Yield a program without pipelines and processes, which keys do not need."""
    with Program() as program:
        yield program


def test_a_key_is_printed_once_and_listed_without_its_secret(program: Program) -> None:
    made = program.run("keys", "create", "ann", "--scope", "read,publish", "--pipeline", "*")
    text = made.out.strip()

    listed = program.run("keys", "ls")

    assert KEY.fullmatch(text), made
    assert f"nothing was stored in {program.root} before" in made.err
    assert "this key is not shown again" in made.err and "HTTP now requires a key" in made.err
    assert [
        (
            one["id"],
            one["name"],
            one["scopes"],
            one["pipelines"],
            one["expires_at"],
            one["in_force"],
        )
        for one in listed.lines
    ] == [(text[3:15], "ann", ["publish", "read"], ["*"], None, True)]
    assert text[16:] not in listed.out + made.err
    again = program.run("keys", "create", "bob", "--scope", "read", "--pipeline", "*").err
    assert "now requires" not in again and "nothing was stored" not in again


@pytest.mark.parametrize(("given", "lasts_s"), [("30m", 1800), ("12h", 43_200), ("90d", 7_776_000)])
def test_a_key_may_expire(program: Program, given: str, lasts_s: int) -> None:
    made = program.run(
        "keys", "create", "ann", "--scope", "read", "--pipeline", "*", "--expires", given, "--json"
    ).lines[0]

    made_at, expires_at = map(datetime.fromisoformat, (made["created_at"], made["expires_at"]))
    assert (expires_at - made_at).total_seconds() == lasts_s
    assert abs(made_at.timestamp() - time.time()) < 60
    assert KEY.fullmatch(made["key"])


def test_pipelines_are_given_by_uid_or_name_and_stored_by_uid(program: Program) -> None:
    sample = program.folder / "tiny.json"
    sample.write_text(
        '{"pipeline_name": "tiny tea", '
        '"agents": [{"agent_class": "chat_agent", "agent_alias": "a"}]}'
    )
    uid = program.run("deploy", sample).lines[0]["pipeline_uid"]

    made = program.run(
        "keys",
        "create",
        "ann",
        "--scope",
        "read",
        "--pipeline",
        "tiny tea",
        "--pipeline",
        "later",
        "--allow-undeployed",
        "--json",
    )

    assert made.lines[0]["pipelines"] == sorted([uid, "later"])
    assert "not deployed yet: later" in made.err


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (
            ("--scope", "raed", "--pipeline", "*"),
            "unknown scope 'raed'; choose from deploy, publish, search, read,",
        ),
        (("--scope", ",", "--pipeline", "*"), "a key needs a scope; choose from deploy,"),
        (("--scope", "read", "--pipeline", ","), "a key needs a pipeline, or '*' for all"),
        (
            ("--scope", "read", "--pipeline", "nope"),
            "no pipeline 'nope' is deployed; choose from none, deploy it first, or allow",
        ),
        (
            ("--scope", "read", "--pipeline", "no such", "--allow-undeployed"),
            "no pipeline 'no such' is deployed, and it is not a uid",
        ),
        (("--scope", "read", "--pipeline", "*", "--expires", ""), "or never; not ''"),
        (
            ("--scope", "read", "--pipeline", "*", "--expires", "5y"),
            "must be a number with m, h or d, such as 90d, or never; not '5y'",
        ),
        (("--scope", "read", "--pipeline", "*", "--expires", "0d"), "not '0d'"),
    ],
)
def test_invalid_options_are_reported_and_create_no_key(
    program: Program, arguments: tuple[str, ...], fault: str
) -> None:
    ended = program.run("keys", "create", "ann", *arguments)

    assert (ended.code, ended.out) == (1, "")
    assert fault in ended.err
    assert program.run("keys", "ls").out == ""


def test_a_key_needs_a_name(program: Program) -> None:
    for name in ("", " ", "x" * 101):
        assert program.run("keys", "create", name, "--scope", "read", "--pipeline", "*").code == 1


def test_revoking_the_last_valid_key_prints_a_note(program: Program) -> None:
    create = "keys", "create", "ann", "--scope", "read", "--pipeline", "*", "--json"
    ids = [program.run(*create).lines[0]["id"] for _ in range(2)]

    first, last, again, nobody = (
        program.run("keys", "revoke", ident) for ident in (*ids, ids[1], "nobody")
    )

    assert (first.lines, first.err) == ([{"revoked": ids[0]}], "")
    assert "no valid key is left" in last.err
    assert again.code == 0
    assert (nobody.code, "no key 'nobody'" in nobody.err) == (1, True)
    assert [one["in_force"] for one in program.run("keys", "ls").lines] == [False, False]


def test_the_command_line_needs_no_key() -> None:
    with serving() as program:
        text = program.run(
            "keys", "create", "ann", "--scope", "read", "--pipeline", "*"
        ).out.strip()
        url = re.findall(r"web_ready +.*?url=(\S+)", program.output)[-1]
        deadline = time.monotonic() + 5
        while ask(url, "GET", "/status").status != 401:
            assert time.monotonic() < deadline

        assert "guid" in program.run("say", "memory_test", "/write tea").out
        assert program.run("status").code == 0
        assert ask(url, "GET", "/status", b"", {"Authorization": f"Bearer {text}"}).status == 200
        assert text not in program.output


@pytest.mark.parametrize("host", first_always("192.0.2.1", "no-such-host.invalid"))
def test_an_address_of_another_machine_is_rejected_with_a_fix(host: str) -> None:
    with serving() as program:
        program.run("keys", "create", "ann", "--scope", "read", "--pipeline", "*")

        ended = program.run("web", MEMRELAY_WEB__HOST=host)

    assert (ended.code, ended.out) == (1, "")
    assert (
        f"cannot listen on {host}:0 (" in ended.err
        and "MEMRELAY_WEB__HOST" in ended.err
        and "another one" not in ended.err
    )


def test_only_the_first_key_is_created_with_if_none(program: Program) -> None:
    create = ("keys", "create", "first", "--if-none", "--scope", "read", "--pipeline", "*")
    first, second = program.run(*create), program.run(*create)
    program.run("keys", "revoke", first.out.strip()[3:15])

    third = program.run(*create)

    assert KEY.fullmatch(first.out.strip())
    assert (second.code, second.out) == (third.code, third.out) == (0, "")
    assert len(program.run("keys", "ls").lines) == 1
