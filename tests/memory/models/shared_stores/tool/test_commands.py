"""The commands of the memory tool (G2, G3) and its actions (G1), in a store."""

from collections.abc import Iterator
from typing import Any

import pytest

from memrelay.memory.engine.store import Store
from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.errors import Refused
from tests.memory.builders import NOW
from tests.memory.models.shared_stores.tool.calls import Agent, open_home

DENIED = "Access denied to this store"


@pytest.fixture
def store() -> Iterator[Store]:
    with open_home() as store:
        yield store


@pytest.fixture
def agent(store: Store) -> Agent:
    return Agent(store)


def test_a_note_is_created_and_edited_literally(agent: Agent) -> None:
    path = "/memories/notes.md"

    assert agent.use("create", path, content="hello world") == f"Created {path}"
    assert agent.call("items.get", store="a1", key="notes").value == "hello world"
    assert agent.use("edit", path, old_str="hello", new_str="$&") == (
        f"Edited {path}\n  - …[hello] world…\n  + …[$&] world…"
    )
    assert agent.use("view", path)["value"] == "$& world"


def test_an_edit_shows_forty_characters_on_each_side(agent: Agent) -> None:
    agent.use("create", key="k", content="a" * 50 + "X" + "b" * 50)

    assert agent.use("edit", key="k", old_str="X", new_str="") == (
        f"Edited /memories/k\n  - …{'a' * 40}[X]{'b' * 40}…\n  + …{'a' * 40}[]{'b' * 40}…"
    )


@pytest.mark.parametrize(
    ("value", "old", "text"),
    [
        ("a a a", "x", "old_str not found in /memories/k"),
        (
            "a a a",
            "a",
            "old_str matches 3 times in /memories/k. Add more surrounding context so the match "
            "is unique.",
        ),
        (
            {"x": 1},
            "x",
            "Cannot edit /memories/k: value is object, not text. Use create to overwrite, or "
            "fetch + delete + create to convert.",
        ),
        (
            None,
            "x",
            "Cannot edit /memories/k: value is null, not text. Use create to overwrite, or "
            "fetch + delete + create to convert.",
        ),
    ],
)
def test_an_edit_that_is_not_unique_changes_nothing(
    agent: Agent, value: Any, old: str, text: str
) -> None:
    agent.answer({"action": "set", "key": "k", "value": value})

    assert agent.fail("edit", key="k", old_str=old, new_str="b") == text
    assert agent.use("view", key="k")["value"] == value


def test_a_value_of_the_first_generation_is_seen_by_the_others(agent: Agent) -> None:
    assert agent.answer({"action": "set", "key": "k", "value": 1}) == ("OK", False)

    assert agent.use("view", key="k")["value"] == 1
    assert agent.use("view", "/memories/k")["value"] == 1
    assert agent.answer({"action": "get", "key": "x"}) == (None, False)
    assert agent.use("view", "/memories/x.md") is None


def test_an_entry_is_shown_as_by_rest(agent: Agent) -> None:
    agent.use("create", "/memories/k", content=[1, None])
    entry = agent.use("view", "/memories/k")
    got = agent.answer({"action": "get", "key": "k"})

    assert got == (entry, False)
    assert {name: entry[name] for name in entry if name not in ("createdAt", "updatedAt")} == {
        "key": "k",
        "value": [1, None],
        "namespace": "",
        "storeId": "a1",
        "ownerId": "a1",
        "inContext": True,
        "encrypted": False,
        "expiresAt": None,
        "version": entry["version"],
    }


def test_a_folder_lists_the_keys_with_its_prefix_in_pages(agent: Agent) -> None:
    for key in ("a/b", "a/c", "z"):
        agent.use("create", key=key, content="tea")
    agent.use("create", key="a/d", content={"x": 1})
    folder = agent.use("view", "/memories/a/")
    whole = agent.use("view", "/memories")

    assert [(one["key"], one["size"], one["ownerId"]) for one in folder["entries"]] == [
        ("a/b", 3, "a1"),
        ("a/c", 3, "a1"),
        ("a/d", 7, "a1"),
    ]
    assert folder["entries"][0].keys() == {"key", "size", "ownerId", "updatedAt"}
    assert (folder["keys"], folder["cursor"]) == (["a/b", "a/c", "a/d"], None)
    assert whole["keys"] == [*folder["keys"], "z"] == agent.use("view")["keys"]
    for number in range(100):
        agent.use("create", key=f"p/{number:03}", content="")
    first = agent.use("view")
    assert len(first["keys"]) == 100
    assert len(agent.use("view", cursor=first["cursor"])["keys"]) == 4
    assert agent.fail("view", cursor="x") == "Memory list failed: 400"


