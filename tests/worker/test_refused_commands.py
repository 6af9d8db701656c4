"""Commands that the server refuses within a MULTI are logged, and their inbox rows stay."""

from tests.support.bundles import make_bundle, make_uid
from tests.support.client import input_of, make_envelope, swarm_of
from tests.support.system import TestSystem
from tests.support.waiting import wait_for


def test_a_refused_message_is_sent_when_it_comes_back() -> None:
    uid = make_uid()
    with TestSystem() as system:
        worker, redis = system.start_worker(bundles=[make_bundle(uid)]), system.client.redis
        system.client.ask(uid, "/write tea")
        redis.rename(swarm_of(uid, "chat"), "aside")
        redis.set(swarm_of(uid, "chat"), "no log")
        refused = system.client.enter(uid, "/write milk")
        system.client.await_done(uid, refused)
        wait_for(lambda: "server_refused_commands" in worker.output, "the worker logs it")
        redis.delete(swarm_of(uid, "chat"))
        for text in ("one", "two", "three"):  # the next batch deletes settled inbox rows
            system.client.ask(uid, f"/write {text}")

        with redis.pipeline(transaction=True) as pipe:  # as in an older file of the server
            pipe.delete(input_of(uid))
            pipe.xadd(
                input_of(uid), {"swarm": "chat", "data": make_envelope("/write milk")}, id=refused
            )
            pipe.execute()
        system.client.await_done(uid, refused)

        assert system.contents(uid) == ["tea", "milk", "one", "two", "three"]
        assert [said.sender for said in system.client.log(uid) if said.input == refused] == [
            "User",
            "dispatch_write",
            "memory_write",
        ]
        assert system.dead_letters(uid) == []
