"""Row 14: webhooks with a wrong key, a changed byte, a missing header, repeated after 4 and 6
minutes, and with rotated keys.
"""

from collections.abc import Iterator

import pytest

from tests.support.bundles import Json, make_memory
from tests.support.http import Answer, ask
from tests.support.keys import Held, await_closed, make_key
from tests.support.served import Served
from tests.support.signing import make_secret, signed
from tests.support.waiting import wait_for

OLD, NEW, WRONG = make_secret("old"), make_secret("new"), make_secret("wrong")
BODY = b'{"event": "paid", "amount": 12}'
SECRETS = {
    "HOOK_SECRET": OLD,
    "ROTATED": f"{OLD} {NEW}",
    "NEW_SECRET": NEW,
    "BROKEN": "whsec_%%%",
    "HOOK_TOKEN": "tea",
}


@pytest.fixture(scope="module", params=["no key was ever made", "keys were made"])
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    with Served(secrets=SECRETS) as served:
        if request.param == "keys were made":
            make_key(served.house.root)
            await_closed(served)
        yield served


def make_hook(secret: object = "env:HOOK_SECRET", **keys: object) -> Json:
    return make_memory("write", hears="nobody") | {"wf_webhook_secret": secret} | keys


def post(
    served: Served, uid: str, headers: dict[str, str], body: bytes = BODY, query: str = "?wait=60"
) -> Answer:
    return ask(served.url, "POST", f"/webhooks/{uid}/memory_write_{query}", body, headers)


def kept(served: Served, uid: str) -> int:
    """Return the number of effects after all work is done."""
    served.house.client.await_quiet(uid)
    return len(served.house.contents(uid))


def test_a_signed_webhook_is_accepted(served: Served) -> None:
    uid = served.deploy(make_hook())

    answer = post(served, uid, signed(BODY, OLD))

    assert (answer.json["message_id"], "guid" in answer.texts[0]) == ("msg_1", True)
    assert kept(served, uid) == 1


def test_a_wrong_key_is_refused(served: Served) -> None:
    uid = served.deploy(make_hook())

    status, detail = post(served, uid, signed(BODY, WRONG)).problem

    assert (status, "no webhook-signature matches" in detail, kept(served, uid)) == (401, True, 0)


def test_a_changed_byte_is_refused_wherever_it_is(served: Served) -> None:
    uid, headers = served.deploy(make_hook()), signed(BODY, OLD)
    changed = [
        BODY[:place] + bytes([BODY[place] ^ 1]) + BODY[place + 1 :] for place in range(len(BODY))
    ]

    answers = [post(served, uid, headers, body) for body in [*changed, BODY + b" ", BODY[:-1], b""]]

    assert {answer.problem[0] for answer in answers} == {401}
    assert kept(served, uid) == 0


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_a_missing_header_is_refused_and_named(served: Served, name: str) -> None:
    uid, headers = served.deploy(make_hook()), signed(BODY, OLD)
    del headers[name]

    status, detail = post(served, uid, headers).problem

    assert (status, detail.startswith(f"the header {name} is missing"), kept(served, uid)) == (
        401,
        True,
        0,
    )


def test_missing_credentials_are_refused_with_the_alternatives(served: Served) -> None:
    uid = served.deploy(make_hook())

    status, detail = post(served, uid, {}).problem

    assert (status, "a Standard Webhooks signature" in detail, kept(served, uid)) == (401, True, 0)


def test_a_repeat_after_four_minutes_gets_the_same_answer(
    served: Served,
) -> None:
    uid, headers = served.deploy(make_hook()), signed(BODY, OLD, age_s=240)

    first, again = post(served, uid, headers), post(served, uid, headers)
    anew = post(
        served, uid, signed(BODY, OLD)
    )  # a sender that retries signs again under the same ID

    assert first.json == again.json == anew.json
    assert kept(served, uid) == 1