def test_a_path_with_the_suffix_means_exactly_that_key_if_it_exists(agent: Agent) -> None:
    agent.use("create", key="a.md", content="exact")
    agent.use("create", key="a", content="short")

    assert agent.use("view", "/memories/a.md")["value"] == "exact"
    agent.use("create", "/memories/a.md", content="newer")
    assert [agent.use("view", key=key)["value"] for key in ("a.md", "a")] == ["newer", "short"]
    assert agent.use("delete", "/memories/a.md") == "Deleted /memories/a.md"
    assert agent.use("view", "/memories/a.md")["value"] == "short"
    assert agent.use("delete", "/memories/a.md") == "Deleted /memories/a.md"
    assert agent.use("view")["keys"] == []


def test_a_rename_keeps_the_entry_and_never_overwrites(agent: Agent) -> None:
    agent.use("create", "/memories/a.md", content="tea")
    guid = agent.call("items.get", store="a1", key="a").guid
    assert agent.use("rename", "/memories/a.md", new_str="/memories/a") == (
        "Renamed /memories/a.md → /memories/a"
    )
    assert agent.use("view", "/memories/a.md")["value"] == "tea"
    agent.use("create", key="b", content="coffee")

    assert agent.fail("rename", "/memories/a", new_str="/memories/b").startswith(
        "/memories/b already exists"
    )
    assert [agent.use("view", key=key)["value"] for key in "ab"] == ["tea", "coffee"]
    agent.use("rename", key="a", new_str="c.md")
    assert agent.call("items.get", store="a1", key="c.md").guid == guid
    assert agent.fail("rename", key="a", new_str="d") == "Memory not found: /memories/a"


def test_a_bare_new_key_stays_in_its_store(store: Store, agent: Agent) -> None:
    agent.call("grants.set", store="a1", grantee="a2", level="readwrite")
    other = Agent(store, "a2")
    other.use("create", "/memories/shared/a1/k", content="tea")
    other.use("rename", "/memories/shared/a1/k", new_str="m")

    assert agent.use("view", key="m")["ownerId"] == "a2"
    assert other.use("view")["keys"] == []
    assert agent.fail("rename", key="m", new_str="n") == DENIED
    assert agent.fail("delete", key="m") == DENIED
    assert agent.answer({"action": "delete", "key": "m"}) == ({"error": "Access denied"}, True)
    assert other.use("rename", store="a1", key="m", new_str="/memories/m").startswith("Renamed")
    assert other.use("view")["keys"] == ["m"]


@pytest.mark.parametrize("command", ["edit", "delete", "rename"])
def test_a_missing_entry_is_an_error_with_its_path(agent: Agent, command: str) -> None:
    given = {"old_str": "a", "new_str": "b"}

    assert agent.fail(command, key="x/y", **given) == "Memory not found: /memories/x/y"
    assert agent.fail(command, "/memories/x.md", **given) == "Memory not found: /memories/x.md"


def test_deleting_a_missing_key_is_no_error_in_the_first_generation(agent: Agent) -> None:
    assert agent.answer({"action": "delete", "key": "x"}) == ("OK", False)


def test_an_internal_entry_does_not_exist_except_for_create(agent: Agent) -> None:
    agent.call("items.put", store="a1", key="s", value="secret", in_context=False)

    assert agent.use("view", key="s") is None
    assert agent.use("view")["keys"] == []
    assert agent.use("search", query="secret") == {"results": []}
    assert agent.fail("edit", key="s", old_str="e", new_str="") == "Memory not found: /memories/s"
    assert agent.fail("delete", key="s") == "Memory not found: /memories/s"
    assert agent.fail("rename", key="s", new_str="t") == "Memory not found: /memories/s"
    assert agent.fail("create", key="s", content="x") == DENIED
    assert agent.fail("create", "/memories/s.md", content="x") == DENIED
    assert agent.answer({"action": "get", "key": "s"}) == (None, False)
    assert agent.answer({"action": "delete", "key": "s"}) == ("OK", False)
    assert agent.call("items.get", store="a1", key="s", internal=True).value == "secret"


