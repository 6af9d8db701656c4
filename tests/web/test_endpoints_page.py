"""The pages of endpoints and deliveries as served: what they show, to whom, and without scripts."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.bundles import make_bundle, make_commands, make_uid
from tests.support.console_content import post
from tests.support.keys import await_closed, make_key
from tests.support.pages import text_of
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem
from tests.support.webhook_receiver import ACCEPTED, Reply, WebhookReceiver

HOSTILE = '"><script>alert(1)</script>'
SECRET_PATH = "secret-path"


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(worker=False) as found:
        found.system.start_worker(outgoing={"open_for": ["endpoints"]})
        yield found


@pytest.fixture(scope="module")
def receiver() -> Iterator[WebhookReceiver]:
    with WebhookReceiver() as found:
        yield found


def create(web_system: WebSystem, uid: str, url: str, **fields: Any) -> Any:
    return post(web_system, f"/v1/pipelines/{uid}/endpoints", {"url": url, **fields})


def await_tried(web_system: WebSystem, uid: str) -> list[Any]:
    """Return the deliveries when each has been tried."""
    path = f"/v1/pipelines/{uid}/deliveries"

    def list_tried() -> list[Any]:
        items: list[Any] = web_system.get(path).json["items"]
        return items if items and all(one["tries"] for one in items) else []

    return wait_for(list_tried, "the deliveries are tried")


def test_the_list_shows_state_figures_and_no_secret(
    web_system: WebSystem, receiver: WebhookReceiver
) -> None:
    uid = web_system.deploy()
    path = f"/pipelines/{uid}/webhooks"
    assert "No endpoints yet." in text_of(web_system.get(path))
    created = create(
        web_system, uid, receiver.url, description=HOSTILE, headers={"X-Token": "sesame"}
    )
    endpoint = created["endpoint"]["id"]
    guid = post(web_system, f"/v1/pipelines/{uid}/records", {"content": "tea"})["guid"]
    (delivery,) = await_tried(web_system, uid)

    pages = [
        web_system.get(one)
        for one in (path, f"{path}/endpoints", f"/pipelines/{uid}/endpoints/{endpoint}")
    ]
    for page in pages:
        text = text_of(page)
        assert "100 %" in text and re.search(r"\d ms", text)
        for private in (created["secret"], SECRET_PATH, "sesame", "<script>alert"):
            assert private not in page.body.decode()
    assert f"{HOSTILE} * Active 100 %" in text_of(pages[1])
    assert f'href="/pipelines/{uid}/deliveries/{delivery["id"]}"' in pages[2].body.decode()
    found = text_of(web_system.get(f"/pipelines/{uid}/deliveries?subject={guid}"))
    assert delivery["id"] in found
    assert "No deliveries." in text_of(web_system.get(f"/pipelines/{uid}/deliveries?subject=x"))


def test_a_failing_endpoint_shows_its_circuit_and_each_try(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    with WebhookReceiver(usual=Reply(500, b"<b>broken</b>")) as receiver:
        endpoint = create(web_system, uid, receiver.url)["endpoint"]["id"]
        for number in range(6):
            post(web_system, f"/v1/pipelines/{uid}/records", {"content": f"tea {number}"})
        receiver.wait(5)
        page = f"/pipelines/{uid}/endpoints/{endpoint}"
        wait_for(
            lambda: "Circuit open: one try a minute" in text_of(web_system.get(page)), "the circuit"
        )

    waiting, failed = (
        text_of(web_system.get(f"{page}?state={one}")) for one in ("waiting", "failed")
    )
    assert "record.created" in waiting and "No deliveries." in failed
    tried = next(
        one
        for one in web_system.get(f"/v1/pipelines/{uid}/deliveries").json["items"]
        if one["tries"]
    )
    detail = web_system.get(f"/pipelines/{uid}/deliveries/{tried['id']}")
    assert re.search(r"1 \S+ 500 [\d,]+ ms <b>broken</b>", text_of(detail))


def test_a_trace_links_to_the_deliveries_of_its_records(
    web_system: WebSystem, receiver: WebhookReceiver
) -> None:
    uid = web_system.deploy()
    create(web_system, uid, receiver.url)
    sent = web_system.say(uid, {"text": "/write tea"}, query="?wait=60").json["message_id"]
    (delivery,) = await_tried(web_system, uid)

    page = web_system.get(f"/pipelines/{uid}/messages/{sent}").body.decode()

    link = f"/pipelines/{uid}/deliveries?subject={delivery['subject']}"
    assert f'href="{link}"' in page
    assert delivery["id"] in text_of(web_system.get(link))


@pytest.mark.slow  # the pause before the second try
def test_an_open_list_changes_after_a_delivery(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    path = f"/pipelines/{uid}/webhooks/endpoints"
    with WebhookReceiver(usual=Reply(500)) as receiver:
        create(web_system, uid, receiver.url)
        post(web_system, f"/v1/pipelines/{uid}/records", {"content": "tea"})
        receiver.wait(1)
        wait_for(lambda: "500 , " in text_of(web_system.get(path)), "the first try is shown")
        tag = web_system.get(path).headers["etag"]
        receiver.usual = ACCEPTED

        # Nothing but the second try, after 5 s, changes it.
        def is_changed() -> bool:
            page = web_system.get(path, If_None_Match=tag)
            return page.status == 200 and "100 %" in text_of(page)

        wait_for(is_changed, "the delivery is shown")


def test_unknown_endpoints_and_deliveries_are_no_pages(web_system: WebSystem) -> None:
    base = f"/pipelines/{web_system.deploy()}"
    for path in ("/endpoints/ep_1", "/endpoints/ep_1/rows", "/deliveries/msg_1"):
        assert web_system.get(base + path).status == 404, path
    assert web_system.get(f"{base}/deliveries?state=lost").status == 400
    assert web_system.get(f"{base}/deliveries?cursor=x").status == 400


def test_a_key_without_admin_sees_why_there_are_no_buttons() -> None:
    with WebSystem() as web_system:
        uid = make_uid()
        web_system.system.deploy(make_bundle(uid, *make_commands()))
        endpoint = create(web_system, uid, "https://127.0.0.1/x")["endpoint"]["id"]
        post(web_system, f"/v1/pipelines/{uid}/endpoints/{endpoint}/test", {})
        (delivery,) = await_tried(web_system, uid)
        key = make_key(web_system.system.root, "read", pipelines=(uid,))
        await_closed(web_system)
        pages = [
            web_system.get(f"/pipelines/{uid}{path}", **key.headers)
            for path in ("/webhooks", f"/endpoints/{endpoint}", f"/deliveries/{delivery['id']}")
        ]

    for page in pages:
        assert b"data-call" not in page.body and b"<noscript>" not in page.body
        assert "log in with a key that has the scope admin" in text_of(page)
