"""Checks a store against the models while nobody writes: every read, over a random interface."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.model.caller import TIMES, WORDS, Caller, guid_of
from tests.model.lives import ENTRY, Life, State, plain

CLOCK_MS = 50  # tolerance for the clock of a read


class Agreement:
    """The check for several callers of one store."""

    def __init__(self, callers: Sequence[Caller]) -> None:
        """They share one memory and one journal."""
        self._callers, self._one = callers, callers[0]
        self._chance = callers[0].chance

    def check(self, sample: int) -> None:
        """Check all lists, and for each caller some records."""
        self._records()
        self._deleted()
        self._filters()
        self._words()
        self._memories()
        self._in_common()
        for caller in self._callers:
            lives = list(caller.model.lives.values())
            for life in self._chance.sample(lives, min(sample, len(lives))):
                self._record(life)

    def _read(self, op: str, **given: Any) -> Any:
        refusal, told = self._one.faces.call(op, given, self._chance.sample(["rest", "bus"], 2))
        assert not refusal, f"{op} {given} is refused: {refusal}: {told}"
        return told

    def _pages(self, op: str, **given: Any) -> list[State]:
        """Return every item. The total counts those that expired since the first page."""
        items: list[State] = []
        cursor, total, began_ms = "", 0, self._one.faces.now_ms()
        while cursor is not None:
            page = self._read(
                op,
                limit=self._chance.choice([7, 50, 1000]),
                **given,
                **({"cursor": cursor} if cursor else {}),
            )
            items, cursor, total = items + page["items"], page["next_cursor"], page["total"]
        over = range(began_ms - CLOCK_MS, self._one.faces.now_ms() + CLOCK_MS + 1)
        expired = sum(
            end_ms in over
            for caller in self._callers
            for _, end_ms in caller.model.fleeting.values()
        )
        assert total <= len(items) <= total + expired, (
            f"{op} {given} has {len(items)} items, and says {total}"
        )
        return items

    def _records(self) -> None:
        began_ms = self._one.faces.now_ms()
        told = {one["guid"]: without(one, *TIMES) for one in self._pages("records.list")}
        ended_ms = self._one.faces.now_ms()
        for caller in self._callers:
            there = [life.guid for life in caller.model.there()]
            assert_order(
                there,
                [guid for guid in told if guid in caller.model.lives],
                f"the records of {caller.name}",
            )
            for life in caller.model.there():
                assert told.pop(life.guid) == {"guid": life.guid} | (life.now or {}), f"{life}"
            for guid, (state, end_ms) in caller.model.fleeting.items():
                one = told.pop(guid, None)
                assert one is None or one == {"guid": guid} | state, f"{one} should be {state}"
                assert one or end_ms <= ended_ms + CLOCK_MS, (
                    f"{guid} is gone before its time, {end_ms}"
                )
                assert not one or end_ms > began_ms - CLOCK_MS, (
                    f"{guid} is there after its time, {end_ms}"
                )
        common = [
            one
            for one in told.values()
            if one["kind"] != "journal" and one["scope"] != self._one.shared
        ]
        assert not common, f"nobody made {common}"

    def _deleted(self) -> None:
        told = [one["guid"] for one in self._pages("records.list", deleted=True)]
        for caller in self._callers:
            wanted = [life.guid for life in caller.model.deleted()]
            assert_order(
                wanted,
                [guid for guid in told if guid in caller.model.lives],
                f"what {caller.name} deleted",
            )
        assert len(told) == sum(len(caller.model.deleted()) for caller in self._callers)

    def _filters(self) -> None:
        fits: dict[str, Any] = {"kind": ENTRY, "scope": f"{self._one.name}-scope"}
        name = self._chance.choice(list(fits))
        self._same(
            self._pages("records.list", **{name: fits[name]}),
            lambda state: state[name] == fits[name],
        )
        least = self._chance.randrange(9)
        asked = {"or": [{"data.n": {"gte": least}}, {"not": {"thread": {"exists": False}}}]}
        self._same(
            self._pages("records.list", filter=asked),
            lambda state: state["data"].get("n", -1) >= least or state["thread"] is not None,
        )

    def _words(self) -> None:
        for word in self._chance.sample(WORDS, 4):
            found = [
                one["record"]
                for one in self._read("records.search", query=word, limit=1000)["items"]
            ]
            assert len(found) < 1000
            self._same(
                found,
                lambda state, word=word: word in re.findall(r"\w+", state["content"].casefold()),
            )

    def _same(self, found: list[State], fits: Any) -> None:
        ours = {guid for caller in self._callers for guid in caller.model.lives}
        wanted = {life.guid for caller in self._callers for life in caller.model.there(fits)}
        told = [one["guid"] for one in found if one["guid"] in ours]
        assert len(told) == len(set(told)) and set(told) == wanted, f"{set(told) ^ wanted}"

    def _memories(self) -> None:
        told = {one["id"]: one for one in self._pages("memories.list")}
        assert told.pop(self._one.shared)
        for caller in self._callers:
            for ident, memory in caller.model.memories.items():
                one = told.pop(ident)
                assert {name: one[name] for name in memory} == memory, f"{one} should be {memory}"
                self._entries(caller, ident)
        assert not told, f"nobody made {told}"

    def _entries(self, caller: Caller, memory: str) -> None:
        wanted = [
            (life.guid, life.text, life.confirmations) for life in caller.model.entries(memory)
        ]
        told = [
            (guid_of(one), one["content"], one["confirmations"])
            for one in self._pages("entries.list", memory_id=memory)
        ]
        assert told == wanted, f"{memory} of {caller.name} has {told}, and should have {wanted}"
        soat = caller.faces.soat(f"/memories/{memory}/entries")
        assert soat is None or [guid_of(one) for one in soat] == [guid for guid, _, _ in wanted]
        known = self._read("knowledge.search", memory_ids=[memory], limit=1000)["results"]
        assert [one["content"] for one in known] == [text for _, text, _ in wanted]

    def _in_common(self) -> None:
        written = sum((caller.model.written for caller in self._callers), Counter[str]())
        told = {
            plain(one["content"]): one["confirmations"] + 1
            for one in self._pages("entries.list", memory_id=self._one.shared)
        }
        assert told == dict(written), f"{told} were written, and should have been {written}"
        tokens = Counter(token for caller in self._callers for token in caller.model.tokens)
        journal = self._pages("records.list", kind="journal")
        said = Counter(token for one in journal for token in one["content"].split(";"))
        assert said == tokens, f"lost {tokens - said}, made up {said - tokens}"
        assert len(journal) == (1 if tokens else 0)

    def _record(self, life: Life) -> None:
        """Return one record with its history."""
        if life.now is not None:
            told = self._read("records.get", guid=life.guid)
            assert without(told, *TIMES) == {"guid": life.guid} | life.now
        told = self._pages("records.history", guid=life.guid)
        acts = [*life.acts, (None, None, None)]
        wanted = [
            (number, state and {"guid": life.guid} | state, *act)
            for number, (state, act) in enumerate(zip(life.states, acts, strict=True), 1)
        ]
        held = [
            (
                one["number"],
                one["record"] and without(one["record"], *TIMES),
                one["change"],
                one["actor"],
                one["reason"],
            )
            for one in told
        ]
        assert held == wanted[::-1], f"{held}\nshould be\n{wanted[::-1]}"


def without(told: State, *names: str) -> State:
    """Return the object without these fields."""
    return {name: value for name, value in told.items() if name not in names}


def assert_order(wanted: list[str], told: list[str], what: str) -> None:
    """Check that both have the same items in the same order."""
    missing, surplus = set(wanted) - set(told), set(told) - set(wanted)
    assert not missing and not surplus, f"{what}: lost {missing}, made up {surplus}"
    assert wanted == told, f"{what} have another order: {told}, and should be {wanted}"
