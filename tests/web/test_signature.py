"""Signatures of webhooks, as Standard Webhooks has them."""

import hmac
from base64 import b64encode

import pytest

from memrelay.web.auth.webhook_auth import BadSignature, key_of, verify

# The example of the specification's own libraries.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SENT_AT = 1614265330
BODY = b'{"test": 2432232314}'
HEADERS = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": str(SENT_AT),
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}
KEY = key_of(SECRET)
GOOD = HEADERS["webhook-signature"]
FOREIGN = "v1," + b64encode(hmac.digest(b"another", b"x", "sha256")).decode()


def fault(
    body: bytes = BODY,
    keys: tuple[bytes, ...] = (KEY,),
    now_s: float = SENT_AT,
    **headers: str | None,
) -> str:
    """What is wrong; "" for nothing. A header that is None is left out."""
    given = HEADERS | {
        f"webhook-{name}": value for name, value in headers.items() if value is not None
    }
    for name, value in headers.items():
        if value is None:
            del given[f"webhook-{name}"]
    try:
        verify(given, body, keys, now_s)
    except BadSignature as error:
        return str(error)
    return ""


def test_the_example_of_the_specification_is_verified() -> None:
    assert fault() == ""


@pytest.mark.parametrize(
    "signature",
    [f"{FOREIGN} {GOOD}", f"{GOOD} {FOREIGN}", f"v1a,xx {GOOD}", f" {GOOD} ", f"v1, {GOOD}"],
)
def test_one_signature_of_several_is_enough(signature: str) -> None:
    assert fault(signature=signature) == ""


def test_every_key_is_tried() -> None:
    assert fault(keys=(b"old", KEY)) == fault(keys=(KEY, b"new")) == ""


@pytest.mark.parametrize(
    "signature",
    [
        FOREIGN,
        GOOD.replace("v1,", "v2,"),
        GOOD.replace("v1,", "v1a,"),
        GOOD[3:],
        GOOD[:-1],
        "v1,",
        GOOD.upper(),
        "v1,ü",
        ",",
        GOOD.replace("v1,", "v1,,"),
    ],
)
def test_a_signature_that_does_not_fit_is_refused(signature: str) -> None:
    assert "no webhook-signature fits" in fault(signature=signature)


def test_every_byte_of_the_body_the_id_and_the_time_is_signed() -> None:
    for place in range(len(BODY)):
        assert fault(BODY[:place] + bytes([BODY[place] ^ 1]) + BODY[place + 1 :])
    assert (
        fault(b"")
        and fault(BODY + b"\n")
        and fault(id="msg_p5jXN8AQM9LWM0D4loKWxJeK")
        and fault(timestamp=str(SENT_AT + 1))
    )


def test_without_a_key_nothing_fits() -> None:
    assert "no webhook-signature fits" in fault(keys=())


@pytest.mark.parametrize("name", ["id", "timestamp", "signature"])
@pytest.mark.parametrize("value", [None, ""])
def test_a_missing_header_is_named(name: str, value: str | None) -> None:
    assert f"the header webhook-{name} is missing" in fault(**{name: value})


@pytest.mark.parametrize(
    ("off_s", "is_good"), [(-301, False), (-300, True), (300, True), (301, False), (1e9, False)]
)
def test_the_clocks_may_differ_by_five_minutes_either_way(off_s: float, is_good: bool) -> None:
    assert (
        fault(now_s=SENT_AT + off_s) == ""
        if is_good
        else "is more than 300 s off" in fault(now_s=SENT_AT + off_s)
    )


@pytest.mark.parametrize(
    "timestamp",
    ["now", "1614265330.0", "-1614265330", "1" * 5000, "١٦١٤٢٦٥٣٣٠", "0x1", "1e9", "+16"],
)
def test_a_time_that_is_none_is_refused(timestamp: str) -> None:
    assert "is not a number of Unix seconds" in fault(timestamp=timestamp)


@pytest.mark.parametrize(
    "secret",
    ["whsec_", "", "whsec_%%%", "whsec_abc", "a b", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS"],
)
def test_a_secret_that_is_none_gives_no_key(secret: str) -> None:
    with pytest.raises(ValueError, match="a secret is"):
        key_of(secret)


def test_a_secret_may_come_without_its_prefix() -> None:
    assert key_of(SECRET.removeprefix("whsec_")) == KEY
