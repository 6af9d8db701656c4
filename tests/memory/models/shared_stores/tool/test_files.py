"""Anthropic's memory tool on the agent's own store."""

from collections.abc import Iterator

import pytest

from memrelay.memory.engine.store import Store
from tests.memory.models.shared_stores.tool.calls import Agent, open_home

MISSING = "The path {} does not exist. Please provide a valid path."


@pytest.fixture
def store() -> Iterator[Store]:
    with open_home() as store:
        yield store


@pytest.fixture
def agent(store: Store) -> Agent:
    return Agent(store, dialect="anthropic")


def test_a_file_is_created_edited_and_deleted(agent: Agent) -> None:
    path = "/memories/t"

    assert (
        agent.use("create", path, file_text="one\ntwo") == f"File created successfully at: {path}"
    )
    assert agent.fail("create", path, file_text="x") == f"File {path} already exists"
    assert agent.use("view", path) == (
        f"Here's the content of {path} with line numbers:\n     1\tone\n     2\ttwo"
    )
    assert agent.use("str_replace", path, old_str="two", new_str="2") == (
        "The memory file has been edited. Here is the snippet showing the change (with line "
        "numbers):\n     1\tone\n     2\t2"
    )
    edited = agent.use("insert", path, insert_line=0, insert_text="zero")
    assert edited == f"The file {path} has been edited."
    assert agent.call("items.get", store="a1", key="t").value == "zero\none\n2\n"
    assert agent.use("delete", path) == f"Successfully deleted {path}"
    assert agent.fail("view", path) == MISSING.format(path)


def test_a_key_keeps_its_suffix_and_a_folder_is_a_prefix(agent: Agent) -> None:
    agent.use("create", "/memories/a/b.md", file_text="x" * 1536)
    agent.use("create", "/memories/a/c/d", file_text="é")

    assert agent.use("view", "/memories").split("\n")[1:] == [
        "1.5K\t/memories",
        "1.5K\t/memories/a/",
        "1.5K\t/memories/a/b.md",
        "2B\t/memories/a/c/",
    ]
    renamed = agent.use("rename", old_path="/memories/a", new_path="/memories/z/y")
    assert renamed == "Successfully renamed /memories/a to /memories/z/y"
    assert agent.call("items.list", store="a1").keys == ("z/y/b.md", "z/y/c/d")
    assert agent.use("delete", "/memories/z") == "Successfully deleted /memories/z"
    assert agent.call("items.list", store="a1").keys == ()


@pytest.mark.parametrize(
    ("command", "given", "text"),
    [
        ("view", {"path": "/memories/x"}, MISSING.format("/memories/x")),
        ("view", {"path": "/x"}, "Path must start with /memories, got: /x"),
        ("view", {}, "path is required for view"),
        (
            "view",
            {"path": "/memories/f", "view_range": ["a", 1]},
            "view_range must be two numbers: the first and the last line",
        ),
        (
            "create",
            {"path": "/memories/../x", "file_text": ""},
            "Path /memories/../x would escape /memories directory",
        ),
        ("create", {"path": "/memories", "file_text": ""}, "File /memories already exists"),
        ("create", {"path": "/memories/x"}, "file_text is required for create"),
        (
            "create",
            {"path": "/memories/f/g", "file_text": ""},
            "The path /memories/f is a file, not a folder.",
        ),
        (
            "create",
            {"path": "/memories/" + "x" * 201, "file_text": ""},
            "A path has at most 200 characters after /memories/",
        ),
        (
            "str_replace",
            {"path": "/memories/d", "old_str": "a", "new_str": "b"},
            "The path /memories/d is not a file.",
        ),
        (
            "str_replace",
            {"path": "/memories/x", "old_str": "a", "new_str": "b"},
            MISSING.format("/memories/x"),
        ),
        (
            "str_replace",
            {"path": "/memories/n", "old_str": "1", "new_str": "2"},
            "Cannot edit /memories/n: value is number, not text.",
        ),
        (
            "insert",
            {"path": "/memories", "insert_line": 0, "insert_text": ""},
            "The path /memories is not a file.",
        ),
        ("delete", {"path": "/memories"}, "Cannot delete the /memories directory itself"),
        ("delete", {"path": "/memories/x"}, "The path /memories/x does not exist"),
        (
            "rename",
            {"old_path": "/memories", "new_path": "/memories/y"},
            "Cannot rename the /memories directory itself",
        ),
        (
            "rename",
            {"old_path": "/memories/x", "new_path": "/memories/y"},
            "The path /memories/x does not exist",
        ),
        (
            "rename",
            {"old_path": "/memories/f", "new_path": "/memories/d"},
            "The destination /memories/d already exists",
        ),
        (
            "rename",
            {"old_path": "/memories/d", "new_path": "/memories/d/e"},
            "Cannot rename /memories/d to /memories/d/e: the destination is inside of it",
        ),
        (
            "",
            {},
            "command is required. Use view, create, str_replace, insert, delete, or rename.",
        ),
        (
            "move",
            {},
            "Unknown command: move. Use view, create, str_replace, insert, delete, or rename.",
        ),
    ],
)
def test_an_error_is_a_plain_text(
    agent: Agent, command: str, given: dict[str, object], text: str
) -> None:
    agent.use("create", "/memories/f", file_text="")
    agent.use("create", "/memories/d/g", file_text="")
    agent.call("items.put", store="a1", key="n", value=1)

    assert agent.fail(command, **given) == text
    assert agent.call("items.list", store="a1").keys == ("d/g", "f", "n")


