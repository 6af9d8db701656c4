"""The scale of knowledge scores, measured with questions that share few words with the facts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from memrelay import EmbeddedStore, open_store

# (fact, a message whose answer needs it)
FACTS = [
    ("Customer prefers email over phone calls", "preferred contact method"),
    ("Customer fiscal year ends in March", "When does their business year close?"),
    ("Maria is vegetarian and does not eat fish", "What can I cook for Maria tonight?"),
    ("The user has a dog called Rex", "Can you remind me what my pet is named?"),
    ("The user lives in Hamburg", "What's the weather like at home this weekend?"),
    ("The user drives a blue Volvo estate", "What kind of vehicle do I own?"),
    ("Deployments happen every Tuesday at 10:00", "When is the next release going out?"),
    ("The billing service stores its data in PostgreSQL", "Which database is used for billing?"),
    ("Tom is allergic to peanuts", "Is it safe to give Tom a snickers bar?"),
    ("The user speaks Spanish and a little Portuguese", "Which languages can I talk in?"),
    ("Elena Petrova is the head of the finance department", "Who do I ask about the budget?"),
    ("The guest wifi password is on the fridge", "How do visitors get on the internet here?"),
    ("Anna's birthday is on 14 June", "When should I buy a present for Anna?"),
    ("The user goes running before work three times a week", "How often do I exercise?"),
    ("Invoices must be sent as PDF to accounts@acme.example", "Where do I send the bill?"),
    ("The client pays within 14 days of an invoice", "How long until we get our money?"),
    ("The support team works in the Pacific time zone", "At what hours can I reach support?"),
    ("The user drinks two espressos each morning", "How much caffeine do I have per day?"),
    ("The user prefers aisle seats on long flights", "Please book me a seat to Tokyo"),
    ("Leo plays the cello in the city orchestra", "What instrument does Leo play?"),
]
UNRELATED = [
    "What is the capital of Mongolia?",
    "Write a haiku about the ocean",
    "How do magnets work?",
    "Who won the world cup in 1998?",
    "Explain quantum entanglement to a child",
    "What is the square root of 144?",
    "Tell me a joke about penguins",
    "How tall is Mount Everest?",
    "Give me a recipe for pancakes",
    "Summarize the plot of Hamlet",
]


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedStore]:
    with open_store(Path(tmp_path_factory.mktemp("facts")) / "facts.db") as store:
        memory = store.memories.create("facts").id
        for fact, _ in FACTS:
            store.entries.create(memory, fact, mode="create")
        yield store


def found(store: EmbeddedStore, query: str, min_score: float) -> list[str]:
    return [one.content for one in store.knowledge.search(query, min_score=min_score).results]


def test_the_seeds_threshold_finds_its_example(facts: EmbeddedStore) -> None:
    assert found(facts, "preferred contact method", 0.6)[0] == FACTS[0][0]


def test_the_seeds_threshold_separates_related_from_unrelated(facts: EmbeddedStore) -> None:
    related = sum(fact in found(facts, message, 0.6) for fact, message in FACTS)
    unrelated = sum(bool(found(facts, message, 0.6)) for message in UNRELATED)

    assert related >= 14 and unrelated == 0


def test_a_context_contains_the_fact_that_a_message_needs(facts: EmbeddedStore) -> None:
    contexts = [facts.knowledge.context(message).text for _, message in FACTS]

    assert sum(fact in text for (fact, _), text in zip(FACTS, contexts, strict=True)) >= 17
    assert facts.knowledge.context("What is the square root of 144?").text == ""


def test_any_number_is_a_threshold(facts: EmbeddedStore) -> None:
    assert len(found(facts, "contact", -1)) == 10
    assert found(facts, "contact", 1.5) == []
    assert facts.knowledge.context("contact", min_score=1.5).text == ""
