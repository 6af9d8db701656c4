"""Which facts contradict each other, in both orders, and which only look alike."""

import pytest

from memrelay.memory.models.named_memories.dedup.similarity import (
    APART,
    compare,
    contradicts,
    have_same_topic,
)

LOCAL = "all-MiniLM-L6-v2-int8/384/0"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The user drives a Volvo", "The user drives a Tesla"),
        ("We use PostgreSQL for billing", "We use MySQL for billing"),
        ("The user likes tea", "The user hates tea"),
        ("The user no longer eats meat", "The user eats meat"),
        ("The customer prefers email over phone", "The customer prefers phone over email"),
        ("The company was founded in 1998", "The company was founded in 1989"),
        ("Jane Doe is the CEO of Acme", "The CEO of Acme is John Smith"),
        ("The office moved to Lyon", "The office is in Paris"),
        ("The user switched to Firefox", "The user uses Chrome"),
        ("The user wants short answers", "The user wants long answers"),
        ("Deadline: Friday", "Deadline: Monday"),
        ("prefers aisle seats", "prefers window seats"),
        ("Prefers short answers", "Prefers long answers"),
        ("Drives a Volvo", "Drives a Tesla"),
        ("sleeps 6 hours a night", "sleeps 8 hours a night"),
        ("is vegetarian", "is vegan"),
        ("I am 34 years old", "I am 35 years old"),
        ("The user has 2 children", "The user has 3 children"),
        ("Timezone is CET", "Timezone is PST"),
        ("The team meets on Monday at 9", "The team meets on Tuesday at 10"),
        ("My sister's name is Clara", "My sister's name is Klara"),
    ],
)
def test_another_value_of_the_same_attribute_is_a_contradiction(one: str, other: str) -> None:
    assert contradicts(one, other) and contradicts(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The user wants a red car", "The user wants a blue car"),
        ("The user's phone is broken", "The user's phone is new"),
        ("The user is tall", "The user is Catholic"),
        ("Team members prefer Slack", "Team leads prefer Slack"),
        ("Alice manages Bob", "Bob manages Alice"),
        ("Alice owes Bob 20 euros", "Alice owes Carol 20 euros"),
        ("Anna is Tom's sister", "Anna is Tim's sister"),
        ("The user lived in Berlin", "The user lives in Munich"),
        ("The office closes at 6 pm on Fridays", "The office closes at 6 pm"),
        ("Bob is a manager", "Ann is a manager"),
        ("Marie vit à Lyon", "Marie vit à Paris"),
        ("Meeting with Bob at 3pm", "Meeting with Ann at 3pm"),
        ("Ada is a member of the chess club", "Ada is a member of the tennis club"),
        ("Bought 3 kg of flour", "Bought 3 kg of sugar"),
        ("Visited Rome in 2019", "Visited Rome in 2023"),
        ("likes tea", "likes coffee"),
        ("Called Bob on Monday", "Called Ann on Monday"),
        ("I am 34 years old", "I am 170 cm tall"),
        ("Ann called on Monday at 9", "Ann called on Tuesday at 10"),
    ],
)
def test_facts_that_may_both_hold_are_no_contradiction(one: str, other: str) -> None:
    assert not contradicts(one, other) and not contradicts(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The train to Oslo departs at 7", "The train to Oslo arrives at 7"),
        ("Ship the order before Friday", "Ship the order after Friday"),
        ("Import tax is 5 percent", "Export tax is 5 percent"),
        ("The dose is 5 mg twice a day", "The dose is 5 ml twice a day"),
        ("The API key for staging is old", "The API key for production is old"),
    ],
)
def test_facts_that_look_alike_score_below_the_threshold(one: str, other: str) -> None:
    scores = {compare(*pair, 0.99, LOCAL).score for pair in ((one, other), (other, one))}

    assert scores == {APART}


def test_facts_about_the_same_subject_have_the_same_topic() -> None:
    assert have_same_topic("The user likes tea", "The user likes coffee")
    assert not have_same_topic("Ann likes tea", "Bob likes tea")
