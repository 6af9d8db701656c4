"""Properties of the similarity of two facts, and single cases."""

import time
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.memory.models.named_memories.dedup.similarity import SAME_BUT_FORM, compare
from memrelay.memory.models.named_memories.dedup.tokenizer import MOST_COMPARABLE
from memrelay.memory.search.embedding.embedder import EmbeddingOptions
from memrelay.memory.search.embedding.loading import load

LOCAL = "all-MiniLM-L6-v2-int8/384/0"
ODD = "aAntsI12.,'-#!&%$:/@_+<=\u00b2\u00bd\u0967\u0301\u0315\n \u4e0d\u00a05"
HOSTILE = st.text(st.characters(exclude_categories=[]), max_size=60) | st.text(ODD, max_size=60)
VOCABULARY = """the customer Anna Bob likes hates tea not no 3 three 4 monday May in to from over
    by was is will 5% $20 6 pm and or un safe unsafe doesn't it's user's 2026-03-01 e-mail only if
    open closed"""
WORDS = st.lists(st.sampled_from(VOCABULARY.split()), max_size=12).map(" ".join)
COSINES = st.none() | st.floats(-1, 1)


def both_ways(new: str, old: str, cosine: float) -> list[float]:
    """Return the scores of the pair in both orders."""
    return [compare(one, other, cosine, LOCAL).score for one, other in ((new, old), (old, new))]


@pytest.mark.parametrize("day", ["Tuesday", "Thursday"])
def test_a_weekday_before_am_is_no_time(day: str) -> None:
    fact = f"The lieferung arrives on {day} am 5"
    assert compare(fact, f"{fact} May", 0.9, LOCAL).score < 0.95


@given(
    HOSTILE,
    HOSTILE,
    st.none() | st.floats(),
    st.sampled_from([LOCAL, "", "wordllama-l2-supercat/256/0", "x/1"]),
)
def test_the_score_of_any_two_texts_is_between_0_and_1(
    new: str, old: str, cosine: float | None, name: str
) -> None:
    score, why = compare(new, old, cosine, name)

    assert 0 <= score <= 1
    assert why


@given(HOSTILE | WORDS, COSINES)
def test_a_text_compared_with_itself_scores_1(text: str, cosine: float | None) -> None:
    assert compare(text, text, cosine, LOCAL).score == 1


@given(WORDS, WORDS, COSINES)
def test_the_score_of_two_lines_is_symmetric(one: str, other: str, cosine: float | None) -> None:
    assert compare(one, other, cosine, LOCAL).score == compare(other, one, cosine, LOCAL).score


@given(WORDS, st.integers(0, 10**6), st.integers(0, 10**6), COSINES)
def test_texts_with_different_numbers_are_never_duplicates(
    words: str, one: int, other: int, cosine: float | None
) -> None:
    similarity = compare(f"{words} code {one}", f"{words} code {other}", cosine, LOCAL)

    assert (similarity.score >= 0.95) == (one == other)


@given(WORDS, st.floats(0.9, 1))
def test_a_negated_fact_is_never_a_duplicate(words: str, cosine: float) -> None:
    assert (
        compare(
            f"{words} the door is locked", f"{words} the door is not locked", cosine, LOCAL
        ).score
        < 0.95
    )


@pytest.mark.parametrize("cosine", [nan, inf, -inf])
def test_a_non_finite_cosine_counts_as_missing(cosine: float) -> None:
    assert compare("tea is liked", "he drives", cosine, LOCAL) == compare(
        "tea is liked", "he drives", None, LOCAL
    )


