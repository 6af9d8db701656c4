"""Public swarms over HTTP: sending, reading the log, and following it."""

from memrelay.bus.keys import listeners_key
from tests.support.bundles import Json, make_agent, make_memory, make_relay, make_uid
from tests.support.http import Answer, ask
from tests.support.keys import ApiKey, make_key
from tests.support.listener import Listener
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem


def log_of(
    web_system: WebSystem, uid: str, swarm: str, query: str = "", key: ApiKey | None = None
) -> Answer:
    return ask(
        web_system.url,
        "GET",
        f"/v1/pipelines/{uid}/swarms/{swarm}/messages{query}",
        b"",
        key.headers if key else {},
    )


def texts(page: Answer) -> list[str]:
    return [item["message"]["args"][0]["text"] for item in page.json["items"]]


def deploy(web_system: WebSystem, swarm: str, *agents: Json) -> str:
    """Deploy a pipeline on a public swarm, wait until it is a member, and return its uid."""
    uid = web_system.deploy(*agents, swarms=[{"name": swarm, "visibility": "public"}])
    wait_for(
        lambda: uid in str(web_system.system.client.redis.zrange(listeners_key(), 0, -1)),
        "the pipeline is a member",
    )
    return uid


def deploy_both(web_system: WebSystem, swarm: str) -> tuple[str, str]:
    """Deploy a pipeline that publishes `/tell` arguments and one that records them.

    Returns their uids.
    """
    keeper = deploy(
        web_system, swarm, make_memory("write", senders="*") | {"agent_rec_swarm": swarm}
    )
    return deploy(web_system, swarm, make_relay("tell", r"^/tell\s+(.*)", to=swarm)), keeper


def test_a_public_swarm_has_one_log_for_all_pipelines(web_system: WebSystem) -> None:
    speaker, keeper = deploy_both(web_system, swarm := f"news_{make_uid()}")

    answer = web_system.say(speaker, "/tell tea", query="?wait=60")
    sent = web_system.post(
        f"/v1/pipelines/{keeper}/swarms/{swarm}/messages?wait=60", {"text": "milk"}
    )
    wait_for(lambda: web_system.system.contents(keeper) == ["tea", "milk"], "both are recorded")

    pages = [log_of(web_system, uid, swarm) for uid in (speaker, keeper)]
    assert pages[0].json == pages[1].json and (texts(pages[0]), pages[0].json["total"]) == (
        ["tea", "milk"],
        2,
    )
    assert texts(log_of(web_system, speaker, swarm, "?order=desc&limit=1")) == ["milk"]
    assert [result["from"] for result in answer.json["results"]] == ["dispatch_tell"]
    assert (sent.status, sent.json["results"]) == (200, [])
    assert f"the message went to the public swarm {swarm}" in sent.json["reason"]


def test_a_webhook_and_a_chat_publish_on_a_public_swarm(web_system: WebSystem) -> None:
    swarm = f"news_{make_uid()}"
    chat = {
        "agent_class": "chat_agent",
        "agent_alias": "ann",
        "agent_name": "Ann",
        "agent_send_swarm": swarm,
    }
    uid = deploy(
        web_system, swarm, chat, make_agent("filter", "regex_filter", {"pattern": "tea"}, to=swarm)
    )
    keeper = deploy(
        web_system, swarm, make_memory("write", senders="*") | {"agent_rec_swarm": swarm}
    )

    assert web_system.webhook(uid, "ann", "hello", webhook_id="1").status == 202
    assert web_system.webhook(uid, "filter_", "more tea", webhook_id="2").status == 202
    assert web_system.webhook(uid, "ann", "hello", webhook_id="1").status == 202
    wait_for(lambda: len(web_system.system.contents(keeper)) == 2, "both are recorded")
    web_system.system.client.await_quiet(uid)
    web_system.system.client.await_quiet(keeper)

    assert web_system.system.contents(keeper) == ["hello", "more tea"]
    assert {item["message"]["from"] for item in log_of(web_system, uid, swarm).json["items"]} == {
        "Ann",
        "filter",
    }


def test_a_websocket_follows_a_public_swarm(web_system: WebSystem) -> None:
    speaker, keeper = deploy_both(web_system, swarm := f"news_{make_uid()}")

    with Listener(web_system.url, keeper, swarm=swarm) as listener:
        web_system.say(speaker, "/tell tea", query="?wait=60")
        received = listener.receive()

    assert (received["message"]["from"], received["mid"].partition("/")[0]) == (
        "dispatch_tell",
        speaker,
    )


def test_a_pipeline_page_shows_messages_of_others_on_its_public_swarm(
    web_system: WebSystem,
) -> None:
    speaker, keeper = deploy_both(web_system, swarm := f"news_{make_uid()}")
    web_system.say(speaker, "/tell the tea is ready", query="?wait=60")

    page = ask(web_system.url, "GET", f"/pipelines/{keeper}?swarm={swarm}", b"", {}).body.decode()

    assert "the tea is ready" in page and "a public swarm of all pipelines" in page
    assert f"SUBSCRIBE &#39;swarm:{{public}}:{swarm}&#39;" in page


def test_a_public_swarm_is_readable_only_through_a_visible_pipeline(keyed: WebSystem) -> None:
    speaker, keeper = deploy_both(keyed, swarm := f"news_{make_uid()}")
    stranger = keyed.deploy()
    keyed.system.client.enter(speaker, "/tell tea")
    wait_for(lambda: keyed.system.contents(keeper) == ["tea"], "it is recorded")

    key = make_key(keyed.system.root, "read", pipelines=(keeper,))
    other = make_key(keyed.system.root, "read", pipelines=(stranger,))
    wait_for(lambda: log_of(keyed, stranger, "chat", key=other).status == 200, "the keys are known")

    assert texts(log_of(keyed, keeper, swarm, key=key)) == ["tea"]
    refused = [
        log_of(keyed, uid, swarm, key=other).status for uid in (keeper, speaker, stranger, "public")
    ]
    assert refused == [404] * 4
