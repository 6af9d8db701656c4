"""`agent_from`: who is heard."""

import pytest

from memrelay.pipelines.bundle import accepts, normalised


@pytest.mark.parametrize("agent_from", ["", "*", [], ["*"], ["a", "*"], ["!a", ""]])
def test_nothing_and_a_star_mean_everybody(agent_from: str | list[str]) -> None:
    assert normalised(agent_from) == ()


def test_a_single_name_is_a_list_of_one() -> None:
    assert normalised("User") == ("User",)


@pytest.mark.parametrize("sender", ["User", "", "!User", "*"])
def test_everybody_is_everybody(sender: str) -> None:
    assert accepts((), sender)
    assert accepts(("a", "*"), sender)


def test_a_plain_list_takes_just_those() -> None:
    assert accepts(("a", "b"), "b")
    assert not accepts(("a", "b"), "c")


def test_a_list_of_exclusions_takes_all_others() -> None:
    assert accepts(("!a", "!b"), "c")
    assert not accepts(("!a", "!b"), "a")
    assert not accepts(("!a", "!b"), "b")


def test_an_exclusion_beside_a_plain_name_changes_nothing() -> None:
    assert accepts(("a", "!b"), "a")
    assert not accepts(("a", "!b"), "b")
    assert not accepts(("a", "!b"), "c")


def test_a_sender_cannot_pass_as_an_exclusion() -> None:
    assert not accepts(("a", "!b"), "!b")
    assert accepts(("!b",), "!b")