@pytest.mark.parametrize(
    "part",
    [
        *("word ", "line\n", "\u0315\u0300", "\u4e0d", "1"),
        *(
            pytest.param(part, marks=pytest.mark.slow)
            for part in ("x", "e\u0301\u0315", "\ufdfa", "a'b-", "\n", "!", ".,;", "( ", "\u00e9 ")
        ),
    ],
)
def test_a_text_of_one_mebibyte_is_compared_in_bounded_time(part: str) -> None:
    text = part * ((1 << 20) // len(part.encode()))
    started_s = time.process_time()

    compare(text, text + " more", 0.99, LOCAL)
    compare("tea", text, None, LOCAL)

    assert time.process_time() - started_s < 30


@pytest.mark.parametrize("sign", [".", "[", "("])
def test_signs_before_a_word_are_compared_in_linear_time(sign: str) -> None:
    text = "tea " + sign * (MOST_COMPARABLE - 10)
    started_s = time.process_time()

    for number in range(20):
        compare(f"{text}{number}", f"{text}x{number}", 0.99, LOCAL)

    assert time.process_time() - started_s < 2


def test_a_long_text_is_a_duplicate_only_if_it_is_equal() -> None:
    text = "tea " * (MOST_COMPARABLE // 4)

    assert compare(text, text.upper(), None, LOCAL) == SAME_BUT_FORM
    assert compare(text + "tea", text + "tea", None, LOCAL).score == 1
    assert compare(text + "tea", text + "Tea", None, LOCAL).score == 0


def test_the_examples_of_the_model_document_get_the_documented_actions() -> None:
    """Expect created, skipped, updated, created for the example of 004_b7bbdd40b27e8d55.txt. Each
    fact is compared with the entries that exist by then."""
    first, rephrased = (
        "Customer prefers email over phone calls",
        "The customer likes email more than phone",
    )
    detailed, another = (
        "Customer prefers email, especially for billing inquiries",
        "Customer fiscal year ends in March",
    )
    merged = f"{first}\n{detailed}"
    embedder = load(EmbeddingOptions("local"))
    rows = dict(
        zip(
            texts := (first, rephrased, detailed, another, merged),
            embedder.embed(texts),
            strict=True,
        )
    )

    def score(new: str, old: str) -> float:
        return compare(new, old, float(rows[new] @ rows[old]), str(embedder.fingerprint)).score

    assert score(rephrased, first) >= 0.95
    assert 0.75 <= score(detailed, first) < 0.95
    assert score(another, merged) < 0.75


def test_a_fact_in_one_line_of_a_merged_entry_is_a_duplicate() -> None:
    entry = (
        "Customer prefers email over phone calls\n"
        "Customer prefers email, especially for billing inquiries"
    )

    assert compare("customer prefers email over phone calls.", entry, None, "").score == 1
    assert compare("The customer likes email more than phone", entry, 0.75, LOCAL).score >= 0.95
    assert compare("Customer prefers phone over email calls", entry, 0.9, LOCAL).score < 0.95


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("x != 3", "x = 3"),
        ("-5 degrees", "5 degrees"),
        ("1,5 kg", "15 kg"),
        ("A \u2192 B", "A \u2190 B"),
        ("a < b", "a > b"),
        ("done \u2705", "done \u274c"),
        ("C++ is used", "C is used"),
        ("service A is down", "service B is down"),
        ("Is the door locked?", "The door is locked"),
        ("vitamin A helps", "a vitamin helps"),
        ("5 \u00b0C", "5 \u00b0F"),
        ("use --cache", "use --no-cache"),
        ("10.0.0.1", "10.0.0.10"),
        ("\u4e09 people", "\u56db people"),
        ("v1.2b", "v1.2c"),
        ("Daniel likes tea", "Danielle likes tea"),
        ("Call Mr. Peter", "Call Mr. Peters"),
        ("her mother left", "her moth left"),
        ("Nina prefers coffee to tea", "Nina would rather have tea than coffee"),
        ("The team indents with tabs rather than spaces", "The team uses spaces instead of tabs"),
        ("tea and milk", "tea or milk"),
        ("on 5 June 6 came", "on 6 June 5 came"),
        ("flies to Rome", "flies from Rome"),
        ("The user's company is in Paris", "The user is in Paris"),
        ("She reads and writes Spanish", "She reads Spanish"),
    ],
)
def test_facts_that_differ_in_a_small_sign_are_not_duplicates(new: str, old: str) -> None:
    assert max(compare(new, old, cosine, LOCAL).score for cosine in (None, 0.99)) < 0.95


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("Anna speaks fluent Spanish", "Anna is fluent in Spanish"),
        ("Tom is a fan of jazz", "Tom loves jazz"),
        ("Eva reports to Tom", "Tom is Eva's manager"),
        ("Tom works for Acme", "Tom is employed by Acme"),
        ("The user moved to Rome in 2021", "The user has lived in Rome since 2021"),
        ("Lumo was founded by Eva", "Eva is the founder of Lumo"),
        ("The user's browser is Firefox", "The user uses Firefox"),
        ("The user avoids gluten", "The user does not use gluten"),
        ("Uploads may be up to 5 MB", "The maximum for uploads is 5 MB"),
        ("Respond in German", "Answers should be in German"),
        ("The backend is built on Django", "The backend uses Django"),
        ("Never use emojis", "Emojis must not be used"),
    ],
)
def test_paraphrases_are_duplicates(new: str, old: str) -> None:
    assert compare(new, old, 0.8, LOCAL).score >= 0.95


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("Send the user emails", "The user sends emails"),
        ("Acme was sued in Rome in 2020 by Beta", "Acme sued Beta in Rome in 2020"),
        ("Errors are reported to Sentry", "Sentry reports errors"),
        ("Tom is Ben's son", "Ben is Tom's son"),
        ("The user was given access", "The user gave access"),
        ("The office is near the station", "The office is in the station"),
        ("The user asked about refunds", "The user asked for a refund"),
        ("The user speaks French", "The user is French"),
        ("Eva's teacher is Tom", "Eva teaches Tom"),
        ("The user had a dog", "The user has a dog"),
        ("The user ordered three pizzas", "The user ordered a third pizza"),
        ("The user doesn't have to pay", "The user must not pay"),
        ("The user had to pay", "The user has to pay"),
        ("The user has a car", "The user is employed"),
        ("The meeting is in 10 minutes", "The meeting lasts 10 minutes"),
        ("The user moved from Rome in 2021", "The user has lived in Rome since 2021"),
        ("He quit last year", "He quit this year"),
        ("Tom is older than Eva", "Tom is bigger than Eva"),
        ("The ticket has been closed", "Close the ticket"),
    ],
)
def test_different_facts_in_similar_constructions_are_not_duplicates(new: str, old: str) -> None:
    assert max(both_ways(new, old, 0.99)) < 0.95


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("The user has two sons and a daughter", "The user has a son and two daughters"),
        ("A pizza and three salads were ordered", "Three pizzas and a salad were ordered"),
        ("The rent went up by 200 euros", "The rent went up to 200 euros"),
        ("The price fell 20%", "The price fell to 20%"),
        ("The backup runs every 3 hours", "The backup runs for 3 hours"),
        ("Run it for 5 minutes", "Run it in 5 minutes"),
        ("The user takes .5 mg", "The user takes 5 mg"),
        ("Pay -.5", "Pay .5"),
        ("deploy -> release", "release -> deploy"),
    ],
)
def test_a_number_belongs_to_its_unit_or_noun(new: str, old: str) -> None:
    assert max(compare(new, old, cosine, LOCAL).score for cosine in (None, 0.99)) < 0.95


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("Only admins can delete", "Admins can only delete"),
        ("Only admins can delete files", "Admins can only delete files"),
        ("Carla manages Dan and Eve", "Carla and Dan manage Eve"),
        ("The user stopped eating meat", "The user stopped to eat meat"),
    ],
)
def test_the_place_of_a_word_can_change_a_fact(new: str, old: str) -> None:
    assert max(both_ways(new, old, 0.99)) < 0.95


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("Tom works only on Mondays", "Tom only works on Mondays"),
        ("Only admins can delete files", "Files can be deleted only by admins"),
        ("Tom and Ann like tea", "Ann and Tom like tea"),
    ],
)
def test_the_place_of_a_word_need_not_change_a_fact(new: str, old: str) -> None:
    assert min(both_ways(new, old, 0.99)) >= 0.95


