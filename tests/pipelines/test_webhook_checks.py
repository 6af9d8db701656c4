"""The check of an agent's webhook: its sender, and the credentials that this sender needs."""

import pytest

from memrelay.pipelines.check import check
from memrelay.pipelines.webhook_fields import parse_field
from memrelay.pipelines.webhook_secrets import describe_secret_faults, parse_key, split_secrets
from memrelay.pipelines.webhook_senders import SENDERS
from tests.support.bundles import make_bundle, make_memory

SECRET = {"wf_webhook_secret": "env:X"}
TOKEN = {"wf_webhook_token": "env:X"}
SIGNATURE = {"header": "X-Acme-Signature", "timestamp": "header:X-Acme-Time"}


def find_faults(public_url: str = "", **keys: object) -> list[str]:
    """Return the faults of an agent with these keys, without its place."""
    hook = make_memory("write", senders="nobody") | keys
    checked = check(make_bundle("checked1", hook), public_url=public_url)
    return [fault.as_line().removeprefix("agents[0].") for fault in checked.faults]


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ({"wf_webhook_sender": "githb"}, 'unknown sender "githb"; did you mean "github"?'),
        ({"wf_webhook_sender": "github"}, "the sender github needs a secret"),
        ({"wf_webhook_sender": "standard"}, "the sender standard needs a secret"),
        ({"wf_webhook_sender": "cloudevents"}, "the sender cloudevents needs a secret"),
        ({"wf_webhook_sender": "token"}, "the sender token needs a token"),
        ({"wf_webhook_sender": "token"} | SECRET, "the sender token needs a token"),
        ({"wf_webhook_sender": "twilio"} | SECRET, "set web.public_url"),
        ({"wf_webhook_sender": "sns"}, "the sender sns needs topics"),
        ({"wf_webhook_sender": {"topics": ["arn:1"]}}, "belong to the sender sns"),
        ({"wf_webhook_sender": {"profile": "slak"}}, 'did you mean "slack"?'),
        ({"wf_webhook_sender": {"signature": SIGNATURE}} | SECRET, "must contain {timestamp}"),
        ({"wf_webhook_sender": {"signature": {"header": "X-A"}}}, "needs a secret"),
        ({"wf_webhook_sender": {"signature": {}}}, "signature.header: is missing"),
        ({"wf_webhook_sender": {"ids": "digest"}}, "wf_webhook_sender.ids: is no known key"),
        ({"wf_webhook_sender": {"id": "heder:X"}}, "names no part of a request"),
        ({"wf_webhook_sender": {"id": "{header:X"}}, "a brace without its counterpart"),
        ({"wf_webhook_sender": {"event": "body:a["}}, "wf_webhook_sender.event"),
        ({"wf_webhook_sender": {"headers": ["Cookie"]}}, "contains a credential"),
        ({"wf_webhook_verify": "env:V"}, "only the sender meta has a verify token"),
        ({"wf_webhook_networks": ["10.0.0.0/33"]}, "wf_webhook_networks"),
        (
            {"wf_webhook_sender": "slack", "wf_webhook_answer": {"wait_s": 9}} | SECRET,
            "the sender slack waits at most 2.5 s",
        ),
        (
            {"wf_webhook_sender": "slack", "wf_webhook_answer": {"template": "{{ a"}} | SECRET,
            "wf_webhook_answer.template: unexpected end of template",
        ),
        (
            {"wf_webhook_answer": {"template": "{{ a" + ".a" * 4_000 + " }}"}} | SECRET,
            "wf_webhook_answer.template: nested too deeply",
        ),
    ],
)
def test_a_webhook_that_cannot_work_is_a_fault(keys: dict[str, object], fault: str) -> None:
    (found,) = find_faults(**keys)

    assert fault in found


@pytest.mark.parametrize(
    "keys",
    [
        {"wf_webhook_sender": "dropbox"} | TOKEN,
        {"wf_webhook_sender": "cloudevents", "wf_webhook_networks": ["203.0.113.0/24"]},
        {"wf_webhook_sender": {"profile": "sns", "topics": ["arn:aws:sns:x:1:y"]}},
        {"wf_webhook_sender": {"profile": "github", "ignore": ["ping", "star"]}} | SECRET,
        {"wf_webhook_sender": {"id": "header:X-Id", "event": ["header:X-Event", "body:type"]}},
    ],
)
def test_a_webhook_with_what_its_sender_needs_is_accepted(keys: dict[str, object]) -> None:
    assert find_faults(**keys) == []
    assert find_faults("https://memory.example.com", wf_webhook_sender="twilio", **SECRET) == []


@pytest.mark.parametrize("sender", SENDERS.values(), ids=SENDERS.keys())
def test_the_table_of_senders_has_valid_fields(sender: object) -> None:
    sender = SENDERS[sender.name]  # type: ignore[attr-defined]
    for field in (*sender.id, *sender.event, *([f"body:{sender.text}"] if sender.text else [])):
        parse_field(field)


@pytest.mark.parametrize(
    ("shown", "form"),
    [
        ("whsec_/+8QGBAYEBgQGBAYEBgQGA==", "standard"),
        ("v1,whsec_/+8QGBAYEBgQGBAYEBgQGA==", "standard"),
        ("'v1,whsec_/+8QGBAYEBgQGBAYEBgQGA=='", "standard"),
        ("whsec__-8QGBAYEBgQGBAYEBgQGA", "standard"),
        ("/+8QGBAYEBgQGBAYEBgQGA==", "base64"),
        ("ffef1018101810181018101810181018", "hex"),
    ],
)
def test_a_secret_is_read_as_its_sender_shows_it(shown: str, form: str) -> None:
    assert parse_key(shown, form).hex() == "ffef1018101810181018101810181018"  # type: ignore[arg-type]


def test_a_secret_that_is_text_stands_on_a_line_of_its_own() -> None:
    text = "It's a Secret to Everybody\r\nwhsec_kept as it is # no comment\n"

    assert split_secrets(text, "text") == text.splitlines()
    assert parse_key(text.splitlines()[1], "text") == b"whsec_kept as it is # no comment"
    assert "white space" in describe_secret_faults("tea \n", "text")[0]


def test_templates_of_answers_count_among_those_of_the_bundle() -> None:
    """Each takes long to compile."""
    hooks = [
        make_memory("write", alias=f"hook{at}", senders="nobody")
        | SECRET
        | {"wf_webhook_answer": {"template": "x" * 16_000 + str(at)}}
        for at in range(4)
    ]

    faults = check(make_bundle("checked1", *hooks)).faults

    assert [fault.as_line().split(":")[0] for fault in faults] == [
        f"agents[{at}].wf_webhook_answer.template" for at in (2, 3)
    ]
