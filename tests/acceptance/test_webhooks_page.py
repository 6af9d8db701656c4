"""docs/webhooks.md: its first webhook, its examples and the samples that it names work as shown."""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from memrelay.pipelines.check import check
from tests.support.bundles import Json, make_uid
from tests.support.http import Answer, ask
from tests.support.sessions import CHECKOUT, fences
from tests.support.web_system import WebSystem
from tests.support.webhook_senders import CASES, FORM_TYPE, JSON_TYPE, SenderCase

PAGE = CHECKOUT / "docs" / "webhooks.md"
SAMPLES = CHECKOUT / "memrelay" / "pipelines" / "webhooks"
PUBLIC_URL = "https://memory.example.com"
SENDERS = {case.name: case for case in CASES}
SECRETS = {
    "GITHUB_SECRET": "s3cret",
    "GITLAB_SECRET": "token of gitlab",
    "STRIPE_SECRET": "whsec_of_stripe",
    "SLACK_SIGNING_SECRET": "8f742231b10e8888abcd99yyyzzz85a5",
    "SHOPIFY_SECRET": "secret of shopify",
    "TELEGRAM_SECRET": "secret_of_telegram",
    "TWILIO_AUTH_TOKEN": "token of twilio",
    "DISCORD_PUBLIC_KEY": SENDERS["discord"].secret,
    "ALERT_TOKEN": "token-of-alerts",
    "SVIX_SECRET": SENDERS["standard"].secret,
}


class Example(NamedTuple):
    """One section of the page: an agent, a body, and what `/find` returns."""

    name: str
    agent: Json
    body: bytes
    is_form: bool
    words: str
    found: str


def read_examples() -> list[Example]:
    """Return the examples with an agent of their own."""
    section = PAGE.read_text().split("\n## Examples\n")[1].split("\n## ")[0]
    examples = []
    for part in section.split("\n### ")[1:]:
        shown = re.findall(r"```(json|text)\n(.*?)```", part, re.DOTALL)
        if len(shown) == 2:
            (_, agent), (kind, body) = shown
            claims = re.search(r"`/find (.+?)` returns `(.+?)`", part)
            assert claims, part
            content = body.strip().encode()
            name = part.splitlines()[0]
            examples.append(
                Example(name, json.loads(agent), content, kind == "text", claims[1], claims[2])
            )
    return examples


EXAMPLES = read_examples()


class Hooks(NamedTuple):
    """A system with the secrets of all senders."""

    web_system: WebSystem

    def send(
        self, uid: str, agent: Json, body: bytes, *, is_form: bool = False, query: str = ""
    ) -> Answer:
        """Send a body to an agent of a pipeline, signed as its sender does."""
        path = f"/webhooks/{uid}/{agent['agent_alias']}{query}"
        headers = {"Content-Type": FORM_TYPE if is_form else JSON_TYPE}
        if "wf_webhook_sender" in agent:
            case: SenderCase = SENDERS[agent["wf_webhook_sender"]]
            secret = SECRETS[agent["wf_webhook_secret"].removeprefix("env:")]
            signature = case.sign(secret, body, int(time.time()), PUBLIC_URL + path)
            headers |= signature | case.headers
        else:
            headers["Authorization"] = f"Bearer {SECRETS['ALERT_TOKEN']}"
        return ask(self.web_system.url, "POST", path, body, headers)

    def find(self, uid: str, words: str) -> list[str]:
        """Return the lines of `/find WORDS`, without their times."""
        self.web_system.system.client.await_quiet(uid)
        answer = self.web_system.say(uid, {"text": f"/find {words}"}, query="?wait=60")
        text = json.loads(answer.body)["results"][0]["args"][0]["text"]
        return [line.partition(" ")[2] for line in text.splitlines()]

    def deploy(self, bundle: Json) -> str:
        uid = make_uid()
        self.web_system.system.deploy(bundle | {"pipeline_uid": uid})
        return uid


def load(name: str) -> Json:
    bundle: Json = json.loads((SAMPLES / f"{name}.json").read_text())
    return bundle


def find_agent(bundle: Json, alias: str) -> Json:
    return next(agent for agent in bundle["agents"] if agent["agent_alias"] == alias)


@pytest.fixture(scope="module")
def hooks() -> Iterator[Hooks]:
    with WebSystem(secrets=SECRETS, WEB__PUBLIC_URL=PUBLIC_URL, WEB__RATE="0") as web_system:
        yield Hooks(web_system)


@pytest.fixture(scope="module")
def pipeline(hooks: Hooks) -> str:
    """Return the uid of the first sample with the agents of all examples."""
    bundle = load("github")
    bundle["agents"] += [example.agent for example in EXAMPLES]
    assert check(bundle).warnings == ()
    return hooks.deploy(bundle)


