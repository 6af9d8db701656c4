"""Policies in a batch: changed records, stopped writes, replaced values."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from memrelay.bus.codec import encode
from memrelay.bus.message import new_message
from memrelay.memory.engine.features import FEATURES, INPUTS
from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.models.inputs.table import InputTable
from memrelay.pipelines.check import check
from memrelay.pipelines.plan import Plan
from memrelay.worker.run.inputs import Entry
from memrelay.worker.run.outcome import Outcome
from tests.support.bundles import make_agent, make_bundle, make_memory, make_relay
from tests.worker.test_batch import make_batch

STORE = "instances/p/memories"


@pytest.fixture
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenStores]:
    monkeypatch.setitem(FEATURES, "censor", "tests.support.planted_feature:Censor")
    opened = OpenStores(tmp_path, 10)
    opened.compose({STORE: frozenset({"censor", INPUTS})})
    yield opened
    opened.close_all()


def make_plan() -> Plan:
    write = make_relay("write", "^/write (.+)"), make_memory("write", memory_id=STORE)
    named = {"memory_id": STORE, "memory": "Team"}
    note = make_agent("noter", "memory_entry_write", named, senders="dispatch_note")
    loop = (
        make_relay("loop", "^(/loop .+)", senders="*"),
        make_memory("write", memory_id=STORE, senders="dispatch_loop", alias="looper"),
    )
    checked = check(
        make_bundle("p", *write, make_relay("note", "^/note (.+)"), note, *loop, inputs_days=7)
    )
    assert checked.bundle is not None, checked
    return Plan(checked.bundle)


def make_message(text: str, number: int = 1) -> Entry:
    data = encode(new_message("User", "me", text, username="User", now_ms=1_700_000_000_000))
    return Entry(f"1700000000000-{number}", make_plan(), [b"swarm", b"chat", b"data", data])


def run(stores: OpenStores, *texts: str) -> list[Outcome]:
    entries = [make_message(text, number) for number, text in enumerate(texts)]
    return make_batch(*entries).run(stores).outcomes


def list_contents(stores: OpenStores) -> list[str]:
    found = stores.get(STORE).connection.execute("SELECT content FROM records ORDER BY row")
    return [content for (content,) in found]


def list_texts(outcome: Outcome) -> str:
    return b" ".join(data for _, data in outcome.messages).decode()


def count_commits(stores: OpenStores) -> int:
    return int(stores.get(STORE).commits.mark.rpartition(":")[2])


def list_kept(stores: OpenStores) -> list[str]:
    rows = stores.get(STORE).table(InputTable).rows(0, 0, 1 << 50)
    return [one.text(b"data") for _, inputs in rows for one in inputs]


def test_a_changed_record_changes_what_quotes_it(stores: OpenStores) -> None:
    (outcome,) = run(stores, "/write my SECRET")

    assert list_contents(stores) == ["my [secret]"]
    assert "SECRET" not in list_texts(outcome) and "/write my [secret]" in list_texts(outcome)
    assert [text.count("[secret]") for text in list_kept(stores)] == [1]
    assert b"SECRET" not in stores.get(STORE).inbox.find(outcome.key).outputs  # type: ignore[union-attr]


def test_a_redelivered_input_is_published_with_the_changed_text(stores: OpenStores) -> None:
    (first,) = run(stores, "/write my SECRET")

    (again,) = run(stores, "/write my SECRET")

    assert again.messages == first.messages


def test_a_refused_write_fails_alone_in_its_batch(stores: OpenStores) -> None:
    before = count_commits(stores)

    outcomes = run(stores, "/write one", "/write REFUSED", "/write two")

    assert list_contents(stores) == ["one", "two"]
    assert ["no refusals" in list_texts(outcome) for outcome in outcomes] == [False, True, False]
    assert count_commits(stores) == before + 1


def test_a_write_that_is_stopped_late_leaves_nothing(stores: OpenStores) -> None:
    """The block makes the named memory before its entry."""
    outcomes = run(stores, "/write one", "/note REFUSED", "/note two")

    assert list_contents(stores) == ["one", "two"]
    assert ["no refusals" in list_texts(outcome) for outcome in outcomes] == [False, True, False]
    run(stores, "/note REFUSED again")
    assert list_contents(stores) == ["one", "two"]


def test_a_dead_letter_has_the_changed_text(stores: OpenStores) -> None:
    outcomes = run(stores, "/write one", "/loop SECRET")

    letter = outcomes[1].dead_letter
    assert list_contents(stores) == ["one"]
    assert letter is not None and b"[secret]" in letter.data and b"SECRET" not in letter.data


def test_a_stop_belongs_to_one_message_of_an_agent(stores: OpenStores) -> None:
    """The agent gets two messages, and the cascade has no new message between them."""
    relay = make_relay("part", "^/part ([a-z ]+)")
    noter = make_agent(
        "noter", "memory_entry_write", {"memory_id": STORE, "memory": "Team"}, publishes=False
    )
    checked = check(make_bundle("p", relay, noter))
    assert checked.bundle is not None, checked
    entry = replace(make_message("/part tea REFUSED"), plan=Plan(checked.bundle))

    make_batch(entry).run(stores)

    assert list_contents(stores) == ["tea "]