def test_a_new_file_expires_by_the_default(agent: Agent) -> None:
    create = {"command": "create", "path": "/memories/t", "file_text": "x"}
    agent.answer(create, default_ttl_s=2)
    agent.use("insert", "/memories/t", insert_line=0, insert_text="y")
    agent.now_ms += 2000

    assert agent.fail("view", "/memories/t") == MISSING.format("/memories/t")


def test_an_internal_entry_only_holds_its_key(agent: Agent) -> None:
    agent.call("items.put", store="a1", key="s", value="secret", in_context=False)
    agent.call("items.put", store="a1", key="e/s", value="secret", in_context=False)
    agent.use("create", "/memories/d/s", file_text="x")

    assert agent.fail("view", "/memories/s") == MISSING.format("/memories/s")
    assert "s" not in agent.use("view", "/memories").split("/memories/")[1:]
    assert agent.fail("delete", "/memories/s") == "The path /memories/s does not exist"
    assert agent.fail("create", "/memories/s", file_text="") == "File /memories/s already exists"
    for new in ("/memories/s", "/memories/e"):
        old = "/memories/d/s" if new == "/memories/s" else "/memories/d"
        assert agent.fail("rename", old_path=old, new_path=new) == (
            f"The destination {new} already exists"
        )


def test_a_file_of_another_agent_is_edited_but_not_deleted(store: Store, agent: Agent) -> None:
    agent.call("grants.set", store="a1", grantee="a2", level="readwrite")
    Agent(store, "a2").use("create", store="a1", key="d/k", content="one")

    agent.use("str_replace", "/memories/d/k", old_str="one", new_str="two")
    entry = agent.call("items.get", store="a1", key="d/k")
    assert (entry.value, entry.owner) == ("two", "a2")
    assert agent.fail("delete", "/memories/d") == "Access denied to this store"
    assert agent.fail("rename", old_path="/memories/d", new_path="/memories/e") == (
        "Access denied to this store"
    )
    Agent(store, "a1").use("create", key="d/k", content="mine")
    assert agent.use("view", "/memories").count("/memories/d/k") == 1
    assert agent.use("view", "/memories/d/k").endswith("mine")


def test_a_listing_reads_sizes_without_values(store: Store, agent: Agent) -> None:
    values = {
        "a/deep/er/x": "é" * 100,
        "a/y": {"k": [1, "é"]},
        "b": "",
        "c": True,
        "d": "text",
    }
    for key, value in values.items():
        agent.call("items.put", store="a1", key=key, value=value, encrypted=key in "cd")
    statements: list[str] = []
    store._connection.exec_trace = lambda _, sql, values: statements.append(sql) or True

    listing = agent.use("view", "/memories")

    store._connection.exec_trace = None
    assert listing.split("\n")[1:] == [
        "222B\t/memories",
        "214B\t/memories/a/",
        "200B\t/memories/a/deep/",
        "14B\t/memories/a/y",
        "0B\t/memories/b",
        "4B\t/memories/c",
        "4B\t/memories/d",
    ]
    assert not any("r.content," in sql for sql in statements if "store_items" in sql)
