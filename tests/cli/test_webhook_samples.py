"""`memrelay webhooks send`: test requests that the web server accepts as those of the senders."""

import re
from collections.abc import Iterator

import orjson
import pytest

from memrelay.pipelines.webhook_senders import SENDERS
from memrelay.web.webhooks.sample_requests import SAMPLES
from tests.support.bundles import Json, make_bundle, make_memory
from tests.support.program import Program
from tests.support.waiting import wait_for
from tests.support.webhook_senders import CASES

UID = "hooks"
FOREIGN = ("discord", "sns")
SENT = sorted(SENDERS.keys() - set(FOREIGN))
FIRST = ("github", "stripe", "slack", "standard")
BY_NAME = {case.name: case.secret for case in CASES} | {"token": "tea-with-milk"}
CUSTOM = {
    "signature": {
        "header": "X-Signature",
        "prefix": "v2:",
        "encoding": "base64",
        "algorithm": "sha512",
        "timestamp": "header:X-Time",
        "signed": "{timestamp}.{method}.{header:Content-Type}.{body}",
    },
    "id": "body:id",
    "event": "body:type",
}


def make_hook(alias: str, **keys: object) -> Json:
    hook = make_memory("write", senders="nobody", memory_id=f"instances/{UID}/{alias}")
    return hook | {"agent_alias": alias} | keys


def make_hooks() -> list[Json]:
    known = [
        make_hook(name, wf_webhook_sender=name, wf_webhook_secret=f"env:SECRET_{number}")
        for number, name in enumerate(SENDERS)
        if name not in ("token", "sns")
    ]
    topics = {"profile": "sns", "topics": ["arn:aws:sns:eu-central-1:123456789012:alerts"]}
    return [
        *known,
        make_hook("token", wf_webhook_sender="token", wf_webhook_token="env:TOKEN"),
        make_hook("sns", wf_webhook_sender=topics),
        make_hook("own", wf_webhook_sender=CUSTOM, wf_webhook_secret="env:TOKEN"),
        make_hook("open"),
        make_hook("unset", wf_webhook_sender="github", wf_webhook_secret="env:MISSING"),
    ]


@pytest.fixture(scope="module")
def program() -> Iterator[Program]:
    """Yield a program with a webhook for each sender."""
    with Program() as program:
        program.environment |= {"TOKEN": "tea-with-milk", "MISSING": ""} | {
            f"SECRET_{number}": BY_NAME.get(name, "") for number, name in enumerate(SENDERS)
        }
        program.environment["MEMRELAY_WEB__PUBLIC_URL"] = "https://hooks.example.com/memory"
        program.up()
        file = program.folder / "bundle.json"
        file.write_bytes(orjson.dumps(make_bundle(UID, *make_hooks(), name="hooks")))
        assert program.run("deploy", file).code == 0
        yield program
        assert program.end() == 0


def server_url(program: Program) -> str:
    return str(re.findall(r"http://127\.0\.0\.1:\d+", program.output)[0])


def send(program: Program, profile: str, alias: str) -> Json:
    """Send a test request, and return what the command prints."""
    sent = program.run("webhooks", "send", profile, "hooks", alias, "--url", server_url(program))
    assert (sent.code, sent.err) == (0, ""), sent.out + sent.err
    (printed,) = sent.lines
    return dict(printed)


def list_requests(program: Program, alias: str, count: int) -> list[Json]:
    """Return the requests of an agent as soon as the server lists them."""

    def find() -> list[Json]:
        return list(program.run("webhooks", "hooks", alias).lines[0]["requests"])

    wait_for(lambda: len(find()) >= count, f"{count} requests of {alias} are listed")
    return find()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in FIRST else pytest.mark.slow)
        for name in (*FIRST, *(name for name in SENT if name not in FIRST))
    ],
)
def test_a_test_request_counts_as_one_of_its_sender(program: Program, name: str) -> None:
    first, second = send(program, name, name), send(program, name, name)

    assert first["url"] == f"{server_url(program)}/webhooks/{UID}/{name}"
    assert first["status"] == second["status"] == SENDERS[name].ack.status
    assert re.fullmatch(r"[0-9a-f]{32}", first["trace_id"])
    rows = list_requests(program, name, 2)
    verdict = "token" if name == "token" else "signed"
    assert {(row["verdict"], row["outcome"]) for row in rows} == {(verdict, "accepted")}
    assert len({row["message_id"] for row in rows}) == 2  # no repeated delivery


def test_a_sender_that_the_bundle_describes_is_signed_too(program: Program) -> None:
    send(program, "custom", "own")

    (row,) = list_requests(program, "own", 1)
    assert (row["verdict"], row["event"]) == ("signed", "memrelay.test")


@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_private_key_is_the_reason_of_a_refusal(program: Program, name: str) -> None:
    ended = program.run("webhooks", "send", name, "hooks", name)

    assert (ended.code, ended.out) == (1, "")
    assert f"only {name} can sign its requests, with a private key" in ended.err


def test_mistakes_are_explained(program: Program) -> None:
    def fail(*words: str) -> str:
        ended = program.run("webhooks", "send", *words)
        assert (ended.code, ended.out) == (1, "") and "Traceback" not in ended.err
        return ended.err

    assert "expects requests of 'github', not of 'stripe'" in fail("stripe", "hooks", "github")
    assert "no agent 'nobody' that accepts webhooks" in fail("github", "hooks", "nobody")
    assert "agent 'unset' cannot be used: it is empty" in fail("github", "hooks", "unset")
    assert "is no URL" in fail("github", "hooks", "github", "--url", "file:///etc")
    assert "does not answer" in fail("github", "hooks", "github", "--url", "http://127.0.0.1:9")


def test_a_webhook_without_a_secret_gets_an_unsigned_request(program: Program) -> None:
    sent = program.run(
        "webhooks", "send", "standard", "hooks", "open", "--url", server_url(program)
    )

    assert sent.code == 0 and "has no secret, so the request is not signed" in sent.err


def test_a_refused_request_is_printed_with_an_exit_code(program: Program) -> None:
    number = [*SENDERS].index("github")
    program.environment[f"SECRET_{number}"] = "another secret"
    try:
        words = "github", "hooks", "github", "--url", server_url(program)
        sent = program.run("webhooks", "send", *words)
    finally:
        program.environment[f"SECRET_{number}"] = BY_NAME["github"]

    assert (sent.code, sent.lines[0]["status"]) == (1, 401)
    assert "X-Hub-Signature-256 matches" in sent.lines[0]["answer"]["detail"]


def test_each_sender_has_a_sample_and_each_sample_a_sender() -> None:
    samples = orjson.loads(SAMPLES.read_bytes())

    assert samples.keys() == {*SENT, "custom"}
    assert all(("body" in one) != ("form" in one) for one in samples.values())