@pytest.mark.parametrize(
    ("level", "errors"),
    [
        (None, [DENIED] * 4 + ["Memory not found: /memories/shared/a1/k"]),
        ("search", [DENIED] * 4 + ["Memory not found: /memories/shared/a1/k"]),
        ("read", ["", DENIED, DENIED, DENIED, "Memory edit failed: 403"]),
        ("readwrite", [""] * 5),
    ],
)
def test_each_command_needs_its_level(
    store: Store, agent: Agent, level: str | None, errors: list[str]
) -> None:
    agent.use("create", key="k", content="green tea")
    if level is not None:
        agent.use("share", agent="a2", level=level)
    other, at = Agent(store, "a2"), {"store": "a1", "key": "k"}
    told = [
        other.answer({"command": command} | at | given)
        for command, given in [
            ("view", {}),
            ("create", {"content": "green tea"}),
            ("rename", {"new_str": "m"}),
            ("delete", {"key": "m"}),
            ("edit", {"old_str": "tea", "new_str": "tee"}),
        ]
    ]

    assert [value["error"] if is_error else "" for value, is_error in told] == errors
    found = other.use("search", query="green")["results"]
    assert [one["storeId"] for one in found] == ([] if level is None else ["a1"])
    assert other.answer({"command": "share", "store": "a1", "agent": "a3"}) == (
        ("OK", False)
        if level == "readwrite"
        else ({"error": "You need write access to share this store"}, True)
    )


def test_sharing_and_its_end(store: Store, agent: Agent) -> None:
    other = Agent(store, "a2")
    agent.use("create", key="k", content="green tea")

    assert agent.use("share", agent="a2") == "OK"
    assert other.use("stores")["stores"][1:] == [
        {"storeId": "a1", "level": "read", "source": "grant"}
    ]
    assert other.use("view", "/memories/shared/") == other.use("stores")
    assert other.use("view", "/memories/shared/a1")["keys"] == ["k"]
    lower = agent.use("share", agent="a2", level="search")
    assert lower == {"success": True, "lowers": True}
    assert agent.use("unshare", "/memories/shared/a1/", agent="a2") == "OK"
    assert other.fail("view", store="a1") == DENIED == other.fail("view", store="none")
    assert other.fail("unshare", store="a1", agent="a3") == (
        "You need write access to unshare this store"
    )
    assert agent.fail("share", agent="a1") == "Memory share failed: 400"
    assert other.answer({"action": "share", "store": "a1", "agent": "a3"}) == (
        {"error": "Access denied"},
        True,
    )
    assert agent.answer({"action": "share", "agent": "a2", "level": None}) == ("OK", False)


def test_scopes_of_the_conversation(agent: Agent) -> None:
    session = {"user": "user:ann", "chat": "chat:p/talk", "vouched": ["user", "chat"]}
    for scope in ("user", "chat"):
        created = {"command": "create", "scope": scope, "key": "k", "content": scope}
        assert agent.answer(created, **session)[1] is False

    found = agent.answer({"command": "view", "scope": "user", "key": "k"}, **session)[0]
    assert (found["storeId"], found["value"]) == ("user:ann", "user")
    assert agent.use("view", key="k") is None
    assert agent.fail("view", scope="user") == 'scope "user" needs a userId in this conversation'
    assert agent.answer({"command": "view", "scope": "user"}, user="user:ann") == (
        {"error": DENIED},
        True,
    )


def test_a_search_covers_all_stores_or_the_named_one(store: Store, agent: Agent) -> None:
    agent.use("create", key="k", content="green tea")
    agent.use("share", agent="a2", level="search")
    other = Agent(store, "a2")
    other.use("create", key="m", content="black tea")

    found = other.use("search", query="tea")["results"]
    assert {(one["storeId"], one["key"]) for one in found} == {("a1", "k"), ("a2", "m")}
    assert found[0].keys() == {"key", "value", "storeId", "ownerId", "score"}
    (only,) = other.use("search", query="tea", store="a1")["results"]
    assert only["value"] == "green tea"
    entries = other.answer({"action": "search", "query": "tea", "store": "self"})[0]["entries"]
    assert entries == [
        {
            "key": "m",
            "value": "black tea",
            "namespace": "",
            "ownerId": "a2",
            "inContext": True,
            "storeId": "a2",
        }
    ]


def test_a_list_of_the_first_generation_has_values(agent: Agent) -> None:
    agent.use("create", key="a/b", content="tea")
    agent.use("create", key="c", content="tea")

    assert agent.answer({"action": "list", "prefix": "a/"})[0] == {
        "entries": [
            {"key": "a/b", "value": "tea", "namespace": "", "ownerId": "a1", "inContext": True}
        ]
    }
    assert agent.answer({"action": "stores"})[0] == {
        "stores": [{"storeId": "a1", "level": "readwrite", "source": "self"}]
    }
    assert agent.answer({"action": "list", "store": "a2"}) == ({"error": "Access denied"}, True)


