"""The block summarize: rolling summaries of threads, and their end."""

from typing import Any

import orjson
import pytest

from memrelay.testing import test_pipeline
from memrelay.testing.pipeline import BlockingPipelineUnderTest
from tests.support.extraction import answer_text, make_bundle, read_turns

Summary = list[tuple[str, str, Any]]


def say(
    p: BlockingPipelineUnderTest, first: int, count: int, *, thread: str = "t", user: str = "ada"
) -> None:
    messages = [{"content": f"thing{first + number}"} for number in range(count)]
    p.store("memories").turns.add(messages, user=user, thread=thread)


def summaries(p: BlockingPipelineUnderTest, thread: str = "t") -> Summary:
    """Return (role, text, covered) of the summaries of a thread."""
    page = p.store("memories").turns.list(thread=thread, kind="summary")
    return [(one.role, one.content, one.item) for one in page.items]


def list_turns(request: Any) -> Any:
    """Return a summary that lists all turns: those of the summary before, and the new ones."""
    content = request["messages"][1]["content"]
    before, rest = "", content.partition("<summary>\n")[2]
    if rest:
        before = orjson.loads(rest.partition("\n")[0]) + " "
    return answer_text(before + " ".join(one["text"] for one in read_turns(request)))


def things(first: int, count: int) -> str:
    return " ".join(f"thing{first + number}" for number in range(count))


def test_a_summary_rolls_over_the_turns_of_a_thread() -> None:
    with test_pipeline(make_bundle(summarize={"every": 4})) as p:
        p.answer("summarize", list_turns)
        store = p.store("memories")
        say(p, 0, 3)
        p.advance("61s")
        none = summaries(p)
        say(p, 3, 2)
        p.advance("61s")
        (first,) = summaries(p)
        say(p, 5, 4)
        p.advance("61s")
        turns = store.turns.list(thread="t").items
        ((role, text, covered),) = summaries(p)
        (record,) = store.records.list(kind="summary").items

        assert none == [] and first[1] == things(0, 5)
        assert (role, text) == ("summary", things(0, 9))
        assert covered == {"first": turns[0].guid, "last": turns[-1].guid, "turns": 9}
        assert (record.thread, record.owner, record.source) == ("t", "ada", "summary")
        assert [one["text"] for one in read_turns(p.requests[1].request)] == things(5, 4).split()
        assert [turn.content for turn in turns] == things(0, 9).split()
        assert p.dead_letters == []


def test_users_and_threads_have_summaries_of_their_own() -> None:
    with test_pipeline(make_bundle(summarize={"every": 2})) as p:
        p.answer("summarize", list_turns)
        for number, (thread, user) in enumerate((("t", "ada"), ("t", "bob"), ("u", "ada"))):
            say(p, 10 * number, 2, thread=thread, user=user)
        p.advance("61s")
        store = p.store("memories")
        found = {
            (one.thread, one.owner): one.content for one in store.records.list(kind="summary").items
        }

        assert found == {
            ("t", "ada"): things(0, 2),
            ("t", "bob"): things(10, 2),
            ("u", "ada"): things(20, 2),
        }
        store.turns.clear(thread="t", user="ada")
        left = {(one.thread, one.owner) for one in store.records.list(kind="summary").items}
        assert left == {("t", "bob"), ("u", "ada")}


def test_a_summary_goes_with_an_erased_turn_and_is_made_again_of_the_others() -> None:
    with test_pipeline(make_bundle(summarize={"every": 3})) as p:
        p.answer("summarize", list_turns)
        store = p.store("memories")
        say(p, 0, 3)
        p.advance("61s")
        say(p, 3, 3)
        p.advance("61s")
        second = store.turns.list(thread="t").items[1]
        store.records.erase(guids=[second.guid])
        erased = summaries(p)
        say(p, 6, 3)
        p.advance("61s")
        ((_, text, covered),) = summaries(p)

        assert erased == []
        assert text == things(0, 1) + " " + things(2, 7)
        assert covered["turns"] == 8


def test_a_deleted_turn_leaves_the_summary_until_all_are_gone() -> None:
    with test_pipeline(make_bundle(summarize={"every": 2})) as p:
        p.answer("summarize", list_turns)
        store = p.store("memories")
        say(p, 0, 2)
        p.advance("61s")
        store.turns.pop(thread="t", user="ada")
        assert len(summaries(p)) == 1
        store.turns.pop(thread="t", user="ada")
        assert summaries(p) == []


@pytest.mark.parametrize("text", ["", "```\n```", "a\0b", "\x1b[2J", "x" * 5000])
def test_an_unusable_summary_leaves_the_old_one(text: str) -> None:
    with test_pipeline(make_bundle(summarize={"every": 2, "retries": 1})) as p:
        p.answer("summarize", list_turns)
        say(p, 0, 2)
        p.advance("61s")
        p.answer("summarize", answer_text(text))
        say(p, 2, 2)
        p.advance("61s")
        (status,) = p.store("memories").extraction.status().items

        assert [one[1] for one in summaries(p)] == [things(0, 2)]
        assert (status.rejected, status.rejected_turns, status.updated) == (1, 2, 0)


@pytest.mark.parametrize("step", ["commit", "publish", "call"])
def test_a_summary_has_each_turn_once_over_crashes(step: Any) -> None:
    with test_pipeline(make_bundle(summarize={"every": 5})) as p:
        p.answer("summarize", list_turns)
        say(p, 0, 30)
        p.crash_after(step)
        p.crash_after(step)
        p.advance("61s")
        p.advance("61s")

        assert [one[1] for one in summaries(p)] == [things(0, 30)]


def test_many_small_threads_never_block_the_others() -> None:
    with test_pipeline(make_bundle(summarize={"every": 3})) as p:
        p.answer("summarize", list_turns)
        for number in range(510):
            say(p, number, 1, thread=f"small{number}")
        say(p, 1000, 3)
        for _ in range(3):
            p.advance("61s")

        assert [one[1] for one in summaries(p)] == [things(1000, 3)]


@pytest.mark.parametrize("is_approved", [True, False])
def test_a_summary_that_waits_for_review_goes_with_an_erased_turn(is_approved: bool) -> None:
    with test_pipeline(make_bundle(summarize={"every": 3})) as p:
        p.answer("summarize", list_turns)
        store = p.store("memories")
        say(p, 0, 3)
        p.advance("61s")
        kept = {"filter": {"kind": {"eq": "summary"}}}
        store.policies.set({"name": "read first", "match": kept, "action": "review"})
        say(p, 3, 3)
        p.advance("61s")
        (proposal,) = store.reviews.list().items
        if is_approved:
            store.reviews.approve(guids=[proposal.guid])
            assert summaries(p)[0][1] == things(0, 6)

        store.records.erase(guids=[store.turns.list(thread="t").items[4].guid])

        assert summaries(p) == [] and store.reviews.list().items == ()
