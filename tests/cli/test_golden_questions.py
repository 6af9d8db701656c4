"""`memrelay test` on a running pipeline and on a store file; planted regressions fail."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from memrelay import open_store
from tests.cli.serving import run_on
from tests.support.bundles import STORE, Json, make_agent, make_bundle, make_commands, make_uid
from tests.support.calls import call
from tests.support.program import Completed
from tests.support.system import TestSystem
from tests.support.waiting import wait_for

GREEN = {"question": "tea", "must": [{"text": "green tea", "max_rank": 1}]}
MEETINGS = {"question": "meetings", "mode": "hybrid", "must": ["The meeting is at noon"]}
FACTS = {"search": "knowledge.search", "memory": "notes"}
MOVIE = FACTS | {"question": "movie", "name": "movie", "must": ["movie begins"]}
LUNCH = FACTS | {"question": "lunch", "name": "lunch", "must": ["Lunch is at noon"]}


@pytest.fixture(scope="module")
def system() -> Iterator[TestSystem]:
    with TestSystem() as system:
        system.start_worker()
        yield system


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "questions.yaml"


def deploy(system: TestSystem, *agents: Json, **keys: Any) -> str:
    uid = make_uid()
    system.deploy(make_bundle(uid, *agents, **keys))
    return uid


def ask_questions(
    system: TestSystem, target: str | Path, file: Path, questions: list[Json], *options: str
) -> Completed:
    file.write_text(json.dumps({"questions": questions}))
    return run_on(system, "test", str(target), str(file), *options)


def names_of_failures(ended: Completed) -> list[str]:
    return [one["name"] for one in ended.lines if not one["passed"]]


def write(system: TestSystem, uid: str, *texts: str) -> None:
    for text in texts:
        system.client.enter(uid, text)
    system.client.await_quiet(uid)


def test_questions_run_on_a_worker_and_have_reports_and_exit_codes(
    system: TestSystem, file: Path
) -> None:
    uid = deploy(system)
    write(system, uid, "/write green tea and more tea, tea", "/write tea with milk")
    milk = {"question": "tea", "name": "no milk", "must_not": ["milk"], "store": STORE}
    junit = file.with_suffix(".xml")

    passed = ask_questions(system, uid, file, [GREEN])
    failed = ask_questions(system, uid, file, [GREEN, milk], "--junit", str(junit))
    lines = ask_questions(system, uid, file, [GREEN, milk], "--json")
    wrong = ask_questions(system, uid, file, [{"question": "tea", "k": 0}])

    assert (passed.code, passed.out) == (0, "1 question: 1 passed, 0 failed\n")
    assert failed.code == 1
    assert failed.out.splitlines()[:2] == [
        "FAILED  no milk",
        '  expected not text "milk": at rank 2: "tea with milk"',
    ]
    suite = ElementTree.parse(junit).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert names_of_failures(lines) == ["no milk"]
    assert [one["rank"] for one in lines.lines[1]["found"]] == [1, 2]
    assert (wrong.code, wrong.out) == (2, "")
    assert wrong.err.startswith(f"{file}:1: questions[0].k: ")
    assert run_on(system, "test", uid, "missing.yaml").code == 2


def test_questions_ask_the_past(system: TestSystem, file: Path) -> None:
    uid = deploy(system)
    write(system, uid, "/write green tea")
    time.sleep(0.02)
    then = str(time.time_ns() // 1_000_000)
    time.sleep(0.02)
    guid = call(system, uid, "records.search", {"query": "tea"})["items"][0]["record"]["guid"]
    write(system, uid, f"/delete {guid}")

    assert ask_questions(system, uid, file, [GREEN]).code == 1
    assert ask_questions(system, uid, file, [GREEN], "--as-of", then).code == 0
    items = {"question": "a", "search": "items.search", "input": {"agent": "a"}, "nothing": True}
    refused = ask_questions(system, uid, file, [items], "--as-of", then, "--json")
    assert "cannot search the past" in refused.lines[0]["error"]


def test_questions_run_on_a_store_file_without_a_server(system: TestSystem, file: Path) -> None:
    path = file.parent / "memories.db"
    with open_store(path, embedder="none") as store:
        store.records.create("green tea")
        store.facts.set(key="drink", value="tea")
        notes = store.memories.create(name="notes").id
        store.entries.create(memory_id=notes, content="Lunch is at noon")
    facts = {"question": "drink", "search": "facts.search", "must": [{"key": "drink"}]}

    ended = ask_questions(system, path, file, [GREEN, LUNCH, facts])

    assert (ended.code, ended.err) == (0, "")
    assert ask_questions(system, path, file, [MOVIE, GREEN], "--json").code == 1
    unknown = ask_questions(system, path, file, [LUNCH | {"memory": "trips"}], "--json")
    assert unknown.lines[0]["error"] == "no memory has the name or id 'trips'"


def test_a_lower_dedup_threshold_fails_the_questions_on_what_it_loses(
    system: TestSystem, file: Path
) -> None:
    def fail_with(threshold: float) -> list[str]:
        arguments = {"memory_id": STORE, "memory": "notes", "duplicate_threshold": threshold}
        uid = deploy(system, make_agent("keep", "memory_entry_write", arguments, senders="User"))
        movie = ["The film starts at noon", "The movie begins at noon"]
        write(system, uid, *movie, "Lunch is at noon")
        return names_of_failures(ask_questions(system, uid, file, [MOVIE, LUNCH], "--json"))

    assert (fail_with(0.95), fail_with(0.75)) == ([], ["movie"])


def test_another_language_fails_the_questions_with_other_forms(
    system: TestSystem, file: Path
) -> None:
    def fail_with(language: str) -> list[str]:
        stores = [{"memory_id": STORE, "language": language}]
        uid = deploy(system, *make_commands(), stores=stores)
        write(system, uid, "/write The meeting is at noon", "/write green tea")
        questions = [MEETINGS, GREEN]
        return names_of_failures(ask_questions(system, uid, file, questions, "--json"))

    assert (fail_with("english"), fail_with("none")) == ([], ["meetings"])


def test_a_deploy_that_requires_tests_is_refused_if_one_fails(
    system: TestSystem, file: Path
) -> None:
    uid = deploy(system)
    bundle = file.with_suffix(".json")

    def deploy_file(*options: str, **keys: str) -> Completed:
        bundle.write_text(json.dumps(make_bundle(uid, name="candidate", **keys)))
        return run_on(system, "deploy", str(bundle), *options)

    def deployed_name() -> str:
        (name,) = [one["name"] for one in run_on(system, "ls").lines if one["pipeline_uid"] == uid]
        return str(name)

    file.write_text(json.dumps({"questions": [GREEN]}))
    named = {"golden_questions": file.name}
    unnamed = deploy_file("--require-tests")
    refused = deploy_file("--require-tests", **named)
    assert (unnamed.code, refused.code, deployed_name()) == (1, 1, "test")
    assert "names no file in `golden_questions`" in unnamed.err
    assert "FAILED  tea\n" in refused.err
    assert refused.err.endswith(
        f"nothing was deployed, because golden questions of {file} fail in pipeline {uid}\n"
    )
    assert deploy_file("--questions", str(file)).code == 1

    write(system, uid, "/write green tea")
    assert deploy_file("--require-tests", **named).code == 0
    assert deployed_name() == "candidate"
    new = run_on(system, "deploy", str(bundle), "--uid", make_uid(), "--questions", str(file))
    assert new.code == 0
    assert "is new, so its golden questions were not asked" in new.err
    file.write_text("questions: []")
    assert deploy_file("--questions", str(file)).code == 2


def test_receipts_propose_questions_that_pass(system: TestSystem, file: Path) -> None:
    uid = deploy(system)
    write(system, uid, "/write green tea", "/write milk")
    asked = {"query": "tea", "mode": "fts", "limit": 5, "receipt": True}
    for query in ("tea", "tea", "sugar"):
        call(system, uid, "records.search", asked | {"query": query})

    def propose() -> str:
        return run_on(system, "test", uid, "--suggest").out

    # Receipts of calls are written after up to a second.
    proposed = wait_for(lambda: propose() if "sugar" in propose() else "", "they are proposed")

    file.write_text(proposed)
    ended = run_on(system, "test", uid, str(file), "--json")
    assert [one["question"] for one in ended.lines] == ["tea", "sugar"]
    assert ended.code == 0
    assert "text: green tea" in proposed and "nothing: true" in proposed
    assert run_on(system, "test", uid).err.startswith("memrelay: name a file of golden questions")
