"""`memrelay webhooks`: the webhooks of a pipeline and their last requests."""

import re
from collections.abc import Iterator

import orjson
import pytest

from tests.cli.terminal import Terminal
from tests.support.bundles import Json, make_bundle, make_memory
from tests.support.http import ask
from tests.support.program import Completed, Program
from tests.support.waiting import wait_for

UID = "b71c0d22"


@pytest.fixture(scope="module")
def program() -> Iterator[Program]:
    """Yield a program with one accepted and one refused request."""
    with Program() as program:
        program.environment |= {"HOOK_SECRET": "sesame"}
        program.up()
        hooks = [
            make_memory("write", senders="nobody") | {"agent_alias": "push"},
            make_memory("write", senders="nobody") | {"agent_alias": "other"},
        ]
        hooks[0] |= {"wf_webhook_sender": "github", "wf_webhook_secret": "env:HOOK_SECRET"}
        file = program.folder / "bundle.json"
        file.write_bytes(orjson.dumps(make_bundle(UID, *hooks, name="hooks")))
        assert program.run("deploy", file).code == 0
        url = re.findall(r"http://127\.0\.0\.1:\d+", program.output)[0]
        ask(url, "POST", f"/webhooks/{UID}/other", b"tea", {"webhook-id": "d-1"})
        ask(url, "POST", f"/webhooks/{UID}/push", b"tea", {"X-GitHub-Delivery": "d-2"})
        wait_for(
            lambda: all(one["requests"] for one in show(program).lines), "the requests are listed"
        )
        yield program


def show(program: Program, *words: str) -> Completed:
    return program.run("webhooks", "hooks", *words)


def test_webhooks_are_json_lines(program: Program) -> None:
    push, other = show(program).lines

    assert (push["agent"], push["sender"], push["secrets"]) == (
        "push",
        "github",
        ["env:HOOK_SECRET"],
    )
    assert push["url"].endswith(f"/webhooks/{UID}/push")
    refused, accepted = push["requests"][0], other["requests"][0]
    assert (refused["status"], refused["outcome"]) == (401, "refused")
    assert (accepted["status"], accepted["verdict"], accepted["delivery_id"]) == (
        202,
        "local",
        "d-1",
    )
    assert show(program, "push", "--json").lines == [push]


def test_the_url_is_that_of_the_settings(program: Program) -> None:
    def url_of(**settings: str) -> str:
        item: Json = program.run("webhooks", UID, "push", **settings).lines[0]
        return str(item["url"])

    assert url_of(MEMRELAY_WEB__PUBLIC_URL="https://m.example.com/a").startswith(
        "https://m.example.com/a/webhooks/"
    )
    assert url_of(MEMRELAY_WEB__HOST="::1", MEMRELAY_WEB__BASE_PATH="/a").startswith(
        "http://[::1]:0/a/webhooks/"
    )


def test_on_a_terminal_webhooks_are_tables(program: Program) -> None:
    with Terminal(program, "webhooks", UID) as terminal:
        assert terminal.end() == 0

    assert "sender github, env:HOOK_SECRET" in terminal.seen
    assert all(word in terminal.seen for word in ("VERDICT", "d-1", "d-2"))


def test_an_unknown_agent_is_named(program: Program) -> None:
    ended = show(program, "nobody")

    assert ended.code == 1
    assert "'nobody'" in ended.err and "push, other" in ended.err
