"""Folded letters: spellings that readers treat as equal find each other in each language, and other
words do not."""

# ruff: noqa: RUF001  the tests need letters that look alike
import unicodedata
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.memory.engine.connection import APPLICATION_ID, migrations
from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.search.search import SearchInput, search_explained
from memrelay.memory.search.text.folding import folded, is_hidden, shown
from memrelay.memory.search.text.stems import Stems
from memrelay.memory.search.text.words import BREAK, tokens
from tests.memory.builders import (
    MEMORY_ID,
    PLENTY,
    assert_sound,
    contents,
    find,
    make_store,
    write_all,
)

OTHERS = "something else", "ещё что-то", "कुछ और"


def decomposed(text: str) -> str:
    return unicodedata.normalize("NFD", text)


LANGUAGES = [
    (
        "Wir wohnen in der Langen Straße 5 in Gießen",
        ["strasse", "Straße", "STRASSE", "STRAẞE", '"langen strasse 5"', "strass*"],
        ["gießerei", "strase"],
    ),
    (
        "Spotkanie w Łodzi o godzinie piątej",
        ["lodzi", "Łodzi", "łodzi", "piatej", '"w lodzi o"'],
        ["lodz"],
    ),
    (
        "Trịnh Đình Đặng gọi điện",
        ["dang", "Đặng", decomposed("Đặng"), "dien", '"dinh dang"'],
        ["danh"],
    ),
    (
        "ISPARTA'da ıspanak, İstanbul'da",
        ["ıspanak", "ispanak", "ISPANAK", "istanbul", "ısparta"],
        ["ispana"],
    ),
    ("Rødgrød på Ærø og i Þórshöfn", ["rodgrod", "RØDGRØD", "aero", "ÆRØ", "thorshofn"], ["rod"]),
    (
        "set straßenName to größeMax2",
        [
            "strassenname",
            "straßenname",
            "STRASSENNAME",
            "strassen_name",
            "strassenna*",
            "größemax2",
            "strassenName größe",
        ],
        ['"name größe"', "strassennametogrossemax"],
    ),
    ("useEffectを使う", ["useeffect", "useEffect", "USEEFFECT", "effect", "を使"], ["useeff"]),
    ("le cœur de l'œuvre", ["coeur", "OEUVRE", "l’œuvre"], ["cour"]),
    (
        "Ο καφές της Αθήνας",
        ["καφες", "ΚΑΦΕΣ", "καφές", "ΑΘΉΝΑΣ", '"ο καφες της"', "αθην*"],
        ["καφε"],
    ),
    (
        f"Ёлка стоит, {decomposed('йод')} кончился",
        ["елка", "ёлка", "йод", decomposed("йод"), '"елка стоит"'],
        ["елки"],
    ),
    ("הוּא אָמַר שָׁלוֹם לְכֻלָּם", ["שלום", "שָׁלוֹם", '"אמר שלום"', "שלו*"], ["שלו", "של"]),
    ("قابلتُ مُحَمَّد في مكتبةٍ أمس", ["محمد", "مُحَمَّد", "محـــمد", "مكتبه", "امس", "أمس"], ["محم", "حمد"]),
    (
        "می\u200cخواهم کتاب بخرم ساعت ۳",
        ["میخواهم", "می\u200cخواهم", "می خواهم", "كتاب", "کتاب", "3", "۳"],
        ["میخواه"],
    ),
    (
        "मैं हिन्दी सीख रहा हूँ, दिल्ली में",
        ["हिन्दी", '"दिल्ली में"', "दिल्*", decomposed("हिन्दी"), "रहा मैं"],
        ["हिन्दू", "ह", "दाल"],
    ),
    ("ज़रूरी काग़ज़ ०९।", ["ज़रूरी", "जरूरी", "कागज", "09"], ["जरुरी", "ज", "कग"]),
    ("घरेलू", ["घरेलू", "घर*"], ["घर"]),
    ("अब घर", ["घर", '"अब घर"', "घ*"], ["घर अ"]),
    ("আমি বাংলা শিখছি", ["বাংলা", decomposed("শিখছি")], ["বাংলো", "বল"]),
    ("நான் தமிழ் படிக்கிறேன்", ["தமிழ்", "படிக்கிறேன்", "படி*"], ["தாமழ்", "தமிழா"]),
    ("ຂ້ອຍມັກພາສາລາວຫຼາຍ", ["ພາສາລາວ", "ພາສາ", "ລາວ"], ["ພາລາ"]),
    ("ကျွန်တော်မြန်မာစာလေ့လာတယ်", ["မြန်မာ", "မြန်မာစာ", "လေ့လာ"], ["မိန်းမ", "မာမြန်"]),
    ("ខ្ញុំរៀនភាសាខ្មែរ2026", ["ភាសា", "ខ្មែរ", "2026"], ["ភាសី", "សាភា"]),
    ("བོད་ཡིག་སློབ་སྦྱོང་", ["བོད་ཡིག", "བོད"], ["བད"]),
    ("ข้าวมันไก่ ๑๒๓ บาท", ["ข้าวมันไก่", "123", "๑๒๓"], ["12"]),
    ("ქართული ᲗᲑᲘᲚᲘᲡᲘ", ["თბილისი", "ქართული"], ["თბილი"]),
    (
        "eﬃcient ﬁles of 5 m² CO₂ 𝐛𝐨𝐥𝐝",
        ["efficient", "file*", "5 m2", "m²", "CO2", "co₂", "bold"],
        ["cient"],
    ),
    (
        "Donau\u00addampf\u00adschiff",
        ["Donaudampfschiff", "donaudampf*", "Donau\u00addampfschiff"],
        ["donaudampf"],
    ),
    (
        "paid $1,234,567.50, CHF 2'500, 3\u202f600 km and 4.500,75 €",
        [
            "1234567",
            "1234567.50",
            "1,234,567.50",
            "1,234,567",
            "2500",
            "3600",
            "4500,75",
            "$1234567.50",
        ],
        ["234567", "12345"],
    ),
]


