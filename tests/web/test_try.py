"""POST /v1/pipelines/UID/try: one message through a bundle that is not deployed."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.support.bundles import make_bundle, make_uid
from tests.support.http import Answer, ask
from tests.support.keys import make_key
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

ISSUE = {
    "action": "opened",
    "issue": {"title": "The kettle leaks", "html_url": "https://github.example/ada/tea/issues/7"},
    "repository": {"full_name": "ada/tea"},
    "sender": {"login": "grace"},
}
STORE = "instances/${pipeline_uid}/memories"
# By the name of a template: its typical message, and the agents that it leads to.
TYPICAL: dict[str, tuple[dict[str, str], list[str]]] = {
    "chat_memory": ({"text": "I like tea"}, ["no_command", "turns"]),
    "webhook_inbox": ({"agent": "inbox", "text": '{"event": "paid"}'}, ["inbox", "keep"]),
    "github_to_slack": (
        {"agent": "github", "text": orjson.dumps(ISSUE).decode()},
        ["github", "keep", "slack"],
    ),
    "daily_digest": ({"agent": "morning", "text": ""}, ["morning", "digest", "send"]),
    "agent_with_memory": ({"text": "My name is Ada"}, ["who", "assistant"]),
    "alert_dedupe": (
        {"agent": "alerts", "text": '{"host": "db1", "title": "DiskFull"}'},
        ["alerts", "settle", "state", "line", "send"],
    ),
    "shared_notes": ({"text": "/note Tea at four"}, ["note", "keep"]),
    "empty": ({"text": "Hello"}, []),
}
BLOCKS = {
    "spin": "def spin(call: Call, args: BlockArgs) -> None:\n    while True:\n        pass",
    "socket_user": "def socket_user(call: Call, args: BlockArgs) -> Message:\n"
    "    import socket\n    return call.reply(str(socket.create_connection(('127.0.0.1', 9))))",
    "shout": "def shout(call: Call, args: BlockArgs) -> Message:\n"
    "    print('to stdout')\n    return call.reply(call.text.upper())",
    "later": "async def later(call: AsyncCall, args: BlockArgs) -> Message:\n"
    "    return call.reply('ran')",
}


def make_try(
    block: str, args: Any = None, *, alias: str = "one", sender: str = "User", **fields: Any
) -> dict[str, Any]:
    """Return an agent that listens on chat."""
    return {
        "agent_class": "wf_agent",
        "agent_alias": alias,
        "wf_agent_name": alias,
        "agent_rec_swarm": "chat",
        "agent_send_swarm": "out",
        "agent_from": sender,
        "wf_publish_results": True,
        "wf_diagram_webhook": block,
        **({"wf_webhook_args": args} if args else {}),
        **fields,
    }


def send(web_system: WebSystem, bundle: Any, text: str, *, uid: str = "", **fields: Any) -> Answer:
    body = {"bundle": bundle, "text": text, **fields}
    return web_system.post(f"/v1/pipelines/{uid or make_uid()}/try", body)


def run(web_system: WebSystem, agents: list[Any], text: str, **fields: Any) -> Any:
    answer = send(web_system, {"agents": agents}, text, **fields)
    assert answer.status == 200, answer.body
    return answer.json


@pytest.fixture(scope="module")
def tries_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder for temporary files of the server with own blocks."""
    return tmp_path_factory.mktemp("tries")


@pytest.fixture(scope="module")
def with_blocks(
    tmp_path_factory: pytest.TempPathFactory, tries_folder: Path
) -> Iterator[WebSystem]:
    """A server with own blocks and without a worker."""
    folder, temporary = tmp_path_factory.mktemp("blocks"), {"TMPDIR": str(tries_folder)}
    head = "from memrelay import AsyncCall, BlockArgs, Call, Message, block\n\n\n"
    for name, code in BLOCKS.items():
        (folder / f"{name}.py").write_text(f'{head}@block("{name}")\n{code}\n')
    with WebSystem(worker=False, secrets=temporary, BLOCKS__PATHS=str(folder)) as web_system:
        yield web_system


