"""An input without its last entries, as after a failover to a replica with a slow clock."""

from tests.support.bundles import make_bundle, make_uid
from tests.support.client import input_of, make_envelope
from tests.support.system import TestSystem
from tests.support.waiting import wait_for


def lose_tail(system: TestSystem, uid: str) -> None:
    """Delete the input and cut the connections; return when the worker is back."""
    served = system.workers[-1].output.count("pipelines_served")
    system.client.redis.delete(input_of(uid))
    system.client.redis.client_kill_filter(_type="normal", skipme=True)
    wait_for(
        lambda: system.workers[-1].output.count("pipelines_served") > served, "the worker is back"
    )


def test_a_new_message_never_gets_the_id_of_a_lost_one() -> None:
    uid = make_uid()
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)])
        at = system.client.enter(uid, "/write lost").partition("-")[0]
        system.client.await_quiet(uid)

        lose_tail(system, uid)
        wait_for(
            lambda: "input_had_lost_entries" in system.workers[-1].output, "the worker logs it"
        )
        system.client.enter_raw(
            uid, make_envelope("/write new"), ident=f"{at}-*"
        )  # as if the clock showed that time again
        system.client.await_quiet(uid)

        assert system.contents(uid) == ["lost", "new"]
        assert not system.dead_letters(uid)
