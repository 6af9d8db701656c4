"""The shared parts of pages: JSON for reading, terms, the states of an erasure, installations."""

from pathlib import Path
from typing import Any

import pytest

from memrelay.installation import (
    IN_CHECKOUT,
    IN_CLUSTER,
    IN_CONTAINER,
    IN_ENVIRONMENT,
    IN_SYSTEMD,
    KeyCommand,
    list_key_commands,
)
from memrelay.web.console.format import read_json, summarize
from memrelay.web.console.frame import make_templates
from memrelay.web.console.icons import find_state
from memrelay.web.console.terms import TERMS

ORDER = (
    '{"order": 7, "items": [{"sku": "TEA"}, {"sku": "CUP"}], "to": {"city": "Rome"}, "no": null}'
)


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("Ada likes tea", "Ada likes tea"),
        (ORDER, "order: 7 · items: 2 items · to: 1 field · no: null"),
        ('[{"guid": "g", "content": "tea"}]', "1 item: tea"),
        ("[]", "0 items"),
        ("{}", "an empty object"),
        ("{not json", "{not json"),
        ('{"a": "\\ud800"}', '{"a": "\\ud800"}'),
        ("[" * 5000, "[" * 5000),
        ('["' + "a" * 9000 + '"]', '["' + "a" * 9000 + '"]'),
        ("7", "7"),
    ],
)
def test_a_list_shows_json_by_its_fields(text: str, summary: str) -> None:
    assert summarize(text) == summary


def test_json_is_read_with_each_field_and_no_number_changes() -> None:
    found = read_json('{"id": 12345678901234567890123, "text": "a <b>", "list": [1, 2]}')

    assert found is not None
    assert found.fields[:2] == [("id", "12345678901234567890123"), ("text", "a <b>")]
    assert found.fields[2] == ("list", "[\n  1,\n  2\n]")
    assert read_json("plain") is None and read_json("[" * 70_000) is None


def test_a_json_text_is_shown_once_and_its_raw_form_is_folded() -> None:
    sheet = getattr(make_templates("").get_template("json.html").module, "sheet")  # noqa: B009

    shown = str(sheet(ORDER))

    assert "<dt><bdi>order</bdi></dt><dd><bdi>7</bdi></dd>" in shown
    assert shown.index("<details>") < shown.index("&#34;order&#34;: 7")
    assert str(sheet("a < b")).strip() == '<div class="sheet text">a &lt; b</div>'


@pytest.mark.parametrize(
    ("ended_at", "heading"), [("2026-12-01", "Erased permanently"), (None, "Erasure in progress")]
)
def test_the_heading_of_an_erasure_follows_its_state(ended_at: Any, heading: str) -> None:
    counts = dict.fromkeys(("records", "versions", "messages", "replies", "letters", "number"), 1)
    more = {"fault": "", "left_over": "", "asked_at": "2026-12-01", "actor": "a", "reason": ""}
    fragment = make_templates("").get_template("fragments/record_erasure.html")

    shown = fragment.render(erasure=counts | more | {"ended_at": ended_at})

    assert f"<h1>{heading}</h1>" in shown
    assert ("Erased permanently" in shown) == (ended_at is not None)


def test_each_term_has_one_plain_sentence_or_more() -> None:
    assert all(text.endswith(".") and len(text) < 160 for text in TERMS.values())


@pytest.mark.parametrize(
    ("word", "state"),
    [("delivered", "done"), ("refused", "failed"), ("<b>", ""), ("off", "paused")],
)
def test_a_state_has_one_of_five_colors(word: str, state: str) -> None:
    assert find_state(word) == state


@pytest.mark.parametrize(
    ("sign", "folder", "is_checkout", "command"),
    [
        (".dockerenv", "/data", False, IN_CONTAINER),
        ("run/.containerenv", "/data", False, IN_CONTAINER),
        ("var/run/secrets/kubernetes.io", "/data", False, IN_CLUSTER),
        ("", "/var/lib/memrelay", False, IN_SYSTEMD),
        ("", "/home/ada", False, IN_ENVIRONMENT),
        (".dockerenv", "/data", True, IN_CHECKOUT),
    ],
)
def test_the_login_page_names_the_command_of_the_installation(
    tmp_path: Path, sign: str, folder: str, is_checkout: bool, command: KeyCommand
) -> None:
    if sign:
        (tmp_path / sign).mkdir(parents=True)

    commands = list_key_commands(tmp_path, Path(folder), is_checkout=is_checkout)

    assert commands[0] is command
    assert len(commands) == len(set(commands)) == 5
