"""Row 14: webhooks with a wrong key, a changed byte, a missing header, repeated after 4 and 6
minutes, and with rotated keys.
"""

from collections.abc import Iterator

import pytest

from tests.support.bundles import Json, make_memory
from tests.support.http import Answer, ask
from tests.support.keys import ApiKey, await_closed, make_key
from tests.support.signing import make_secret, signed
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

OLD, NEW, WRONG = make_secret("old"), make_secret("new"), make_secret("wrong")
BODY = b'{"event": "paid", "amount": 12}'
SECRETS = {
    "HOOK_SECRET": OLD,
    "ROTATED": f"{OLD} {NEW}",
    "NEW_SECRET": NEW,
    "BROKEN": "whsec_%%%",
    "MIXED": f"whsec_%%% 'v1,{OLD}' # old\n{NEW}",
    "HOOK_TOKEN": "tea",
}


@pytest.fixture(scope="module", params=["no key was ever made", "keys were made"])
def web_system(request: pytest.FixtureRequest) -> Iterator[WebSystem]:
    with WebSystem(secrets=SECRETS) as web_system:
        if request.param == "keys were made":
            make_key(web_system.system.root)
            await_closed(web_system)
        yield web_system


def make_hook(secret: object = "env:HOOK_SECRET", **keys: object) -> Json:
    return make_memory("write", senders="nobody") | {"wf_webhook_secret": secret} | keys


def post(
    web_system: WebSystem,
    uid: str,
    headers: dict[str, str],
    body: bytes = BODY,
    query: str = "?wait=60",
) -> Answer:
    return ask(web_system.url, "POST", f"/webhooks/{uid}/memory_write_{query}", body, headers)


def kept(web_system: WebSystem, uid: str) -> int:
    """Return the number of effects after all work is done."""
    web_system.system.client.await_quiet(uid)
    return len(web_system.system.contents(uid))


def test_a_signed_webhook_is_accepted(web_system: WebSystem) -> None:
    uid = web_system.deploy(make_hook())

    answer = post(web_system, uid, signed(BODY, OLD))

    assert (answer.json["message_id"], "guid" in answer.texts[0]) == ("msg_1", True)
    assert kept(web_system, uid) == 1


def test_a_wrong_key_is_refused(web_system: WebSystem) -> None:
    uid = web_system.deploy(make_hook())

    status, detail = post(web_system, uid, signed(BODY, WRONG)).problem

    assert (status, "no webhook-signature matches" in detail, kept(web_system, uid)) == (
        401,
        True,
        0,
    )


def test_a_changed_byte_is_refused_wherever_it_is(web_system: WebSystem) -> None:
    uid, headers = web_system.deploy(make_hook()), signed(BODY, OLD)
    changed = [
        BODY[:place] + bytes([BODY[place] ^ 1]) + BODY[place + 1 :] for place in range(len(BODY))
    ]

    answers = [
        post(web_system, uid, headers, body) for body in [*changed, BODY + b" ", BODY[:-1], b""]
    ]

    assert {answer.problem[0] for answer in answers} == {401}
    assert kept(web_system, uid) == 0


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_a_missing_header_is_refused_and_named(web_system: WebSystem, name: str) -> None:
    uid, headers = web_system.deploy(make_hook()), signed(BODY, OLD)
    del headers[name]

    status, detail = post(web_system, uid, headers).problem

    assert (status, detail.startswith(f"the header {name} is missing"), kept(web_system, uid)) == (
        401,
        True,
        0,
    )


def test_missing_credentials_are_refused_with_the_alternatives(web_system: WebSystem) -> None:
    uid = web_system.deploy(make_hook())

    status, detail = post(web_system, uid, {}).problem

    assert (status, "a Standard Webhooks signature" in detail, kept(web_system, uid)) == (
        401,
        True,
        0,
    )


def test_a_repeat_after_four_minutes_gets_the_same_answer(
    web_system: WebSystem,
) -> None:
    uid, headers = web_system.deploy(make_hook()), signed(BODY, OLD, age_s=240)

    first, again = post(web_system, uid, headers), post(web_system, uid, headers)
    anew = post(
        web_system, uid, signed(BODY, OLD)
    )  # a sender that retries signs again under the same ID

    assert first.json == again.json == anew.json
    assert kept(web_system, uid) == 1


@pytest.mark.parametrize("age_s", [360, -360, 4 * 86400])
def test_a_signature_six_minutes_off_is_refused(web_system: WebSystem, age_s: int) -> None:
    uid = web_system.deploy(make_hook())
    assert post(web_system, uid, signed(BODY, OLD)).status == 200

    status, detail = post(web_system, uid, signed(BODY, OLD, age_s=age_s)).problem

    assert (status, "by more than 300 s" in detail, kept(web_system, uid)) == (401, True, 1)