def test_facts_in_other_languages_are_duplicates_only_if_they_are_nearly_equal() -> None:
    coffee = "L'utilisateur aime le café"

    assert max(both_ways(coffee, "L'utilisateur n'aime plus le café", 0.99)) < 0.95
    assert max(both_ways("Marie habite à Lyon", "Marie vit à Lyon", 0.99)) < 0.95
    assert max(both_ways("客户喜欢电子邮件", "客户偏好电子邮件", 0.99)) < 0.95
    assert min(both_ways(coffee, "L'UTILISATEUR aime le café.", None)) >= 0.95
    assert compare("Le bureau ferme à 18 h", "Le bureau ferme à 19 h", 0.99, LOCAL).why == (
        "numbers or dates differ"
    )


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("The user can code in Rust but not in Go", "The user can code in Go but not in Rust"),
        (
            "The user works with Ann but not with Bob",
            "The user does not work with Ann but with Bob",
        ),
        ("Deploy to staging, never to production", "Deploy to production, never to staging"),
        ("Send mail for billing but not for offers", "Send mail for offers but not for billing"),
        (
            "The bug is in the parser and not in the lexer",
            "The bug is in the lexer and not in the parser",
        ),
    ],
)
def test_a_negation_belongs_to_the_words_after_it(new: str, old: str) -> None:
    assert max(both_ways(new, old, 0.99)) < 0.95


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("Jo lent 40 euros to Max", "Max lent 40 euros to Jo"),
        ("Jo is paid by Will", "Will is paid by Jo"),
        ("The user's brother is Max", "The user's brother is Will"),
    ],
)
def test_a_name_can_be_a_function_word(new: str, old: str) -> None:
    assert max(both_ways(new, old, 0.99)) < 0.95


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("The user has a cat", "The user has cats"),
        ("The user has one child", "The user has children"),
        ("The user has sons and a daughter", "The user has a son and daughters"),
        ("Ann owns a black cat", "Ann owns black cats"),
        ("The report is due by Friday", "The report is due from Friday"),
        ("Hand it in by Friday", "Hand it in from Friday"),
        ("The key is in the box", "The key is on the box"),
        ("Pay Ann", "Pay for Ann"),
        ("He heard Ann", "He heard about Ann"),
        ("The user didn't say he likes tea", "The user said he doesn't like tea"),
        ("Ask Kim Lee", "Ask Lee Kim"),
        ("Kim did not promise to come", "Kim promised not to come"),
        ("Not all tests pass", "No tests pass"),
        ("Not all tests pass", "All tests don't pass"),
        ("Set debug on and trace off", "Set debug off and trace on"),
        ("Ann: yes, Bob: no", "Ann: no, Bob: yes"),
        ("debug on, trace off", "trace on, debug off"),
        ("Debug is on and trace is off", "Debug is off and trace is on"),
        ("The user has stopped smoking", "The user has never smoked"),
        ("The user does not smoke", "The user has never smoked"),
        ("The user has stopped at the shop", "The user is not at the shop"),
        ("The user has stopped smoking", "The user smokes"),
        ("The shop opens at nine in the morning", "The shop opens at nine in the evening"),
        ("The boss of Ann is Bob", "The boss of Bob is Ann"),
        ("The user called Rex", "The user is named Rex"),
        ("The son of Ann is taller than Bob", "Bob is taller than the son of Ann"),
        ("The aunt of Ann is angry with Bob", "Bob is angry with the aunt of Ann"),
        ("Run it with -v", "Run it with -V"),
    ],
)
def test_everyday_facts_that_differ_slightly_are_not_duplicates(new: str, old: str) -> None:
    assert max(both_ways(new, old, 0.99)) < 0.95


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("The user has a black cat", "The user has one black cat"),
        ("The patient smokes", "The patient is a smoker"),
        ("Ann works in the platform team", "Ann works on the platform team"),
        ("Ann works in the team", "Ann works on the team"),
        ("Ann, Kim and Lee come", "Ann, Lee and Kim come"),
        ("The report is due by Friday", "The report is due on Friday"),
        ("Trace is off and debug is on", "Debug is on and trace is off"),
        ("RUN IT", "Run it"),
        ("The order is not shipped", "The order has not been shipped"),
        ("The user has a dog named Rex", "The user's dog is called Rex"),
        ("The CEO of Acme is Lena", "Lena is Acme's CEO"),
        ("The user no longer takes aspirin", "The user has stopped taking aspirin"),
        ("The shop opens at 9 am", "The shop opens at nine in the morning"),
        ("Kim's birthplace is Lima", "Kim was born in Lima"),
        ("The user has a peanut allergy", "The user is allergic to peanuts"),
        ("Kim did not promise to come", "Kim didn't promise to come"),
    ],
)
def test_meaningless_differences_do_not_prevent_a_duplicate(new: str, old: str) -> None:
    assert min(both_ways(new, old, 0.9)) >= 0.95


