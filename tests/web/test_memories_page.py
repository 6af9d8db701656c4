"""The page /memories as text: tabs, rows, escaping, the pager, access, and the record page."""

import re
from collections.abc import Iterator

import pytest

from memrelay.web.console.frame import PAGE_PATHS
from memrelay.web.console.pages.agent_memory import TABS, make_pager
from tests.support.http import Answer, ask
from tests.support.keys import await_closed, make_key
from tests.support.pages import text_of
from tests.support.pipelit import Pipelit
from tests.support.web_system import WebSystem

HOSTILE = '"><script>alert(1)</script>'
EMPTY = {
    "facts": "No facts stored yet",
    "episodes": "No episodes recorded yet",
    "checkpoints": "No checkpoints found",
    "procedures": "No procedures learned yet",
    "users": "No users identified yet",
}


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(WEB__RATE="0") as web_system:
        yield web_system
        assert not [event for event in web_system.web.events if event["event"] == "request_failed"]


@pytest.fixture
def pipelit(web_system: WebSystem) -> Pipelit:
    return Pipelit(web_system, web_system.deploy())


def show(pipelit: Pipelit, query: str = "") -> Answer:
    answer = pipelit.web_system.get(f"/memories?pipeline={pipelit.uid}&{query}")
    assert answer.status == 200, answer
    return answer


def test_each_tab_has_its_columns_and_its_empty_text(pipelit: Pipelit) -> None:
    pipelit.chat("t1", "hello")

    assert list(TABS) == list(EMPTY)
    assert "No facts stored yet" in text_of(show(pipelit))
    for name in ("facts", "episodes", "procedures", "users"):
        assert EMPTY[name] in text_of(show(pipelit, f"tab={name}"))
    text = text_of(show(pipelit, "tab=checkpoints"))
    assert "Thread ID Checkpoint ID Parent Step Source Blob Size t1 " in text
    assert ("Showing 1-3 of 3" in text and " KB" in text) or " B " in text
    assert EMPTY["checkpoints"] in text_of(
        pipelit.web_system.get(f"/memories?tab=checkpoints&pipeline={pipelit.web_system.deploy()}")
    )


def test_the_rows_of_facts_episodes_procedures_and_users(pipelit: Pipelit) -> None:
    pipelit.set_fact("long", "x" * 61)
    pipelit.set_fact("object", {"a": 1}, fact_type="correction")
    episode = pipelit.operate("episodes/begin", agent_id="a1", trigger_type="chat")["id"]
    pipelit.operate(f"episodes/{episode}/complete", success=True)
    given = {"agent_id": "a1", "name": "greet", "procedure_type": "prompt_template"}
    pipelit.operate("procedures/save", **given, procedure_content={"template": "Hi"})
    pipelit.identify("7")

    facts = text_of(show(pipelit))
    assert f"long {'x' * 60}... global world_knowledge 100% 0 " in facts
    assert "object a: 1 global correction 100% 0 " in facts
    assert "a1 chat Yes — " in text_of(show(pipelit, "tab=episodes"))
    assert "greet a1 prompt_template 0 50% Yes" in text_of(show(pipelit, "tab=procedures"))
    assert "— telegram:7 7 — 1 " in text_of(show(pipelit, "tab=users"))


def test_filters_and_a_search_narrow_the_facts(pipelit: Pipelit) -> None:
    pipelit.set_fact("local_time", "12:00")
    pipelit.set_fact("color", "blue", scope="user", user_id="u1", fact_type="user_preference")

    def keys(query: str) -> list[bool]:
        text = text_of(show(pipelit, query))
        return ["local_time" in text, "color" in text]

    assert keys("q=time%20local") == [True, False]
    assert keys("scope=user") == [False, True]
    assert keys("fact_type=world_knowledge&scope=") == [True, False]
    assert keys("q=blue&scope=global") == [False, False]
    assert "Nothing matches. Show all" in text_of(show(pipelit, "q=nothing"))


def test_the_facts_of_a_past_time_cannot_be_deleted(pipelit: Pipelit) -> None:
    pipelit.set_fact("drink", "tea")
    pipelit.set_fact("drink", "coffee")

    past, present = show(pipelit, "as_of=n:1"), show(pipelit)

    assert "tea" in text_of(past) and "coffee" not in text_of(past)
    assert "This list shows the past" in text_of(past)
    assert "delete-selected" not in past.body.decode()
    assert "coffee" in text_of(present) and "delete-selected" in present.body.decode()


def test_stored_text_is_escaped(pipelit: Pipelit) -> None:
    fact = pipelit.set_fact("evil", HOSTILE, source_description=HOSTILE)
    pipelit.set_fact("k", "v", scope="user", user_id=HOSTILE)
    pipelit.operate("episodes/begin", agent_id=HOSTILE, trigger_type=HOSTILE)
    pipelit.identify(HOSTILE, HOSTILE)
    pipelit.chat(HOSTILE, HOSTILE)

    pages = [show(pipelit, f"tab={name}&q=%22%3E%3Cscript%3E") for name in TABS]
    pages.append(pipelit.web_system.get(f"/memories/{pipelit.uid}/{fact}"))

    for page in pages:
        assert page.status == 200 and b"<script>" not in page.body
    assert sum(b"&lt;script&gt;" in page.body for page in pages) >= 5
    unknown = pipelit.web_system.get(f"/memories?tab={'%3Cscript%3E'}")
    assert (unknown.status, b"<script>" in unknown.body) == (404, False)


