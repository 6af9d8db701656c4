"""users.forget leaves no bytes of the user in any file, and everything of other users."""

from base64 import b64encode
from typing import Any

import orjson
import pytest
from msgspec import msgpack

from tests.support.bundles import STORE, make_agent, make_bundle, make_uid
from tests.support.calls import call, refused
from tests.support.erasures import await_erasure, files_with
from tests.support.system import TestSystem

TELEGRAM_ID, NAME = 7712345678, "Zwitscherling"
USER, MAIL = f"telegram:{TELEGRAM_ID}", "zwitscherling@example.org"
TRIGGER = {"message": {"from": {"id": TELEGRAM_ID, "first_name": NAME}, "text": "good morning"}}
OTHER = {"message": {"from": {"id": 77123456789, "first_name": "Bob"}}}
# Bob's id begins with the same digits.
WORDS = (
    b"zwitscherling",
    b"good morning",
    *(f"{TELEGRAM_ID}{after}".encode() for after in ('"', ":", ",", "\\", " ")),
)


def say(system: TestSystem, uid: str, trigger: dict[str, Any]) -> None:
    system.client.ask(uid, orjson.dumps(trigger).decode())


def put_thread(system: TestSystem, uid: str, thread: str, *texts: str) -> None:
    """Store a checkpoint whose messages are these texts."""
    values = [b"\0" + part for part in (msgpack.encode({"id": "1"}), *map(msgpack.encode, texts))]
    given = {
        "id": "1",
        "agent": "agent_",
        "thread": thread,
        "channels": [{"name": "messages", "type": "msgpack", "items": len(texts)}],
        "size": len(values[0]),
        "parts": [[len(value)] for value in values[1:]],
        "data": b64encode(b"".join(values)).decode(),
    }
    call(system, uid, "checkpoints.put", given)


def fill(system: TestSystem, uid: str) -> None:
    """Store all that belongs to the user, and what belongs to Bob."""
    for trigger in (TRIGGER, OTHER):
        say(system, uid, trigger)
    call(system, uid, "users.identify", {"channel": "email", "channel_id": MAIL})
    for user, owner in ((MAIL, f"email:{MAIL}"), ("hello", USER), ("bob", "telegram:77123456789")):
        fact = {"key": "likes", "value": f"{user} likes tea", "scope": "user", "user_id": owner}
        call(system, uid, "facts.set", fact)
        call(system, uid, "facts.set", fact | {"value": f"{user} likes cake"})
        begun = {"agent_id": "workflow:a", "user_id": owner, "trigger_input": {"said by": owner}}
        guid = call(system, uid, "episodes.begin", begun)["id"]
        call(system, uid, "episodes.add", {"id": guid, "text": f"a step of {owner}"})
        call(system, uid, "episodes.complete", {"id": guid, "success": True})
        put_thread(system, uid, f"{owner}:w", f"{owner} speaks", "more")
    put_thread(system, uid, "exec:1:agent_", f"hello from {USER}", "kept by all")
    call(system, uid, "users.merge", {"id": f"email:{MAIL}", "into": USER})
    say(system, uid, TRIGGER)


@pytest.fixture(scope="module")
def forgotten() -> Any:
    """A system in which a user was forgotten, its pipeline, the answer, and the files before."""
    with TestSystem() as system:
        uid = make_uid()
        system.start_worker(
            bundles=[make_bundle(uid, make_agent("who", "identify_user", {}, senders="User"))]
        )
        fill(system, uid)
        before = {word: files_with(system, word) for word in WORDS}
        answered = call(system, uid, "users.forget", {"id": f"email:{MAIL}", "reason": "asked"})
        ended = await_erasure(system, uid)
        yield system, uid, answered, before, ended


def test_no_file_holds_bytes_of_the_user(forgotten: Any) -> None:
    system, _, answered, before, ended = forgotten

    for word, part in ((WORDS[0], "memories.db"), (WORDS[0], "appendonly"), (WORDS[1], "only")):
        assert any(part in name for name in before[word]), before
    assert all(before[word] for word in WORDS)
    assert answered["records"] == 2 + 2 + 2 + 2 and answered["checkpoints"] == 2
    assert ended["left_over"] == "" and ended["reason"] == "asked"
    assert {word: files_with(system, word) for word in WORDS} == {word: [] for word in WORDS}


def test_other_users_keep_all(forgotten: Any) -> None:
    system, uid, *_ = forgotten
    bob = "telegram:77123456789"

    listed = call(system, uid, "users.list")["items"]
    fact = call(system, uid, "facts.get", {"key": "likes", "user_id": bob})
    episodes = call(system, uid, "episodes.list")["items"]

    assert [one["canonical_id"] for one in listed] == [bob]
    assert fact["value"] == "bob likes cake" and [one["user_id"] for one in episodes] == [bob]
    (step,) = call(system, uid, "episodes.get", {"id": episodes[0]["id"]})["steps"]
    assert step["text"] == f"a step of {bob}"
    threads = call(system, uid, "checkpoints.list")["items"]
    assert {one["thread"] for one in threads} == {"exec:1:agent_", f"{bob}:w"}
    kept = system.rows(uid, "SELECT value FROM checkpoint_values")
    assert sorted(bytes(value) for (value,) in kept) == sorted(
        b"\0" + msgpack.encode(text) for text in ("kept by all", f"{bob} speaks", "more")
    )
    assert any('"id":77123456789' in said.text for said in system.client.log(uid))


def test_a_forgotten_user_is_new_again(forgotten: Any) -> None:
    system, uid, *_ = forgotten
    known = call(system, uid, "users.context", {"id": USER})
    assert known["is_new"] is True and known["facts"] == []


def test_another_store_can_be_named(forgotten: Any) -> None:
    system, uid, *_ = forgotten
    store = STORE.replace("${pipeline_uid}", uid)
    answered = call(system, uid, "users.forget", {"id": "chat:nobody"}, store=store)
    assert answered == {"records": 0, "versions": 0, "checkpoints": 0}
    assert refused(system, uid, "users.forget", {"id": ""})[0] == "refused"
