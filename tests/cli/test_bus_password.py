"""The password of the embedded server: every command uses it, and only `bus --url` shows it."""

from html import unescape
from pathlib import Path

import redis

from tests.cli.serving import uid_of
from tests.support.http import ask
from tests.support.program import Program


def test_the_printed_url_admits_a_redis_client(served: Program) -> None:
    url = served.run("bus", "--url").out.strip()

    assert redis.Redis.from_url(url).ping()


def test_the_printed_redis_cli_command_reads_the_password_from_its_file(served: Program) -> None:
    printed = f'REDISCLI_AUTH="$(cat {served.bus}/password)" redis-cli -s {served.bus}/server.sock'

    assert f"  {printed}\n" in served.output
    assert printed in read_page(served)


def test_the_password_is_in_no_output_log_page_or_process_list(served: Program) -> None:
    file = served.bus / "password"
    password = file.read_text().strip()

    shown = [
        *(served.run(*words.split()).out for words in ("status", "status --json", "doctor")),
        read_page(served),
        served.output,
        (served.bus / "server.log").read_text(),
        Path(f"/proc/{served.server_pid()}/cmdline").read_text(),
        Path(f"/proc/{served.server_pid()}/environ").read_text(),
    ]

    assert len(password) == 32 and file.stat().st_mode & 0o777 == 0o600
    assert not [text for text in shown if password in text]


def test_a_wrong_password_is_an_error_that_does_not_repeat_it(served: Program) -> None:
    url = f"unix://:wrong-secret@{served.bus}/server.sock"

    ended = served.run("status", MEMRELAY_BUS__URL=url)

    assert (ended.code, "memrelay doctor" in ended.err) == (1, True)
    assert "wrong-secret" not in ended.err


def read_page(served: Program) -> str:
    """Return the console's page of the sample pipeline."""
    url = served.output.partition("Open ")[2].partition(" ")[0]
    answer = ask(url, "GET", f"/pipelines/{uid_of(served)}", b"", {})
    assert answer.status == 200
    return unescape(answer.body.decode())