def test_an_entry_expires_by_its_ttl_or_the_default(agent: Agent) -> None:
    agent.answer({"action": "set", "key": "k", "value": 1, "ttl": 2})
    agent.answer({"command": "create", "key": "m", "content": ""}, default_ttl_s=2)
    agent.answer({"action": "set", "key": "n", "value": 1, "ttl": 0}, default_ttl_s=2)
    assert agent.use("view")["keys"] == ["k", "m", "n"]
    agent.now_ms = NOW + 2000

    assert agent.use("view")["keys"] == ["n"]


def test_a_value_that_is_too_large_is_refused(agent: Agent) -> None:
    large = "x" * (256 * 1024 + 1)
    agent.use("create", key="k", content=large[1:])

    assert agent.fail("create", key="k", content=large) == "Value too large"
    assert agent.answer({"action": "set", "key": "k", "value": large}) == (
        {"error": "Value too large"},
        True,
    )
    agent.use("create", key="m", content="X" + large[2:])
    assert agent.fail("edit", key="m", old_str="X", new_str="XX") == "Memory edit failed: 413"


def test_memory_that_is_switched_off_denies_every_command(agent: Agent) -> None:
    agent.use("create", key="k", content="x")
    agent.call("stores.configure", enabled=False)

    assert agent.fail("view", key="k") == DENIED
    assert agent.fail("create", key="k", content="y") == DENIED
    assert agent.use("stores") == {"stores": []}
    assert agent.use("search", query="x") == {"results": []}


def test_reading_and_changing_calls_have_an_operation_each(agent: Agent) -> None:
    with pytest.raises(Refused, match=r"call memory_tool\.write"):
        agent.call("memory_tool.read", arguments={"command": "create"})
    with pytest.raises(Refused, match=r"call memory_tool\.read"):
        agent.call("memory_tool.write", arguments={"command": "view"})


def test_stores_are_listed_in_pages(store: Store, agent: Agent) -> None:
    for number in range(101):
        Agent(store, f"b{number:03}").call(
            "grants.set", store=f"b{number:03}", grantee="a1", level="read"
        )

    first = agent.use("stores")

    assert len(first["stores"]) == 100
    rest = agent.use("stores", cursor=first["cursor"])
    assert [one["storeId"] for one in rest["stores"]] == ["b099", "b100"]
    assert "cursor" not in rest
    assert agent.use("view", "/memories/shared/", cursor=first["cursor"]) == rest
    assert agent.answer({"action": "stores", "cursor": first["cursor"]}) == (rest, False)


@pytest.mark.parametrize("write", [{"command": "create", "content": None}, {"action": "set"}])
def test_a_value_that_is_nested_too_deeply_is_an_error(agent: Agent, write: dict[str, str]) -> None:
    deep: Any = []
    for _ in range(150):
        deep = [deep]

    value, is_error = agent.answer(write | {"key": "k", "content": deep, "value": deep})

    assert is_error and "more than 128 levels" in value["error"]
    assert agent.use("view") == {"entries": [], "keys": [], "cursor": None}


@pytest.mark.parametrize("name", ["command", "action"])
def test_a_shared_store_can_have_an_end(agent: Agent, name: str) -> None:
    value, is_error = agent.answer({name: "share", "agent": "a2", "ttl": 10})

    assert (value, is_error) == ("OK", False)
    (grant,) = agent.call("grants.list").grants
    assert grant.expires_at == format_time(NOW + 10_000)
    assert agent.fail("share", agent="a2", ttl=-1) == "Memory share failed: 400"


def test_the_path_of_a_store_with_a_slash_works(agent: Agent) -> None:
    chat = {"chat": "chat:p/100%", "vouched": ["chat"]}
    create = {"command": "create", "scope": "chat", "key": "a/k", "content": "green tea"}
    value, _ = agent.answer(create, **chat)
    path = value.removeprefix("Created ")
    assert path == "/memories/shared/chat:p%2F100%25/a/k"

    found, is_error = agent.answer({"command": "view", "path": path}, **chat)
    assert (found["storeId"], found["key"], is_error) == ("chat:p/100%", "a/k", False)
    edit = {"command": "edit", "old_str": "green", "new_str": "black"}
    assert agent.answer(edit | {"path": path.replace("%2F", "%2f")}, **chat)[1] is False
    rename = {"command": "rename", "path": path, "new_str": f"{path}2"}
    assert agent.answer(rename, **chat)[0] == f"Renamed {path} → {path}2"
