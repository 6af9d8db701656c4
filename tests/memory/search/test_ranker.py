"""records.search in mode hybrid: words in any form and their surroundings, no hits for nonsense,
filters before limits."""

import time
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memrelay.memory.engine.store import Store
from memrelay.memory.errors import Refused
from memrelay.memory.records.deletion import DeleteInput, delete
from memrelay.memory.records.writing import AppendInput, append, write
from memrelay.memory.search import pool
from memrelay.memory.search.search import SearchInput, search, search_explained
from memrelay.memory.search.text.languages import LANGUAGES
from memrelay.memory.search.text.stems import Stems
from memrelay.memory.search.text.stopwords import STOP_WORDS
from memrelay.memory.search.text.words import tokens
from tests.memory.builders import NOW, PLENTY, fresh_store, make_record, make_store, write_all

LIBRARY = (
    "the blue sky is running away",
    "I ran to the hills",
    "userName of the 東京都 tower",
    "Ein schönes Haus",
    'he said "tea" and user-name',
    "café v1.2.3 at 3pm",
)


def found(store: Store, text: str, **changes: Any) -> list[str]:
    with store.transaction() as tx:
        return [
            one.content for one in search(tx, SearchInput(text, PLENTY, mode="hybrid", **changes))
        ]


def write_turns(store: Store, *turns: tuple[str, str], thread: str = "t") -> None:
    with store.transaction() as tx:
        for speaker, text in turns:
            write(tx, make_record(text, source=speaker, thread=thread))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("runs", LIBRARY[0]),
        ("What about skies?", LIBRARY[0]),
        ('"blue sky"', LIBRARY[0]),
        ("hil*", LIBRARY[1]),
        ("the ran", LIBRARY[1]),
        ("京都", LIBRARY[2]),
        ("username", LIBRARY[2]),
        ("userName", LIBRARY[2]),
        ("schone hauser", LIBRARY[3]),
        ("user_name tea", LIBRARY[4]),
        ("v1.2.3", LIBRARY[5]),
        ("CAFÉ", LIBRARY[5]),
    ],
)
def test_a_record_is_found_by_any_word_in_any_form(
    tmp_path: Path, query: str, expected: str
) -> None:
    store = make_store(tmp_path)
    write_all(store, *LIBRARY)

    assert (
        found(store, query, language="german" if "haus" in query else "english")[:2].count(expected)
        == 1
    )


def test_a_short_stem_that_ends_in_a_vowel_finds_its_forms(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, "Ann is going home", "a goat eats grass")

    assert found(store, "Who goes home") == found(store, "go") == ["Ann is going home"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("what did Ann buy", "Ann bought a bike"),
        ("bought", "Ann bought a bike"),
        ("buying", "Ann bought a bike"),
        ("child", "three children sing"),
        ("children", "three children sing"),
        ("who sang", "three children sing"),
    ],
)
def test_irregular_words_are_found_in_every_form(tmp_path: Path, query: str, expected: str) -> None:
    store = make_store(tmp_path)
    write_all(store, "Ann bought a bike", "three children sing", "a boy by the bay")

    assert found(store, query) == [expected]
    assert (
        found(store, "buy child", language="none") == found(store, "sang", language="dutch") == []
    )


def test_an_exact_word_ranks_before_its_irregular_forms(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, "prices rise again", "she has a rose here", "prices rise a lot")

    assert found(store, "rose")[0] == "she has a rose here"
    assert found(store, "rising") == [
        "prices rise again",
        "prices rise a lot",
        "she has a rose here",
    ]


def test_kind_of_and_type_of_are_ignored_in_a_question(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, "a kind man said so", "apple pie", "the type of man that I mean")

    assert (
        found(store, "What kind of pie is it?")
        == found(store, "which types of pie")
        == ["apple pie"]
    )
    assert found(store, "kind")[0] == "a kind man said so"
    assert len(found(store, "kind of")) == 2  # a query of these words alone searches for them


