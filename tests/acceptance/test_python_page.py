"""The examples of docs/python.md run as shown, and the public API is typed and loads lazily."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import memrelay
from tests.support.bundles import make_bundle, make_uid
from tests.support.sessions import CHECKOUT, fences
from tests.support.web_system import WebSystem

SHOWN = [text for language, text in fences(CHECKOUT / "docs" / "python.md") if language == "python"]
EMBEDDED = next(text for text in SHOWN if "open_store" in text)
# It uses each public name, each kind of method and each keyword of the client's methods.
SCRIPT = """
import memrelay
from memrelay import BlockArgs, Call, Message, Transient, block, connect, connect_sync, open_store
from memrelay.errors import RelayError


class GreetArgs(BlockArgs):
    greeting: str = "Hello"


@block("greet", GreetArgs)
def greet(call: Call, args: GreetArgs) -> Message:
    if not call.text:
        raise Transient("no name yet", after_s=1)
    return call.reply(f"{args.greeting}, {call.text}!")


async def main() -> None:
    async with connect("http://127.0.0.1:8765", "key") as client:
        deployed = await client.deploy({"agents": []}, uid="a", if_match="hash")
        made = await client.records.create(deployed.uid, "tea", tags=["a"], idempotency_key="k")
        await client.records.update(deployed.uid, made.guid, if_version=[made.version])
        hits = await client.records.search(deployed.uid, "tea", mode="hybrid", store="notes")
        score: float = hits.items[0].score
        for result in await client.say(deployed.uid, "/write tea", swarm="chat", wait_s=5):
            print(result.text, score)
        async for live in client.listen(deployed.uid, "chat", after="0-0"):
            print(live.cursor, live.message.text)


def blocking(client: memrelay.BlockingClient) -> str:
    page = client.memories.list("a", order="desc")
    for live in client.listen("a"):
        print(live.mid, page.items[0].name, client.say("a", "hi")[0].sender)
    return client.records.write("a", "tea", kind="note").guid


def embedded(store: memrelay.EmbeddedStore) -> bool:
    print(store.entries.write("mem_1", "tea", mode="merge").action)
    return store.knowledge.search("tea").degraded


try:
    with open_store("notes.db", actor="me") as store, connect_sync("http://localhost") as client:
        print(embedded(store), blocking(client))
except RelayError as error:
    print(error.status, error.faults)
except memrelay.errors.MemoryFault:
    pass
"""
WRONG = """
from memrelay import connect_sync, open_store

with open_store("notes.db") as store, connect_sync("http://localhost") as client:
    store.records.create("tea", colour="green")
    client.records.search("uid", "tea", mode="fuzzy")
    client.records.list("uid").elements
"""


def shown(name: str) -> Any:
    """Return a function of the page's examples."""
    found: dict[str, Any] = {}
    exec(next(text for text in SHOWN if f"def {name}(" in text), found)
    return found[name]


def check_types(folder: Path, program: str) -> str:
    file = folder / "script.py"
    file.write_text(program)
    cache = CHECKOUT / ".mypy_cache"
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache), str(file)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem() as web_system:
        yield web_system


def test_the_examples_of_the_clients_run(
    web_system: WebSystem, capsys: pytest.CaptureFixture[str]
) -> None:
    url, uid, other = web_system.url, web_system.deploy(), web_system.deploy()

    assert shown("remember")(url, uid) == "Ada prefers tea"
    assert asyncio.run(shown("remember_once")(url, other)) == 1
    assert "404 no record has the guid 'nobody'" in capsys.readouterr().out


def test_the_examples_of_messages_run(web_system: WebSystem) -> None:
    uid = make_uid()

    (answer,) = shown("converse")(web_system.url, make_bundle(uid))

    assert answer.startswith('{"guid":')
    assert asyncio.run(shown("first_text")(web_system.url, uid)) == "/write The meeting is at 3pm"


def test_the_example_of_the_embedded_store_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    exec(EMBEDDED, {})

    assert capsys.readouterr().out == "['Ada prefers tea\\nwith milk']\n"
    assert (tmp_path / "notes.db").exists()


@pytest.mark.parametrize("program", [SCRIPT, *SHOWN], ids=lambda text: text.split()[-1][:20])
def test_mypy_strict_accepts_a_script_that_uses_the_api(tmp_path: Path, program: str) -> None:
    assert "Success: no issues found" in check_types(tmp_path, program)


def test_mypy_finds_a_wrong_argument_and_a_wrong_attribute(tmp_path: Path) -> None:
    found = check_types(tmp_path, WRONG)

    assert 'Unexpected keyword argument "colour"' in found
    assert 'Argument "mode"' in found
    assert '"RecordPage" has no attribute "elements"' in found


def test_each_public_name_resolves() -> None:
    for name in memrelay.__all__:
        assert getattr(memrelay, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'conect'"):
        memrelay.conect  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import memrelay", {"aiohttp", "pydantic", "memrelay.memory"}),
        ("from memrelay import block", {"aiohttp", "redis", "numpy"}),
        ("from memrelay import open_store", {"aiohttp", "redis", "memrelay.cli", "memrelay.web"}),
        ("from memrelay import connect", {"aiohttp.web", "memrelay.cli", "memrelay.web.server"}),
    ],
)
def test_a_public_name_loads_no_part_of_a_server(statement: str, absent: set[str]) -> None:
    program = f"import sys; {statement}; print(*sys.modules)"

    done = subprocess.run(
        [sys.executable, "-c", program], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )

    assert absent & set(done.stdout.split()) == set()