@pytest.mark.parametrize(
    "secret",
    [
        "env:ROTATED",
        ["env:HOOK_SECRET", "env:NEW_SECRET"],
        ["env:GONE", "env:BROKEN", "env:ROTATED"],
    ],
)
def test_both_keys_are_accepted_during_a_rotation(web_system: WebSystem, secret: object) -> None:
    uid = web_system.deploy(make_hook(secret))

    answers = [
        post(web_system, uid, signed(BODY, *secrets, ident=f"msg_{number}"))
        for number, secrets in enumerate([(OLD,), (NEW,), (OLD, NEW), (WRONG, NEW), (WRONG,)])
    ]

    assert [answer.status for answer in answers] == [200, 200, 200, 200, 401]
    assert kept(web_system, uid) == 4


def test_a_secret_in_a_file_can_be_changed_there(web_system: WebSystem) -> None:
    file = web_system.system.root / "secrets" / "hook"
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"{OLD}\n")
    uid = web_system.deploy(make_hook("file:hook"))

    def status(secret: str) -> int:
        return post(web_system, uid, signed(BODY, secret)).status

    before = status(NEW)
    file.write_text(f"{OLD}\n{NEW}\n")
    wait_for(lambda: status(NEW) == 200, "the new secret is accepted")
    during = status(OLD)
    file.write_text(f"{NEW}\n")
    wait_for(lambda: status(OLD) == 401, "the old secret is rejected")

    assert (before, during) == (401, 200)


@pytest.mark.parametrize("secret", ["env:GONE", "env:BROKEN", "file:nowhere/secret"])
def test_an_unusable_secret_refuses_everyone_and_is_logged_without_its_value(
    web_system: WebSystem, secret: str
) -> None:
    uid = web_system.deploy(make_hook(secret))

    assert post(web_system, uid, signed(BODY, OLD)).status == 401
    assert post(web_system, uid, {}).status == 401

    wait_for(
        lambda: [
            event
            for event in web_system.web.events
            if event["event"] == "webhook_secret_unusable" and event["reference"] == secret
        ],
        "it is logged",
        5,
    )
    assert "%%%" not in web_system.web.output


def test_a_broken_secret_does_not_disable_the_next(web_system: WebSystem) -> None:
    uid = web_system.deploy(make_hook("env:MIXED"))

    assert [post(web_system, uid, signed(BODY, one)).status for one in (OLD, NEW, WRONG)] == [
        200,
        200,
        401,
    ]


def test_an_agent_with_a_token_and_a_secret_accepts_either(web_system: WebSystem) -> None:
    uid = web_system.deploy(make_hook(wf_webhook_token="env:HOOK_TOKEN"))

    assert post(web_system, uid, {"Authorization": "Bearer tea"}).status == 200
    assert post(web_system, uid, signed(BODY, OLD)).status == 200
    assert (
        post(web_system, uid, signed(BODY, WRONG) | {"Authorization": "Bearer milk"}).status == 401
    )


def test_a_key_with_the_publish_scope_needs_no_signature() -> None:
    with WebSystem(secrets=SECRETS) as web_system:
        uid, root = web_system.deploy(make_hook()), web_system.system.root
        right, reader, other = (
            make_key(root, scope, pipelines=(of,))
            for scope, of in (("publish", uid), ("read", uid), ("publish", "other"))
        )
        await_closed(web_system)

        told = [
            post(web_system, uid, key.headers).status
            for key in (right, reader, other, ApiKey("", f"{right.text[:-1]}z"))
        ]

        assert (told, kept(web_system, uid)) == ([200, 403, 404, 401], 1)


def test_an_unauthorized_caller_learns_nothing() -> None:
    with WebSystem(secrets=SECRETS) as web_system:
        make_key(web_system.system.root)
        await_closed(web_system)
        hooks = (
            make_hook(),
            make_hook(""),
            make_hook("", agent_alias="x"),
            make_hook("", wf_webhook_token="env:HOOK_TOKEN"),
        )
        uids = [*map(web_system.deploy, hooks), "nobody"]

        told = [
            [post(web_system, uid, headers).problem for uid in uids]
            for headers in (
                {},
                signed(BODY, WRONG),
                {"Authorization": "Bearer milk"},
                ApiKey("", "mr_x").headers,
            )
        ]

    assert all(len(set(answers)) == 1 and answers[0][0] == 401 for answers in told)
