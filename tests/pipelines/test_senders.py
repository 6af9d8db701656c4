"""`agent_from`: the accepted senders."""

import pytest

from memrelay.pipelines.bundle import accepts, normalized_senders


@pytest.mark.parametrize("agent_from", ["", "*", [], ["*"], ["a", "*"], ["!a", ""]])
def test_an_empty_value_and_a_star_mean_all_senders(agent_from: str | list[str]) -> None:
    assert normalized_senders(agent_from) == ()


def test_a_single_name_is_a_list_of_one() -> None:
    assert normalized_senders("User") == ("User",)


@pytest.mark.parametrize("sender", ["User", "", "!User", "*"])
def test_without_names_every_sender_is_accepted(sender: str) -> None:
    assert accepts((), sender)
    assert accepts(("a", "*"), sender)


def test_plain_names_accept_only_these_senders() -> None:
    assert accepts(("a", "b"), "b")
    assert not accepts(("a", "b"), "c")


def test_exclusions_accept_all_other_senders() -> None:
    assert accepts(("!a", "!b"), "c")
    assert not accepts(("!a", "!b"), "a")
    assert not accepts(("!a", "!b"), "b")


def test_an_exclusion_next_to_a_plain_name_has_no_effect() -> None:
    assert accepts(("a", "!b"), "a")
    assert not accepts(("a", "!b"), "b")
    assert not accepts(("a", "!b"), "c")


def test_a_sender_whose_name_looks_like_an_exclusion_is_refused() -> None:
    assert not accepts(("a", "!b"), "!b")
    assert accepts(("!b",), "!b")
