"""Webhook signatures as defined by Standard Webhooks."""

import hmac
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook

from memrelay.web.auth.webhook_auth import BadSignature, parse_secret, verify_signature
from tests.support.signing import make_secret, signed

SECRET, OTHER_SECRET = make_secret("current"), make_secret("other")
BODY = b'{"test": 2432232314}'
NO_MATCH = "no webhook-signature matches"


def make_headers(age_s: int = 0, **changes: str | None) -> dict[str, str]:
    """Return signed headers with changes. None removes a header."""
    headers: dict[str, str | None] = {**signed(BODY, SECRET, age_s=age_s)}
    headers |= {f"webhook-{name}": value for name, value in changes.items()}
    return {name: value for name, value in headers.items() if value is not None}


def find_fault(
    headers: dict[str, str], body: bytes = BODY, secrets: tuple[str, ...] = (SECRET,)
) -> str:
    """Return why a signature is rejected, or ""."""
    try:
        verify_signature(headers, body, [parse_secret(one) for one in secrets])
    except BadSignature as error:
        return str(error)
    return ""


FOREIGN = "v1," + b64encode(hmac.digest(b"another", b"x", "sha256")).decode()


def test_the_example_of_the_specification_is_signed_alike() -> None:
    webhook = parse_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    sent_at = datetime.fromtimestamp(1614265330, UTC)

    signature = webhook.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", sent_at, BODY.decode())

    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_signature_of_the_secret_is_accepted() -> None:
    assert find_fault(make_headers()) == ""


@pytest.mark.parametrize("form", ["{bad} {good}", "{good} {bad}", "v1a,x {good}", " {good} "])
def test_one_matching_signature_of_several_is_enough(form: str) -> None:
    headers = make_headers()
    headers["webhook-signature"] = form.format(bad=FOREIGN, good=headers["webhook-signature"])

    assert find_fault(headers) == ""


def test_every_secret_is_tried() -> None:
    headers = make_headers()

    assert find_fault(headers, secrets=(OTHER_SECRET, SECRET)) == ""
    assert find_fault(headers, secrets=(SECRET, OTHER_SECRET)) == ""


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda good: FOREIGN, id="another secret"),
        pytest.param(lambda good: good.replace("v1,", "v2,"), id="version 2"),
        pytest.param(lambda good: good.replace("v1,", "v1a,"), id="version 1a"),
        pytest.param(lambda good: good[3:], id="no version"),
        pytest.param(lambda good: good[:-1], id="no padding"),
        pytest.param(lambda good: "v1,", id="no signature"),
        pytest.param(str.swapcase, id="other case"),
        pytest.param(lambda good: "v1,ü", id="not ASCII"),
        pytest.param(lambda good: ",", id="comma"),
        pytest.param(lambda good: good.replace("v1,", "v1,,"), id="two commas"),
    ],
)
def test_a_signature_that_does_not_match_is_rejected(change: Callable[[str], str]) -> None:
    headers = make_headers()
    headers["webhook-signature"] = change(headers["webhook-signature"])

    assert NO_MATCH in find_fault(headers)


def test_the_signature_covers_every_byte_of_body_id_and_timestamp() -> None:
    headers = make_headers()

    for index in range(len(BODY)):
        changed = BODY[:index] + bytes([BODY[index] ^ 1]) + BODY[index + 1 :]
        assert NO_MATCH in find_fault(headers, changed)
    assert NO_MATCH in find_fault(headers, b"")
    assert NO_MATCH in find_fault(headers, BODY + b"\n")
    assert NO_MATCH in find_fault(headers | {"webhook-id": "msg_2"})
    later = str(int(headers["webhook-timestamp"]) + 1)
    assert NO_MATCH in find_fault(headers | {"webhook-timestamp": later})


def test_a_body_that_is_not_utf8_matches_no_signature() -> None:
    body = b"\xff\xfe"

    assert NO_MATCH in find_fault(signed(body, SECRET), body)


def test_without_a_secret_no_signature_matches() -> None:
    assert NO_MATCH in find_fault(make_headers(), secrets=())


@pytest.mark.parametrize("secrets", [(SECRET,), ()])
def test_an_expired_signature_is_reported_whether_or_not_there_is_a_secret(
    secrets: tuple[str, ...],
) -> None:
    assert "differs from this server's clock" in find_fault(make_headers(400), secrets=secrets)


@pytest.mark.parametrize("name", ["id", "timestamp", "signature"])
@pytest.mark.parametrize("value", [None, ""])
def test_a_missing_header_is_named(name: str, value: str | None) -> None:
    fault = find_fault(make_headers(**{name: value}))

    assert f"the header webhook-{name} is missing" in fault


@pytest.mark.parametrize(
    ("age_s", "is_accepted"), [(303, False), (297, True), (-297, True), (-303, False)]
)
def test_clocks_may_differ_by_five_minutes(age_s: int, is_accepted: bool) -> None:
    fault = find_fault(make_headers(age_s))

    assert fault == "" if is_accepted else "by more than 300 s" in fault


@pytest.mark.parametrize(
    "timestamp",
    ["now", "1614265330.0", "-1614265330", "1" * 5000, "١٦١٤٢٦٥٣٣٠", "0x1", "1e9", "+16"],
)
def test_an_invalid_timestamp_is_rejected(timestamp: str) -> None:
    fault = find_fault(make_headers(timestamp=timestamp))

    assert "is not a number of Unix seconds" in fault


def test_a_request_cannot_be_split_in_another_way() -> None:
    """The id `msg_1` with a body `TIME.rest` has the signed text of the id `msg_1.TIME`."""
    sent = make_headers()["webhook-timestamp"]
    body = f"{sent}.rest".encode()
    headers = signed(body, SECRET)

    split = headers | {"webhook-id": f"msg_1.{headers['webhook-timestamp']}"}

    assert find_fault(headers, body) == ""
    assert "webhook-id contains a dot" in find_fault(split | {"webhook-timestamp": sent}, b"rest")


@pytest.mark.parametrize(
    "secret",
    ["whsec_", "", "whsec_%%%", "whsec_abc", "a b", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS"],
)
def test_a_malformed_secret_is_rejected(secret: str) -> None:
    with pytest.raises(ValueError, match="a secret must"):
        parse_secret(secret)


def test_a_secret_needs_no_prefix() -> None:
    webhook: Webhook = parse_secret(SECRET.removeprefix("whsec_"))

    assert webhook.verify(BODY, make_headers(), json_parse=False) is None
