"""Webhooks of Amazon SNS: only the listed topics, with a certificate of SNS."""

import asyncio
import json
from base64 import b64encode
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from memrelay.pipelines.webhook_senders import SenderSpec, make_sender
from memrelay.web.server.errors import Unavailable
from memrelay.web.server.options import OPTIONS, WebOptions
from memrelay.web.webhooks.request import HookRequest
from memrelay.web.webhooks.signatures import BadSignature
from memrelay.web.webhooks.sns import FetchFailed, SnsClient

TOPIC = "arn:aws:sns:eu-central-1:123456789012:alerts"
CERTIFICATE_URL = "https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-ab.pem"
CONFIRM_URL = "https://sns.eu-central-1.amazonaws.com/?Action=ConfirmSubscription&Token=t"
KEY = rsa.generate_private_key(65537, 2048)
FIELDS = {
    "Notification": ["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"],
    "SubscriptionConfirmation": [
        *("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")
    ],
}


def make_certificate() -> bytes:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "sns.amazonaws.com")])
    now = datetime.now(UTC)
    built = (
        x509.CertificateBuilder(name, name, KEY.public_key(), x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(KEY, hashes.SHA256())
    )
    return built.public_bytes(serialization.Encoding.PEM)


def make_message(kind: str = "Notification", version: str = "2", **changes: str) -> dict[str, str]:
    """Return a message that SNS signed, changed afterwards."""
    fields = {"Type": kind, "MessageId": "m1", "TopicArn": TOPIC, "Message": "CPU 97 %"}
    fields |= {"Timestamp": "2026-01-01T00:00:00.000Z", "SigningCertURL": CERTIFICATE_URL}
    if kind != "Notification":
        fields |= {"Token": "t", "SubscribeURL": CONFIRM_URL}
    text = "".join(f"{name}\n{fields[name]}\n" for name in FIELDS[kind] if name in fields)
    algorithm = hashes.SHA1() if version == "1" else hashes.SHA256()
    signature = KEY.sign(text.encode(), padding.PKCS1v15(), algorithm)
    fields |= {"SignatureVersion": version, "Signature": b64encode(signature).decode()}
    return fields | changes


def make_hook(message: dict[str, str], *, confirm: bool = False) -> HookRequest:
    app = web.Application()
    app[OPTIONS] = WebOptions()
    request = make_mocked_request("POST", "/", {"Content-Type": "text/plain"}, app=app)
    spec = SenderSpec(profile="sns", topics=(TOPIC,), confirm=confirm)
    return HookRequest(request, json.dumps(message).encode(), make_sender(spec))


class Fetched:
    """The documents that SNS serves, and the URLs that were asked for."""

    def __init__(self, answer: bytes | None) -> None:
        self.answer, self.urls = answer, [""][:0]

    def __call__(self, url: str) -> bytes:
        self.urls.append(url)
        if self.answer is None:
            raise FetchFailed("no answer")
        return self.answer


def verify(*messages: dict[str, str], answer: bytes | None = make_certificate()) -> list[str]:
    """Verify messages with one client and return the fetched URLs."""
    fetched = Fetched(answer)
    client = SnsClient(fetched)

    async def run() -> None:
        for message in messages:
            await client.verify(make_hook(message))

    asyncio.run(run())
    return fetched.urls


@pytest.mark.parametrize("kind", FIELDS)
@pytest.mark.parametrize("version", ["1", "2"])
def test_a_signed_message_of_a_listed_topic_is_accepted(kind: str, version: str) -> None:
    message = make_message(kind, version)

    assert verify(message, message) == [CERTIFICATE_URL]  # fetched once


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"Message": "CPU 98 %"}, "does not match"),
        ({"Signature": "AAAA"}, "does not match"),
        ({"Subject": "added"}, "does not match"),
        ({"TopicArn": TOPIC + "2"}, "TopicArn"),
        ({"SignatureVersion": "3"}, "SignatureVersion"),
        *(
            ({"SigningCertURL": url}, "SigningCertURL")
            for url in (
                "http://sns.eu-central-1.amazonaws.com/a.pem",
                "https://sns.eu-central-1.amazonaws.com.evil.org/a.pem",
                "https://evil.org/sns.eu-central-1.amazonaws.com/a.pem",
                "https://sns.eu-central-1.amazonaws.com@evil.org/a.pem",
                "https://sns.eu-central-1.amazonaws.com:8443/a.pem",
                "https://sns.eu-central-1.amazonaws.com/a.pem?x=.pem",
                "https://sns.eu-central-1.amazonaws.com/a.txt",
                "https://s3.amazonaws.com/a.pem",
                "",
            )
        ),
    ],
)
def test_another_message_is_refused(changes: dict[str, str], reason: str) -> None:
    with pytest.raises(BadSignature, match=reason):
        verify(make_message(**changes))


def test_a_raw_delivery_is_refused_with_the_remedy() -> None:
    with pytest.raises(BadSignature, match="raw message delivery"):
        verify({"cpu": "97"})


def test_a_certificate_that_cannot_be_fetched_refuses_for_now() -> None:
    with pytest.raises(Unavailable):
        verify(make_message(), answer=None)


@pytest.mark.parametrize(("confirm", "urls"), [(True, [CONFIRM_URL]), (False, [])])
def test_a_subscription_is_confirmed_only_on_request(confirm: bool, urls: list[str]) -> None:
    fetched = Fetched(b"<ConfirmSubscriptionResponse/>")
    client = SnsClient(fetched)

    async def run() -> None:
        client.confirm(make_hook(make_message("SubscriptionConfirmation"), confirm=confirm))
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))

    asyncio.run(run())

    assert fetched.urls == urls
