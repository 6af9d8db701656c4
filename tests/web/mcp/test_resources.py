"""Resources, completion and prompts over MCP."""

from typing import Any

import pytest

from tests.support.http import ask
from tests.support.keys import await_closed, make_key
from tests.support.mcp_calls import McpCalls, McpError
from tests.support.web_system import WebSystem

UNKNOWN = "Resource not found"


def connect(web_system: WebSystem, uid: str) -> McpCalls:
    return McpCalls(web_system.url, f"/mcp/{uid}")


def call(web_system: WebSystem, uid: str, path: str, body: Any = b"", method: str = "POST") -> Any:
    answer = ask(web_system.url, method, f"/v1/pipelines/{uid}/{path}", body)
    assert answer.status < 300, answer
    return answer.json if answer.body else None


def write(web_system: WebSystem, uid: str, content: str, **fields: Any) -> str:
    return str(call(web_system, uid, "records", {"content": content} | fields)["guid"])


def list_all(client: McpCalls) -> list[dict[str, Any]]:
    found, cursor = [], {}
    while True:
        page = client("resources/list", **cursor)
        found += page["resources"]
        if "nextCursor" not in page:
            return found
        cursor = {"cursor": page["nextCursor"]}


def test_the_templates_name_the_four_kinds_of_resources(web_system: WebSystem) -> None:
    client = connect(web_system, web_system.deploy())
    found = client("resources/templates/list")["resourceTemplates"]
    assert [one["uriTemplate"] for one in found] == [
        "memory://{uid}/records/{guid}",
        "memory://{uid}/records/{guid}/history",
        "memory://{uid}/memories/{mem}",
        "memory://{uid}/recipes/{id}",
    ]
    assert all(one["description"] and one["mimeType"] == "application/json" for one in found)


