"""The samples that send: a user sets the variables that they name, checks and deploys them."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from tests.support.client import input_of, make_envelope
from tests.support.http import ask
from tests.support.program import Program
from tests.support.waiting import wait_for
from tests.support.webhook_receiver import WebhookReceiver
from tests.support.webhook_senders import hub

SAMPLES = Path(__file__).resolve().parents[2] / "memrelay" / "pipelines"
DAY_MS = 86_400_000
GITHUB_SECRET = "s3cret"
URLS = ("SLACK_URL", "DIGEST_URL", "ONCALL_URL")


@pytest.fixture(scope="module")
def receiver() -> Iterator[WebhookReceiver]:
    with WebhookReceiver() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def program(receiver: WebhookReceiver) -> Iterator[Program]:
    port = receiver.server_port
    private = [{"host": "127.0.0.1", "port": port, "for": ["http"]}]
    secrets = [{"ref": f"env:{name}", "hosts": ["127.0.0.1"]} for name in URLS]
    with Program() as program:
        program.environment |= {
            "GITHUB_SECRET": GITHUB_SECRET,
            "ALERT_TOKEN": "token-of-alerts",
            "MEMRELAY_OUTGOING__PRIVATE": json.dumps(private),
            "MEMRELAY_OUTGOING__SECRETS": json.dumps(secrets),
        } | {name: f"http://127.0.0.1:{port}/{name}" for name in URLS}
        program.up()
        yield program


def deploy(program: Program, file: Path, uid: str) -> str:
    """Check and deploy a sample. Return the URL of the web server."""
    checked = program.run("check", file)
    assert (checked.code, checked.err) == (0, "")
    assert checked.lines[0]["warnings"] == 0
    deployed = program.run("deploy", file, "--uid", uid)
    assert (deployed.code, deployed.err) == (0, "")
    return str(re.findall(r"http://127\.0\.0\.1:\d+", program.output)[0])


def wait_at(receiver: WebhookReceiver, name: str) -> list[object]:
    """Return the bodies that arrived at a URL when there is one."""
    wait_for(lambda: any(one.path == f"/{name}" for one in receiver.requests), f"{name} is called")
    return [one.json for one in receiver.requests if one.path == f"/{name}"]


def test_new_issues_of_github_are_kept_and_posted(
    program: Program, receiver: WebhookReceiver
) -> None:
    url = deploy(program, SAMPLES / "webhooks" / "github_to_slack.json", "issues")
    issue = {
        "title": "<!channel> The kettle leaks",
        "html_url": "https://github.com/ada/tea/issues/7",
    }
    for number, action in enumerate(("labeled", "opened")):
        event = {
            "action": action,
            "issue": issue,
            "repository": {"full_name": "ada/tea"},
            "sender": {"login": "grace"},
        }
        body = json.dumps(event).encode()
        headers = hub("X-Hub-Signature-256")(GITHUB_SECRET, body, 0, "") | {
            "Content-Type": "application/json",
            "X-GitHub-Event": "issues",
            "X-GitHub-Delivery": str(number),
        }
        assert ask(url, "POST", "/webhooks/issues/github", body, headers).status == 202
    (posted,) = wait_at(receiver, "SLACK_URL")
    text = "grace opened in ada/tea: <!channel> The kettle leaks"
    button = {"type": "plain_text", "text": "Open"}
    assert posted == {
        "blocks": [
            {
                "type": "section",
                "text": {"type": "plain_text", "text": text},
                "accessory": {"type": "button", "text": button, "url": issue["html_url"]},
            }
        ]
    }
    found = program.run("say", "issues", "/find kettle").out
    assert found.count("The kettle leaks") == 1


def test_the_digest_of_yesterday_is_posted(program: Program, receiver: WebhookReceiver) -> None:
    deploy(program, SAMPLES / "daily_digest.json", "digest")
    redis, now_ms = program.client().redis, time.time_ns() // 1_000_000
    yesterday = {"agent": "note", "data": make_envelope("green tea")}
    redis.xadd(input_of("digest"), yesterday, id=f"{now_ms - DAY_MS}-0")
    redis.xadd(input_of("digest"), {"agent": "morning", "data": make_envelope("")})
    assert wait_at(receiver, "DIGEST_URL") == [{"text": "- green tea\n"}]


def test_a_burst_of_alerts_is_posted_once(
    program: Program, receiver: WebhookReceiver, tmp_path: Path
) -> None:
    sample = orjson.loads((SAMPLES / "webhooks" / "alert_dedupe.json").read_bytes())
    (settle,) = [one for one in sample["agents"] if one["agent_alias"] == "settle"]
    settle["wf_flow"]["debounce_s"] = 1
    file = tmp_path / "alert_dedupe.json"
    file.write_bytes(orjson.dumps(sample))
    url = deploy(program, file, "alerts")
    labels = {"alertname": "DiskFull", "instance": "db1"}
    alerts = [{"labels": labels, "status": one} for one in ("firing", "resolved", "firing")]
    headers = {"Authorization": "Bearer token-of-alerts"}
    answer = ask(url, "POST", "/webhooks/alerts/alerts", {"alerts": alerts}, headers)
    assert answer.status == 202
    assert wait_at(receiver, "ONCALL_URL") == [{"text": "db1/DiskFull = firing"}]