@pytest.mark.parametrize("name", TYPICAL)
def test_a_template_is_tried_with_a_typical_message(web_system: WebSystem, name: str) -> None:
    templates = web_system.get("/v1/pipeline-templates").json["items"]
    (bundle,) = [one["bundle"] for one in templates if one["name"] == name]
    message, agents = TYPICAL[name]

    answer = send(web_system, bundle, **message)

    tried = answer.json
    assert (answer.status, tried["status"], tried["reason"]) == (200, "done", "")
    assert [step["agent"] for step in tried["steps"]] == agents
    assert not any(step["fault"] or step["not_run"] for step in tried["steps"])


def test_the_path_of_a_webhook_shows_what_is_stored_and_what_would_be_sent(
    web_system: WebSystem,
) -> None:
    templates = web_system.get("/v1/pipeline-templates").json["items"]
    (bundle,) = [one["bundle"] for one in templates if one["name"] == "github_to_slack"]

    uid = make_uid()
    message, _ = TYPICAL["github_to_slack"]
    tried = send(web_system, bundle, uid=uid, **message).json

    first, keep, slack = tried["steps"]
    assert [step["parent"] for step in tried["steps"]] == [None, 1, 1]
    assert first["output"][0]["swarm"] == "issues" and first["from"] == "webhook"
    (stored,) = keep["stored"]
    assert (stored["store"], stored["action"]) == (f"instances/{uid}/inbox", "created")
    assert stored["content"] == "ada/tea: The kettle leaks"
    (sent,) = slack["sends"]
    assert (sent["what"], sent["target"]) == (
        "webhook",
        "POST https://hooks.slack.example/services/YOUR/INCOMING/WEBHOOK",
    )
    assert "grace opened in ada/tea: The kettle leaks" in sent["body"]
    assert any("nothing was sent" in note for note in tried["notes"])
    assert [one["swarm"] for one in tried["published"]] == ["issues", "kept", "sent"]


def test_hits_updates_and_decisions_are_shown(web_system: WebSystem) -> None:
    memory = {"memory_id": STORE}
    agents = [
        make_try("memory_write", memory, alias="write", agent_send_swarm="chat"),
        make_try("memory_search", {**memory, "output_template": "{{content}}"}, alias="find"),
        make_try("memory_read", {**memory, "output_template": "x"}, alias="list"),
        make_try("memory_append", {**memory, "kind": "log"}, alias="log"),
        make_try("memory_append", {**memory, "kind": "log"}, alias="log_again"),
        make_try("memory_entry_write", {**memory, "memory": "m"}, alias="entry"),
        make_try("memory_entry_write", {**memory, "memory": "m"}, alias="entry_again"),
        make_try("memory_delete", {**memory, "kind": "log", "by": "kind"}, alias="delete"),
    ]

    tried = run(web_system, agents, "green tea")

    steps = {step["agent"]: step for step in tried["steps"]}
    actions = {name: [one["action"] for one in step["stored"]] for name, step in steps.items()}
    assert [one["content"] for one in steps["find"]["found"]] == ["green tea"]
    assert [one["content"] for one in steps["list"]["found"]] == ["green tea"]
    assert actions["write"] == actions["log"] == actions["entry"] == ["created"]
    assert actions["log_again"] == ["updated"] and actions["entry_again"] == ["skipped"]
    assert steps["entry_again"]["stored"][0]["content"] == "green tea"


def test_secrets_are_placeholders_and_models_are_not_asked(web_system: WebSystem) -> None:
    templates = web_system.get("/v1/pipeline-templates").json["items"]
    (bundle,) = [one["bundle"] for one in templates if one["name"] == "agent_with_memory"]

    tried = send(web_system, bundle, "My name is Ada", user="Ada").json

    (asked,) = tried["steps"][1]["sends"]
    assert asked["what"] == "model" and asked["target"] == "llama3.2 at http://127.0.0.1:11434/v1"
    assert "My name is Ada" in asked["body"]
    assert tried["published"][-1]["text"] == "[the answer of the model]"


