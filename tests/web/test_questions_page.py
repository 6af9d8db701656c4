"""The page Tests: golden questions that pass and fail, faults of a file, and rights."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.support.browser import chromium
from tests.support.bundles import make_bundle, make_commands, make_uid
from tests.support.console import open_page, overflow
from tests.support.http import Answer, ask
from tests.support.keys import await_closed, make_key
from tests.support.pages import deploy_bundle, text_of
from tests.support.web_system import WebSystem

CONTRAST = (Path(__file__).parent / "contrast.js").read_text()
QUESTIONS = """
questions:
  - question: green tea
    must: [Ada likes green tea]
  - question: tea
    name: The drink of Ada
    must: ["<b>coffee</b>"]
    must_not: [Ada]
  - question: zebra
    mode: fts
    nothing: true
  - question: tea
    search: items.search
    input: {agent: a, vouched: [chat]}
    must: [tea]
"""


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(WEB__RATE="0") as found:
        yield found


@pytest.fixture(scope="module")
def uid(web_system: WebSystem) -> str:
    uid = deploy_bundle(web_system.url, make_bundle(make_uid(), *make_commands()))
    stored = web_system.post(f"/v1/pipelines/{uid}/records", {"content": "Ada likes green tea"})
    assert stored.status == 201, stored
    return uid


def run(web_system: WebSystem, uid: str, text: str, **headers: str) -> Answer:
    """Send questions as the page does."""
    path = f"/pipelines/{uid}/tests"
    return ask(web_system.url, "POST", path, {"questions": text}, headers)


def test_questions_pass_and_fail(web_system: WebSystem, uid: str) -> None:
    answer = run(web_system, uid, QUESTIONS)
    text = text_of(answer)

    assert answer.status == 200
    assert "2 of 4 passed" in text, text
    assert "not among the first 10" in text and 'not text "Ada"' in text
    assert b"<b>coffee" not in answer.body


@pytest.mark.parametrize(
    ("questions", "fault"),
    [
        ("questions: [{question: tea}]", "Line 1: questions[0]"),
        ("questions: [", "not YAML"),
        (f"questions: [{', '.join(['{question: tea, nothing: true}'] * 201)}]", "at most 200"),
    ],
)
def test_invalid_questions_are_not_asked(
    web_system: WebSystem, uid: str, questions: str, fault: str
) -> None:
    answer = run(web_system, uid, questions)

    assert answer.status == 200 and fault in text_of(answer), text_of(answer)


@pytest.mark.parametrize("body", [b"", b"[]", b'{"questions": 1}', b'{"questions": "\\ud800"}'])
def test_an_invalid_body_is_refused(web_system: WebSystem, uid: str, body: bytes) -> None:
    assert ask(web_system.url, "POST", f"/pipelines/{uid}/tests", body).status == 400


def test_questions_have_the_rights_of_the_caller() -> None:
    with WebSystem() as web_system:
        uid = deploy_bundle(web_system.url, make_bundle(make_uid(), *make_commands()))
        other = deploy_bundle(web_system.url, make_bundle(make_uid(), *make_commands()))
        reader = make_key(web_system.system.root, "read")
        searcher = make_key(web_system.system.root, "read", "search", pipelines=(uid,))
        await_closed(web_system)
        question = "questions: [{question: tea, nothing: true}]"
        refused = run(web_system, uid, question, **reader.headers)
        passed = run(web_system, uid, question, **searcher.headers)
        foreign = run(web_system, other, question, **searcher.headers)

    assert "0 of 1 passed" in text_of(refused) and "scope" in text_of(refused)
    assert "All 1 passed" in text_of(passed)
    assert foreign.status in (403, 404)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "questions.yaml"
    path.write_text(QUESTIONS)
    return path


@pytest.fixture(scope="module")
def browser(web_system: WebSystem) -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("look", [(1280, "light"), (320, "dark")])
def test_a_file_of_questions_is_uploaded_and_run(
    web_system: WebSystem, uid: str, browser: Browser, file: Path, look: tuple[int, str]
) -> None:
    width, scheme = look
    how: Any = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}

    with open_page(browser, web_system, f"/pipelines/{uid}/tests", **how) as page:
        page.get_by_label("Questions from a file").set_input_files(file)
        expect(page.get_by_label("Questions as YAML")).to_have_value(QUESTIONS)
        page.get_by_role("button", name="Run").click()

        expect(page.get_by_role("heading", name="2 of 4 passed")).to_be_visible()
        expect(page.locator("main .rows > li").first).to_contain_text("The drink of Ada")
        assert overflow(page) <= 0
        assert page.evaluate(CONTRAST) >= 4.5