@pytest.mark.parametrize(("content", "queries", "others"), LANGUAGES)
def test_words_are_found_in_folded_letters(
    tmp_path: Path, content: str, queries: list[str], others: list[str]
) -> None:
    store = make_store(tmp_path)
    write_all(store, content, *OTHERS)

    for mode in ("fts", "hybrid"):
        assert [
            query for query in queries if contents(find(store, query, mode=mode)) != [content]
        ] == []
    assert [query for query in others if find(store, query)] == []
    assert contents(find(store, f"-{queries[0]} kind:observation")) == [*reversed(OTHERS)]
    store.close()
    assert_sound(store.path)


@pytest.mark.parametrize(
    "text",
    ["Größe café Dvořák", "мой Київ", "日本語", "🎉 👍🏽", "καφε", "محمد", "שלום", "a\u0301"],
)
def test_letters_that_need_no_folding_are_unchanged(text: str) -> None:
    assert folded(text.replace("ß", "ss")) == text.replace("ß", "ss")


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters=BREAK)))
def test_folding_is_idempotent_and_bounded(text: str) -> None:
    folded_text = folded(text)

    assert tokens(folded(folded_text)) == tokens(folded_text)
    assert len(folded_text) <= 6 * len(text)


@pytest.mark.parametrize(
    "char", ["\U00100000", "\U00100905", "\U0010d800", "\U0010dfff", "\U0010fffc"]
)
def test_private_use_characters_are_searchable(tmp_path: Path, char: str) -> None:
    store = make_store(tmp_path)
    write_all(store, f"{char}tea")

    for mode in ("fts", "hybrid"):
        assert len(find(store, f"{char}tea", mode=mode)) == 1
    shown(char).encode()


def test_hidden_marks_are_shown_in_their_original_form() -> None:
    folded_text = folded("हिन्दी में")

    assert is_hidden(folded_text)
    assert len(tokens(folded_text)) == 2
    assert shown(folded_text) == "हिन्दी में"


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("hindi", "लड़का", "लड़के"),
        ("german", "Straße", "Straßen"),
        ("russian", "ёлка", "ёлки"),
    ],
)
def test_words_with_marks_are_stemmed(tmp_path: Path, language: str, one: str, other: str) -> None:
    store = make_store(tmp_path)
    write_all(store, other, "123")

    assert Stems(language).stem(folded(one).lower()) == Stems(language).stem(folded(other).lower())
    assert contents(find(store, one, mode="hybrid", language=language)) == [other]


def test_an_older_file_is_folded_when_it_is_opened(tmp_path: Path) -> None:
    path = store_path(tmp_path, MEMORY_ID)
    path.parent.mkdir(parents=True)
    older_file = apsw.Connection(str(path))
    older_file.create_scalar_function("parts_of", lambda *_: None, 1, deterministic=True)
    for migration in migrations()[:12]:
        older_file.execute(migration)
    older_file.pragma("user_version", 12)
    older_file.pragma("application_id", APPLICATION_ID)
    stored_parts = {
        "日本": "an old part",
        "userName": "user Name",
        "Straße": None,
        "1,000": None,
        "plain": None,
    }
    for content, parts in stored_parts.items():
        older_file.execute(
            "INSERT INTO records"
            "(guid, scope, kind, content, source, created_at, updated_at, parts) "
            "VALUES (?1, 's', 'k', ?1, 'x', 1, 1, ?2)",
            (content, parts),
        )
    for index in ("records_fts", "parts_fts"):
        older_file.execute(f"INSERT INTO {index}({index}) VALUES ('rebuild')")
    older_file.close()

    store = make_store(tmp_path)

    assert [
        contents(find(store, query)) for query in ("本", "name", "strasse", "1000", "plain", "old")
    ] == [["日本"], ["userName"], ["Straße"], ["1,000"], ["plain"], []]
    store.close()
    assert_sound(path)


def test_a_word_in_both_text_and_parts_counts_one_record(
    tmp_path: Path,
) -> None:
    store = make_store(tmp_path)
    write_all(store, "日本語とpython", "python, große", "große", "grosse Python")

    with store.transaction() as tx:
        wanted = SearchInput("python grosse", PLENTY, mode="hybrid", language="none")
        _, explanation = search_explained(tx, wanted)

    assert [(term.term, term.records) for term in explanation.terms] == [
        ("python", 3),
        ("grosse", 3),
    ]


def test_an_explanation_shows_words_in_readable_form(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, "दिल्ली में", "मैं")

    with store.transaction() as tx:
        _, ranked = search_explained(
            tx, SearchInput("दिल्ली", PLENTY, mode="hybrid", language="hindi")
        )
        _, matched = search_explained(tx, SearchInput("दिल्ल -मैं", PLENTY))

    assert ranked.terms[0].spellings == ("दिल्ली",)
    assert ranked.hits[0].terms[0].term == "दिल्ली"
    assert (matched.query.match, matched.query.excluded) == ('("दिल्ल") NOT ("मैं")', ('"मैं"',))
    assert (matched.terms[0].term, matched.terms[0].suggestion) == ("दिल्ल", "दिल्ली")