def test_nothing_stays(with_blocks: WebSystem, tries_folder: Path) -> None:
    uid, root = make_uid(), with_blocks.system.root

    tried = run(with_blocks, [make_try("memory_write", {"memory_id": STORE})], "tea", uid=uid)

    assert tried["status"] == "done" and tried["steps"][0]["stored"]
    assert not (root / "instances" / uid).exists()
    assert with_blocks.get(f"/v1/pipelines/{uid}").status == 404
    wait_for(lambda: not [*tries_folder.glob("*/try*")], "the stores are deleted")


def test_a_copy_has_the_records_of_the_pipeline_and_does_not_change_them(
    web_system: WebSystem,
) -> None:
    uid = make_uid()
    web_system.post("/v1/pipelines", make_bundle(uid))
    web_system.say(uid, {"text": "/write green tea"}, query="?wait=60")
    bundle = make_bundle(uid)

    empty = send(web_system, bundle, "/search tea", uid=uid).json
    copied = send(web_system, bundle, "/search tea", uid=uid, stores="copy").json
    written = send(web_system, bundle, "/write black tea", uid=uid, stores="copy").json
    again = send(web_system, bundle, "/search tea", uid=uid, stores="copy").json

    assert empty["steps"][-1]["found"] == []
    assert [one["content"] for one in copied["steps"][-1]["found"]] == ["green tea"]
    assert written["steps"][-1]["stored"][0]["action"] == "created"
    assert [one["content"] for one in again["steps"][-1]["found"]] == ["green tea"]


def test_own_blocks_run_without_a_network_and_async_ones_do_not_run(
    with_blocks: WebSystem,
) -> None:
    names = ("shout", "socket_user", "later")
    agents = [make_try(name, alias=name) for name in names]

    tried = [run(with_blocks, [agent], "tea") for agent in agents]

    shout, socket_user, later = [one["steps"][0] for one in tried]
    assert shout["output"][0]["text"] == "TEA"
    assert "may not use socket" in socket_user["fault"]
    assert tried[1]["status"] == "failed" and tried[1]["dead_letters"]
    assert (later["output"], "async block" in later["not_run"]) == ([], True)


def test_a_loop_is_stopped_with_the_steps_so_far_and_a_second_try_is_refused(
    with_blocks: WebSystem,
) -> None:
    agents = [
        make_try("add_1", alias="first", agent_send_swarm="chat"),
        make_try("spin", alias="second", sender="first"),
    ]

    def run_loop() -> Any:
        # The other one may be first.
        while (answer := send(with_blocks, {"agents": agents}, "1")).status == 429:
            pass
        return answer.json

    with ThreadPoolExecutor() as pool:
        stopped = pool.submit(run_loop)
        answers = []

        def is_refused() -> bool:
            answers.append(send(with_blocks, {"agents": agents[:1]}, "1"))
            return answers[-1].status == 429

        wait_for(is_refused, "the second one is refused")
        live = with_blocks.get("/live")
        tried = stopped.result()

    assert live.status == 200
    # On a busy machine, the limit of waiting comes first.
    assert tried["status"] == "stopped" and re.search("more than [28] s", tried["reason"])
    assert [step["agent"] for step in tried["steps"]] == ["first", "second"]
    assert "one runs at a time" in answers[-1].problem[1]


