"""A caller that makes random changes to a store and checks each answer against its model."""

import random
from collections.abc import Callable
from typing import Any

from tests.model.faces import ACTOR, CallerFaces
from tests.model.lives import ENTRY, WORDS, Life, Model, State, added, guid_of, moment, plain

# The fields of time. No period of validity is ever given here.
TIMES = ("created_at", "updated_at", "version", "valid_from", "valid_to")
MOST_STATES = 60  # per record; the store drops the oldest states after a hundred
MOST_RECORDS = 120  # existing records per caller
SHARED, NEVER = "shared by all", 1.1
TOLD = "told"  # the memory of the block
FLEETING_MS = 4000


class Caller:
    """The caller of one thread. Its `name` is part of all its data."""

    def __init__(self, name: str, faces: CallerFaces, seed: str, *, speaks: bool | None) -> None:
        """`speaks` is whether it alone writes to the block's memory and kind; None without a
        swarm.
        """
        self.name, self.faces, self.model, self.chance = (
            name,
            faces,
            Model(),
            random.Random(f"{seed} {name}"),
        )
        self.shared, self.told, self._count = "", "", 0
        self.done: list[str] = []  # its latest steps, for debugging
        self._steps: list[tuple[int, Callable[[], None]]] = [
            (10, self._create),
            (8, self._update),
            (6, self._append),
            (6, self._delete),
            (8, self._restore),
            (2, self._stale),
            (3, self._absent),
            (2, self._create_memory),
            (2, self._update_memory),
            (1, self._delete_memory),
            (10, self._write_entry),
            (4, self._grow_entry),
            (4, self._update_entry),
            (3, self._delete_entry),
            (4, self._refile_entry),
            (4, self._share),
            (1, self._fleet),
        ]
        if speaks is not None:
            self._steps += [(4, self._say_write), (3, self._say_append), (3, self._say_delete)]
        if speaks:
            self._steps += [(3, self._say_sweepable), (1, self._say_sweep), (5, self._say_remember)]

    def run(self, count: int) -> None:
        """Make so many steps."""
        steps, weights = [step for _, step in self._steps], [weight for weight, _ in self._steps]
        for _ in range(count):
            step = self.chance.choices(steps, weights)[0]
            self.done = [*self.done[-20:], step.__name__]
            step()

    def call(self, op: str, **given: Any) -> Any:
        """Return the output. Raises AssertionError if the call is refused."""
        refusal, told = self._ask(op, given)
        assert not refusal, f"{self.name}: {op} {given} is refused: {refusal}: {told}"
        return told

    def refused(self, op: str, **given: Any) -> str:
        """Return the code of a refusal."""
        refusal, told = self._ask(op, given)
        assert refusal, f"{self.name}: {op} {given} should be refused, and gave {told}"
        return refusal

    def _ask(self, op: str, given: dict[str, Any]) -> tuple[str, Any]:
        faces = self.chance.sample(["rest", "bus"], 2)
        self.done[-1] += f" {op} {given}"
        ask = self.faces.call_twice if self.chance.random() < 0.1 else self.faces.call
        return ask(op, given, faces)

    def _text(self) -> str:
        return " ".join(self.chance.choices(WORDS, k=self.chance.randint(1, 4)))

    def _fact(self) -> str:
        """Return one of few facts that share no two words."""
        at = self.chance.randrange(12)
        text = f"{WORDS[at]} {WORDS[at + 12]} {self.name}"
        return self.chance.choice([text, text, text.upper(), f" {text}. ", text.replace(" ", "\t")])

    def _some(self, lives: list[Life]) -> Life | None:
        fit = [life for life in lives if len(life.states) < MOST_STATES]
        return self.chance.choice(fit) if fit else None

    def _reason(self) -> dict[str, str]:
        return {"reason": self._text()} if self.chance.random() < 0.3 else {}

    def _held(self, life: Life, told: State, *, known: bool = True) -> None:
        """Check a returned record against the model, and keep its version."""
        held = {name: value for name, value in told.items() if name not in (*TIMES, "guid")}
        assert told["guid"] == life.guid and held == life.now, (
            f"{self.name}: {life.guid} is {held}, and should be {life.now}"
        )
        life.version = told["version"] if known else ""

    def _state(self, content: str, **fields: Any) -> State:
        store = f"instances/{self.faces.uid}/memories"
        return {
            "content": content,
            "kind": "observation",
            "scope": store,
            "source": ACTOR,
            "tags": [],
            "key": None,
            "owner": None,
            "data": {},
            "in_context": False,
            "expires_at": None,
            "thread": None,
            "seq": None,
        } | fields

    # records

    def _create(self) -> None:
        if len(self.model.there()) > MOST_RECORDS:
            self._delete()
            return
        given = {"content": self._text()} | self._fields()
        if self.chance.random() < 0.3:
            given["thread"] = f"{self.name} talks"
        told = self.call("records.create", **given)
        state = self._state(**given)
        if state["thread"]:
            seqs = [
                life.last["seq"]
                for life in self.model.there(lambda one: one["thread"] == state["thread"])
            ]
            assert told["seq"] > max(
                seqs, default=-1
            )  # within one transaction, a position is not reused
            state["seq"] = told["seq"]
        self._held(self.model.create(told["guid"], state), told)

    def _fields(self) -> State:
        """Return some random fields of a record."""
        some: State = {
            "kind": self.chance.choice(["note", "fact", "user-name"]),
            "scope": f"{self.name}-scope",
            "source": self.name,
            "tags": self.chance.sample(WORDS, 2),
            "key": self._text(),
            "owner": self.name,
            "data": {"n": self.chance.randrange(9), "deep": {"er": [self._text()]}},
            "in_context": True,
            "expires_at": moment(self.faces.now_ms() + 86_400_000),
        }
        return {
            name: some[name]
            for name in self.chance.sample(list(some), self.chance.choice([0, 1, 3, 9]))
        }

    def _update(self) -> None:
        life = self._some(self.model.there())
        if life is None:
            return
        given = self._fields() | ({"content": self._text()} if self.chance.random() < 0.6 else {})
        if self.chance.random() < 0.2:
            given |= {"expires_at": "", "key": "", "data": {}, "in_context": False}
        more: dict[str, Any] = self._reason()
        if life.version and self.chance.random() < 0.5:
            more["if_version"] = [life.version]
        told = self.call("records.update", guid=life.guid, **given, **more)
        values = {name: None if value == "" else value for name, value in given.items()}
        self.model.change(life, "update", ACTOR, more.get("reason"), **values)
        self._held(life, told)

    def _stale(self) -> None:
        """Change a record with an outdated version."""
        life = self._some(self.model.there())
        if life is not None:
            op, more = self.chance.choice(
                [("update", {"content": "never"}), ("delete", {}), ("restore", {"number": 1})]
            )
            assert (
                self.refused(f"records.{op}", guid=life.guid, if_version=["5-5"], **more)
                == "version_differs"
            )

    def _absent(self) -> None:
        """Change a missing record."""
        life = self._some(self.model.deleted())
        guid = life.guid if life else "0" * 8
        op, more = self.chance.choice(
            [("update", {"content": "never"}), ("delete", {}), ("append", {"content": "never"})]
        )
        assert self.refused(f"records.{op}", guid=guid, **more) == "not_found"

    def _append(self) -> None:
        life = self._some(self.model.there())
        if life is None or len(life.text) > 2000:
            return
        text, separator, more = self._text(), self.chance.choice(["\n", " ", ""]), self._reason()
        told = self.call(
            "records.append", guid=life.guid, content=text, separator=separator, **more
        )
        assert told == {"guid": life.guid, "created": False}
        self.model.change(
            life, "append", ACTOR, more.get("reason"), content=life.text + separator + text
        )

    def _delete(self) -> None:
        life = self._some(self.model.there())
        if life is not None:
            more = self._reason()
            given = more | (
                {"if_version": [life.version]}
                if life.version and self.chance.random() < 0.5
                else {}
            )
            assert self.call("records.delete", guid=life.guid, **given) is None
            self.model.delete(life, ACTOR, more.get("reason"))

    def _restore(self) -> None:
        life = self._some(
            self.model.deleted() if self.chance.random() < 0.6 else self.model.there()
        )
        if life is None:
            return
        number = self.chance.choice([None, *life.restorable(), len(life.states) + 1])
        given, more = ({} if number is None else {"number": number}), self._reason()
        if number is None and life.now is not None:
            assert self.refused("records.restore", guid=life.guid, **more) == "refused"
        elif number is not None and number not in life.restorable():
            assert self.refused("records.restore", guid=life.guid, **given) == "not_found"
        else:
            told = self.call("records.restore", guid=life.guid, **given, **more)
            self.model.restore(life, number, ACTOR, more.get("reason"))
            self._held(life, told)

    def _fleet(self) -> None:
        """Create a short-lived record that nobody changes."""
        end_ms = self.faces.now_ms() + FLEETING_MS
        given = {"content": self._text(), "kind": "fleeting", "expires_at": moment(end_ms)}
        refusal, told = self._ask("records.create", given)
        if refusal:  # it expired first
            assert self.faces.now_ms() > end_ms, told
        else:
            self.model.fleeting[told["guid"]] = (self._state(**given), end_ms)

    # named memories

    def _create_memory(self) -> None:
        if len(self.model.memories) < 6:
            given = {
                "name": self._text(),
                "description": self.chance.choice([None, self._text()]),
                "tags": self.chance.choice([None, [self.name, *self.chance.sample(WORDS, 1)]]),
            }
            told = self.call(
                "memories.create",
                **{name: value for name, value in given.items() if value is not None},
            )
            assert {name: told[name] for name in given} == given
            self.model.memories[told["id"]] = given

    def _memory(self, grows: bool | None = None) -> str:
        """Return an existing memory; every second one has a single growing entry. "" if there is
        none.
        """
        found = [
            ident
            for at, ident in enumerate(self.model.memories)
            if ident != self.told and grows in (None, int(ident[-1], 16) % 2 == 0)
        ]
        return self.chance.choice(found) if found else ""

    def _update_memory(self) -> None:
        if ident := self._memory():
            given = {"name": self._text(), "tags": self.chance.sample(WORDS, 2)}
            told = self.call("memories.update", id=ident, clear=["description"], **given)
            self.model.memories[ident] |= given | {"description": None}
            assert {name: told[name] for name in given} == given and told["description"] is None

    def _delete_memory(self) -> None:
        ident = self.told if self.told and self.chance.random() < 0.3 else self._memory()
        if ident:
            assert self.call("memories.delete", id=ident) is None
            self.model.delete_memory(ident, ACTOR)
            self.told = "" if ident == self.told else self.told
            assert self.refused("entries.create", memory_id=ident, content="never") == "not_found"

    def _write_entry(self) -> None:
        """Write an entry: it is created, or it exists."""
        memory = self._memory(grows=False)
        if not memory:
            self._create_memory()
            return
        fact, mode = (
            self._fact(),
            self.chance.choice([None, None, "skip", "create", "merge", "supersede"]),
        )
        given: dict[str, Any] = {
            "memory_id": memory,
            "content": fact,
            "duplicate_threshold": 1,
            "update_threshold": NEVER,
        }
        given |= ({"mode": mode} if mode else {}) | (
            {"tags": [self.name]} if self.chance.random() < 0.3 else {}
        )
        told = self.call("entries.create", **given)
        self._entry_is(told, memory, fact, created=mode == "create", tags=given.get("tags", []))

    def _entry_is(
        self, told: State, memory: str, fact: str, *, created: bool, **fields: Any
    ) -> None:
        """Check that a write created an entry or confirmed the equal one."""
        known = None if created else self.model.same(memory, fact)
        guid = guid_of(told)
        assert told["action"] == ("skipped" if known else "created"), (
            f"{self.name}: {fact!r} was {told}"
        )
        if known is None:
            known = self.model.create(
                guid, self._state(fact, scope=memory, kind=ENTRY, **{"source": "manual"} | fields)
            )
        else:
            known.confirmations += 1
        self._entry_held(known, told)

    def _entry_held(self, life: Life, told: State) -> None:
        assert life.now is not None
        held = (
            guid_of(told),
            told["memory_id"],
            told["content"],
            told["source"],
            told["tags"],
            told["confirmations"],
        )
        now = life.now
        wanted = (
            life.guid,
            now["scope"],
            now["content"],
            now["source"],
            now["tags"],
            life.confirmations,
        )
        assert held == wanted, f"{self.name}: an entry is {held}, and should be {wanted}"
        life.version = told["version"]

    def _grow_entry(self) -> None:
        """Append to the only entry of a memory, or replace it."""
        memory = self._memory(grows=True)
        there = self.model.entries(memory) if memory else []
        if not memory or len(there) > 1 or any(len(life.states) >= MOST_STATES for life in there):
            return
        fact, mode = self._fact(), self.chance.choice(["merge", "supersede"])
        told = self.call(
            "entries.create",
            memory_id=memory,
            content=fact,
            mode=mode,
            update_threshold=0,
            duplicate_threshold=NEVER if mode == "merge" else 1,
            source="extraction",
            tags=[WORDS[0]],
        )
        if not there:
            self._entry_is(told, memory, fact, created=True, source="extraction", tags=[WORDS[0]])
            return
        (life,) = there
        content = added(life.text, fact) if mode == "merge" else fact
        known = life.text == content or (
            mode == "supersede" and self.model.same(memory, fact) is not None
        )
        assert told["action"] == ("skipped" if known else "updated"), (
            f"{self.name}: {fact!r} to {life.text!r} was {told}"
        )
        if known:
            life.confirmations += 1
        else:
            source = {"source": "extraction"} if mode == "supersede" else {}
            tags = list(dict.fromkeys([*life.last["tags"], WORDS[0]]))
            self.model.change(life, "update", ACTOR, None, content=content, tags=tags, **source)
        self._entry_held(life, told)

    def _some_entry(self) -> Life | None:
        """Return an entry of an existing memory."""
        return self._some(
            self.model.there(
                lambda one: one["kind"] == ENTRY and one["scope"] in self.model.memories
            )
        )

    def _update_entry(self) -> None:
        life = self._some_entry()
        if life is not None:
            given = self.chance.choice([{"content": self._fact()}, {"tags": [self.name, "x"]}])
            told = self.call(
                "entries.update", id=self._id(life), memory_id=life.last["scope"], **given
            )
            self.model.change(life, "update", ACTOR, None, **given)
            self._entry_held(life, told)

    def _delete_entry(self) -> None:
        life = self._some_entry()
        if life is not None:
            assert self.call("entries.delete", id=self._id(life)) is None
            self.model.delete(life, ACTOR)

    def _refile_entry(self) -> None:
        """Change entries by record operations: an entry becomes a plain record, moves, or a
        record becomes an entry.
        """
        life, memory = self._some(self.model.there()), self._memory()
        if life is None or not memory:
            return
        is_entry = life.last["kind"] == ENTRY
        change = (
            {"kind": "note"}
            if is_entry and self.chance.random() < 0.5
            else {"kind": ENTRY, "scope": memory}
        )
        change |= {"source": "manual"}
        told = self.call("records.update", guid=life.guid, **change)
        self.model.change(life, "update", ACTOR, None, **change)
        self._held(life, told)

    def _share(self) -> None:
        """Write a fact that all callers write."""
        fact = f"{self.chance.choice(WORDS[:12])} belongs to everyone"
        told = self.call(
            "entries.create",
            memory_id=self.shared,
            content=fact,
            duplicate_threshold=1,
            update_threshold=NEVER,
        )
        assert told["content"] == fact
        self.model.written[plain(fact)] += 1

    def _id(self, life: Life) -> str:
        return f"me_{self.faces.uid}_{life.guid.replace('-', '')}"

    # messages on the swarm

    def _say_write(self) -> None:
        text = f"{self.name} {self._text()}"
        self.done[-1] += f" {text}"
        told = self.faces.say(f"/write {text}", "memory_write")
        self.model.create(told["guid"], self._state(text, source="memory_write"))

    def _say_append(self) -> None:
        """Append to the journal that all callers share."""
        self._count += 1
        token = f"{self.name}.{self._count}"
        self.faces.say(f"/append {token}", "memory_append")
        self.model.tokens.append(token)

    def _say_delete(self) -> None:
        life = self._some(list(self.model.lives.values()))
        if life is not None:
            told = self.faces.say(f"/delete {life.guid}", "memory_delete")
            assert told == {"deleted": int(life.now is not None)}, (
                f"{self.name}: /delete {life.guid}: {told}"
            )
            if life.now is not None:
                self.model.delete(life, "memory_delete")

    def _say_sweepable(self) -> None:
        text = self._text()
        told = self.faces.say(f"/sweepable {text}", "sweepable")
        self.model.create(told["guid"], self._state(text, source="sweepable", kind="swept"))

    def _say_sweep(self) -> None:
        gone = self.model.there(lambda one: one["kind"] == "swept")
        told = self.faces.say("/sweep", "sweep")
        assert told == {"deleted": len(gone)}, f"/sweep: {told}, and there were {len(gone)}"
        for life in gone:
            self.model.delete(life, "sweep")

    def _say_remember(self) -> None:
        fact = self._fact().lstrip()
        told = self.faces.say(f"/remember {fact}", "remember")
        if told["memory_id"] != self.told:
            assert not self.told and told["memory_id"] not in self.model.memories, told
            self.told = told["memory_id"]
            self.model.memories[self.told] = {"name": TOLD, "description": None, "tags": None}
        self._entry_is(told, self.told, fact, created=False, source="agent")
