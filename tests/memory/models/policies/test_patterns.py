"""Named patterns find the formats of issuers, and little else."""

import json
import re
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, strategies

from memrelay.memory.models.policies.patterns import BadFind, Match, compile_find, redact
from memrelay.memory.models.policies.patterns.catalog import BY_NAME, PATTERNS, SETS
from tests.support.canaries import MAKERS, Canary, make_canary

KEY = b"a key of a store"
# Texts that look like a value of the pattern, and are none.
NEGATIVE = {
    "private_key": ["-----BEGIN CERTIFICATE-----", "-----BEGIN PUBLIC KEY-----\nMIIB"],
    "aws_access_key_id": ["AKIA1234", "XAKIAIOSFODNN7EXAMPLE", "akiaiosfodnn7example"],
    "aws_secret_access_key": ["aws_secret_access_key = ${SECRET}", "aws_key = short"],
    "github_token": ["ghp_short", "a_ghp_" + "a" * 36],
    "slack_token": ["xoxb-", "xoxq-123456789012"],
    "discord_token": ["module.attr.method", "Mo.a.b"],
    "telegram_bot_token": ["12345678:AB", "2026-11-28T10:00:00Z"],
    "stripe_key": ["sk_live_", "pk_live_" + "a" * 24],
    "openai_key": ["sk-learn", "task-force-of-many-words-and-more"],
    "jwt": ["eyJhbGciOi", "eyJ0eXAi.eyJ0.x"],
    "bearer_token": ["Authorization: Bearer <token>", "Authorization: Bearer $TOKEN_FROM_FILE"],
    "url_password": [
        "https://example.org:8080/a",
        "postgres://user:password@host",
        "http://a:${PW}@b",
    ],
    "assigned_secret": [
        "password = get_password()",
        "token: string",
        "the password is at the reception",
        "secret = os.environ",
        "tokens = tokenizer.encode",
        "password=changeme123",
        "api_key: your_api_key_1234",
        "token_count = 12345678",
        "secret = base64.b64decode(value)",
        "access_key = trusted_s3_mount_credentials",
    ],
    "credit_card": [
        "4111 1111 1111 1112",
        "1234567890123456",
        "4444 4444 4444 4444",
        "2026112810000000",
    ],
    "iban": ["DE00 3704 0044 0532 0130 00", "AB12 3456"],
    "email": ["a@b", "user@localhost", "@decorator.name", "x @ y.org"],
    "phone": ["+1", "version +1.2.3", "2026-11-28", "phone: none", "1.2.3.4", "call me at 10"],
    "us_ssn": ["000-12-3456", "666-12-3456", "912-12-3456", "123-00-1234", "2026-11-2800"],
    "uk_nino": ["BG123456A", "AB1234567"],
}
POSITIVE = {
    "credit_card": ["4111 1111 1111 1111", "5555-5555-5555-4444", "378282246310005"],
    "iban": ["DE89 3704 0044 0532 0130 00", "GB29NWBK60161331926819"],
    "email": ["ann.lee+news@sub.example.co.uk", "Ann@EXAMPLE.org"],
    "phone": ["+1 (415) 555-2671", "+44 20 7946 0958", "phone: 030 1234567", "tel. (415) 555-2671"],
    "us_ssn": ["123-45-6789"],
}


def find(name: str, text: str) -> list[str]:
    return [text[one.start : one.end] for one in compile_find(name).find(text)]


@pytest.mark.parametrize("name", list(MAKERS))
def test_a_pattern_finds_the_values_of_its_issuer(name: str) -> None:
    finder = compile_find(name)
    for seed in range(20):
        canary = make_canary(name, Random(seed))
        for text in (canary.text, f"first\n{canary.text}\nlast", f'{{"a": "{canary.text}"}}'):
            assert find(name, text) == [canary.value], text
            assert finder.may_match([text])


def test_each_pattern_has_values() -> None:
    assert MAKERS.keys() == BY_NAME.keys()
    assert len(PATTERNS) == len(BY_NAME)


@pytest.mark.parametrize("name", list(NEGATIVE))
def test_a_pattern_finds_nothing_in_similar_texts(name: str) -> None:
    assert [text for text in NEGATIVE[name] if find(name, text)] == []


@pytest.mark.parametrize("name", list(POSITIVE))
def test_a_pattern_finds_usual_forms(name: str) -> None:
    found = [(find(name, f"a {text} b"), text) for text in POSITIVE[name]]
    assert all(text.endswith(values[0]) if values else False for values, text in found), found