def test_a_storm_and_a_flood_are_stopped(web_system: WebSystem) -> None:
    template = {"template": "x"}
    storm = [
        make_try("template", template, alias=f"{side}{number}", sender=sender, **swarms)
        for side, sender, swarms in (
            ("a", "User", {"agent_rec_swarm": "chat", "agent_send_swarm": "chat"}),
            ("b", ["a0", "a1", "c0", "c1"], {"agent_send_swarm": "chat"}),
            ("c", ["b0", "b1"], {"agent_send_swarm": "chat"}),
        )
        for number in range(2)
    ]
    flood = [
        make_try("regex_filter", {"pattern": "", "text": ""}, alias=f"f{number}")
        for number in range(30)
    ]

    many = run(web_system, storm, "go")
    long = run(web_system, flood, "a" * 500_000)

    assert many["status"] == "stopped" and "more than 100 messages" in many["reason"]
    assert len(many["steps"]) >= 100
    assert long["status"] == "stopped" and "more than 8 MiB" in long["reason"]
    assert "500000 characters" in long["steps"][0]["input"]


def test_an_agent_that_answers_itself_ends_at_the_hops_of_a_pipeline(
    web_system: WebSystem,
) -> None:
    agents = [
        make_try("add_1", alias="a", sender=["User", "b"], agent_send_swarm="chat"),
        make_try("add_1", alias="b", sender="a", agent_send_swarm="chat"),
    ]

    tried = run(web_system, agents, "1")

    assert tried["status"] == "failed" and "hops" in tried["dead_letters"][0]["reason"]
    assert [step["parent"] for step in tried["steps"][:3]] == [None, 1, 2]


def test_a_message_that_no_block_takes_is_explained(web_system: WebSystem) -> None:
    tried = run(web_system, [make_try("regex_match", {"pattern": "^/note"})], "Hello")

    assert (tried["status"], tried["steps"]) == ("done", [])
    assert any("no block took the message" in note for note in tried["notes"])


def test_faults_and_invalid_fields_are_refused(web_system: WebSystem) -> None:
    agents = [make_try("memory_wirte")]
    fine = {"agents": [make_try("add_1")]}
    faulty = send(web_system, {"agents": agents}, "1")
    no_swarm = send(web_system, fine, "1", swarm="nowhere")
    no_agent = send(web_system, fine, "1", agent="nobody")
    both = send(web_system, fine, "1", agent="one", swarm="chat")
    stores = send(web_system, fine, "1", stores="all")
    secret = {"url": "env:NOT_THERE"}
    unbound = send(web_system, {"agents": [make_try("webhook_send", secret)]}, "1")

    assert faulty.status == 422 and "memory_write" in faulty.json["faults"][0]["suggestion"]
    assert "it has chat, out" in no_swarm.problem[1]
    assert "these do: one" in no_agent.problem[1]
    assert "either `swarm`, or `agent`" in both.problem[1]
    assert "`stores` is empty or copy" in stores.problem[1]
    assert unbound.status == 422 and "env:NOT_THERE" in unbound.json["faults"][0]["rule"]


def test_a_try_needs_deploy_and_a_copy_also_read(keyed: WebSystem) -> None:
    uid = make_uid()
    keys = [
        make_key(keyed.system.root, *scopes, pipelines=(uid,))
        for scopes in (("read",), ("deploy",), ("deploy", "read"))
    ]
    body = {"bundle": {"agents": [make_try("add_1")]}, "text": "1"}
    foreign = {"agents": [make_try("memory_write", {"memory_id": "instances/other/m"})]}

    def post(number: int, **fields: Any) -> int:
        headers = {"Authorization": f"Bearer {keys[number].text}"}
        at = f"/v1/pipelines/{fields.pop('uid', uid)}/try"
        return ask(keyed.url, "POST", at, body | fields, headers=headers).status

    wait_for(lambda: 401 not in [post(number) for number in range(3)], "the keys are known")

    assert [post(number) for number in range(3)] == [403, 200, 200]
    assert [post(number, stores="copy") for number in (1, 2)] == [403, 200]
    assert post(2, bundle=foreign) == 403
    assert post(2, uid="another") == 404