def test_doing_something_is_not_having_it() -> None:
    assert compare("The user is doing a PhD", "The user has a PhD", 0.99, LOCAL).score < 0.95


def test_the_negated_part_can_come_first() -> None:
    score, _ = compare(
        "Rust is not for scripts but for servers",
        "Rust is for servers but not for scripts",
        0.95,
        LOCAL,
    )

    assert score >= 0.95


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\n",
        "...",
        "the",
        "\U0001f600",
        "&",
        "n't",
        "-",
        "#",
        "'s",
        "-5",
        "%",
        "\u00b2",
        "#1 # 2",
    ],
)
def test_a_text_without_words_is_similar_to_no_other(text: str) -> None:
    assert compare(text, "the customer likes tea", 0.5, LOCAL).score < 0.75


@pytest.mark.parametrize(
    ("written", "other", "same"),
    [
        ("10\u00b3 users", "103 users", "10^3 users"),
        ("2\u2078 entries", "28 entries", "2^8 entries"),
        ("10\u2082 is two", "102 is two", "10\u2082  is two"),
        ("1\u00bd hours", "11/2 hours", "1 1/2 hours"),
        ("50 m\u00b2 of floor", "502 m of floor", "50 m2 of floor"),
    ],
)
def test_a_superscript_or_fraction_is_not_a_digit_of_the_number(
    written: str, other: str, same: str
) -> None:
    assert max(both_ways(f"There are {written}", f"There are {other}", 1.0)) < 0.95
    assert both_ways(f"There are {written}", f"There are {same}", 1.0) == [1, 1]
