"""Entries with a period of validity: writes, comparisons, lists and searches."""

from typing import Any

import pytest

from memrelay.memory.engine.store import Store
from memrelay.memory.engine.timestamps import format_time
from tests.memory.builders import NOW, perform
from tests.memory.models.named_memories.entry_cases import contents, make_memory, write

BERLIN, PARIS = "Anna lives in Berlin", "Anna lives in Paris"
ENDED = {"valid_from": "2015-01-01", "valid_to": "2020-01-01"}


def search(tx: Store, query: str, **keys: Any) -> list[tuple[str, bool]]:
    found = perform(tx, "knowledge.search", query=query, **keys).results
    return [(one.content, "not valid" in one.why) for one in found]


@pytest.mark.parametrize("mode", ["current", "supersede"])
def test_a_text_that_replaces_an_entry_is_valid_from_then_on(tx: Store, mode: str) -> None:
    memory = make_memory(tx)
    given = {"mode": mode, "update_threshold": 0}
    first = write(tx, memory, BERLIN, **given)
    moved = write(tx, memory, PARIS, **given)
    later = write(tx, memory, "Anna lives in Rome", **given, valid_from="2023-01-01")

    assert (first.valid_from, first.valid_to) == (None, None)
    assert moved.replaced == (BERLIN,) and moved.valid_from == format_time(NOW)
    assert later.id == moved.id and later.valid_from == "2023-01-01T00:00:00.000Z"
    assert perform(tx, "entries.get", id=later.id).valid_from == later.valid_from


def test_an_entry_that_has_ended_is_neither_changed_nor_repeated(tx: Store) -> None:
    memory = make_memory(tx)
    old = write(tx, memory, BERLIN, **ENDED)
    assert write(tx, memory, BERLIN, **ENDED).action == "skipped"
    assert write(tx, memory, PARIS, mode="current").action == "created"
    # A period belongs to a whole entry.
    assert write(tx, memory, "Anna lives in Paris in a flat", valid_from="2021-01-01").action == (
        "created"
    )
    assert write(tx, memory, BERLIN, mode="current", dry_run=True).id != old.id
    assert perform(tx, "entries.get", id=old.id).content == BERLIN

    opened = perform(tx, "entries.update", id=old.id, valid_to="")
    assert (opened.valid_from, opened.valid_to) == ("2015-01-01T00:00:00.000Z", None)


def test_an_ended_entry_does_not_stand_in_for_the_one_that_holds(tx: Store) -> None:
    memory = make_memory(tx)
    kept = write(tx, memory, "Anna now lives in Paris")
    write(tx, memory, "Anna is living in Paris", mode="create", **ENDED)

    merged = write(tx, memory, PARIS)

    assert (merged.action, merged.id) == ("updated", kept.id)


def test_knowledge_puts_what_has_ended_last_and_hides_nothing(tx: Store) -> None:
    memory = make_memory(tx)
    write(tx, memory, BERLIN, **ENDED)
    write(tx, memory, "Anna told us that she lives in Paris now", mode="create")

    lived = [BERLIN, "Anna told us that she lives in Paris now"]
    assert search(tx, "Anna lives in") == [(lived[1], False), (lived[0], True)]
    assert search(tx, "Anna lives in", valid_at="2017-01-01")[0] == (BERLIN, False)
    assert search(tx, "") == search(tx, "Anna lives in")
    assert search(tx, "Anna lives in", limit=1) == search(tx, "", limit=1) == [(lived[1], False)]
    scores = perform(tx, "knowledge.search", query="Berlin", min_score=0.1).results
    assert [one.content for one in scores] == [BERLIN]
    assert contents(tx, memory, valid_at="2017-01-01") == lived
    assert contents(tx, memory, valid_at="2021-01-01") == lived[1:]


@pytest.mark.parametrize("query", ["where does Anna live in", "what do you know about me?"])
def test_a_context_marks_what_has_ended(tx: Store, query: str) -> None:
    memory = make_memory(tx)
    perform(tx, "entries.create", memory_id=memory, content=PARIS)
    # Written later, about an earlier time.
    for after_ms in (1000, 1500):
        now_ms = NOW + after_ms
        perform(tx, "entries.create", memory_id=memory, content=BERLIN, now_ms=now_ms, **ENDED)

    def lines(**keys: Any) -> list[str]:
        given = {"query": query, "with_ids": False} | keys
        text = perform(tx, "knowledge.context", now_ms=NOW + 2000, **given).text
        lives = [line for line in text.splitlines() if "lives" in line or line.startswith("  (")]
        return [" ".join(pair) for pair in zip(lives[::2], lives[1::2], strict=True)]

    now = lines()
    assert PARIS in now[0] and "outdated" not in now[0]
    assert BERLIN in now[1] and "outdated" in now[1]
    assert lines(limit=1) == now[:1]
    then = [line for line in lines(valid_at="2017-01-01") if BERLIN in line]
    assert "outdated" not in then[0]
