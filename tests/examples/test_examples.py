"""Each example runs as its README shows, with the real product and a local model."""

import json
import re
import subprocess
from collections.abc import Iterator

import pytest

from tests.support.model_server import ModelServer
from tests.support.sessions import CHECKOUT, Reader, fences

EXAMPLES = CHECKOUT / "examples"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/README.md"))
# `make up` runs for all examples together, and this environment has all extras.
NOT_RUN = ("make up", ".venv/bin/pip install")
BLOCKS = "examples/custom_block/blocks,examples/github_webhook/blocks"


def list_commands(name: str) -> list[str]:
    """Return the commands that the README of an example shows."""
    shown = [text for language, text in fences(EXAMPLES / name / "README.md") if not language]
    return [line for text in shown for line in text.splitlines()]


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    """Return a reader in a checkout in which `make up` runs, with the blocks of the examples."""
    with Reader() as reader:
        (reader.folder / "examples").symlink_to(EXAMPLES)
        reader.environment["MEMRELAY_BLOCKS__PATHS"] = BLOCKS
        reader.environment["GITHUB_WEBHOOK_SECRET"] = "s3cret"
        reader.up()
        reader.environment["SERVER_URL"] = reader.adapted("http://127.0.0.1:8765")
        yield reader


def run_all(reader: Reader, name: str) -> list[str]:
    """Run the commands of a README and return their outputs."""
    return [
        reader.type(command)
        for command in list_commands(name)
        if not any(part in command for part in NOT_RUN)
    ]


def test_each_example_is_listed_and_has_commands() -> None:
    listed = re.findall(r"^\| \[(\w+)\]", (EXAMPLES / "README.md").read_text(), re.MULTILINE)

    assert sorted(listed) == NAMES
    assert len(NAMES) >= 10
    assert all(list_commands(name) for name in NAMES)


def test_the_embedded_store_finds_a_note(reader: Reader) -> None:
    *_, found = run_all(reader, "embedded_store")

    assert found == "Ada prefers tea to coffee\n"


def test_the_chat_bot_remembers_after_a_restart(reader: Reader) -> None:
    (command,) = list_commands("chat_memory")

    def chat(model: ModelServer, *lines: str) -> str:
        return subprocess.run(
            command.split(),
            cwd=reader.folder,
            env=reader.environment | {"MODEL_URL": model.url},
            input="".join(f"{line}\n" for line in lines),
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout

    with ModelServer() as model:
        first = chat(model, "I am allergic to nuts", "I am allergic to nuts")
        chat(model, "Which food am I allergic to?")
        bob = chat(model, "What is dangerous?") and model.sent[-1][0][1]

    assert first == "you said: I am allergic to nuts\n" * 2
    role, prompt = model.sent[2][0]
    assert role == "system"
    assert prompt.count("I am allergic to nuts") == 1
    assert "ada" in bob


def test_the_events_of_github_are_stored_once_and_found(reader: Reader) -> None:
    deployed, posted, found = run_all(reader, "github_webhook")
    send, find = list_commands("github_webhook")[2:]
    repeated = reader.type(send)

    assert "github" in deployed
    assert '"guid"' in posted.replace("\\", "") and repeated == posted
    sentence = "grace opened issue 7 of ada/engine: Search is slow on large stores"
    assert found.count(sentence) == reader.type(find).count(sentence) == 1


def test_the_langgraph_agent_uses_a_fact_in_a_new_thread(reader: Reader) -> None:
    with ModelServer() as model:
        reader.environment["MODEL_URL"] = model.url
        _, shown = run_all(reader, "langgraph_agent")

    system, *thread = model.sent[1]
    assert shown == "you said: May Ada eat nuts?\n"
    assert "Ada is allergic to nuts" in system[1]
    assert thread == [("user", "May Ada eat nuts?")]


def test_an_editor_gets_tools_and_a_recalled_fact(reader: Reader) -> None:
    configuration, shown = run_all(reader, "mcp_editor")

    assert json.loads(configuration)["mcpServers"]["memrelay"]["args"][0] == "mcp"
    assert "memory_remember" in shown
    assert "Ada prefers tabs to spaces" in shown


def test_the_block_removes_private_data(reader: Reader) -> None:
    *_, found, tested = run_all(reader, "custom_block")

    assert "1 passed" in tested
    assert "Write to [removed] or call [removed]" in found
    assert "ada@example.org" not in found


def test_the_stores_are_shared_only_with_those_who_have_a_grant(reader: Reader) -> None:
    (shown,) = run_all(reader, "shared_stores")

    assert shown.splitlines() == [
        "writer reads: The bridge opened in 1932",
        "writer finds: ['bridge']",
        "writer changes: 403",
        "visitor reads: 403",
    ]


def test_the_recipe_reduces_events_to_the_newest_of_each_service(reader: Reader) -> None:
    first = run_all(reader, "recipes")
    second = run_all(reader, "recipes")

    assert sorted(first[0].splitlines()) == ["- The api lost its database", "- mail is late"]
    assert second == first


def test_policies_keep_keys_and_cards_out_of_the_memory(reader: Reader) -> None:
    key, card = "AKIAIOSFODNN7EXAMPLE", "4012 8888 8888 1881"
    tried, refused, _, written, stopped, _, found, verdicts, *past = run_all(
        reader, "moderated_memory"
    )
    pending, hidden, waiting, approved, shown, _, scanned, applied, found_again = past

    assert key not in tried and '"outcome":"stored"' in tried
    assert '"outcome":"refuse","policy":"cards"' in refused
    assert '"guid"' in written.replace("\\", "") and "'cards'" in stopped
    assert "The deploy key is [aws_access_key_id:" in found and "ada@example.org" in found
    assert key not in written + found and card not in stopped + found
    counts = {one["action"]: one["total"] for one in json.loads(verdicts)["counts"]}
    assert counts == {"redact": 1, "refuse": 1, "tag": 1}
    assert '"review":"pending"' in pending and '"policy":"strangers wait"' in waiting
    assert "Paris" not in hidden and "Paris" in shown and '"approved"' in approved
    assert '"found":2' in scanned and '"changed":1' in applied
    assert "ada@example.org" not in found_again and "[email:" in found_again


@pytest.mark.slow
def test_golden_questions_find_what_a_lower_threshold_loses(reader: Reader) -> None:
    shown = run_all(reader, "rehearsal")

    tested, candidate, corrected, deployed, on_tuesday, now = shown[2:]
    assert tested == "4 questions: 4 passed, 0 failed\n"
    assert "golden questions: 4 of 4 pass, and 2 under the candidate" in candidate
    assert re.findall(r"question fails, passed before: (.*)", candidate) == [
        "When does Globex pay?",
        "allergies",
    ]
    assert "golden questions: 4 of 4 pass, and 4 under the candidate" in corrected
    assert '"version":2' in deployed
    assert "within thirty days" in now and "within thirty days" not in on_tuesday
    assert "Globex pays by invoice" in on_tuesday


@pytest.mark.parametrize("name", NAMES)
def test_the_program_of_an_example_has_type_annotations(name: str) -> None:
    for path in sorted((EXAMPLES / name).rglob("*.py")):
        text = path.read_text()
        assert text.startswith('"""'), path
        assert not re.search(r"^\s*def \w+\([^)]*\):", text, re.MULTILINE), path