def test_the_list_has_records_in_context_and_then_memories(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    first = write(
        web_system, uid, "Always answer in French\nand briefly", in_context=True, key="tone"
    )
    second = write(web_system, uid, "Second", in_context=True)
    write(web_system, uid, "not listed")
    memory = call(web_system, uid, "memories", {"name": "Team", "description": "Who is who"})

    found = list_all(connect(web_system, uid))

    assert [one["uri"] for one in found] == [
        f"memory://{uid}/records/{first}",
        f"memory://{uid}/records/{second}",
        f"memory://{uid}/memories/{memory['id']}",
    ]
    assert (found[0]["name"], found[0]["title"]) == ("tone", "Always answer in French")
    assert (found[2]["name"], found[2]["description"]) == ("Team", "Who is who")


def test_every_resource_is_on_one_page_of_a_long_list(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    for n in range(60):
        write(web_system, uid, f"Rule {n}", in_context=True)
    names = [f"Memory {n}" for n in range(55)]
    for name in names:
        call(web_system, uid, "memories", {"name": name})
    client = connect(web_system, uid)

    first = client("resources/list")
    found = list_all(client)

    assert len(first["resources"]) == 50
    assert len(found) == len({one["uri"] for one in found}) == 115
    assert [one["name"] for one in found[60:]] == names


@pytest.mark.parametrize(
    "cursor", ["x", "records.x", "graph..", "records.other.99999999999999999999"]
)
def test_an_invalid_cursor_is_refused(web_system: WebSystem, cursor: str) -> None:
    with pytest.raises(McpError) as refused:
        connect(web_system, web_system.deploy())("resources/list", cursor=cursor)
    assert refused.value.code == -32602
    assert "cursor" in refused.value.text


def test_a_record_and_its_history_are_read(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    guid = write(web_system, uid, "Ada likes tea", tags=["ada"], data={"n": 1})
    call(web_system, uid, f"records/{guid}", {"content": "Ada likes coffee"}, "PATCH")
    client = connect(web_system, uid)

    record = client.read(f"memory://{uid}/records/{guid}")
    history = client.read(f"memory://{uid}/records/{guid}/history")

    assert record == call(web_system, uid, f"records/{guid}", method="GET")
    assert [one["record"]["content"] for one in history["items"]] == [
        "Ada likes coffee",
        "Ada likes tea",
    ]


def test_a_long_record_is_cut_with_its_length_and_how_to_continue(web_system: WebSystem) -> None:
    uid, text = web_system.deploy(), "\u00e9\n" * 100_000
    guid = write(web_system, uid, text)
    answer = connect(web_system, uid)("resources/read", uri=f"memory://{uid}/records/{guid}")
    cut = connect(web_system, uid).read(f"memory://{uid}/records/{guid}")

    assert 74_990 <= len(answer["contents"][0]["text"].encode()) <= 75_000
    assert text.startswith(cut["content"])
    assert cut["content_characters"] == len(text)
    assert "memory_read" in cut["continue"]


def test_a_memory_shows_its_newest_entries_as_far_as_they_fit(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    memory = call(web_system, uid, "memories", {"name": "Team"})["id"]
    texts = [f"{word} " * 1500 for word in ("alpha", "beta", "gamma", "delta", "eta", "zeta")]
    texts += [f"{n} {text}"[:8000] for n, text in enumerate(texts)]
    for text in texts:
        call(web_system, uid, "entries", {"memory_id": memory, "content": text, "mode": "create"})

    found = connect(web_system, uid).read(f"memory://{uid}/memories/{memory}")

    assert found["memory"]["name"] == "Team"
    assert found["total"] == len(texts)
    assert 1 <= len(found["items"]) < len(texts)
    assert found["items"][0]["content"] == texts[-1]
    assert "memory_recall" in found["continue"]


def test_a_recipe_is_read(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    call(web_system, uid, "recipes", {"definition": {"id": "p", "label": "P"}})
    assert connect(web_system, uid).read(f"memory://{uid}/recipes/p")["label"] == "P"


@pytest.mark.parametrize(
    "uri",
    [
        "memory://{other}/records/{guid}",
        "memory://nobody/records/{guid}",
        "memory://{uid}/records/",
        "memory://{uid}/recipes/p/history",
        "memory://knowledge-graph",
        "file:///etc/passwd",
        "memory://{uid}/../{other}/records/{guid}",
    ],
)
def test_another_pipeline_is_answered_as_an_unknown_resource(
    web_system: WebSystem, uri: str
) -> None:
    uid, other = web_system.deploy(), web_system.deploy()
    guid = write(web_system, other, "secret")
    with pytest.raises(McpError) as refused:
        connect(web_system, uid)("resources/read", uri=uri.format(uid=uid, other=other, guid=guid))
    assert (refused.value.code, refused.value.text) == (-32602, UNKNOWN)


def test_a_missing_record_names_the_fix(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    with pytest.raises(McpError, match="memory_read or memory_search") as refused:
        connect(web_system, uid).read(f"memory://{uid}/records/none")
    assert refused.value.code == -32602


def complete(client: McpCalls, name: str, value: str, uri: str = "", **given: str) -> list[str]:
    ref = {"type": "ref/resource", "uri": uri or "memory://{uid}/records/{guid}"}
    context = {"context": {"arguments": given}} if given else {}
    argument = {"name": name, "value": value}
    answer = client("completion/complete", ref=ref, argument=argument, **context)
    values: list[str] = answer["completion"]["values"]
    return values


def test_guids_and_ids_are_completed_by_their_beginning(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    guids = [write(web_system, uid, f"text {n}") for n in range(3)]
    memory = call(web_system, uid, "memories", {"name": "Team"})["id"]
    call(web_system, uid, "recipes", {"definition": {"id": "prompt", "label": "P"}})
    client = connect(web_system, uid)

    assert complete(client, "guid", "") == guids[::-1]
    assert complete(client, "guid", guids[1]) == [guids[1]]
    assert set(complete(client, "guid", guids[0][:8])) <= set(guids)
    assert complete(client, "guid", "zz") == []
    assert complete(client, "mem", "mem_") == complete(client, "mem", "te") == [memory]
    assert complete(client, "id", "pro") == ["prompt"]
    assert complete(client, "uid", uid[:3]) == [uid]
    assert complete(client, "memory", "T") == ["Team"]
    assert complete(client, "color", "r") == []


def test_recall_before_answering_contains_what_the_memory_knows(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    memory = call(web_system, uid, "memories", {"name": "Team"})["id"]
    fact = "Ada likes green tea"
    call(web_system, uid, "entries", {"memory_id": memory, "content": fact})
    client = connect(web_system, uid)

    names = [one["name"] for one in client("prompts/list")["prompts"]]
    given = {"question": "Which tea does Ada like?"}
    found = client("prompts/get", name="recall_before_answering", arguments=given)
    given = {"text": "Ada moved to Rome", "memory": "Team"}
    remembered = client("prompts/get", name="remember_this", arguments=given)

    assert names == ["recall_before_answering", "remember_this"]
    (message,) = found["messages"]
    assert message["role"] == "user"
    assert fact in message["content"]["text"]
    assert message["content"]["text"].endswith("Question: Which tea does Ada like?")
    text = remembered["messages"][0]["content"]["text"]
    assert "memory_remember with the argument memory set to 'Team'" in text
    assert text.endswith("Text: Ada moved to Rome")


@pytest.mark.parametrize(
    ("name", "arguments", "rule"),
    [
        ("forget", {}, "no prompt has the name"),
        ("remember_this", {}, "set the argument 'text'"),
        ("remember_this", {"text": "x", "color": "red"}, "no argument 'color'"),
        ("remember_this", {"text": "x" * 10_001}, "at most 10000"),
    ],
)
def test_an_invalid_prompt_names_the_rule(
    web_system: WebSystem, name: str, arguments: dict[str, str], rule: str
) -> None:
    with pytest.raises(McpError, match=rule) as refused:
        connect(web_system, web_system.deploy())("prompts/get", name=name, arguments=arguments)
    assert refused.value.code == -32602


def test_keys_see_only_the_resources_of_their_pipelines_and_scopes() -> None:
    with WebSystem(WEB__RATE="0") as web_system:
        ours, other = web_system.deploy(), web_system.deploy()
        for uid in (ours, other):
            write(web_system, uid, "in every context", in_context=True)
        guid = write(web_system, other, "secret")
        root = web_system.system.root
        one = make_key(root, "read", "search", pipelines=(ours,))
        both = make_key(root, "read", pipelines=(ours, other))
        search = make_key(root, "search", pipelines=(ours,))
        await_closed(web_system)

        of_one, of_both = (
            McpCalls(web_system.url, "/mcp", one),
            McpCalls(web_system.url, "/mcp", both),
        )
        of_search = McpCalls(web_system.url, f"/mcp/{ours}", search)

        assert {item["uri"].split("/")[2] for item in list_all(of_one)} == {ours}
        assert {item["uri"].split("/")[2] for item in list_all(of_both)} == {ours, other}
        assert complete(of_one, "uid", "") == [ours]
        assert complete(of_both, "guid", guid, uid=other) == [guid]
        assert complete(of_both, "guid", guid) == complete(of_one, "guid", guid, uid=other) == []
        with pytest.raises(McpError, match=UNKNOWN):
            of_one.read(f"memory://{other}/records/{guid}")
        assert of_both.read(f"memory://{other}/records/{guid}")["content"] == "secret"
        assert list_all(of_search) == []
        assert of_search("resources/templates/list")["resourceTemplates"] == []
        assert [one["name"] for one in of_search("prompts/list")["prompts"]] == [
            "recall_before_answering"
        ]