def test_a_quoted_title_in_a_question_is_optional(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(
        store, "I read nothing but the impossible", "a book on tea", "I read Nothing is Impossible"
    )

    assert found(store, 'When was "nothing is impossible" read')[:2] == [
        "I read Nothing is Impossible",
        "I read nothing but the impossible",
    ]
    assert found(store, '"nothing is impossible"') == ["I read Nothing is Impossible"]


@pytest.mark.parametrize(
    "query", ["", "?!", "zzxq", "blorp zzxq sky qwrt", '"sky blue"', "sky -blue", "sky kind:none"]
)
def test_nonsense_and_excluded_words_find_nothing(tmp_path: Path, query: str) -> None:
    store = make_store(tmp_path)
    write_all(store, *LIBRARY)

    assert found(store, query) == []


def test_one_of_two_words_is_enough_if_it_is_not_common(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, *[f"tea number {number}" for number in range(10)])

    assert len(found(store, "tea cup")) == 10


def test_records_of_the_named_date_rank_first(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    june, may = 1_686_830_400_000, 1_683_460_800_000  # 15 June and 7 May 2023, noon
    with store.transaction() as tx:
        for moment in (june, may):
            write(tx, make_record(f"tea at {moment}", now_ms=moment))

    assert found(store, "where was tea on 7 May") == [f"tea at {may}", f"tea at {june}"]
    assert found(store, "where was tea in June 2023") == [f"tea at {june}", f"tea at {may}"]


def test_several_dates_in_a_question_all_count(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    days = {
        "1 May 2022": 1_651_363_200_000,
        "7 May 2023": 1_683_417_600_000,
        "8 May 2023": 1_683_504_000_000,
        "9 June 2024": 1_717_891_200_000,
        "7 July 2024": 1_720_310_400_000,
        # the first millisecond of each day
    }
    with store.transaction() as tx:
        for moment in days.values():
            write(tx, make_record(f"tea at {moment}", now_ms=moment))

        found_records, explanation = search_explained(
            tx,
            SearchInput(
                "tea on 7 May 2023, 8 May 2023, in June 2024, on 7 July or in April",
                PLENTY,
                mode="hybrid",
            ),
        )

    timely = {hit.guid for hit in explanation.hits if hit.factors}
    assert [record.created_at for record in found_records if record.guid in timely] == [
        *reversed(list(days.values())[1:])
    ]


def test_a_question_with_hundreds_of_dates_is_answered_quickly(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, *["tea"] * 5000)
    days = " ".join(
        f"{day} {month} {year}"
        for year in range(1990, 2010)
        for month in ("May", "June")
        for day in range(1, 20)
    )
    found(store, "tea in March 2023")

    started_s = time.thread_time()
    found(store, f"tea {days}")

    assert time.thread_time() - started_s < 5


def test_a_long_query_is_cut_to_256_words_with_a_note(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, "tea", "cup")
    phrases = " ".join(f'"{"tea " * count}"' for count in range(60, 2, -1))
    many = " ".join(f"word{'x' * number}" for number in range(255))

    with store.transaction() as tx:
        of_phrases, of_words, short = [
            search_explained(tx, SearchInput(query, PLENTY, mode="hybrid"))[1]
            for query in (f"{phrases} cup", f"cup {many} tea", f"cup {many}")
        ]

    assert sum(term.term.count("tea") - 1 for term in of_phrases.terms if '"' in term.term) <= 256
    assert [term.term for term in of_words.terms if term.records] == ["cup"]
    assert ["256" in note for one in (of_phrases, of_words, short) for note in one.notes] == [
        False,
        True,
        False,
        True,
        False,
    ]


def test_required_phrases_are_limited(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, "green tea and brown sugar", "green tea")

    assert found(store, '"green tea" "brown sugar"') == ["green tea and brown sugar"]
    with pytest.raises(Refused, match="at most 256"):
        found(store, " ".join(f'"{"tea " * count}"' for count in range(2, 60)))


def test_a_query_of_stop_words_searches_for_them(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, "to be or not to be", "tea")

    assert found(store, "not to be") == ["to be or not to be"]


def test_a_source_whose_records_are_deleted_is_not_a_speaker(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_turns(store, ("Ann", "Sigh"), ("Bob", "Rain again"), ("Eve", "Sky"))

    before = found(store, "Ann zzxq blorp qwrt rain")
    with store.transaction() as tx:
        delete(tx, DeleteInput(tx.records.oldest({"source": "Ann"}).guid))

    assert "Rain again" in before
    assert found(store, "Ann zzxq blorp qwrt rain") == []  # the same as in a newly opened store


def test_a_turn_is_found_by_its_neighboring_turns(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_turns(store, ("Ann", "What is the name of your puppy?"), ("Bob", "Rex"))
    write_turns(store, ("Bob", "Rain again"), ("Ann", "Sigh"), thread="weather")

    assert set(found(store, "puppy name")) == {"What is the name of your puppy?", "Rex"}


def test_a_late_turn_is_placed_by_its_seq(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    with store.transaction() as tx:
        for seq in (10, 20, 30, 40, 50, 60):
            write(tx, make_record(f"n{seq}", thread="t", seq=seq))
    found(store, "puppy")
    with store.transaction() as tx:
        write(tx, make_record("puppy", thread="t", seq=15))

    assert found(store, "puppy")[:1] == ["puppy"]
    assert set(found(store, "puppy")[:4]) == {"puppy", "n10", "n20", "n30"}


def test_turns_of_the_named_speaker_rank_first(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_turns(store, ("Bob", "I like tea"), ("Ann", "I like tea"))

    with store.transaction() as tx:
        first, *_ = search(tx, SearchInput("Does Ann like tea", PLENTY, mode="hybrid"))

    assert first.source == "Ann"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Does Priya like tea", "Priya Nair"),
        ("Does Pri like tea", "Priya Nair"),
        ("Priya's tea", "Priya Nair"),
        ("Does McKay like tea", "McKay"),
        ("Does Ann Lee like tea", "Ann Lee"),
        ("Does Ann like tea", ""),  # two have this name
        ("Does Pr like tea", ""),  # too short
        ("does priya like tea", ""),  # a first name is a word too
        ("Support for tea", ""),  # only the beginning of a sentence
        ("DOES PRIYA LIKE TEA", ""),
        ("Did I like tea in June?", ""),  # a month
        ("Whether Will you like tea", ""),  # a stop word
    ],
)
def test_a_speaker_is_named_in_short(tmp_path: Path, query: str, expected: str) -> None:
    names = ("Support Bot", "Juneau", "Willa", "McKay", "Ann Lee", "Ann Cole", "Priya Nair")
    store = make_store(tmp_path)
    write_turns(store, *((name, "I like tea") for name in names))

    with store.transaction() as tx:
        found, explanation = search_explained(tx, SearchInput(query, PLENTY, mode="hybrid"))

    sources = {record.guid: record.source for record in found}
    named = [sources[hit.guid] for hit in explanation.hits if hit.speaker]
    assert named == ([expected] if expected else [])


def test_a_name_in_short_is_no_misspelled_word(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_turns(store, ("Nathaniel Roy", "math is fun"), ("Ann", "math is hard"))

    with store.transaction() as tx:
        _, explanation = search_explained(tx, SearchInput("is Nath fun", PLENTY, mode="hybrid"))

    assert [(one.term, one.state) for one in explanation.terms][:2] == [
        ("nath", "speaker"),
        ("fun", "wanted"),
    ]


def test_the_default_limit_is_10(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, *["tea"] * 30)

    assert [len(found(store, "tea", limit=limit)) for limit in (None, 0, 12, 1000)] == [
        10,
        0,
        12,
        30,
    ]


def test_scores_are_between_0_and_1_and_descending(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, "tea " * 100, "green tea", "a longer text about tea and other things")

    with store.transaction() as tx:
        scores = [one.score for one in search(tx, SearchInput("green tea", PLENTY, mode="hybrid"))]

    assert scores == sorted(scores, reverse=True)
    assert all(0 < score < 1 for score in scores)


def test_all_tags_must_match(tmp_path: Path) -> None:
    store, tags = make_store(tmp_path), tuple("abcdef")
    write_all(store, "green tea", tags=tags)
    write_all(store, "black tea", tags=tags[:-1])

    assert found(store, "tea", tags=tags) == ["green tea"]
    write_all(store, "white tea", tags=(*tags, "g"))
    assert set(found(store, "tea", tags=tags)) == {"green tea", "white tea"}


@pytest.mark.slow
@settings(max_examples=40)
@given(
    records=st.lists(
        st.tuples(
            st.sampled_from("ab"),
            st.sampled_from("xy"),
            st.sets(st.sampled_from("pq")),
            st.integers(0, 3),
        ),
        max_size=25,
    ),
    wanted=st.tuples(
        st.sampled_from(("", "a")),
        st.sampled_from(("", "x")),
        st.sets(st.sampled_from("pq")),
        st.integers(0, 4),
        st.integers(0, 4),
    ),
    limit=st.integers(1, 30),
)
def test_filters_match_an_oracle_and_apply_before_the_limit(
    records: list[tuple[str, str, set[str], int]],
    wanted: tuple[str, str, set[str], int, int],
    limit: int,
) -> None:
    kind, scope, tags, after, before = wanted
    with fresh_store() as store:
        expected = []
        for number, (its_kind, its_scope, its_tags, moment) in enumerate(records):
            write_all(
                store,
                f"tea n{number}",
                kind=its_kind,
                scope=its_scope,
                tags=tuple(its_tags),
                now_ms=NOW + moment,
            )
            if (
                kind in ("", its_kind)
                and scope in ("", its_scope)
                and tags <= its_tags
                and after <= moment < before
            ):
                expected.append(f"tea n{number}")
            if number % 5 == 0:
                found(store, "tea", filters={"kind": "a"}, tags=("p",))
        equal = {name: value for name, value in (("kind", kind), ("scope", scope)) if value}

        result = found(
            store,
            f"tea after:{NOW + after} before:{NOW + before}",
            filters=equal,
            tags=tuple(tags),
            limit=limit,
        )

        assert set(result) <= set(expected)
        assert len(result) == min(limit, len(expected))


@settings(max_examples=80)
@given(
    st.text(max_size=60)
    | st.lists(
        st.sampled_from(
            [*'"*-:() ', "the", "kind:", "東京", "e\u0301", "\x00", "'", "a1B2", "NOT"]
        ),
        max_size=12,
    ).map("".join)
)
def test_any_text_is_a_valid_query(text: str) -> None:
    with fresh_store() as store:
        write_all(store, *LIBRARY)

        assert len(found(store, text)) <= len(LIBRARY)


def test_a_very_long_query_is_answered_or_rejected(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, *LIBRARY)

    assert found(store, " ".join(f"x{number}" for number in range(4000))) == []
    with pytest.raises(Refused):
        found(store, " ".join(f"x{number}" for number in range(5000)))


def test_a_search_works_after_most_records_are_deleted(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, *["sky"] * 300)
    write_all(store, *["rain"] * 300, kind="gone")
    write_all(store, "tea and rain")
    found(store, "tea")
    with store.transaction() as tx:
        tx.records.delete_all({"kind": "gone"})
        tx.records.delete_all({"kind": "observation"})
        write(tx, make_record("tea again"))

    assert found(store, "tea rain") == ["tea again"]


def test_the_memory_of_several_stores_is_bounded_and_reloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = [make_store(tmp_path, f"instances/{name}/m") for name in ("one", "two", "three")]
    for store in stores:
        write_all(store, "tea")
    monkeypatch.setattr(pool.POOL, "budget", 50)

    for _ in range(2):
        assert [found(store, "tea") for store in stores] == [["tea"]] * 3
    assert [store.ranker.nbytes() > 0 for store in stores] == [False, True, True]


def test_writes_of_another_owner_are_found_after_a_takeover(tmp_path: Path) -> None:
    first, second = make_store(tmp_path), make_store(tmp_path)
    write_all(first, "green tea")
    second.take_over(6)
    assert found(first, "tea") == ["green tea"]
    with second.transaction() as tx:
        append(tx, AppendInput(make_record("milk"), "", {"kind": "observation"}, " "))
    first.take_over(7)

    assert found(first, "milk") == ["green tea milk"]


def test_every_language_has_a_stemmer_and_stop_words_are_index_tokens() -> None:
    for language in LANGUAGES:
        assert Stems(language).stem("tea")
    assert set(STOP_WORDS) < set(LANGUAGES)
    assert all(tokens(word) == [word] for words in STOP_WORDS.values() for word in words)


def test_a_new_turn_gets_the_next_seq_of_its_thread(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_turns(store, ("Ann", "one"), ("Bob", "two"))
    with store.transaction() as tx:
        write(tx, make_record("nine", thread="t", seq=9))
        write(tx, make_record("ten", thread="t"))
        write(tx, make_record("other", thread="u"))
    write_turns(store, ("Ann", "eleven"))

    places = (
        apsw.Connection(store.path)
        .execute("SELECT content, thread, seq FROM records ORDER BY row")
        .fetchall()
    )
    assert places == [
        ("one", "t", 0),
        ("two", "t", 1),
        ("nine", "t", 9),
        ("ten", "t", 10),
        ("other", "u", 0),
        ("eleven", "t", 11),
    ]