def test_a_page_behind_the_last_one_leads_to_the_last_one(pipelit: Pipelit) -> None:
    for number in range(51):
        pipelit.set_fact(f"k{number}")

    first = show(pipelit, "scope=global")
    second = show(pipelit, "page=2&scope=global")
    behind = pipelit.web_system.get(f"/memories?pipeline={pipelit.uid}&page=9&scope=global")

    assert "Showing 1-50 of 51 1 2 Next" in text_of(first)
    assert "Showing 51-51 of 51 Previous 1 2" in text_of(second)
    assert behind.status == 303
    location = behind.headers["location"]
    assert location == f"/memories?tab=facts&pipeline={pipelit.uid}&scope=global&page=2"
    assert pipelit.web_system.get(location).body == second.body
    assert show(pipelit, "page=0&scope=global").body == first.body
    assert show(pipelit, "page=x&scope=global").body == first.body


@pytest.mark.parametrize(
    ("number", "pages", "numbers"),
    [
        (1, 1, [1]),
        (1, 3, [1, 2, 3]),
        (1, 9, [1, 2, 3, 4, 5]),
        (5, 9, [3, 4, 5, 6, 7]),
        (8, 9, [5, 6, 7, 8, 9]),
        (9, 9, [5, 6, 7, 8, 9]),
    ],
)
def test_a_pager_has_up_to_five_numbers(number: int, pages: int, numbers: list[int]) -> None:
    pager = make_pager(number, pages * 50, 50)

    assert (list(pager.numbers), pager.pages) == (numbers, pages)
    assert (pager.first, pager.last) == (number * 50 - 49, number * 50)


def test_unknown_tabs_pipelines_and_records_are_reported(pipelit: Pipelit) -> None:
    for path, text in {
        "/memories?tab=dreams": "There is no tab 'dreams'. The tabs are facts, episodes,",
        "/memories?pipeline=nothing": "no active pipeline has the uid 'nothing'",
        f"/memories/{pipelit.uid}/nothing": "nothing",
    }.items():
        answer = pipelit.web_system.get(path)
        assert answer.status == 404 and text in text_of(answer)


def test_a_record_page_shows_the_fields_and_the_history(pipelit: Pipelit) -> None:
    pipelit.set_fact("color", "blue")
    fact = pipelit.set_fact("color", "Grün")

    text = text_of(pipelit.web_system.get(f"/memories/{pipelit.uid}/{fact}"))
    pipelit.delete("facts", [fact])
    deleted = text_of(pipelit.web_system.get(f"/memories/{pipelit.uid}/{fact}"))

    assert "color: Grün" in text and "fact_type world_knowledge" in text
    assert "folded" not in text and "1 color: blue update http" in text
    assert "Deleted record" in deleted and "Memories: facts" in deleted


def test_the_page_of_an_episode_shows_its_log(pipelit: Pipelit) -> None:
    episode = pipelit.operate("episodes/begin", agent_id="a1", trigger_type="chat")["id"]
    pipelit.operate(f"episodes/{episode}/add", role="user", text=HOSTILE)
    call = {"sort": "action", "tool": "recall", "result": {"found": [HOSTILE]}}
    pipelit.operate(f"episodes/{episode}/add", **call)
    pipelit.operate(f"episodes/{episode}/complete", success=True)

    answer = pipelit.web_system.get(f"/memories/{pipelit.uid}/{episode}")

    text = text_of(answer)
    assert answer.status == 200 and b"<script>" not in answer.body
    assert "Memories: episodes" in text and "user " + HOSTILE in text
    assert "recall" in text and '"found"' in text
    assert re.search(r"ended_at \d{4}-\d\d-\d\dT\S+Z ", text)


def test_the_page_offers_only_what_the_key_allows() -> None:
    with WebSystem() as web_system:
        pipelit = Pipelit(web_system, web_system.deploy())
        pipelit.set_fact("color", "blue")
        fact = pipelit.set_fact("color", "green")
        pipelit.identify("7")
        reader, writer = [
            make_key(web_system.system.root, *scopes) for scopes in (("read",), ("read", "delete"))
        ]
        await_closed(web_system)

        def get(path: str, key: object) -> bytes:
            return ask(web_system.url, "GET", path, b"", getattr(key, "headers", {})).body

        login = web_system.get("/memories?tab=users")
        assert b"select-row" not in get("/memories", reader)
        assert b"select-row" in get("/memories", writer)
        assert b'"copy forget"' not in get("/memories?tab=users", writer)
        record = f"/memories/{pipelit.uid}/{fact}"
        assert b"color: blue" in get(record, reader) and b"copy restore" not in get(record, reader)
        assert login.status == 303
        assert login.headers["location"] == "/login?next=/memories%3Ftab%3Dusers"


@pytest.mark.parametrize(
    ("path", "is_page"),
    [
        ("/memories", True),
        ("/memories?tab=users&page=2", True),
        ("/memories/be9c4001/01a21312-7c31-7000-8003-5734d2036b85", True),
        ("/memories/a/b/c/d/e", False),
        ("/memories//evil.example", False),
        ("/memories.evil.example", False),
    ],
)
def test_the_login_returns_only_to_pages(path: str, is_page: bool) -> None:
    assert bool(PAGE_PATHS.fullmatch(path)) is is_page