@pytest.mark.parametrize("age_s", [360, -360, 4 * 86400])
def test_a_signature_six_minutes_off_is_refused(served: Served, age_s: int) -> None:
    uid = served.deploy(make_hook())
    assert post(served, uid, signed(BODY, OLD)).status == 200

    status, detail = post(served, uid, signed(BODY, OLD, age_s=age_s)).problem

    assert (status, "by more than 300 s" in detail, kept(served, uid)) == (401, True, 1)


@pytest.mark.parametrize(
    "secret",
    [
        "env:ROTATED",
        ["env:HOOK_SECRET", "env:NEW_SECRET"],
        ["env:GONE", "env:BROKEN", "env:ROTATED"],
    ],
)
def test_both_keys_are_accepted_during_a_rotation(served: Served, secret: object) -> None:
    uid = served.deploy(make_hook(secret))

    answers = [
        post(served, uid, signed(BODY, *secrets, ident=f"msg_{number}"))
        for number, secrets in enumerate([(OLD,), (NEW,), (OLD, NEW), (WRONG, NEW), (WRONG,)])
    ]

    assert [answer.status for answer in answers] == [200, 200, 200, 200, 401]
    assert kept(served, uid) == 4


def test_a_secret_in_a_file_can_be_changed_there(served: Served) -> None:
    file = served.house.root / "secrets" / "hook"
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"{OLD}\n")
    uid = served.deploy(make_hook("file:hook"))

    def status(secret: str) -> int:
        return post(served, uid, signed(BODY, secret)).status

    before = status(NEW)
    file.write_text(f"{OLD}\n{NEW}\n")
    wait_for(lambda: status(NEW) == 200, "the new secret is accepted")
    during = status(OLD)
    file.write_text(f"{NEW}\n")
    wait_for(lambda: status(OLD) == 401, "the old secret is rejected")

    assert (before, during) == (401, 200)


@pytest.mark.parametrize("secret", ["env:GONE", "env:BROKEN", "file:nowhere/secret"])
def test_an_unusable_secret_refuses_everyone_and_is_logged_without_its_value(
    served: Served, secret: str
) -> None:
    uid = served.deploy(make_hook(secret))

    assert post(served, uid, signed(BODY, OLD)).status == 401
    assert post(served, uid, {}).status == 401

    wait_for(
        lambda: [
            event
            for event in served.web.events
            if event["event"] == "webhook_secret_unusable" and event["reference"] == secret
        ],
        "it is logged",
        5,
    )
    assert "%%%" not in served.web.said


def test_an_agent_with_a_token_and_a_secret_accepts_either(served: Served) -> None:
    uid = served.deploy(make_hook(wf_webhook_token="env:HOOK_TOKEN"))

    assert post(served, uid, {"Authorization": "Bearer tea"}).status == 200
    assert post(served, uid, signed(BODY, OLD)).status == 200
    assert post(served, uid, signed(BODY, WRONG) | {"Authorization": "Bearer milk"}).status == 401


def test_a_key_with_the_publish_scope_needs_no_signature() -> None:
    with Served(secrets=SECRETS) as served:
        uid, root = served.deploy(make_hook()), served.house.root
        right, reader, other = (
            make_key(root, scope, pipelines=(of,))
            for scope, of in (("publish", uid), ("read", uid), ("publish", "other"))
        )
        await_closed(served)

        told = [
            post(served, uid, key.headers).status
            for key in (right, reader, other, Held("", f"{right.text[:-1]}z"))
        ]

        assert (told, kept(served, uid)) == ([200, 403, 404, 401], 1)


def test_an_unauthorized_caller_learns_nothing() -> None:
    with Served(secrets=SECRETS) as served:
        make_key(served.house.root)
        await_closed(served)
        hooks = (
            make_hook(),
            make_hook(""),
            make_hook("", agent_alias="x"),
            make_hook("", wf_webhook_token="env:HOOK_TOKEN"),
        )
        uids = [*map(served.deploy, hooks), "nobody"]

        told = [
            [post(served, uid, headers).problem for uid in uids]
            for headers in (
                {},
                signed(BODY, WRONG),
                {"Authorization": "Bearer milk"},
                Held("", "mr_x").headers,
            )
        ]

    assert all(len(set(answers)) == 1 and answers[0][0] == 401 for answers in told)
