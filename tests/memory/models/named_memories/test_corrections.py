"""Corrected facts, returned states, and facts that only look alike."""

import pytest

from memrelay.memory.engine.store import Store
from memrelay.memory.records.ids import guid_of
from tests.memory.builders import perform
from tests.memory.models.named_memories.entry_cases import contents, make_memory
from tests.memory.models.named_memories.entry_cases import write_embedded as write

CORRECTIONS = [
    ("The user prefers aisle seats", "The user prefers window seats"),
    ("The user lives in Berlin", "The user moved to Munich"),
    ("The travel budget is $2,000", "The travel budget is $20,000"),
    ("The weekly review is at 3 pm", "The weekly review is at 4 pm"),
    ("The user eats meat", "The user does not eat meat"),
    ("The order status is pending", "The order status is shipped"),
    ("The parcel weighs 4 kilograms", "The parcel weighs 4 pounds"),
    ("The deadline is 30 June", "The deadline is 14 July"),
    ("The manager of the team is Ann", "Bob is the manager of the team"),
    ("The boat turns left at the pier", "The boat turns right at the pier"),
]
RETURNS = [
    ("The user lives in Berlin", "The user lives in Munich", "The user is living in Berlin"),
    ("Our budget is $2,000", "Our budget is $20,000", "We have a budget of 2000 dollars"),
    ("The review is at 3 pm", "The review is at 4 pm", "The review takes place at 15:00"),
    ("The team's manager is Ann", "The team's manager is Bob", "Ann is the team's manager"),
]
# The first fact, and facts that differ from it in one thing of the kind.
LOOK_ALIKES = [
    ("number", "Locker 12 holds 3 keys", "Locker 13 holds 3 keys"),
    ("number", "Locker 12 holds 3 keys", "Locker 12 holds 5 keys"),
    ("number", "Invoice 1041 is unpaid", "Invoice 1042 is unpaid"),
    ("name", "Ann collects stamps", "Bob collects stamps"),
    ("name", "Carla's birthday is in May", "Dora's birthday is in May"),
    ("subject", "The front tire needs air", "The spare tire needs air"),
    ("subject", "Ann's sister lives in Rome", "Ann lives in Rome"),
    ("attribute", "Ann lives in Rome", "Ann works in Rome"),
    ("attribute", "The user's favorite color is blue", "The user's favorite dish is pizza"),
    ("direction", "The ferry comes from Rome", "The ferry comes to Rome"),
    ("direction", "The gate opens to the left", "The gate opens to the right"),
    ("direction", "The north gate is locked", "The south gate is locked"),
    ("date", "The dentist comes on 3 May", "The dentist comes on 4 May"),
    ("date", "The course starts in 2026", "The course starts in 2027"),
    ("time", "The shop opens at 8 am", "The shop opens at 9 am"),
    ("time", "The nurse comes in the morning", "The nurse comes in the evening"),
    ("unit", "The tank holds 5 liters", "The tank holds 5 gallons"),
    ("unit", "The rope is 3 meters long", "The rope is 3 feet long"),
    ("event", "A heron was seen at the pond", "A heron was seen at the bridge"),
    ("event", "The customer bought a kettle", "The customer bought a toaster"),
]
BOTH_HOLD = [
    ("The user likes tea", "The user likes coffee"),
    ("The user has a cat", "The user has a dog"),
    ("The user speaks French", "The user speaks Spanish"),
    ("The user is allergic to peanuts", "The user is allergic to shellfish"),
    ("The user visited Rome in 2019", "The user visited Rome in 2021"),
    ("The user paid 40 euros", "The user paid 50 euros"),
    ("Ann lives in Rome", "Bob lives in Paris"),
    ("Room 4 is booked", "Room 5 is booked"),
    ("The user plays tennis on Mondays", "The user plays tennis on Fridays"),
]
PLACES = ["the pond", "the old bridge", "the north meadow", "the mill", "the south bank"]
ANIMALS = ["heron", "kingfisher", "otter", "beaver"]
WEATHER = ["sunny", "cloudy", "rainy", "windy", "foggy"]


@pytest.mark.parametrize(("old", "new"), CORRECTIONS)
def test_a_current_state_replaces_the_one_it_contradicts(
    embedded_tx: Store, old: str, new: str
) -> None:
    tx, memory = embedded_tx, make_memory(embedded_tx)
    first = write(tx, memory, old, mode="current")

    second = write(tx, memory, new, mode="current")

    assert (second.action, second.id, second.replaced) == ("updated", first.id, (old,))
    assert "mode `create`" in second.hint
    assert contents(tx, memory) == [new]
    states = perform(tx, "records.history", guid=guid_of("me", tx.memory_id, first.id)).items
    assert [state.record.content for state in states] == [new, old]