def test_values_keep_their_places_in_a_text_with_other_scripts() -> None:
    text = "größer 😀 ann@example.org 日本 \ud800 ben@example.org"
    assert find("email", text) == ["ann@example.org", "ben@example.org"]


def test_of_values_that_overlap_the_first_and_longest_counts() -> None:
    canary = make_canary("github_token", Random(1))
    text = f"api_token = {canary.value}"
    (match,) = compile_find("secrets").find(text)
    assert (match.start, match.end) == (12, len(text))


def test_equal_values_stay_recognizable() -> None:
    text = "ann@example.org wrote to ben@example.org and ann@example.org"
    redacted = redact(text, compile_find("email").find(text), KEY)
    first, second, third = re.findall(r"\[email:[0-9a-f]{8}\]", redacted)
    assert first == third != second
    assert redact(text, compile_find("email").find(text), b"another key") != redacted


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ("secret", "did you mean 'secrets'"),
        (["email", "nothing like it at all"], "docs/policy-patterns.md"),
        ({"pattern": "(?=a)"}, "look-around"),
        ({"pattern": "a*"}, "matches an empty text"),
        ({"pattern": "a" * 2001}, "2001 characters"),
        ({"pattern": "(a{1000}){30}"}, "RE2 refuses|too large"),
    ],
)
def test_an_invalid_find_is_refused_with_the_reason(wanted: object, reason: str) -> None:
    with pytest.raises(BadFind, match=reason):
        compile_find(wanted)


def test_an_own_pattern_finds_its_values() -> None:
    finder = compile_find({"pattern": r"\bproject-[0-9]+\b"})
    assert finder.find("see project-12.") == [Match("pattern", 4, 14)]


@given(strategies.lists(strategies.sampled_from(list(MAKERS)), max_size=4), strategies.integers())
def test_what_may_not_match_has_no_value(names: list[str], seed: int) -> None:
    canaries: list[Canary] = [make_canary(name, Random(seed)) for name in names]
    text = " ".join(one.text for one in canaries)
    for name in SETS:
        finder = compile_find(name)
        assert finder.may_match([text]) or not finder.find(text)


def list_documents() -> list[str]:
    """Return the project's own code and documents, by paragraph."""
    root = Path(__file__).parents[4]
    files = [
        path
        for folder in ("memrelay", "docs", "benchmarks", "examples")
        for suffix in ("py", "md", "json", "yaml")
        for path in sorted((root / folder).rglob(f"*.{suffix}"))
    ]
    return [part for path in files for part in path.read_text("utf-8").split("\n\n")]


def test_secrets_are_seldom_found_in_code_and_documents() -> None:
    """At most one in 1,000 messages."""
    finder = compile_find("secrets")
    documents = list_documents()
    alarms = [text for text in documents if finder.find(text)]
    assert len(documents) > 5_000
    assert len(alarms) <= len(documents) / 1000, alarms


def test_the_documentation_lists_all_patterns() -> None:
    page = Path(__file__).parents[4] / "docs" / "policy-patterns.md"
    listed = re.findall(r"^\| `(\w+)` \| (.+) \|$", page.read_text("utf-8"), re.MULTILINE)
    assert dict(listed) == {one.name: one.finds for one in PATTERNS}
    assert [name for name, _ in listed] == [
        name for one in SETS.values() for name in sorted(pattern.name for pattern in one)
    ]


def test_what_was_redacted_is_found_no_more() -> None:
    finder = compile_find(["secrets", "personal"])
    for name in MAKERS:
        for number in range(20):
            text = make_canary(name, Random(number)).text
            redacted = redact(text, finder.find(text), KEY)
            assert finder.find(redacted) == [], redacted
    # The pattern finds a digest after a name with `token`, unless it is a replacement.
    assert finder.find("shopify_token:1f0c93ab") and not finder.find("[shopify_token:1f0c93ab]")


@pytest.mark.parametrize("name", ["aws_access_key_id", "github_token", "credit_card", "us_ssn"])
@pytest.mark.parametrize("escape", ["\n", "\t", "\x01", "\u00e9 \n"], ids=repr)
@pytest.mark.parametrize("depth", [1, 2])
def test_a_value_behind_an_escape_of_json_is_found(name: str, escape: str, depth: int) -> None:
    value = POSITIVE[name][0] if name in POSITIVE else make_canary(name, Random(1)).value
    text = f"a{escape}{value}{escape}b"
    for _ in range(depth):
        text = json.dumps({"k": text})
    finder = compile_find(name)

    assert finder.may_match((text,))
    (match,) = finder.find(text)
    assert text[match.start : match.end] == value
    assert value not in redact(text, [match], KEY)
    assert json.loads(redact(text, [match], KEY))