def test_the_page_has_ten_examples() -> None:
    assert len(EXAMPLES) == 10


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_is_found_as_shown(hooks: Hooks, pipeline: str, example: Example) -> None:
    answers = [
        hooks.send(pipeline, example.agent, example.body, is_form=example.is_form)
        for _ in range(2 if "wf_webhook_sender" in example.agent else 1)
    ]

    assert {answer.status // 100 for answer in answers} == {2}, answers[0].body
    assert hooks.find(pipeline, example.words) == [example.found]


def test_the_first_webhook_is_signed_as_shown(hooks: Hooks) -> None:
    uid = hooks.deploy(load("github"))
    (shown,) = [text for _, text in fences(PAGE) if "openssl" in text]
    lines = [line.removeprefix("$ ") for line in shown.splitlines() if line.startswith("$ ")]
    sending = [line for line in lines if line.startswith(("body=", "signature=", "curl "))]
    script = "\n".join(sending).replace("http://127.0.0.1:8765", hooks.web_system.url)
    script = script.replace("/webhooks/hooks/", f"/webhooks/{uid}/")
    for _ in range(2):
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
        assert done.stdout == '{"message_id":"1"}'

    assert hooks.find(uid, "slow search") == ["ada/engine: Search is slow on large stores"]
    wanted = quote('{"data.action": {"eq": "opened"}}')
    listed = hooks.web_system.get(f"/v1/pipelines/{uid}/records?store=inbox&filter={wanted}")
    assert json.loads(listed.body)["total"] == 1


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.json")), ids=lambda path: path.stem)
def test_a_sample_has_no_faults_and_names_its_secret(path: Any) -> None:
    checked = check(path.read_bytes())

    assert (checked.faults, checked.warnings) == ((), ())
    secrets = re.findall(r'"env:(\w+)"', path.read_text())
    assert secrets
    assert all(name in json.loads(path.read_text())["pipeline_desc"] for name in secrets)


def test_the_sample_of_stripe_keeps_each_invoice_once(hooks: Hooks) -> None:
    bundle = load("stripe")
    uid = hooks.deploy(bundle)
    agent = find_agent(bundle, "stripe")
    for ident, kind in (
        ("evt_1", "invoice.paid"),
        ("evt_1", "invoice.paid"),
        ("evt_2", "payout.paid"),
    ):
        event = {
            "id": ident,
            "type": kind,
            "data": {"object": {"customer_email": "ada@example.com"}},
        }
        assert hooks.send(uid, agent, json.dumps(event).encode()).status == 202

    assert hooks.find(uid, "ada@example.com") == ["invoice.paid ada@example.com"]


def test_the_sample_of_slack_answers_as_slack_shows_it(hooks: Hooks) -> None:
    bundle = load("slack")
    uid = hooks.deploy(bundle)
    form = (
        next(text for kind, text in fences(PAGE) if "command=%2Fremember" in text).strip().encode()
    )
    remember, recall = (find_agent(bundle, alias) for alias in ("remember", "recall"))

    first, repeated = (hooks.send(uid, remember, form, is_form=True) for _ in range(2))
    event = {
        "type": "event_callback",
        "event_id": "E1",
        "event": {"type": "message", "text": "The meeting is over"},
    }
    assert hooks.send(uid, find_agent(bundle, "events"), json.dumps(event).encode()).status == 200
    asked = form.replace(b"%2Fremember", b"%2Frecall").replace(
        b"The+meeting+is+at+three", b"meeting"
    )
    found = hooks.send(uid, recall, asked.replace(b"133", b"134"), is_form=True)
    nothing = hooks.send(uid, recall, asked.replace(b"meeting", b"zebra"), is_form=True)

    said = [json.loads(answer.body) for answer in (first, repeated, found, nothing)]
    assert [one["response_type"] for one in said] == ["ephemeral"] * 4
    assert [one["text"] for one in said[:2]] == ["Remembered."] * 2
    assert sorted(said[2]["text"].splitlines()) == [
        "• The meeting is at three",
        "• The meeting is over",
    ]
    assert said[3]["text"] == "Nothing found."


def test_the_sample_of_telegram_keeps_messages_and_captions(hooks: Hooks) -> None:
    bundle = load("telegram")
    uid = hooks.deploy(bundle)
    for number, message in enumerate(
        ({"text": "Kites fly high"}, {"caption": "A kite in the tree"})
    ):
        update = json.dumps({"update_id": number, "message": message}).encode()
        assert hooks.send(uid, find_agent(bundle, "telegram"), update).status == 202

    assert hooks.find(uid, "kites") == ["Kites fly high"]
    assert hooks.find(uid, "kite") == ["A kite in the tree"]


def test_the_sample_of_alerts_keeps_each_alert_that_fires(hooks: Hooks) -> None:
    bundle = load("alerts")
    uid = hooks.deploy(bundle)
    agent = find_agent(bundle, "alerts")
    grafana = {
        "status": "firing",
        "alerts": [
            {"status": state, "labels": {"instance": host}, "annotations": {"summary": "CPU hot"}}
            for host, state in (("db1", "firing"), ("db2", "firing"), ("db3", "resolved"))
        ],
    }
    for body in (grafana, {"text": "CPU hot too", "host": "web1"}):
        assert hooks.send(uid, agent, json.dumps(body).encode()).status == 202

    assert sorted(hooks.find(uid, "CPU")) == ["db1 CPU hot", "db2 CPU hot", "web1 CPU hot too"]
    assert len(hooks.web_system.system.client.log(uid, "oncall")) == 3