@pytest.mark.parametrize(("old", "new"), CORRECTIONS[:2])
def test_a_correction_needs_no_embedder(tx: Store, old: str, new: str) -> None:
    memory = make_memory(tx)
    perform(tx, "entries.create", memory_id=memory, content=old, mode="current")

    perform(tx, "entries.create", memory_id=memory, content=new, mode="current")

    assert contents(tx, memory) == [new]


@pytest.mark.parametrize(("one", "other"), BOTH_HOLD)
def test_a_current_state_replaces_nothing_that_may_hold_too(
    embedded_tx: Store, one: str, other: str
) -> None:
    memory = make_memory(embedded_tx)
    write(embedded_tx, memory, one, mode="current")

    second = write(embedded_tx, memory, other, mode="current")

    assert second.replaced == () and second.hint == ""
    assert "\n".join(contents(embedded_tx, memory)) == f"{one}\n{other}"


@pytest.mark.parametrize("mode", ["current", "supersede"])
def test_only_the_contradicted_line_of_a_merged_entry_is_replaced(
    embedded_tx: Store, mode: str
) -> None:
    tx, memory = embedded_tx, make_memory(embedded_tx)
    lines = ["The user prefers aisle seats", "The user prefers seats near the wing"]
    for line in lines:
        write(tx, memory, line, update_threshold=0.3)

    written = write(tx, memory, "The user prefers window seats", mode=mode)

    assert written.replaced == (lines[0],)
    assert contents(tx, memory) == [f"{lines[1]}\nThe user prefers window seats"]


@pytest.mark.parametrize("mode", ["current", "supersede"])
def test_a_repeated_correction_removes_the_contradicted_line(embedded_tx: Store, mode: str) -> None:
    tx, memory = embedded_tx, make_memory(embedded_tx)
    old, new = CORRECTIONS[0]
    for line in (old, new):
        write(tx, memory, line)
    assert contents(tx, memory) == [f"{old}\n{new}"]

    written = write(tx, memory, new, mode=mode)

    assert (written.action, written.replaced) == ("updated", (old,))
    assert contents(tx, memory) == [new]


@pytest.mark.parametrize(("first", "second", "again"), RETURNS)
def test_a_current_state_that_returns_in_other_words_is_kept(
    embedded_tx: Store, first: str, second: str, again: str
) -> None:
    memory = make_memory(embedded_tx)
    for text in (first, second, again):
        write(embedded_tx, memory, text, mode="current")

    assert contents(embedded_tx, memory) == [again]


@pytest.mark.parametrize(("first", "second", "again"), RETURNS)
def test_a_merged_state_that_returns_in_other_words_becomes_the_last_line(
    embedded_tx: Store, first: str, second: str, again: str
) -> None:
    memory = make_memory(embedded_tx)
    for text in (first, second):
        write(embedded_tx, memory, text, update_threshold=0.3)

    written = write(embedded_tx, memory, again)

    assert written.action == "updated"
    assert contents(embedded_tx, memory) == [f"{first}\n{second}\n{again}"]


def test_facts_that_only_look_alike_are_new_entries(embedded_tx: Store) -> None:
    merged = []
    for number, (kind, one, other) in enumerate(LOOK_ALIKES):
        memory = make_memory(embedded_tx, f"m{number}")
        write(embedded_tx, memory, one)
        if write(embedded_tx, memory, other).action != "created":
            merged.append((kind, one, other))

    assert merged == []


@pytest.mark.parametrize("mode", [None, "current"])
def test_field_notes_of_one_template_stay_separate(embedded_tx: Store, mode: str | None) -> None:
    tx, memory = embedded_tx, make_memory(embedded_tx)
    notes = [
        f"Day {number}: the {ANIMALS[number % 4]} was at {PLACES[number % 5]}, "
        f"{number * 7 % 31} degrees, {WEATHER[number * 3 % 5]}"
        for number in range(60)
    ]

    actions = {write(tx, memory, note, mode=mode).action for note in notes}

    assert actions == {"created"}


def test_an_explicit_threshold_still_merges_facts_that_look_alike(embedded_tx: Store) -> None:
    memory = make_memory(embedded_tx)
    for text in ("Locker 12 holds 3 keys", "Locker 13 holds 3 keys"):
        write(embedded_tx, memory, text, update_threshold=0.5)

    assert len(contents(embedded_tx, memory)) == 1
