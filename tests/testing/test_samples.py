"""Every sample pipeline, in this process and without a server."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import orjson
import pytest

from memrelay import pipelines
from memrelay.bus.message import Message
from memrelay.errors import OperationFailed
from memrelay.testing import test_pipeline

SECRETS = {
    "env:ALERT_TOKEN": "token-of-alerts",
    "env:DIGEST_URL": "https://chat.example/digest",
    "env:GITHUB_SECRET": "s3cret",
    "env:ONCALL_URL": "https://chat.example/oncall",
    "env:SLACK_SIGNING_SECRET": "s3cret",
    "env:SLACK_URL": "https://hooks.slack.example/T0",
    "env:STRIPE_SECRET": "s3cret",
    "env:TELEGRAM_SECRET": "s3cret",
}
SAMPLES = Path(pipelines.__path__[0])
ISSUE = {
    "action": "opened",
    "issue": {
        "title": "The kettle leaks",
        "body": "Since Monday.",
        "html_url": "https://github.example/ada/tea/issues/7",
    },
    "repository": {"full_name": "ada/tea"},
    "sender": {"login": "grace"},
}


def texts(messages: Sequence[Message]) -> list[str]:
    return [one.text for one in messages]


def contents(message: Message) -> list[str]:
    """Return the contents of the records in an answer."""
    return [one["content"] for one in orjson.loads(message.text)]


def list_samples() -> list[str]:
    paths = [*SAMPLES.glob("*.json"), *SAMPLES.glob("webhooks/*.json")]
    return sorted(str(path.relative_to(SAMPLES).with_suffix("")) for path in paths)


@pytest.mark.parametrize("name", list_samples())
def test_this_page_tests_every_sample(name: str) -> None:
    assert f'test_pipeline("{name}"' in Path(__file__).read_text()


def test_memory_test_runs_its_commands() -> None:
    with test_pipeline("memory_test") as p:
        (written,) = p.say("/write The meeting is at 3pm")
        guid = orjson.loads(written.text)["guid"]
        (appended,) = p.say("/append Bring the figures")
        (found,) = p.say("/search meetings")
        (listed,) = p.say("/read")
        (deleted,) = p.say(f"/delete {guid}")
        (nothing,) = p.say("/search meeting")
        (help_,) = p.say("/wirte tea")
        (talk,) = p.say("good morning")

        assert orjson.loads(appended.text)["created"] is True
        assert contents(found) == ["The meeting is at 3pm"]
        assert contents(listed) == ["The meeting is at 3pm", "Bring the figures"]
        assert deleted.text == '{"deleted":1}' and nothing.text == "[]"
        assert help_.text.startswith("Unknown or incomplete command")
        assert texts(p.messages("talk")) == [talk.text] == ["good morning"]
        assert p.dead_letters == []


def test_named_memory_keeps_a_fact_once() -> None:
    with test_pipeline("named_memory") as p:
        actions = [
            orjson.loads(answer.text)["action"]
            for fact in ("Ada likes tea", "Ada likes tea", "Bob plays chess")
            for answer in p.say(f"/remember {fact}")
        ]
        (known,) = p.say("/recall Who likes tea?")

        assert actions == ["created", "skipped", "created"]
        assert "notes: Ada likes tea" in known.text
        (memory,) = p.store("memories").memories.list().items
        assert p.store("memories").entries.list(memory.id).total == 2


def test_conversation_stores_turns_in_a_thread_of_the_day() -> None:
    with test_pipeline("conversation", now="2026-03-01T23:59:00Z") as p:
        p.say("I am allergic to nuts", sender="Ada")
        p.advance("2min")
        p.say("Good to know", sender="Bob")
        (found,) = p.say("/recall nuts")
        turns = p.store().records.list(kind="turn").items

        assert [(one.content, one.thread) for one in turns] == [
            ("I am allergic to nuts", "2026-03-01"),
            ("Good to know", "2026-03-02"),
        ]
        assert "Ada: I am allergic to nuts" in found.text and "/recall" not in found.text


def test_webhook_inbox_keeps_everything_but_pings() -> None:
    with test_pipeline("webhook_inbox") as p:
        p.webhook("inbox", {"event": "paid", "amount": 12})
        p.webhook("inbox", {"event": "ping"})
        (listed,) = p.say("/inbox")
        (found,) = p.say("/find paid")

        assert '"event":"paid"' in listed.text and "ping" not in listed.text
        assert contents(found) == ['{"event":"paid","amount":12}']
        (record,) = p.store("inbox").records.list(tags=["inbox"]).items
        assert record.kind == "webhook"


def test_notes_runs_the_calls_of_a_memory_tool() -> None:
    with test_pipeline("notes") as p:

        def use(**call: Any) -> Any:
            (answer,) = p.say(orjson.dumps(call).decode(), swarm="tools", sender="Agent")
            parsed = orjson.loads(answer.text)
            assert parsed["is_error"] is False, parsed
            return parsed["value"]

        assert use(command="create", key="todo", content="buy tea") == "Created /memories/todo"
        use(command="create", key="mood", scope="chat", content="calm")
        p.crash()
        use(command="edit", key="todo", old_str="tea", new_str="coffee")

        assert use(command="view", key="todo")["value"] == "buy coffee"
        assert use(command="search", query="coffee")["results"][0]["key"] == "todo"
        stores = [one["storeId"] for one in use(command="stores")["stores"]]
        assert stores == ["assistant", "chat:test/tools", "user:Agent"]
        tool = p.store("stores").memory_tool
        assert tool.read(agent="assistant", arguments={"command": "view"}).value["keys"] == ["todo"]
        deleted = tool.write(agent="assistant", arguments={"command": "delete", "key": "todo"})
        assert deleted.value == "Deleted /memories/todo"
        with pytest.raises(OperationFailed, match=r"records\.list cannot use"):
            p.store("stores").records.list()


def test_shared_notes_are_found_with_the_pipeline_that_wrote_them() -> None:
    with test_pipeline("shared_notes") as p:
        p.say("/note The kettle leaks\nagain")
        p.say("/note Tea is in the cupboard")
        (listed,) = p.say("/notes")
        (found,) = p.say("/find kettle")

        assert listed.text.startswith("test: Tea is in the cupboard\ntest: The kettle leaks")
        assert found.text.startswith("test: The kettle leaks")
        assert p.store("shared/notes").records.list(kind="note").total == 2
        assert p.dead_letters == []


def test_empty_answers_nothing() -> None:
    with test_pipeline("empty") as p:
        answers = p.say("Hello")

        assert answers == [] and texts(p.messages("chat")) == ["Hello"]


def test_daily_digest_sends_the_notes_of_yesterday_at_nine_in_berlin() -> None:
    with test_pipeline("daily_digest", now="2026-03-01T10:00:00Z", secrets=SECRETS) as p:
        p.answer("send", {"status": 200})
        p.webhook("note", "green tea")
        p.advance("21h")
        early = p.requests
        p.advance("2h")
        (sent,) = p.requests
        p.advance("23h")

        assert early == []
        assert orjson.loads(sent.request["content"]) == {"text": "- green tea\n"}
        assert [one.request["content"] for one in p.requests[1:]] == ['{"text":""}']


def test_coding_memory_finds_turns_and_proposes_at_night_what_contradicts() -> None:
    with test_pipeline("coding_memory", now="2026-03-01T10:00:00Z") as p:
        store, thread = p.store("memories"), "capture/claude-code/s1"
        turn = {"role": "user", "content": "Fix the flaky login test", "item": {"project": "p"}}
        store.turns.add([turn], thread=thread, user="ada", agent="claude-code")
        for version in (18, 22):
            p.say(f"/remember The CI uses Node {version}")
        (turns,) = p.say("/find flaky")
        (facts,) = p.say("/recall Which Node does the CI use?")
        p.advance("18h")

        assert turns.text.endswith("Fix the flaky login test\n")
        (about,) = store.views.about(of="p").views
        assert (about.name, about.items[0].content) == ("prompts", "Fix the flaky login test")
        assert facts.text.count("The CI uses Node") == 2
        (waiting,) = store.reviews.list().items
        assert waiting.candidate is not None and waiting.candidate.content == "The CI uses Node 22"
        assert store.reviews.approve(guids=[waiting.guid]).items[0].status == "approved"
        (facts,) = p.say("/recall Which Node does the CI use?")
        assert facts.text.count("The CI uses Node") == 1
        assert p.dead_letters == []


def test_assistant_answers_with_a_model() -> None:
    with test_pipeline("assistant") as p:
        p.answer("assistant", {"text": "Hello Ada", "actions": []})
        (answer,) = p.say("My name is Ada", username="Ada")
        (asked,) = p.requests

        assert answer.text == "Hello Ada"
        assert asked.block == "agent" and "My name is Ada" in orjson.dumps(asked.request).decode()
        assert p.store("memories").users.list().total == 1


def test_chat_with_summary_works_with_and_without_a_model() -> None:
    with test_pipeline("chat_with_summary") as p:
        dead = {"error": "no model", "is_rejected": False, "ended_at_ms": 0}
        p.answer("facts", dead)
        p.answer("summaries", dead)
        for number in range(10):
            p.say(f"My cat {number} sleeps", username="Ada")
        p.advance("61s")
        (summary, latest) = texts(p.say("/context"))
        (found,) = p.say("/recall cat 7")

        assert summary == "" and latest.count("Ada: My cat") == 10
        assert "turn: My cat 7 sleeps" in found.text

        facts = '{"facts": [{"text": "Ada has ten cats", "turns": [1, 2]}]}'
        p.answer("facts", {"text": facts, "tokens": 9, "ended_at_ms": 0})
        p.answer("summaries", {"text": "Ada told of ten cats.", "tokens": 9, "ended_at_ms": 0})
        p.advance("3min")
        (summary, _) = texts(p.say("/context"))
        (found,) = p.say("/recall How many cats has Ada?")

        assert summary == "Summary: Ada told of ten cats.\n"
        assert "entry: Ada has ten cats" in found.text
        store = p.store("memories")
        assert store.records.list(kind="turn").total == 10
        store.turns.clear(thread="test/talk")
        assert store.records.list(kind="summary").total == 0
        assert store.records.list(kind="entry").total == 0
        assert p.dead_letters == []


def test_github_keeps_events_with_all_fields() -> None:
    with test_pipeline("webhooks/github") as p:
        p.webhook("github", ISSUE, event="issues")
        (found,) = p.say("/find monday")
        (record,) = p.store("inbox").records.list(filter={"data.action": {"eq": "opened"}}).items

        assert found.text.endswith("ada/tea: The kettle leaks\nSince Monday.\n")
        assert record.data["sender"] == {"login": "grace"}


def test_github_to_slack_posts_new_issues_once_after_a_crash() -> None:
    with test_pipeline("webhooks/github_to_slack", secrets=SECRETS) as p:
        p.answer("slack", {"status": 200})
        p.crash_after("commit")
        p.webhook("github", ISSUE, event="issues")
        p.webhook("github", ISSUE | {"action": "labeled"}, event="issues")

        (posted,) = p.requests
        (block,) = orjson.loads(posted.request["content"])["blocks"]
        assert block["text"]["text"] == "grace opened in ada/tea: The kettle leaks"
        assert block["accessory"]["url"] == ISSUE["issue"]["html_url"]  # type: ignore[index]
        (record,) = p.store("inbox").records.list().items
        assert record.content == "ada/tea: The kettle leaks\nSince Monday."


def test_slack_remembers_and_recalls_by_slash_commands() -> None:
    with test_pipeline("webhooks/slack") as p:
        form = "application/x-www-form-urlencoded"

        def send(agent: str, text: str) -> list[str]:
            body = urlencode({"command": f"/{agent}", "text": text})
            return texts(p.webhook(agent, body, content_type=form))

        assert send("remember", "Ada likes tea") == ["Remembered."]
        p.webhook("events", {"type": "event_callback", "event": {"text": "Bob likes coffee"}})
        assert send("recall", "coffee") == ["• Bob likes coffee\n"]
        assert send("recall", "chess") == ["Nothing found."]


def test_stripe_keeps_invoices_and_charges() -> None:
    with test_pipeline("webhooks/stripe") as p:
        customer = {"object": {"id": "in_1", "customer_email": "ada@example.org"}}
        for event in ("invoice.paid", "customer.created"):
            p.webhook("stripe", {"type": event, "data": customer}, event=event)
        (found,) = p.say("/find ada")

        assert re.findall("[a-z]+[.].*", found.text) == ["invoice.paid ada@example.org"]


def test_telegram_keeps_what_a_bot_hears() -> None:
    with test_pipeline("webhooks/telegram") as p:
        p.webhook("telegram", {"update_id": 1, "message": {"text": "Tea at four"}})
        (found,) = p.say("/find tea")

        assert found.text.endswith("Tea at four\n")


def test_alerts_publishes_those_that_fire() -> None:
    with test_pipeline("webhooks/alerts") as p:
        labels = {"instance": "db1", "alertname": "DiskFull"}
        alerts = [{"status": one, "labels": labels} for one in ("firing", "resolved")]
        p.webhook("alerts", {"alerts": alerts})
        p.webhook("alerts", {"host": "db2", "text": "The backup failed"})
        (found,) = p.say("/find backup")

        assert texts(p.messages("oncall")) == ["db1 DiskFull", "db2 The backup failed"]
        assert found.text.endswith("db2 The backup failed\n")


def test_alert_dedupe_sends_one_line_for_a_burst() -> None:
    with test_pipeline("webhooks/alert_dedupe", secrets=SECRETS) as p:
        p.answer("send", {"status": 200})
        for status in ("firing", "resolved", "firing"):
            p.webhook("alerts", {"host": "db1", "title": "DiskFull", "status": status})
            p.advance("20s")
        assert p.requests == []
        p.crash()
        p.advance("10s")

        (sent,) = p.requests
        assert orjson.loads(sent.request["content"]) == {"text": "db1/DiskFull = firing"}
        fact = p.store("memories").facts.get("alert/db1/DiskFull")
        assert fact.value == "firing"
